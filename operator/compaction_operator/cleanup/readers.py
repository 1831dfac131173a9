"""The reader gate: who still reads what a compaction made obsolete, by one look at the metastore for many tables."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from compaction_operator.api.cleanup import Blocker, BlockerHealth, BlockerKind, ReaderBaseline
from compaction_operator.api.compaction import Readers, TableRef
from compaction_operator.metastore import (
    Generation,
    LockInfo,
    MetastoreCalls,
    MetastoreError,
    MetastoreUnavailable,
    OpenTransactions,
    QueueEntry,
    TxnInfo,
    lock_name,
)

HEARTBEAT_TIMEOUT = timedelta(seconds=300)
"""Hive's default for hive.txn.timeout: a client without a heartbeat for longer may be gone."""


LONG = timedelta(days=1)
"""Heartbeats for longer than this may come from a client that forgot what it holds (a session left open)."""


@dataclass(frozen=True, slots=True)
class ReaderSnapshot:
    """The metastore's answer in one look: the locks that concern the table, and the open transactions.

    `compacting_elsewhere` are the open transactions that compact other tables. `locking_elsewhere` are those whose
    locks are all on other tables, known only where all locks of the metastore were queried.
    """

    locks: tuple[LockInfo, ...]
    txns: OpenTransactions
    compacting_elsewhere: frozenset[int] = frozenset()
    locking_elsewhere: frozenset[int] = frozenset()


def take_baseline(
    world: ReaderSnapshot, *, partitions: Collection[str], own_locks: Collection[int], now: datetime
) -> ReaderBaseline:
    """Return the older readers, to be stored once.

    The world's locks are those on the table, its partitions or its database, of any type and state. `partitions` are
    the journal's names ('' for an unpartitioned table). `own_locks` are ids that the compaction itself took. Its own
    transactions have ended by now.
    """
    counted = {lock.lock_id for lock in world.locks if concerns(lock, partitions)} - set(own_locks)
    mark = world.txns.high_water_mark
    return ReaderBaseline(time=_rfc3339(now), txn_high_water_mark=mark, lock_ids=tuple(sorted(counted)))


def blockers(
    baseline: ReaderBaseline, world: ReaderSnapshot, *, readers: Readers, now: datetime
) -> tuple[Blocker, ...]:
    """Return the readers of the baseline that are still there: its locks, then its transactions, oldest first.

    A transaction whose lock is listed is not listed again: it is the same reader.
    With `Readers.LOCKS` transactions do not count, which is known to be unsafe. With LOCKS_AND_OWN_TRANSACTIONS,
    transactions that have locked only other tables do not count (look_at_all states what that assumes). Later readers
    never block, so new readers cannot starve a cleanup.
    """
    ids = set(baseline.lock_ids)
    held = {lock.lock_id: lock for lock in world.locks if lock.lock_id in ids}
    by_txn = {txn.txn: txn for txn in world.txns.open}
    older = [] if readers is Readers.LOCKS else _older_transactions(baseline, world, readers)
    others = [txn for txn in older if txn not in {lock.txn for lock in held.values()}]
    return (
        *(_lock_blocker(held[lock_id], by_txn.get(held[lock_id].txn), now) for lock_id in sorted(held)),
        *(_blocker(BlockerKind.TRANSACTION, txn, by_txn[txn], since=by_txn[txn].started, now=now) for txn in others),
    )


def _older_transactions(baseline: ReaderBaseline, world: ReaderSnapshot, readers: Readers) -> list[int]:
    """Return the open transactions older than the baseline that may read this table.

    NB: one that compacts another table reads nothing else, unless it holds a lock on this table.
    """
    locking = {lock.txn for lock in world.locks}
    own_only = readers is Readers.LOCKS_AND_OWN_TRANSACTIONS
    elsewhere = world.compacting_elsewhere | (world.locking_elsewhere if own_only else frozenset())
    open_ones = {txn.txn for txn in world.txns.open if txn.txn <= baseline.txn_high_water_mark}
    return sorted(open_ones - (elsewhere - locking))


def distrust(baseline: ReaderBaseline, world: ReaderSnapshot) -> str | None:
    """Return why a look says nothing about the older readers, None if it does.

    Transaction ids never go back. A metastore with fewer allocated ids is a different one, or one that lags (behind one
    of several URIs), and its "no readers" is about other readers.
    """
    mark = world.txns.high_water_mark
    if mark >= baseline.txn_high_water_mark:
        return None
    return (
        f"the metastore's last transaction is {mark}, but was {baseline.txn_high_water_mark} before: a different one?"
    )


def grace_left(baseline: ReaderBaseline, *, grace_period: float, now: datetime) -> float:
    """Return the seconds left of the grace period, which counts from the baseline."""
    end = datetime.fromisoformat(baseline.time) + timedelta(seconds=grace_period)
    return max(0.0, (end - now).total_seconds())


def concerns(lock: LockInfo, partitions: Collection[str]) -> bool:
    """Whether a lock concerns any of the partitions ('' for the table).

    A lock on the whole table or database does. A lock on a partition does unless it is certainly a different partition.
    """
    return not lock.partition or any(_may_overlap(lock.partition, name) for name in partitions)


def _may_overlap(locked: str, partition: str) -> bool:
    """Whether no key has different values in the two names.

    NB: the metastore does not keep the name unchanged (see lock_name), and a dynamic-partition insert locks a prefix of
    the keys.
    """
    ours = _values(partition)
    return all(ours.get(key, value) == value for key, value in _values(locked).items())


def _values(name: str) -> dict[str, str]:
    parts = (part.partition("=") for part in lock_name(name).split("/"))
    return {key: value for key, equals, value in parts if equals}


def _lock_blocker(lock: LockInfo, txn: TxnInfo | None, now: datetime) -> Blocker:
    # The metastore keeps the heartbeats of a transaction's locks with the transaction, and reports 0 for the locks.
    held = replace(lock, last_heartbeat=txn.last_heartbeat) if txn and not lock.last_heartbeat else lock
    found = _blocker(BlockerKind.LOCK, lock.lock_id, held, since=lock.acquired_at, now=now)
    return found.model_copy(update={"txn_id": lock.txn or None})


def _blocker(
    kind: BlockerKind, number: int, held: LockInfo | TxnInfo, *, since: datetime | None, now: datetime
) -> Blocker:
    heartbeat = held.last_heartbeat
    return Blocker(
        kind=kind,
        id=number,
        user=held.user,
        host=held.host,
        agent=held.agent,
        since=_rfc3339(since) if since else None,
        last_heartbeat=_rfc3339(heartbeat) if heartbeat else None,
        health=health(since=since, heartbeat=heartbeat, now=now),
    )


def health(*, since: datetime | None, heartbeat: datetime | None, now: datetime) -> BlockerHealth:
    """Return whether the client behind a blocker is likely to be alive.

    Only a hint for people, from two clocks and two guesses: nothing is ever deleted because of it (hazard H12).
    """
    if heartbeat is None:
        return BlockerHealth.UNKNOWN
    silent = now - heartbeat > HEARTBEAT_TIMEOUT
    forgotten = since is not None and now - since > LONG
    return BlockerHealth.LIKELY_LEAKED if silent or forgotten else BlockerHealth.ALIVE


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


SILENCES = 2


def look(metastore: MetastoreCalls, table: TableRef) -> ReaderSnapshot:
    """Return the current readers of one table. Raises the client's errors: no answer does not mean no readers."""
    answer = look_at_all(metastore, [table])[table]
    if isinstance(answer, MetastoreError):
        raise answer
    return answer


def look_at_all(
    metastore: MetastoreCalls, tables: Sequence[TableRef], *, all_locks: bool = False
) -> Mapping[TableRef, ReaderSnapshot | MetastoreError]:
    """Return the current readers of each table, or the error: one call per table, and one for all transactions.

    NB: the locks of every table are queried before the transactions. A reader that takes its lock after the first call
    opened its transaction before that, so the later call still shows it.

    With `all_locks` a single call for all locks of the metastore replaces those per table. It also shows which
    transactions have locked something, but nothing on a table (LOCKS_AND_OWN_TRANSACTIONS). Such a transaction never
    reads that table with its old snapshot, provided that its client takes all its locks in one request before it reads,
    as Hive does (DbTxnManager.acquireLocks: one LockRequest for all inputs and outputs of a plan; a transaction is one
    statement). The metastore stores a request's locks in one commit, and shows them, granted or waiting, until the
    transaction ends. So once any of them is visible, all are, and no more follow. A transaction seen without locks may
    have requested some a moment later, so it counts. This needs no order of the calls: a transaction in both answers
    was open from before its locks were shown until after that.
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


def _compacting(metastore: MetastoreCalls, txns: OpenTransactions) -> list[QueueEntry]:
    """Return the queue entries that open transactions process, on Hive 4.

    Hive's own Worker and this project record in the queue which transaction compacts a table
    (CompactionTxnHandler.updateCompactorState); that transaction reads nothing else.
    """
    still_open = {txn.txn for txn in txns.open}
    if not still_open or metastore.generation() is Generation.HIVE3:
        return []
    return [entry for entry in metastore.compactions() if entry.txn in still_open]


def _elsewhere(compacting: Iterable[QueueEntry], table: TableRef) -> frozenset[int]:
    here = {entry.txn for entry in compacting if entry.is_of(table)}
    return frozenset(entry.txn for entry in compacting) - here


def _locks(
    metastore: MetastoreCalls, tables: Iterable[TableRef]
) -> dict[TableRef, tuple[LockInfo, ...] | MetastoreError]:
    """Query each table's locks; stop after two consecutive unanswered calls, since each may cost the full timeout."""
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
