"""One look at the metastore for the reader gate."""

from collections.abc import Sequence
from typing import Protocol

from compaction_operator.cleanup.gate import World
from compaction_operator.metastore.locks import LockInfo, OpenTransactions


class ReadersSource(Protocol):
    """What a look needs of the metastore's client."""

    def show_locks(self, database: str, table: str, /) -> Sequence[LockInfo]:
        """Return the locks on the table, its partitions and its database."""
        ...

    def open_transactions(self) -> OpenTransactions:
        """Return the open transactions and their high-water mark."""
        ...


def look(metastore: ReadersSource, database: str, table: str) -> World:
    """Return who reads now. Raises the client's errors: without an answer nobody knows that there are no readers.

    NB: locks come before transactions. A reader that takes its lock after the first call has had its transaction
    open since before that, so the second call still shows it.
    """
    locks = tuple(metastore.show_locks(database, table))
    return World(locks=locks, txns=metastore.open_transactions())
