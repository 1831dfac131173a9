"""The compaction engine: merges the events of one bucket in key order."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from compaction_operator.acid.names import bucket_of_property
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc.file import OrcWriter, can_copy
from compaction_operator.orc.merge.deletes import delete_windows
from compaction_operator.orc.merge.events import (
    Check,
    EventKind,
    KeyRange,
    MergeForecast,
    MergeResult,
    MergeTask,
    checked,
    unchecked,
)
from compaction_operator.orc.merge.forecast import Forecaster, StripeSizes, forecast_deletes
from compaction_operator.orc.merge.keys import Keys, changes, counted, hit_by, in_range, touched_by, valid_write_ids
from compaction_operator.orc.merge.layout import common_layout
from compaction_operator.orc.merge.output import JOINED_MEMORY, DeleteFile, InsertFile, InsertStripes, Run
from compaction_operator.orc.merge.small_stripes import joined
from compaction_operator.orc.merge.source import INSERT, LOWEST, Stripe, open_source
from compaction_operator.orc.spec import Integers

COPY_BYTES = 2 * 1024 * 1024
COPY_ROWS = 50_000
"""Stripes of at least this many bytes or rows are large: copied if possible. Runs of smaller ones may be joined."""

Window = tuple[KeyRange, Keys]
"""A key range and its delete events."""


def merge_bucket(task: MergeTask, *, check: Check = unchecked) -> MergeResult:
    """Write the task's complete output file and flush it to disk.

    Stripes are rewritten one column at a time, and large stripes that need no change are copied. Raises OrcError, and
    leaves no output, if a file cannot be read or preserved bit for bit, if two events have the same key, or if the
    output exists. What `check` raises ends the task in the same way.
    """
    write_ids = ValidWriteIdList.parse(task.write_ids)
    if task.kind is EventKind.DELETE:
        return _DeleteMerge(task, write_ids, check).run()
    return _Merge(task, write_ids, check).run()


def forecast_bucket(task: MergeTask, *, check: Check = unchecked) -> MergeForecast:
    """Return what `merge_bucket` will do, by its own decisions; writes nothing, and decodes no column but keys.

    It reads the tails, all delete events, and the keys of the stripes that delete events or other stripes may touch.
    Raises OrcError, and what `check` raises, as `merge_bucket` does.
    """
    write_ids = ValidWriteIdList.parse(task.write_ids)
    if task.kind is EventKind.DELETE:
        return _DeleteMerge(task, write_ids, check).forecast()
    return _Merge(task, write_ids, check).forecast()


class _Merge:
    """The execution of one INSERT task."""

    def __init__(self, task: MergeTask, write_ids: ValidWriteIdList, check: Check) -> None:
        self._task = task
        self._write_ids = write_ids
        self._check = check
        self._sources = [open_source(file) for file in checked(task.inputs, check)]
        self._layout = common_layout(self._sources, task, check=check)
        self._columns = {source.path: source.columns(self._layout.types) for source in self._sources}
        self._rows_in: Counter[int] = Counter()
        self._hidden: Counter[int] = Counter()
        self._rows_deleted = self._events = self._bytes_in = 0

    def run(self) -> MergeResult:
        """Write the file and return the counts."""
        with OrcWriter(self._task.output, self._layout) as writer:
            file = InsertFile(writer, self._columns, self._forecaster(), memory=self._task.memory, check=self._check)
            self._decide(file)
            size = file.finish()
        return self._result(file, bytes_out=size, bytes_copied=writer.bytes_copied)

    def forecast(self) -> MergeForecast:
        """Decide the same without a file, and return what would be done."""
        stripes = InsertStripes(self._forecaster(), memory=self._task.memory)
        self._decide(stripes)
        stripes.flush()
        return self._forecast(stripes)

    def _forecaster(self) -> Forecaster:
        return Forecaster(self._layout, [source.tail for source in self._sources])

    def _forecast(self, file: InsertStripes) -> MergeForecast:
        files = len(self._task.inputs) + len(self._task.deletes)
        return file.forecast.finished(files=files, rows_removed=self._rows_deleted, delete_events=self._events)

    def _decide(self, file: InsertStripes) -> None:
        """Give the file all stripes, one window of delete events at a time."""
        check, memory = self._check, self._task.memory
        found = [stripe for source in self._sources for stripe in source.stripes() if stripe.rows]
        stripes = [stripe.bounded() for stripe in checked(found, check)]
        deletes = [open_source(file) for file in checked(self._task.deletes, check)]
        windows = delete_windows(deletes, self._task.keys, self._write_ids, memory=memory, check=check)
        for window in windows:
            self._events += len(window[1])
            touched = [stripe for stripe in stripes if stripe.touches(window[0])]
            groups = list(_overlapping(touched))
            for group, join in checked(zip(groups, self._joined(groups), strict=True), check):
                if join or not self._copied(group[0], window, file):
                    self._merge(group, window, file, join=join)

    def _result(self, file: InsertFile, *, bytes_out: int, bytes_copied: int) -> MergeResult:
        return MergeResult(
            output=self._task.output,
            rows_in=self._rows_in.total(),
            rows_out=file.rows.total(),
            delete_events_in=self._events,
            rows_deleted=self._rows_deleted,
            bytes_in=self._bytes_in,
            bytes_out=bytes_out,
            bytes_copied=bytes_copied,
            copied=file.copied,
            forecast=self._forecast(file),
            rows_in_by_write_id=dict(self._rows_in),
            rows_out_by_write_id=dict(file.rows),
            rows_hidden=dict(self._hidden),
        )

    def _joined(self, groups: Sequence[Sequence[Stripe]]) -> list[bool]:
        """Return, for each group, whether its stripes become one: they overlap, or are in a run of small ones."""
        small = joined([sum(_size(stripe, self._task.memory) for stripe in group) for group in groups])
        return [len(group) > 1 or one for group, one in zip(groups, small, strict=True)]

    def _copied(self, stripe: Stripe, window: Window, file: InsertStripes) -> bool:
        """Copy a stripe if its statistics and the key index prove that no row goes; return whether it was copied."""
        keys, deletes = window
        if not self._may_copy(stripe, keys) or touched_by(deletes, *stripe.bounds):
            return False
        if not stripe.all_valid(self._write_ids, operation=INSERT):
            return False
        counts = stripe.count_by_write_id()
        self._count(stripe, counts, stripe.rows)
        file.copy(stripe, counts)
        return True

    def _may_copy(self, stripe: Stripe, keys: KeyRange) -> bool:
        whole = stripe.source.file.original is None and stripe.lies_in(keys)
        return whole and can_copy(stripe.source.tail, stripe.index, self._layout)

    def _count(self, stripe: Stripe, counts: dict[int, int], rows: int) -> None:
        self._rows_in.update(counts)
        self._bytes_in += stripe.bytes * rows // stripe.rows

    def _merge(self, group: Sequence[Stripe], window: Window, file: InsertStripes, *, join: bool) -> None:
        runs = [run for stripe in checked(group, self._check) if len((run := self._run(stripe, window)).rows)]
        whole = len(runs) == len(group) == 1 and len(runs[0].rows) == group[0].rows
        if whole and not join and self._may_copy(group[0], window[0]):
            file.copy(group[0], counted(runs[0].keys.write_id))
        elif runs:
            file.add(runs)

    def _run(self, stripe: Stripe, window: Window) -> Run:
        """Read the keys of a stripe and return its remaining rows."""
        with stripe.open() as opened:
            keys = opened.keys(operation=INSERT)
            sizes = StripeSizes.of(stripe, opened.reader.footer)
        inside = in_range(keys, window[0])
        valid = inside & valid_write_ids(keys.current, self._write_ids)
        hit = valid & hit_by(keys, window[1])
        self._count(stripe, counted(keys.write_id[valid]), int(inside.sum()))
        self._hidden.update(counted(keys.current[inside & ~valid]))
        self._rows_deleted += int(hit.sum())
        rows = np.flatnonzero(valid & ~hit)
        return Run(stripe, rows, keys[rows], sizes)


def _overlapping(stripes: Sequence[Stripe]) -> Iterator[list[Stripe]]:
    """Yield the stripes in key order, in groups of overlapping stripes."""
    group: list[Stripe] = []
    end = LOWEST
    for stripe in sorted(stripes, key=lambda stripe: stripe.bounds):
        low, high = stripe.bounds
        if group and low > end:
            yield group
            group = []
        group.append(stripe)
        end = max(end, high)
    if group:
        yield group


def _size(stripe: Stripe, memory: int) -> float:
    """Return the size of a stripe as a part of one that is large enough, which has 1.

    What takes half of the memory for a joined stripe is large as well: with another one it would be full.
    """
    if stripe.bytes >= COPY_BYTES or stripe.rows >= COPY_ROWS:
        return 1
    half = min(memory, JOINED_MEMORY) / 2
    return max(stripe.bytes / COPY_BYTES, stripe.rows / COPY_ROWS, stripe.memory / half)


class _DeleteMerge:
    """The execution of one DELETE task."""

    def __init__(self, task: MergeTask, write_ids: ValidWriteIdList, check: Check) -> None:
        self._task = task
        self._write_ids = write_ids
        self._check = check
        self._sources = [open_source(file) for file in checked(task.inputs, check)]
        self._layout = common_layout(self._sources, task, check=check)
        self._events = 0

    def run(self) -> MergeResult:
        """Write the file and return the counts."""
        with OrcWriter(self._task.output, self._layout) as writer:
            file = DeleteFile(writer, self._layout.types)
            for events in self._own_events():
                file.add(events)
            size = file.finish()
        return MergeResult(
            output=self._task.output,
            delete_events_in=self._events,
            delete_events_out=file.events,
            bytes_in=sum(source.tail.size for source in self._sources),
            bytes_out=size,
            forecast=self._forecast(file.events),
        )

    def forecast(self) -> MergeForecast:
        """Count the same events without a file, and return what would be done."""
        return self._forecast(sum(map(len, self._own_events())))

    def _own_events(self) -> Iterator[Keys]:
        """Yield the delete events of the task's bucket, in order."""
        task = self._task
        windows = delete_windows(self._sources, task.keys, self._write_ids, memory=task.memory, check=self._check)
        for _, events in windows:
            self._events += len(events)
            yield events.where(_bucket_of(events) == task.bucket)

    def _forecast(self, events: int) -> MergeForecast:
        return forecast_deletes(
            [source.tail for source in self._sources], self._layout, events=events, events_in=self._events
        )


def _bucket_of(events: Keys) -> Integers:
    """Return the bucket of each event's row."""
    starts = changes(events.bucket)
    buckets = np.array([bucket_of_property(number) for number in events.bucket[starts].tolist()], np.int64)
    return np.repeat(buckets, np.diff(starts, append=len(events)))
