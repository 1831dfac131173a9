"""A stripe's columns, decoded into Arrow arrays of physical values."""

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import DecodeError

from compaction_operator.orc import codec, rle, timezones
from compaction_operator.orc.errors import OrcError
from compaction_operator.orc.messages import BloomFilterIndex, Encoding, Kind, RowIndex, StreamKind, StripeFooter
from compaction_operator.orc.physical import physical_type
from compaction_operator.orc.schema import column_names, problem, subtree_end
from compaction_operator.orc.tail import Tail

_Present = npt.NDArray[np.bool_] | None  # None: no value is null
_SECOND_NANOS = 1_000_000_000
_MILLI_NANOS = 1_000_000


def open_stripe(file: BinaryIO, tail: Tail, index: int) -> "StripeReader":
    """Return a reader of one stripe of the file whose tail is `tail`.

    Raises OrcError for a stripe whose footer is damaged, which is encrypted, or whose types are none of a file.
    """
    return StripeReader(file, tail, index)


class StripeReader:
    """The columns of one stripe, each read and decoded when it is asked for.

    `rows` is the number of rows, `footer` the StripeFooter message, `timezone` the writer's zone or an empty string.
    """

    def __init__(self, file: BinaryIO, tail: Tail, index: int) -> None:
        self._file = file
        self._tail = tail
        self._index = index
        self._types = tail.types
        information = tail.footer.stripes[index]
        self.rows = int(information.number_of_rows)
        with self._errors("its footer"):
            self.footer = self._read_footer(information)
            self._streams = self._locate_streams(information)
        self.timezone: str = self.footer.writer_timezone

    def column(self, column: int) -> pa.Array:
        """Return a column and all below it, as `physical_type` and one value per row.

        Raises OrcError for damaged streams, for a null in a struct around the column, for values that are not known
        to survive, and when the column is not in structs only.
        """
        with self._errors(f"column {self._name(column)}"):
            for ancestor in self._ancestors(column):
                self._check_never_null(ancestor)
            return self._decode(column, self.rows)

    def column_bytes(self, column: int) -> int:
        """Return the size in the file of the streams of a column and all below it, without indexes."""
        columns = range(column, subtree_end(self._types, column))
        return sum(
            length
            for (of, kind), (_, length) in self._streams.items()
            if of in columns
            and kind not in (StreamKind.ROW_INDEX, StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8)
        )

    def has_bloom_filter(self, column: int) -> bool:
        """Whether the stripe has a bloom filter for the column."""
        return any((column, kind) in self._streams for kind in (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8))

    def bloom_filters(self, column: int) -> list[Any]:
        """Return the BloomFilter messages of a column's row groups, if it has any; OrcError when they are damaged."""
        for kind in (StreamKind.BLOOM_FILTER_UTF8, StreamKind.BLOOM_FILTER):
            if (column, kind) in self._streams:
                with self._errors(f"the Bloom filters of column {self._name(column)}"):
                    return list(BloomFilterIndex.FromString(self._stream(column, kind)).bloom_filter)
        return []

    def row_index(self, column: int) -> Any | None:
        """Return the RowIndex message of a column, or None; OrcError when it is damaged."""
        if (column, StreamKind.ROW_INDEX) not in self._streams:
            return None
        with self._errors(f"the row index of column {self._name(column)}"):
            return RowIndex.FromString(self._stream(column, StreamKind.ROW_INDEX))

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, zlib.error, DecodeError, pa.ArrowException) as error:
            raise OrcError(self._tail.path, f"stripe {self._index}: {what}: {error}") from error

    def _name(self, column: int) -> str:
        return column_names(self._types)[column] or "0"

    def _read(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(length)
        if len(data) < length:
            raise ValueError("the file is cut off")
        return codec.decompress(data, codec=self._tail.compression, block_size=self._tail.block_size)

    def _read_footer(self, information: Any) -> Any:
        start = information.offset + information.index_length + information.data_length
        footer = StripeFooter.FromString(self._read(start, information.footer_length))
        if footer.HasField("encryption"):
            raise ValueError("it is encrypted")
        if reason := problem(self._types):
            raise ValueError(reason)
        if len(footer.columns) != len(self._types):
            raise ValueError(f"{len(footer.columns)} columns, not {len(self._types)}")
        return footer

    def _locate_streams(self, information: Any) -> dict[tuple[int, int], tuple[int, int]]:
        """Where each stream of a column and kind begins in the file, and its length there."""
        streams: dict[tuple[int, int], tuple[int, int]] = {}
        position = information.offset
        for stream in self.footer.streams:
            key = (stream.column, stream.kind)
            if key in streams:
                raise ValueError(f"column {stream.column} has two streams of kind {stream.kind}")
            streams[key] = (position, stream.length)
            position += stream.length
        if position > information.offset + information.index_length + information.data_length:
            raise ValueError("its streams are longer than the stripe")
        return streams

    def _stream(self, column: int, kind: StreamKind) -> bytes:
        """The plain bytes of a stream; none for one that was left out, which is right where there are no values."""
        offset, length = self._streams.get((column, kind), (0, 0))
        return self._read(offset, length) if length else b""

    def _ancestors(self, column: int) -> list[int]:
        parents = {child: parent for parent, type_ in enumerate(self._types) for child in type_.subtypes}
        found = []
        while column in parents:
            column = parents[column]
            found.append(column)
            if self._types[column].kind != Kind.STRUCT:
                raise ValueError("it is not in structs only")
        return found

    def _check_never_null(self, column: int) -> None:
        present = self._present(column, self.rows)
        if present is not None and not present.all():
            raise ValueError(f"{self._name(column)}, which it is in, is null in some rows")

    def _present(self, column: int, count: int) -> _Present:
        if (column, StreamKind.PRESENT) not in self._streams:
            return None
        return rle.decode_booleans(self._stream(column, StreamKind.PRESENT), count)

    def _decode(self, column: int, count: int) -> pa.Array:
        """A column of `count` slots: as many values as the column that it is in has that are not null."""
        present = self._present(column, count)
        values = count if present is None else int(np.count_nonzero(present))
        match Kind(self._types[column].kind):
            case Kind.STRUCT | Kind.UNION | Kind.DECIMAL | Kind.TIMESTAMP | Kind.TIMESTAMP_INSTANT:
                return self._struct(column, present, count, values)
            case Kind.LIST | Kind.MAP:
                return self._list(column, present, count, values)
            case Kind.STRING | Kind.CHAR | Kind.VARCHAR | Kind.BINARY:
                return self._strings(column, present, values)
            case _:
                return self._fixed(column, present, count, values)

    def _encoding(self, column: int) -> Encoding:
        return Encoding(self.footer.columns[column].kind)

    def _integers(self, column: int, kind: StreamKind, count: int, *, signed: bool) -> rle.Integers:
        version = 1 if self._encoding(column) in (Encoding.DIRECT, Encoding.DICTIONARY) else 2
        return rle.decode_integers(self._stream(column, kind), count, signed=signed, version=version)

    def _lengths(self, column: int, count: int) -> rle.Integers:
        lengths = self._integers(column, StreamKind.LENGTH, count, signed=False)
        if count and not 0 <= lengths.min() <= lengths.max() < 1 << 31:
            raise ValueError("a length that none can have")
        return lengths

    def _fixed(self, column: int, present: _Present, count: int, values: int) -> pa.Array:
        """Values of a fixed width."""
        kind = Kind(self._types[column].kind)
        if kind in (Kind.SHORT, Kind.INT, Kind.LONG, Kind.DATE):
            decoded: npt.NDArray[Any] = self._integers(column, StreamKind.DATA, values, signed=True)
        else:
            decoded = _PLAIN[kind](self._stream(column, StreamKind.DATA), values)
        spread = _spread(decoded, present)
        data = np.packbits(spread, bitorder="little") if kind == Kind.BOOLEAN else spread
        type_ = physical_type(self._types, column)
        return pa.Array.from_buffers(type_, count, [_validity(present), pa.py_buffer(data)])

    def _strings(self, column: int, present: _Present, values: int) -> pa.Array:
        if self._encoding(column) in (Encoding.DICTIONARY, Encoding.DICTIONARY_V2):
            return self._dictionary(column, present, values)
        lengths = self._lengths(column, values)
        return _binary(lengths, self._stream(column, StreamKind.DATA), present)

    def _dictionary(self, column: int, present: _Present, values: int) -> pa.Array:
        size = self.footer.columns[column].dictionary_size
        words = _binary(self._lengths(column, size), self._stream(column, StreamKind.DICTIONARY_DATA), None)
        indices = self._integers(column, StreamKind.DATA, values, signed=False)
        if values and not 0 <= indices.min() <= indices.max() < size:
            raise ValueError("a value that is not in the dictionary")
        spread = _spread(indices, present)
        nulls = None if present is None else ~present
        return words.take(pa.array(spread, mask=nulls))

    def _decimal(self, column: int, values: int) -> list[pa.Array]:
        data = self._stream(column, StreamKind.DATA)
        numbers = _binary(rle.split_varints(data, values), data, None)
        scales = self._integers(column, StreamKind.SECONDARY, values, signed=True)
        return [numbers, pa.array(scales)]

    def _timestamp(self, column: int, values: int) -> list[pa.Array]:
        seconds = self._integers(column, StreamKind.DATA, values, signed=True)
        nanos = self._integers(column, StreamKind.SECONDARY, values, signed=False)
        if values and self._types[column].kind == Kind.TIMESTAMP:
            if not self.timezone:
                raise ValueError("the stripe does not say its time zone")
            if not timezones.is_utc(self.timezone):
                seconds = _as_written_in_utc(seconds, nanos, self.timezone)
        return [pa.array(seconds), pa.array(nanos)]

    def _list(self, column: int, present: _Present, count: int, values: int) -> pa.Array:
        """A list, or a map: a list of structs."""
        lengths = self._lengths(column, values)
        elements = int(lengths.sum())
        children = [self._decode(child, elements) for child in self._types[column].subtypes]
        type_ = physical_type(self._types, column)
        if self._types[column].kind == Kind.MAP:
            children = [pa.Array.from_buffers(type_.value_type, elements, [None], children=children)]
        offsets = pa.py_buffer(_offsets(_spread(lengths, present)))
        return pa.Array.from_buffers(type_, count, [_validity(present), offsets], children=children)

    def _union(self, column: int, values: int) -> list[pa.Array]:
        """The tags, and each alternative with nulls where it is not the one."""
        tags = rle.decode_bytes(self._stream(column, StreamKind.DATA), values)
        subtypes = self._types[column].subtypes
        if values and tags.max() >= len(subtypes):
            raise ValueError("a tag of a union that has no such alternative")
        alternatives = []
        for tag, child in enumerate(subtypes):
            chosen = tags == tag
            alternatives.append(_expanded(self._decode(child, int(np.count_nonzero(chosen))), chosen))
        return [pa.array(tags.view(np.int8)), *alternatives]

    def _struct(self, column: int, present: _Present, count: int, values: int) -> pa.Array:
        """A struct, or what is held as one; its children have no slots where it is null."""
        children = self._children(column, values)
        if present is not None:
            children = [_expanded(child, present) for child in children]
        type_ = physical_type(self._types, column)
        return pa.Array.from_buffers(type_, count, [_validity(present)], children=children)

    def _children(self, column: int, values: int) -> list[pa.Array]:
        type_ = self._types[column]
        match Kind(type_.kind):
            case Kind.STRUCT:
                return [self._decode(child, values) for child in type_.subtypes]
            case Kind.UNION:
                return self._union(column, values)
            case Kind.DECIMAL:
                return self._decimal(column, values)
            case _:
                return self._timestamp(column, values)


def _plain(dtype: str) -> Callable[[bytes, int], npt.NDArray[Any]]:
    def decode(data: bytes, count: int) -> npt.NDArray[Any]:
        values = np.frombuffer(data, dtype=dtype)
        if len(values) != count:
            raise ValueError(f"a stream of {len(values)} values, not {count}")
        return values

    return decode


# NB: floating point values are handled as integers, so that no bit of a NaN is lost
_PLAIN: dict[Kind, Callable[[bytes, int], npt.NDArray[Any]]] = {
    Kind.BOOLEAN: rle.decode_booleans,
    Kind.BYTE: rle.decode_bytes,
    Kind.FLOAT: _plain("<u4"),
    Kind.DOUBLE: _plain("<u8"),
}


def _spread(values: npt.NDArray[Any], present: _Present) -> npt.NDArray[Any]:
    """The values with zeros between them where they are null."""
    if present is None:
        return values
    spread = np.zeros(len(present), dtype=values.dtype)
    spread[present] = values
    return spread


def _expanded(array: pa.Array, present: npt.NDArray[np.bool_]) -> pa.Array:
    """An array with nulls between its values."""
    return array.take(pa.array(np.cumsum(present) - 1, mask=~present))


def _validity(present: _Present) -> pa.Buffer | None:
    return None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))


def _offsets(lengths: rle.Integers) -> rle.Integers:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _binary(lengths: rle.Integers, data: bytes, present: _Present) -> pa.Array:
    """A large binary array of values that lie one after the other in `data`."""
    offsets = _offsets(_spread(lengths, present))
    if offsets[-1] != len(data):
        raise ValueError(f"{len(data)} bytes of values that are {offsets[-1]} bytes long")
    buffers = [_validity(present), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _as_written_in_utc(seconds: rle.Integers, nanos: rle.Integers, zone: str) -> rle.Integers:
    """The seconds that a writer in UTC has for the same wall-clock times.

    NB: Java's writer divides milliseconds by 1000 and so rounds the seconds before 1970 up when there are
    milliseconds; its reader takes one off (ORC's TimestampTreeWriter and TimestampTreeReader). The last second before
    1970 then looks like the first one after.
    """
    has_millis = _nanos(nanos) >= _MILLI_NANOS
    rounded = seconds + timezones.base_seconds(zone)
    instants = rounded - ((rounded < 0) & has_millis)
    wall = instants + timezones.utc_offsets(zone, instants)
    up = (wall < 0) & has_millis
    if np.any(up & (wall == -1)):
        raise ValueError(f"a fraction of the last second before 1970 in {zone}, which UTC cannot say")
    return wall + up - timezones.base_seconds("UTC")


def _nanos(encoded: rle.Integers) -> rle.Integers:
    """Nanoseconds from how a stream has them: without trailing zeros, their number less one in the lowest bits."""
    zeros = encoded & 7
    nanos = (encoded >> 3) * np.where(zeros, 10 ** (zeros + 1), 1)
    if np.any((nanos < 0) | (nanos >= _SECOND_NANOS) | (encoded >> 3 >= _SECOND_NANOS)):
        raise ValueError("a fraction of more than a second")
    return nanos
