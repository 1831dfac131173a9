"""Quarantine: keeps obsolete directories hidden in the table for a while before deletion, so that a person can undo it.

A name is moved into `_compaction_quarantine/<compaction>-<attempt>` of its own directory, which readers skip because of
its first character, and purged from there. A name that a user moved back is not touched again. A store that cannot
rename has no such folder: there the names stay where they are, and are deleted only after the same time.
"""

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial

from compaction_operator.acid.listing import Listing
from compaction_operator.api.cleanup import CompactionRef, PartitionEntry
from compaction_operator.cleanup.deletion import (
    Deletions,
    HeldOff,
    JournalPass,
    PartitionDeletion,
    delete_recorded,
    result_of,
)
from compaction_operator.cleanup.reader_lock import DEFAULT_LOCK_POLICY, LockPolicy
from compaction_operator.cleanup.recorded import Now, empty_trash, hide, list_directory
from compaction_operator.storage import AlreadyExistsError, NotFoundError, Storage, join

QUARANTINE = "_compaction_quarantine"

_OWN = re.compile(r"[A-Za-z0-9-]{1,8}-[0-9]+")


def quarantine_name(compaction: CompactionRef) -> str:
    """Return the name of an attempt's own quarantine folder. Raises ValueError for a UID that yields no valid name."""
    name = f"{compaction.uid[:8]}-{compaction.attempt}"
    if not _OWN.fullmatch(name):
        raise ValueError(f"the compaction's UID {compaction.uid!r} does not form a quarantine folder name")
    return name


def quarantine_obsolete(
    given: JournalPass, *, known: Mapping[str, Collection[str]], policy: LockPolicy = DEFAULT_LOCK_POLICY
) -> Deletions:
    """Move what `delete_obsolete` would delete into the quarantine, by the same rules.

    `known` has the names of each partition that were seen in quarantine before: a user moved back those that are in the
    table again, and they stay.
    """
    own, held = quarantine_name(given.spec.compaction), given.held_off(policy)
    return given.visit_entries(partial(_quarantine_recorded, held_off=held, own=own, known=known))


def purge_quarantined(given: JournalPass, *, policy: LockPolicy = DEFAULT_LOCK_POLICY) -> Deletions:
    """Delete the recorded names from the attempt's own quarantine folder; do not touch those in the table itself.

    Each name is judged as if it were still in the table. If an undo has begun and the output was removed, the names in
    quarantine are needed again, and stay. Where the store cannot rename, it deletes what waited in the table itself.
    """
    own, held = quarantine_name(given.spec.compaction), given.held_off(policy)
    return given.visit_entries(partial(_purge_recorded, held_off=held, own=own))


def _quarantine_recorded(
    storage: Storage,
    now: Now,
    entry: PartitionEntry,
    *,
    held_off: HeldOff,
    own: str,
    known: Mapping[str, Collection[str]],
) -> PartitionDeletion:
    listing = list_directory(storage, entry.location)
    obsolete = now.obsolete(entry, listing)
    if not storage.abilities.atomic_directory_rename:
        waiting_there = listing.names.intersection(entry.recorded, obsolete)
        return result_of(entry, there=listing.names - waiting_there, obsolete=obsolete, held=waiting_there)
    restored = [name for name in entry.recorded if name in listing.names and name in known.get(entry.partition, ())]
    waiting = [name for name in entry.recorded if name in obsolete and name not in restored]
    taken: dict[str, str] = {}
    if waiting:
        storage.make_directory(join(entry.location, QUARANTINE))
        storage.make_directory(join(entry.location, QUARANTINE, own))
        with held_off(entry) as obsolete:
            taken = _move_away(storage, entry.location, own, [name for name in waiting if name in obsolete])
    there = list_directory(storage, entry.location).names - set(restored)
    held = list_directory(storage, join(entry.location, QUARANTINE, own)).names
    return result_of(entry, there=there, obsolete=obsolete, taken=taken, held=held, restored=restored)


def _move_away(storage: Storage, location: str, own: str, names: Collection[str]) -> dict[str, str]:
    """Move directories into the quarantine; return the reason for each that cannot be moved."""
    taken = {}
    for name in names:
        try:
            with suppress(NotFoundError):
                storage.rename(join(location, name), join(location, QUARANTINE, own, name))
        except AlreadyExistsError:
            taken[name] = f"{QUARANTINE}/{own} already contains this name"
    return taken


def _purge_recorded(
    storage: Storage, now: Now, entry: PartitionEntry, *, held_off: HeldOff, own: str
) -> PartitionDeletion:
    """Delete from the folder that no reader looks into: no reader needs to be held off there."""
    if not storage.abilities.atomic_directory_rename:
        return delete_recorded(storage, now, entry, held_off=held_off)
    folder = join(entry.location, QUARANTINE, own)
    freed = empty_trash(storage, folder, entry.recorded)
    held, listing = list_directory(storage, folder), list_directory(storage, entry.location)
    obsolete = now.obsolete(entry, _as_if_restored(held, listing))
    doomed = [name for name in entry.recorded if name in held.names and name in obsolete]
    hide(storage, folder, doomed)
    freed.update(empty_trash(storage, folder, doomed))
    left = list_directory(storage, folder).names
    restored = [name for name in entry.recorded if name in listing.names]
    storage.remove_if_empty(folder)
    storage.remove_if_empty(join(entry.location, QUARANTINE))
    return result_of(entry, there=left, obsolete=obsolete, freed=freed, held=left, restored=restored)


def _as_if_restored(held: Listing, listing: Listing) -> Listing:
    there = listing.names
    directories = (one for one in held.directories if one.name not in there)
    files = (one for one in held.files if one.name not in there)
    return Listing(directories=(*listing.directories, *directories), files=(*listing.files, *files))
