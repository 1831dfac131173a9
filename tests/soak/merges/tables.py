"""Random buckets of an ACID table: files of rows and of delete events, and which rows are in them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc import EventKind, InputFile, MergeTask, RowId, kernels
from compaction_operator.orc.file import OrcWriter, StripeLayout
from compaction_operator.orc.merge.bucket_metadata import KEY_INDEX, acid_metadata
from compaction_operator.orc.merge.source import DELETE, INSERT, OPERATION
from compaction_operator.orc.spec import Compression, physical_type, schema
from tests.soak.merges.values import random_rows, random_shapes
from tests.unit.orc.build import BUCKET_0
from tests.unit.orc.columns import Shape, tree

_CODECS = [Compression.ZLIB, Compression.ZLIB, Compression.SNAPPY, Compression.NONE, Compression.ZSTD]


@dataclass(frozen=True, order=True)
class Event:
    """A row or a delete event: its ROW__ID, its currentTransaction, and the physical values of the row."""

    key: RowId
    current: int
    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Table:
    """One bucket: its files as they lie in the folder, what is in them, and at which keys it is cut into tasks."""

    folder: Path
    layout: StripeLayout
    inputs: tuple[InputFile, ...]
    deletes: tuple[InputFile, ...]
    rows: tuple[Event, ...]
    delete_events: tuple[Event, ...]
    write_ids: ValidWriteIdList
    cuts: tuple[RowId, ...]

    def expected_rows(self) -> list[Event]:
        """Return the rows that a major compaction must keep, in order: one event after the other, by Hive's rules."""
        gone = {event.key for event in self.delete_events if self.write_ids.is_valid(event.current)}
        kept = [row for row in self.rows if self.write_ids.is_valid(row.current) and row.key not in gone]
        return sorted(kept, key=lambda row: row.key)

    def expected_deletes(self) -> list[Event]:
        """Return the delete events that a minor compaction must keep: each once, of one row the newest first."""
        valid = {event for event in self.delete_events if self.write_ids.is_valid(event.current)}
        return sorted(valid, key=lambda event: (event.key, -event.current))

    def task(self, kind: EventKind, output: Path) -> MergeTask:
        """Return the task that merges its rows, or its delete events."""
        common = MergeTask(kind=kind, bucket=0, inputs=(), write_ids=str(self.write_ids), output=str(output))
        if kind is EventKind.DELETE:
            return replace(common, inputs=self.deletes)
        return replace(common, inputs=self.inputs, deletes=self.deletes)


def random_table(random: Random, folder: Path) -> Table:
    """Write the files of a random bucket into a folder, without the compiled kernels."""
    shapes = random_shapes(random)
    counts = [random.choice([1, 2, 30, 300]) for _ in range(random.randint(1, 8))]
    if random.random() < 0.04:  # more than a row group; few, because each takes seconds
        counts[0], shapes = 11_000, shapes[:1]
    deltas = [_delta(random, shapes, count, write_id) for write_id, count in enumerate(counts, 1)]
    layout = _layout(random, shapes)
    rows = [row for delta in deltas for row in delta]
    random.shuffle(mixed := [events for delta in deltas for events in _files_of(random, delta)])
    events = [_delete_events(random, rows, len(deltas) + 1 + number) for number in range(random.randint(0, 3))]
    with patch.object(kernels, "compiled", None):
        inputs = [_written(random, folder / f"rows{number}", layout, mixed[number]) for number in range(len(mixed))]
        deletes = [_written(random, folder / f"deletes{n}", layout, events[n], DELETE) for n in range(len(events))]
    return Table(
        folder=folder,
        layout=layout,
        inputs=tuple(inputs),
        deletes=tuple(deletes),
        rows=tuple(rows),
        delete_events=tuple(event for file in events for event in file),
        write_ids=_write_ids(random, len(deltas) + len(events)),
        cuts=tuple(sorted(random.choice(rows).key for _ in range(random.choice([0, 0, 1, 3])))),
    )


def _layout(random: Random, shapes: Sequence[Shape]) -> StripeLayout:
    types = schema.acid_tree(tree(*shapes))
    filtered = types[schema.ROW_ID].subtypes if random.random() < 0.3 else ()
    return StripeLayout(
        types=types,
        compression=random.choice(_CODECS),
        block_size=random.choice([65536, 262144]),
        calendar=0,
        bloom_filters=dict.fromkeys(filtered, 0.05),
    )


def _delta(random: Random, shapes: Sequence[Shape], count: int, write_id: int) -> list[Event]:
    """Return the rows of a write, by one statement or two; there may be gaps, and some may have come later."""
    gap = random.choice([1, 1, 1, 3])
    later = random.choice([0, 0, 0, 1])
    keys = [(write_id, BUCKET_0 | number * 2 // count, number * gap) for number in range(count)]
    rows = zip(keys, random_rows(shapes, count, random), strict=True)
    return [Event(key, write_id + later * random.randint(0, 1), values) for key, values in rows]


def _files_of(random: Random, delta: list[Event]) -> list[list[Event]]:
    """Return a delta as a file, or as two files whose keys interleave."""
    if random.random() < 0.8:
        return [delta]
    first = {row.key for row in delta if random.random() < 0.5}
    parts = [[row for row in delta if (row.key in first) == one] for one in (True, False)]
    return [part for part in parts if part]


def _delete_events(random: Random, rows: Sequence[Event], write_id: int) -> list[Event]:
    """Return the delete events of a write: spread, side by side, of all rows, or of rows that there never were."""
    share = random.choice([0.01, 0.1, 0.5, 1.0])
    start = random.randrange(len(rows))
    spread = [row.key for row in rows if random.random() < share]
    keys = random.choice([spread, [row.key for row in rows[start : start + int(len(rows) * share) + 1]]])
    never = [(write_id, BUCKET_0, number) for number in range(random.choice([0, 0, 2]))]
    return [Event(key, write_id) for key in sorted([*keys, *never]) or [rows[0].key]]


def _write_ids(random: Random, last: int) -> ValidWriteIdList:
    states = {number: random.choices("coa", [8, 1, 1])[0] for number in range(1, last + 1)}
    open_, aborted = (frozenset(number for number, state in states.items() if state == one) for one in "oa")
    return ValidWriteIdList(last, open_, aborted, min(open_, default=None), table="d.t")


def _written(
    random: Random, path: Path, layout: StripeLayout, events: Sequence[Event], operation: int = INSERT
) -> InputFile:
    """Write a file of several stripes; now and then it has no index of its keys, as old Hive wrote it."""
    lasts: list[RowId] = []
    with OrcWriter(str(path), layout) as writer:
        for stripe in _stripes(random, events):
            lasts.append(stripe[-1].key)
            with writer.stripe(len(stripe)) as builder:
                for column, values in enumerate(_key_columns(stripe, operation), OPERATION):
                    builder.add(column, pa.array(values, pa.int64()))
                builder.add(schema.ROW_ID, _values(layout, stripe, operation))
        inserts, deletes = (len(events), 0) if operation == INSERT else (0, len(events))
        metadata = acid_metadata(lasts, inserts=inserts, deletes=deletes)
        if random.random() < 0.15:
            del metadata[KEY_INDEX]
        writer.finish(metadata)
    return InputFile(str(path))


def _stripes(random: Random, events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    cuts = sorted({random.randrange(len(events)) for _ in range(random.choice([0, 0, 1, 3]))} - {0})
    for start, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        yield events[start:end]


def _key_columns(events: Sequence[Event], operation: int) -> Iterator[list[int]]:
    yield [operation] * len(events)
    yield from (list(column) for column in zip(*(event.key for event in events), strict=True))
    yield [event.current for event in events]


def _values(layout: StripeLayout, events: Sequence[Event], operation: int) -> pa.Array:
    type_ = physical_type(layout.types, schema.ROW_ID)
    if operation == DELETE:
        return pa.nulls(len(events), type_)
    columns = zip(*(event.values for event in events), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, type_, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(type_))
