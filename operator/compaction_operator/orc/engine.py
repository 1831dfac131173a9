"""The compaction engine: merges the events of one bucket in the order of their keys."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from compaction_operator.acid.names import bucket_of_property
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc.events import EventKind, InputFile, KeyRange, MergeResult, MergeTask
from compaction_operator.orc.keys import Integers, Keys, hit_by, in_range, touched_by, valid_write_ids
from compaction_operator.orc.layout import common_layout
from compaction_operator.orc.output import InsertFile, Run, write_deletes
from compaction_operator.orc.source import DELETE, INSERT, Stripe, open_source
from compaction_operator.orc.stripe_copy import can_copy

COPY_BYTES = 2 * 1024 * 1024
COPY_ROWS = 50_000
"""A stripe of at least that many bytes or rows is copied where it may be; smaller ones are merged into larger ones."""


class StripeEngine:
    """Decodes what must change, a column of an output stripe at a time, and copies the stripes that need not."""

    def merge(self, task: MergeTask) -> MergeResult:
        """Write the task's output file, whole and flushed.

        Raises OrcError, and leaves no output, for a file that cannot be read or kept bit for bit, for two events
        with one key, and for an output that exists.
        """
        write_ids = ValidWriteIdList.parse(task.write_ids)
        return _Merge(task, write_ids).run() if task.kind is EventKind.INSERT else _merge_deletes(task, write_ids)


class _Merge:
    """One INSERT task under way."""

    def __init__(self, task: MergeTask, write_ids: ValidWriteIdList) -> None:
        self._task = task
        self._write_ids = write_ids
        self._sources = [open_source(file) for file in task.inputs]
        self._layout = common_layout(self._sources, task)
        self._columns = {source.path: source.columns(self._layout.types) for source in self._sources}
        self._deletes = _read_deletes(task, task.deletes, write_ids)
        self._rows_in: Counter[int] = Counter()
        self._bytes_in = 0

    def run(self) -> MergeResult:
        stripes = [_bounded(stripe) for source in self._sources for stripe in source.stripes() if stripe.rows]
        touched = [stripe for stripe in stripes if stripe.touches(self._task.keys)]
        with InsertFile(self._task.output, self._layout, self._columns, memory=self._task.memory) as file:
            for group in _overlapping(touched):
                if not (len(group) == 1 and self._copied(group[0], file)):
                    self._merge(group, file)
            size = file.finish()
        rows_in = self._rows_in.total()
        return MergeResult(
            output=self._task.output,
            rows_in=rows_in,
            rows_out=file.rows.total(),
            delete_events_in=len(self._deletes),
            rows_deleted=rows_in - file.rows.total(),
            bytes_in=self._bytes_in,
            bytes_out=size,
            bytes_copied=file.bytes_copied,
            rows_in_by_write_id=dict(self._rows_in),
            rows_out_by_write_id=dict(file.rows),
        )

    def _copied(self, stripe: Stripe, file: InsertFile) -> bool:
        """Copy a stripe if its statistics and the key index prove that all its rows stay."""
        if not self._may_copy(stripe) or touched_by(self._deletes, *stripe.bounds):
            return False
        if not stripe.all_valid(self._write_ids, operation=INSERT):
            return False
        counts = stripe.count_by_write_id()
        self._count(stripe, counts, stripe.rows)
        file.copy(stripe, counts)
        return True

    def _may_copy(self, stripe: Stripe) -> bool:
        large = stripe.bytes >= COPY_BYTES or stripe.rows >= COPY_ROWS
        whole = large and stripe.source.file.original is None and stripe.lies_in(self._task.keys)
        return whole and can_copy(stripe.source.tail, stripe.index, self._layout)

    def _count(self, stripe: Stripe, counts: dict[int, int], rows: int) -> None:
        self._rows_in.update(counts)
        self._bytes_in += stripe.bytes * rows // stripe.rows

    def _merge(self, group: Sequence[Stripe], file: InsertFile) -> None:
        runs = [run for stripe in group if len((run := self._run(stripe)).rows)]
        if len(runs) == 1 and len(group) == 1 and len(runs[0].rows) == group[0].rows and self._may_copy(group[0]):
            file.copy(group[0], runs[0].keys.count_by(runs[0].keys.write_id))
        elif runs:
            file.add(runs)

    def _run(self, stripe: Stripe) -> Run:
        """Read the keys of a stripe and return the rows that stay."""
        with stripe.open() as opened:
            keys = opened.keys(operation=INSERT)
        inside = in_range(keys, self._task.keys)
        valid = inside & valid_write_ids(keys.current, self._write_ids)
        self._count(stripe, keys.count_by(keys.write_id[valid]), int(inside.sum()))
        rows = np.flatnonzero(valid & ~hit_by(keys, self._deletes))
        return Run(stripe, rows, keys[rows])


def _bounded(stripe: Stripe) -> Stripe:
    """The stripe with both bounds known; where its file does not tell them, they are read."""
    if stripe.low is not None and stripe.high is not None:
        return stripe
    with stripe.open() as opened:
        return opened.bounded()


def _overlapping(stripes: Sequence[Stripe]) -> Iterator[list[Stripe]]:
    """The stripes in the order of their keys, those that overlap together."""
    group: list[Stripe] = []
    for stripe in sorted(stripes, key=lambda stripe: stripe.bounds):
        if group and stripe.bounds[0] > max(member.bounds[1] for member in group):
            yield group
            group = []
        group.append(stripe)
    if group:
        yield group


def _read_deletes(task: MergeTask, files: Sequence[InputFile], write_ids: ValidWriteIdList) -> Keys:
    """All valid delete events of the task's key range, each once, sorted."""
    parts = []
    for file in files:
        for stripe in open_source(file).stripes():
            if stripe.rows and stripe.touches(task.keys):
                parts.append(_events(stripe, task.keys, write_ids))
    return Keys.concatenate(parts).distinct()


def _events(stripe: Stripe, range_: KeyRange, write_ids: ValidWriteIdList) -> Keys:
    with stripe.open() as opened:
        keys = opened.keys(operation=DELETE)
    return keys[in_range(keys, range_) & valid_write_ids(keys.current, write_ids)]


def _merge_deletes(task: MergeTask, write_ids: ValidWriteIdList) -> MergeResult:
    sources = [open_source(file) for file in task.inputs]
    layout = common_layout(sources, task)
    events = _read_deletes(task, task.inputs, write_ids)
    keys = events[_bucket_of(events) == task.bucket]
    return MergeResult(
        output=task.output,
        delete_events_in=len(events),
        delete_events_out=len(keys),
        bytes_in=sum(source.tail.size for source in sources),
        bytes_out=write_deletes(task.output, layout, keys),
    )


def _bucket_of(events: Keys) -> Integers:
    """The bucket of each event's row."""
    properties, which = np.unique(events.bucket, return_inverse=True)
    buckets = np.array([bucket_of_property(number) for number in properties.tolist()], np.int64)
    return buckets[which]
