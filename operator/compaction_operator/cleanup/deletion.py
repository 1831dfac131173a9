"""Deletes what a journal recorded and what is obsolete today as well; each pass can be repeated from any point.

A name must be recorded, a direct child of the location that the metastore gives today, of the grammar, and obsolete by
the current write ids: no resource can name a directory into deletion.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from compaction_operator.acid.listing import Listing
from compaction_operator.acid.names import may_become_obsolete
from compaction_operator.acid.snapshot import obsolete_now
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.cleanup import CompactionCleanupSpec, PartitionEntry, PublishedState
from compaction_operator.cleanup.identity import TableGoneError, TableSource, Today, resolve_today
from compaction_operator.cleanup.staging import TRASH_PREFIX
from compaction_operator.storage import AlreadyExistsError, NotFoundError, Storage, StorageError, join


class Metastore(TableSource, Protocol):
    """What deletion needs of the metastore's client."""

    def valid_write_ids(self, database: str, name: str, /) -> ValidWriteIdList:
        """Return the write ids that a reader who comes now sees."""
        ...

    def valid_txns(self) -> ValidTxnList:
        """Return the transactions that a reader who comes now sees."""
        ...


@dataclass(frozen=True, slots=True)
class PartitionDeletion:
    """One pass over one partition's entry.

    `deleted` are the recorded names that are gone, whoever deleted them; `remaining` says of each recorded name that
    is still there why; `skipped` says why the entry was not touched at all. With `final` another pass changes nothing.
    """

    partition: str
    deleted: tuple[str, ...] = ()
    remaining: Mapping[str, str] = field(default_factory=dict)
    bytes_deleted: int = 0
    skipped: str | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class _Now:
    """The table as the metastore has it in this pass. All of it was asked for before anything is listed."""

    today: Today
    write_ids: ValidWriteIdList
    valid_txns: ValidTxnList


def delete_obsolete(
    storage: Storage, metastore: Metastore, spec: CompactionCleanupSpec, states: Mapping[str, PublishedState]
) -> tuple[PartitionDeletion, ...]:
    """Make one pass over a journal whose readers are gone; return one result per entry, in the journal's order.

    `states` has the computed state of each partition. A storage error in one partition is that partition's result;
    errors of the metastore are raised: nothing is deleted on a guess.
    """
    try:
        now = _resolve(metastore, spec)
    except TableGoneError as gone:
        return tuple(_skip(entry, str(gone)) for entry in spec.partitions)
    return tuple(_delete_entry(storage, now, entry, states[entry.partition]) for entry in spec.partitions)


def _skip(entry: PartitionEntry, reason: str) -> PartitionDeletion:
    return PartitionDeletion(entry.partition, skipped=reason, final=True)


def _resolve(metastore: Metastore, spec: CompactionCleanupSpec) -> _Now:
    today = resolve_today(metastore, spec)
    txns = metastore.valid_txns()
    return _Now(today, metastore.valid_write_ids(spec.table.database, spec.table.name), txns)


def _delete_entry(storage: Storage, now: _Now, entry: PartitionEntry, state: PublishedState) -> PartitionDeletion:
    if state is PublishedState.NOT_PUBLISHED:
        return _skip(entry, f"{', '.join(entry.outputs)} was not published: nothing is obsolete by it")
    changed = _what_changed(now, entry)
    if changed:
        return _skip(entry, changed)
    try:
        if not storage.exists(now.today.location):
            missing = f"{now.today.location} does not exist: is its volume there?"
            return PartitionDeletion(entry.partition, skipped=missing)
        return _delete_recorded(storage, now, entry)
    except (StorageError, ValueError) as error:
        return PartitionDeletion(entry.partition, skipped=str(error))


def _what_changed(now: _Now, entry: PartitionEntry) -> str | None:
    changed = now.today.what_changed(entry)
    if changed is None and now.write_ids.high_watermark < entry.highest_write_id:
        return f"write ids went back to {now.write_ids.high_watermark}: it is not the table that was compacted"
    return changed


def _delete_recorded(storage: Storage, now: _Now, entry: PartitionEntry) -> PartitionDeletion:
    recorded = [obsolete.name for obsolete in entry.obsolete]
    freed = sum(storage.delete_tree(trash) for trash in _left_in_trash(storage, entry.location, recorded))
    obsolete = _obsolete(now, entry, _list(storage, entry.location))
    freed += sum(_delete(storage, entry.location, name) for name in recorded if name in obsolete)
    there = _names(_list(storage, entry.location))
    remaining = {name: _why_kept(name, obsolete) for name in recorded if name in there or not may_become_obsolete(name)}
    return PartitionDeletion(
        entry.partition,
        deleted=tuple(name for name in recorded if may_become_obsolete(name) and name not in there),
        remaining=remaining,
        bytes_deleted=freed,
        final=not remaining,
    )


def _left_in_trash(storage: Storage, location: str, recorded: Iterable[str]) -> list[str]:
    """Return what an earlier pass hid and did not get to delete."""
    hidden = {f"{TRASH_PREFIX}{name}" for name in recorded if may_become_obsolete(name)}
    try:
        return [join(location, entry.name) for entry in storage.list(location) if entry.name in hidden]
    except NotFoundError:
        return []


def _list(storage: Storage, location: str) -> Listing:
    """List a directory; a partition's that is gone holds nothing that is left to delete."""
    try:
        return storage.list_partition(location)
    except NotFoundError:
        return Listing(directories=(), files=())


def _names(listing: Listing) -> set[str]:
    return {directory.name for directory in listing.directories} | {file.name for file in listing.files}


def _obsolete(now: _Now, entry: PartitionEntry, listing: Listing) -> set[str]:
    found = obsolete_now(listing, now.write_ids, valid_txns=now.valid_txns, highest_write_id=entry.highest_write_id)
    return {name for name in found if may_become_obsolete(name)}


def _delete(storage: Storage, location: str, name: str) -> int:
    """Hide a directory at once, so that nobody lists a half of it, then delete it; return the bytes freed."""
    source, trash = join(location, name), join(location, f"{TRASH_PREFIX}{name}")
    try:
        storage.rename(source, trash)
    except AlreadyExistsError:
        return storage.delete_tree(trash)
    except NotFoundError:
        return 0
    return storage.delete_tree(trash)


def _why_kept(name: str, obsolete: Iterable[str]) -> str:
    if not may_become_obsolete(name):
        return "not the name of a directory or file that a compaction makes obsolete"
    return "came back while it was deleted" if name in obsolete else "not obsolete by today's listing and write ids"
