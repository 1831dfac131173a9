"""Builds a new stripe column by column: compressed streams, row index, Bloom filters, statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from compaction_operator.orc.encoding import (
    UTF8_UTC,
    CompressedStream,
    EncodedColumn,
    PlainStream,
    bloom_filter,
    compress,
    encode_column,
    encode_node,
)
from compaction_operator.orc.file.statistics import column_statistics, merge
from compaction_operator.orc.spec import TEXTS, WORDS, Compression, Kind, StreamKind, physical_type, without_words
from compaction_operator.orc.spec.messages import BloomFilterIndex, ColumnEncoding, RowIndex


@dataclass(frozen=True, slots=True)
class StripeLayout:
    """The layout of a file: type tree, codec, largest frame in plain bytes, calendar (as in the footer; 0 if unset),
    Bloom filters (false positive probability by column id) and the rows of a row group."""

    types: Sequence[Any]
    compression: Compression
    block_size: int
    calendar: int
    bloom_filters: Mapping[int, float]
    row_index_stride: int = 10_000

    def compress(self, data: Any) -> CompressedStream:
        """Return a stream or section as the file stores it; `data` has the buffer protocol."""
        return compress(data, codec=self.compression, block_size=self.block_size)


@dataclass(frozen=True, slots=True)
class StoredStream:
    """A stream: its entry in the stripe footer, and its stored bytes."""

    kind: StreamKind
    column: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """One column without its children, ready to write; `encoding` and `statistics` are ORC messages."""

    encoding: Any
    index: list[StoredStream]
    data: list[StoredStream]
    statistics: Any


class StripeBuilder:
    """A stripe under construction; it compresses each stream at once and keeps the result in `columns`."""

    def __init__(self, rows: int, layout: StripeLayout) -> None:
        self._rows = rows
        self._layout = layout
        # a stripe without rows has one empty row group, so that its columns still have statistics of their type
        self._groups = np.array([*range(0, max(rows, 1), layout.row_index_stride), rows], np.int64)
        self.columns: list[StoredColumn] = []

    def add(self, column: int, array: pa.Array) -> list[StoredColumn]:
        """Add a column with its descendants, and return them; `array` has one value per row.

        It has the column's `physical_type`, or is `WORDS`. Columns must come in the order of their ids. A skipped
        struct is added without nulls. Raises ValueError for a column out of order, for another length or type, and for
        a skipped column that is not a struct.
        """
        self._imply_structs(column)
        added = self.encoded(column, array)
        self.columns += added
        return added

    def encoded(self, column: int, array: pa.Array) -> list[StoredColumn]:
        """Return what `add` would add, in whatever order. Raises ValueError for another length or type."""
        expected = physical_type(self._layout.types, column)
        fits = array.type == expected or (array.type == WORDS and self._layout.types[column].kind in TEXTS)
        if len(array) != self._rows or not fits:
            raise ValueError(f"column {column}: {len(array)} values of {array.type}, not {self._rows} of {expected}")
        columns = encode_column(self._layout.types, column, array, row_groups=self._groups)
        return [self._stored(encoded) for encoded in columns]

    def complete(self) -> None:
        """Finish the columns; raise ValueError if a column that is not a struct was skipped."""
        self._imply_structs(len(self._layout.types))

    def _imply_structs(self, column: int) -> None:
        if column < len(self.columns):
            raise ValueError(f"column {column} is out of order")
        for skipped in range(len(self.columns), column):
            if self._layout.types[skipped].kind != Kind.STRUCT:
                raise ValueError(f"column {skipped} has no values")
            never_null = pa.Array.from_buffers(pa.struct([]), self._rows, [None])
            encoded = encode_node(self._layout.types, skipped, never_null, row_groups=self._groups)
            self.columns.append(self._stored(encoded))

    def _stored(self, encoded: EncodedColumn) -> StoredColumn:
        """Compress the streams of a column and build its row index, Bloom filters and statistics."""
        column = encoded.column
        streams = [(stream, self._layout.compress(stream.data)) for stream in encoded.streams]
        slices = [encoded.array.slice(start, end - start) for start, end in pairwise(encoded.groups.tolist())]
        statistics = [column_statistics(self._layout.types, column, values) for values in slices]
        encoding = ColumnEncoding(kind=encoded.encoding, dictionary_size=encoded.dictionary_size or None)
        index = [self._message(StreamKind.ROW_INDEX, column, _row_index(streams, statistics))]
        if column in self._layout.bloom_filters:
            index.append(self._message(StreamKind.BLOOM_FILTER_UTF8, column, self._bloom_filters(column, slices)))
            encoding.bloom_encoding = UTF8_UTC
        data = [StoredStream(stream.kind, column, stored.data) for stream, stored in streams]
        return StoredColumn(encoding, index, sorted(data, key=lambda stored: stored.kind), merge(statistics))

    def _message(self, kind: StreamKind, column: int, message: Any) -> StoredStream:
        return StoredStream(kind, column, self._layout.compress(message.SerializeToString()).data)

    def _bloom_filters(self, column: int, slices: Sequence[pa.Array]) -> Any:
        kind, fpp = Kind(self._layout.types[column].kind), self._layout.bloom_filters[column]
        stride = self._layout.row_index_stride
        return BloomFilterIndex(
            bloom_filter=[
                bloom_filter(kind, without_words(values), fpp=fpp, expected_entries=stride) for values in slices
            ]
        )


def _row_index(streams: Sequence[tuple[PlainStream, CompressedStream]], statistics: Sequence[Any]) -> Any:
    """Return a column's row index: the streams' positions per row group (ORC specification, "Row Group Index")."""
    index = RowIndex()
    for group, found in enumerate(statistics):
        entry = index.entry.add(statistics=found)
        for plain, stored in streams:
            if plain.positions is not None:
                offset, *rest = plain.positions[group]
                entry.positions.extend((*stored.position(offset), *rest))
    return index
