"""Protocols of the metastore client: the calls that each of its users needs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.metastore.compaction_queue import QueueEntry, QueueJob
from compaction_operator.metastore.generation import Generation
from compaction_operator.metastore.locks import LockInfo, LockState, LockWish, OpenTransactions
from compaction_operator.metastore.tables import Partition, Table


class MetastoreCalls(Protocol):
    """What cleanups, reader checks and the ending of attempts use.

    Each call returns a complete answer or raises MetastoreError.
    """

    def generation(self) -> Generation:
        """Return the generation of the metastore."""

    def get_table(self, database: str, name: str, /) -> Table:
        """Return the table. Raises TableNotFound."""

    def get_partitions(self, database: str, name: str, names: Sequence[str], /) -> Iterable[Partition]:
        """Return the named partitions that exist."""

    def valid_txns(self) -> ValidTxnList:
        """Return the transaction snapshot of a reader that starts now."""

    def valid_write_ids(self, database: str, name: str, /, *, valid_txns: ValidTxnList) -> ValidWriteIdList:
        """Return the write ids that a reader with that transaction snapshot sees."""

    def lock(self, wish: LockWish, /) -> LockState:
        """Request a lock."""

    def check_lock(self, lock_id: int, /) -> bool:
        """Return whether a lock is acquired."""

    def heartbeat(self, lock_id: int, /) -> None:
        """Keep a lock alive. Raises LockLost."""

    def unlock(self, lock_id: int, /) -> None:
        """Release a lock. A lock that is gone is not an error."""

    def show_locks(self, database: str, table: str, /) -> Sequence[LockInfo]:
        """Return the locks on the table, its partitions and its database."""

    def all_locks(self) -> Sequence[LockInfo]:
        """Return all locks of the metastore."""

    def open_transactions(self) -> OpenTransactions:
        """Return the open transactions and the high-water mark."""

    def abort_txn(self, txn: int, /) -> bool:
        """Abort a transaction. A transaction that has ended is not an error."""

    def compactions(self, database: str | None = None, table: str | None = None, /) -> Sequence[QueueEntry]:
        """Return the compaction queue's entries of a table, or all, including ended ones."""

    def mark_compacted(self, job: QueueJob, /) -> None:
        """Set an entry to "ready for cleaning". Raises MetastoreError if it is gone."""

    def mark_failed(self, job: QueueJob, message: str, /) -> None:
        """End an entry as failed. An entry that has ended is not an error."""

    def mark_cleaned(self, job: QueueJob, /) -> None:
        """End an entry as succeeded. An entry that has ended is not an error."""


class HeartbeatCalls(Protocol):
    """What a heartbeat uses."""

    def heartbeat(self, lock_id: int, /) -> None:
        """Keep a lock alive. Raises LockLost or another MetastoreError."""

    def heartbeat_txn(self, txn: int) -> None:
        """Keep a transaction alive. Raises TransactionLost or another MetastoreError."""


class SettingsCalls(Protocol):
    """What the detection of Hive's automatic compaction uses."""

    def generation(self) -> Generation:
        """Return the generation of the metastore."""

    def get_database(self, name: str, /) -> Mapping[str, str]:
        """Return the properties of a database."""

    def get_config_value(self, name: str, default: str, /) -> str:
        """Return a setting of the metastore."""
