"""A real etcd that is restored from a backup under a running controller."""

from pathlib import Path

import pytest
from sandbox.plane import Plane, pod
from sandbox.plane.processes import Launch

from compaction_operator.controller import loop as controller

SECONDS = 200.0
"""What a step may take here: how fast the machine is is not asked."""


def in_doubt(launch: Launch) -> None:
    """Be a pod whose controller asks for the API server's history all the time."""
    controller.HISTORY_PAUSE = 1.0
    pod.run(launch)


@pytest.fixture
def plane(tmp_path: Path) -> Plane:
    """A plane that is not started yet."""
    return Plane(tmp_path, spark=False, entry=in_doubt)


def wait_for(plane: Plane, compaction: str, phase: str) -> None:
    """Wait until the controller says that of a compaction."""
    what = f"tcomp/{compaction} to be {phase}"
    plane.wait(lambda: plane.compaction(compaction).status.phase == phase, timeout=SECONDS, what=what)


def test_the_controller_goes_on_with_what_was_restored(plane: Plane) -> None:
    """It ends by itself, as its framework's watch waits for versions of before, and begins afresh."""
    with plane:
        name = plane.compact("nowhere.t", "Minor", suspend=True)
        wait_for(plane, name, "Suspended")
        plane.back_up_etcd()
        plane.patch_compaction(name, suspend=False)
        wait_for(plane, name, "Failed")
        plane.restore_etcd()
        wait_for(plane, name, "Suspended")
        assert plane.controller.wait(SECONDS), "the controller has not ended"
        assert "WentBackError" in plane.controller.log.read_text()
        plane.controller.start()
        plane.patch_compaction(name, suspend=False)
        wait_for(plane, name, "Failed")
        wait_for(plane, plane.compact("nowhere.t", "Major"), "Failed")
