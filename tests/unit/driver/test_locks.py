"""A driver's locks when the metastore fails in between: the work under them ends as it would have without that."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import pytest

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import Reason
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive import driver_locks as job_locks
from compaction_operator.driver.hive.driver_locks import Locks, Patience
from compaction_operator.metastore import (
    LockInfo,
    LockKind,
    LockLost,
    LockState,
    LockWish,
    MetastoreClient,
    MetastoreUnavailable,
)

TABLE = TableRef(database="sales", name="orders")
TAKERS: list[Locks] = []


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


@dataclass
class Metastore:
    """A queue of locks: EXCLUSIVE of what is `read` is never granted; fails the calls that are `down`.

    `standing` has, after each call, how many locks the driver has or waits for.
    """

    read: set[str | None] = field(default_factory=set)
    locks: tuple[LockInfo, ...] = ()
    down: tuple[str, ...] = ()
    asked: list[tuple[LockKind, str | None]] = field(default_factory=list)
    own: dict[int, LockWish] = field(default_factory=dict)
    standing: list[int] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)

    def lock(self, wish: LockWish) -> LockState:
        self._answer("lock")
        self.asked.append((wish.kind, wish.partition))
        self.own[len(self.asked)] = wish
        self.standing.append(len(self.own))
        return LockState(len(self.asked), acquired=self._grants(len(self.asked)))

    def check_lock(self, lock_id: int) -> bool:
        self._answer("check_lock")
        if lock_id in self.gone:
            raise LockLost(f"no lock {lock_id}")
        return self._grants(lock_id)

    def heartbeat(self, lock_id: int) -> None:
        self._answer("heartbeat")
        if lock_id in self.gone:
            raise LockLost(f"no lock {lock_id}")

    def unlock(self, lock_id: int) -> None:
        self._answer("unlock")
        del self.own[lock_id]
        self.standing.append(len(self.own))

    def show_locks(self, database: str, table: str) -> tuple[LockInfo, ...]:
        self._answer("show_locks")
        return self.locks

    def _grants(self, lock_id: int) -> bool:
        """Whether it conflicts with nothing that was asked for before it; the driver's own locks count, too."""
        wish = self.own[lock_id]
        ahead = [one for number, one in self.own.items() if number < lock_id]
        if wish.kind is LockKind.EXCLUSIVE:
            return not ahead and wish.partition not in self.read
        return not any(one.kind is LockKind.EXCLUSIVE for one in ahead)

    def _answer(self, call: str) -> None:
        if call in self.down:
            raise MetastoreUnavailable("connection refused")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(job_locks, "EXCLUSIVE_PATIENCE", Patience(wait_seconds=0.01, tries=3))
    monkeypatch.setattr(job_locks, "POLL_SECONDS", 0.001)
    yield
    while TAKERS:
        TAKERS.pop().release()


def locks(metastore: Metastore) -> Locks:
    TAKERS.append(Locks(cast(MetastoreClient, metastore), TABLE, agent="own"))
    return TAKERS[-1]


def refused(taker: Locks, partition: str | None) -> JobError:
    with pytest.raises(JobError) as caught, taker.exclusive(partition):
        pytest.fail("the lock is held by a reader")
    assert caught.value.reason is Reason.WAITING_FOR_EXCLUSIVE_LOCK
    return caught.value


def test_an_unlock_that_fails_does_not_hide_why_the_work_failed() -> None:
    metastore = Metastore()
    taker = locks(metastore)
    taker.share()
    with pytest.raises(JobError, match="rows do not add up"), taker.exclusive("prt=p1"):
        metastore.down = ("unlock",)
        raise JobError(Reason.VERIFICATION_FAILED, "rows do not add up")


def test_an_unlock_that_fails_does_not_fail_work_that_is_done() -> None:
    taker = locks(Metastore(down=("unlock",)))
    taker.share()
    taker.guard()
    taker.release()


def test_whoever_is_in_the_way_is_named_and_nobody_else() -> None:
    """A reader of another partition holds nothing up; one of the whole table does."""
    metastore = Metastore(read={"prt=P1"}, locks=(held(7, None), held(8, "prt=p1"), held(9, "prt=p2")))
    assert "held by lock 7 of alice@desk, lock 8 of alice@desk" in f"{refused(locks(metastore), 'prt=P1')},"
    assert "lock 9" not in str(refused(locks(metastore), "prt=P1"))


def test_holders_that_cannot_be_named_are_still_waited_for() -> None:
    metastore = Metastore(read={"prt=p1"}, down=("show_locks",))
    assert "connection refused" in str(refused(locks(metastore), "prt=p1"))
    assert metastore.asked.count((LockKind.EXCLUSIVE, "prt=p1")) == 3


def test_partitions_that_are_read_share_the_tries_after_the_first() -> None:
    """Else thousands of them, each waited for to the end, would keep one driver for days."""
    metastore = Metastore(read={"prt=p1", "prt=p2"})
    taker = locks(metastore)
    taker.share()
    refused(taker, "prt=p1")
    refused(taker, "prt=p2")
    with taker.exclusive("prt=p3"):
        taker.guard()
    tries = [partition for kind, partition in metastore.asked if kind is LockKind.EXCLUSIVE]
    assert tries == ["prt=p1"] * 3 + ["prt=p2", "prt=p3"]
    taker.release()
    assert metastore.own == {}


def test_a_driver_that_waits_has_a_lock_or_waits_for_one_at_every_moment() -> None:
    """By show_locks it is never lost: not between two tries, nor between two partitions."""
    metastore = Metastore(read={"prt=p1"})
    taker = locks(metastore)
    taker.share()
    refused(taker, "prt=p1")
    with taker.exclusive("prt=p2"):
        assert [wish.kind for wish in metastore.own.values()] == [LockKind.EXCLUSIVE]
    taker.share()
    assert set(metastore.standing) == {1, 2}
    assert [wish.kind for wish in metastore.own.values()] == [LockKind.SHARED_READ]
    taker.release()


def test_between_two_tries_readers_are_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the pauses it holds SHARED_READ, behind which nobody who reads waits."""
    metastore, held_meanwhile = Metastore(read={"prt=p1"}), list[LockKind]()
    monkeypatch.setattr(job_locks, "EXCLUSIVE_PATIENCE", Patience(wait_seconds=0.01, tries=3, pause_seconds=7))

    def pause(seconds: float) -> None:
        if seconds == 7:
            held_meanwhile.extend(wish.kind for wish in metastore.own.values())

    monkeypatch.setattr(interruption, "pause", pause)
    taker = locks(metastore)
    taker.share()
    refused(taker, "prt=p1")
    assert held_meanwhile == [LockKind.SHARED_READ] * 2


def test_a_lock_that_waits_is_kept_alive_like_one_that_is_held() -> None:
    metastore = Metastore(read={None, "prt=p1"})
    taker = locks(metastore)
    taker.share()
    refused(taker, "prt=p1")
    beaten = [thread.name for thread in threading.enumerate() if thread.name.startswith("heartbeat")]
    assert beaten == [f"heartbeat-lock-{number}" for number in metastore.own]
    taker.release()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("heartbeat")]


@pytest.mark.parametrize("waits", [False, True])
def test_a_lock_that_the_metastore_took_away_is_said_to_be_lost(waits: bool) -> None:
    metastore = Metastore(read={"prt=p1"}, gone={1, 2})
    taker = locks(metastore)
    taker.share()
    with pytest.raises(JobError) as lost:
        if waits:
            with taker.exclusive("prt=p1"):
                pytest.fail("the lock is held by a reader")
        taker.guard()
    assert lost.value.reason is Reason.LOCK_LOST


def test_what_is_not_held_guards_nothing() -> None:
    taker = locks(Metastore())
    with pytest.raises(JobError) as lost:
        taker.guard()
    assert lost.value.reason is Reason.LOCK_LOST


def test_a_lock_that_cannot_be_asked_for_again_does_not_leave_the_exclusive_one() -> None:
    """Nor does it fail what was published under it."""
    metastore = Metastore()
    taker = locks(metastore)
    taker.share()
    with taker.exclusive("prt=p1"):
        metastore.down = ("lock",)
    assert metastore.own == {}
