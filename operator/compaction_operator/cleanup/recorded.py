"""Recorded names and their present state: a journal's table as it is now, and which names are obsolete."""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from compaction_operator.acid.listing import Listing
from compaction_operator.acid.names import may_become_obsolete
from compaction_operator.acid.plan import require_alone
from compaction_operator.acid.snapshot import obsolete_now, visibility
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.cleanup import PartitionEntry, TableIdentity
from compaction_operator.cleanup.identity import Change, Today, resolve_today
from compaction_operator.cleanup.staging import TRASH_PREFIX
from compaction_operator.metastore import MetastoreCalls
from compaction_operator.storage import AlreadyExistsError, NotFoundError, Storage, join


@dataclass(frozen=True, slots=True)
class Now:
    """The table as the metastore has it in this pass. All of it is queried before anything is listed."""

    today: Today
    write_ids: ValidWriteIdList
    valid_txns: ValidTxnList

    def what_changed(self, entry: PartitionEntry) -> Change | None:
        """Return what happened to an entry's partition, None while it is the recorded one.

        NB: write ids that went back indicate another table only where the table has no id. Hive 4 reports the lowest
        invalid write id if its tables have no valid one left (GetValidWriteIdsForTableFunction).
        """
        changed = self.today.what_changed(entry)
        mark = self.write_ids.high_watermark
        if changed is None and self.today.table_id is None and mark < entry.highest_write_id:
            why = f"write ids went back to {mark}: this is not the table that was compacted"
            return Change("TableRecreated", why)
        return changed

    def obsolete(self, entry: PartitionEntry, listing: Listing) -> dict[str, str]:
        """Map the names that no reader needs any more, up to the entry's highest write id, to the reason.

        Raises ValueError if that cannot be determined, also where another compactor's directory overlaps a published
        output: only the common inputs can repair that.
        """
        require_alone(entry.outputs, listing, visible=visibility(self.valid_txns))
        found = obsolete_now(
            listing, self.write_ids, valid_txns=self.valid_txns, highest_write_id=entry.highest_write_id
        )
        return {name: reason for name, reason in found.items() if may_become_obsolete(name)}


def resolve_now(metastore: MetastoreCalls, recorded: TableIdentity, entries: Iterable[PartitionEntry]) -> Now:
    """Return a journal's table as it is now. Raises TableGoneError and the metastore's errors."""
    today = resolve_today(metastore, recorded, entries)
    txns = metastore.valid_txns()
    write_ids = metastore.valid_write_ids(recorded.database, recorded.name, valid_txns=txns)
    return Now(today, write_ids, txns)


def list_directory(storage: Storage, location: str) -> Listing:
    """List a directory; a missing one has nothing left to delete."""
    try:
        return storage.list_partition(location)
    except NotFoundError:
        return Listing(directories=(), files=())


DELETING_SECONDS = 5.0
"""How long readers are held off for directories that cannot be hidden, but must be deleted."""


def hide(storage: Storage, location: str, names: Sequence[str]) -> tuple[Counter[str], Sequence[str]]:
    """Hide directories from readers, each with a single rename; already missing ones are fine.

    Where the store cannot rename, it deletes one after the other until DELETING_SECONDS are over. Returns the bytes
    that this freed by name, and the names that are left.
    """
    if not storage.abilities.atomic_directory_rename:
        return _delete_for_a_while(storage, location, names)
    for name in names:
        # An earlier pass hid the name and it was recreated since: it stays for the next pass.
        with suppress(AlreadyExistsError, NotFoundError):
            storage.rename(join(location, name), join(location, f"{TRASH_PREFIX}{name}"))
    return Counter(), ()


def _delete_for_a_while(storage: Storage, location: str, names: Sequence[str]) -> tuple[Counter[str], Sequence[str]]:
    freed, end = Counter[str](), time.monotonic() + DELETING_SECONDS
    for number, name in enumerate(names):
        if freed and time.monotonic() >= end:
            return freed, names[number:]
        freed[name] = storage.delete_tree(join(location, name))
    return freed, ()


def empty_trash(storage: Storage, location: str, recorded: Iterable[str]) -> Counter[str]:
    """Delete hidden directories, also those left by an interrupted pass; return the bytes freed by name."""
    hidden = {f"{TRASH_PREFIX}{name}": name for name in recorded if may_become_obsolete(name)}
    try:
        left = [entry.name for entry in storage.list(location) if entry.name in hidden]
    except NotFoundError:
        return Counter()
    return Counter({hidden[name]: storage.delete_tree(join(location, name)) for name in left})


def needed_of(entry: PartitionEntry, *, there: Collection[str], obsolete: Collection[str]) -> tuple[str, ...]:
    """Return the recorded names that exist and are not obsolete, and those that can never become obsolete."""
    kept = (name for name in entry.recorded if name not in obsolete)
    return tuple(name for name in kept if name in there or not may_become_obsolete(name))
