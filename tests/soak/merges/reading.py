"""What is in an output: its events, and for each row group, stripe and file whether the statistics are right."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from compaction_operator.orc.encoding import bloom_columns, bloom_filter, fpp_of
from compaction_operator.orc.file import StripeReader, Tail, read_tail, stripe_statistics
from compaction_operator.orc.merge.source import DELETE, INSERT
from compaction_operator.orc.spec import Kind
from tests.soak.merges.statistics import statistics_problem
from tests.soak.merges.tables import Event
from tests.unit.orc.groups import columns_below, row_index


class Wrong(AssertionError):  # noqa: N818 - a verdict
    """An output does not hold what it must."""


def read_events(path: Path) -> list[Event]:
    """Return the events of a file, and check all its statistics and Bloom filters. Raises Wrong."""
    tail = read_tail(str(path))
    events: list[Event] = []
    roots = []
    with path.open("rb") as file:
        for index in range(len(tail.footer.stripes)):
            reader = StripeReader(file, tail, index)
            roots.append(root := reader.column(0))
            _check_groups(tail, reader, root)
            _check(tail, f"stripe {index}", root, stripe_statistics(tail, index).column_stats)
            events += _events_of(root)
    if roots:
        _check(tail, "the file", pa.concat_arrays(roots), tail.footer.statistics)
    return events


def _check_groups(tail: Tail, reader: StripeReader, root: pa.Array) -> None:
    stride = int(tail.footer.row_index_stride)
    indexes = [row_index(reader, column).entry for column in range(len(tail.types))]
    for number, start in enumerate(range(0, len(root), stride)):
        group = root.slice(start, stride)
        _check(tail, f"row group {number}", group, [index[number].statistics for index in indexes])
        _check_filters(tail, reader, number, group)


def _check(tail: Tail, what: str, root: pa.Array, statistics: Any) -> None:
    for column, array in columns_below(tail.types, 0, root):
        if problem := statistics_problem(Kind(tail.types[column].kind), array, statistics[column]):
            raise Wrong(f"{tail.path}: column {column} of {what}: {problem}")


def _check_filters(tail: Tail, reader: StripeReader, number: int, group: pa.Array) -> None:
    """A filter of a number of rows must have the bits of all values, however likely it errs on others."""
    filtered, stride = bloom_columns(reader.footer), int(tail.footer.row_index_stride)
    for column, array in columns_below(tail.types, 0, group) if filtered else ():
        if column in filtered:
            found = reader.bloom_filters(column)[number]
            kind, fpp = Kind(tail.types[column].kind), fpp_of(found, expected_entries=stride)
            if bloom_filter(kind, array, fpp=fpp, expected_entries=stride) != found:
                raise Wrong(f"{tail.path}: column {column} of row group {number} has another Bloom filter")


def _events_of(root: pa.Array) -> Iterator[Event]:
    operations, write_ids, buckets, row_ids, current, rows = (field.to_pylist() for field in root.flatten())
    keys = zip(write_ids, buckets, row_ids, strict=True)
    for operation, key, now, row in zip(operations, keys, current, rows, strict=True):
        if operation != (DELETE if row is None else INSERT):
            raise Wrong(f"operation {operation} of the row {row}")
        yield Event(key, now, () if row is None else tuple(row.values()))
