"""Encodes in-memory columns (`physical`) into the plain streams of a stripe."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from compaction_operator.orc.encoding.rle_encode import Positions, encode_booleans, encode_bytes, encode_integers
from compaction_operator.orc.spec import WORDS, Encoding, Integers, Kind, StreamKind, sums_before, without_words

_DICTIONARY_RATIO = 0.8
_SAMPLE = 10_000


@dataclass(frozen=True, slots=True)
class PlainStream:
    """A stream before compression. `positions` holds the start of each row group: a byte offset and the values that
    follow it in the row index. It is None for a stream that is always read completely."""

    kind: StreamKind
    data: bytes | pa.Buffer
    positions: Positions | None


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """One column without its children: its streams, in the order of a row index, and its values.

    `array` holds the values of rows whose ancestors are not null; row group g is `array[groups[g]:groups[g + 1]]`.
    """

    column: int
    encoding: Encoding
    dictionary_size: int
    streams: list[PlainStream]
    array: pa.Array
    groups: Integers


def encode_column(
    types: Sequence[Any], column: int, array: pa.Array, *, row_groups: Integers
) -> Iterator[EncodedColumn]:
    """Encode a column and its descendants, in the order of column ids.

    `array` has the type `physical_type(types, column)`, or is `WORDS` for a column of text. `row_groups` holds the
    offsets of its row groups, from 0 to its length. Raises ValueError for an array of another type.
    """
    present = _present(array, row_groups)
    yield _encoded(types, column, array, row_groups, present)
    for child, child_values, child_groups in _children(types[column], *present):
        yield from encode_column(types, child, child_values, row_groups=child_groups)


def encode_node(types: Sequence[Any], column: int, array: pa.Array, *, row_groups: Integers) -> EncodedColumn:
    """Encode a column without its children."""
    return _encoded(types, column, array, row_groups, _present(array, row_groups))


def _encoded(
    types: Sequence[Any], column: int, array: pa.Array, row_groups: Integers, present: tuple[pa.Array, Integers]
) -> EncodedColumn:
    encoding, dictionary_size, streams = _encode_values(Kind(types[column].kind), *present)
    if array.null_count:
        validity = encode_booleans(_numpy(array.is_valid()), row_groups)
        streams.insert(0, PlainStream(StreamKind.PRESENT, *validity))
    return EncodedColumn(column, encoding, dictionary_size, streams, array, row_groups)


def _present(array: pa.Array, groups: Integers) -> tuple[pa.Array, Integers]:
    """Return the values that are not null, and the offsets of the row groups among them."""
    if not array.null_count:
        return array, groups
    return array.drop_null(), sums_before(_numpy(array.is_valid()))[groups]


def _encode_values(kind: Kind, values: pa.Array, groups: Integers) -> tuple[Encoding, int, list[PlainStream]]:
    match kind:
        case Kind.STRING | Kind.CHAR | Kind.VARCHAR:
            return _encode_strings(values, groups)
        case Kind.BOOLEAN:
            streams = [PlainStream(StreamKind.DATA, *encode_booleans(_numpy(values), groups))]
        case Kind.BYTE:
            streams = [_tags(values, groups)]
        case Kind.UNION:
            streams = [_tags(values.field("tag"), groups)]
        case Kind.FLOAT | Kind.DOUBLE:
            streams = [_floats(values, groups)]
        case Kind.STRUCT:
            streams = []
        case _:
            return Encoding.DIRECT_V2, 0, _version_2(kind, values, groups)
    return Encoding.DIRECT, 0, streams


def _version_2(kind: Kind, values: pa.Array, groups: Integers) -> list[PlainStream]:
    match kind:
        case Kind.BINARY:
            return _direct_strings(values, groups)
        case Kind.DECIMAL:
            numbers, _ = _contents(values.field("value"), groups)
            return [numbers, _integers(StreamKind.SECONDARY, values.field("scale"), groups, signed=True)]
        case Kind.TIMESTAMP | Kind.TIMESTAMP_INSTANT:
            seconds = _integers(StreamKind.DATA, values.field("seconds"), groups, signed=True)
            return [seconds, _integers(StreamKind.SECONDARY, values.field("nanos"), groups, signed=False)]
        case Kind.LIST | Kind.MAP:
            return [_integers(StreamKind.LENGTH, pc.list_value_length(values), groups, signed=False)]
        case _:
            return [_integers(StreamKind.DATA, values, groups, signed=True)]


def _children(type_: Any, values: pa.Array, groups: Integers) -> Iterator[tuple[int, pa.Array, Integers]]:
    """Yield column id, values and row groups of each child; the parent's `values` have no nulls."""
    match type_.kind:
        case Kind.STRUCT:
            for child, field in zip(type_.subtypes, values.flatten(), strict=True):
                yield child, field, groups
        case Kind.LIST | Kind.MAP:
            items = values.flatten()
            fields = items.flatten() if type_.kind == Kind.MAP else [items]
            groups = sums_before(_numpy(pc.list_value_length(values)))[groups]
            for child, field in zip(type_.subtypes, fields, strict=True):
                yield child, field, groups
        case Kind.UNION:
            tags, *alternatives = values.flatten()
            for tag, (child, field) in enumerate(zip(type_.subtypes, alternatives, strict=True)):
                chosen = _numpy(tags) == tag
                yield child, field.filter(pa.array(chosen)), sums_before(chosen)[groups]


def _numpy(values: pa.Array) -> npt.NDArray[Any]:
    """Return values as a numpy array; raise ValueError for a null."""
    if values.null_count:
        raise ValueError("a value has a null in it")
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _integers(kind: StreamKind, values: pa.Array, groups: Integers, *, signed: bool) -> PlainStream:
    return PlainStream(kind, *encode_integers(_numpy(values).astype(np.int64, copy=False), groups, signed=signed))


def _tags(values: pa.Array, groups: Integers) -> PlainStream:
    return PlainStream(StreamKind.DATA, *encode_bytes(_numpy(values).view(np.uint8), groups))


def _floats(values: pa.Array, groups: Integers) -> PlainStream:
    plain = _numpy(values)
    offsets = (groups[:-1] * plain.itemsize).tolist()
    return PlainStream(StreamKind.DATA, plain.tobytes(), [(offset,) for offset in offsets])


def _contents(values: pa.Array, groups: Integers) -> tuple[PlainStream, Integers]:
    """Return the concatenated bytes of large binaries, and the offsets of the values."""
    _, offsets, content = values.buffers()
    if values.null_count:
        raise ValueError("a value has a null in it")
    ends = np.zeros(1, np.int64)
    if len(values):
        ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    data = content.slice(ends[0], ends[-1] - ends[0]) if content else b""
    positions: Positions = [(offset,) for offset in (ends - ends[0])[groups[:-1]].tolist()]
    return PlainStream(StreamKind.DATA, data, positions), ends


def _direct_strings(values: pa.Array, groups: Integers) -> list[PlainStream]:
    data, ends = _contents(values, groups)
    return [data, PlainStream(StreamKind.LENGTH, *encode_integers(np.diff(ends), groups, signed=False))]


def _encode_strings(values: pa.Array, groups: Integers) -> tuple[Encoding, int, list[PlainStream]]:
    """Encode with a sorted dictionary if that pays, by the rule of Java's writer (StringBaseTreeWriter)."""
    numbered = _numbered(values)
    if numbered is None or len(numbered.dictionary) > _DICTIONARY_RATIO * len(values):
        return Encoding.DIRECT_V2, 0, _direct_strings(without_words(values), groups)
    order = _numpy(pc.sort_indices(numbered.dictionary))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    data = PlainStream(StreamKind.DATA, *encode_integers(rank[_numpy(numbered.indices)], groups, signed=False))
    words, lengths = _direct_strings(numbered.dictionary.take(pa.array(order)), np.array([0, len(order)]))
    dictionary = PlainStream(StreamKind.DICTIONARY_DATA, words.data, None)
    return Encoding.DICTIONARY_V2, len(order), [data, PlainStream(StreamKind.LENGTH, lengths.data, None), dictionary]


def _numbered(values: pa.Array) -> pa.Array | None:
    """Return values as `WORDS`, each word once and only if a value has it; None if the first values do not repeat."""
    if values.type == WORDS and pc.count_distinct(values.dictionary).as_py() < len(values.dictionary):
        values = without_words(values)  # a writer may repeat a word
    if values.type != WORDS:
        return values.dictionary_encode() if _repeats(values.slice(0, _SAMPLE)) else None
    if not _repeats(values.slice(0, _SAMPLE).indices):
        return None
    indices = _numpy(values.indices)
    used = np.bincount(indices, minlength=len(values.dictionary)) > 0
    if used.all():
        return values
    places = pa.array((np.cumsum(used) - 1)[indices])
    return pa.DictionaryArray.from_arrays(places, values.dictionary.filter(pa.array(used)), safe=False)


def _repeats(values: pa.Array) -> bool:
    return len(values) > 0 and pc.count_distinct(values).as_py() <= _DICTIONARY_RATIO * len(values)
