"""Helm upgrades the operator from an earlier version to this one and back, with a driver and a cleanup under way.

`make fault-test` runs it, and CI does not: it takes minutes, and an image of the earlier version.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from sandbox.harness import expected, releases
from sandbox.harness.chart import ROOT, Release
from sandbox.harness.stage import Stage
from sandbox.harness.tables import TABLE_TXN_001

from compaction_operator.api.model import GROUP
from tests.e2e.minor import Minor
from tests.e2e.scene import Scene, install

EARLIER = os.environ.get("EARLIER") or "20421f7b056a"
"""There is no release yet. This commit has other CRDs, another chart and another driver than the current ones."""
NEWER = "secondsLeft"
"""A field of a TableCompaction's progress that this commit does not know."""


@pytest.fixture
def release(stage: Stage, tmp_path: Path) -> Iterator[Release]:
    """Install the earlier version from nothing. At the end there is the current one again."""
    release = releases.earlier(EARLIER, tmp_path)
    stage.operator.remove()
    install(stage, release=release)
    yield release
    install(stage)


class Work:
    """A driver in the middle of a minor compaction, and a cleanup that waits for a reader of another table."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.read = scene.table(TABLE_TXN_001)
        self.rows = scene.warehouse.rows(self.read)
        self.readers = scene.lock(self.read), scene.lock(self.read)
        self.compaction = scene.compact(self.read, "Major")
        scene.compactions.wait_succeeded(self.compaction)
        self.cleanup = scene.cleanup_of(self.compaction)
        self.baseline = scene.compactions.wait_blocked(self.cleanup).baseline
        assert self.baseline
        assert self.baseline.lock_ids == self.readers
        self.minor = Minor(scene)
        self.minor.wait_in_the_middle()
        self.driver = self._driver()

    def check_under_way(self) -> None:
        """Let the first reader go: a controller that has noticed has left all directories, and the driver."""
        first, second = self.readers
        self.later = self.scene.lock(self.read)
        self.scene.unlock(first)
        status = self.scene.compactions.wait_cleanup(
            self.cleanup, lambda status: status.blocker_count == 1, "to wait for the second reader", timeout=120
        )
        assert (status.baseline, [blocker.id for blocker in status.blockers]) == (self.baseline, [second])
        assert self.scene.names(self.read) == {"": expected.INSERTS | expected.AFTER_INSERTS_MAJOR}
        assert self._driver() == self.driver

    def finish(self) -> None:
        """Let the last readers go: all ends as if there had been one controller only."""
        self.scene.unlock(self.readers[1])
        status = self.scene.compactions.wait_cleaned(self.cleanup)
        assert status.baseline == self.baseline
        assert self.scene.names(self.read) == {"": expected.AFTER_INSERTS_MAJOR}
        assert self.scene.warehouse.rows(self.read) == self.rows
        self.scene.unlock(self.later)
        self.scene.unlock(self.minor.lock)
        self.minor.check_end(most_attempts=1)
        assert len(self.scene.jobs(self.minor.name)) == 1

    def _driver(self) -> tuple[str, str, int]:
        """Return the only driver's pod, its image, and how often it was started."""
        job = self.scene.jobs(self.minor.name)[0]["metadata"]["name"]
        (pod,) = self.scene.cluster.get_all(
            "pods", namespace=self.scene.namespace, selector=f"batch.kubernetes.io/job-name={job}"
        )
        (container,) = pod["status"]["containerStatuses"]
        assert "running" in container["state"]
        return pod["metadata"]["uid"], container["image"], container["restartCount"]


def test_an_upgrade_and_its_rollback_leave_work_alone(scene: Scene, stage: Stage, release: Release) -> None:
    """Each controller ends what the other version's drivers and cleanups have begun; no later reader is waited for.

    NB: a driver waits for its exclusive lock for two minutes, so each change comes right after its work has begun.
    """
    old = Work(scene)
    assert old.driver[1] == release.image
    install(stage)
    assert shown(stage) == in_files(ROOT)
    old.check_under_way()
    old.finish()
    new = Work(scene)
    assert new.driver[1] == stage.settings.operator_image
    note_seconds(stage, new.compaction)
    assert NEWER in progress(stage, new.compaction)
    before = progress(stage, new.compaction)
    stage.operator.roll_back()
    assert shown(stage) == in_files(release.sources)
    new.check_under_way()
    assert progress(stage, new.compaction) == {key: value for key, value in before.items() if key != NEWER}
    new.finish()


def in_files(sources: Path) -> dict[str, Any]:
    """Return the versions of each CRD in the sources."""
    crds = [yaml.safe_load(path.read_text()) for path in (sources / "crds").glob(f"{GROUP}_*.yaml")]
    return {crd["metadata"]["name"]: properties(crd["spec"]["versions"]) for crd in crds}


def shown(stage: Stage) -> dict[str, Any]:
    """Return the same of the cluster."""
    crds = json.loads(stage.cluster.kubectl("get", "crd", "-o", "json"))["items"]
    return {
        crd["metadata"]["name"]: properties(crd["spec"]["versions"]) for crd in crds if crd["spec"]["group"] == GROUP
    }


def properties(versions: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schemas by version."""
    return {version["name"]: version["schema"] for version in versions}


def progress(stage: Stage, compaction: str) -> dict[str, Any]:
    found = stage.cluster.get("tcomp", compaction, namespace=stage.settings.namespace)
    assert found
    shown: dict[str, Any] = found["status"]["progress"]
    return shown


def note_seconds(stage: Stage, compaction: str) -> None:
    """Set the field as a longer run has it."""
    patch = json.dumps({"status": {"progress": {NEWER: 7}}})
    where = ("-n", stage.settings.namespace, "--subresource=status", "--type=merge")
    stage.cluster.kubectl("patch", "tcomp", compaction, *where, "-p", patch)
