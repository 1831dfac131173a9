"""Attempts without an owner: their compaction was deleted, and their driver died while holding a metastore lock."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import agent_attempt
from compaction_operator.cleanup.attempt import Attempt, Holdings
from compaction_operator.metastore import LockInfo, TxnInfo


@dataclass(frozen=True, slots=True)
class Orphan:
    """An attempt without an owner, and the table on which it holds a lock."""

    attempt: Attempt
    table: TableRef


def orphans(
    locks: Iterable[LockInfo], txns: Iterable[TxnInfo], *, known: Collection[str], now: datetime
) -> tuple[Orphan, ...]:
    """Return the lost attempts among the metastore's locks whose compaction UID is unknown, each with its tables.

    Compactions of another cluster are unknown, too, so only an attempt without a recent heartbeat counts.
    """
    held: defaultdict[Orphan, list[LockInfo]] = defaultdict(list)
    for lock in locks:
        owner = agent_attempt(lock.agent)
        if owner is not None and owner[0] not in known and lock.table is not None:
            held[Orphan(Attempt(*owner), TableRef(database=lock.database, name=lock.table))].append(lock)
    opened = tuple(txns)
    return tuple(orphan for orphan, own in held.items() if _is_lost(orphan.attempt, own, opened, now))


def _is_lost(attempt: Attempt, locks: Iterable[LockInfo], txns: Iterable[TxnInfo], now: datetime) -> bool:
    own = tuple(txn for txn in txns if attempt.holds(txn.agent))
    return Holdings(tuple(locks), own).silence(now) is not None
