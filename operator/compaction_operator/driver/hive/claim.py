"""A driver's claim on one partition in Hive 4's metastore: a queue entry, and a transaction with its lock."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive.checks import in_queue
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.driver_locks import HEARTBEAT_SECONDS, Locks
from compaction_operator.metastore import (
    LockLost,
    MetastoreClient,
    MetastoreError,
    QueueEntry,
    QueueJob,
    QueueState,
    Refused,
    Taken,
    TransactionHeartbeat,
    TransactionLost,
)

log = logging.getLogger(__name__)


class Claim:
    """An exclusive claim on a partition: no other client compacts it until the claim ends.

    A claim ends with exactly one of `commit`, `refuse` and `abandon`. Until then a thread keeps the transaction alive.
    """

    def __init__(self, client: MetastoreClient, job: QueueJob, *, txn: int) -> None:
        self.txn = txn
        self.lock_id = 0
        self._client = client
        self._job = job
        self._is_open = True
        self._heartbeat = TransactionHeartbeat(client, txn, interval=HEARTBEAT_SECONDS)

    @property
    def queue_id(self) -> int:
        """The id of the queue entry."""
        return self._job.queue_id

    def guard(self) -> None:
        """Raise JobError (TransactionLost) unless the metastore confirms that the transaction is open (hazard H19)."""
        with _unless_lost(self.txn):
            self._heartbeat.check()
            self._client.heartbeat_txn(self.txn)

    def begin(self, *, highest_write_id: int) -> None:
        """Register the transaction as a reader up to that write id, and record both in the queue entry.

        Call it before the listing that counts: only then Hive's Cleaner (4.2) deletes nothing of what is listed, and
        the metastore can never forget how the transaction ended. Raises JobError (TransactionLost).
        """
        self._job = replace(self._job, highest_write_id=highest_write_id)
        with _unless_lost(self.txn):
            self._client.register_reader(self._job, self.txn)
            self._client.update_compaction(self._job, self.txn)

    def commit(self) -> None:
        """Commit: this publishes the outputs. Then mark the entry as compacted.

        In this order, as Hive's Worker does after 4.2 (HIVE-29571): Hive's Cleaner never finds an entry that is marked
        and not published (hazard H10), and if the driver dies between the two, the controller marks what is committed
        (`end_entries`). Raises JobError (TransactionLost) when certainly nothing was published. After a MetastoreError
        from the commit itself the outcome is unknown. Then `abandon` does nothing, and the controller asks the
        metastore after the attempt has ended.
        """
        self._require_entry()
        self._commit()
        try:
            self._client.mark_compacted(self._job)
        except MetastoreError as error:
            log.warning("queue entry %d is left to the controller: %s", self.queue_id, error)

    def refuse(self, why: str) -> None:
        """Mark the entry as refused and commit, as Hive's Worker does when there is nothing to compact.

        Raises as `commit` does.
        """
        self._require_entry()
        self._client.mark_refused(self._job, why)
        self._commit()

    def _require_entry(self) -> None:
        """Raise JobError (TransactionLost) unless the entry is held: else a publication would have no line of its own.

        NB: an administrator, for example, may have ended the entry, or Hive's Initiator may have taken it back.
        """
        entries = self._client.compactions(self._job.database, self._job.table)
        if not any(self._holds(entry) for entry in entries):
            raise JobError(
                Reason.TRANSACTION_LOST, f"queue entry {self.queue_id} is no longer worked on by this driver"
            )

    def _holds(self, entry: QueueEntry) -> bool:
        same = entry.queue_id == self.queue_id
        return same and entry.state is QueueState.WORKING and entry.worker == self._job.worker

    def _commit(self) -> None:
        self._is_open = False
        try:
            self._client.commit_txn(self.txn)
        except TransactionLost as error:
            self._is_open = True
            raise _lost(self.txn, error) from error
        self.stop()

    def abandon(self, why: str) -> None:
        """Mark the entry as failed and abort the transaction.

        Does nothing when the transaction is committed or may be. Raises MetastoreError when the metastore cannot do
        it. The controller's settling, or the metastore's time-out, then ends what remains.
        """
        self.stop()
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._end_entry(why)
        finally:
            self._client.abort_txn(self.txn)

    def _end_entry(self, why: str) -> None:
        self._client.mark_failed(self._job, why)

    def stop(self) -> None:
        """Stop the thread that keeps the transaction alive."""
        self._heartbeat.stop()


class BorrowedClaim(Claim):
    """A claim with the queue entry that the controller took for the compaction.

    The entry outlives an attempt: the next one works on it, or the controller ends it together with the compaction.
    """

    def __init__(self, client: MetastoreClient, job: QueueJob, *, txn: int, taken: Taken) -> None:
        super().__init__(client, job, txn=txn)
        self._taken = taken

    def _holds(self, entry: QueueEntry) -> bool:
        """Whether the entry is still held, with this claim's transaction.

        NB: without the check, two drivers might publish: that of another cluster with the same pool, or one of Hive's
        Workers, once the entry was taken back.
        """
        return self._taken.is_held(entry) and entry.txn == self.txn

    def _end_entry(self, why: str) -> None:
        """Leave the entry: the next attempt works on it."""


class Claims:
    """The claims of one attempt on one table's partitions.

    The attempt has a compaction pool of its own, or works on the entry that the controller took.
    """

    def __init__(self, attempt: DriverContext, locks: Locks) -> None:
        self._attempt = attempt
        self._client = attempt.client
        self._locks = locks

    def take(self, partition: str | None) -> Claim:
        """Return a claim on the partition (or table) with an open transaction and its lock.

        Raises MetastoreError, and JobError with reason InCompactionQueue (naming the conflicting entries),
        WaitingForLock (naming the conflicting locks) or TransactionLost; with the controller's entry also with those of
        `Taken.find`. After an error nothing stays claimed, as far as the metastore answers.
        """
        taken = self._attempt.taken
        job = self._borrow(taken, partition) if taken else self._enqueue(partition)
        claim: Claim | None = None
        try:
            job = job if taken else self._take(job)
            txn = self._client.open_compaction_txn(agent=self._attempt.agent)
            claim = (
                BorrowedClaim(self._client, job, txn=txn, taken=taken) if taken else Claim(self._client, job, txn=txn)
            )
            with _unless_lost(claim.txn):
                claim.lock_id = self._locks.in_transaction(partition, txn=claim.txn)
        except (JobError, MetastoreError) as error:
            self._undo(job, claim, str(error))
            raise
        return claim

    def _borrow(self, taken: Taken, partition: str | None) -> QueueJob:
        """Return the entry that the controller took for this compaction, once it names the compaction as its job.

        NB: the controller records that, too, and may have been killed before. An entry that is marked as compacted has
        no worker any more: by the name alone it is found to be ended.
        """
        table, kind, queue = self._attempt.table, self._attempt.job.type, self._attempt.queue()
        try:
            entry = taken.find(table, queue, type_=kind, partitions=[partition] if partition else [])
        except Refused as refused:
            raise JobError(refused.reason, str(refused)) from refused
        if not taken.is_held(entry):
            raise in_queue(table, [entry])
        if entry.job != self._attempt.job.name:
            self._client.set_job(entry.queue_id, self._attempt.job.name)
        return QueueJob(
            queue_id=entry.queue_id,
            database=entry.database,
            table=entry.table,
            partition=entry.partition,
            type=kind,
            worker=taken.worker,
        )

    def _enqueue(self, partition: str | None) -> QueueJob:
        table, kind = self._attempt.table, self._attempt.job.type
        entry = self._client.enqueue_compaction(
            database=table.database, table=table.name, partition=partition, type=kind, pool=self._attempt.pool
        )
        if entry is None:
            entries = self._attempt.queue()
            raise in_queue(table, [one for one in entries if _is_same(one, partition) and not one.is_ended])
        return QueueJob(
            queue_id=entry.queue_id, database=entry.database, table=entry.table, partition=entry.partition, type=kind
        )

    def _take(self, wanted: QueueJob) -> QueueJob:
        """Take the wanted entry out of the own pool. NB: any other entry that the metastore hands out is rejected."""
        job = self._client.take_compaction(pool=self._attempt.pool, worker=self._attempt.agent)
        if job is None:
            raise JobError(Reason.IN_COMPACTION_QUEUE, f"queue entry {wanted.queue_id} was not handed out to its owner")
        if _identity(job) != _identity(wanted):
            self._client.mark_failed(job, f"not compacted: the worker wanted entry {wanted.queue_id}")
            raise JobError(
                Reason.IN_COMPACTION_QUEUE, f"entry {job.queue_id} was handed out instead of {wanted.queue_id}"
            )
        return job

    def _undo(self, job: QueueJob, claim: Claim | None, why: str) -> None:
        try:
            self._locks.stand_by()
            if claim:
                claim.abandon(why)
            elif self._attempt.taken is None:
                self._client.mark_failed(job, why)
        except MetastoreError as error:
            log.warning("queue entry %d is left to the controller: %s", job.queue_id, error)


def _is_same(entry: QueueEntry, partition: str | None) -> bool:
    return (entry.partition or "").lower() == (partition or "").lower()


def _identity(job: QueueJob) -> tuple[int, str, str, str, CompactionType]:
    return job.queue_id, job.database.lower(), job.table.lower(), (job.partition or "").lower(), job.type


@contextmanager
def _unless_lost(txn: int) -> Iterator[None]:
    try:
        yield
    except (TransactionLost, LockLost) as error:
        raise _lost(txn, error) from error


def _lost(txn: int, error: MetastoreError) -> JobError:
    return JobError(Reason.TRANSACTION_LOST, f"transaction {txn} is gone: {error}")
