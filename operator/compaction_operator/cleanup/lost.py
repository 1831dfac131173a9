"""Whether an attempt still holds anything in the metastore: a driver that runs does, but for moments."""

from collections.abc import Sequence
from typing import Protocol

from compaction_operator.api.compaction import TableRef
from compaction_operator.cleanup.attempt import Attempt
from compaction_operator.metastore.locks import LockInfo, OpenTransactions


class HoldingSource(Protocol):
    """What is needed of the metastore's client."""

    def show_locks(self, database: str, table: str, /) -> Sequence[LockInfo]:
        """Return the locks on the table, its partitions and its database."""
        ...

    def open_transactions(self) -> OpenTransactions:
        """Return the open transactions."""
        ...


def holds_anything(metastore: HoldingSource, attempt: Attempt, table: TableRef) -> bool:
    """Return whether the attempt has a lock on the table, also one that waits, or (Hive 4) an open transaction.

    An entry of the compaction queue is not counted: nobody takes it from a dead driver. Raises the client's errors.
    """
    if any(attempt.holds(lock.agent) for lock in metastore.show_locks(table.database, table.name)):
        return True
    return any(attempt.holds(txn.agent) for txn in metastore.open_transactions().open)
