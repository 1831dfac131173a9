"""Row indexes: each row group is decoded from its recorded positions alone, and gives the values that were written."""

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compaction_operator.orc.encoding import codec
from compaction_operator.orc.encoding.rle import decode_bytes, decode_integers
from compaction_operator.orc.file import StripeReader, Tail, read_tail
from compaction_operator.orc.spec import Compression, Encoding, Kind, StreamKind
from tests.unit.orc.columns import BITS, STRINGS, TIMESTAMPS, arrays_of, layout, random_value, tree, write
from tests.unit.orc.groups import row_index
from tests.unit.orc.test_file_writer import EVERYTHING

STRIDE = 100
ROWS = 950
PER_ROW = {Kind.FLOAT: 4, Kind.DOUBLE: 8}


def below(types: Sequence[Any], column: int, found: Sequence[Any]) -> Iterator[tuple[int, list[Any]]]:
    """A column and all below it, each with the values (nulls too) that it has in some rows."""
    yield column, list(found)
    type_ = types[column]
    values = [value for value in found if value is not None]
    for number, child in enumerate(type_.subtypes):
        match type_.kind:
            case Kind.LIST:
                yield from below(types, child, [item for value in values for item in value])
            case Kind.MAP:
                label = ("key", "value")[number]
                yield from below(types, child, [item[label] for value in values for item in value])
            case Kind.UNION:
                yield from below(types, child, [value[str(number)] for value in values if value["tag"] == number])
            case _:
                yield from below(types, child, [value[str(number)] for value in values])


class Stream:
    """A stream of a stripe as a reader sees it that seeks: positions lead into its frames."""

    def __init__(self, raw: bytes, tail: Tail) -> None:
        self._raw = raw
        self._tail = tail
        self.plain = codec.decompress(raw, codec=tail.compression, block_size=tail.block_size)

    def offset(self, positions: list[int]) -> int:
        """Take a position off the list; return the plain offset that it means."""
        start = positions.pop(0)
        if self._tail.compression == Compression.NONE:
            return start
        rest = codec.decompress(self._raw[start:], codec=self._tail.compression, block_size=self._tail.block_size)
        return len(self.plain) - len(rest) + positions.pop(0)


def read_streams(path: Path, tail: Tail, stripe: StripeReader) -> dict[tuple[int, int], Stream]:
    start, streams = tail.footer.stripes[0].offset, {}
    for stream in stripe.footer.streams:
        raw = path.read_bytes()[start : start + stream.length]
        streams[stream.column, stream.kind] = Stream(raw, tail)
        start += stream.length
    return streams


class Column:
    """One column of a stripe, read a row group at a time."""

    def __init__(self, column: int, streams: dict[tuple[int, int], Stream], stripe: StripeReader) -> None:
        self._streams = {kind: stream for (of, kind), stream in streams.items() if of == column}
        index = row_index(stripe, column)
        self.statistics = [entry.statistics for entry in index.entry]
        self._positions = [list(entry.positions) for entry in index.entry]
        self.encoding = Encoding(stripe.footer.columns[column].kind)
        self.has_present = StreamKind.PRESENT in self._streams

    def slices(self, kind: StreamKind, *, skips: int) -> list[bytes]:
        """Take a stream's positions off all entries; return the bytes of each row group, which begin with a run."""
        stream = self._streams[kind]
        starts = [stream.offset(positions) for positions in self._positions]
        for positions in self._positions:
            assert [positions.pop(0) for _ in range(skips)] == [0] * skips
        return [stream.plain[start:end] for start, end in pairwise([*starts, len(stream.plain)])]

    def booleans(self, kind: StreamKind, counts: Sequence[int]) -> Iterator[list[bool]]:
        stream, total = self._streams[kind], -(-sum(counts) // 8)
        for number, (positions, count) in enumerate(zip(self._positions, counts, strict=True)):
            start = stream.offset(positions)
            skip, bit = positions.pop(0), positions.pop(0)
            first = sum(counts[:number]) // 8
            assert (skip, bit) == (0, sum(counts[:number]) % 8)
            bits = np.unpackbits(decode_bytes(stream.plain[start:], total - first))
            yield bits[bit : bit + count].astype(bool).tolist()

    def integers(self, kind: StreamKind, counts: Sequence[int], *, signed: bool) -> list[list[int]]:
        slices = self.slices(kind, skips=1)
        return [
            decode_integers(data, count, signed=signed, version=2).tolist()
            for data, count in zip(slices, counts, strict=True)
        ]

    def dictionary(self) -> list[bytes]:
        lengths = self._streams[StreamKind.LENGTH].plain
        words = self._streams[StreamKind.DICTIONARY_DATA].plain
        return [words, lengths]

    def assert_all_used(self) -> None:
        assert not any(self._positions)


def check(column: Column, kind: Kind, groups: Sequence[list[Any]], size: int) -> None:
    """Compare a column's row groups with the values they should have."""
    if column.has_present:
        present = column.booleans(StreamKind.PRESENT, [len(group) for group in groups])
        assert list(present) == [[value is not None for value in group] for group in groups]
    values = [[value for value in group if value is not None] for group in groups]
    assert [found.number_of_values for found in column.statistics] == [len(group) for group in values]
    counts = [len(group) for group in values]
    if kind is Kind.BOOLEAN:
        assert list(column.booleans(StreamKind.DATA, counts)) == values
    elif kind in (Kind.BYTE, Kind.UNION):
        slices = column.slices(StreamKind.DATA, skips=1)
        bytes_ = [decode_bytes(data, count).view(np.int8).tolist() for data, count in zip(slices, counts, strict=True)]
        assert bytes_ == ([[value["tag"] for value in group] for group in values] if kind is Kind.UNION else values)
    elif kind in BITS:
        assert column.integers(StreamKind.DATA, counts, signed=True) == values
    elif kind in PER_ROW:
        dtype = f"<f{PER_ROW[kind]}"
        slices = column.slices(StreamKind.DATA, skips=0)
        assert [np.frombuffer(data, dtype).tolist() for data in slices] == values
    elif kind in TIMESTAMPS:
        seconds = column.integers(StreamKind.DATA, counts, signed=True)
        assert seconds == [[value["seconds"] for value in group] for group in values]
        nanos = column.integers(StreamKind.SECONDARY, counts, signed=False)
        assert nanos == [[value["nanos"] for value in group] for group in values]
    elif kind is Kind.DECIMAL:
        slices = column.slices(StreamKind.DATA, skips=0)
        assert slices == [b"".join(value["value"] for value in group) for group in values]
        scales = column.integers(StreamKind.SECONDARY, counts, signed=True)
        assert scales == [[value["scale"] for value in group] for group in values]
    elif kind in (Kind.LIST, Kind.MAP):
        assert column.integers(StreamKind.LENGTH, counts, signed=False) == [list(map(len, group)) for group in values]
    elif kind in STRINGS and column.encoding is Encoding.DICTIONARY_V2:
        words, lengths = column.dictionary()
        ends = np.cumsum([0, *decode_integers(lengths, size, signed=False, version=2)])
        entries = [words[start:end] for start, end in pairwise(ends.tolist())]
        assert entries == sorted(set(entries))
        numbers = column.integers(StreamKind.DATA, counts, signed=False)
        assert [[entries[number] for number in group] for group in numbers] == values
    elif kind is not Kind.STRUCT:
        assert column.slices(StreamKind.DATA, skips=0) == [b"".join(group) for group in values]
        assert column.integers(StreamKind.LENGTH, counts, signed=False) == [list(map(len, group)) for group in values]
    column.assert_all_used()


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZLIB])
@pytest.mark.parametrize("block_size", [100, 65536])
def test_each_row_group_is_found_by_its_positions(tmp_path: Path, compression: Compression, block_size: int):
    types, source = tree(*EVERYTHING), random.Random(block_size)
    rows = [[random_value(shape, source) for shape in EVERYTHING] for _ in range(ROWS)]
    # row groups of nulls and of no list items, and a column that is never null
    for row in rows[2 * STRIDE : 4 * STRIDE]:
        row[:] = [None] * len(row)
    columns = arrays_of(types, rows)
    file = layout(types, compression=compression, block_size=block_size, row_index_stride=STRIDE)
    path = write(tmp_path / "file", file, columns)
    tail = read_tail(str(path))
    with path.open("rb") as opened:
        stripe = StripeReader(opened, tail, 0)
        streams = read_streams(path, tail, stripe)
        for top, array in columns.items():
            parts = [
                dict(below(types, top, array.slice(start, STRIDE).to_pylist())) for start in range(0, ROWS, STRIDE)
            ]
            for column in parts[0]:
                size = stripe.footer.columns[column].dictionary_size
                groups = [part[column] for part in parts]
                check(Column(column, streams, stripe), Kind(types[column].kind), groups, size)
