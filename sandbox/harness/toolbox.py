"""A pod that mounts the warehouse: files are brought in, listed and read through it, so that any cluster will do."""

import base64
import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandbox.harness.cluster import Cluster
from sandbox.harness.namespaces import CONTAINER_SECURITY, POD_SECURITY, WAREHOUSE_MOUNT, WAREHOUSE_VOLUME
from sandbox.harness.places import StorageKind
from sandbox.harness.settings import S3_CLIENT, S3_CLIENT_MOUNT, S3_ENDPOINT, Settings
from sandbox.harness.wait import wait_until

NAME = "toolbox"
_ROWS = Path(__file__).with_name("rows.py")
_ROOT = Path(__file__).parents[2]
TOOLS = "/tmp/tools"  # noqa: S108 - the pod's own
_TOOL_FILES = (
    *(f"sandbox/{package}__init__.py" for package in ("", "harness/", "hdfs/", "s3/")),
    *(f"sandbox/{module}.py" for module in ("harness/place_tool", "harness/places", "hdfs/path", "s3/path")),
)
_S3_VOLUME = {"name": "s3-client", "secret": {"secretName": S3_CLIENT}}
_S3_MOUNT = {"name": "s3-client", "mountPath": S3_CLIENT_MOUNT, "readOnly": True}
_S3_ENVIRONMENT = [
    {"name": "AWS_ENDPOINT_URL_S3", "value": S3_ENDPOINT},
    {"name": "AWS_DEFAULT_REGION", "value": "us-east-1"},
    {"name": "AWS_SHARED_CREDENTIALS_FILE", "value": f"{S3_CLIENT_MOUNT}/credentials"},
]
_TOOL = ("env", f"PYTHONPATH={TOOLS}", "python3", "-m", "sandbox.harness.place_tool")
_UNPACK = 'umask 0002; mkdir -p "$1" && tar -x -f - -C "$1" --no-same-owner'


class Toolbox:
    """The pod `toolbox` of the demo's namespace; places are URIs such as file:/warehouse/demo.db/try_it, or paths."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._namespace = settings.namespace
        self._image = settings.operator_image
        self._storage = settings.storage

    def start(self, *, timeout: float = 120.0) -> None:
        """Make the pod, or a new one when the old one has another image, and wait until it runs."""
        old = self._cluster.get("pod", NAME, namespace=self._namespace)
        if old and (old["spec"]["containers"][0]["image"] != self._image or not _ready(old)):
            self.stop()
        self._cluster.apply(_manifest(self._namespace, self._image, self._storage))
        wait_until(self._is_ready, timeout=timeout, what=f"pod {NAME}")

    def stop(self) -> None:
        """Remove the pod."""
        self._cluster.kubectl("delete", "pod", NAME, "-n", self._namespace, "--ignore-not-found", "--grace-period=0")

    def run(self, *command: str, stdin: str | bytes | None = None, timeout: float = 120.0) -> str:
        """Return what a command in the pod prints; raises CommandError."""
        return self._cluster.kubectl(
            "exec", "-i", "-n", self._namespace, NAME, "--", *command, stdin=stdin, timeout=timeout
        )

    def write(self, place: str, files: Mapping[str, bytes]) -> None:
        """Write files, by their path below the place, which is made; all their directories can be changed by all."""
        self._unpack(place, _archive(files))

    def put(self, place: str, folder: Path) -> None:
        """Copy a folder of this machine, with the times of its files, to a place where nothing is yet."""
        self._unpack(place, _archive_of(folder))

    def read(self, place: str) -> dict[str, bytes]:
        """Return all files below a place by their path there."""
        text = self._look((place,), "sh", "-c", 'tar -c -f - -C "$1" . | base64', "sh", self._path(place))
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(text))) as archive:
            files = {member.name: archive.extractfile(member) for member in archive.getmembers()}
            return {name.removeprefix("./"): file.read() for name, file in files.items() if file is not None}

    def remove(self, place: str) -> None:
        """Delete a directory with all in it."""
        self.run("rm", "-rf", self._path(place))

    def names(self, place: str) -> set[str]:
        """Return the names in a directory, those that begin with a dot or underscore too."""
        return set(self._look((place,), "ls", "-A", self._path(place)).split("\n")) - {""}

    def listing(self, place: str) -> str:
        """Return all files below a place with their sizes, one a line, as a person would want to read them."""
        find = 'cd "$1" && find . -type f -printf "%8s %P\\n" | sort -k 2'
        return self._look((place,), "sh", "-c", find, "sh", self._path(place))

    def rows(self, txns: str, write_ids: str, *places: str) -> list[str]:
        """Return what a reader with these valid transactions and write ids sees (see rows.py).

        Each row has its ROW__ID, as JSON.
        """
        command = ("python3", "-", txns, write_ids, *map(self._path, places))
        return self._look(places, *command, stdin=_ROWS.read_text()).splitlines()

    def _path(self, place: str) -> str:
        """Where commands in the pod find a place."""
        return "/" + place.removeprefix("file:").lstrip("/")

    def _unpack(self, place: str, archive: bytes) -> None:
        self.run("sh", "-c", _UNPACK, "sh", self._path(place), stdin=archive)

    def _look(self, places: Sequence[str], *command: str, stdin: str | None = None) -> str:  # noqa: ARG002 - all mounted
        """Return what a command prints that reads these places."""
        return self.run(*command, stdin=stdin)

    def _is_ready(self) -> bool:
        pod = self._cluster.get("pod", NAME, namespace=self._namespace)
        return pod is not None and _ready(pod)


class StoreToolbox(Toolbox):
    """The same for places on HDFS and S3. What is read or written lies on the pod's own disk for a while."""

    def start(self, *, timeout: float = 120.0) -> None:
        """Make the pod, and bring in what copies its files."""
        super().start(timeout=timeout)
        self.bring_tools()

    def bring_tools(self) -> None:
        """Bring in the few modules that copy files."""
        files = _archive({name: (_ROOT / name).read_bytes() for name in _TOOL_FILES})
        self.run("sh", "-c", _UNPACK, "sh", TOOLS, stdin=files)

    def remove(self, place: str) -> None:
        """Delete a directory with all in it."""
        self.run(*_TOOL, "remove", place)

    def _path(self, place: str) -> str:
        return f"/tmp/copies/{place.partition('://')[2]}"  # noqa: S108 - the pod's own

    def _unpack(self, place: str, archive: bytes) -> None:
        script = f'{_UNPACK} && shift && exec "$@"'
        folder = self._path(place)
        self.run("sh", "-c", script, "sh", folder, *_TOOL, "put", folder, place, stdin=archive)

    def _look(self, places: Sequence[str], *command: str, stdin: str | None = None) -> str:
        pairs = [argument for place in places for argument in (place, self._path(place))]
        return self.run(*_TOOL, "get", *pairs, "--", *command, stdin=stdin)


def toolbox_of(cluster: Cluster, settings: Settings) -> Toolbox:
    """Return the toolbox for where the tables lie."""
    return (Toolbox if settings.storage == "file" else StoreToolbox)(cluster, settings)


def _ready(pod: Mapping[str, Any]) -> bool:
    statuses = pod["status"].get("containerStatuses") or ()
    return "deletionTimestamp" not in pod["metadata"] and any(status["ready"] for status in statuses)


def _archive(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o664
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _archive_of(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, arcname=".")
    return buffer.getvalue()


def _manifest(namespace: str, image: str, storage: StorageKind) -> dict[str, Any]:
    s3 = storage == "s3"
    container = {
        "name": NAME,
        "image": image,
        "command": ["sleep", "infinity"],
        "securityContext": CONTAINER_SECURITY,
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "volumeMounts": [WAREHOUSE_MOUNT, *([_S3_MOUNT] if s3 else [])],
        "env": _S3_ENVIRONMENT if s3 else [],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": POD_SECURITY,
            "containers": [container],
            "volumes": [WAREHOUSE_VOLUME, *([_S3_VOLUME] if s3 else [])],
        },
    }
