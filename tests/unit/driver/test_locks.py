"""A driver's locks when the metastore fails in between: the work under them ends as it would have without that."""

import threading
from collections.abc import Iterator

import pytest

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import Reason
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive import driver_locks as job_locks
from compaction_operator.driver.hive.driver_locks import Locks, Patience
from compaction_operator.metastore import LockInfo, LockKind, MetastoreUnavailable
from tests.support.metastore import FakeMetastore

TABLE = TableRef(database="sales", name="orders")
TAKERS: list[Locks] = []
DOWN = MetastoreUnavailable("connection refused")


def held(lock_id: int, partition: str | None) -> LockInfo:
    return LockInfo(
        lock_id=lock_id,
        database="sales",
        table="orders",
        partition=partition,
        state="ACQUIRED",
        type="SHARED_READ",
        user="alice",
        host="desk",
        agent="reader",
    )


def read_by(*readers: str | None) -> FakeMetastore:
    """A metastore in which readers hold these partitions, or the whole table (None)."""
    return FakeMetastore(locks=tuple(held(number, partition) for number, partition in enumerate(readers, 7)))


def own(metastore: FakeMetastore) -> list[LockInfo]:
    """Return the locks that the driver has or waits for."""
    return [lock for lock in metastore.locks if lock.agent == "own"]


def drop_own(metastore: FakeMetastore) -> None:
    metastore.locks = tuple(lock for lock in metastore.locks if lock.agent != "own")


def exclusive_tries(metastore: FakeMetastore) -> list[str | None]:
    """Return the partitions of all requests for an EXCLUSIVE lock."""
    return [wish.partition for wish in metastore.asked("lock") if wish.kind is LockKind.EXCLUSIVE]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(job_locks, "EXCLUSIVE_PATIENCE", Patience(wait_seconds=0.01, tries=3))
    monkeypatch.setattr(job_locks, "POLL_SECONDS", 0.001)
    yield
    while TAKERS:
        TAKERS.pop().release()


def locks(metastore: FakeMetastore) -> Locks:
    TAKERS.append(Locks(metastore.client(), TABLE, agent="own"))
    return TAKERS[-1]


def refused(taker: Locks, partition: str | None) -> JobError:
    with pytest.raises(JobError) as caught, taker.exclusive(partition):
        pytest.fail("the lock is held by a reader")
    assert caught.value.reason is Reason.WAITING_FOR_EXCLUSIVE_LOCK
    return caught.value


def test_an_unlock_that_fails_does_not_hide_why_the_work_failed() -> None:
    metastore = FakeMetastore()
    taker = locks(metastore)
    taker.share()
    with pytest.raises(JobError, match="rows do not add up"), taker.exclusive("prt=p1"):
        metastore.fail(DOWN, "unlock")
        raise JobError(Reason.VERIFICATION_FAILED, "rows do not add up")


def test_an_unlock_that_fails_does_not_fail_work_that_is_done() -> None:
    metastore = FakeMetastore()
    metastore.fail(DOWN, "unlock")
    taker = locks(metastore)
    taker.share()
    taker.guard()
    taker.release()


def test_only_holders_in_the_way_are_named() -> None:
    """A reader of another partition is not in the way; a reader of the whole table is."""
    metastore = read_by(None, "prt=p1", "prt=p2")
    assert "held by lock 7 of alice@desk, lock 8 of alice@desk" in f"{refused(locks(metastore), 'prt=P1')},"
    assert "lock 9" not in str(refused(locks(metastore), "prt=P1"))


def test_holders_that_cannot_be_named_are_still_waited_for() -> None:
    metastore = read_by("prt=p1")
    metastore.fail(DOWN, "show_locks")
    assert "connection refused" in str(refused(locks(metastore), "prt=p1"))
    assert exclusive_tries(metastore) == ["prt=p1"] * 3


def test_partitions_that_are_read_share_the_tries_after_the_first() -> None:
    """Else thousands of them, each waited for to the end, would keep one driver for days."""
    metastore = read_by("prt=p1", "prt=p2")
    taker = locks(metastore)
    taker.share()
    refused(taker, "prt=p1")
    refused(taker, "prt=p2")
    with taker.exclusive("prt=p3"):
        taker.guard()
    assert exclusive_tries(metastore) == ["prt=p1"] * 3 + ["prt=p2", "prt=p3"]
    taker.release()
    assert own(metastore) == []


def test_a_driver_that_waits_has_a_lock_or_waits_for_one_at_every_moment() -> None:
    """By show_locks it is never lost: not between two tries, nor between two partitions."""
    metastore, standing = read_by("prt=p1"), list[int]()
    for call in ("lock", "unlock"):
        metastore.on(call, lambda _: standing.append(len(own(metastore))), after=True)
    taker = locks(metastore)
    taker.share()
    refused(taker, "prt=p1")
    with taker.exclusive("prt=p2"):
        assert [lock.type for lock in own(metastore)] == [LockKind.EXCLUSIVE]
    taker.share()
    assert set(standing) == {1, 2}
    assert [lock.type for lock in own(metastore)] == [LockKind.SHARED_READ]
    taker.release()


def test_between_two_tries_readers_are_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the pauses it holds SHARED_READ, which no reader has to wait for."""
    metastore, held_meanwhile = read_by("prt=p1"), list[str]()
    monkeypatch.setattr(job_locks, "EXCLUSIVE_PATIENCE", Patience(wait_seconds=0.01, tries=3, pause_seconds=7))

    def pause(seconds: float) -> None:
        if seconds == 7:
            held_meanwhile.extend(lock.type for lock in own(metastore))

    monkeypatch.setattr(interruption, "pause", pause)
    taker = locks(metastore)
    taker.share()
    refused(taker, "prt=p1")
    assert held_meanwhile == [LockKind.SHARED_READ] * 2


def test_a_lock_that_waits_is_kept_alive_like_one_that_is_held() -> None:
    metastore = read_by(None, "prt=p1")
    taker = locks(metastore)
    taker.share()
    refused(taker, "prt=p1")
    beaten = [thread.name for thread in threading.enumerate() if thread.name.startswith("heartbeat")]
    assert beaten == [f"heartbeat-lock-{lock.lock_id}" for lock in own(metastore)]
    taker.release()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("heartbeat")]


@pytest.mark.parametrize("waits", [False, True])
def test_a_lock_that_the_metastore_took_away_is_said_to_be_lost(waits: bool) -> None:
    metastore = read_by("prt=p1")
    metastore.on("lock", lambda _: drop_own(metastore), after=True)
    taker = locks(metastore)
    taker.share()
    with pytest.raises(JobError) as lost:
        if waits:
            with taker.exclusive("prt=p1"):
                pytest.fail("the lock is held by a reader")
        taker.guard()
    assert lost.value.reason is Reason.LOCK_LOST


def test_what_is_not_held_guards_nothing() -> None:
    taker = locks(FakeMetastore())
    with pytest.raises(JobError) as lost:
        taker.guard()
    assert lost.value.reason is Reason.LOCK_LOST


def test_a_lock_that_cannot_be_asked_for_again_does_not_leave_the_exclusive_one() -> None:
    """Nor does it fail what was published under it."""
    metastore = FakeMetastore()
    taker = locks(metastore)
    taker.share()
    with taker.exclusive("prt=p1"):
        metastore.fail(DOWN, "lock")
    assert own(metastore) == []
