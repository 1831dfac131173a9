"""Whether the timestamps of a file fit into 64-bit nanoseconds, which is all that Arrow has.

Arrow's reader wraps what does not fit without a word, so it is asked before any row is read: of the file's
statistics, or, where a writer left none (Hive 3's minor compaction), of the seconds themselves.
"""

import io
import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po

from compaction_operator.orc.messages import Kind
from compaction_operator.orc.schema import column_names, timestamp_columns
from compaction_operator.orc.tail import Tail, encode_with_types

_DAY_MILLIS = 86_400_000
# a day's margin: statistics and streams count from midnight of the writer's time zone
_LIMIT_MILLIS = 2**63 // 1_000_000 - _DAY_MILLIS
_ORC_EPOCH_SECONDS = 1_420_070_400


def column_out_of_range(tail: Tail) -> str | None:
    """Return the name of a timestamp column with a value outside 1677 to 2262, or None.

    Raises an Arrow error or OSError when the file cannot be read.
    """
    columns = timestamp_columns(tail.types)
    if not columns or not tail.rows:
        return None
    bounds = _bounds_from_statistics(tail, columns)
    if bounds is None:
        bounds = _bounds_from_streams(tail, columns)
    names = column_names(tail.types)
    outside = (column for column, (low, high) in bounds.items() if low < -_LIMIT_MILLIS or high > _LIMIT_MILLIS)
    return next((names[column] for column in outside), None)


def _bounds_from_statistics(tail: Tail, columns: list[int]) -> dict[int, tuple[int, int]] | None:
    """Lowest and highest milliseconds of the columns that have values; None when the statistics do not say."""
    statistics = tail.footer.statistics
    if len(statistics) != len(tail.types) or statistics[0].number_of_values != tail.rows:
        return None
    bounds = {}
    for column in columns:
        if not statistics[column].number_of_values:
            continue
        extremes = _extremes(statistics[column].timestamp_statistics)
        if extremes is None:
            return None
        bounds[column] = extremes
    return bounds


def _extremes(statistics: Any) -> tuple[int, int] | None:
    for low, high in (("minimum_utc", "maximum_utc"), ("minimum", "maximum")):
        if statistics.HasField(low) and statistics.HasField(high):
            return getattr(statistics, low), getattr(statistics, high)
    return None


def _bounds_from_streams(tail: Tail, columns: list[int]) -> dict[int, tuple[int, int]]:
    """Read the timestamps as bigint: their first stream is the signed seconds since 2015 (ORC specification)."""
    types = [_as_long(type_) for type_ in tail.types]
    root = types[0]
    bounds: dict[int, tuple[int, int]] = {}
    with _WithOtherTail(tail, encode_with_types(tail, types)) as file:
        orc = po.ORCFile(pa.PythonFile(file, "r"))
        for stripe in range(orc.nstripes):
            batch = orc.read_stripe(stripe)
            for child, array in zip(root.subtypes, batch.columns, strict=True):
                for column, values in _leaves(array, types, child):
                    if column in columns and len(values) > values.null_count:
                        bounds[column] = _widened(bounds.get(column), values)
    return bounds


def _as_long(type_: Any) -> Any:
    copy = type(type_)()
    copy.CopyFrom(type_)
    if type_.kind in {Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT}:
        copy.kind = Kind.LONG
    return copy


def _leaves(array: pa.Array, types: list[Any], column: int) -> Iterator[tuple[int, pa.Array]]:
    """The arrays of the primitive columns at and below a column, by column id."""
    type_ = types[column]
    match type_.kind:
        case Kind.STRUCT:
            parts = array.flatten()
        case Kind.LIST:
            parts = [array.flatten()]
        case Kind.MAP:
            parts = [array.keys, array.items]
        case _:
            yield column, array
            return
    for part, child in zip(parts, type_.subtypes, strict=True):
        yield from _leaves(part, types, child)


def _widened(bounds: tuple[int, int] | None, values: pa.Array) -> tuple[int, int]:
    found = pc.min_max(values).as_py()
    low, high = ((found[name] + _ORC_EPOCH_SECONDS) * 1000 for name in ("min", "max"))
    return (low, high) if bounds is None else (min(low, bounds[0]), max(high, bounds[1]))


class _WithOtherTail(io.RawIOBase):
    """A file as it would be with another tail, read only."""

    def __init__(self, tail: Tail, replacement: bytes) -> None:
        super().__init__()
        self._file = io.FileIO(tail.path)
        self._content_end = tail.content_end
        self._replacement = replacement
        self._position = 0

    def close(self) -> None:
        self._file.close()
        super().close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        end = self._content_end + len(self._replacement)
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: end}[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._content_end + len(self._replacement)
        stop = end if size < 0 else min(end, self._position + size)
        self._file.seek(self._position)
        content = self._file.read(max(0, min(stop, self._content_end) - self._position))
        start = max(0, self._position - self._content_end)
        rest = self._replacement[start : max(start, stop - self._content_end)]
        self._position = max(self._position, stop)
        return content + rest
