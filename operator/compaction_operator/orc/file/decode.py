"""Reads stripes of files: their footers, the places of their streams, and their decoded columns."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import groupby
from typing import Any, BinaryIO

import pyarrow as pa
from google.protobuf.message import DecodeError

from compaction_operator.orc.encoding import (
    IntegerRuns,
    StripeStreams,
    alike_in,
    column_blocks,
    column_runs,
    decode_column,
    decompress,
    present_rows,
)
from compaction_operator.orc.file.tail import Tail
from compaction_operator.orc.spec import Integers, OrcError, StreamKind, concatenated
from compaction_operator.orc.spec.messages import BloomFilterIndex, StripeFooter

_BLOOM_FILTERS = (StreamKind.BLOOM_FILTER_UTF8, StreamKind.BLOOM_FILTER)
_INDEXES = frozenset({StreamKind.ROW_INDEX, *_BLOOM_FILTERS})

_TOGETHER = 1 << 20
"""Most bytes of a column's streams that are read at once."""


class StripeReader:
    """The columns of one stripe, each read and decoded on demand.

    `rows` is the number of rows, `footer` the StripeFooter message. The constructor raises OrcError for a damaged
    footer, an encrypted stripe, or an invalid type tree. `whole` are the stripe's bytes if they were read already: then
    the file may be closed.
    """

    def __init__(self, file: BinaryIO, tail: Tail, index: int, *, whole: bytes | None = None) -> None:
        self._file = file
        self._tail = tail
        self._index = index
        self._types = tail.types
        self._codec, self._block_size = tail.compression, tail.block_size
        self._never_null: set[int] = set()
        information = tail.footer.stripes[index]
        self._is_whole = whole is not None
        self._read_ahead = (int(information.offset), whole or b"")
        self.rows = int(information.number_of_rows)
        with self._errors("its footer"):
            self.footer = self._read_footer()
            self._streams = self._locate_streams()

    @property
    def _decodable(self) -> StripeStreams:
        """What decodes columns. NB: kept, it would refer back to the reader, and only the collector would free both."""
        return StripeStreams(self._types, self.footer.columns, self.footer.writer_timezone, self._stream)

    def column(self, column: int, *, words: bool = False) -> pa.Array:
        """Return a column with its descendants, in its `physical_type` and with one value per row.

        With `words`, text that has a dictionary is `WORDS`.
        Every ancestor of the column must be a struct without nulls. Raises OrcError if one is not, for damaged
        streams, and for values that might not survive.
        """
        with self._decoding(column):
            return decode_column([self._decodable], column, [self.rows], words=words)

    def decodable(self, column: int) -> StripeStreams:
        """Return what decodes a column. Raises ValueError if an ancestor is not a struct, or null in some row."""
        self._check_ancestors(column)
        return self._decodable

    def integer_runs(self, column: int) -> IntegerRuns | None:
        """Return a column of integers as runs, or None if it has nulls. Raises OrcError as `column` does."""
        with self._decoding(column):
            return column_runs(self._decodable, column, self.rows)

    def integer_blocks(self, column: int, *, size: int) -> Iterator[Integers]:
        """Yield a column of integers without nulls in arrays of `size` values. Raises OrcError as `column` does."""
        with self._decoding(column):
            blocks = column_blocks(self._decodable, column, self.rows, size=size)
            if blocks is None:
                raise ValueError("it has nulls, so this is not a Hive ACID file")
            yield from blocks

    @contextmanager
    def _decoding(self, column: int) -> Iterator[None]:
        with self._errors(f"column {self._name(column)}"):
            self._check_ancestors(column)
            before = self._read_ahead
            self._read_at_once(column)
            try:
                yield
            finally:
                self._read_ahead = before

    def subtree(self, column: int) -> range:
        """Return the ids of a column and its descendants."""
        return range(column, self._tail.tree.ends[column])

    def column_bytes(self, column: int) -> int:
        """Return the stored size in bytes of the streams of a column and its descendants, without indexes."""
        return sum(length for _, length in self._places(column))

    def _places(self, column: int) -> list[tuple[int, int]]:
        """Return (offset, length) of each stream of a column and its descendants, without indexes."""
        return [place for one in self.subtree(column) for place in self._data_places.get(one, ())]

    @cached_property
    def _data_places(self) -> dict[int, list[tuple[int, int]]]:
        """The places of each column's streams, without indexes."""
        places: dict[int, list[tuple[int, int]]] = {}
        for (column, kind), place in self._streams.items():
            if kind not in _INDEXES:
                places.setdefault(column, []).append(place)
        return places

    def _read_at_once(self, column: int) -> None:
        """Read the streams of a small column by one request: remote storage takes longer to answer than to send."""
        places = [] if self._is_whole else self._places(column)
        start = min((offset for offset, _ in places), default=0)
        size = max((offset + length for offset, length in places), default=0) - start
        if len(places) > 1 and size <= _TOGETHER:
            self._file.seek(start)
            self._read_ahead = (start, self._file.read(size))

    def bloom_filters(self, column: int) -> list[Any]:
        """Return the BloomFilter messages of a column's row groups, empty if it has none; OrcError if damaged."""
        for kind in _BLOOM_FILTERS:
            if (column, kind) in self._streams:
                with self._errors(f"the Bloom filters of column {self._name(column)}"):
                    return list(BloomFilterIndex.FromString(self._stream(column, kind)).bloom_filter)
        return []

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, DecodeError, pa.ArrowException) as error:
            raise OrcError(self._tail.path, f"stripe {self._index}: {what}: {error}") from error

    def _name(self, column: int) -> str:
        return self._tail.tree.column_names[column] or "0"

    def _read(self, offset: int, length: int) -> bytes:
        start, ahead = self._read_ahead
        if self._is_whole or (start <= offset and offset + length <= start + len(ahead)):
            data = ahead[offset - start : offset - start + length]
        else:
            self._file.seek(offset)
            data = self._file.read(length)
        if len(data) < length:
            raise ValueError("the file is truncated")
        return decompress(data, codec=self._codec, block_size=self._block_size)

    def _read_footer(self) -> Any:
        footer = StripeFooter.FromString(self._read(*self._tail.footer_extent(self._index)))
        if footer.HasField("encryption"):
            raise ValueError("it is encrypted")
        if self._tail.tree.problem:
            raise ValueError(self._tail.tree.problem)
        if len(footer.columns) != len(self._types):
            raise ValueError(f"it has {len(footer.columns)} columns, not {len(self._types)}")
        return footer

    def _locate_streams(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Return (offset, length) in the file of each stream, by (column, kind)."""
        streams: dict[tuple[int, int], tuple[int, int]] = {}
        position, _ = self._tail.extent(self._index)
        end, _ = self._tail.footer_extent(self._index)
        for stream in self.footer.streams:
            key = (stream.column, stream.kind)
            if key in streams:
                raise ValueError(f"column {stream.column} has two streams of kind {stream.kind}")
            streams[key] = (position, stream.length)
            position += stream.length
        if position > end:
            raise ValueError("its streams are longer than the stripe")
        return streams

    def _stream(self, column: int, kind: StreamKind) -> bytes | None:
        """Return the plain bytes of a stream, or None if the stripe lacks it."""
        place = self._streams.get((column, kind))
        return None if place is None else self._read(*place)

    def _check_ancestors(self, column: int) -> None:
        ancestors = self._tail.tree.structs_above[column]
        if ancestors is None:
            raise ValueError("not all of its ancestors are structs")
        for ancestor in ancestors:
            if ancestor not in self._never_null:
                self._check_never_null(ancestor)

    def _check_never_null(self, column: int) -> None:
        present = present_rows(self._decodable, column, self.rows)
        if present is not None and not present.all():
            raise ValueError(f"its ancestor {self._name(column)} is null in some rows")
        self._never_null.add(column)


def joined_column(readers: Sequence[StripeReader], column: int, *, words: bool = False) -> pa.Array:
    """Return a column of stripes of one type tree as one array, the stripes one after another.

    It holds what `StripeReader.column` returns for each. Decoded together, a small stripe costs little more than its
    bytes. Raises ValueError, OSError or an Arrow error where `StripeReader.column` of one of them raises OrcError.
    """
    columns = readers[0].subtree(column)
    stripes = [(reader.decodable(column), reader.rows) for reader in readers]
    parts = []
    for _, alike in groupby(stripes, key=lambda stripe: alike_in(stripe[0], columns)):
        streams, rows = zip(*alike, strict=True)
        parts.append(decode_column(streams, column, rows, words=words))
    return concatenated(parts)
