"""The reader gate, pure: who reads what a compaction made obsolete, and is anyone of them left?

Locks alone do not tell: a reader takes its snapshot before its lock (HIVE-24291), and Hive 4 can read without one
(HIVE-26165). So whoever held a lock or had a transaction open at the baseline is waited for, and nobody else.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from compaction_operator.api.cleanup import Blocker, BlockerKind, ReaderBaseline
from compaction_operator.metastore.locks import LockInfo, OpenTransactions, TxnInfo


@dataclass(frozen=True, slots=True)
class World:
    """What the metastore said in one look: the locks that concern the table, and the open transactions."""

    locks: tuple[LockInfo, ...]
    txns: OpenTransactions


def take_baseline(
    locks: Iterable[LockInfo],
    txns: OpenTransactions,
    *,
    partitions: Collection[str],
    own_locks: Collection[int],
    now: datetime,
) -> ReaderBaseline:
    """Return the readers from before, to be stored once.

    `locks` are those on the table, its partitions or its database, of any type and state; `partitions` are the
    journal's names ('' for an unpartitioned table); `own_locks` are ids the compaction itself took.
    """
    counted = {lock.lock_id for lock in locks if _concerns(lock, partitions)} - set(own_locks)
    return ReaderBaseline(time=_rfc3339(now), txn_high_water_mark=txns.high_water_mark, lock_ids=tuple(sorted(counted)))


def blockers(baseline: ReaderBaseline, locks: Iterable[LockInfo], txns: OpenTransactions) -> tuple[Blocker, ...]:
    """Return the readers of the baseline that are still there: its locks, then its transactions, oldest first."""
    ids = set(baseline.lock_ids)
    held = {lock.lock_id: lock for lock in locks if lock.lock_id in ids}
    still_open = {txn.txn: txn for txn in txns.open if txn.txn <= baseline.txn_high_water_mark}
    return (
        *(_lock_blocker(held[lock_id]) for lock_id in sorted(held)),
        *(_txn_blocker(still_open[txn]) for txn in sorted(still_open)),
    )


def grace_left(baseline: ReaderBaseline, *, grace_period: float, now: datetime) -> float:
    """Return the seconds of the grace period that are left; it counts from the baseline."""
    end = datetime.fromisoformat(baseline.time) + timedelta(seconds=grace_period)
    return max(0.0, (end - now).total_seconds())


def _concerns(lock: LockInfo, partitions: Collection[str]) -> bool:
    """A lock on the whole table or database does; one on a partition unless it is certainly not one of ours."""
    return not lock.partition or any(_may_overlap(lock.partition, name) for name in partitions)


def _may_overlap(locked: str, partition: str) -> bool:
    """Whether no key has another value in one than in the other.

    NB: the metastore keeps lock components in lower case (TxnHandler.normalizeCase), and a dynamic-partition insert
    locks a prefix of the keys.
    """
    ours = _values(partition)
    return all(ours.get(key, value) == value for key, value in _values(locked).items())


def _values(name: str) -> dict[str, str]:
    parts = (part.partition("=") for part in name.lower().split("/"))
    return {key: value for key, equals, value in parts if equals}


def _lock_blocker(lock: LockInfo) -> Blocker:
    return _blocker(BlockerKind.LOCK, lock.lock_id, lock, since=lock.acquired_at)


def _txn_blocker(txn: TxnInfo) -> Blocker:
    return _blocker(BlockerKind.TRANSACTION, txn.txn, txn, since=txn.started)


def _blocker(kind: BlockerKind, number: int, held: LockInfo | TxnInfo, *, since: datetime | None) -> Blocker:
    return Blocker(
        kind=kind,
        id=number,
        user=held.user,
        host=held.host,
        agent=held.agent,
        since=_rfc3339(since) if since else None,
        last_heartbeat=_rfc3339(held.last_heartbeat) if held.last_heartbeat else None,
    )


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
