"""The compaction engine: merges the events of one bucket in key order."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby, islice, pairwise
from operator import itemgetter
from types import MappingProxyType

import numpy as np

from compaction_operator.acid.names import bucket_of_property
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc.file import OrcDraft, OrcWriter, Tail, can_copy
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
from compaction_operator.orc.merge.forecast import Forecaster, StripeSizes, targets
from compaction_operator.orc.merge.keys import Keys, SortedKeys, changes, counted, hit_by, in_range, valid_write_ids
from compaction_operator.orc.merge.layout import common_layout
from compaction_operator.orc.merge.output import (
    DELETES_PER_STRIPE,
    JOINED_MEMORY,
    DeleteFile,
    InsertFile,
    InsertStripes,
    Run,
)
from compaction_operator.orc.merge.small_stripes import joined
from compaction_operator.orc.merge.source import (
    INSERT,
    KEY_COLUMNS,
    LOWEST,
    Stripe,
    keys_of,
    open_source,
    read_together,
)
from compaction_operator.orc.spec import Integers, sums_before

COPY_BYTES = 2 * 1024 * 1024
COPY_ROWS = 50_000
"""Stripes of at least this many bytes or rows are large: copied if possible. Runs of smaller ones may be joined."""

_KEYS_SHARE = 4
"""Keys are read ahead for this part of an output stripe, as they wait beside those of the one before."""

NO_TAILS: Mapping[str, Tail] = MappingProxyType({})

Window = tuple[KeyRange, SortedKeys]
"""A key range and its delete events."""


def merge_bucket(task: MergeTask, *, tails: Mapping[str, Tail] = NO_TAILS, check: Check = unchecked) -> MergeResult:
    """Write the task's complete output file, and flush it to disk unless it is only a part.

    `tails` are those of the inputs that have been read already, by path. Stripes are rewritten one column at a time,
    and large stripes that need no change are copied. Raises OrcError, and leaves no output, if a file cannot
    be read or preserved bit for bit, if two events have the same key, or if the output exists. What `check` raises ends
    the task in the same way.
    """
    write_ids = ValidWriteIdList.parse(task.write_ids)
    if task.kind is EventKind.DELETE:
        return _DeleteMerge(task, write_ids, tails, check).run()
    return _Merge(task, write_ids, tails, check).run()


def forecast_bucket(task: MergeTask, *, check: Check = unchecked) -> MergeForecast:
    """Return what `merge_bucket` will do, by its own decisions; writes nothing.

    It reads the tails, all delete events, and the keys of the stripes that delete events or other stripes may touch. It
    decodes other columns of a bounded amount of rows: what fits in that is forecast to the byte.
    Raises OrcError, and what `check` raises, as `merge_bucket` does.
    """
    write_ids = ValidWriteIdList.parse(task.write_ids)
    if task.kind is EventKind.DELETE:
        return _DeleteMerge(task, write_ids, NO_TAILS, check).forecast()
    return _Merge(task, write_ids, NO_TAILS, check).forecast()


class _Merge:
    """The execution of one INSERT task."""

    def __init__(self, task: MergeTask, write_ids: ValidWriteIdList, tails: Mapping[str, Tail], check: Check) -> None:
        self._task = task
        self._write_ids = write_ids
        self._check = check
        self._sources = [open_source(file, tails.get(file.path)) for file in checked(task.inputs, check)]
        self._layout = common_layout(self._sources, task, check=check)
        self._columns = {source.path: source.columns(self._layout.types) for source in self._sources}
        self._targets = {source.path: targets(source, self._columns[source.path]) for source in self._sources}
        self._rows_in: Counter[int] = Counter()
        self._hidden: Counter[int] = Counter()
        self._rows_deleted = self._events = self._bytes_in = 0

    def run(self) -> MergeResult:
        """Write the file and return the counts."""
        with OrcWriter(self._task.output, self._layout, durable=not self._task.is_part) as writer:
            file = InsertFile(writer, self._columns, self._forecaster(), memory=self._task.memory, check=self._check)
            self._decide(file)
            size = file.finish()
        return self._result(file, writer, bytes_out=size)

    def forecast(self) -> MergeForecast:
        """Decide the same without a file, and return what would be done."""
        draft, memory = OrcDraft(self._layout), self._task.memory
        stripes = InsertStripes(draft, self._columns, self._forecaster(), memory=memory, check=self._check)
        self._decide(stripes)
        return self._forecast(stripes, size=stripes.finish())

    def _forecaster(self) -> Forecaster:
        return Forecaster(self._layout, [source.tail for source in self._sources])

    def _forecast(self, file: InsertStripes, *, size: int) -> MergeForecast:
        files = len(self._task.inputs) + len(self._task.deletes)
        found = file.forecast.finished(size=size)
        return replace(found, files=files, rows_removed=self._rows_deleted, delete_events=self._events)

    def _decide(self, file: InsertStripes) -> None:
        """Give the file all stripes, one window of delete events at a time."""
        check, memory = self._check, self._task.memory
        found = [stripe for source in self._sources for stripe in source.stripes() if stripe.rows]
        stripes = [stripe.bounded() for stripe in checked(found, check)]
        deletes = [open_source(file) for file in checked(self._task.deletes, check)]
        windows = delete_windows(deletes, self._task.keys, self._write_ids, memory=memory, check=check)
        for window in windows:
            self._events += len(window[1])
            self._add(window, [stripe for stripe in stripes if stripe.touches(window[0])], file)

    def _add(self, window: Window, stripes: Sequence[Stripe], file: InsertStripes) -> None:
        """Write the rows of a window, in key order."""
        groups = list(_overlapping(stripes))
        for join, section in groupby(zip(groups, self._joined(groups), strict=True), key=itemgetter(1)):
            neighbours = [group for group, _ in section]
            if join:
                self._join(neighbours, window, file)
            else:
                self._keep([stripe for (stripe,) in neighbours], window, file)

    def _result(self, file: InsertFile, writer: OrcWriter, *, bytes_out: int) -> MergeResult:
        return MergeResult(
            output=self._task.output,
            rows_in=self._rows_in.total(),
            rows_out=file.rows.total(),
            delete_events_in=self._events,
            rows_deleted=self._rows_deleted,
            bytes_in=self._bytes_in,
            bytes_out=bytes_out,
            bytes_copied=writer.bytes_copied,
            copied=file.copied,
            checksums=tuple(writer.checksums),
            forecast=self._forecast(file, size=bytes_out),
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
        if not self._may_copy(stripe, keys) or deletes.touch(*stripe.bounds):
            return False
        if not stripe.all_valid(self._write_ids, operation=INSERT):
            return False
        counts = stripe.count_by_write_id()
        self._rows_in.update(counts)
        self._bytes_in += stripe.bytes
        file.copy(stripe, counts)
        return True

    def _may_copy(self, stripe: Stripe, keys: KeyRange) -> bool:
        whole = stripe.source.file.original is None and stripe.lies_in(keys)
        return whole and can_copy(stripe.source.tail, stripe.index, self._layout)

    def _keep(self, stripes: Sequence[Stripe], window: Window, file: InsertStripes) -> None:
        """Copy each stripe, or write its remaining rows if some go."""
        for stripe in checked(stripes, self._check):
            if not self._copied(stripe, window, file):
                self._read_and_keep(stripe, window, file)

    def _read_and_keep(self, stripe: Stripe, window: Window, file: InsertStripes) -> None:
        (run,) = self._runs([stripe], window)
        if len(run.rows) == stripe.rows and self._may_copy(stripe, window[0]):
            file.copy(stripe, counted(run.keys.write_id))
        elif len(run.rows):
            file.add([run])

    def _join(self, groups: Sequence[Sequence[Stripe]], window: Window, file: InsertStripes) -> None:
        """Write the remaining rows of groups of stripes, each sorted."""
        runs = self._runs([stripe for group in groups for stripe in group], window)
        for group in groups:
            found = [run for run in islice(runs, len(group)) if len(run.rows)]
            if found:
                file.add(found)

    def _runs(self, stripes: Sequence[Stripe], window: Window) -> Iterator[Run]:
        """Read the keys of stripes and yield the remaining rows of each."""
        memory = min(self._task.memory, JOINED_MEMORY) // _KEYS_SHARE
        for together in read_together(stripes, memory=memory):
            keys, sizes = self._read(together)
            yield from self._remaining(together, keys, sizes, window)

    def _read(self, stripes: Sequence[Stripe]) -> tuple[Keys, list[StripeSizes]]:
        """Return the keys of stripes, one after another, and the sizes of each."""
        with ExitStack() as stack:
            opened = [stack.enter_context(stripe.open()) for stripe in checked(stripes, self._check)]
            sizes = [StripeSizes.of(one.stripe, one.reader.footer, self._targets[one.stripe.path]) for one in opened]
            return keys_of(opened, operation=INSERT), sizes

    def _remaining(
        self, stripes: Sequence[Stripe], keys: Keys, sizes: Sequence[StripeSizes], window: Window
    ) -> Iterator[Run]:
        """Count the rows of stripes by their keys, and yield those of each stripe that remain."""
        places = [slice(start, end) for start, end in pairwise(sums_before([stripe.rows for stripe in stripes]))]
        inside = in_range(keys, window[0])
        valid = inside & valid_write_ids(keys.current, self._write_ids)
        hit = valid & np.concatenate([hit_by(keys[place], window[1]) for place in places])
        self._rows_in.update(counted(keys.write_id[valid]))
        self._hidden.update(counted(keys.current[inside & ~valid]))
        self._rows_deleted += int(hit.sum())
        left = valid & ~hit
        for stripe, size, place in zip(stripes, sizes, places, strict=True):
            self._bytes_in += stripe.bytes * int(inside[place].sum()) // stripe.rows
            yield Run(stripe, np.flatnonzero(left[place]), keys[place].where(left[place]), size)


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

    def __init__(self, task: MergeTask, write_ids: ValidWriteIdList, tails: Mapping[str, Tail], check: Check) -> None:
        self._task = task
        self._write_ids = write_ids
        self._check = check
        self._sources = [open_source(file, tails.get(file.path)) for file in checked(task.inputs, check)]
        self._layout = common_layout(self._sources, task, check=check)
        self._events = 0

    def run(self) -> MergeResult:
        """Write the file and return the counts."""
        with OrcWriter(self._task.output, self._layout, durable=not self._task.is_part) as writer:
            file, size = self._add_to(writer)
        return MergeResult(
            output=self._task.output,
            delete_events_in=self._events,
            delete_events_out=file.events,
            bytes_in=sum(source.tail.size for source in self._sources),
            bytes_out=size,
            checksums=tuple(writer.checksums),
            forecast=self._forecast(writer, events=file.events),
        )

    def forecast(self) -> MergeForecast:
        """Encode the same without a file, and return what would be done."""
        draft = OrcDraft(self._layout)
        file, _ = self._add_to(draft)
        return self._forecast(draft, events=file.events)

    def _add_to(self, draft: OrcDraft) -> tuple[DeleteFile, int]:
        """Add all events to a file; return it, and its size in bytes."""
        file = DeleteFile(draft, self._layout.types)
        for events in self._own_events():
            file.add(events)
        return file, file.finish()

    def _own_events(self) -> Iterator[Keys]:
        """Yield the delete events of the task's bucket, in order."""
        task = self._task
        windows = delete_windows(self._sources, task.keys, self._write_ids, memory=task.memory, check=self._check)
        for _, window in windows:
            for events in window.slices(DELETES_PER_STRIPE):
                self._events += len(events)
                yield events.where(_bucket_of(events) == task.bucket)

    def _forecast(self, draft: OrcDraft, *, events: int) -> MergeForecast:
        return MergeForecast(
            files=len(self._sources),
            bytes_rewritten=draft.size,
            stripes_rewritten=len(draft.stripe_rows),
            columns_empty=len(draft.stripe_rows) * len(self._layout.types),
            values_rewritten=events * len(KEY_COLUMNS),
            delete_events=self._events,
        )


def _bucket_of(events: Keys) -> Integers:
    """Return the bucket of each event's row."""
    starts = changes(events.bucket)
    buckets = np.array([bucket_of_property(number) for number in events.bucket[starts].tolist()], np.int64)
    return np.repeat(buckets, np.diff(starts, append=len(events)))
