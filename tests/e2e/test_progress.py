"""How far a compaction is, as its user sees it: while it runs, and after its end."""

from sandbox.harness.compactions import EXECUTORS, ONE_EXECUTOR
from sandbox.harness.tables import TABLE_TXN_001, fourth_write
from sandbox.harness.wait import wait_until

from compaction_operator.api.compaction import ProgressStatus
from tests.e2e.minor import Minor
from tests.e2e.scene import COME_AND_GO, Scene


def column(scene: Scene, compaction: str) -> str:
    """Return what `kubectl get` prints of a compaction's progress."""
    header, row = scene.cluster.kubectl("get", "tcomp", compaction, "-n", scene.namespace).splitlines()
    start = header.index("PROGRESS")
    return row[start : header.index("ATTEMPT")].strip()


def wait_progress(scene: Scene, compaction: str) -> ProgressStatus:
    """Return the first progress that a compaction's status shows."""
    return wait_until(
        lambda: scene.compactions.status(compaction).progress, timeout=120, what=f"progress of {compaction}"
    )


def test_a_running_compaction_says_how_far_it_is(scene: Scene) -> None:
    """A driver that waits for an exclusive lock has published nothing yet: it is seen in the middle of its work."""
    table = scene.table(TABLE_TXN_001)
    scene.warehouse.writer.write(table, fourth_write())
    lock = scene.lock(table)
    compaction = scene.compact(table, "Minor")
    running = wait_progress(scene, compaction)
    assert (running.partitions_done, running.partitions_total) == (0, 1)
    assert column(scene, compaction).startswith("0/1 partitions, ")
    scene.unlock(lock)
    done = scene.compactions.wait_succeeded(compaction).progress
    assert done
    assert done.bytes_done == done.bytes_total > 0
    assert (done.execution or "").endswith("done in the driver")
    assert column(scene, compaction) == done.summary == "1/1 partitions, 100%"


def test_an_idle_executor_goes_while_the_driver_waits(scene: Scene) -> None:
    """The profile has Spark's dynamic allocation. The driver waits for its exclusive lock, and then publishes."""
    minor = Minor(scene, spark={**ONE_EXECUTOR, "profile": COME_AND_GO})
    scene.compactions.wait_executor()
    minor.wait_in_the_middle()
    wait_until(
        lambda: not scene.cluster.get_all("pods", namespace=scene.namespace, selector=EXECUTORS),
        timeout=60,
        what="the idle executor to go",
    )
    scene.unlock(minor.lock)
    minor.check_end(most_attempts=1)
