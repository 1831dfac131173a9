"""What goes from git is deleted in the foreground, as Argo CD prunes: the cleanups stay, and finish."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from sandbox.harness.expected import INSERTS
from sandbox.plane import Plane
from sandbox.plane.install import NAMESPACE

from compaction_operator.api import cleanup as cleanup_api
from compaction_operator.api import compaction as compaction_api
from compaction_operator.api.compaction import CleanupPhase
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.controller.kube.resources import Cleanup, read_cleanup
from tests.integration.metastore.fixture_table import FixtureTable, inserted

TABLES = Path(__file__).parents[3] / "manifests" / "samples" / "argocd" / "tables"
_numbers = itertools.count(1)
SECONDS = 120.0
"""What a step may take here: how fast the machine is is not asked."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with Plane(tmp_path_factory.mktemp("plane"), spark=False) as made:
        yield made


@pytest.fixture
def table(plane: Plane) -> Iterator[FixtureTable]:
    with inserted(plane.admin(), plane.metastore, f"pruned{next(_numbers)}") as made:
        yield made


def prune(plane: Plane, resource: str) -> None:
    """Delete as Argo CD does: in the foreground, so that Kubernetes first deletes what the resource owns."""
    plane.control.kubectl("delete", resource, "-n", NAMESPACE, "--cascade=foreground")


def waiting(plane: Plane, compaction: str) -> str:
    """Return the name of a compaction's cleanup once it waits for a reader."""
    plane.wait_ended(compaction, timeout=SECONDS)
    (found,) = plane.wait(
        lambda: [one for one in plane.cleanups(compaction) if one.status.phase is CleanupPhase.WAITING],
        timeout=SECONDS,
        what="the cleanup to wait for the reader",
    )
    return found.meta.name


def cleanup(plane: Plane, name: str) -> Cleanup | None:
    raw = plane.mirror.get(cleanup_api.PLURAL, name)
    return read_cleanup(raw) if raw else None


def require_it_deletes(plane: Plane, name: str, table: FixtureTable, reader: int) -> None:
    """The cleanup is there, deletes nothing while the reader reads, and all that is obsolete afterwards."""
    found = cleanup(plane, name)
    assert found is not None
    assert (found.status.phase, found.ended) == (CleanupPhase.WAITING, False)
    before = set(table.names())
    assert before > INSERTS
    table.admin.unlock(reader)
    plane.wait(lambda: (one := cleanup(plane, name)) and one.ended, timeout=SECONDS, what="the cleanup to end")
    found = cleanup(plane, name)
    assert found is not None
    assert found.status.phase is CleanupPhase.SUCCEEDED
    assert set(table.names()) == before - INSERTS


def test_the_cleanup_of_a_pruned_compaction_goes_on(plane: Plane, table: FixtureTable) -> None:
    """Its Job goes with it, which it owns. So a hook may be deleted as soon as it is healthy."""
    reader = table.reader()
    name = plane.compact(f"{table.database}.{table.name}", "Minor", cleanup={"gracePeriod": "0s"})
    of_it = waiting(plane, name)
    prune(plane, f"{compaction_api.PLURAL}/{name}")
    gone = lambda: plane.mirror.get(compaction_api.PLURAL, name) is None and not plane.mirror.all("jobs")  # noqa: E731
    plane.wait(gone, timeout=SECONDS, what="the compaction to go with its Job")
    require_it_deletes(plane, of_it, table, reader)


def test_compactions_go_with_a_pruned_policy_and_cleanups_do_not(plane: Plane, table: FixtureTable) -> None:
    reader = table.reader()
    spec = {
        "warehouse": "main",
        "tables": {"include": [f"{table.database}.{table.name}"]},
        "thresholds": {"deltas": 1, "deltaPercent": 1000},
        "interval": "10s",
        "template": {"cleanup": {"gracePeriod": "0s"}},
    }
    head = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "CompactionPolicy"}
    plane.control.create({**head, "metadata": {"name": "p", "namespace": NAMESPACE}, "spec": spec})
    (made,) = plane.wait(
        lambda: plane.mirror.all(compaction_api.PLURAL), timeout=SECONDS, what="a compaction of the policy"
    )
    of_it = waiting(plane, made["metadata"]["name"])
    prune(plane, "compactionpolicies/p")
    plane.wait(
        lambda: not plane.mirror.all(compaction_api.PLURAL), timeout=SECONDS, what="the policy's compactions to go"
    )
    require_it_deletes(plane, of_it, table, reader)


@pytest.mark.parametrize("path", sorted(TABLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_api_server_accepts_the_samples(plane: Plane, path: Path) -> None:
    sample = yaml.safe_load(path.read_text())
    sample["metadata"]["namespace"] = NAMESPACE
    plane.control.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(sample))
