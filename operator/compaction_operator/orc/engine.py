"""The compaction engine on Arrow: reads events stripe by stripe, in the order of their keys, and writes them again."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from compaction_operator.acid.names import bucket_of_property
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc.errors import OrcError
from compaction_operator.orc.events import EventKind, InputFile, MergeResult, MergeTask
from compaction_operator.orc.keys import Integers, Keys, Mask, hit_by
from compaction_operator.orc.source import DELETE, INSERT, Source, open_source
from compaction_operator.orc.values import column_written_wrong
from compaction_operator.orc.writer import Layout, common_layout, output_file


@dataclass(frozen=True, slots=True)
class _Run:
    """One stripe's insert events that stay: which ones, and their keys."""

    source: Source
    stripe: int
    keep: Mask
    keys: Keys
    first: tuple[int, int, int]
    last: tuple[int, int, int]

    def events(self) -> pa.Table:
        """Read the events that stay; OrcError when Arrow could not write one of them back right."""
        table = self.source.events(self.stripe)
        if not self.keep.all():
            table = table.filter(pa.array(self.keep))
        column = column_written_wrong(table)
        if column:
            raise OrcError(
                self.source.path, f"column {column} has a fraction of a second before 1970-01-02, which cannot be kept"
            )
        return table


class ArrowEngine:
    """Decodes and encodes with pyarrow. In memory: the keys of all events, and the stripes that overlap."""

    def merge(self, task: MergeTask) -> MergeResult:
        """Write the task's output file, whole and flushed.

        Raises OrcError, and leaves no output, for a file that cannot be read or kept bit for bit, for two events
        with one key, and for an output that exists.
        """
        write_ids = ValidWriteIdList.parse(task.write_ids)
        return _merge_inserts(task, write_ids) if task.kind is EventKind.INSERT else _merge_deletes(task, write_ids)


def _merge_inserts(task: MergeTask, write_ids: ValidWriteIdList) -> MergeResult:
    sources = [open_source(file) for file in task.inputs]
    layout = _layout(sources, task)
    deletes = _read_deletes([open_source(file) for file in task.deletes], write_ids)
    rows_in: Counter[int] = Counter()
    runs = []
    for source in sources:
        for stripe in range(len(source.tail.stripe_rows)):
            keys, valid = source.keys(stripe, write_ids, operation=INSERT)
            rows_in.update(keys.count_by(keys.write_id[valid]))
            keep = valid & ~hit_by(keys, deletes)
            if keep.any():
                runs.append(_run(source, stripe, keep, keys[keep]))
    keys, size = _write_runs(task.output, layout, runs)
    return MergeResult(
        output=task.output,
        rows_in=rows_in.total(),
        rows_out=len(keys),
        delete_events_in=len(deletes),
        rows_deleted=rows_in.total() - len(keys),
        bytes_in=sum(source.tail.size for source in sources),
        bytes_out=size,
        rows_in_by_write_id=dict(rows_in),
        rows_out_by_write_id=keys.count_by(keys.write_id),
    )


def _layout(sources: Sequence[Source], task: MergeTask) -> Layout:
    """The inputs' layout; without inputs that of the files named for it."""
    models = sources or [open_source(InputFile(path)) for path in task.schema_from]
    return common_layout(models, output=task.output, same_rows=task.kind is EventKind.INSERT)


def _read_deletes(sources: Sequence[Source], write_ids: ValidWriteIdList) -> Keys:
    """All valid delete events, each once, sorted."""
    parts = []
    for source in sources:
        for stripe in range(len(source.tail.stripe_rows)):
            keys, valid = source.keys(stripe, write_ids, operation=DELETE)
            parts.append(keys[valid])
    return Keys.concatenate(parts).distinct()


def _run(source: Source, stripe: int, keep: Mask, keys: Keys) -> _Run:
    order = keys.order()
    return _Run(source, stripe, keep, keys, first=keys.row(order[0]), last=keys.row(order[-1]))


def _overlapping(runs: Sequence[_Run]) -> Iterator[list[_Run]]:
    """The runs in the order of their keys, those that overlap together."""
    group: list[_Run] = []
    for run in sorted(runs, key=lambda run: run.first):
        if group and run.first > max(member.last for member in group):
            yield group
            group = []
        group.append(run)
    if group:
        yield group


def _write_runs(output: str, layout: Layout, runs: Sequence[_Run]) -> tuple[Keys, int]:
    """Write the events of all runs sorted by key; return the keys as written and the file's size."""
    written = []
    with output_file(output, layout) as file:
        for group in _overlapping(runs):
            keys = Keys.concatenate([run.keys for run in group])
            table = pa.concat_tables([run.events() for run in group])
            order = keys.order()
            if keys.first_not_ascending() is not None:
                keys, table = keys[order], table.take(pa.array(order))
            _check_unique(keys, group)
            file.write(table)
            written.append(keys)
        all_keys = Keys.concatenate(written)
        size = file.finish(all_keys, EventKind.INSERT)
    return all_keys, size


def _check_unique(keys: Keys, group: Sequence[_Run]) -> None:
    again = np.flatnonzero(keys.same_row_as_previous())
    if len(again):
        key = keys.row(int(again[0]))
        raise OrcError(group[-1].source.path, f"column rowId: more than one row has the ROW__ID {key}")


def _merge_deletes(task: MergeTask, write_ids: ValidWriteIdList) -> MergeResult:
    sources = [open_source(file) for file in task.inputs]
    layout = _layout(sources, task)
    events = _read_deletes(sources, write_ids)
    keys = events[_bucket_of(events) == task.bucket]
    with output_file(task.output, layout) as file:
        file.write(_delete_events(keys, layout))
        size = file.finish(keys, EventKind.DELETE)
    return MergeResult(
        output=task.output,
        delete_events_in=len(events),
        delete_events_out=len(keys),
        bytes_in=sum(source.tail.size for source in sources),
        bytes_out=size,
    )


def _bucket_of(events: Keys) -> Integers:
    """The bucket of each event's row."""
    properties, which = np.unique(events.bucket, return_inverse=True)
    buckets = np.array([bucket_of_property(number) for number in properties.tolist()], np.int64)
    return buckets[which]


def _delete_events(keys: Keys, layout: Layout) -> pa.Table:
    columns = [np.full(len(keys), DELETE), keys.write_id, keys.bucket, keys.row_id, keys.current]
    fields = list(layout.arrow_schema)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, fields[:-1], strict=True)]
    return pa.Table.from_arrays([*arrays, pa.nulls(len(keys), type=fields[-1].type)], schema=layout.arrow_schema)
