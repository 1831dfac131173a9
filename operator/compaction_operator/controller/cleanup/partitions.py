"""Partition statuses of a cleanup: when it settles, after each deletion pass, and at the end. Pure functions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compaction_operator.api.cleanup import CompactionCleanupStatus, PartitionEntry, PartitionStatus, PublishedState
from compaction_operator.api.conditions import ConditionStatus
from compaction_operator.api.model import counted
from compaction_operator.cleanup.deletion import Deletions, PartitionDeletion, not_published
from compaction_operator.cleanup.settle import Settlement
from compaction_operator.controller.answers import STILL_NEEDED, Trouble

Verdict = tuple[ConditionStatus, str, str]
"""A condition's status, reason and message."""

RESTORED = "Restored"
NOT_PUBLISHED = "NotPublished"
NOT_DELETED_YET = "NotDeletedYet"

_TRUE, _FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


@dataclass(frozen=True)
class Pass:
    """One deletion pass over the journal in progress: partitions visited, latest results, and the first trouble."""

    visited: frozenset[str] = frozenset()
    latest: Deletions = ()
    trouble: Trouble | None = None
    broken_off: bool = False

    def after(self, chunk: Iterable[PartitionEntry], outcome: Deletions | Trouble) -> "Pass":
        """Return the pass after one more chunk. A metastore error breaks it off."""
        if isinstance(outcome, Trouble):
            return replace(self, latest=(), trouble=outcome, broken_off=True)
        visited = self.visited | {entry.partition for entry in chunk}
        return Pass(visited, outcome, self.trouble or next(troubles(outcome), None))


def is_done(partition: PartitionStatus) -> bool:
    """Whether a partition has nothing left to delete, or keeps the rest for good (the message says why)."""
    return not (partition.remaining or partition.quarantined) or partition.message is not None


def first_status(entry: PartitionEntry, settled: Settlement) -> PartitionStatus:
    """Return an entry's first status. This journal never deletes what is not published by now.

    The same holds for names that were not obsolete by then (`needed`), for partitions that are no longer the recorded
    ones (`gone`), and for partitions that could not be reached. NB: a later attempt may make the same directories
    obsolete; its readers are not in this baseline.
    """
    changed = {**settled.gone, **settled.unreachable}
    state, change = settled.states[entry.partition], changed.get(entry.partition)
    needed = settled.needed.get(entry.partition, ())
    status = PartitionStatus(
        partition=entry.partition,
        state=state,
        kept=tuple(name for name in entry.recorded if name in needed),
        remaining=tuple(name for name in entry.recorded if name not in needed),
    )
    if change is not None:
        return status.model_copy(update={"reason": change.reason, "message": change.message})
    if state is not PublishedState.NOT_PUBLISHED:
        return status
    return status.model_copy(update={"reason": NOT_PUBLISHED, "message": not_published(entry)})


def progressed(old: PartitionStatus, result: PartitionDeletion | None) -> PartitionStatus:
    """Return a partition's status after a pass; what the pass did not touch stays the same.

    Names in the quarantine are listed only as `quarantined`, even while they cannot be deleted yet.
    """
    if result is None:
        return old
    if result.skipped is not None:
        return old.model_copy(update={"reason": result.reason, "message": result.skipped}) if result.final else old
    deleted = (*old.deleted, *(name for name in result.deleted if name not in old.deleted))
    gone = (*old.gone, *(name for name in result.gone if name not in old.gone))
    progress: dict[str, object] = {
        "deleted": deleted,
        "gone": tuple(name for name in gone if name not in deleted),
        "quarantined": tuple(name for name in result.quarantined if name not in result.needed),
        "kept": (*old.kept, *result.needed),
        "remaining": tuple(name for name in result.remaining if name not in result.quarantined),
    }
    if result.restored and result.final and not result.quarantined:
        back = f"{', '.join(result.restored)} moved back from the quarantine by a user"
        progress |= {"reason": RESTORED, "message": back}
    return old.model_copy(update=progress)


def expected(old: PartitionStatus, planned: Mapping[str, PartitionDeletion]) -> PartitionStatus:
    """Return a partition's status with what a dry-run pass would have deleted, or why nothing ever will be."""
    result = planned.get(old.partition)
    if result is None or is_done(old):
        return old
    if result.skipped is not None:
        return progressed(old, result)
    return old.model_copy(update={"planned": tuple(result.remaining)})


def troubles(results: Iterable[PartitionDeletion]) -> Iterator[Trouble]:
    """Yield the obstacles that keep a pass's partitions from being done, and that a later pass may not meet."""
    for result in results:
        where = result.partition or "table"
        if result.skipped is not None and not result.final:
            yield Trouble(result.reason or "StorageError", f"{where}: {result.skipped}")
        for name, why in result.remaining.items():
            yield Trouble(NOT_DELETED_YET, f"{where}: {name}: {why}")


def published_condition(partitions: Iterable[PartitionStatus]) -> Verdict:
    """Return the verdict of the Published condition."""
    states = [partition.state for partition in partitions]
    missing, there = states.count(PublishedState.NOT_PUBLISHED), states.count(PublishedState.PUBLISHED)
    if missing:
        reason = "PartiallyPublished" if there else NOT_PUBLISHED
        return _FALSE, reason, f"published: {there}, not published: {missing}"
    if there:
        return _TRUE, "Published", f"{counted(there, 'partition')} published"
    return _TRUE, "NothingToPublish", "nothing was written; the recorded names were already obsolete"


def kept(partitions: Iterable[PartitionStatus]) -> list[PartitionStatus]:
    """Return the partitions that keep something for good, except unpublished ones, which keep everything."""
    return [part for part in partitions if part.kept or (part.message is not None and part.reason != NOT_PUBLISHED)]


def ending(status: CompactionCleanupStatus) -> Verdict:
    """Return the final verdict of a cleanup that has nothing left to do."""
    changed = kept(status.partitions)
    stays = [*changed, *(part for part in status.partitions if part.message is not None)]
    why = f"{stays[0].partition or 'table'}: {_why_kept(stays[0])}" if stays else ""
    gone = sum(len(part.gone) for part in status.partitions)
    others = f"; {gone} {'was' if gone == 1 else 'were'} already gone" if gone else ""
    if status.directories_deleted:
        deleted = f"deleted {paths(status.directories_deleted)}, {status.bytes_deleted} bytes"
        return _TRUE, "Deleted", deleted + others + (f"; kept: {why}" if why else "")
    if changed:
        reason = changed[0].reason or STILL_NEEDED
        return _TRUE if reason == RESTORED else _FALSE, reason, f"nothing was deleted: {_why_kept(changed[0])}"
    if stays:
        return _TRUE, NOT_PUBLISHED, f"nothing was deleted: {why}"
    return _TRUE, "NothingToDelete", f"none of the recorded names is left{others}"


def paths(number: int) -> str:
    """Return the text for a number of recorded names."""
    return f"{counted(number, 'path')} (directories and original files)"


def _why_kept(partition: PartitionStatus) -> str:
    return partition.message or f"{', '.join(partition.kept)}: not obsolete when last checked"


def left_in_place(status: CompactionCleanupStatus, entries: Sequence[PartitionEntry]) -> Verdict:
    """Return the final verdict with mode Never. On Hive 4, Hive's own Cleaner ends the queue entries."""
    published = [part for part in status.partitions if part.state is not PublishedState.NOT_PUBLISHED]
    if not published:
        return ending(status)
    names = sum(len(partition.remaining) for partition in published)
    left = f"mode is Never: {paths(names)} left in place"
    if any(entry.queue_id is not None for entry in entries):
        return _TRUE, "LeftInPlace", f"{left} until Hive's own Cleaner deletes them"
    return _TRUE, "LeftInPlace", left
