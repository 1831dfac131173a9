"""What a metastore answers: the same tests for the fake (tests/unit) and for real ones (tests/integration).

A module that inherits one of these classes has the fixtures `admin`, a client that can also play writers and readers,
`database`, and `table`, the name of a new ACID table in it; LocksContract and QueueContract also need `make_table`.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from sandbox.metastore.admin import MetastoreAdmin

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import agent_info, queue_pool
from compaction_operator.metastore import (
    Heartbeat,
    LockKind,
    LockLost,
    LockWish,
    MetastoreError,
    QueueEntry,
    QueueJob,
    QueueState,
    TableNotFound,
    TransactionLost,
)

SHARED, EXCLUSIVE = LockKind.SHARED_READ, LockKind.EXCLUSIVE
AGENT = agent_info(uid="0f8c", attempt=1, pod_uid="pod1-uid")


class TransactionsContract:
    """Write ids and transactions, as a reader that starts now sees them."""

    @pytest.fixture
    def write(self, admin, database, table):
        """Open a transaction with a write id; returns both."""

        def open_writer():
            txn = admin.open_txn(user="writer", agent="test")
            return txn, admin.allocate_write_id(txn, database, table)

        return open_writer

    def test_a_new_table_has_no_write_ids(self, admin, database, table):
        write_ids = admin.valid_write_ids(database, table)
        assert (write_ids.table, write_ids.high_watermark) == (f"{database}.{table}", 0)
        assert not write_ids.open and not write_ids.aborted

    def test_committed_open_and_aborted_write_ids_are_distinguished(self, admin, database, table, write):
        writers = [write() for _ in range(12)]
        for number, (txn, write_id) in enumerate(writers, 1):
            assert write_id == number
            if number in (2, 11):
                admin.abort_txn(txn)
            elif number not in (5, 9):
                admin.commit_txn(txn)
        write_ids = admin.valid_write_ids(database, table)
        assert write_ids.high_watermark == 12
        assert write_ids.aborted == {2, 11}
        assert write_ids.open == {5, 9}
        assert write_ids.min_open == 5
        assert write_ids.watermark == 4
        for txn, _ in (writers[4], writers[8]):
            admin.abort_txn(txn)

    def test_write_ids_are_found_by_a_name_in_any_case(self, admin, database, table, write):
        """The metastore compares this name as text: spelled otherwise, it would say that there are no write ids."""
        txn, _ = write()
        admin.commit_txn(txn)
        assert admin.valid_write_ids(database.upper(), table.upper()) == admin.valid_write_ids(database, table)
        assert admin.valid_write_ids(database.upper(), table.upper()).high_watermark == 1

    def test_a_transaction_keeps_its_write_id(self, admin, database, table, write):
        txn, write_id = write()
        assert admin.allocate_write_id(txn, database, table) == write_id
        admin.abort_txn(txn)

    def test_open_transactions_are_listed_until_they_end(self, admin):
        first = admin.open_txn(user="ann", agent="reader")
        second = admin.open_txn(user="bob", agent="reader")
        admin.abort_txn(second)
        found = admin.open_transactions()
        assert found.high_water_mark >= second
        opened = {txn.txn: txn for txn in found.open}
        assert opened[first].user == "ann" and opened[first].state == "OPEN" and opened[first].started is not None
        assert second not in opened
        admin.commit_txn(first)
        assert first not in {txn.txn for txn in admin.open_transactions().open}

    def test_the_transaction_list_tells_open_from_aborted(self, admin):
        opened, aborted, committed = (admin.open_txn(user="u", agent="a") for _ in range(3))
        admin.abort_txn(aborted)
        admin.commit_txn(committed)
        txns = admin.valid_txns()
        assert txns.is_valid(committed) and not txns.is_valid(opened) and not txns.is_valid(aborted)
        assert opened in txns.open and aborted in txns.aborted
        assert txns.high_watermark >= committed
        admin.commit_txn(opened)

    def test_a_transaction_can_be_kept_alive_only_while_it_is_open(self, admin):
        txn = admin.open_txn(user="u", agent="a")
        admin.heartbeat_txn(txn)
        admin.abort_txn(txn)
        with pytest.raises(TransactionLost):
            admin.heartbeat_txn(txn)

    def test_a_transaction_that_is_aborted_or_unknown_cannot_be_committed(self, admin):
        txn = admin.open_txn(user="u", agent="a")
        admin.abort_txn(txn)
        for number in (txn, 10**9):
            with pytest.raises(TransactionLost):
                admin.commit_txn(number)

    def test_an_abort_tells_whether_the_transaction_is_aborted(self, admin, write):
        aborted, _ = write()
        assert admin.abort_txn(aborted) and admin.abort_txn(aborted)
        committed, _ = write()
        admin.commit_txn(committed)
        assert not admin.abort_txn(committed) and not admin.abort_txn(10**9)
        assert admin.valid_txns().is_valid(committed)

    def test_a_snapshot_does_not_have_what_is_written_after_it(self, admin, database, table, write):
        first, _ = write()
        admin.commit_txn(first)
        before = admin.valid_txns()
        later, _ = write()
        admin.commit_txn(later)
        assert admin.valid_write_ids(database, table, valid_txns=before).high_watermark == 1
        assert admin.valid_write_ids(database, table).high_watermark == 2

    def test_an_earlier_snapshot_sees_no_write_id_of_a_later_transaction(self, admin, database, table):
        """Nor where that one has the lower write id: Hive 4 lowers the high watermark then, Hive 3 does not."""
        earlier = admin.open_txn(user="writer", agent="test")
        before = admin.valid_txns()
        later = admin.open_txn(user="writer", agent="test")
        ids = [admin.allocate_write_id(txn, database, table) for txn in (later, earlier)]
        for txn in (later, earlier):
            admin.commit_txn(txn)
        seen = admin.valid_write_ids(database, table, valid_txns=before)
        assert ids == [1, 2]
        assert (seen.is_valid(1), seen.is_valid(2), seen.watermark) == (False, False, 0)

    def test_own_transactions_can_be_left_out_of_the_open_ones(self, admin, database, table, write):
        other, _ = write()
        own, _ = write()
        txns = admin.valid_txns(without=[own])
        assert own not in txns.open and other in txns.open and txns.min_open == min(txns.open)
        assert admin.valid_write_ids(database, table, valid_txns=txns).open == {1}
        admin.abort_txn(own)
        admin.abort_txn(other)


class TablesContract:
    """Tables and databases, those that do not exist above all."""

    def test_a_table_is_found_by_a_name_in_any_case(self, admin, database, table):
        found = admin.get_table(database.upper(), table.upper())
        assert (found.database, found.name) == (database, table)
        assert admin.table_locations(database) == {table: found.location}

    def test_missing_and_empty_are_distinguished(self, admin, database, table):
        assert (admin.get_partition_names(database, table), admin.get_partitions(database, table, [])) == ((), ())
        assert "no_auto_compaction" not in admin.get_database(database)
        for call, *arguments in (
            ("get_table", database, "missing"),
            ("get_partition_names", database, "missing"),
            ("get_partitions", database, "missing", ["prt=p1"]),
            ("get_database", "missing"),
        ):
            with pytest.raises(TableNotFound):
                getattr(admin, call)(*arguments)

    def test_a_database_or_table_that_does_not_exist_has_neither_tables_nor_write_ids(self, admin, database):
        assert admin.table_locations("missing") == {}
        assert admin.valid_write_ids(database, "missing").high_watermark == 0

    def test_all_managed_tables_are_found_by_one_call_and_read_in_batches(self, admin, database, table):
        assert (database, table) in admin.managed_tables()
        assert admin.get_tables(database, [table, "missing"]) == (admin.get_table(database, table),)

    def test_the_write_ids_of_many_tables_are_those_of_each(self, admin, database, table):
        txn = admin.open_txn(user="writer", agent="test")
        admin.allocate_write_id(txn, database, table)
        names, snapshot = [f"{database}.{table}", f"{database}.missing"], admin.valid_txns()
        assert admin.valid_write_ids_of(names, valid_txns=snapshot) == {
            f"{database}.{name}": admin.valid_write_ids(database, name, valid_txns=snapshot)
            for name in (table, "missing")
        }
        admin.abort_txn(txn)

    def test_a_setting_that_the_metastore_does_not_know_has_the_default(self, admin):
        assert admin.get_config_value("hive.no.such.setting", "default") == "default"


class LocksContract:
    """Locks: who gets them, who sees them, how they go."""

    @pytest.fixture
    def take(self, admin, database, table):
        """Ask for a lock on the test's table; it is given back after the test."""
        taken = []

        def ask(kind=SHARED, *, partition=None, agent="test", txn=0):
            wish = LockWish(database=database, table=table, partition=partition, kind=kind, agent=agent, txn=txn)
            taken.append(admin.lock(wish))
            return taken[-1]

        yield ask
        for state in taken:
            admin.unlock(state.lock_id)

    def test_readers_share(self, take):
        assert take().acquired and take(partition="prt=p1").acquired

    @pytest.mark.parametrize(
        ("held", "wanted"),
        [("prt=p1", "prt=p1"), (None, "prt=p1"), ("prt=p1", None), (None, None)],
    )
    def test_an_exclusive_lock_waits_for_a_reader_of_table_or_partition(self, admin, take, held, wanted):
        reader = take(partition=held)
        writer = take(EXCLUSIVE, partition=wanted)
        assert reader.acquired and not writer.acquired
        assert admin.check_lock(writer.lock_id) is False
        admin.unlock(reader.lock_id)
        assert admin.check_lock(writer.lock_id) is True

    def test_an_exclusive_lock_leaves_readers_of_other_partitions_alone(self, take):
        assert take(partition="prt=p1").acquired
        assert take(EXCLUSIVE, partition="prt=p2").acquired

    def test_a_reader_queues_behind_an_exclusive_lock_that_waits(self, admin, take):
        """Why such a lock is waited for with a bound."""
        first, writer, second = take(partition="prt=p1"), take(EXCLUSIVE, partition="prt=p1"), take(partition="prt=p1")
        assert first.acquired and not writer.acquired and not second.acquired
        admin.unlock(writer.lock_id)
        assert admin.check_lock(second.lock_id)

    def test_an_exclusive_lock_keeps_readers_out_until_it_is_given_back(self, admin, take):
        writer = take(EXCLUSIVE, partition="prt=p1")
        reader = take(partition="prt=p1")
        assert writer.acquired and not reader.acquired
        admin.unlock(writer.lock_id)
        assert admin.check_lock(reader.lock_id)

    def test_locks_of_other_tables_and_databases_are_not_shown(self, admin, database, table, make_table, take):
        make_table("other")
        admin_lock = admin.lock(LockWish(database=database, table="other", kind=SHARED, agent="test"))
        mine = take()
        assert [lock.lock_id for lock in admin.show_locks(database, table)] == [mine.lock_id]
        assert admin.show_locks("nowhere", table) == ()
        admin.unlock(admin_lock.lock_id)

    def test_locks_are_shown_for_names_in_any_case_and_shown_in_lower_case(self, admin, database, table, take):
        wish = LockWish(database=database.upper(), table=table.upper(), partition="PRT=AbC", kind=SHARED, agent="test")
        lock_id = admin.lock(wish).lock_id
        (lock,) = admin.show_locks(database.upper(), table.upper())
        admin.unlock(lock_id)
        assert (lock.lock_id, lock.database, lock.table, lock.partition) == (lock_id, database, table, "prt=abc")

    def test_a_lock_says_who_holds_it_since_when(self, admin, database, table, take):
        before = datetime.now(UTC)
        held, waiting = take(agent="attempt-1"), take(EXCLUSIVE, agent="attempt-2")
        first, second = sorted(admin.show_locks(database, table), key=lambda lock: lock.lock_id)
        assert (first.lock_id, first.state, first.type, first.txn) == (held.lock_id, "ACQUIRED", "SHARED_READ", 0)
        assert (first.user, first.agent) == ("compaction-operator", "attempt-1")
        assert abs((first.acquired_at - before).total_seconds()) < 5
        assert first.last_heartbeat is not None
        assert (second.lock_id, second.state, second.type) == (waiting.lock_id, "WAITING", "EXCLUSIVE")
        assert second.acquired_at is None and second.agent == "attempt-2"

    def test_a_lock_of_a_transaction_names_it_and_goes_with_it(self, admin, database, table, take):
        txn = admin.open_txn(user="reader", agent="test")
        lock_id = admin.lock(LockWish(database=database, table=table, kind=SHARED, agent="test", txn=txn)).lock_id
        (lock,) = admin.show_locks(database, table)
        assert (lock.lock_id, lock.txn, lock.last_heartbeat) == (lock_id, txn, None)
        with pytest.raises(MetastoreError, match="TxnOpenException"):
            admin.unlock(lock_id)
        admin.commit_txn(txn)
        assert admin.show_locks(database, table) == ()

    def test_a_lock_of_a_transaction_that_waits_can_be_given_back(self, admin, database, table, take):
        writer = take(EXCLUSIVE)
        txn = admin.open_txn(user="reader", agent="test")
        waiting = take(txn=txn)
        assert not waiting.acquired
        admin.unlock(waiting.lock_id)
        assert [lock.lock_id for lock in admin.show_locks(database, table)] == [writer.lock_id]
        admin.abort_txn(txn)

    def test_a_lock_of_an_aborted_transaction_is_not_given(self, admin, take):
        txn = admin.open_txn(user="u", agent="a")
        admin.abort_txn(txn)
        with pytest.raises(TransactionLost):
            take(txn=txn)

    def test_giving_a_lock_back_twice_is_no_error(self, admin, database, table, take):
        lock_id = take().lock_id
        admin.unlock(lock_id)
        admin.unlock(lock_id)
        assert admin.show_locks(database, table) == ()

    def test_a_lock_that_vanished_is_lost(self, admin, take):
        lock_id = take().lock_id
        admin.heartbeat(lock_id)
        assert admin.check_lock(lock_id)
        admin.unlock(lock_id)
        with pytest.raises(LockLost):
            admin.heartbeat(lock_id)
        with pytest.raises(LockLost):
            admin.check_lock(lock_id)

    def test_the_heartbeat_thread_notices_that_a_lock_vanished(self, admin, take):
        lock_id = take().lock_id
        heartbeat = Heartbeat(admin, lock_id, interval=0.05)
        heartbeat.check()
        assert not heartbeat.lost.is_set()
        admin.unlock(lock_id)
        assert heartbeat.lost.wait(60)
        heartbeat.stop()
        with pytest.raises(LockLost):
            heartbeat.check()


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
        self.admin.register_reader(job, txn)
        self.admin.update_compaction(job, txn)
        return job, txn

    def publish(self, *, highest_write_id: int, partition: str | None = None) -> QueueJob:
        """Do everything except the cleaning."""
        job, txn = self.begin(highest_write_id=highest_write_id, partition=partition)
        self.admin.commit_txn(txn)
        self.admin.mark_compacted(job)
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


class QueueContract:
    """The compaction queue and COMPACTION transactions of Hive 4: what each call does to them."""

    @pytest.fixture
    def queue(self, admin: MetastoreAdmin, database: str, table: str) -> Queue:
        return Queue(admin, database, table)

    def test_a_compaction_from_queue_to_clean(self, admin, database, table, queue):
        """The whole protocol: each step is seen by SHOW COMPACTIONS, SHOW TRANSACTIONS and SHOW LOCKS."""
        last = [queue.write() for _ in range(3)][-1]
        entry = queue.enqueue(type=CompactionType.MAJOR)
        assert queue.line(entry.queue_id).state is QueueState.INITIATED
        job = admin.take_compaction(pool=queue.pool, worker="worker-1")
        assert (job.queue_id, job.database, job.table, job.type) == (
            entry.queue_id,
            database,
            table,
            CompactionType.MAJOR,
        )
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
        assert not admin.valid_txns().is_valid(txn)
        admin.commit_txn(txn)
        assert admin.valid_txns().is_valid(txn)
        assert admin.show_locks(database, table) == ()
        committed = queue.line(job.queue_id).committed
        assert (queue.line(job.queue_id).state, committed is not None) == (QueueState.WORKING, True)
        for _ in range(2):
            admin.mark_compacted(job)
        line = queue.line(job.queue_id)
        assert (line.state, line.worker, line.committed) == (QueueState.READY_FOR_CLEANING, None, committed)
        admin.mark_cleaned(job)
        ended = queue.line(job.queue_id)
        assert (ended.state, ended.pool, ended.txn) == (QueueState.SUCCEEDED, queue.pool, txn)
        assert ended.is_ended and not ended.is_open and ended.committed is not None

    def test_a_failed_compaction_is_listed_with_its_reason(self, admin, queue):
        job, txn = queue.begin()
        admin.mark_failed(job, "the disk is full")
        assert admin.abort_txn(txn)
        assert (queue.line(job.queue_id).state, queue.line(job.queue_id).error) == (
            QueueState.FAILED,
            "the disk is full",
        )
        assert txn in admin.valid_txns().aborted

    def test_an_own_open_transaction_is_known_by_its_agent(self, admin):
        """The metastore hands out no agent of a transaction, but its host."""
        txn = admin.open_compaction_txn(agent=AGENT)
        (found,) = (info for info in admin.open_transactions().open if info.txn == txn)
        admin.abort_txn(txn)
        assert found.agent == AGENT

    def test_only_entries_of_the_own_pool_are_taken(self, admin, queue):
        """Without a pool the queue hands out entries of any pool."""
        entry = queue.enqueue(pool="another-clients")
        assert admin.take_compaction(pool=queue.pool, worker="w") is None
        with pytest.raises(ValueError, match="pool"):
            admin.take_compaction(pool=" ", worker="w")
        assert admin.take_compaction(pool="another-clients", worker="w").queue_id == entry.queue_id

    def test_an_entry_keeps_the_job_that_works_on_it_through_all_states(self, admin, queue):
        """The name of a TableCompaction: it says whose entry is marked as compacted, which has no worker any more."""
        entry, seen = queue.enqueue(pool=f"shared-{queue.database}"), []
        pool, job = entry.pool, "hive-queue-main-of-32-characters"
        assert admin.pool_compactions(f"other-{queue.database}") == ()
        assert admin.take_any_compaction(pool=pool, worker="host-thread") == entry.queue_id
        assert admin.take_any_compaction(pool=pool, worker="host-thread") is None
        admin.set_job(entry.queue_id, job)
        working = QueueJob(queue_id=entry.queue_id, database=entry.database, table=entry.table, type=entry.type)
        for step in (admin.mark_compacted, lambda taken: admin.mark_failed(taken, "its driver died")):
            (line,) = admin.pool_compactions(pool)
            seen.append((line.state, line.worker, line.job))
            step(working)
        (line,) = admin.pool_compactions(pool)
        assert [*seen, (line.state, line.job)] == [
            (QueueState.WORKING, "host-thread", job),
            (QueueState.READY_FOR_CLEANING, None, job),
            (QueueState.FAILED, job),
        ]
        with pytest.raises(MetastoreError):
            admin.set_job(entry.queue_id, "of an entry that has ended")

    @pytest.mark.parametrize("is_taken", [False, True])
    def test_a_second_entry_is_not_accepted_while_one_is_open(self, admin, queue, is_taken):
        queue.enqueue()
        if is_taken:
            assert admin.take_compaction(pool=queue.pool, worker="w")
        assert queue.enqueue() is None and queue.enqueue(type=CompactionType.MAJOR, pool="other") is None

    def test_entries_of_the_table_and_of_a_partition_do_not_exclude_each_other(self, queue):
        """Which is why the whole table's queue is looked at before."""
        assert queue.enqueue() and queue.enqueue(partition="prt=p1") and queue.enqueue(partition="prt=p2")

    def test_nothing_new_is_accepted_while_what_was_compacted_waits_to_be_cleaned(self, admin, queue):
        last = queue.write()
        job = queue.publish(highest_write_id=last)
        assert queue.enqueue() is None
        admin.mark_cleaned(job)
        assert queue.enqueue() is not None

    @pytest.mark.parametrize("is_taken", [False, True])
    def test_an_entry_of_a_dead_attempt_can_be_ended_wherever_it_is(self, admin, queue, is_taken):
        entry = queue.enqueue()
        job = QueueJob(queue_id=entry.queue_id, database=entry.database, table=entry.table, type=entry.type)
        if is_taken:
            admin.take_compaction(pool=queue.pool, worker="w")
        admin.mark_failed(job, "its driver is gone")
        admin.mark_failed(job, "again")
        assert (queue.line(job.queue_id).state, queue.line(job.queue_id).error) == (
            QueueState.FAILED,
            "its driver is gone",
        )
        assert queue.enqueue() is not None

    def test_what_was_marked_as_compacted_but_not_committed_was_never_published(self, admin, queue):
        """A Worker of Hive's that dies between the two leaves an entry that Hive's Cleaner takes for ready."""
        job, txn = queue.begin()
        admin.mark_compacted(job)
        admin.abort_txn(txn)
        assert (queue.line(job.queue_id).state, queue.line(job.queue_id).committed) == (
            QueueState.READY_FOR_CLEANING,
            None,
        )
        with pytest.raises(TransactionLost):
            admin.commit_txn(txn)
        admin.mark_failed(job, "never committed")
        assert queue.line(job.queue_id).state is QueueState.FAILED

    def test_an_entry_that_has_nothing_to_compact_ends_as_refused(self, admin, queue):
        job, txn = queue.begin()
        admin.mark_refused(job, "nothing to compact")
        admin.commit_txn(txn)
        assert (queue.line(job.queue_id).state, queue.line(job.queue_id).error) == (
            QueueState.REFUSED,
            "nothing to compact",
        )
        assert queue.line(job.queue_id).is_ended

    def test_a_committed_compaction_has_no_worker_and_stays_committed(self, admin, queue):
        job, txn = queue.begin()
        admin.commit_txn(txn)
        admin.commit_txn(txn)
        admin.mark_compacted(job)
        assert not admin.abort_txn(txn)
        assert (queue.line(job.queue_id).worker, queue.line(job.queue_id).txn) == (None, txn)

    def test_an_entry_that_is_gone_cannot_be_worked_on(self, admin, queue):
        job, txn = queue.begin()
        admin.mark_failed(job, "ended by another client")
        with pytest.raises(MetastoreError):
            admin.update_compaction(job, txn)
        with pytest.raises(MetastoreError):
            admin.mark_compacted(job)
        admin.abort_txn(txn)

    def test_marks_that_need_the_highest_write_id_are_refused_without_it(self, admin, queue):
        """As 0 it would mean all write ids: the metastore would forget which ones were aborted."""
        job, txn = queue.begin()
        unknown = replace(job, highest_write_id=None)
        for call in (admin.mark_cleaned, lambda job: admin.update_compaction(job, txn)):
            with pytest.raises(ValueError, match="highest write id"):
                call(unknown)
        admin.abort_txn(txn)

    def test_compactions_are_found_by_names_in_any_case(self, admin, database, table, queue):
        entry = queue.enqueue()
        assert [one.queue_id for one in admin.compactions(database.upper(), table.upper())] == [entry.queue_id]
        assert entry.queue_id in {one.queue_id for one in admin.compactions(database)}
        assert entry.queue_id in {one.queue_id for one in admin.compactions()}
        assert admin.compactions(database, "other") == ()
