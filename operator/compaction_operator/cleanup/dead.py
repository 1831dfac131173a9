"""Ends the compaction queue's entries that dead drivers left on a table, whether or not a journal leads to them."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import pool_owner
from compaction_operator.cleanup.attempt import Attempt, end_attempt, end_entries
from compaction_operator.metastore.compaction_queue import QueueEntry, QueueState
from compaction_operator.metastore.interface import Metastore
from compaction_operator.metastore.locks import TxnInfo
from compaction_operator.storage import open_storage

TAKEN_FOR_DEAD = timedelta(minutes=10)
"""For how long a driver may have an entry, but no transaction: it opens one right after it has taken its entry."""


def end_dead_entries(metastore: Metastore, table: TableRef, *, last: Attempt, now: datetime) -> None:
    """End the entries that keep a table busy though nobody works on it; Hive would wait for them for ever.

    `last` is the last attempt of a compaction of which none runs: it is dead, and so are those before it. The drivers
    of other compactions may be another cluster's, alive: their entries are ended where the metastore itself shows that
    nothing can be published any more, or no transaction has come for long. Raises the client's errors.
    """
    for number in sorted({owner.number for _, owner in _unpublished(metastore, table) if _is_over(owner, last)}):
        # NB: their staging went when they were judged.
        end_attempt(open_storage, metastore, Attempt(last.uid, number), table, ())
    if not (before := dict(_unpublished(metastore, table))):
        return
    opened = metastore.open_transactions().open
    # NB: asked for again, as a transaction that is not open any more may have been committed just now.
    after = _unpublished(metastore, table)
    end_entries(metastore, [one for one, owner in after if one in before and _is_dead(one, owner, opened, now)])


def _unpublished(metastore: Metastore, table: TableRef) -> Sequence[tuple[QueueEntry, Attempt]]:
    """Return the entries that drivers put into pools of their own, and that were neither committed nor ended."""
    entries = metastore.compactions(table.database, table.name)
    left = (entry for entry in entries if not entry.is_ended and entry.committed is None)
    owned = ((entry, Attempt(*owner)) for entry in left if (owner := pool_owner(entry.pool)))
    return [(entry, owner) for entry, owner in owned if owner.queued(entry)]


def _is_over(owner: Attempt, last: Attempt) -> bool:
    return owner.uid == last.uid and owner.number <= last.number


def _is_dead(entry: QueueEntry, owner: Attempt, opened: Sequence[TxnInfo], now: datetime) -> bool:
    """Whether its driver can publish nothing more: what has neither been committed nor is open was aborted."""
    if entry.state is QueueState.UNKNOWN:
        return False
    if entry.txn:
        return entry.txn not in {txn.txn for txn in opened}
    times = [time for time in (entry.enqueued, entry.started) if time]
    # A driver that waits for its lock has a transaction, but the entry does not name it yet.
    waits = any(owner.holds(txn.agent) for txn in opened)
    return bool(times) and now - max(times) > TAKEN_FOR_DEAD and not waits
