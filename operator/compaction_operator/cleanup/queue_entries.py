"""Ends a compaction's entries in Hive 4's queue, once the metastore may forget earlier aborted transactions."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from compaction_operator.acid.listing import Listing
from compaction_operator.acid.names import AcidDirectory
from compaction_operator.acid.snapshot import acid_directories, compacted_bases
from compaction_operator.acid.write_ids import RangeValidity, ValidTxnList, ValidWriteIdList
from compaction_operator.api.cleanup import CompactionCleanupSpec, PartitionEntry
from compaction_operator.cleanup.attempt import Attempt, is_taken_for, queue_job
from compaction_operator.cleanup.identity import TableGoneError
from compaction_operator.cleanup.quarantine import QUARANTINE
from compaction_operator.cleanup.recorded import Now, list_directory, resolve_now
from compaction_operator.errors import OperatorError
from compaction_operator.metastore import Generation, MetastoreCalls, QueueEntry
from compaction_operator.storage import NotFoundError, Storage, join


class StillThereError(OperatorError):
    """A directory is left whose aborted state the metastore would forget."""


def finish(
    open_storage: Callable[[str], Storage],
    metastore: MetastoreCalls,
    spec: CompactionCleanupSpec,
    entries: Iterable[PartitionEntry],
) -> None:
    """Mark the queue entries of these partitions, which have no recorded names left, as cleaned. No-op on Hive 3.

    NB: `mark_cleaned` makes the metastore forget which write ids of the partition, up to the entry's highest one, were
    aborted, and which compactions were (MarkCleanedFunction.removeTxnComponents). From then on they count as committed.
    A directory of theirs that is still there would expose its rows to every reader. So each partition is listed again
    first, including its quarantine, and nothing is marked while any such directory is left. Obsolete directories of
    another compaction do not matter: nothing is forgotten about them.

    Only entries that the metastore shows as the attempt's own, or as taken for its compaction, committed and ready for
    cleaning are marked. A missing entry was ended by Hive's own Cleaner, which was faster, or with its table or
    partition. Raises StillThereError, StorageError and MetastoreError: the call must then be retried.
    """
    queued = [entry for entry in entries if entry.queue_id is not None]
    if not queued or metastore.generation() is Generation.HIVE3:
        return
    try:
        now = resolve_now(metastore, spec.table, queued)
    except TableGoneError:
        return
    own = _ready_entries(metastore, spec)
    for entry in queued:
        # NB: the entry marked as cleaned must be the one that was checked, whatever ids the journal has.
        found = own.get((entry.partition, entry.queue_id, entry.txn_id))
        if found is not None and now.what_changed(entry) is None:
            _mark_cleaned(open_storage(entry.location), metastore, now, entry, found)


def _ready_entries(
    metastore: MetastoreCalls, spec: CompactionCleanupSpec
) -> dict[tuple[str, int | None, int | None], QueueEntry]:
    attempt = Attempt(spec.compaction.uid, spec.compaction.attempt)
    return {
        (one.partition or "", one.queue_id, one.txn): one
        for one in metastore.compactions(spec.table.database, spec.table.name)
        if one.awaits_cleaning and (attempt.queued(one) or is_taken_for(one, spec.compaction.name))
    }


def _mark_cleaned(
    storage: Storage, metastore: MetastoreCalls, now: Now, entry: PartitionEntry, found: QueueEntry
) -> None:
    # The metastore trusts the write id in the call, so the call covers no more than what is checked here.
    highest = min(entry.highest_write_id, found.highest_write_id or entry.highest_write_id)
    listings = {place: list_directory(storage, place) for place in _places(storage, entry.location)}
    if not listings[entry.location].names:
        # NB: forgetting aborted write ids would revive their rows when the volume is back.
        raise StillThereError(f"{entry.location}: not even the published output is there: is its volume there?")
    for place, listing in listings.items():
        recorded = listing.names.intersection(entry.recorded)
        left = sorted({*recorded, *aborted_left(listing, now.write_ids, now.valid_txns, highest_write_id=highest)})
        if left:
            raise StillThereError(f"{place}: {left[0]} is left, so queue entry {found.queue_id} cannot be ended yet")
    metastore.mark_cleaned(replace(queue_job(found), highest_write_id=highest))


def _places(storage: Storage, location: str) -> list[str]:
    """Return a partition's directory, and all folders in its quarantine: their content may be moved back."""
    quarantine = join(location, QUARANTINE)
    try:
        return [location, *(join(quarantine, folder.name) for folder in storage.list(quarantine))]
    except NotFoundError:
        return [location]


def aborted_left(
    listing: Listing, write_ids: ValidWriteIdList, txns: ValidTxnList, *, highest_write_id: int
) -> frozenset[str]:
    """Return the directories that hold, or may hold, aborted data at or below a write id.

    The output of a compaction holds nothing aborted, unless the compaction itself was aborted. In any other directory
    an invalid write id was aborted: all write ids up to the highest one were settled when the compaction began.
    """
    compacted = compacted_bases(listing, highest=highest_write_id)

    def may_hold(directory: AcidDirectory) -> bool:
        if directory.visibility_txn is not None:
            return directory.visibility_txn in txns.aborted
        if directory.name in compacted:
            return False
        low, high = directory.min_write_id, min(directory.max_write_id, highest_write_id)
        return low <= high and write_ids.valid_range(low, high) is not RangeValidity.ALL

    return frozenset(directory.name for directory in acid_directories(listing) if may_hold(directory))
