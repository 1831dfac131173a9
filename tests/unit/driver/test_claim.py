"""A claim on a partition of Hive 4: what is taken is exactly the own entry, and every end ends all of it."""

import threading
from dataclasses import replace

import pytest

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive.claim import Claim, Claims
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.driver_locks import Locks
from compaction_operator.metastore import LockLost, MetastoreError, MetastoreUnavailable, QueueJob, TransactionLost
from tests.unit.driver.hive4_metastore import Hive4Metastore
from tests.unit.driver.support import IDENTITY, REQUEST

UNAVAILABLE = MetastoreUnavailable("no answer")


def claimed(metastore: Hive4Metastore, partition: str | None = "prt=p1") -> Claim:
    attempt = DriverContext(metastore.client(), REQUEST, "pod1", IDENTITY)
    locks = Locks(attempt.client, attempt.table, agent=attempt.agent)
    try:
        return Claims(attempt, locks).take(partition)
    finally:
        locks.release()


def beating() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("heartbeat-transaction")]


def other(job: QueueJob) -> QueueJob:
    return replace(job, queue_id=77)


def another_partition(job: QueueJob) -> QueueJob:
    return replace(job, partition="prt=p2")


def another_type(job: QueueJob) -> QueueJob:
    return replace(job, type=CompactionType.MAJOR)


@pytest.mark.parametrize("handed_out", [other, another_partition, another_type])
def test_an_entry_that_is_not_exactly_the_own_one_is_not_worked_on(handed_out) -> None:
    """Both end as failed: nobody else would ever work on what is in this driver's pool."""
    metastore = Hive4Metastore(handed_out=handed_out)
    with pytest.raises(JobError) as refused:
        claimed(metastore)
    assert refused.value.reason is Reason.IN_COMPACTION_QUEUE
    assert set(metastore.states.values()) == {"failed"}
    assert metastore.txns == {}


def test_an_entry_that_is_not_handed_out_is_given_up() -> None:
    metastore = Hive4Metastore(handed_out=lambda _: None)
    with pytest.raises(JobError, match="entry 1 was not handed out"):
        claimed(metastore)
    assert metastore.states == {1: "failed"}


def test_what_the_queue_does_not_accept_waits_for_its_turn() -> None:
    with pytest.raises(JobError) as refused:
        claimed(Hive4Metastore(accepts=False))
    assert refused.value.reason is Reason.IN_COMPACTION_QUEUE


def test_names_are_compared_as_the_metastore_keeps_them() -> None:
    """The request says Sales.Orders; a metastore hands out lower case."""
    metastore = Hive4Metastore(handed_out=lambda job: replace(job, partition="PRT=p1"))
    claimed(metastore).abandon("over")


@pytest.mark.parametrize("call", ["take_compaction", "open_compaction_txn", "lock"])
def test_a_claim_that_fails_half_way_ends_what_it_has(call: str) -> None:
    metastore = Hive4Metastore(failures={call: MetastoreError("refused")})
    with pytest.raises(MetastoreError, match="refused"):
        claimed(metastore)
    assert metastore.states == {1: "failed"}
    assert set(metastore.txns.values()) <= {"aborted"}
    assert beating() == []


def test_a_lock_that_went_with_its_transaction_ends_that_claim_alone() -> None:
    """The metastore may say either: that the transaction is aborted, or that the waiting lock does not exist."""
    metastore = Hive4Metastore(failures={"lock": LockLost("no lock 101")})
    with pytest.raises(JobError, match="transaction 101 is gone: no lock 101") as lost:
        claimed(metastore)
    assert lost.value.reason is Reason.TRANSACTION_LOST
    assert metastore.states == {1: "failed"}


def test_an_error_while_ending_does_not_hide_why() -> None:
    failures: dict[str, Exception] = {"lock": TransactionLost("aborted"), "mark_failed": UNAVAILABLE}
    with pytest.raises(JobError, match="transaction 101 is gone: aborted"):
        claimed(Hive4Metastore(failures=failures))
    assert beating() == []


def test_a_transaction_is_aborted_even_where_its_entry_cannot_be_ended() -> None:
    metastore = Hive4Metastore()
    claim = claimed(metastore)
    metastore.failures["mark_failed"] = MetastoreError("refused")
    with pytest.raises(MetastoreError):
        claim.abandon("over")
    assert metastore.txns == {101: "aborted"}


@pytest.mark.parametrize("end", ["commit", "refuse", "abandon"])
def test_each_end_stops_the_heartbeats(end: str) -> None:
    claim = claimed(Hive4Metastore())
    assert beating() == ["heartbeat-transaction-101"]
    getattr(claim, end)(*([] if end == "commit" else ["nothing to compact"]))
    assert beating() == []


def test_what_is_committed_is_never_abandoned() -> None:
    metastore = Hive4Metastore()
    claim = claimed(metastore)
    claim.commit()
    claim.abandon("some error later on")
    assert (metastore.states, metastore.txns) == ({1: "ready for cleaning"}, {101: "committed"})


@pytest.mark.parametrize("error", [UNAVAILABLE, MetastoreError("refused")])
def test_what_may_be_committed_is_never_abandoned(error: MetastoreError) -> None:
    metastore = Hive4Metastore(failures={"commit_txn": error})
    claim = claimed(metastore)
    with pytest.raises(MetastoreError):
        claim.commit()
    claim.abandon("no answer")
    assert "abort_txn" not in metastore.asked


def test_an_entry_that_was_taken_away_is_not_committed() -> None:
    """What an administrator ended would else be published without a line that tells of it."""
    metastore = Hive4Metastore(failures={"mark_compacted": MetastoreError("update count was 0")})
    claim = claimed(metastore)
    with pytest.raises(JobError) as lost:
        claim.commit()
    assert lost.value.reason is Reason.TRANSACTION_LOST
    claim.abandon(str(lost.value))
    assert metastore.txns == {101: "aborted"}


def test_an_aborted_transaction_is_told_from_one_of_which_nobody_knows() -> None:
    """Only then its entry ends as failed."""
    metastore = Hive4Metastore()
    claim = claimed(metastore)
    metastore.txns[101] = "aborted"
    with pytest.raises(JobError) as lost:
        claim.commit()
    assert lost.value.reason is Reason.TRANSACTION_LOST
    claim.abandon("gone")
    assert metastore.states == {1: "failed"}


def test_the_guard_asks_the_metastore_itself() -> None:
    """H19: a heartbeat of 20 seconds ago says nothing."""
    metastore = Hive4Metastore()
    claim = claimed(metastore)
    metastore.failures["heartbeat_txn"] = TransactionLost("aborted")
    with pytest.raises(JobError) as lost:
        claim.guard()
    assert lost.value.reason is Reason.TRANSACTION_LOST
    claim.abandon("gone")
