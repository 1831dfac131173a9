"""In-memory types of columns: stream values as Arrow arrays, uninterpreted so that every value survives."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from compaction_operator.orc.spec.messages import Kind

DECIMAL = pa.struct([("value", pa.large_binary()), ("scale", pa.int64())])
"""A decimal: the unscaled value as the stream's zigzag base-128 varint, and the scale."""

TIMESTAMP = pa.struct([("seconds", pa.int64()), ("nanos", pa.int64())])
"""A timestamp as in a stripe whose writer was in UTC: seconds since 2015-01-01, and nanoseconds as encoded in the
stream (ORC specification, "Timestamp Columns": no trailing zeros; the lowest three bits encode their number)."""

WORDS = pa.dictionary(pa.int64(), pa.large_binary())
"""A column of text as its stripe may hold it, instead of as large binaries: words, and their indices."""

TEXTS = frozenset({Kind.STRING, Kind.CHAR, Kind.VARCHAR})
"""The kinds of text, whose columns may be `WORDS`."""

_PRIMITIVES = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.BYTE: pa.int8(),
    **dict.fromkeys((Kind.SHORT, Kind.INT, Kind.LONG, Kind.DATE), pa.int64()),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    **dict.fromkeys((*TEXTS, Kind.BINARY), pa.large_binary()),
    Kind.DECIMAL: DECIMAL,
    **dict.fromkeys((Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT), TIMESTAMP),
}


def without_words(values: pa.Array) -> pa.Array:
    """Return `WORDS` as large binaries, and other values as they are."""
    return values.dictionary_decode() if values.type == WORDS else values


def concatenated(parts: Sequence[pa.Array]) -> pa.Array:
    """Return columns of one type one after another; `WORDS` only if all parts are."""
    if not all(part.type == WORDS for part in parts):
        parts = [without_words(part) for part in parts]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def physical_type(types: Sequence[Any], column: int) -> pa.DataType:
    """Return the Arrow type that holds a column of an ORC type tree.

    A list is a large list. A map is a large list of structs `key`, `value` (either may be null). A struct names its
    children by position: `0`, `1`, ... A union is a struct of `tag` (int8) and its alternatives by position; only the
    tagged alternative may be non-null. Raises KeyError for a kind outside the specification.
    """
    type_ = types[column]
    if type_.kind in _PRIMITIVES:
        return _PRIMITIVES[type_.kind]
    children = [physical_type(types, child) for child in type_.subtypes]
    numbered = [(str(position), child) for position, child in enumerate(children)]
    match Kind(type_.kind):
        case Kind.LIST:
            return pa.large_list(children[0])
        case Kind.MAP:
            return pa.large_list(pa.struct([("key", children[0]), ("value", children[1])]))
        case Kind.STRUCT:
            return pa.struct(numbered)
        case Kind.UNION:
            return pa.struct([("tag", pa.int8()), *numbered])
        case kind:
            raise KeyError(kind)
