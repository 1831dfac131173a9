"""An attempt of a compaction as others see it: whether its driver is alive, and the one way to end it.

Whose each of them is, its name says: a staging folder, a lock's or transaction's agent and a queue entry's pool carry
the compaction's UID and the attempt, as its drivers gave them. Ids in a journal prove nothing: a forged one could name
a stranger's.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from compaction_operator.acid.write_ids import ValidTxnList
from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.request import agent_info, pool_owner, queue_pool
from compaction_operator.cleanup.fence import fence_those
from compaction_operator.cleanup.identity import Place
from compaction_operator.cleanup.staging import StagingFolder
from compaction_operator.metastore.compaction_queue import QueueEntry, QueueJob, QueueState
from compaction_operator.metastore.generation import Generation
from compaction_operator.metastore.interface import MetastoreCalls
from compaction_operator.metastore.locks import LockInfo, TxnInfo
from compaction_operator.metastore.partition_names import lock_name
from compaction_operator.storage import Storage, StorageError, open_storage

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
    metastore: MetastoreCalls,
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


def _abort_transactions(
    metastore: MetastoreCalls, known: Collection[int], unnamed: Attempt | None, table: TableRef
) -> None:
    """Abort the open ones of these transactions, and those of an attempt that have neither a lock nor an entry yet."""
    opened = metastore.open_transactions().open
    by_agent = {txn.txn for txn in opened if unnamed and unnamed.holds(txn.agent)} - set(known)
    for txn in sorted({txn.txn for txn in opened if txn.txn in known} | _of_no_other_table(metastore, table, by_agent)):
        metastore.abort_txn(txn)


def _of_no_other_table(metastore: MetastoreCalls, table: TableRef, txns: set[int]) -> set[int]:
    """Return those of the transactions in which no other table is compacted; only a forged journal names such ones."""
    if not txns:
        return set()
    return txns - {entry.txn for entry in metastore.compactions() if not entry.is_of(table)}


def end_entries(metastore: MetastoreCalls, entries: Iterable[QueueEntry]) -> None:
    """End the entries that nothing was published for; their transactions have ended before they were asked for.

    NB: a driver marks its entry "ready for cleaning" right before it commits, and may have come just that far: Hive's
    Cleaner must not be left with it. And `mark_failed` would end an entry that was committed, too.
    """
    for entry in entries:
        if not entry.is_ended and entry.committed is None:
            metastore.mark_failed(queue_job(entry), "its driver ended before it was published")


def _own_entries(
    metastore: MetastoreCalls, attempt: Attempt, table: TableRef, *, concerned: Collection[str] | None
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


SILENT_AFTER = timedelta(seconds=90)
"""A driver beats every 20 s. NB: well before hive.txn.timeout (300 s), which takes the EXCLUSIVE lock away behind which
half of a pair may lie, and longer than a look between two nodes whose clocks differ by a few seconds can err."""


NOTHING_HELD = 300.0
"""Seconds. A driver that works holds something at every moment. Before its first lock it only looks the table up."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What an attempt has of a table in the metastore: locks, waiting ones too, and (Hive 4) open transactions.

    An entry of the compaction queue is not counted: nobody takes it from a dead driver.
    """

    locks: tuple[LockInfo, ...] = ()
    txns: tuple[TxnInfo, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.locks or self.txns)

    def __str__(self) -> str:
        return f"lock {self.locks[0].lock_id}" if self.locks else f"transaction {self.txns[0].txn}"

    @property
    def last_heartbeat(self) -> datetime | None:
        """The newest heartbeat of any of them; None where the metastore tells none."""
        # The metastore keeps the heartbeats of a transaction's locks with the transaction.
        beats = (*(lock.last_heartbeat for lock in self.locks), *(txn.last_heartbeat for txn in self.txns))
        return max((beat for beat in beats if beat is not None), default=None)

    def silence(self, now: datetime) -> str | None:
        """Return why their driver is lost, None while it is alive or nobody can tell."""
        beat = self.last_heartbeat
        if beat is None or now - beat <= SILENT_AFTER:
            return None
        return f"{self} of its driver has had no heartbeat since {beat.isoformat(timespec='seconds')}"


def holdings(metastore: MetastoreCalls, attempt: Attempt, table: TableRef) -> Holdings:
    """Return what the attempt holds now. Raises the client's errors."""
    locks = metastore.show_locks(table.database, table.name)
    txns = metastore.open_transactions().open
    own_locks = tuple(lock for lock in locks if attempt.holds(lock.agent))
    return Holdings(own_locks, tuple(txn for txn in txns if attempt.holds(txn.agent)))


class Watch:
    """Judges drivers look by look; the clock of what holds nothing is this process's own (seconds, monotonic)."""

    def __init__(self) -> None:
        self._bare_since: dict[Attempt, float] = {}

    def lost(self, attempt: Attempt, held: Holdings, *, now: datetime, ticks: float) -> str | None:
        """Return why the attempt's driver is lost, None while it may be alive."""
        if held:
            self.forget(attempt)
            return held.silence(now)
        bare = ticks - self._bare_since.setdefault(attempt, ticks)
        if bare < NOTHING_HELD:
            return None
        return f"its driver has held nothing in the metastore for {bare:.0f} s"

    def forget(self, attempt: Attempt) -> None:
        """Begin from the start when the attempt is asked for again."""
        self._bare_since.pop(attempt, None)


TAKEN_FOR_DEAD = timedelta(minutes=10)
"""For how long a driver may have an entry, but no transaction: it opens one right after it has taken its entry."""


def end_dead_entries(metastore: MetastoreCalls, table: TableRef, *, last: Attempt, now: datetime) -> None:
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


def _unpublished(metastore: MetastoreCalls, table: TableRef) -> Sequence[tuple[QueueEntry, Attempt]]:
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
