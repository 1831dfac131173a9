"""The calls with which somebody other than Hive compacts on Hive 4: the queue and the transaction of a compaction.

What a metastore does with them was read in Hive 4.0.1's CompactionTxnHandler and TxnHandler, and tried.
"""

from dataclasses import replace
from typing import Any

from hmsclient.genthrift.hive_metastore import ttypes

from compaction_operator.api.compaction import CompactionType
from compaction_operator.metastore import hive4_calls as hive4
from compaction_operator.metastore import replies
from compaction_operator.metastore.caller import Caller
from compaction_operator.metastore.compaction_queue import QueueEntry, QueueJob, QueueState
from compaction_operator.metastore.errors import MetastoreError, MetastoreUnavailable, TransactionLost
from compaction_operator.metastore.generation import Generation

_TYPES = {
    CompactionType.MINOR: ttypes.CompactionType.MINOR,
    CompactionType.MAJOR: ttypes.CompactionType.MAJOR,
}

_POSTGRES_FAILED = "25P02"  # PostgreSQL's "in failed sql transaction"


class CompactorCalls(Caller):
    """The compaction queue, and transactions. All but `compactions` and the ends of a transaction need Hive 4."""

    def compactions(self, database: str | None = None, table: str | None = None) -> tuple[QueueEntry, ...]:
        """Return the lines of SHOW COMPACTIONS, of a table or of all: open entries and the history Hive keeps."""
        request = hive4.ShowCompactRequest(dbName=database and database.lower(), tbName=table and table.lower())
        entries = self._call(lambda client: replies.queue_of(hive4.show_compact(client, request)))
        wanted = (database and database.lower(), table and table.lower())
        return tuple(
            entry for entry in entries if wanted[0] in (None, entry.database) and wanted[1] in (None, entry.table)
        )

    def enqueue_compaction(
        self, *, database: str, table: str, partition: str | None, type: CompactionType, pool: str
    ) -> QueueEntry | None:
        """Put an entry into a pool of the queue and return it.

        None when the metastore did not accept it (CompactFunction): an entry of the same table and partition is
        initiated or working, or is ready for cleaning and its highest write id is still the table's highest.
        NB: after MetastoreUnavailable there may be an entry all the same; `compactions` tells, by the pool. Raises
        MetastoreError on Hive 3, which has no pools: there Hive's own Worker would take it.
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
        """Take the oldest initiated entry of a pool: it is "working" from then on. None when there is none.

        NB: a pool must be named: without one the metastore hands out anybody's entries.
        """
        if not pool.strip():
            raise ValueError("an entry can only be taken from a pool with a name")
        request = hive4.FindNextCompactRequest(workerId=worker, poolName=pool)
        return self._call(
            lambda client: replies.queue_job_of(
                hive4.find_next_compact2(client, request), worker=worker, run_as=self._user
            )
        )

    def open_compaction_txn(self, *, agent: str) -> int:
        """Open a transaction of type COMPACTION and return its id.

        It holds up no cleanup of Hive's for longer than it lives, and what it wrote is told by `_v<id>` in its name.
        The agent is sent as the host, too: of a transaction a metastore hands out user and host, but no agent. Raises
        MetastoreError on Hive 3, where it would hold up everybody's cleaning.
        """
        self._need_hive4()
        request = hive4.OpenTxnRequest(
            num_txns=1, user=self._user, hostname=agent, agentInfo=agent, txn_type=hive4.TxnType.COMPACTION
        )
        return self._call(lambda client: replies.opened_txn_of(hive4.open_txns(client, request)))

    def update_compaction(self, job: QueueJob, txn: int) -> None:
        """Tell the queue which transaction does the work, and the highest write id that it reads.

        Makes the transaction one that has written to the table, so that its end is not forgotten while its
        directories are there. Raises MetastoreError when the entry is gone.
        """
        entry = _entry_struct(job)
        if not job.highest_write_id:
            raise ValueError(f"queue entry {job.queue_id}: the highest write id is not known")
        self._call(lambda client: hive4.update_compactor_state(client, entry, txn))

    def mark_compacted(self, job: QueueJob) -> None:
        """Set an entry "ready for cleaning", whatever its state was. Raises MetastoreError when it is gone."""
        entry = _entry_struct(job)
        self._call(lambda client: hive4.mark_compacted(client, entry))

    def mark_failed(self, job: QueueJob, message: str) -> None:
        """End an entry as failed, with the reason; one that has ended already, or is gone, is no error.

        NB: the metastore does this in any state: "initiated", "working" and "ready for cleaning" alike.
        """
        entry = _entry_struct(job, message)
        try:
            self._call(lambda client: hive4.mark_failed(client, entry))
        except MetastoreUnavailable:
            raise
        except MetastoreError:
            if self._is_queued(job):
                raise

    def mark_refused(self, job: QueueJob, message: str) -> None:
        """End an entry as refused, with the reason: there was nothing to do. Raises MetastoreError when it is gone."""
        entry = _entry_struct(job, message)
        self._call(lambda client: hive4.mark_refused(client, entry))

    def mark_cleaned(self, job: QueueJob) -> None:
        """End an entry as succeeded: its obsolete and aborted directories up to its highest write id are gone.

        An entry that has ended already is no error. NB: it makes the metastore forget which write ids and compactions
        up to there were aborted, for the whole table when the entry has no partition.
        """
        if not job.highest_write_id:
            raise ValueError(f"queue entry {job.queue_id}: without its highest write id all would be taken for clean")
        entry = _entry_struct(job)
        try:
            self._call(lambda client: hive4.mark_cleaned(client, entry))
        except MetastoreError as error:
            if job.partition is not None or _POSTGRES_FAILED not in str(error):
                raise
            # Hive 4.0.1 cannot do it on PostgreSQL without a partition: MarkCleanedFunction gives NULL no type. With a
            # partition that is none the entry ends, and nothing is forgotten.
            nowhere = _entry_struct(replace(job, partition=""))
            self._call(lambda client: hive4.mark_cleaned(client, nowhere))

    def commit_txn(self, txn: int) -> None:
        """Commit a transaction: its write ids become valid, its `_v` directories seen, its locks go.

        Raises TransactionLost when it was aborted. One that is committed already is no error as long as the metastore
        remembers it.
        """
        request = ttypes.CommitTxnRequest(txnid=txn)
        self._call(lambda client: client.commit_txn(request))

    def abort_txn(self, txn: int) -> bool:
        """Abort a transaction: its write ids are aborted for good, its `_v` directories never seen, its locks go.

        Returns whether it is aborted now, or was already; False when it was committed, or is not known any more.
        """
        request = ttypes.AbortTxnRequest(txnid=txn)
        try:
            self._call(lambda client: client.abort_txn(request))
        except TransactionLost:
            return False
        return True

    def _need_hive4(self) -> None:
        if self.generation() is not Generation.HIVE4:
            raise MetastoreError(f"this needs a metastore of Hive 4, but it is {self.generation()}")

    def _is_queued(self, job: QueueJob) -> bool:
        entries = self.compactions(job.database, job.table)
        return any(entry.queue_id == job.queue_id and not entry.is_ended for entry in entries)


def _entry_struct(job: QueueJob, message: str | None = None) -> Any:
    return hive4.CompactionInfoStruct(
        id=job.queue_id,
        dbname=job.database,
        tablename=job.table,
        partitionname=job.partition,
        type=_TYPES[job.type],
        runas=job.run_as,
        workerId=job.worker,
        highestWriteId=job.highest_write_id,
        errorMessage=message,
    )
