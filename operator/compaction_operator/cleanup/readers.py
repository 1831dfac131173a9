"""One look at the metastore for the reader gates of many tables."""

from collections.abc import Iterable, Mapping, Sequence

from compaction_operator.api.compaction import TableRef
from compaction_operator.cleanup.gate import ReaderSnapshot
from compaction_operator.metastore.compaction_queue import QueueEntry
from compaction_operator.metastore.errors import MetastoreError, MetastoreUnavailable
from compaction_operator.metastore.generation import Generation
from compaction_operator.metastore.interface import Metastore
from compaction_operator.metastore.locks import LockInfo, OpenTransactions

SILENCES = 2


def look(metastore: Metastore, table: TableRef) -> ReaderSnapshot:
    """Return who reads one table now. Raises the client's errors: without an answer nobody knows of no readers."""
    answer = look_at_all(metastore, [table])[table]
    if isinstance(answer, MetastoreError):
        raise answer
    return answer


def look_at_all(
    metastore: Metastore, tables: Sequence[TableRef], *, all_locks: bool = False
) -> Mapping[TableRef, ReaderSnapshot | MetastoreError]:
    """Return who reads each table now, or why nobody knows: one call for each table, and one for all transactions.

    NB: the locks of every table come before the transactions. A reader that takes its lock after the first call has
    had its transaction open since before that, so the later call still shows it.

    With `all_locks` one call for all locks of the metastore takes the place of those for each table, and tells which
    transactions have locked something, but none of a table (LOCKS_AND_OWN_TRANSACTIONS). Such a one never reads that
    table with its old snapshot, if its client takes all its locks in one request before it reads, as Hive does
    (DbTxnManager.acquireLocks: one LockRequest for all inputs and outputs of a plan; a transaction is one statement).
    For the metastore stores a request's locks in one commit, and shows them, granted or waiting, until the transaction
    ends: so locks that were seen at all are all that there will ever be. One that was seen without any may have asked
    for them a moment later, hence it counts. That needs no order of the calls: a transaction that both answers have is
    open from before its locks were shown until after that.
    """
    try:
        every = tuple(metastore.all_locks()) if all_locks else None
        locks = _locks(metastore, tables) if every is None else {table: _on(table, every) for table in tables}
        txns = metastore.open_transactions()
        compacting = _compacting(metastore, txns)
    except MetastoreError as error:
        return dict.fromkeys(tables, error)
    locking = frozenset(lock.txn for lock in every or ())
    return {
        table: found
        if isinstance(found, MetastoreError)
        else ReaderSnapshot(
            locks=found,
            txns=txns,
            compacting_elsewhere=_elsewhere(compacting, table),
            locking_elsewhere=locking - {lock.txn for lock in found},
        )
        for table, found in locks.items()
    }


def _on(table: TableRef, locks: Iterable[LockInfo]) -> tuple[LockInfo, ...] | MetastoreError:
    return tuple(lock for lock in locks if lock.is_on(table.database, table.name))


def _compacting(metastore: Metastore, txns: OpenTransactions) -> list[QueueEntry]:
    """Return the queue entries that are worked on in open transactions, on Hive 4.

    Hive's own Worker and this project say in the queue in which transaction they compact a table
    (CompactionTxnHandler.updateCompactorState); that transaction reads nothing else.
    """
    still_open = {txn.txn for txn in txns.open}
    if not still_open or metastore.generation() is Generation.HIVE3:
        return []
    return [entry for entry in metastore.compactions() if entry.txn in still_open]


def _elsewhere(compacting: Iterable[QueueEntry], table: TableRef) -> frozenset[int]:
    here = {entry.txn for entry in compacting if entry.is_of(table)}
    return frozenset(entry.txn for entry in compacting) - here


def _locks(metastore: Metastore, tables: Iterable[TableRef]) -> dict[TableRef, tuple[LockInfo, ...] | MetastoreError]:
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
