"""A claim on a partition of Hive 4: what is taken is exactly the own entry, and every end ends all of it."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason, queue_worker
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive.claim import Claim, Claims
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.driver_locks import Locks
from compaction_operator.metastore import (
    Generation,
    LockLost,
    MetastoreError,
    MetastoreUnavailable,
    QueueState,
    TransactionLost,
)
from tests.support.metastore import ABORTED, COMMITTED, FakeMetastore
from tests.unit.driver.support import IDENTITY, REQUEST, metastore_of, queue_states

UNAVAILABLE = MetastoreUnavailable("no answer")


def hive4_metastore() -> FakeMetastore:
    return metastore_of(hive=Generation.HIVE4)


def claimed(metastore: FakeMetastore, partition: str | None = "prt=p1") -> Claim:
    return _claim(DriverContext(metastore.client(), REQUEST, "pod1", IDENTITY), partition)


def _claim(attempt: DriverContext, partition: str | None) -> Claim:
    locks = Locks(attempt.client, attempt.table, agent=attempt.agent)
    try:
        return Claims(attempt, locks).take(partition)
    finally:
        locks.release()


TAKEN = REQUEST.model_copy(update={"queue_id": 1})


def taken_metastore(*, type_: CompactionType = CompactionType.MINOR) -> FakeMetastore:
    """A metastore with an entry of the pool k8s that the controller has taken."""
    metastore = hive4_metastore()
    metastore.enqueue_compaction(database="sales", table="orders", partition="prt=p1", type=type_, pool="k8s")
    metastore.take_any_compaction(pool="k8s", worker=queue_worker("main"))
    return metastore


def borrowed(metastore: FakeMetastore, partition: str | None = "prt=p1", pod: str = "pod1") -> Claim:
    return _claim(DriverContext(metastore.client(), TAKEN, pod, IDENTITY), partition)


def beating() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("heartbeat-transaction")]


def other(metastore: FakeMetastore) -> None:
    metastore.queue = (replace(metastore.queue[0], queue_id=77), *metastore.queue)


def another_partition(metastore: FakeMetastore) -> None:
    metastore.change_entries(1, partition="prt=p2")


def another_type(metastore: FakeMetastore) -> None:
    metastore.change_entries(1, type=CompactionType.MAJOR)


@pytest.mark.parametrize("handed_out", [other, another_partition, another_type])
def test_an_entry_that_is_not_exactly_the_own_one_is_not_worked_on(handed_out: Callable[[FakeMetastore], None]) -> None:
    """Both end as failed: no other driver would ever work on an entry in this driver's pool."""
    metastore = hive4_metastore()
    metastore.on("take_compaction", lambda **_: handed_out(metastore))
    with pytest.raises(JobError) as refused:
        claimed(metastore)
    assert refused.value.reason is Reason.IN_COMPACTION_QUEUE
    assert set(queue_states(metastore).values()) == {"failed"}
    assert metastore.outcomes() == {}


def test_an_entry_that_is_not_handed_out_is_given_up() -> None:
    metastore = hive4_metastore()
    metastore.on("take_compaction", lambda **_: metastore.change_entries(1, state=QueueState.WORKING))
    with pytest.raises(JobError, match="entry 1 was not handed out"):
        claimed(metastore)
    assert queue_states(metastore) == {1: "failed"}


def test_what_the_queue_does_not_accept_waits_for_its_turn() -> None:
    metastore = hive4_metastore()
    metastore.enqueue_compaction(
        database="sales", table="orders", partition="prt=p1", type=CompactionType.MAJOR, pool="another-pool"
    )
    with pytest.raises(JobError) as refused:
        claimed(metastore)
    assert refused.value.reason is Reason.IN_COMPACTION_QUEUE


def test_names_are_compared_as_the_metastore_keeps_them() -> None:
    """The request says Sales.Orders; a metastore hands out lower case."""
    metastore = hive4_metastore()
    metastore.on("take_compaction", lambda **_: metastore.change_entries(1, partition="PRT=p1"))
    claimed(metastore).abandon("over")


@pytest.mark.parametrize("call", ["take_compaction", "open_compaction_txn", "lock"])
def test_a_claim_that_fails_half_way_ends_what_it_has(call: str) -> None:
    metastore = hive4_metastore()
    metastore.fail(MetastoreError("refused"), call)
    with pytest.raises(MetastoreError, match="refused"):
        claimed(metastore)
    assert queue_states(metastore) == {1: "failed"}
    assert set(metastore.outcomes().values()) <= {ABORTED}
    assert beating() == []


def test_a_lock_that_went_with_its_transaction_ends_that_claim_alone() -> None:
    """The metastore may say either: that the transaction is aborted, or that the waiting lock does not exist."""
    metastore = hive4_metastore()
    metastore.fail(LockLost("no lock 101"), "lock")
    with pytest.raises(JobError, match="transaction 101 is gone: no lock 101") as lost:
        claimed(metastore)
    assert lost.value.reason is Reason.TRANSACTION_LOST
    assert queue_states(metastore) == {1: "failed"}


def test_an_error_while_ending_does_not_hide_why() -> None:
    metastore = hive4_metastore()
    metastore.fail(TransactionLost("aborted"), "lock")
    metastore.fail(UNAVAILABLE, "mark_failed")
    with pytest.raises(JobError, match="transaction 101 is gone: aborted"):
        claimed(metastore)
    assert beating() == []


def test_a_transaction_is_aborted_even_where_its_entry_cannot_be_ended() -> None:
    metastore = hive4_metastore()
    claim = claimed(metastore)
    metastore.fail(MetastoreError("refused"), "mark_failed")
    with pytest.raises(MetastoreError):
        claim.abandon("over")
    assert metastore.outcomes() == {101: ABORTED}


@pytest.mark.parametrize("end", ["commit", "refuse", "abandon"])
def test_each_end_stops_the_heartbeats(end: str) -> None:
    claim = claimed(hive4_metastore())
    assert beating() == ["heartbeat-transaction-101"]
    getattr(claim, end)(*([] if end == "commit" else ["nothing to compact"]))
    assert beating() == []


def test_what_is_committed_is_never_abandoned() -> None:
    metastore = hive4_metastore()
    claim = claimed(metastore)
    claim.commit()
    claim.abandon("some error later on")
    assert (queue_states(metastore), metastore.outcomes()) == ({1: "ready for cleaning"}, {101: COMMITTED})


@pytest.mark.parametrize("error", [UNAVAILABLE, MetastoreError("refused")])
def test_what_may_be_committed_is_never_abandoned(error: MetastoreError) -> None:
    metastore = hive4_metastore()
    metastore.fail(error, "commit_txn")
    claim = claimed(metastore)
    with pytest.raises(MetastoreError):
        claim.commit()
    claim.abandon("no answer")
    assert metastore.count("abort_txn") == 0


@pytest.mark.parametrize("changes", [{"state": QueueState.FAILED}, {"worker": "hive-host-17"}])
@pytest.mark.parametrize("end", ["commit", "refuse"])
def test_an_entry_that_was_taken_away_is_not_committed(changes: dict[str, Any], end: str) -> None:
    """What an administrator ended would else be published without a line that tells of it."""
    metastore = hive4_metastore()
    claim = claimed(metastore)
    metastore.change_entries(1, **changes)
    with pytest.raises(JobError) as lost:
        getattr(claim, end)(*([] if end == "commit" else ["nothing to compact"]))
    assert lost.value.reason is Reason.TRANSACTION_LOST
    claim.abandon(str(lost.value))
    assert metastore.outcomes() == {101: ABORTED}


def test_only_what_is_committed_is_marked_as_compacted() -> None:
    """H10: Hive's Cleaner takes a marked entry for a published one."""
    metastore, seen = hive4_metastore(), list[dict[int, str]]()
    claim = claimed(metastore)
    metastore.on("mark_compacted", lambda *_: seen.append(metastore.outcomes()))
    claim.commit()
    assert (seen, queue_states(metastore)) == ([{101: COMMITTED}], {1: "ready for cleaning"})


@pytest.mark.parametrize("error", [UNAVAILABLE, MetastoreError("the controller has marked it, and it was cleaned")])
def test_what_is_committed_is_published_although_it_cannot_be_marked(error: MetastoreError) -> None:
    metastore = hive4_metastore()
    metastore.fail(error, "mark_compacted")
    claim = claimed(metastore)
    claim.commit()
    claim.abandon("some error later on")
    assert (queue_states(metastore), metastore.outcomes()) == ({1: "working"}, {101: COMMITTED})


def test_an_aborted_transaction_is_distinguished_from_an_unknown_one() -> None:
    """Only an aborted one makes its entry end as failed."""
    metastore = hive4_metastore()
    claim = claimed(metastore)
    metastore.end_txn(101, ABORTED)
    with pytest.raises(JobError) as lost:
        claim.commit()
    assert lost.value.reason is Reason.TRANSACTION_LOST
    claim.abandon("gone")
    assert queue_states(metastore) == {1: "failed"}


def test_the_guard_asks_the_metastore_itself() -> None:
    """H19: a heartbeat of 20 seconds ago says nothing."""
    metastore = hive4_metastore()
    claim = claimed(metastore)
    metastore.fail(TransactionLost("aborted"), "heartbeat_txn")
    with pytest.raises(JobError) as lost:
        claim.guard()
    assert lost.value.reason is Reason.TRANSACTION_LOST
    claim.abandon("gone")


# --- With the entry that the controller took


def test_the_entry_that_the_controller_took_is_worked_on_and_no_other_is_made() -> None:
    metastore = taken_metastore()
    claim = borrowed(metastore)
    claim.begin(highest_write_id=3)
    assert (metastore.queue[0].txn, metastore.queue[0].worker) == (claim.txn, queue_worker("main"))
    assert metastore.queue[0].job == TAKEN.name  # also where the controller died before it recorded that
    claim.commit()
    (entry,) = metastore.queue
    assert (entry.state, entry.committed is not None) == (QueueState.READY_FOR_CLEANING, True)


def test_an_attempt_that_fails_leaves_the_entry_to_the_next_one() -> None:
    metastore = taken_metastore()
    first = borrowed(metastore)
    first.begin(highest_write_id=3)
    first.abandon("the disk is full")
    assert (metastore.outcomes(), queue_states(metastore)) == ({first.txn: ABORTED}, {1: "working"})
    second = borrowed(metastore, pod="pod2")
    second.begin(highest_write_id=3)
    second.commit()
    assert queue_states(metastore) == {1: "ready for cleaning"}


@pytest.mark.parametrize("call", ["open_compaction_txn", "lock"])
def test_a_claim_on_a_taken_entry_that_fails_half_way_leaves_the_entry(call: str) -> None:
    metastore = taken_metastore()
    metastore.fail(MetastoreError("refused"), call)
    with pytest.raises(MetastoreError, match="refused"):
        borrowed(metastore)
    assert queue_states(metastore) == {1: "working"}
    assert set(metastore.outcomes().values()) <= {ABORTED}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"state": QueueState.FAILED, "error": "removed"}, Reason.QUEUE_ENTRY_ENDED),
        ({"queue_id": 2}, Reason.QUEUE_ENTRY_ENDED),
        ({"type": CompactionType.MAJOR}, Reason.UNSUPPORTED_TABLE),
        ({"partition": "prt=p2"}, Reason.UNSUPPORTED_TABLE),
        ({"partition": None}, Reason.UNSUPPORTED_TABLE),
        ({"worker": "hive-host-17"}, Reason.IN_COMPACTION_QUEUE),
        ({"state": QueueState.INITIATED, "worker": None}, Reason.IN_COMPACTION_QUEUE),
        ({"state": QueueState.READY_FOR_CLEANING, "worker": None}, Reason.IN_COMPACTION_QUEUE),
    ],
)
def test_a_taken_entry_that_is_not_what_it_should_be_is_not_worked_on(changes: dict[str, Any], reason: Reason) -> None:
    metastore = taken_metastore()
    metastore.change_entries(1, **changes)
    before = metastore.queue
    with pytest.raises(JobError) as refused:
        borrowed(metastore)
    assert refused.value.reason is reason
    assert (metastore.queue, metastore.outcomes()) == (before, {})


@pytest.mark.parametrize("changes", [{"txn": 4711}, {"worker": "hive-host-17"}, {"state": QueueState.INITIATED}])
def test_a_driver_that_lost_the_taken_entry_publishes_nothing(changes: dict[str, Any]) -> None:
    """Another driver recorded its own transaction, or one of Hive's Workers has the entry."""
    metastore = taken_metastore()
    claim = borrowed(metastore)
    claim.begin(highest_write_id=3)
    metastore.change_entries(1, **changes)
    before = metastore.queue
    with pytest.raises(JobError) as lost:
        claim.commit()
    assert lost.value.reason is Reason.TRANSACTION_LOST
    claim.abandon(str(lost.value))
    assert (metastore.outcomes(), metastore.queue) == ({claim.txn: ABORTED}, before)
