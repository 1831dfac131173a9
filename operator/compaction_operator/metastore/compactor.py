"""Hive 4 calls for compactors other than Hive: the queue and the transaction of a compaction.

The behaviour was read in Hive 4.0.1's CompactionTxnHandler and TxnHandler, and verified on a metastore.
"""

from dataclasses import replace

from hmsclient.genthrift.hive_metastore import ttypes

from compaction_operator.api.compaction import CompactionType
from compaction_operator.metastore import hive4_calls as hive4
from compaction_operator.metastore import replies
from compaction_operator.metastore.caller import Caller
from compaction_operator.metastore.compaction_queue import QueueEntry, QueueJob, QueueState
from compaction_operator.metastore.errors import MetastoreError, MetastoreUnavailable, TransactionLost
from compaction_operator.metastore.generation import Generation

_TYPES = {type_: number for number, type_ in replies.COMPACTION_TYPES.items()}

_POSTGRES_FAILED = "25P02"  # PostgreSQL's "in failed sql transaction"


class CompactorCalls(Caller):
    """Queue and transaction calls. All need Hive 4, except `compactions`, `commit_txn` and `abort_txn`."""

    def compactions(self, database: str | None = None, table: str | None = None) -> tuple[QueueEntry, ...]:
        """Return SHOW COMPACTIONS for a table, or for all: open entries and the history that Hive keeps."""
        request = hive4.ShowCompactRequest(dbName=database and database.lower(), tbName=table and table.lower())
        entries = self._show(request)
        of_database = (entry for entry in entries if request.dbName in (None, entry.database))
        return tuple(entry for entry in of_database if request.tbName in (None, entry.table))

    def pool_compactions(self, pool: str) -> tuple[QueueEntry, ...]:
        """Return SHOW COMPACTIONS for a pool: open entries and the history that Hive keeps.

        Raises MetastoreError on Hive 3, which has no pools (HIVE-26804).
        """
        self._need_hive4()
        return tuple(one for one in self._show(hive4.ShowCompactRequest(poolName=pool)) if one.pool == pool)

    def _show(self, request: hive4.ShowCompactRequest) -> tuple[QueueEntry, ...]:
        return self._call(lambda client: replies.queue_of(hive4.show_compact(client, request)))

    def enqueue_compaction(
        self, *, database: str, table: str, partition: str | None, type: CompactionType, pool: str
    ) -> QueueEntry | None:
        """Put an entry into a pool of the queue and return it.

        Returns None if the metastore refuses it (CompactFunction). It does so if an entry of the same table and
        partition is initiated or working, or is ready for cleaning and still has the table's highest write id.
        Raises MetastoreError on Hive 3, which has no pools: there Hive's own Worker would take the entry.
        NB: after MetastoreUnavailable the entry may still exist. `compactions` shows it, identified by the pool.
        """
        self._need_hive4()
        request = hive4.CompactionRequest(
            dbname=database.lower(),
            tablename=table.lower(),
            partitionname=partition,
            type=_TYPES[type],
            runas=self._user,
            initiatorId=self._user,
            poolName=pool,
        )
        reply = self._call(lambda client: hive4.compact2(client, request))
        if not replies.required(reply, "accepted", "compact2"):
            return None
        return QueueEntry(
            queue_id=replies.required(reply, "id", "compact2"),
            database=database.lower(),
            table=table.lower(),
            partition=partition,
            type=type,
            state=QueueState.INITIATED,
            pool=pool,
        )

    def take_compaction(self, *, pool: str, worker: str) -> QueueJob | None:
        """Take the oldest initiated entry of a pool and set it to "working". Returns None if there is no such entry.

        NB: the pool must have a name. Without one, the metastore hands out entries of every client.
        """
        request = _next(pool, worker)
        return self._call(
            lambda client: replies.queue_job_of(
                hive4.find_next_compact2(client, request), worker=worker, run_as=self._user
            )
        )

    def take_any_compaction(self, *, pool: str, worker: str) -> int | None:
        """Take an entry as `take_compaction` does, whatever its type. Returns its id, or None if there is none.

        NB: after MetastoreUnavailable an entry may be taken: `pool_compactions` shows it with the worker.
        """
        self._need_hive4()
        request = _next(pool, worker)
        return self._call(lambda client: replies.taken_id_of(hive4.find_next_compact2(client, request)))

    def set_job(self, queue_id: int, job: str) -> None:
        """Record in an entry the job that works on it, in at most 32 characters.

        Raises MetastoreError if the entry is gone.
        """
        self._call(lambda client: hive4.set_hadoop_jobid(client, job, queue_id))

    def open_compaction_txn(self, *, agent: str) -> int:
        """Open a transaction of type COMPACTION and return its id.

        It delays Hive's own cleaning only while it is open. The directories it writes have the suffix `_v<id>`.
        The agent is also sent as the host, because the metastore reports a transaction's user and host, but not its
        agent. Raises MetastoreError on Hive 3, where the transaction would delay the cleaning of all tables.
        """
        self._need_hive4()
        request = hive4.OpenTxnRequest(
            num_txns=1, user=self._user, hostname=agent, agentInfo=agent, txn_type=hive4.COMPACTION_TXN
        )
        return self._call(lambda client: replies.opened_txn_of(hive4.open_txns(client, request)))

    def update_compaction(self, job: QueueJob, txn: int) -> None:
        """Record in the queue entry the transaction that does the work, and the highest write id that it reads.

        This marks the transaction as a writer of the table, so the metastore remembers its outcome as long as its
        directories exist. Raises MetastoreError if the entry is gone.
        """
        _highest(job)
        self._send(hive4.update_compactor_state, job, txn)

    def register_reader(self, job: QueueJob, txn: int) -> None:
        """Register a transaction as a reader of the entry's table up to its highest write id, as Hive's Worker does.

        Hive's Cleaner waits for every open transaction. On 4.2 (metastore.txn.use.minhistorywriteid) it waits by the
        registered write ids instead where a table has any (ReadyToCleanHandler, CompactionCleaner.clean). A metastore
        where this is off ignores the call. The registration ends with the transaction.
        """
        readers = {f"{job.database}.{job.table}".lower(): _highest(job) + 1}
        self._call(lambda client: hive4.add_write_ids_to_min_history(client, txn, readers))

    def mark_compacted(self, job: QueueJob) -> None:
        """Set an entry to "ready for cleaning" from any state. Raises MetastoreError if it is gone."""
        self._send(hive4.mark_compacted, job)

    def mark_failed(self, job: QueueJob, message: str) -> None:
        """End an entry as failed, with the reason. An entry that has ended already, or is gone, is not an error.

        NB: the metastore accepts this in any state: "initiated", "working" and "ready for cleaning".
        """
        try:
            self._send(hive4.mark_failed, job, message=message)
        except MetastoreUnavailable:
            raise
        except MetastoreError:
            entries = self.compactions(job.database, job.table)
            if any(entry.queue_id == job.queue_id and not entry.is_ended for entry in entries):
                raise

    def mark_refused(self, job: QueueJob, message: str) -> None:
        """End an entry as refused, with the reason why there was nothing to do. Raises MetastoreError if it is gone."""
        self._send(hive4.mark_refused, job, message=message)

    def mark_cleaned(self, job: QueueJob) -> None:
        """End an entry as succeeded: its obsolete and aborted directories up to its highest write id are gone.

        An entry that has ended already is not an error.
        NB: it makes the metastore forget which write ids and compactions up to that write id were aborted, for the
        whole table if the entry has no partition.
        """
        if not job.highest_write_id:
            raise ValueError(f"queue entry {job.queue_id}: no highest write id: all directories would count as clean")
        try:
            self._send(hive4.mark_cleaned, job)
        except MetastoreError as error:
            if job.partition is not None or _POSTGRES_FAILED not in str(error):
                raise
            # Hive 4.0.1 fails on PostgreSQL without a partition, because MarkCleanedFunction gives NULL no type. With
            # an empty partition name the entry ends, and the metastore forgets nothing.
            self._send(hive4.mark_cleaned, replace(job, partition=""))

    def commit_txn(self, txn: int) -> None:
        """Commit a transaction: its write ids become valid, its `_v` directories visible, and its locks are released.

        Raises TransactionLost if it was aborted. A transaction that is already committed is not an error as long as the
        metastore remembers it.
        """
        self._call(lambda client: client.commit_txn(ttypes.CommitTxnRequest(txnid=txn)))

    def abort_txn(self, txn: int) -> bool:
        """Abort a transaction: its write ids stay aborted, its `_v` directories invisible, and its locks are released.

        Returns True if it is now aborted, or already was. Returns False if it was committed or is no longer known.
        """
        try:
            self._call(lambda client: client.abort_txn(ttypes.AbortTxnRequest(txnid=txn)))
        except TransactionLost:
            return False
        return True

    def _need_hive4(self) -> None:
        if self.generation() is not Generation.HIVE4:
            raise MetastoreError(f"this call needs a Hive 4 metastore, but this one is {self.generation()}")

    def _send(self, call: hive4.Call, job: QueueJob, *more: int, message: str | None = None) -> None:
        """Make a call with a queue entry."""
        entry = hive4.CompactionInfoStruct(
            id=job.queue_id,
            dbname=job.database,
            tablename=job.table,
            partitionname=job.partition,
            type=_TYPES[job.type],
            runas=job.run_as or self._user,
            workerId=job.worker,
            highestWriteId=job.highest_write_id,
            errorMessage=message,
        )
        self._call(lambda client: call(client, entry, *more))


def _next(pool: str, worker: str) -> hive4.FindNextCompactRequest:
    """Return the request for an entry of a pool. Raises ValueError without one: any client's entry would be taken."""
    if not pool.strip():
        raise ValueError("an entry can only be taken from a named pool")
    return hive4.FindNextCompactRequest(workerId=worker, poolName=pool)


def _highest(job: QueueJob) -> int:
    """Return the highest write id that an entry reads. Raises ValueError if it is unknown."""
    if not job.highest_write_id:
        raise ValueError(f"queue entry {job.queue_id}: the highest write id is unknown")
    return job.highest_write_id
