"""Whatever is killed in the middle of a compaction, the end is the same: directories, rows, conditions."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sandbox.harness import expected
from sandbox.harness.compactions import SMALL_SPARK
from sandbox.harness.stage import Stage, Warehouse
from sandbox.harness.tables import TABLE_TXN_001, HiveTable
from sandbox.harness.wait import wait_until

from compaction_operator.api.cleanup import PublishedState
from compaction_operator.api.compaction import Phase
from compaction_operator.api.conditions import ConditionStatus
from compaction_operator.metastore import LockKind
from tests.e2e.conftest import MakeReader
from tests.e2e.minor import MOST, SOON, Minor
from tests.e2e.scene import BROKEN, INTERVAL, PLANNING, MetastorePod, Scene, completed, succeeded


def test_the_controller_is_killed_while_the_driver_works(scene: Scene, stage: Stage) -> None:
    """The attempt is recorded: the next controller finds its Job, judges it and starts no other."""
    minor = Minor(scene)
    minor.wait_in_the_middle()
    stage.operator.restart()
    scene.unlock(minor.lock)
    minor.check_end(most_attempts=1)
    assert len(scene.jobs(minor.name)) == 1


def test_the_controller_is_killed_as_soon_as_the_attempt_is_recorded(scene: Scene, stage: Stage) -> None:
    """Whether its Job exists by then or not, there is one in the end, and one only."""
    table = scene.table(TABLE_TXN_001)
    rows = scene.warehouse.rows(table)
    compaction = scene.compact(table, "Minor")
    wait_until(lambda: scene.compactions.status(compaction).attempt, timeout=120, what="the attempt to be recorded")
    stage.operator.restart()
    status = scene.compactions.wait_succeeded(compaction)
    assert (status.attempt, len(scene.jobs(compaction))) == (1, 1)
    scene.cleaned(compaction)
    assert scene.names(table) == {"": expected.AFTER_INSERTS_MINOR}
    assert scene.warehouse.rows(table) == rows


def test_the_controller_is_killed_while_a_cleanup_waits(scene: Scene, stage: Stage, make_reader: MakeReader) -> None:
    """The baseline stays the same: the new controller ignores a later reader and forgets none of the earlier ones."""
    table = scene.table(TABLE_TXN_001)
    first, second = scene.lock(table), scene.lock(table)
    compaction = scene.compact(table, "Major")
    scene.compactions.wait_succeeded(compaction)
    cleanup = scene.cleanup_of(compaction)
    before = scene.compactions.wait_blocked(cleanup).baseline
    assert before
    assert before.lock_ids == (first, second)
    make_reader("frank").lock(table)
    stage.operator.restart()
    scene.unlock(first)
    status = scene.compactions.wait_cleanup(
        cleanup, lambda status: status.blocker_count == 1, "to be looked at by the new controller", timeout=180
    )
    assert (status.baseline, [blocker.id for blocker in status.blockers]) == (before, [second])
    assert scene.names(table) == {"": expected.INSERTS | expected.AFTER_INSERTS_MAJOR}
    released = scene.unlock(second)
    status = scene.compactions.wait_cleaned(cleanup)
    assert status.baseline == before
    assert completed(status) - released <= INTERVAL + PLANNING + timedelta(seconds=1)
    assert scene.names(table) == {"": expected.AFTER_INSERTS_MAJOR}


def test_the_driver_is_killed_while_it_starts(scene: Scene) -> None:
    """Its pod was deleted, so the attempt does not count as failed; after a pause the next one does the work.

    A client's EXCLUSIVE lock gives the test the seconds that it needs: the driver waits for its first lock.
    """
    table = scene.table(TABLE_TXN_001)
    rows = scene.warehouse.rows(table)
    lock = scene.lock(table, kind=LockKind.EXCLUSIVE)
    compaction = scene.compact(table, "Major", retry=SOON)
    scene.kill_pods(scene.namespace, scene.wait_driver(compaction))
    scene.unlock(lock)
    status = scene.compactions.wait_succeeded(compaction, timeout=MOST)
    assert (status.attempt, status.failed_attempts) == (2, 0)
    scene.cleaned(compaction)
    assert scene.names(table) == {"": expected.AFTER_INSERTS_MAJOR}
    assert scene.warehouse.rows(table) == rows


def test_the_driver_is_killed_between_journal_and_publication(scene: Scene) -> None:
    """What the dead attempt recorded is never deleted for its journal, and its staging and locks are gone."""
    minor = Minor(scene)
    first = minor.wait_in_the_middle()
    scene.kill_pods(scene.namespace, scene.wait_driver(minor.name))
    scene.unlock(minor.lock)
    minor.check_end(most_attempts=2)
    status = scene.compactions.status(minor.name)
    assert (status.attempt, status.failed_attempts) == (2, 0)
    dead = scene.compactions.cleanup_status(first)
    assert [partition.state for partition in dead.partitions] == [PublishedState.NOT_PUBLISHED]
    assert (dead.directories_deleted, succeeded(dead.conditions).reason) == (0, "NotPublished")
    assert scene.warehouse.admin.show_locks(minor.table.database, minor.table.name) == ()


def test_a_compaction_is_suspended_between_journal_and_publication(scene: Scene) -> None:
    """The driver ends, nothing is left of it, and nothing is published before the compaction is resumed."""
    minor = Minor(scene)
    minor.wait_in_the_middle()
    scene.suspend(minor.name, True, kind="tcomp")
    wait_until(
        lambda: scene.compactions.status(minor.name).phase is Phase.SUSPENDED,
        timeout=180,
        what="the compaction to be suspended",
    )
    assert scene.names(minor.table) == {"": expected.INSERTS | expected.UPDATE}
    table = minor.table
    assert [lock.lock_id for lock in scene.warehouse.admin.show_locks(table.database, table.name)] == [minor.lock]
    scene.unlock(minor.lock)
    scene.suspend(minor.name, False, kind="tcomp")
    minor.check_end(most_attempts=2)
    status = scene.compactions.status(minor.name)
    assert (status.attempt, status.failed_attempts) == (2, 0)


def test_the_metastore_is_killed_while_the_driver_works(scene: Scene, stage: Stage, warehouse: Warehouse) -> None:
    """The attempt does not count as failed, and the next one publishes."""
    minor = Minor(scene)
    minor.wait_in_the_middle()
    MetastorePod(stage, warehouse).kill()
    scene.unlock(minor.lock)
    minor.check_end(most_attempts=2)
    assert scene.compactions.status(minor.name).failed_attempts == 0


@pytest.fixture
def doomed(scene: Scene) -> Callable[[], tuple[HiveTable, str]]:
    """Applies a compaction whose driver always dies, with two attempts."""

    def apply() -> tuple[HiveTable, str]:
        table = scene.table(TABLE_TXN_001)
        spark = {**SMALL_SPARK, "profile": BROKEN}
        return table, scene.compact(table, "Minor", spark=spark, retry={"maxAttempts": 2, "backoff": "2s"})

    return apply


def test_a_driver_that_always_dies_is_given_up(scene: Scene, doomed: Callable[[], tuple[HiveTable, str]]) -> None:
    """As many attempts as are configured, with a pause between them, and the last error in the condition."""
    table, compaction = doomed()
    scene.compactions.wait_failed(compaction)
    verdict = scene.verdict(compaction)
    assert (verdict.status, verdict.reason) == (ConditionStatus.FALSE, "AttemptsExhausted")
    assert "403 Forbidden" in verdict.message
    first, second = sorted(scene.jobs(compaction), key=lambda job: str(job["metadata"]["name"]))
    assert second["metadata"]["creationTimestamp"] > first["status"]["conditions"][-1]["lastTransitionTime"]
    assert scene.names(table) == {"": expected.INSERTS}
    assert scene.compactions.cleanups(compaction) == []


TOO_LARGE = "900g"


@pytest.mark.parametrize(
    ("spark", "reason", "said"),
    [
        ({"driver": {"memory": TOO_LARGE}}, "Unschedulable", "is waiting: Unschedulable: 0/1 nodes are available"),
        (
            SMALL_SPARK | {"executors": {"instances": 1, "memory": TOO_LARGE}},
            "ExecutorsWaiting",
            "its executors are waiting: Unschedulable: 0/1 nodes are available",
        ),
    ],
)
def test_pods_that_no_node_can_take_are_reported(
    scene: Scene, spark: dict[str, object], reason: str, said: str
) -> None:
    """The phase, the reason in Kubernetes' words, and an event: not a compaction that runs at 0 %."""
    table = scene.table(TABLE_TXN_001)
    compaction = scene.compact(table, "Minor", spark=spark)
    condition = scene.wait_reason(compaction, reason, timeout=240)
    assert said in condition.message
    assert scene.compactions.status(compaction).phase is Phase.WAITING
    assert len(scene.events(compaction, reason)) == 1
    assert scene.names(table)[""] >= expected.INSERTS
