"""Decodes columns of a stripe from its streams into Arrow arrays of physical values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from compaction_operator.orc.encoding import rle
from compaction_operator.orc.spec import (
    TEXTS,
    Booleans,
    Encoding,
    Integers,
    Kind,
    StreamKind,
    physical_type,
    sums_before,
    timezones,
    without_words,
)

_Array = npt.NDArray[Any]

_LONGEST = (1 << 31) - 1
_INTEGERS = frozenset({Kind.SHORT, Kind.INT, Kind.LONG, Kind.DATE})
_STRINGS = TEXTS | {Kind.BINARY}
_DICTIONARIES = frozenset({Encoding.DICTIONARY, Encoding.DICTIONARY_V2})
_VERSION_1 = frozenset({Encoding.DIRECT, Encoding.DICTIONARY})


@dataclass(frozen=True, slots=True)
class StripeStreams:
    """The input of column decoding.

    `types` is the file's type tree. `encodings` holds the stripe's ColumnEncoding of each column. `timezone` is its
    writer's zone. `read` returns the plain bytes of a stream by column and kind, or None if the stripe lacks it.
    """

    types: Sequence[Any]
    encodings: Sequence[Any]
    timezone: str
    read: Callable[[int, StreamKind], bytes | None]


@dataclass(frozen=True, slots=True)
class _Slots:
    """The `count` slots of a column; the slots marked in `present` (None: all) hold its `values` values."""

    count: int
    present: Booleans | None
    values: int

    def validity(self) -> pa.Buffer | None:
        return None if self.present is None else pa.py_buffer(np.packbits(self.present, bitorder="little"))

    def spread(self, values: _Array) -> _Array:
        """Return the values with zeros in the null slots."""
        if self.present is None:
            return values
        spread = np.zeros(self.count, dtype=values.dtype)
        spread[self.present] = values
        return spread

    def expanded(self, array: pa.Array) -> pa.Array:
        """Return an array of all slots from an array of the values only."""
        if self.present is None:
            return array
        return array.take(pa.array(np.cumsum(self.present) - 1, mask=~self.present))

    def array(
        self, type_: pa.DataType, buffers: Sequence[_Array | bytes], children: Sequence[pa.Array] = ()
    ) -> pa.Array:
        wrapped = [self.validity(), *(pa.py_buffer(buffer) for buffer in buffers)]
        return pa.Array.from_buffers(type_, self.count, wrapped, children=list(children))


def present_rows(streams: StripeStreams, column: int, count: int) -> Booleans | None:
    """Return which of a column's `count` slots are not null, or None if no slot is null.

    Raises ValueError for a damaged stream.
    """
    data = streams.read(column, StreamKind.PRESENT)
    return None if data is None else rle.decode_booleans(data, count)


def decode_words(streams: StripeStreams, column: int, count: int) -> pa.Array:
    """Return a column as `decode_column` does, but text that has a dictionary as `WORDS`. Raises the same errors."""
    words = streams.types[column].kind in TEXTS and streams.encodings[column].kind in _DICTIONARIES
    if not words:
        return decode_column(streams, column, count)
    return _Column(streams, column).words(_slots(streams, column, count))


def decode_column(streams: StripeStreams, column: int, count: int) -> pa.Array:
    """Return a column with its descendants; `count` is its number of slots, one for each value of its parent.

    The array has the type `physical_type`. Raises ValueError or an Arrow error for streams that are damaged or have
    the wrong number of values, and for timestamps without a known time zone.
    """
    slots = _slots(streams, column, count)
    type_ = physical_type(streams.types, column)
    decoder = _Column(streams, column)
    kind = Kind(streams.types[column].kind)
    if kind in (Kind.LIST, Kind.MAP):
        return decoder.list(type_, slots)
    if kind in _STRINGS:
        return decoder.strings(slots)
    if pa.types.is_struct(type_):
        return slots.array(type_, [], [slots.expanded(child) for child in decoder.children(kind, slots.values)])
    return slots.array(type_, [decoder.fixed(kind, slots)])


def _slots(streams: StripeStreams, column: int, count: int) -> _Slots:
    present = present_rows(streams, column, count)
    return _Slots(count, present, count if present is None else int(np.count_nonzero(present)))


@dataclass(frozen=True, slots=True)
class _Column:
    """The streams of one column."""

    streams: StripeStreams
    column: int

    def fixed(self, kind: Kind, slots: _Slots) -> _Array:
        """Return values of a fixed width as Arrow's data buffer."""
        if kind in _INTEGERS:
            return slots.spread(self._integers(StreamKind.DATA, slots.values, signed=True))
        spread = slots.spread(_PLAIN[kind](self._bytes(StreamKind.DATA), slots.values))
        return np.packbits(spread, bitorder="little") if kind == Kind.BOOLEAN else spread

    def strings(self, slots: _Slots) -> pa.Array:
        if self._encoding() in _DICTIONARIES:
            return without_words(self.words(slots))
        return _binary(self._lengths(slots.values), self._bytes(StreamKind.DATA), slots)

    def words(self, slots: _Slots) -> pa.Array:
        """Return the values of a column with a dictionary as `WORDS`."""
        size = self.streams.encodings[self.column].dictionary_size
        words = _binary(self._lengths(size), self._bytes(StreamKind.DICTIONARY_DATA), _Slots(size, None, size))
        indices = self._integers(StreamKind.DATA, slots.values, signed=False)
        if slots.values and not 0 <= indices.min() <= indices.max() < size:
            raise ValueError("an index outside the dictionary")
        nulls = None if slots.present is None else ~slots.present
        return pa.DictionaryArray.from_arrays(pa.array(slots.spread(indices), mask=nulls), words, safe=False)

    def list(self, type_: pa.DataType, slots: _Slots) -> pa.Array:
        """Return a list, or a map as a list of structs."""
        lengths = self._lengths(slots.values)
        elements = int(lengths.sum())
        children = [decode_column(self.streams, child, elements) for child in self._subtypes()]
        if len(children) > 1:
            children = [pa.Array.from_buffers(type_.value_type, elements, [None], children=children)]
        return slots.array(type_, [sums_before(slots.spread(lengths))], children)

    def children(self, kind: Kind, values: int) -> Sequence[pa.Array]:
        """Return the children of a kind that Arrow holds as a struct, each with `values` values."""
        match kind:
            case Kind.STRUCT:
                return [decode_column(self.streams, child, values) for child in self._subtypes()]
            case Kind.UNION:
                return self._union(values)
            case Kind.DECIMAL:
                return self._decimal(values)
            case _:
                return self._timestamp(values)

    def _bytes(self, kind: StreamKind) -> bytes:
        """Return a stream's bytes, empty if the stripe lacks it: a stream without values may be missing."""
        return self.streams.read(self.column, kind) or b""

    def _encoding(self) -> Encoding:
        return Encoding(self.streams.encodings[self.column].kind)

    def _subtypes(self) -> Sequence[int]:
        subtypes: Sequence[int] = self.streams.types[self.column].subtypes
        return subtypes

    def _integers(self, kind: StreamKind, count: int, *, signed: bool) -> Integers:
        version = 1 if self._encoding() in _VERSION_1 else 2
        return rle.decode_integers(self._bytes(kind), count, signed=signed, version=version)

    def _lengths(self, count: int) -> Integers:
        lengths = self._integers(StreamKind.LENGTH, count, signed=False)
        if count and not 0 <= lengths.min() <= lengths.max() <= _LONGEST:
            raise ValueError("a length outside 0 to 2147483647")
        return lengths

    def _decimal(self, values: int) -> Sequence[pa.Array]:
        data = self._bytes(StreamKind.DATA)
        numbers = _binary(rle.split_varints(data, values), data, _Slots(values, None, values))
        return [numbers, pa.array(self._integers(StreamKind.SECONDARY, values, signed=True))]

    def _timestamp(self, values: int) -> Sequence[pa.Array]:
        seconds = self._integers(StreamKind.DATA, values, signed=True)
        nanos = self._integers(StreamKind.SECONDARY, values, signed=False)
        zone = self.streams.timezone
        if values and self.streams.types[self.column].kind == Kind.TIMESTAMP and not timezones.is_utc(zone):
            if not zone:
                raise ValueError("the stripe does not state its time zone")
            seconds = timezones.as_written_in_utc(seconds, nanos, zone)
        return [pa.array(seconds), pa.array(nanos)]

    def _union(self, values: int) -> Sequence[pa.Array]:
        """Return the tags, then each alternative with nulls where the tag selects another."""
        tags = rle.decode_bytes(self._bytes(StreamKind.DATA), values)
        subtypes = self._subtypes()
        if values and tags.max() >= len(subtypes):
            raise ValueError("a union tag without an alternative")
        alternatives = []
        for tag, child in enumerate(subtypes):
            chosen = tags == tag
            slots = _Slots(values, chosen, int(np.count_nonzero(chosen)))
            alternatives.append(slots.expanded(decode_column(self.streams, child, slots.values)))
        return [pa.array(tags.view(np.int8)), *alternatives]


def _plain(dtype: str) -> Callable[[bytes, int], _Array]:
    def decode(data: bytes, count: int) -> _Array:
        if len(data) != count * np.dtype(dtype).itemsize:
            raise ValueError(f"a stream of {len(data)} bytes does not hold {count} values")
        return np.frombuffer(data, dtype=dtype)

    return decode


# NB: floating point values stay integers here, to preserve every bit of a NaN
_PLAIN: dict[Kind, Callable[[bytes, int], _Array]] = {
    Kind.BOOLEAN: rle.decode_booleans,
    Kind.BYTE: rle.decode_bytes,
    Kind.FLOAT: _plain("<u4"),
    Kind.DOUBLE: _plain("<u8"),
}


def _binary(lengths: Integers, data: bytes, slots: _Slots) -> pa.Array:
    """Return a large binary array of values that are concatenated in `data`."""
    offsets = sums_before(slots.spread(lengths))
    if offsets[-1] != len(data):
        raise ValueError(f"{len(data)} bytes of values whose lengths add up to {offsets[-1]}")
    return slots.array(pa.large_binary(), [offsets, data])
