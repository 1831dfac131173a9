"""Decodes columns of stripes from their streams into Arrow arrays of physical values."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
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
    """The input of column decoding: one stripe.

    `types` is the file's type tree. `encodings` holds the stripe's ColumnEncoding of each column. `timezone` is its
    writer's zone. `read` returns the plain bytes of a stream by column and kind, or None if the stripe lacks it.
    """

    types: Sequence[Any]
    encodings: Sequence[Any]
    timezone: str
    read: Callable[[int, StreamKind], bytes | None]


@dataclass(frozen=True)
class _Slots:
    """The slots of a column: `counts` of each stripe, and which of them hold a value (None: all of a stripe's do)."""

    counts: Sequence[int]
    masks: Sequence[Booleans | None]

    @classmethod
    def full(cls, counts: Sequence[int]) -> "_Slots":
        """Return slots that all hold a value."""
        return cls(counts, [None] * len(counts))

    @cached_property
    def values(self) -> Sequence[int]:
        """The number of values of each stripe."""
        pairs = zip(self.counts, self.masks, strict=True)
        return [count if mask is None else int(np.count_nonzero(mask)) for count, mask in pairs]

    @cached_property
    def present(self) -> Booleans | None:
        """Which slots hold a value, None if all do. NB: only decoded values confirm how many a damaged stripe has."""
        if all(mask is None for mask in self.masks):
            return None
        pairs = zip(self.counts, self.masks, strict=True)
        return _joined([np.ones(count, np.bool_) if mask is None else mask for count, mask in pairs])

    def spread(self, values: _Array) -> _Array:
        """Return the values with zeros in the null slots."""
        if self.present is None:
            return values
        spread = np.zeros(len(self.present), dtype=values.dtype)
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
        """Return an array of all slots from its buffers behind the validity."""
        validity = None if self.present is None else pa.py_buffer(np.packbits(self.present, bitorder="little"))
        wrapped = [validity, *(pa.py_buffer(buffer) for buffer in buffers)]
        return pa.Array.from_buffers(type_, sum(self.counts), wrapped, children=list(children))


def present_rows(streams: StripeStreams, column: int, count: int) -> Booleans | None:
    """Return which of a column's `count` slots are not null, or None if no slot is null.

    Raises ValueError for a damaged stream.
    """
    data = streams.read(column, StreamKind.PRESENT)
    return None if data is None else rle.decode_booleans(data, count)


def decode_column(
    stripes: Sequence[StripeStreams], column: int, counts: Sequence[int], *, words: bool = False
) -> pa.Array:
    """Return a column of one or more stripes with its descendants, as one array.

    `counts` are its numbers of slots in each stripe, one for each value of its parent. The stripes have one type tree,
    and are alike in the column (`alike_in`). The array has the type `physical_type`; with `words`, text that has a
    dictionary is `WORDS`. Raises ValueError or an Arrow error for streams that are damaged or have the wrong number of
    values, and for timestamps without a known time zone.
    """
    slots = _Slots(counts, [present_rows(one, column, count) for one, count in zip(stripes, counts, strict=True)])
    types, decoder = stripes[0].types, _Column(stripes, column)
    kind, type_ = Kind(types[column].kind), physical_type(types, column)
    if kind in (Kind.LIST, Kind.MAP):
        return decoder.list(type_, slots)
    if kind in _STRINGS:
        return decoder.strings(slots, words=words and kind in TEXTS)
    if pa.types.is_struct(type_):
        return slots.array(type_, [], [slots.expanded(child) for child in decoder.children(kind, slots.values)])
    return slots.array(type_, [decoder.fixed(kind, slots)])


def alike_in(streams: StripeStreams, columns: Sequence[int]) -> tuple[Any, ...]:
    """Return what is equal for stripes of which one array may be decoded: how these columns are encoded, and where."""
    return (streams.timezone, *(streams.encodings[column].kind for column in columns))


@dataclass(frozen=True, slots=True)
class _Column:
    """The streams of one column in all stripes."""

    stripes: Sequence[StripeStreams]
    column: int

    def fixed(self, kind: Kind, slots: _Slots) -> _Array:
        """Return values of a fixed width as Arrow's data buffer."""
        if kind in _INTEGERS:
            return slots.spread(_joined(self._integers(StreamKind.DATA, slots.values, signed=True)))
        streams = zip(self._bytes(StreamKind.DATA), slots.values, strict=True)
        spread = slots.spread(_joined([_PLAIN[kind](data, count) for data, count in streams]))
        return np.packbits(spread, bitorder="little") if kind == Kind.BOOLEAN else spread

    def strings(self, slots: _Slots, *, words: bool) -> pa.Array:
        if self._encoding() not in _DICTIONARIES:
            return _binary(self._lengths(slots.values), self._bytes(StreamKind.DATA), slots)
        return self._words(slots) if words else without_words(self._words(slots))

    def _words(self, slots: _Slots) -> pa.Array:
        """Return the values of a column with a dictionary as `WORDS`."""
        sizes = [stripe.encodings[self.column].dictionary_size for stripe in self.stripes]
        words = _binary(self._lengths(sizes), self._bytes(StreamKind.DICTIONARY_DATA), _Slots.full(sizes))
        found = self._integers(StreamKind.DATA, slots.values, signed=False)
        for indices, size in zip(found, sizes, strict=True):
            if len(indices) and not 0 <= indices.min() <= indices.max() < size:
                raise ValueError("an index outside the dictionary")
        indices = _joined(found)
        if len(sizes) > 1:
            merged = words.dictionary_encode()
            words, places = merged.dictionary, merged.indices.to_numpy().astype(np.int64)
            indices = places[indices + np.repeat(sums_before(sizes)[:-1], slots.values)]
        nulls = None if slots.present is None else ~slots.present
        return pa.DictionaryArray.from_arrays(pa.array(slots.spread(indices), mask=nulls), words, safe=False)

    def list(self, type_: pa.DataType, slots: _Slots) -> pa.Array:
        """Return a list, or a map as a list of structs."""
        lengths = self._lengths(slots.values)
        elements = [int(one.sum()) for one in lengths]
        children = [decode_column(self.stripes, child, elements) for child in self._subtypes()]
        if len(children) > 1:
            children = [pa.Array.from_buffers(type_.value_type, sum(elements), [None], children=children)]
        return slots.array(type_, [sums_before(slots.spread(_joined(lengths)))], children)

    def children(self, kind: Kind, values: Sequence[int]) -> Sequence[pa.Array]:
        """Return the children of a kind that Arrow holds as a struct, each with `values` values of each stripe."""
        match kind:
            case Kind.STRUCT:
                return [decode_column(self.stripes, child, values) for child in self._subtypes()]
            case Kind.UNION:
                return self._union(values)
            case Kind.DECIMAL:
                return self._decimal(values)
            case _:
                return self._timestamp(values)

    def _bytes(self, kind: StreamKind) -> Iterator[bytes]:
        """Yield each stripe's stream, empty if the stripe lacks it: a stream without values may be missing."""
        return (stripe.read(self.column, kind) or b"" for stripe in self.stripes)

    def _encoding(self) -> Encoding:
        return Encoding(self.stripes[0].encodings[self.column].kind)

    def _subtypes(self) -> Sequence[int]:
        subtypes: Sequence[int] = self.stripes[0].types[self.column].subtypes
        return subtypes

    def _integers(self, kind: StreamKind, counts: Sequence[int], *, signed: bool) -> Sequence[Integers]:
        """Return the integers of each stripe."""
        version = 1 if self._encoding() in _VERSION_1 else 2
        streams = zip(self._bytes(kind), counts, strict=True)
        return [rle.decode_integers(data, count, signed=signed, version=version) for data, count in streams]

    def _lengths(self, counts: Sequence[int]) -> Sequence[Integers]:
        found = self._integers(StreamKind.LENGTH, counts, signed=False)
        for lengths in found:
            if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= _LONGEST:
                raise ValueError("a length outside 0 to 2147483647")
        return found

    def _decimal(self, values: Sequence[int]) -> Sequence[pa.Array]:
        data = [*self._bytes(StreamKind.DATA)]
        lengths = [rle.split_varints(one, count) for one, count in zip(data, values, strict=True)]
        numbers = _binary(lengths, data, _Slots.full(values))
        return [numbers, pa.array(_joined(self._integers(StreamKind.SECONDARY, values, signed=True)))]

    def _timestamp(self, values: Sequence[int]) -> Sequence[pa.Array]:
        seconds = _joined(self._integers(StreamKind.DATA, values, signed=True))
        nanos = _joined(self._integers(StreamKind.SECONDARY, values, signed=False))
        zone = self.stripes[0].timezone
        if len(seconds) and self._kind() == Kind.TIMESTAMP and not timezones.is_utc(zone):
            if not zone:
                raise ValueError("the stripe does not state its time zone")
            seconds = timezones.as_written_in_utc(seconds, nanos, zone)
        return [pa.array(seconds), pa.array(nanos)]

    def _kind(self) -> Kind:
        return Kind(self.stripes[0].types[self.column].kind)

    def _union(self, values: Sequence[int]) -> Sequence[pa.Array]:
        """Return the tags, then each alternative with nulls where the tag selects another."""
        streams = zip(self._bytes(StreamKind.DATA), values, strict=True)
        tags = [rle.decode_bytes(data, count) for data, count in streams]
        subtypes = self._subtypes()
        if max(int(one.max(initial=0)) for one in tags) >= len(subtypes):
            raise ValueError("a union tag without an alternative")
        alternatives = []
        for tag, child in enumerate(subtypes):
            slots = _Slots(values, [one == tag for one in tags])
            alternatives.append(slots.expanded(decode_column(self.stripes, child, slots.values)))
        return [pa.array(_joined(tags).view(np.int8)), *alternatives]


def _joined(parts: Sequence[_Array]) -> _Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


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


def _binary(lengths: Sequence[Integers], data: Iterable[bytes], slots: _Slots) -> pa.Array:
    """Return a large binary array of values whose bytes each stripe has one after another in its `data`."""
    data = [*data]
    for stripe_lengths, stripe_data in zip(lengths, data, strict=True):
        if (total := int(stripe_lengths.sum())) != len(stripe_data):
            raise ValueError(f"{len(stripe_data)} bytes of values whose lengths add up to {total}")
    offsets = sums_before(slots.spread(_joined(lengths)))
    return slots.array(pa.large_binary(), [offsets, b"".join(data)])
