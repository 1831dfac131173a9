"""Readers on a real metastore: nothing goes while one from before is there, all goes at once when the last has left.

NB: a lock without a transaction holds up its own table alone; an open transaction holds up every cleanup that
comes after it. So the readers of the compactions that run side by side have locks only.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from sandbox.harness import expected
from sandbox.harness.tables import TABLE_TXN_001, TRY_IT, HiveTable
from sandbox.harness.wait import wait_until

from compaction_operator.api.cleanup import BlockerKind, CompactionCleanupStatus
from compaction_operator.api.compaction import CleanupPhase
from compaction_operator.api.conditions import ConditionStatus, find_condition
from tests.e2e.conftest import MakeReader
from tests.e2e.scene import INTERVAL, PLANNING, READER, Scene, completed, succeeded

ALL = {"": expected.INSERTS | expected.AFTER_INSERTS_MINOR}
NEW = {"": expected.AFTER_INSERTS_MINOR}
IN_TIME = INTERVAL + timedelta(seconds=1)
"""How long after the later of release and grace the deletion is over."""
GRACE = timedelta(seconds=5)


@dataclass(frozen=True)
class Held:
    """A compaction that has succeeded under a reader's locks."""

    table: HiveTable
    compaction: str
    cleanup: str
    locks: tuple[int, ...]


@pytest.fixture(scope="module")
def held(shared_scene: Scene) -> Callable[[str], Held]:
    """Compactions under locks by name, all applied at once; each is waited for when it is asked for."""
    scene = shared_scene
    tables = {name: scene.table(TABLE_TXN_001, name) for name in ("looks", "deleted", "suspended", "grace")}
    tables["partitions"] = scene.table(TRY_IT, "partitions")
    locks: dict[str, tuple[int, ...]] = {
        "looks": tuple(scene.lock(tables["looks"]) for _ in range(4)),
        "deleted": (scene.lock(tables["deleted"]),),
        "suspended": (scene.lock(tables["suspended"]),),
        "grace": (),
        "partitions": tuple(scene.lock(tables["partitions"], name) for name in (None, "prt=p2", "prt=p3")),
    }
    applied = {name: scene.compact(tables[name], "Minor") for name in ("looks", "deleted", "suspended")}
    applied["grace"] = scene.compact(tables["grace"], "Minor", cleanup={"gracePeriod": "5s"})
    applied["partitions"] = scene.compact(tables["partitions"], "Major", partitions=["prt='p2'"])

    def get(name: str) -> Held:
        scene.compactions.wait_succeeded(applied[name])
        return Held(tables[name], applied[name], scene.cleanup_of(applied[name]), locks[name])

    return get


def test_nothing_is_deleted_while_a_lock_from_before_is_held(
    shared_scene: Scene, held: Callable[[str], Held], make_reader: MakeReader
) -> None:
    """Each lock that goes is missed at the controller's next look, and still nothing is deleted until the last.

    A reader who comes after the compaction reads the new directory, and holds nothing up once it has listed that.
    """
    scene, case = shared_scene, held("looks")
    *others, last = case.locks
    wait_readers(scene, case, len(case.locks))
    for left, lock in zip((3, 2, 1), others, strict=True):
        scene.unlock(lock)
        wait_readers(scene, case, left)
        assert scene.names(case.table) == ALL
    check_named(scene, case, last)
    make_reader("dave").lock(case.table)
    released = scene.unlock(last)
    status = scene.compactions.wait_cleaned(case.cleanup)
    assert completed(status) - released <= IN_TIME + PLANNING
    assert scene.names(case.table) == NEW


def wait_readers(scene: Scene, case: Held, count: int) -> CompactionCleanupStatus:
    """Return a cleanup's status once it waits for so many readers."""
    return scene.compactions.wait_cleanup(
        case.cleanup, lambda status: status.blocker_count == count, f"to name {count} readers", timeout=90
    )


def check_named(scene: Scene, case: Held, lock: int) -> None:
    """The status names the lock, its user, its host and its start; a column of kubectl shows the same."""
    status = scene.compactions.cleanup_status(case.cleanup)
    (blocker,) = status.blockers
    assert (blocker.kind, blocker.id, blocker.user) == (BlockerKind.LOCK, lock, READER)
    assert blocker.host == socket.gethostname()
    assert blocker.since
    assert abs(datetime.now(UTC) - datetime.fromisoformat(blocker.since)) < timedelta(minutes=15)
    condition = find_condition(status.conditions, "ReadersGone")
    assert condition
    assert (condition.status, condition.message) == (ConditionStatus.FALSE, f"waiting for {blocker}")
    assert status.phase is CleanupPhase.WAITING
    assert f"waiting for {blocker}" in scene.compactions.table()


def test_the_grace_period_counts_from_the_baseline(shared_scene: Scene, held: Callable[[str], Held]) -> None:
    """Without any reader the deletion follows the grace period's end, and does not come before."""
    scene, case = shared_scene, held("grace")
    status = scene.compactions.wait_cleaned(case.cleanup)
    assert status.baseline
    waited = completed(status) - datetime.fromisoformat(status.baseline.time)
    assert GRACE <= waited <= GRACE + IN_TIME
    assert scene.names(case.table) == NEW


def test_a_lock_on_the_table_holds_a_partitions_cleanup(shared_scene: Scene, held: Callable[[str], Held]) -> None:
    """So does one on the partition (H5); one on another partition does not."""
    scene, case = shared_scene, held("partitions")
    on_table, on_partition, on_other = case.locks
    status = scene.compactions.wait_blocked(case.cleanup)
    assert status.baseline
    assert status.baseline.lock_ids == (on_table, on_partition)
    scene.unlock(on_partition)
    assert [blocker.id for blocker in wait_readers(scene, case, 1).blockers] == [on_table]
    assert scene.names(case.table)["prt=p2"] == expected.TRY_IT["prt=p2"] | expected.TRY_IT_AFTER_MAJOR["prt=p2"]
    released = scene.unlock(on_table)
    assert completed(scene.compactions.wait_cleaned(case.cleanup)) - released <= IN_TIME
    after = {**expected.TRY_IT, "prt=p2": expected.TRY_IT_AFTER_MAJOR["prt=p2"]}
    assert scene.names(case.table) == after
    scene.unlock(on_other)


def test_the_cleanup_outlives_its_compaction(shared_scene: Scene, held: Callable[[str], Held]) -> None:
    """Deleting the TableCompaction deletes its Job, but not the cleanup: that still deletes what is obsolete."""
    scene, case = shared_scene, held("deleted")
    scene.compactions.wait_blocked(case.cleanup)
    scene.delete_compaction(case.compaction)
    wait_until(lambda: not scene.jobs(case.compaction), timeout=120, what="the Job to go with its compaction")
    assert scene.names(case.table) == ALL
    released = scene.unlock(*case.locks)
    assert completed(scene.compactions.wait_cleaned(case.cleanup)) - released <= IN_TIME
    assert scene.names(case.table) == NEW


def test_a_suspended_cleanup_deletes_nothing(shared_scene: Scene, held: Callable[[str], Held]) -> None:
    """With its readers gone it waits for spec.suspend, while others come and go."""
    scene, case = shared_scene, held("suspended")
    scene.suspend(case.cleanup, True)
    scene.compactions.wait_cleanup(
        case.cleanup, lambda status: status.phase is CleanupPhase.SUSPENDED, "to be suspended", timeout=90
    )
    scene.unlock(*case.locks)
    scene.compactions.wait_cleaned(scene.clock(scene.compactions.journal(case.cleanup)))
    status = scene.compactions.cleanup_status(case.cleanup)
    assert status.phase is CleanupPhase.SUSPENDED
    assert succeeded(status.conditions).reason == "Suspended"
    assert scene.names(case.table) == ALL
    resumed = datetime.now(UTC)
    scene.suspend(case.cleanup, False)
    status = scene.compactions.wait_cleaned(case.cleanup)
    assert completed(status) - resumed <= IN_TIME + timedelta(seconds=2)
    assert scene.names(case.table) == NEW


def test_a_transaction_from_before_without_a_lock_holds_the_cleanup(scene: Scene, make_reader: MakeReader) -> None:
    """A reader has its snapshot before its lock (H1): the open transaction alone is waited for, and named."""
    table = scene.table(TABLE_TXN_001)
    reader = make_reader("erin")
    compaction = scene.compact(table, "Minor")
    scene.compactions.wait_succeeded(compaction)
    cleanup = scene.cleanup_of(compaction)
    (blocker,) = scene.compactions.wait_blocked(cleanup).blockers
    assert (blocker.kind, blocker.id, blocker.user) == (BlockerKind.TRANSACTION, reader.txn, "erin")
    assert (blocker.host, bool(blocker.since)) == (socket.gethostname(), True)
    reader.lock(table)
    assert scene.names(table) == ALL
    reader.release()
    released = datetime.now(UTC)
    assert completed(scene.compactions.wait_cleaned(cleanup)) - released <= IN_TIME
    assert scene.names(table) == NEW
