"""An attempt of a compaction seen from outside: whether its driver is alive, and the single way to end it.

Names show the owner: a staging folder, the agent of a lock or transaction, and the pool of a queue entry carry the
compaction's UID and the attempt, as its drivers set them. Ids in a journal prove nothing: a forged one could name
another owner's.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from compaction_operator.acid.write_ids import ValidTxnList
from compaction_operator.api.cleanup import PartitionEntry
from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.request import agent_attempt, agent_info, pool_owner, queue_pool
from compaction_operator.cleanup.fence import fence_those
from compaction_operator.cleanup.identity import Place
from compaction_operator.cleanup.staging import StagingFolder
from compaction_operator.metastore import (
    Generation,
    LockInfo,
    LockKind,
    MetastoreCalls,
    MetastoreError,
    QueueEntry,
    QueueJob,
    QueueState,
    TxnInfo,
    lock_name,
)
from compaction_operator.storage import Storage, StorageError, is_passing

log = logging.getLogger(__name__)

_ONCE_SHORTENED = 8


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of one compaction: all of its drivers, in whichever pods they ran."""

    uid: str
    number: int

    def __str__(self) -> str:
        return f"{self.uid}/{self.number}"

    def holds(self, lock_or_txn_agent: str | None) -> bool:
        """Whether a lock or transaction with that agent belongs to this attempt."""
        own = agent_info(uid=self.uid, attempt=self.number, pod_uid="")
        return (lock_or_txn_agent or "").startswith(own)

    def staged(self, folder: StagingFolder) -> bool:
        """Whether a staging folder belongs to this attempt.

        NB: drivers of the previous version wrote only a prefix of the UID, and may run during an upgrade.
        """
        return folder.attempt == self.number and folder.uid in (self.uid, self.uid[:_ONCE_SHORTENED])

    def queued(self, entry: QueueEntry) -> bool:
        """Whether an entry of the metastore's compaction queue belongs to this attempt.

        NB: Hive's own Workers take entries from any pool once those are 12 hours old; such an entry is then theirs.
        """
        own = (entry.pool or "").startswith(queue_pool(uid=self.uid, attempt=self.number, pod_uid=""))
        return own and (entry.worker is None or self.holds(entry.worker))


def is_taken_for(entry: QueueEntry, compaction: str) -> bool:
    """Whether the controller took an entry of the metastore's compaction queue for the compaction of that name.

    It records the name in the entry (`queue_compaction_name`). NB: unlike an entry of an attempt's own pool, it proves
    no attempt: the transaction does.
    """
    return entry.job is not None and entry.job == compaction


@dataclass(frozen=True, slots=True)
class Ended:
    """What an attempt had: its lock ids, its queue entries, and the transactions after its own were ended.

    `unreachable` maps each partition whose staging cannot be searched to the error. A retry would not help.
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
    """End everything that the attempt still has of a table: its staging in these places, then its metastore state.

    Without `whole` it ends only what is held for these places themselves: the driver may be working elsewhere.
    Published and committed results stay; afterwards the attempt can publish nothing more there. The staging goes first:
    under an EXCLUSIVE lock no reader sees a half-published pair until the fence has completed it (hazard H3). A place
    with a lasting error blocks no other; the lock on it alone is left to the metastore's timeout. The same holds for a
    lock on a partition that is none of the places, because a pair behind it may be incomplete. Can be repeated from any
    point. Raises the metastore client's errors, and StorageError while the store of a place does not answer: what is
    held then stays held, and the EXCLUSIVE locks get a heartbeat. NB: uploads that journals name are revoked before
    (`revoke_uploads`).
    """
    try:
        unreachable = _fence(open_storage, attempt, places)
    except StorageError:
        _keep_hiding(metastore, attempt, table)
        raise
    concerned = {lock_name(place.partition) for place in places}
    locks = [lock for lock in _own_locks(metastore, attempt, table) if whole or lock.partition in concerned]
    queue: tuple[QueueEntry, ...] = ()
    if metastore.generation() is Generation.HIVE4:
        entries = partial(_own_entries, metastore, attempt, table, concerned=None if whole else concerned)
        known = {lock.txn for lock in locks} | {entry.txn for entry in entries()}
        _abort_transactions(metastore, known, attempt if whole else None, table)
        queue = entries()
        end_entries(metastore, queue)
    completed = concerned - {lock_name(partition) for partition in unreachable}
    for lock in locks:
        # NB: a transaction's locks ended with it.
        if not lock.txn and (lock.partition in completed if lock.partition else "" not in unreachable):
            metastore.unlock(lock.lock_id)
    return Ended(frozenset(lock.lock_id for lock in locks), queue, metastore.valid_txns(), unreachable)


def _own_locks(metastore: MetastoreCalls, attempt: Attempt, table: TableRef) -> tuple[LockInfo, ...]:
    """Return the attempt's locks on the table and its partitions."""
    return tuple(lock for lock in metastore.show_locks(table.database, table.name) if attempt.holds(lock.agent))


def _keep_hiding(metastore: MetastoreCalls, attempt: Attempt, table: TableRef) -> None:
    """Send a heartbeat for the attempt's EXCLUSIVE locks: behind one half of a pair may be published (hazard H3).

    NB: otherwise a lock ends after hive.txn.timeout, and the next reader may come before the store answers here again.
    """
    for lock in _own_locks(metastore, attempt, table):
        if lock.type == LockKind.EXCLUSIVE and not lock.txn:
            try:
                metastore.heartbeat(lock.lock_id)
            except MetastoreError as error:
                log.warning("lock %d of attempt %s got no heartbeat: %s", lock.lock_id, attempt, error)


def revoke_uploads(open_storage: Callable[[str], Storage], entries: Iterable[PartitionEntry]) -> None:
    """Abort the uploads that journal entries name: after that, a driver that wakes up can complete none of them.

    Also those of partitions that were dropped or created again: another may be at the same place. Tries all entries,
    then raises the first StorageError. NB: nothing of the attempt may be ended then. Nothing else ends these uploads,
    as no later attempt knows their ids. And once its queue entries are ended, the metastore may forget its
    transactions.
    """
    failed: StorageError | None = None
    for entry in entries:
        try:
            if entry.uploads and (uploads := open_storage(entry.location).uploads):
                uploads.abort(entry.location, entry.uploads)
        except StorageError as error:
            log.warning("%s: uploads may remain: %s", entry.location, error)
            failed = failed or error
    if failed:
        raise failed


def _fence(open_storage: Callable[[str], Storage], attempt: Attempt, places: Iterable[Place]) -> dict[str, str]:
    """Remove the attempt's staging, and complete its half-published pairs; return the lasting errors of places.

    Raises the first passing StorageError, after all places.
    """
    unreachable: dict[str, StorageError] = {}
    for place in places:
        try:
            report = fence_those(open_storage(place.location), place.location, attempt.staged)
        except StorageError as error:
            log.warning("%s: staging of attempt %s may remain: %s", place.location, attempt, error)
            unreachable[place.partition] = error
        else:
            if report.rolled_forward:
                log.info("%s: completed a half-published pair: %s", place.location, ", ".join(report.rolled_forward))
    return lasting(unreachable)


def lasting(errors: Mapping[str, StorageError]) -> dict[str, str]:
    """Return the messages of the partitions' errors; raises the first passing one, since a retry can tell more."""
    for error in errors.values():
        if is_passing(error):
            raise error
    return {partition: str(error) for partition, error in errors.items()}


def _abort_transactions(
    metastore: MetastoreCalls, known: Collection[int], unnamed: Attempt | None, table: TableRef
) -> None:
    """Abort those of these transactions that are open, and the attempt's without a lock or an entry yet."""
    opened = metastore.open_transactions().open
    by_agent = {txn.txn for txn in opened if unnamed and unnamed.holds(txn.agent)} - set(known)
    for txn in sorted({txn.txn for txn in opened if txn.txn in known} | _of_no_other_table(metastore, table, by_agent)):
        metastore.abort_txn(txn)


def _of_no_other_table(metastore: MetastoreCalls, table: TableRef, txns: set[int]) -> set[int]:
    """Return the transactions in which no other table is compacted; only a forged journal names such ones."""
    if not txns:
        return set()
    return txns - {entry.txn for entry in metastore.compactions() if not entry.is_of(table)}


def end_entries(metastore: MetastoreCalls, entries: Iterable[QueueEntry]) -> None:
    """Mark the entries of dead drivers as compacted or failed; their transactions ended before they were listed.

    NB: a driver marks its entry right after it commits, and may have died in between. Drivers of an earlier version
    marked it before: where nothing was committed, Hive's Cleaner must not process such an entry.
    """
    for entry in entries:
        if entry.is_ended or entry.awaits_cleaning:
            continue
        if entry.committed is None:
            metastore.mark_failed(queue_job(entry), "its driver ended before it was published")
        else:
            metastore.mark_compacted(queue_job(entry))


def _own_entries(
    metastore: MetastoreCalls, attempt: Attempt, table: TableRef, *, concerned: Collection[str] | None
) -> tuple[QueueEntry, ...]:
    """Return the attempt's queue entries; `concerned` limits them to these `lock_name`s."""
    entries = filter(attempt.queued, metastore.compactions(table.database, table.name))
    return tuple(one for one in entries if concerned is None or lock_name(one.partition or "") in concerned)


def queue_job(entry: QueueEntry) -> QueueJob:
    """Convert a queue entry to the form that the compactor calls expect."""
    return QueueJob(
        queue_id=entry.queue_id,
        database=entry.database,
        table=entry.table,
        partition=entry.partition,
        # An attempt's pool only ever holds minor and major entries; the metastore identifies an entry by its id.
        type=entry.type or CompactionType.MINOR,
        worker=entry.worker,
        highest_write_id=entry.highest_write_id,
    )


SILENT_AFTER = timedelta(seconds=90)
"""A driver sends a heartbeat every 20 s. NB: well below hive.txn.timeout (300 s), which releases the EXCLUSIVE lock
that may hide half of a pair. It also exceeds the error of a comparison between two nodes whose clocks differ by a few
seconds."""


NOTHING_HELD = 300.0
"""Seconds. A working driver holds something at every moment. Before its first lock it only looks up the table."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What an attempt holds on a table in the metastore: locks, also waiting ones, and (Hive 4) open transactions.

    An entry of the compaction queue does not count: it stays after its driver dies.
    """

    locks: tuple[LockInfo, ...] = ()
    txns: tuple[TxnInfo, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.locks or self.txns)

    def __str__(self) -> str:
        return f"lock {self.locks[0].lock_id}" if self.locks else f"transaction {self.txns[0].txn}"

    @property
    def last_heartbeat(self) -> datetime | None:
        """The newest heartbeat of any of them; None if the metastore reports none."""
        # The metastore keeps the heartbeats of a transaction's locks with the transaction.
        beats = (*(lock.last_heartbeat for lock in self.locks), *(txn.last_heartbeat for txn in self.txns))
        return max((beat for beat in beats if beat is not None), default=None)

    def silence(self, now: datetime) -> str | None:
        """Return why their driver is lost, None while it is alive or its state is unknown."""
        beat = self.last_heartbeat
        if beat is None or now - beat <= SILENT_AFTER:
            return None
        return f"{self} of its driver has had no heartbeat since {beat.isoformat(timespec='seconds')}"


def holdings(metastore: MetastoreCalls, attempt: Attempt, table: TableRef) -> Holdings:
    """Return what the attempt holds now. Raises the metastore client's errors."""
    locks = _own_locks(metastore, attempt, table)
    txns = metastore.open_transactions().open
    return Holdings(locks, tuple(txn for txn in txns if attempt.holds(txn.agent)))


def others_at_work(metastore: MetastoreCalls, table: TableRef, uid: str) -> LockInfo | None:
    """Return a lock of a driver on a table whose compaction is not the one of that UID, None if there is none."""
    for lock in metastore.show_locks(table.database, table.name):
        owner = agent_attempt(lock.agent)
        if owner is not None and owner[0] != uid:
            return lock
    return None


@dataclass(frozen=True, slots=True)
class Orphan:
    """An attempt without an owner, and the table on which it holds a lock.

    Its compaction was deleted, and its driver died while holding the lock.
    """

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
    own = {orphan: tuple(txn for txn in opened if orphan.attempt.holds(txn.agent)) for orphan in held}
    return tuple(one for one, locks in held.items() if Holdings(tuple(locks), own[one]).silence(now) is not None)


class Watch:
    """Judges drivers look by look.

    Drivers without holdings are timed by this process's own monotonic clock (seconds).
    """

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
        """Restart the timing of an attempt at its next look."""
        self._bare_since.pop(attempt, None)


TAKEN_FOR_DEAD = timedelta(minutes=10)
"""How long a driver may have an entry but no transaction: it opens one right after it has taken its entry."""


def end_dead_entries(
    open_storage: Callable[[str], Storage],
    metastore: MetastoreCalls,
    table: TableRef,
    *,
    last: Attempt,
    now: datetime,
) -> None:
    """End the entries of dead drivers, which keep a table busy; Hive would wait for them forever.

    `last` is the last attempt of a compaction that has no running attempt: it is dead, and so are the earlier ones.
    Drivers of other compactions may belong to another cluster and be alive. Their entries are ended only where the
    metastore itself shows that nothing more can be published, or no transaction has appeared for long. Raises the
    client's errors.
    """
    own = (owner.number for _, owner in _left(metastore, table) if owner.uid == last.uid)
    for number in sorted({number for number in own if number <= last.number}):
        # NB: their staging was removed when they were judged.
        end_attempt(open_storage, metastore, Attempt(last.uid, number), table, ())
    if not (before := dict(_left(metastore, table))):
        return
    opened = metastore.open_transactions().open
    # NB: listed again: a transaction that is no longer open may have committed just now.
    after = _left(metastore, table)
    end_entries(metastore, [one for one, owner in after if one in before and _is_dead(one, owner, opened, now)])


def _left(metastore: MetastoreCalls, table: TableRef) -> Sequence[tuple[QueueEntry, Attempt]]:
    """Return the entries that drivers put into their own pools, and that are neither ended nor marked and committed."""
    entries = metastore.compactions(table.database, table.name)
    left = (entry for entry in entries if not (entry.is_ended or entry.awaits_cleaning))
    owned = ((entry, Attempt(*owner)) for entry in left if (owner := pool_owner(entry.pool)))
    return [(entry, owner) for entry, owner in owned if owner.queued(entry)]


def _is_dead(entry: QueueEntry, owner: Attempt, opened: Sequence[TxnInfo], now: datetime) -> bool:
    """Whether its driver can publish nothing more: a transaction neither committed nor open was aborted."""
    if entry.state is QueueState.UNKNOWN:
        return False
    if entry.txn:
        return entry.txn not in {txn.txn for txn in opened}
    times = [time for time in (entry.enqueued, entry.started) if time]
    # A driver that waits for its lock has a transaction that the entry does not name yet.
    waits = any(owner.holds(txn.agent) for txn in opened)
    return bool(times) and now - max(times) > TAKEN_FOR_DEAD and not waits
