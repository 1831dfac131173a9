"""What endings, cleanups and looks for readers ask of the metastore: the part of its client that they use."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.metastore.compaction_queue import QueueEntry, QueueJob
from compaction_operator.metastore.generation import Generation
from compaction_operator.metastore.locks import LockInfo, LockState, LockWish, OpenTransactions
from compaction_operator.metastore.tables import Partition, Table


class MetastoreCalls(Protocol):
    """The calls. Each answers whole or raises MetastoreError, as the client does."""

    def generation(self) -> Generation:
        """Return which protocol the metastore speaks."""

    def get_table(self, database: str, name: str, /) -> Table:
        """Return the table; raises TableNotFound."""

    def get_partitions(self, database: str, name: str, names: Sequence[str], /) -> Iterable[Partition]:
        """Return those of the named partitions that exist."""

    def valid_txns(self) -> ValidTxnList:
        """Return the transactions that a reader who comes now sees."""

    def valid_write_ids(self, database: str, name: str, /, *, valid_txns: ValidTxnList) -> ValidWriteIdList:
        """Return the write ids that a reader with those transactions sees."""

    def lock(self, wish: LockWish, /) -> LockState:
        """Ask for a lock."""

    def check_lock(self, lock_id: int, /) -> bool:
        """Return whether a lock is acquired by now."""

    def unlock(self, lock_id: int, /) -> None:
        """Give a lock back; one that is gone is no error."""

    def show_locks(self, database: str, table: str, /) -> Sequence[LockInfo]:
        """Return the locks on the table, its partitions and its database."""

    def all_locks(self) -> Sequence[LockInfo]:
        """Return all locks of the metastore."""

    def open_transactions(self) -> OpenTransactions:
        """Return the open transactions and their high-water mark."""

    def abort_txn(self, txn: int, /) -> bool:
        """Abort a transaction; one that has ended is no error."""

    def compactions(self, database: str | None = None, table: str | None = None, /) -> Sequence[QueueEntry]:
        """Return the entries of the compaction queue, ended ones too: a table's, or all."""

    def mark_failed(self, job: QueueJob, message: str, /) -> None:
        """End an entry as failed; one that has ended is no error."""

    def mark_cleaned(self, job: QueueJob, /) -> None:
        """End an entry as cleaned up; one that has ended is no error."""
