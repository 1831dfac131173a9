"""The compaction queue and COMPACTION transactions of a real Hive 4 metastore: what each call does to them."""

from dataclasses import dataclass, replace

import pytest
from sandbox.harness.wait import wait_until
from sandbox.metastore.admin import MetastoreAdmin

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import agent_info, queue_pool
from compaction_operator.metastore import (
    LockKind,
    LockWish,
    MetastoreError,
    QueueEntry,
    QueueJob,
    QueueState,
    TransactionLost,
)

SERVERS = ("4.0.1", "4.0.1-postgres")

AGENT = agent_info(uid="0f8c", attempt=1, pod_uid="pod1-uid")


@dataclass
class Queue:
    """The queue, as the driver of one attempt at one table sees it."""

    admin: MetastoreAdmin
    database: str
    table: str

    @property
    def pool(self) -> str:
        """The attempt's own; entries of other tests are in other pools."""
        return queue_pool(uid=self.database, attempt=1, pod_uid="pod1-uid")

    def enqueue(
        self,
        *,
        partition: str | None = None,
        type: CompactionType = CompactionType.MINOR,
        pool: str | None = None,
    ) -> QueueEntry | None:
        """Ask for a compaction of the table."""
        return self.admin.enqueue_compaction(
            database=self.database, table=self.table, partition=partition, type=type, pool=pool or self.pool
        )

    def begin(self, *, highest_write_id: int = 1, partition: str | None = None) -> tuple[QueueJob, int]:
        """Put an entry into the queue, take it, and open its transaction."""
        entry, job = self.enqueue(partition=partition), self.admin.take_compaction(pool=self.pool, worker="worker-1")
        assert entry and job and entry.queue_id == job.queue_id
        job, txn = replace(job, highest_write_id=highest_write_id), self.admin.open_compaction_txn(agent=AGENT)
        self.admin.update_compaction(job, txn)
        return job, txn

    def publish(self, *, highest_write_id: int, partition: str | None = None) -> QueueJob:
        """Do it all, but for the cleaning."""
        job, txn = self.begin(highest_write_id=highest_write_id, partition=partition)
        self.admin.mark_compacted(job)
        self.admin.commit_txn(txn)
        return job

    def line(self, number: int) -> QueueEntry:
        """Return the line of SHOW COMPACTIONS of an entry."""
        (entry,) = (entry for entry in self.admin.compactions(self.database, self.table) if entry.queue_id == number)
        return entry

    def write(self) -> int:
        """Insert into the table, as far as the metastore sees it; returns the write id."""
        txn = self.admin.open_txn(user="writer", agent="test")
        write_id = self.admin.allocate_write_id(txn, self.database, self.table)
        self.admin.commit_txn(txn)
        return write_id


@pytest.fixture
def queue(admin: MetastoreAdmin, database: str, table: str) -> Queue:
    return Queue(admin, database, table)


def test_a_compaction_from_queue_to_clean(admin, database, table, queue):
    """The whole protocol: each step is seen by SHOW COMPACTIONS, SHOW TRANSACTIONS and SHOW LOCKS."""
    last = [queue.write() for _ in range(3)][-1]
    entry = queue.enqueue(type=CompactionType.MAJOR)
    assert queue.line(entry.queue_id).state is QueueState.INITIATED
    job = admin.take_compaction(pool=queue.pool, worker="worker-1")
    assert (job.queue_id, job.database, job.table, job.type) == (entry.queue_id, database, table, CompactionType.MAJOR)
    assert (queue.line(job.queue_id).state, queue.line(job.queue_id).worker) == (QueueState.WORKING, "worker-1")
    txn = admin.open_compaction_txn(agent=AGENT)
    assert admin.lock(
        LockWish(database=database, table=table, kind=LockKind.SHARED_READ, agent=AGENT, txn=txn)
    ).acquired
    write_ids = admin.valid_write_ids(database, table, valid_txns=admin.valid_txns(without=[txn]))
    assert write_ids.watermark == last
    job = replace(job, highest_write_id=last)
    admin.update_compaction(job, txn)
    assert (queue.line(job.queue_id).txn, queue.line(job.queue_id).highest_write_id) == (txn, last)
    admin.heartbeat_txn(txn)
    admin.mark_compacted(job)
    assert (queue.line(job.queue_id).state, queue.line(job.queue_id).committed) == (QueueState.READY_FOR_CLEANING, None)
    assert not admin.valid_txns().is_valid(txn)
    admin.commit_txn(txn)
    assert admin.valid_txns().is_valid(txn) and queue.line(job.queue_id).committed is not None
    assert admin.show_locks(database, table) == ()
    admin.mark_cleaned(job)
    ended = queue.line(job.queue_id)
    assert (ended.state, ended.pool, ended.txn) == (QueueState.SUCCEEDED, queue.pool, txn)
    assert ended.is_ended and not ended.is_open and ended.committed is not None


def test_a_compaction_that_fails_is_told_with_its_reason(admin, queue):
    job, txn = queue.begin()
    admin.mark_failed(job, "the disk is full")
    assert admin.abort_txn(txn)
    assert (queue.line(job.queue_id).state, queue.line(job.queue_id).error) == (QueueState.FAILED, "the disk is full")
    assert txn in admin.valid_txns().aborted


def test_an_own_open_transaction_is_known_by_its_agent(admin):
    """The metastore hands out no agent of a transaction, but its host."""
    txn = admin.open_compaction_txn(agent=AGENT)
    (found,) = (info for info in admin.open_transactions().open if info.txn == txn)
    admin.abort_txn(txn)
    assert found.agent == AGENT


def test_only_entries_of_the_own_pool_are_taken(admin, queue):
    """A queue hands out anybody's entries to who names no pool."""
    entry = queue.enqueue(pool="somebody-elses")
    assert admin.take_compaction(pool=queue.pool, worker="w") is None
    with pytest.raises(ValueError, match="pool"):
        admin.take_compaction(pool=" ", worker="w")
    assert admin.take_compaction(pool="somebody-elses", worker="w").queue_id == entry.queue_id


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_second_entry_is_not_accepted_while_one_is_open(admin, queue, is_taken):
    queue.enqueue()
    if is_taken:
        assert admin.take_compaction(pool=queue.pool, worker="w")
    assert queue.enqueue() is None and queue.enqueue(type=CompactionType.MAJOR, pool="other") is None


def test_entries_of_the_table_and_of_a_partition_do_not_exclude_each_other(queue):
    """Which is why the whole table's queue is looked at before."""
    assert queue.enqueue() and queue.enqueue(partition="prt=p1") and queue.enqueue(partition="prt=p2")


def test_nothing_new_is_accepted_while_what_was_compacted_waits_to_be_cleaned(admin, queue):
    last = queue.write()
    job = queue.publish(highest_write_id=last)
    assert queue.enqueue() is None
    admin.mark_cleaned(job)
    assert queue.enqueue() is not None


@pytest.mark.parametrize("is_taken", [False, True])
def test_an_entry_of_a_dead_attempt_can_be_ended_wherever_it_is(admin, queue, is_taken):
    entry = queue.enqueue()
    job = QueueJob(queue_id=entry.queue_id, database=entry.database, table=entry.table, type=entry.type)
    if is_taken:
        admin.take_compaction(pool=queue.pool, worker="w")
    admin.mark_failed(job, "its driver is gone")
    admin.mark_failed(job, "again")
    assert (queue.line(job.queue_id).state, queue.line(job.queue_id).error) == (QueueState.FAILED, "its driver is gone")
    assert queue.enqueue() is not None


def test_what_was_marked_as_compacted_but_not_committed_was_never_published(admin, queue):
    """A driver that dies between the two leaves an entry that Hive's Cleaner takes for ready; `committed` tells."""
    job, txn = queue.begin()
    admin.mark_compacted(job)
    admin.abort_txn(txn)
    assert (queue.line(job.queue_id).state, queue.line(job.queue_id).committed) == (QueueState.READY_FOR_CLEANING, None)
    with pytest.raises(TransactionLost):
        admin.commit_txn(txn)
    admin.mark_failed(job, "never committed")
    assert queue.line(job.queue_id).state is QueueState.FAILED


def test_an_entry_that_is_gone_cannot_be_worked_on(admin, queue):
    job, txn = queue.begin()
    admin.mark_failed(job, "ended by somebody else")
    with pytest.raises(MetastoreError):
        admin.update_compaction(job, txn)
    with pytest.raises(MetastoreError):
        admin.mark_compacted(job)
    admin.abort_txn(txn)


def test_marks_that_need_the_highest_write_id_are_refused_without_it(admin, queue):
    """As 0 it would mean all write ids: the metastore would forget which ones were aborted."""
    job, txn = queue.begin()
    unknown = replace(job, highest_write_id=None)
    for call in (admin.mark_cleaned, lambda job: admin.update_compaction(job, txn)):
        with pytest.raises(ValueError, match="highest write id"):
            call(unknown)
    admin.abort_txn(txn)


def test_compactions_are_found_by_names_in_any_case(admin, database, table, queue):
    entry = queue.enqueue()
    assert [one.queue_id for one in admin.compactions(database.upper(), table.upper())] == [entry.queue_id]
    assert entry.queue_id in {one.queue_id for one in admin.compactions(database)}
    assert entry.queue_id in {one.queue_id for one in admin.compactions()}
    assert admin.compactions(database, "other") == ()


def test_an_aborted_compaction_is_remembered_until_its_partition_is_marked_as_cleaned(admin, queue):
    """Then its id counts as committed: no directory of it may be left by then."""
    last = queue.write()
    failed, aborted = queue.begin(highest_write_id=last, partition="prt=p1")
    admin.mark_failed(failed, "x")
    admin.abort_txn(aborted)
    job = queue.publish(highest_write_id=last, partition="prt=p1")
    assert aborted in admin.valid_txns().aborted
    admin.mark_cleaned(job)
    admin.abort_txn(admin.open_txn(user="u", agent="a"))  # the newest is never forgotten
    wait_until(lambda: admin.valid_txns().is_valid(aborted), timeout=60, what="the metastore's housekeeping", poll=0.5)


def test_a_tables_id_is_new_when_it_is_made_again(admin, database, table, make_table):
    """H11: unlike the time of its creation, which has seconds only."""
    first = admin.get_table(database, table).table_id
    admin.drop_table(database, table)
    make_table(table)
    assert first is not None and admin.get_table(database, table).table_id > first
