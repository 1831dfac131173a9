"""A partition's directories before the last compaction, now, and after the next one, as far as they are known. Pure.

Before: the names in the last journal. Now: what the last look of a policy measured, and what the journal's cleanup has
not deleted yet. After: what follows from that measure.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from compaction_operator.api.cleanup import PartitionEntry, PartitionStatus, PublishedState
from compaction_operator.api.compaction import CompactionType
from compaction_operator.controller.kube.resources import Cleanup
from compaction_operator.controller.page.debt import of_measure
from compaction_operator.hudi import SliceSizes
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.memory import TableState
from compaction_operator.policy.timeline import TimelineMeasure

PARTITIONS = 10
"""Partitions to draw: those with the largest debt."""


class Kind(StrEnum):
    """What a directory holds, or a group of Hudi's files."""

    BASE = "base"
    DELTA = "delta"
    DELETE = "delete"
    OBSOLETE = "obsolete"


@dataclass(frozen=True, slots=True)
class Group:
    """Some directories of a kind: by name, or as many as `count`. Files and bytes are those of all; None: not known."""

    kind: Kind
    label: str
    count: int = 1
    names: tuple[str, ...] = ()
    files: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Drawing:
    """A partition ('' for an unpartitioned table) in three stages, each with its groups. None: not known.

    `last` is the compaction whose journal says what it replaced.
    """

    partition: str
    before: tuple[Group, ...] | None
    now: tuple[Group, ...] | None
    after: tuple[Group, ...] | None
    last: str | None = None

    @property
    def largest(self) -> int:
        """The size of the largest group."""
        stages = (self.before, self.now, self.after)
        return max((one.bytes or 0 for stage in stages for one in stage or ()), default=0)


@dataclass(frozen=True, slots=True)
class _Journal:
    """What a cleanup says of one partition."""

    cleanup: Cleanup
    entry: PartitionEntry
    status: PartitionStatus


def drawings(state: TableState | None, newest: Sequence[Cleanup], next_type: CompactionType) -> list[Drawing]:
    """Return the partitions with the largest debt, then those that were compacted last.

    `state` is what a policy knows of the table, and `newest` are its cleanups, the newest first.
    """
    measured = {one.name: one.measure for one in state.partitions} if state else {}
    first = heapq.nlargest(PARTITIONS, measured, key=lambda name: (of_measure(measured[name]).value, name))
    journals = _journals(newest)
    names = [*first, *(name for name in journals if name not in first)][:PARTITIONS]
    return [_drawing(name, measured.get(name), journals.get(name), next_type) for name in names]


def _journals(newest: Iterable[Cleanup]) -> dict[str, _Journal]:
    """Return the last journal of each partition, of those that are known to be published."""
    found: dict[str, _Journal] = {}
    for cleanup in newest:
        states = {one.partition: one for one in cleanup.status.partitions}
        for entry in cleanup.spec.partitions:
            status = states.get(entry.partition)
            if status is not None and status.state is not PublishedState.NOT_PUBLISHED:
                found.setdefault(entry.partition, _Journal(cleanup, entry, status))
    return found


def _drawing(
    name: str, measure: Measure | TimelineMeasure | None, journal: _Journal | None, next_type: CompactionType
) -> Drawing:
    left = tuple(_left(journal)) if journal else ()
    now = (*_now(measure), *left) if measure else (*_written(journal), *left) if journal else None
    after = tuple(_after(measure, next_type)) if measure else None
    before = tuple(_before(journal)) if journal else None
    return Drawing(name, before, now, after, journal.cleanup.spec.compaction.name if journal else None)


def _before(journal: _Journal) -> Iterator[Group]:
    """Yield what the last compaction replaced, by kind; the journal has the size of all together."""
    totals = journal.entry.totals
    names = journal.entry.recorded
    kinds = {name: _kind(name) for name in names}
    for kind, label in ((Kind.BASE, "base"), (Kind.DELTA, "deltas"), (Kind.DELETE, "delete deltas")):
        if mine := tuple(name for name in names if kinds[name] is kind):
            alone = len(mine) == len(names) and totals.files_in
            files, size = (totals.files_in, totals.bytes_in) if alone else (None, None)
            yield Group(kind, label, len(mine), mine, files, size)


def _kind(name: str) -> Kind:
    if name.startswith("delete_delta_"):
        return Kind.DELETE
    return Kind.DELTA if name.startswith("delta_") else Kind.BASE


def _written(journal: _Journal) -> Iterator[Group]:
    """Yield what the last compaction wrote: all that is known where no policy has measured the partition."""
    entry = journal.entry
    for name in entry.outputs:
        alone = len(entry.outputs) == 1 and entry.totals.files_out
        files, size = (entry.totals.files_out, entry.totals.bytes_out) if alone else (None, None)
        yield Group(_kind(name), "written by the last compaction", 1, (name,), files, size)


def _left(journal: _Journal) -> Iterator[Group]:
    """Yield what is obsolete and still there."""
    status, entry = journal.status, journal.entry
    away = {*status.deleted, *status.gone, *status.kept}
    names = tuple(name for name in entry.recorded if name not in away)
    if hidden := tuple(name for name in names if name in status.quarantined):
        yield Group(Kind.OBSOLETE, "in the quarantine", len(hidden), hidden)
    if rest := tuple(name for name in names if name not in hidden):
        label = "obsolete, still there" if not journal.cleanup.ended else "obsolete, left for good"
        yield Group(Kind.OBSOLETE, label, len(rest), rest)


def _now(found: Measure | TimelineMeasure) -> Iterator[Group]:
    if isinstance(found, TimelineMeasure):
        yield from _hudi(found.sizes, found.delta_commits)
        return
    if found.base_files:
        label = f"base to write id {found.base_write_id}" if found.base_write_id else "files without a base"
        yield Group(Kind.BASE, label, 1, (), found.base_files, found.base_bytes)
    if found.deltas:
        inserts = found.delta_bytes - found.delete_bytes
        yield Group(Kind.DELTA, "deltas, with delete deltas", found.deltas, (), found.delta_files, inserts)
    if found.delete_bytes:
        yield Group(Kind.DELETE, "delete events in them", 1, (), None, found.delete_bytes)
    if found.aborted:
        yield Group(Kind.OBSOLETE, "of aborted writes", found.aborted)


def _hudi(sizes: SliceSizes, commits: int) -> Iterator[Group]:
    if sizes.base_bytes:
        yield Group(Kind.BASE, "base files below log files", 1, (), None, sizes.base_bytes)
    logs = sizes.logs
    known = logs.files > 0
    files, size = (logs.files, logs.bytes) if known else (None, None)
    yield Group(Kind.DELTA, f"log files of {commits} delta commits", max(1, logs.files), (), files, size)


def _after(found: Measure | TimelineMeasure, type_: CompactionType) -> Iterator[Group]:
    """Yield what a compaction leaves; sizes are at most these."""
    if isinstance(found, TimelineMeasure):
        yield from _after_hudi(found.sizes, type_)
    elif type_ is CompactionType.MINOR:
        if found.base_files:
            yield Group(Kind.BASE, "base, as it is", 1, (), found.base_files, found.base_bytes)
        inserts = found.delta_bytes - found.delete_bytes
        if inserts:
            yield Group(Kind.DELTA, "one delta", 1, (), found.delta_buckets, inserts)
        if found.delete_bytes:
            yield Group(Kind.DELETE, "one delete delta", 1, (), None, found.delete_bytes)
    else:
        rows = found.base_bytes + found.delta_bytes - found.delete_bytes
        yield Group(Kind.BASE, "one base", 1, (), found.buckets, rows)


def _after_hudi(sizes: SliceSizes, type_: CompactionType) -> Iterator[Group]:
    known = sizes.logs.files > 0
    if type_ is CompactionType.LOG_COMPACTION:
        if sizes.base_bytes:
            yield Group(Kind.BASE, "base files, as they are", 1, (), None, sizes.base_bytes)
        label = "small log files merged, one for each file group"
        files = sizes.logs.files - sizes.small.files + sizes.small.groups if known else None
        yield Group(Kind.DELTA, label, max(1, files or 1), (), files, sizes.logs.bytes if known else None)
    else:
        size = sizes.base_bytes + sizes.logs.bytes if known else None
        yield Group(Kind.BASE, "new base files", 1, (), sizes.logs.groups if known else None, size)
