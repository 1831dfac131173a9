"""A column as a stripe stores it: compressed streams, row index, Bloom filters, statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from compaction_operator.orc.encoding.bloom import UTF8_UTC, bloom_filter
from compaction_operator.orc.encoding.compress import CompressedStream, compress
from compaction_operator.orc.encoding.encode import EncodedColumn, PlainStream
from compaction_operator.orc.file.statistics import column_statistics, merge
from compaction_operator.orc.spec.messages import (
    BloomFilterIndex,
    ColumnEncoding,
    Compression,
    Kind,
    RowIndex,
    StreamKind,
)


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


@dataclass(frozen=True, slots=True)
class ColumnStore:
    """The storage settings of a file; `bloom_filters` maps column ids to false positive probabilities."""

    types: Sequence[Any]
    codec: Compression
    block_size: int
    bloom_filters: Mapping[int, float]
    row_index_stride: int

    def store(self, encoded: EncodedColumn) -> StoredColumn:
        """Compress the streams of a column and build its row index, Bloom filters and statistics."""
        column = encoded.column
        streams = [(stream, self._compress(stream.data)) for stream in encoded.streams]
        slices = [encoded.array.slice(start, end - start) for start, end in pairwise(encoded.groups.tolist())]
        statistics = [column_statistics(self.types, column, values) for values in slices]
        encoding = ColumnEncoding(kind=encoded.encoding, dictionary_size=encoded.dictionary_size or None)
        index = [self._message(StreamKind.ROW_INDEX, column, _row_index(streams, statistics))]
        if column in self.bloom_filters:
            index.append(self._message(StreamKind.BLOOM_FILTER_UTF8, column, self._bloom_filters(column, slices)))
            encoding.bloom_encoding = UTF8_UTC
        data = [StoredStream(stream.kind, column, stored.data) for stream, stored in streams]
        return StoredColumn(encoding, index, sorted(data, key=lambda stored: stored.kind), merge(statistics))

    def _compress(self, data: bytes | pa.Buffer) -> CompressedStream:
        return compress(data, codec=self.codec, block_size=self.block_size)

    def _message(self, kind: StreamKind, column: int, message: Any) -> StoredStream:
        return StoredStream(kind, column, self._compress(message.SerializeToString()).data)

    def _bloom_filters(self, column: int, slices: Sequence[pa.Array]) -> Any:
        kind, fpp = Kind(self.types[column].kind), self.bloom_filters[column]
        filters = [bloom_filter(kind, values, fpp=fpp, expected_entries=self.row_index_stride) for values in slices]
        return BloomFilterIndex(bloom_filter=filters)


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
