"""Deletes what a journal recorded and what is obsolete today as well; each pass can be repeated from any point.

A name must be recorded, a direct child of the location that the metastore gives today, of the grammar, and obsolete by
the current write ids: no resource can name a directory into deletion.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from compaction_operator.acid.listing import Listing
from compaction_operator.acid.names import may_become_obsolete
from compaction_operator.acid.plan import require_alone
from compaction_operator.acid.snapshot import obsolete_now, visibility
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.cleanup import CompactionCleanupSpec, PartitionEntry, PublishedState, TableIdentity
from compaction_operator.api.compaction import TableRef
from compaction_operator.cleanup.holding import POLITE, Holding, Manners, ReadersBusyError
from compaction_operator.cleanup.identity import Change, TableGoneError, Today, resolve_today
from compaction_operator.cleanup.metastore import Metastore
from compaction_operator.cleanup.staging import TRASH_PREFIX
from compaction_operator.metastore.generation import Generation
from compaction_operator.metastore.queue import QueueEntry, QueueState
from compaction_operator.storage import AlreadyExistsError, NotFoundError, Storage, StorageError, is_below, join

READERS_BUSY = "ReadersBusy"
"""Why an entry was skipped: readers may be listing its directory just now."""


HIVE_AT_WORK = "InCompactionQueue"
"""Why an entry was skipped: what Hive's own Worker publishes next may lie across what was published."""

CAME_BACK = "came back while it was deleted"
"""Why a recorded name is still there after a pass."""


@dataclass(frozen=True, slots=True)
class PartitionDeletion:
    """One pass over one partition's entry.

    `deleted` are the recorded names that this pass deleted, also what an earlier one had hidden; `gone` those that were
    gone without it; `quarantined` those that are kept hidden for a while; `restored` those that were moved back
    from there, which this cleanup never touches again; `remaining` says of each recorded name that is still there why;
    `needed` are those that are there and not obsolete: nobody asked for their readers, so this cleanup has done with
    them. `skipped` says why the entry was not touched at all, `reason` the same in one word. With `final` another pass
    of the kind changes nothing.
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


@dataclass(frozen=True, slots=True)
class Now:
    """The table as the metastore has it in this pass. All of it was asked for before anything is listed."""

    today: Today
    write_ids: ValidWriteIdList
    valid_txns: ValidTxnList

    def what_changed(self, entry: PartitionEntry) -> Change | None:
        """Return what became of an entry's partition, None while it is the recorded one.

        NB: write ids that went back betray another table only where the table has no id. Hive 4 says the lowest
        invalid one where no valid one is left in its tables (GetValidWriteIdsForTableFunction).
        """
        changed = self.today.what_changed(entry)
        mark = self.write_ids.high_watermark
        if changed is None and self.today.table_id is None and mark < entry.highest_write_id:
            why = f"write ids went back to {mark}: it is not the table that was compacted"
            return Change("TableRecreated", why)
        return changed

    def obsolete(self, entry: PartitionEntry, listing: Listing) -> dict[str, str]:
        """Return name and reason of what nobody needs any more up to the entry's highest write id.

        Raises ValueError where nobody can tell, also where another compactor's directory overlaps a published output:
        what both were made from is all that can mend it.
        """
        require_alone(entry.outputs, listing, visible=visibility(self.valid_txns))
        found = obsolete_now(
            listing, self.write_ids, valid_txns=self.valid_txns, highest_write_id=entry.highest_write_id
        )
        return {name: reason for name, reason in found.items() if may_become_obsolete(name)}


HeldOff = Callable[[Storage, PartitionEntry], AbstractContextManager[dict[str, str]]]
"""Holds readers off an entry's partition, and yields what is obsolete while no other client can change it."""

Visit = Callable[[Storage, Now, PartitionEntry], PartitionDeletion]


def delete_obsolete(
    storage: Storage,
    metastore: Metastore,
    spec: CompactionCleanupSpec,
    states: Mapping[str, PublishedState],
    *,
    manners: Manners = POLITE,
) -> tuple[PartitionDeletion, ...]:
    """Make one pass over a journal whose readers are gone; return one result per entry, in the journal's order.

    `states` has the computed state of each partition. A storage error in one partition is that partition's result;
    errors of the metastore are raised: nothing is deleted on a guess.
    """
    visit = partial(_delete_recorded, held_off=held_off(metastore, spec, manners))
    return visit_entries(storage, metastore, spec, states, visit)


def plan_deletion(
    storage: Storage, metastore: Metastore, spec: CompactionCleanupSpec, states: Mapping[str, PublishedState]
) -> tuple[PartitionDeletion, ...]:
    """Return what a pass would find, as `delete_obsolete` does, but touch nothing.

    What would be deleted is in `remaining`, with the reason why it is obsolete; what would be kept is not.
    """
    return visit_entries(storage, metastore, spec, states, _plan_recorded)


def visit_entries(
    storage: Storage,
    metastore: Metastore,
    spec: CompactionCleanupSpec,
    states: Mapping[str, PublishedState],
    visit: Visit,
) -> tuple[PartitionDeletion, ...]:
    """Do something with each entry that was published and whose partition is the recorded one still.

    Returns one result per entry, in the journal's order; raises the metastore's errors.
    """
    try:
        now = resolve_now(metastore, spec.table, spec.partitions)
    except TableGoneError as gone:
        return tuple(_skip(entry, gone.change) for entry in spec.partitions)
    at_work = hives_own_work(metastore, spec.table.ref())
    checked = partial(_unless_at_work, at_work, partial(visit, storage, now))
    return tuple(_visit(storage, now, entry, states[entry.partition], checked) for entry in spec.partitions)


def hives_own_work(metastore: Metastore, table: TableRef) -> tuple[QueueEntry, ...]:
    """Return the entries of Hive 3.1's queue that a Worker is at, none on Hive 4, where ours keeps it out.

    It may have listed before a compaction was published: what it publishes lies across that then, and only what both
    were made from can mend it (hazard H23). To be asked before the listing: who has ended by then is in that.
    """
    if metastore.generation() is not Generation.HIVE3:
        return ()
    entries = metastore.compactions(table.database, table.name)
    return tuple(entry for entry in entries if entry.is_open and entry.state is not QueueState.INITIATED)


def _unless_at_work(
    at_work: Iterable[QueueEntry], visit: Callable[[PartitionEntry], PartitionDeletion], entry: PartitionEntry
) -> PartitionDeletion:
    if found := [one for one in at_work if one.concerns([entry.partition])]:
        why = f"Hive compacts it, and may have begun before this was published: {found[0]}"
        return PartitionDeletion(entry.partition, reason=HIVE_AT_WORK, skipped=why)
    return visit(entry)


def resolve_now(metastore: Metastore, recorded: TableIdentity, entries: Iterable[PartitionEntry]) -> Now:
    """Return a journal's table as it is now; raises TableGoneError and what the metastore raises."""
    today = resolve_today(metastore, recorded, entries)
    txns = metastore.valid_txns()
    write_ids = metastore.valid_write_ids(recorded.database, recorded.name, valid_txns=txns)
    return Now(today, write_ids, txns)


def held_off(metastore: Metastore, spec: CompactionCleanupSpec, manners: Manners) -> HeldOff:
    """Return how a pass holds readers off, once the locks that an earlier one left are given back.

    To enter it raises TableGoneError, ReadersBusyError, StorageError, ValueError and what the metastore raises.
    """
    holding = Holding(metastore, spec, manners)
    holding.give_back_left()

    @contextmanager
    def hold(storage: Storage, entry: PartitionEntry) -> Iterator[dict[str, str]]:
        with holding.hold_off(entry.partition):
            # NB: looked up again, as a pass may be long (hazard H11).
            now = resolve_now(metastore, spec.table, [entry])
            if changed := now.what_changed(entry):
                raise TableGoneError(changed)
            yield now.obsolete(entry, list_directory(storage, entry.location))

    return hold


def volume_of(entry: PartitionEntry, table_location: str) -> str:
    """Return the directory without which nobody knows what is in a partition: the table's, or one elsewhere its own."""
    return table_location if is_below(entry.location, table_location) else entry.location


def list_directory(storage: Storage, location: str) -> Listing:
    """List a directory; one that is gone holds nothing that is left to delete."""
    try:
        return storage.list_partition(location)
    except NotFoundError:
        return Listing(directories=(), files=())


def names_in(listing: Listing) -> set[str]:
    """Return the names of a listing's directories and files."""
    return {directory.name for directory in listing.directories} | {file.name for file in listing.files}


def hide(storage: Storage, location: str, names: Iterable[str]) -> None:
    """Take directories out of readers' sight, each whole; what is gone already is fine."""
    for name in names:
        # An earlier pass hid it, and it was created again since: the next pass takes it.
        with suppress(AlreadyExistsError, NotFoundError):
            storage.rename(join(location, name), join(location, f"{TRASH_PREFIX}{name}"))


def empty_trash(storage: Storage, location: str, recorded: Iterable[str]) -> Counter[str]:
    """Delete what was hidden, by an earlier pass that did not get to it, too; return the bytes freed by name."""
    hidden = {f"{TRASH_PREFIX}{name}": name for name in recorded if may_become_obsolete(name)}
    try:
        left = [entry.name for entry in storage.list(location) if entry.name in hidden]
    except NotFoundError:
        return Counter()
    return Counter({hidden[name]: storage.delete_tree(join(location, name)) for name in left})


def needed_of(entry: PartitionEntry, *, there: Collection[str], obsolete: Collection[str]) -> tuple[str, ...]:
    """Return the recorded names that are there and not obsolete, and those that never can be."""
    recorded = (one.name for one in entry.obsolete if one.name not in obsolete)
    return tuple(name for name in recorded if name in there or not may_become_obsolete(name))


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
    """Return what came of a pass, after which these names are still `there` where it looked.

    `freed` has what it deleted; `taken` says of names that it could not move why, `held` are those in quarantine.
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
        why = f"{', '.join(entry.outputs)} was not published: nothing is obsolete by it"
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
    """Hide all of it in one go while nobody can begin to read, then delete it leaf by leaf, and list again."""
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
