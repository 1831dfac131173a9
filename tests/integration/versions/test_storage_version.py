"""v1alpha1 becomes v1beta1 in etcd while the operator works, by the commands of docs/lifecycle.md."""

import json
import os
import re
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from sandbox.harness.expected import AFTER_INSERTS_MINOR
from sandbox.harness.wait import wait_until
from sandbox.plane import Plane
from sandbox.plane.control import binaries
from sandbox.plane.install import NAMESPACE

from compaction_operator.api.compaction import CleanupPhase
from compaction_operator.api.model import GROUP, VERSION
from tests.integration.metastore.fixture_table import FixtureTable, inserted

ROOT = Path(__file__).parents[3]
CRDS = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob(f"{GROUP}_*.yaml"))]
NAMES = [crd["metadata"]["name"] for crd in CRDS]
NEXT = "v1beta1"
SECONDS = 120.0
"""What a step may take here: how fast the machine is is not asked."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with Plane(tmp_path_factory.mktemp("plane"), spark=False) as made:
        yield made


@pytest.fixture
def tables(plane: Plane) -> Iterator[tuple[FixtureTable, FixtureTable]]:
    """Two tables of three inserts."""
    admin = plane.admin()
    with inserted(admin, plane.metastore, "one") as one, inserted(admin, plane.metastore, "two") as two:
        yield one, two


def definitions(*served: str, storage: str) -> str:
    """Return the CRDs with these versions, which differ in their names only."""
    made = json.loads(json.dumps(CRDS))
    for crd in made:
        (version,) = crd["spec"]["versions"]
        crd["spec"]["versions"] = [{**version, "name": name, "storage": name == storage} for name in served]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": made})


def apply(plane: Plane, crds: str, *options: str) -> None:
    plane.control.kubectl("apply", "--server-side", "--force-conflicts", *options, "-f", "-", stdin=crds)


def refused(plane: Plane, crds: str) -> bool:
    """Whether the API server refuses CRDs, as it has objects of a version that they do not have."""
    command = [str(binaries() / "kubectl"), "--kubeconfig", str(plane.control.kubeconfig)]
    command += ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-"]
    done = subprocess.run(command, input=crds, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or done.stderr.count("status.storedVersions[0]: Invalid value") == len(CRDS)
    return done.returncode != 0


def rewrite(plane: Plane, version: str) -> None:
    """Run the commands of the page, for another version if need be."""
    page = (ROOT / "docs" / "lifecycle.md").read_text()
    (commands,) = re.findall(r"^ *```console\n( *kubectl annotate .*?)^ *```$", page, re.MULTILINE | re.DOTALL)
    given = {"PATH": f"{binaries()}:{os.environ['PATH']}", "KUBECONFIG": str(plane.control.kubeconfig)}
    script = textwrap.dedent(commands).replace(NEXT, version)
    subprocess.run(["bash", "-c", script], env={**os.environ, **given}, check=True, timeout=SECONDS)


def versions(plane: Plane) -> dict[str, str]:
    """Return in which version etcd has each object, by its name."""
    return {
        key.rpartition("/")[2]: one["apiVersion"].removeprefix(f"{GROUP}/")
        for key, one in plane.control.stored(GROUP).items()
    }


def recorded(plane: Plane) -> list[list[str]]:
    """Return the versions that the API server believes to have stored, for each CRD."""
    found = json.loads(plane.control.kubectl("get", "crd", *NAMES, "-o", "json"))["items"]
    return [one["status"]["storedVersions"] for one in found]


def specs(plane: Plane) -> dict[str, Any]:
    """Return uid and spec of each object."""
    return {key: (one["metadata"]["uid"], one["spec"]) for key, one in plane.control.stored(GROUP).items()}


def compact(plane: Plane, table: FixtureTable, **spec: Any) -> str:
    return plane.compact(f"{table.database}.{table.name}", "Minor", cleanup={"gracePeriod": "0s"}, **spec)


def require_done(plane: Plane, name: str, table: FixtureTable) -> None:
    plane.wait_ended(name, timeout=SECONDS)
    plane.wait_cleaned(name, timeout=SECONDS)
    assert frozenset(table.names()) == AFTER_INSERTS_MINOR


def test_the_storage_version_changes_under_work(plane: Plane, tables: tuple[FixtureTable, FixtureTable]) -> None:
    """A cleanup waits for a reader, a compaction is suspended: both go on, by an operator that knows v1alpha1 only."""
    rewrite(plane, VERSION)  # the commands can do without any object
    read, kept = tables
    reader = read.reader()
    waiting, suspended = compact(plane, read), compact(plane, kept, suspend=True)
    plane.wait_ended(waiting, timeout=SECONDS)
    (cleanup,) = plane.wait(
        lambda: [one for one in plane.cleanups(waiting) if one.status.phase is CleanupPhase.WAITING],
        timeout=SECONDS,
        what="the cleanup to wait for the reader",
    )
    policy = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "CompactionPolicy", "metadata": {"name": "p"}}
    chosen = {"warehouse": "main", "tables": {"include": ["none.*"]}, "suspend": True}
    plane.control.create({**policy, "metadata": {"name": "p", "namespace": NAMESPACE}, "spec": chosen})
    old, before = {waiting, suspended, cleanup.meta.name, "p"}, specs(plane)
    assert versions(plane) == dict.fromkeys(old, VERSION)

    apply(plane, definitions(VERSION, NEXT, storage=NEXT))
    wait_until(lambda: recorded(plane) == [[VERSION, NEXT]] * 3, timeout=SECONDS, what="the CRDs to have both")
    assert refused(plane, definitions(NEXT, storage=NEXT))
    rewrite(plane, NEXT)

    assert versions(plane) == dict.fromkeys(old, NEXT)
    assert specs(plane) == before
    assert recorded(plane) == [[NEXT]] * 3
    assert not refused(plane, definitions(NEXT, storage=NEXT))
    assert refused(plane, definitions(VERSION, storage=VERSION))

    read.admin.unlock(reader)
    require_done(plane, waiting, read)
    plane.patch_compaction(suspended, suspend=False)
    require_done(plane, suspended, kept)
    assert plane.controller.running

    apply(plane, definitions(VERSION, NEXT, storage=VERSION))
    wait_until(lambda: recorded(plane) == [[NEXT, VERSION]] * 3, timeout=SECONDS, what="the CRDs to have both")
    rewrite(plane, VERSION)
    assert set(versions(plane).values()) == {VERSION}
    assert not refused(plane, definitions(VERSION, storage=VERSION))
