"""Ends an attempt: its staging, its locks, and on Hive 4 its transactions and queue entries. The one way to do it.

Whose each of them is, its name says: a staging folder, a lock's or transaction's agent and a queue entry's pool carry
the compaction's UID and the attempt, as its drivers gave them. Ids in a journal prove nothing: a forged one could name
a stranger's.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from compaction_operator.acid.write_ids import ValidTxnList
from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.request import agent_info, queue_pool
from compaction_operator.cleanup.fence import fence_those
from compaction_operator.cleanup.identity import Place
from compaction_operator.cleanup.staging import StagingFolder
from compaction_operator.metastore.compaction_queue import QueueEntry, QueueJob
from compaction_operator.metastore.generation import Generation
from compaction_operator.metastore.interface import Metastore
from compaction_operator.metastore.partition_names import lock_name
from compaction_operator.storage import Storage, StorageError

log = logging.getLogger(__name__)

_ONCE_SHORTENED = 8


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of one compaction: all of its drivers, whichever pods they ran in."""

    uid: str
    number: int

    def __str__(self) -> str:
        return f"{self.uid}/{self.number}"

    def holds(self, lock_or_txn_agent: str | None) -> bool:
        """Whether a lock or transaction of that agent is one of this attempt's."""
        own = agent_info(uid=self.uid, attempt=self.number, pod_uid="")
        return (lock_or_txn_agent or "").startswith(own)

    def staged(self, folder: StagingFolder) -> bool:
        """Whether a staging folder is one of this attempt's.

        NB: the drivers of the version before wrote no more than a UID's beginning, and may run during an upgrade.
        """
        return folder.attempt == self.number and folder.uid in (self.uid, self.uid[:_ONCE_SHORTENED])

    def queued(self, entry: QueueEntry) -> bool:
        """Whether an entry of the metastore's compaction queue is one of this attempt's.

        NB: Hive's own Workers take what lies in anybody's pool for 12 hours: then it is theirs.
        """
        own = (entry.pool or "").startswith(queue_pool(uid=self.uid, attempt=self.number, pod_uid=""))
        return own and (entry.worker is None or self.holds(entry.worker))


@dataclass(frozen=True, slots=True)
class Ended:
    """What an attempt had: the ids of its locks, its queue entries, and the transactions after its own were ended.

    `unreachable` says why for each partition in which the attempt's staging could not be looked for.
    """

    locks: frozenset[int]
    queue: tuple[QueueEntry, ...]
    txns: ValidTxnList
    unreachable: Mapping[str, str] = field(default_factory=dict)


def end_attempt(
    open_storage: Callable[[str], Storage],
    metastore: Metastore,
    attempt: Attempt,
    table: TableRef,
    places: Sequence[Place],
    *,
    whole: bool = True,
) -> Ended:
    """End all that the attempt still has of a table: its staging in these places, then what the metastore holds for it.

    Without `whole` it ends only what is held for these places themselves: its driver may be at work elsewhere. What it
    published or committed stays; after this it can publish nothing more there. The staging goes first: under an
    EXCLUSIVE lock nobody reads a pair that is published by half, until the fence has completed it (hazard H3). A place
    that cannot be reached holds up nothing else, and the lock on it alone is left to the metastore's time-out; and so
    is one on a partition that is none of the places, as what lies behind it may not be completed yet. Can be repeated
    from any point; raises the metastore client's errors.
    """
    unreachable = _fence(open_storage, attempt, places)
    concerned = {lock_name(place.partition) for place in places}
    locks = [
        lock
        for lock in metastore.show_locks(table.database, table.name)
        if attempt.holds(lock.agent) and (whole or lock.partition in concerned)
    ]
    queue: tuple[QueueEntry, ...] = ()
    if metastore.generation() is Generation.HIVE4:
        entries = partial(_own_entries, metastore, attempt, table, concerned=None if whole else concerned)
        known = {lock.txn for lock in locks} | {entry.txn for entry in entries()}
        _abort_transactions(metastore, known, attempt if whole else None, table)
        queue = entries()
        end_entries(metastore, queue)
    completed = concerned - {lock_name(partition) for partition in unreachable}
    for lock in locks:
        # NB: those of a transaction went with it.
        if not lock.txn and (lock.partition in completed if lock.partition else "" not in unreachable):
            metastore.unlock(lock.lock_id)
    return Ended(frozenset(lock.lock_id for lock in locks), queue, metastore.valid_txns(), unreachable)


def _fence(open_storage: Callable[[str], Storage], attempt: Attempt, places: Iterable[Place]) -> dict[str, str]:
    """Take the attempt's staging away, and complete what it published by half; return the places without an answer."""
    unreachable: dict[str, str] = {}
    for place in places:
        try:
            report = fence_those(open_storage(place.location), place.location, attempt.staged)
        except StorageError as error:
            log.warning("%s: staging of attempt %s may be left: %s", place.location, attempt, error)
            unreachable[place.partition] = str(error)
        else:
            if report.rolled_forward:
                log.info("%s: published what was left of a pair: %s", place.location, ", ".join(report.rolled_forward))
    return unreachable


def _abort_transactions(metastore: Metastore, known: Collection[int], unnamed: Attempt | None, table: TableRef) -> None:
    """Abort the open ones of these transactions, and those of an attempt that have neither a lock nor an entry yet."""
    opened = metastore.open_transactions().open
    by_agent = {txn.txn for txn in opened if unnamed and unnamed.holds(txn.agent)} - set(known)
    for txn in sorted({txn.txn for txn in opened if txn.txn in known} | _of_no_other_table(metastore, table, by_agent)):
        metastore.abort_txn(txn)


def _of_no_other_table(metastore: Metastore, table: TableRef, txns: set[int]) -> set[int]:
    """Return those of the transactions in which no other table is compacted; only a forged journal names such ones."""
    if not txns:
        return set()
    return txns - {entry.txn for entry in metastore.compactions() if not entry.is_of(table)}


def end_entries(metastore: Metastore, entries: Iterable[QueueEntry]) -> None:
    """End the entries that nothing was published for; their transactions have ended before they were asked for.

    NB: a driver marks its entry "ready for cleaning" right before it commits, and may have come just that far: Hive's
    Cleaner must not be left with it. And `mark_failed` would end an entry that was committed, too.
    """
    for entry in entries:
        if not entry.is_ended and entry.committed is None:
            metastore.mark_failed(queue_job(entry), "its driver ended before it was published")


def _own_entries(
    metastore: Metastore, attempt: Attempt, table: TableRef, *, concerned: Collection[str] | None
) -> tuple[QueueEntry, ...]:
    """Return the attempt's entries of the queue; `concerned` has the `lock_name`s to which they are limited."""
    entries = filter(attempt.queued, metastore.compactions(table.database, table.name))
    return tuple(one for one in entries if concerned is None or lock_name(one.partition or "") in concerned)


def queue_job(entry: QueueEntry) -> QueueJob:
    """Return an entry of the queue as the compactor calls want it back."""
    return QueueJob(
        queue_id=entry.queue_id,
        database=entry.database,
        table=entry.table,
        partition=entry.partition,
        # Only such entries are ever put into an attempt's pool; the metastore goes by the id.
        type=entry.type or CompactionType.MINOR,
        worker=entry.worker,
        highest_write_id=entry.highest_write_id,
    )
