"""One look at the metastore for the reader gates of many tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from compaction_operator.api.compaction import TableRef
from compaction_operator.cleanup.gate import World
from compaction_operator.metastore.errors import MetastoreError, MetastoreUnavailable
from compaction_operator.metastore.locks import LockInfo, OpenTransactions

SILENCES = 2


class ReadersSource(Protocol):
    """What a look needs of the metastore's client."""

    def show_locks(self, database: str, table: str, /) -> Sequence[LockInfo]:
        """Return the locks on the table, its partitions and its database."""
        ...

    def open_transactions(self) -> OpenTransactions:
        """Return the open transactions and their high-water mark."""
        ...


def look(metastore: ReadersSource, database: str, table: str) -> World:
    """Return who reads one table now. Raises the client's errors: without an answer nobody knows of no readers."""
    ref = TableRef(database=database, name=table)
    answer = look_at_all(metastore, [ref])[ref]
    if isinstance(answer, MetastoreError):
        raise answer
    return answer


def look_at_all(metastore: ReadersSource, tables: Sequence[TableRef]) -> Mapping[TableRef, World | MetastoreError]:
    """Return who reads each table now, or why nobody knows: one call for each table, and one for all transactions.

    NB: the locks of every table come before the transactions. A reader that takes its lock after the first call has
    had its transaction open since before that, so the later call still shows it.
    """
    locks = _locks(metastore, tables)
    try:
        txns = metastore.open_transactions()
    except MetastoreError as error:
        return dict.fromkeys(tables, error)
    return {
        table: found if isinstance(found, MetastoreError) else World(locks=found, txns=txns)
        for table, found in locks.items()
    }


def _locks(
    metastore: ReadersSource, tables: Iterable[TableRef]
) -> dict[TableRef, tuple[LockInfo, ...] | MetastoreError]:
    """Ask for each table's locks, until the metastore was silent twice in a row: each time may cost the timeout."""
    answers: dict[TableRef, tuple[LockInfo, ...] | MetastoreError] = {}
    silences: list[MetastoreError] = []
    for table in tables:
        if len(silences) == SILENCES:
            answers[table] = silences[-1]
            continue
        try:
            answers[table] = tuple(metastore.show_locks(table.database, table.name))
            silences.clear()
        except MetastoreUnavailable as error:
            answers[table] = error
            silences.append(error)
        except MetastoreError as error:
            answers[table] = error
    return answers
