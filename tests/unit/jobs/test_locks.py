"""A driver's locks when the metastore fails in between: the work under them ends as it would have without that."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import pytest

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import Reason
from compaction_operator.jobs import locks as job_locks
from compaction_operator.jobs.errors import JobError
from compaction_operator.jobs.locks import Locks, Patience
from compaction_operator.metastore.client import MetastoreClient
from compaction_operator.metastore.errors import MetastoreUnavailable
from compaction_operator.metastore.locks import LockInfo, LockState, LockWish

TABLE = TableRef(database="sales", name="orders")


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
    """Grants what is not `read`; fails the calls that are `down`."""

    read: set[str | None] = field(default_factory=set)
    locks: tuple[LockInfo, ...] = ()
    down: tuple[str, ...] = ()
    asked: list[str | None] = field(default_factory=list)
    unlocked: list[int] = field(default_factory=list)

    def lock(self, wish: LockWish) -> LockState:
        self.asked.append(wish.partition)
        return LockState(len(self.asked), acquired=wish.partition not in self.read)

    def check_lock(self, lock_id: int) -> bool:
        self._answer("check_lock")
        return False

    def heartbeat(self, lock_id: int) -> None:
        self._answer("heartbeat")

    def unlock(self, lock_id: int) -> None:
        self._answer("unlock")
        self.unlocked.append(lock_id)

    def show_locks(self, database: str, table: str) -> tuple[LockInfo, ...]:
        self._answer("show_locks")
        return self.locks

    def _answer(self, call: str) -> None:
        if call in self.down:
            raise MetastoreUnavailable("connection refused")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(job_locks, "EXCLUSIVE_PATIENCE", Patience(wait_seconds=0.01, tries=3))
    monkeypatch.setattr(job_locks, "POLL_SECONDS", 0.001)
    yield


def locks(metastore: Metastore) -> Locks:
    return Locks(cast(MetastoreClient, metastore), TABLE, agent="own")


def refused(taker: Locks, partition: str | None) -> JobError:
    with pytest.raises(JobError) as caught, taker.exclusive(partition):
        pytest.fail("the lock is held by a reader")
    assert caught.value.reason is Reason.WAITING_FOR_EXCLUSIVE_LOCK
    return caught.value


def test_an_unlock_that_fails_does_not_hide_why_the_work_failed() -> None:
    with pytest.raises(JobError, match="rows do not add up"), locks(Metastore(down=("unlock",))).shared():
        raise JobError(Reason.VERIFICATION_FAILED, "rows do not add up")


def test_an_unlock_that_fails_does_not_fail_work_that_is_done() -> None:
    with locks(Metastore(down=("unlock",))).shared() as lock:
        lock.guard()


def test_whoever_is_in_the_way_is_named_and_nobody_else() -> None:
    """A reader of another partition holds nothing up; one of the whole table does."""
    metastore = Metastore(read={"prt=P1"}, locks=(held(7, None), held(8, "prt=p1"), held(9, "prt=p2")))
    assert "held by lock 7 of alice@desk, lock 8 of alice@desk" in f"{refused(locks(metastore), 'prt=P1')},"
    assert "lock 9" not in str(refused(locks(metastore), "prt=P1"))


def test_holders_that_cannot_be_named_are_still_waited_for() -> None:
    metastore = Metastore(read={"prt=p1"}, down=("show_locks",))
    assert "connection refused" in str(refused(locks(metastore), "prt=p1"))
    assert metastore.asked == ["prt=p1"] * 3


def test_partitions_that_are_read_share_the_tries_after_the_first() -> None:
    """Else thousands of them, each waited for to the end, would keep one driver for days."""
    metastore = Metastore(read={"prt=p1", "prt=p2"})
    taker = locks(metastore)
    refused(taker, "prt=p1")
    refused(taker, "prt=p2")
    with taker.exclusive("prt=p3"):
        assert metastore.asked == ["prt=p1"] * 3 + ["prt=p2", "prt=p3"]
    assert metastore.unlocked == [1, 2, 3, 4, 5]
