"""Deletes directories that a journal recorded and that are obsolete today as well; each pass can be repeated.

A name must be recorded, be a direct child of the location that the metastore gives today, match the grammar, and be
obsolete by the current write ids. So no resource can make the operator delete a directory just by naming it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from compaction_operator.acid.names import may_become_obsolete
from compaction_operator.api.cleanup import CompactionCleanupSpec, PartitionEntry, PublishedState
from compaction_operator.api.compaction import TableRef
from compaction_operator.cleanup.identity import Change, TableGoneError
from compaction_operator.cleanup.reader_lock import DEFAULT_LOCK_POLICY, Holding, LockPolicy, ReadersBusyError
from compaction_operator.cleanup.recorded import (
    Now,
    empty_trash,
    hide,
    list_directory,
    names_in,
    needed_of,
    resolve_now,
    volume_of,
)
from compaction_operator.metastore import Generation, MetastoreCalls, QueueEntry, QueueState
from compaction_operator.storage import Storage, StorageError

READERS_BUSY = "ReadersBusy"
"""Why an entry was skipped: readers may be listing its directory right now."""


HIVE_AT_WORK = "InCompactionQueue"
"""Why an entry was skipped: Hive's own Worker may publish a directory that overlaps the published output."""

CAME_BACK = "reappeared during the deletion"
"""Why a recorded name is still there after a pass."""


@dataclass(frozen=True, slots=True)
class PartitionDeletion:
    """Result of one pass over one partition's entry.

    `deleted` are the recorded names that this pass deleted, including names hidden by an earlier pass; `gone` are names
    that were already gone. `quarantined` are names kept hidden for a while; `restored` are names moved back from there,
    which this cleanup never touches again. `remaining` maps each recorded name that is still there to the reason.
    `needed` are names that are there and not obsolete: their readers were never recorded, so this cleanup leaves them
    for good. `skipped` is why the entry was not touched at all, `reason` the same in one word. With `final`, another
    pass of this kind changes nothing.
    """

    partition: str
    deleted: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    remaining: Mapping[str, str] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    bytes_deleted: int = 0
    reason: str | None = None
    skipped: str | None = None
    final: bool = False


HeldOff = Callable[[Storage, PartitionEntry], AbstractContextManager[dict[str, str]]]
"""Holds readers off an entry's partition, and yields what is obsolete while no other client can change it."""

Visit = Callable[[Storage, Now, PartitionEntry], PartitionDeletion]


def delete_obsolete(
    storage: Storage,
    metastore: MetastoreCalls,
    spec: CompactionCleanupSpec,
    states: Mapping[str, PublishedState],
    *,
    policy: LockPolicy = DEFAULT_LOCK_POLICY,
) -> tuple[PartitionDeletion, ...]:
    """Make one pass over a journal whose readers are gone; return one result per entry, in the journal's order.

    `states` has the computed state of each partition. A storage error in one partition is that partition's result.
    Errors of the metastore are raised: nothing is deleted on a guess.
    """
    visit = partial(_delete_recorded, held_off=held_off(metastore, spec, policy))
    return visit_entries(storage, metastore, spec, states, visit)


def plan_deletion(
    storage: Storage, metastore: MetastoreCalls, spec: CompactionCleanupSpec, states: Mapping[str, PublishedState]
) -> tuple[PartitionDeletion, ...]:
    """Return what a `delete_obsolete` pass would find, but change nothing.

    `remaining` has what would be deleted, with the reason why it is obsolete; it omits what would be kept.
    """
    return visit_entries(storage, metastore, spec, states, _plan_recorded)


def visit_entries(
    storage: Storage,
    metastore: MetastoreCalls,
    spec: CompactionCleanupSpec,
    states: Mapping[str, PublishedState],
    visit: Visit,
) -> tuple[PartitionDeletion, ...]:
    """Visit each entry that was published and whose partition is still the recorded one.

    Returns one result per entry, in the journal's order. Raises the metastore's errors.
    """
    try:
        now = resolve_now(metastore, spec.table, spec.partitions)
    except TableGoneError as gone:
        return tuple(_skip(entry, gone.change) for entry in spec.partitions)
    at_work = open_worker_entries(metastore, spec.table.ref())
    checked = partial(_unless_at_work, at_work, partial(visit, storage, now))
    return tuple(_visit(storage, now, entry, states[entry.partition], checked) for entry in spec.partitions)


def open_worker_entries(metastore: MetastoreCalls, table: TableRef) -> tuple[QueueEntry, ...]:
    """Return the entries of Hive 3.1's queue that a Worker processes; none on Hive 4, where ours keeps Workers out.

    The Worker may have listed the directory before a compaction was published. Its output then overlaps that
    compaction, and only the common inputs can repair this (hazard H23). Call this before the listing: the listing
    contains the output of a Worker that has ended by then.
    """
    if metastore.generation() is not Generation.HIVE3:
        return ()
    entries = metastore.compactions(table.database, table.name)
    return tuple(entry for entry in entries if entry.is_open and entry.state is not QueueState.INITIATED)


def _unless_at_work(
    at_work: Iterable[QueueEntry], visit: Callable[[PartitionEntry], PartitionDeletion], entry: PartitionEntry
) -> PartitionDeletion:
    if found := [one for one in at_work if one.concerns([entry.partition])]:
        why = f"Hive compacts it and may have started before this was published: {found[0]}"
        return PartitionDeletion(entry.partition, reason=HIVE_AT_WORK, skipped=why)
    return visit(entry)


def held_off(metastore: MetastoreCalls, spec: CompactionCleanupSpec, policy: LockPolicy) -> HeldOff:
    """Return how a pass holds off readers, after the locks that an earlier pass left are released.

    Entering it raises TableGoneError, ReadersBusyError, StorageError, ValueError and the metastore's errors.
    """
    holding = Holding(metastore, spec, policy)
    holding.give_back_left()

    @contextmanager
    def hold(storage: Storage, entry: PartitionEntry) -> Iterator[dict[str, str]]:
        with holding.hold_off(entry.partition):
            # NB: looked up again, because a pass may be long (hazard H11).
            now = resolve_now(metastore, spec.table, [entry])
            if changed := now.what_changed(entry):
                raise TableGoneError(changed)
            yield now.obsolete(entry, list_directory(storage, entry.location))

    return hold


def result_of(
    entry: PartitionEntry,
    *,
    there: Collection[str],
    obsolete: Collection[str],
    freed: Mapping[str, int] = MappingProxyType({}),
    taken: Mapping[str, str] = MappingProxyType({}),
    held: Collection[str] = (),
    restored: Collection[str] = (),
) -> PartitionDeletion:
    """Return the result of a pass, after which these names are still `there` where it looked.

    `freed` has what it deleted, `taken` maps names that it could not move to the reason, `held` are the names in
    quarantine.
    """
    recorded = [one.name for one in entry.obsolete]
    remaining = {name: CAME_BACK for name in recorded if name in there and name in obsolete} | dict(taken)
    needed = needed_of(entry, there=there, obsolete=obsolete)
    stays = {*there, *held, *restored, *remaining, *needed}
    return PartitionDeletion(
        entry.partition,
        deleted=tuple(name for name in recorded if name in freed and name not in stays),
        gone=tuple(name for name in recorded if name not in freed and name not in stays),
        quarantined=tuple(name for name in recorded if name in held and may_become_obsolete(name)),
        restored=tuple(restored),
        remaining=remaining,
        needed=needed,
        bytes_deleted=sum(freed.values()),
        final=not remaining,
    )


def _skip(entry: PartitionEntry, change: Change) -> PartitionDeletion:
    return PartitionDeletion(entry.partition, reason=change.reason, skipped=change.message, final=True)


def _visit(
    storage: Storage,
    now: Now,
    entry: PartitionEntry,
    state: PublishedState,
    visit: Callable[[PartitionEntry], PartitionDeletion],
) -> PartitionDeletion:
    if state is PublishedState.NOT_PUBLISHED:
        why = f"{', '.join(entry.outputs)} was not published, so it makes nothing obsolete"
        return _skip(entry, Change("NotPublished", why))
    changed = now.what_changed(entry)
    if changed:
        return _skip(entry, changed)
    try:
        _require_volume(storage, volume_of(entry, now.today.location))
        return visit(entry)
    except TableGoneError as gone:
        return _skip(entry, gone.change)
    except ReadersBusyError as busy:
        return PartitionDeletion(entry.partition, reason=READERS_BUSY, skipped=str(busy))
    except (StorageError, ValueError) as error:
        reason = "UnsupportedLayout" if isinstance(error, ValueError) else "StorageError"
        return PartitionDeletion(entry.partition, reason=reason, skipped=str(error))


def _require_volume(storage: Storage, place: str) -> None:
    if not storage.exists(place):
        raise StorageError(f"{place} does not exist: is its volume there?")


def _delete_recorded(storage: Storage, now: Now, entry: PartitionEntry, *, held_off: HeldOff) -> PartitionDeletion:
    """Hide all names at once while no reader can start, then delete them leaf by leaf, and list again."""
    recorded = [obsolete.name for obsolete in entry.obsolete]
    freed = empty_trash(storage, entry.location, recorded)
    obsolete = now.obsolete(entry, list_directory(storage, entry.location))
    if any(name in obsolete for name in recorded):
        with held_off(storage, entry) as obsolete:
            doomed = [name for name in recorded if name in obsolete]
            hide(storage, entry.location, doomed)
        freed.update(empty_trash(storage, entry.location, doomed))
    there = names_in(list_directory(storage, entry.location))
    return result_of(entry, there=there, obsolete=obsolete, freed=freed)


def _plan_recorded(storage: Storage, now: Now, entry: PartitionEntry) -> PartitionDeletion:
    obsolete = now.obsolete(entry, list_directory(storage, entry.location))
    recorded = (one.name for one in entry.obsolete)
    return PartitionDeletion(entry.partition, remaining={name: obsolete[name] for name in recorded if name in obsolete})
