"""What tests and the demo know of the running sandbox: its addresses, folders and images, and a few commands on it."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from sandbox.cache import cache_folder
from sandbox.harness.places import StorageKind

HERE = Path(__file__).resolve().parent
POD_UID = 185
"""User and group of every pod that touches the warehouse."""


class SandboxDownError(Exception):
    """The sandbox does not run."""


@dataclass(frozen=True)
class Sandbox:
    """A running sandbox, as seen from the machine."""

    kubeconfig: Path
    binaries: Path
    """Folder of kubectl and helm."""
    storage: StorageKind
    """Where the tables lie."""
    warehouse: Path
    """The folder that pods see at /warehouse and, with tables in files, the metastore calls file:///warehouse."""
    metastore_uri: str
    """Thrift address of the metastore on the machine's loopback."""
    metastore_uri_in_cluster: str
    operator_image: str
    """This clone's image of Spark and, if need be, the controller; the node has it."""

    @property
    def controller_image(self) -> str:
        """This clone's image of the controller alone; the node has it. `images.sh` builds both of the same sources."""
        return self.operator_image.replace("compaction-operator:", "compaction-operator-controller:")

    def environment(self) -> dict[str, str]:
        """Return this process's environment with KUBECONFIG set, and kubectl and helm of the sandbox on the PATH."""
        path = f"{self.binaries}{os.pathsep}{os.environ.get('PATH', '')}"
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": path}

    def run(self, *command: str, stdin: str | None = None) -> str:
        """Run kubectl, helm or another program and return its output; CalledProcessError when it fails.

        The error's message on standard error stays visible.
        """
        done = subprocess.run(
            command, env=self.environment(), input=stdin, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout

    def claim_warehouse(self, namespace: str, storage: StorageKind) -> None:
        """Give a namespace, made when missing, what its pods need to reach tables, and the restricted pod profile."""
        subprocess.run([HERE / "warehouse-claim.sh", namespace, storage], check=True)

    def start_warehouse(self, storage: StorageKind, namespace: str) -> None:
        """Start the store, unless it runs, and in a namespace a metastore for tables on it."""
        subprocess.run([HERE / "warehouse.sh", storage, namespace], check=True)

    def put(self, tree: Path, location: str) -> Path:
        """Copy a folder into the warehouse, owned by the pods' user; FileExistsError when the location is taken.

        `location` is relative to the warehouse, e.g. "demo.db/try_it/prt=p1". Returns the folder on the machine.
        """
        target = self.warehouse / location
        first_new = next(path for path in [*reversed(target.parents), target] if not path.exists())
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(tree, target)
        for path in [first_new, *first_new.rglob("*")]:
            os.chown(path, POD_UID, POD_UID, follow_symlinks=False)
        return target


def state_folder() -> Path:
    """Return the folder that holds the state of this cache's one sandbox (it may not be there)."""
    return cache_folder() / "state"


def running_sandbox() -> Sandbox:
    """Return the running sandbox. SandboxDownError when none runs; OSError when its settings cannot be read."""
    try:
        lines = (state_folder() / "env").read_text().splitlines()
    except FileNotFoundError:
        raise SandboxDownError("the sandbox is not up; run: make sandbox-up") from None
    settings = dict(line.split("=", 1) for line in lines)
    return Sandbox(
        kubeconfig=Path(settings["KUBECONFIG"]),
        binaries=Path(settings["SANDBOX_BIN"]),
        storage=cast("StorageKind", settings["SANDBOX_STORAGE"]),
        warehouse=Path(settings["SANDBOX_WAREHOUSE"]),
        metastore_uri=settings["SANDBOX_METASTORE"],
        metastore_uri_in_cluster=settings["METASTORE_URI"],
        operator_image=os.environ.get("SANDBOX_IMAGE", settings["OPERATOR_IMAGE"]),
    )
