"""Deletes directories that a journal recorded and that are obsolete today as well; each pass can be repeated.

A name must be recorded, be a direct child of the location that the metastore gives today, match the grammar, and be
obsolete by the current write ids. So no resource can make the operator delete a directory just by naming it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from compaction_operator.acid.names import may_become_obsolete
from compaction_operator.api.cleanup import CompactionCleanupSpec, PartitionEntry, PublishedState
from compaction_operator.api.compaction import TableRef
from compaction_operator.cleanup.identity import Change, TableGoneError, volume_of
from compaction_operator.cleanup.reader_lock import DEFAULT_LOCK_POLICY, Holding, LockPolicy, ReadersBusyError
from compaction_operator.cleanup.recorded import Now, empty_trash, hide, list_directory, needed_of, resolve_now
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


HeldOff = Callable[[PartitionEntry], AbstractContextManager[dict[str, str]]]
"""Holds readers off an entry's partition, and yields what is obsolete while no other client can change it."""

Visit = Callable[[Storage, Now, PartitionEntry], PartitionDeletion]


Deletions = tuple[PartitionDeletion, ...]
"""One result per entry, in the journal's order."""


@dataclass(frozen=True, slots=True)
class JournalPass:
    """One pass over a journal with the computed state of each partition, in its storages and a metastore."""

    open_storage: Callable[[str], Storage]
    metastore: MetastoreCalls
    spec: CompactionCleanupSpec
    states: Mapping[str, PublishedState]

    def visit_entries(self, visit: Visit) -> Deletions:
        """Visit each entry that was published and whose partition is still the recorded one.

        Raises the metastore's errors.
        """
        spec = self.spec
        try:
            now = resolve_now(self.metastore, spec.table, spec.partitions)
        except TableGoneError as gone:
            return tuple(_skip(entry, gone.change) for entry in spec.partitions)
        at_work = open_worker_entries(self.metastore, spec.table.ref())

        def checked(entry: PartitionEntry) -> PartitionDeletion:
            if self.states[entry.partition] is PublishedState.NOT_PUBLISHED:
                return _skip(entry, Change("NotPublished", not_published(entry)))
            if changed := now.what_changed(entry):
                return _skip(entry, changed)
            storage, place = self.open_storage(entry.location), volume_of(entry.location, now.today.location)
            if not storage.exists(place):
                raise StorageError(f"{place} does not exist: is its volume there?")
            if worker := next((one for one in at_work if one.concerns([entry.partition])), None):
                why = f"Hive compacts it and may have started before this was published: {worker}"
                return _skip(entry, Change(HIVE_AT_WORK, why), final=False)
            return visit(storage, now, entry)

        return tuple(_skip_unless_possible(entry, checked) for entry in spec.partitions)

    def held_off(self, policy: LockPolicy) -> HeldOff:
        """Return how a pass holds off readers, after the locks that an earlier pass left are released.

        Entering it raises TableGoneError, ReadersBusyError, StorageError, ValueError and the metastore's errors.
        """
        holding = Holding(self.metastore, self.spec, policy)
        holding.give_back_left()

        @contextmanager
        def hold(entry: PartitionEntry) -> Iterator[dict[str, str]]:
            with holding.hold_off(entry.partition):
                # NB: looked up again, because a pass may be long (hazard H11).
                now = resolve_now(self.metastore, self.spec.table, [entry])
                if changed := now.what_changed(entry):
                    raise TableGoneError(changed)
                yield now.obsolete(entry, list_directory(self.open_storage(entry.location), entry.location))

        return hold


def delete_obsolete(given: JournalPass, *, policy: LockPolicy = DEFAULT_LOCK_POLICY) -> Deletions:
    """Make one pass over a journal whose readers are gone.

    A storage error in one partition is that partition's result. Errors of the metastore are raised: nothing is deleted
    on a guess.
    """
    return given.visit_entries(partial(delete_recorded, held_off=given.held_off(policy)))


def plan_deletion(given: JournalPass) -> Deletions:
    """Return what a `delete_obsolete` pass would find, but change nothing.

    `remaining` has what would be deleted, with the reason why it is obsolete; it omits what would be kept.
    """
    return given.visit_entries(_plan_recorded)


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
    remaining = {name: CAME_BACK for name in entry.recorded if name in there and name in obsolete} | dict(taken)
    needed = needed_of(entry, there=there, obsolete=obsolete)
    stays = {*there, *held, *restored, *remaining, *needed}
    return PartitionDeletion(
        entry.partition,
        deleted=tuple(name for name in entry.recorded if name in freed and name not in stays),
        gone=tuple(name for name in entry.recorded if name not in freed and name not in stays),
        quarantined=tuple(name for name in entry.recorded if name in held and may_become_obsolete(name)),
        restored=tuple(restored),
        remaining=remaining,
        needed=needed,
        bytes_deleted=sum(freed.values()),
        final=not remaining,
    )


def not_published(entry: PartitionEntry) -> str:
    """Return why nothing of an unpublished entry is deleted."""
    return f"{', '.join(entry.outputs)} was not published, so it makes nothing obsolete"


def _skip(entry: PartitionEntry, change: Change, *, final: bool = True) -> PartitionDeletion:
    return PartitionDeletion(entry.partition, reason=change.reason, skipped=change.message, final=final)


def _skip_unless_possible(
    entry: PartitionEntry, visit: Callable[[PartitionEntry], PartitionDeletion]
) -> PartitionDeletion:
    try:
        return visit(entry)
    except TableGoneError as gone:
        return _skip(entry, gone.change)
    except ReadersBusyError as busy:
        return _skip(entry, Change(READERS_BUSY, str(busy)), final=False)
    except (StorageError, ValueError) as error:
        reason = "UnsupportedLayout" if isinstance(error, ValueError) else "StorageError"
        return _skip(entry, Change(reason, str(error)), final=False)


def delete_recorded(storage: Storage, now: Now, entry: PartitionEntry, *, held_off: HeldOff) -> PartitionDeletion:
    """Hide all names at once while no reader can start, then delete them leaf by leaf, and list again.

    Where the store cannot rename, it deletes them while no reader can start, a few at a time.
    """
    freed = empty_trash(storage, entry.location, entry.recorded)
    obsolete = now.obsolete(entry, list_directory(storage, entry.location))
    left: Sequence[str] = [name for name in entry.recorded if name in obsolete]
    while left:
        with held_off(entry) as obsolete:
            doomed = [name for name in left if name in obsolete]
            deleted, left = hide(storage, entry.location, doomed)
        freed.update(deleted)
        freed.update(empty_trash(storage, entry.location, doomed))
    there = list_directory(storage, entry.location).names
    return result_of(entry, there=there, obsolete=obsolete, freed=freed)


def _plan_recorded(storage: Storage, now: Now, entry: PartitionEntry) -> PartitionDeletion:
    obsolete = now.obsolete(entry, list_directory(storage, entry.location))
    remaining = {name: obsolete[name] for name in entry.recorded if name in obsolete}
    return PartitionDeletion(entry.partition, remaining=remaining)
