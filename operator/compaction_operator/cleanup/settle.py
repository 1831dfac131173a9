"""Settlement right after an attempt's end: the attempt can publish nothing more, and what it published is computed."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from compaction_operator.api.cleanup import CompactionCleanupSpec, PartitionEntry, PublishedState, ReaderBaseline
from compaction_operator.api.compaction import TableRef
from compaction_operator.cleanup.attempt import (
    Attempt,
    Ended,
    end_attempt,
    end_entries,
    holdings,
    is_taken_for,
    lasting,
    revoke_uploads,
)
from compaction_operator.cleanup.identity import Change, TableGoneError, volume_of, what_changed
from compaction_operator.cleanup.publication import Fate, UndecidedError, bears_transaction, fate, published_state
from compaction_operator.cleanup.reader_lock import DEFAULT_LOCK_POLICY, Holding, HoldOff, LockPolicy, ReadersBusyError
from compaction_operator.cleanup.readers import look, take_baseline
from compaction_operator.cleanup.recorded import Now, empty_trash, hide, list_directory, needed_of, resolve_now
from compaction_operator.metastore import MetastoreCalls, QueueEntry
from compaction_operator.storage import NotFoundError, Storage, StorageError, is_passing, join

log = logging.getLogger(__name__)

STORAGE_ERROR = "StorageError"
"""Why a partition counts as not published: its directory cannot be read."""

_COUNTING = (PublishedState.PUBLISHED, PublishedState.NOTHING_TO_PUBLISH)


@dataclass(frozen=True, slots=True)
class Settlement:
    """What is published of each partition, who read at that time, and what happened to partitions that are gone.

    `needed` are the recorded names of each partition that were not obsolete then. `unreachable` maps partitions whose
    directory cannot be read to the lasting error: they count as not published, so that nothing of them is deleted.
    """

    states: Mapping[str, PublishedState]
    baseline: ReaderBaseline
    gone: Mapping[str, Change]
    needed: Mapping[str, tuple[str, ...]]
    unreachable: Mapping[str, Change] = field(default_factory=dict)


def settle(
    open_storage: Callable[[str], Storage],
    metastore: MetastoreCalls,
    spec: CompactionCleanupSpec,
    *,
    whole: bool = True,
    policy: LockPolicy = DEFAULT_LOCK_POLICY,
    clock: Callable[[], datetime],
) -> Settlement:
    """End a journal's attempt, compute what it published, and take the reader baseline, in this order.

    Only the fence and the end of its transactions make later answers final. The baseline comes last, so that it
    contains every reader that may have seen the old directories. Can be repeated until its result is stored. `whole` is
    for an attempt whose driver has ended or `is_lost`; without it only the journal's partitions are ended. Raises
    StorageError if a store does not answer or not even the table's directory is there, MetastoreError and
    UndecidedError: then nothing is settled.
    """
    revoke_uploads(open_storage, spec.partitions)
    attempt, table = Attempt(spec.compaction.uid, spec.compaction.attempt), spec.table.ref()
    gone = what_changed(metastore, spec.table, spec.partitions)
    here = [entry for entry in spec.partitions if entry.partition not in gone]
    ended = end_attempt(open_storage, metastore, attempt, table, here, whole=whole)
    taken = _taken(metastore, spec)
    end_entries(metastore, [entry for entry in taken if entry.committed is not None])
    ended = replace(ended, queue=(*ended.queue, *taken))
    holding = Holding(metastore, spec, policy)
    holding.give_back_left()
    states, errors = _states(open_storage, holding.hold_off, spec, here, ended)
    counting = [entry for entry in here if states.get(entry.partition) in _COUNTING]
    needed = _needed(open_storage, metastore, spec, counting)
    world = look(metastore, table)
    names = {entry.partition for entry in spec.partitions}
    baseline = take_baseline(world, partitions=names, own_locks=ended.locks, now=clock())
    unreachable = {partition: Change(STORAGE_ERROR, error) for partition, error in errors.items()}
    return Settlement(dict.fromkeys(names, PublishedState.NOT_PUBLISHED) | states, baseline, gone, needed, unreachable)


def _taken(metastore: MetastoreCalls, spec: CompactionCleanupSpec) -> Sequence[QueueEntry]:
    """Return the entries that the controller took for the journal's compaction; none on Hive 3."""
    if all(entry.queue_id is None for entry in spec.partitions):
        return ()
    entries = metastore.compactions(spec.table.database, spec.table.name)
    return [entry for entry in entries if is_taken_for(entry, spec.compaction.name)]


def is_lost(metastore: MetastoreCalls, attempt: Attempt, table: TableRef, now: datetime) -> bool:
    """Return whether the metastore shows an attempt's driver as lost: False if it holds nothing, or nothing any more.

    A driver holds something for as long as it works on a journal's content. So where nothing is held, the journal's
    partitions are done, but the driver may have gone on to others. Raises UndecidedError for a driver that is alive.
    """
    held = holdings(metastore, attempt, table)
    if held and held.silence(now) is None:
        raise UndecidedError(f"the driver of attempt {attempt} is alive: it holds {held}")
    return bool(held)


def _states(
    open_storage: Callable[[str], Storage],
    hold_off: HoldOff,
    spec: CompactionCleanupSpec,
    here: Sequence[PartitionEntry],
    ended: Ended,
) -> tuple[dict[str, PublishedState], dict[str, str]]:
    """Return the state of each partition, and the lasting error for each unreachable one.

    Raises StorageError, after all partitions, if a store does not answer. Also if none is reachable and the table's
    directory is missing: its volume may come back.
    """
    states: dict[str, PublishedState] = {}
    errors: dict[str, StorageError] = {}
    for entry in [entry for entry in here if entry.partition not in ended.unreachable]:
        fated = fate(entry, ended.txns, ended.queue) if entry.outputs else Fate.NONE_NEEDED
        try:
            storage = open_storage(entry.location)
            states[entry.partition] = _state(storage, hold_off, entry, fated, _names(storage, spec, entry))
        except StorageError as error:
            errors[entry.partition] = error
    unreachable = {**ended.unreachable, **lasting(errors)}
    if here and not states and not _is_volume_there(open_storage, spec, here[0]):
        raise StorageError("; ".join(unreachable[entry.partition] for entry in here[:3]))
    return states, unreachable


def _is_volume_there(
    open_storage: Callable[[str], Storage], spec: CompactionCleanupSpec, entry: PartitionEntry
) -> bool:
    try:
        return open_storage(entry.location).exists(volume_of(entry.location, spec.table.location))
    except StorageError:
        return False


def _needed(
    open_storage: Callable[[str], Storage],
    metastore: MetastoreCalls,
    spec: CompactionCleanupSpec,
    entries: Sequence[PartitionEntry],
) -> dict[str, tuple[str, ...]]:
    """Return the recorded names that are not obsolete now: the baseline lacks their later readers.

    If that can never be determined, these are all recorded names. Raises StorageError if a store does not answer.
    """
    if not entries:
        return {}
    try:
        now = resolve_now(metastore, spec.table, entries)
    except TableGoneError as gone:
        raise UndecidedError(str(gone)) from gone
    return {entry.partition: _needed_of(open_storage(entry.location), now, entry) for entry in entries}


def _needed_of(storage: Storage, now: Now, entry: PartitionEntry) -> tuple[str, ...]:
    try:
        listing = list_directory(storage, entry.location)
        obsolete = now.obsolete(entry, listing)
    except (StorageError, ValueError) as unclear:
        if is_passing(unclear):
            raise
        log.warning("%s: deleting nothing: %s", entry.location, unclear)
        return entry.recorded
    return needed_of(entry, there=listing.names, obsolete=obsolete)


def _state(
    storage: Storage, hold_off: HoldOff, entry: PartitionEntry, fate: Fate, names: Collection[str]
) -> PublishedState:
    if fate is Fate.ABORTED:
        _remove_outputs(storage, hold_off, entry, names)
    if fate in (Fate.ABORTED, Fate.DOUBTFUL):
        return PublishedState.NOT_PUBLISHED
    return published_state(entry, _without_incomplete(storage, entry, names))


def _without_incomplete(storage: Storage, entry: PartitionEntry, names: Collection[str]) -> Collection[str]:
    """Return the names without the outputs that lack a file whose upload the journal names.

    NB: on S3 a directory is there from its first object on.
    """
    files: dict[str, list[str]] = {}
    for upload in entry.uploads:
        output, _, file = upload.name.partition("/")
        files.setdefault(output, []).append(file)
    there = {name: {one.name for one in storage.list(join(entry.location, name))} for name in files if name in names}
    return [name for name in names if there.get(name, set()).issuperset(files.get(name, ()))]


def _remove_outputs(storage: Storage, hold_off: HoldOff, entry: PartitionEntry, names: Collection[str]) -> None:
    """Remove the outputs of an aborted transaction: no snapshot ever sees them, and its id is never reused.

    Under constant readers they stay, and are obsolete for the next compaction.
    """
    own = [output for output in entry.outputs if bears_transaction(output, entry)]
    empty_trash(storage, entry.location, own)
    there = [output for output in own if output in names]
    if not there:
        return
    try:
        with hold_off(entry.partition):
            hide(storage, entry.location, there)
    except ReadersBusyError as busy:
        log.info("%s: %s of an aborted transaction stays for now: %s", entry.location, ", ".join(there), busy)
    empty_trash(storage, entry.location, own)


def _names(storage: Storage, spec: CompactionCleanupSpec, entry: PartitionEntry) -> Sequence[str]:
    """Return the names in a partition's directory; none if only that directory is missing.

    Raises StorageError if the table's own directory is missing, too, or that of a partition elsewhere: its volume may
    be missing, and then it is unknown what is published.
    """
    try:
        return [child.name for child in storage.list(entry.location)]
    except NotFoundError:
        if storage.exists(volume_of(entry.location, spec.table.location)):
            return []
        raise
