"""Columns of any type for the tests of reading and writing: type trees, arbitrary and random values, expectations."""

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from compaction_operator.orc.file import OrcDraft, OrcWriter, StripeLayout, StripeReader, read_tail
from compaction_operator.orc.spec import Compression, Kind, Type, physical_type

Shape = tuple[Kind, tuple[Any, ...]]
"""A type as its kind and the shapes below it."""

BITS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INT: 32, Kind.DATE: 32, Kind.LONG: 64}
STRINGS = (Kind.STRING, Kind.CHAR, Kind.VARCHAR)
TIMESTAMPS = (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT)
COMPOUND = (Kind.LIST, Kind.MAP, Kind.STRUCT, Kind.UNION)
PRIMITIVE = tuple(kind for kind in Kind if kind not in COMPOUND)
PRIMITIVE_SHAPES: list[Shape] = [(kind, ()) for kind in PRIMITIVE]
LONG: Shape = (Kind.LONG, ())
STRING: Shape = (Kind.STRING, ())


def tree(*shapes: Shape) -> list[Any]:
    """The type tree of a file with these columns, named c0, c1, ..."""
    types: list[Any] = []
    _append(types, (Kind.STRUCT, shapes))
    return types


def _append(types: list[Any], shape: Shape) -> None:
    kind, below = shape
    type_ = Type(kind=kind)
    types.append(type_)
    for number, child in enumerate(below):
        type_.subtypes.append(len(types))
        if kind is Kind.STRUCT:
            type_.field_names.append(f"c{number}")
        _append(types, child)
    if kind in (Kind.CHAR, Kind.VARCHAR):
        type_.maximum_length = 255
    if kind is Kind.DECIMAL:
        type_.precision, type_.scale = 38, 18


def shapes(leaves: int = 6) -> st.SearchStrategy[Shape]:
    """Any type of a column."""

    def nest(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
        def of(kind: Kind, least: int, most: int) -> st.SearchStrategy[Shape]:
            return st.tuples(st.just(kind), st.lists(inner, min_size=least, max_size=most).map(tuple))

        return of(Kind.LIST, 1, 1) | of(Kind.MAP, 2, 2) | of(Kind.STRUCT, 1, 3) | of(Kind.UNION, 1, 3)

    return st.recursive(st.sampled_from(PRIMITIVE_SHAPES), nest, max_leaves=leaves)


def values(shape: Shape) -> st.SearchStrategy[Any]:
    """Any value of a type, nulls too, as `pa.array` takes it for the physical type."""
    return st.none() | _some(shape)


def _some(shape: Shape) -> st.SearchStrategy[Any]:
    kind, below = shape
    if kind is Kind.LIST:
        return st.lists(values(below[0]), max_size=3)
    if kind is Kind.MAP:
        return st.lists(st.fixed_dictionaries({"key": values(below[0]), "value": values(below[1])}), max_size=3)
    if kind is Kind.STRUCT:
        return st.fixed_dictionaries({str(number): values(child) for number, child in enumerate(below)})
    if kind is Kind.UNION:
        tags = st.integers(0, len(below) - 1)
        return tags.flatmap(lambda tag: st.fixed_dictionaries({"tag": st.just(tag), str(tag): values(below[tag])}))
    return _SCALARS[kind]


def decimal(unscaled: int, scale: int) -> dict[str, Any]:
    number, written = (unscaled << 1) ^ (-1 if unscaled < 0 else 0), bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return {"value": bytes([*written, number]), "scale": scale}


def timestamp(seconds: int, nanos: int) -> dict[str, int]:
    """Nanoseconds as in the stream: trailing zeros, when there are two or more, are cut off and counted."""
    zeros = len(digits := str(nanos)) - len(digits.rstrip("0")) if nanos else 0
    encoded = nanos << 3 if zeros < 2 else (nanos // 10**zeros) << 3 | (zeros - 1)
    return {"seconds": seconds, "nanos": encoded}


_TEXTS = st.text(max_size=5).map(lambda text: text.encode(errors="replace"))
_SCALARS: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.BOOLEAN: st.booleans(),
    Kind.FLOAT: st.floats(width=32),
    Kind.DOUBLE: st.floats(),
    Kind.BINARY: st.binary(max_size=5),
    Kind.DECIMAL: st.builds(decimal, st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38)),
    **dict.fromkeys(STRINGS, _TEXTS),
    **dict.fromkeys(TIMESTAMPS, st.builds(timestamp, st.integers(-(10**12), 10**12), st.integers(0, 10**9 - 1))),
    **{kind: st.integers(-1 << (bits - 1), (1 << (bits - 1)) - 1) for kind, bits in BITS.items()},
}


def random_value(shape: Shape, source: random.Random) -> Any:
    """Some value of a type; of those that repeat, go up and down, and are extreme, so that all encodings are met."""
    if source.random() < 0.1:
        return None
    kind, below = shape
    if kind is Kind.LIST:
        return [random_value(below[0], source) for _ in range(source.choice((0, 1, 2, 5)))]
    if kind is Kind.MAP:
        entries = range(source.choice((0, 1, 3)))
        return [{"key": random_value(below[0], source), "value": random_value(below[1], source)} for _ in entries]
    if kind is Kind.STRUCT:
        return {str(number): random_value(child, source) for number, child in enumerate(below)}
    if kind is Kind.UNION:
        tag = source.randrange(len(below))
        return {"tag": tag, str(tag): random_value(below[tag], source)}
    return _random_primitive(kind, source)


def _random_primitive(kind: Kind, source: random.Random) -> Any:
    if kind is Kind.BOOLEAN:
        return source.random() < 0.3
    if kind in BITS:
        half = 1 << (BITS[kind] - 1)
        few = source.random() < 0.03
        return source.randrange(-half, half) if few else source.choice((7, 7, source.randrange(min(half, 500))))
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return source.choice((0.0, -0.0, 1.5, float(source.randrange(1000)), float("inf")))
    if kind is Kind.DECIMAL:
        return decimal(source.randrange(-(10 ** source.choice((2, 17, 20))), 10**17), source.choice((0, 2, 18)))
    if kind in TIMESTAMPS:
        return timestamp(source.randrange(-(10**9), 10**9), source.choice((0, 10**8, 123_000_000, 123_456_789)))
    return f"{source.choice(('same', 'other', source.randrange(10**6)))}".encode()


def arrays_of(types: Sequence[Any], rows: Sequence[Sequence[Any]]) -> dict[int, pa.Array]:
    """Rows as the columns below the root, by column id."""
    columns = list(zip(*rows, strict=True)) or [()] * len(types[0].subtypes)
    return {
        child: pa.array(column, physical_type(types, child))
        for child, column in zip(types[0].subtypes, columns, strict=True)
    }


def random_arrays(types: Sequence[Any], below: Sequence[Shape], count: int, seed: int) -> dict[int, pa.Array]:
    source = random.Random(seed)
    return arrays_of(types, [[random_value(shape, source) for shape in below] for _ in range(count)])


def layout(types: Sequence[Any], **more: Any) -> StripeLayout:
    values_: dict[str, Any] = {"compression": Compression.ZLIB, "block_size": 65536, "calendar": 0} | more
    return StripeLayout(types=types, **({"bloom_filters": {}} | values_))


def write(path: Path, layout_: StripeLayout, *stripes: Mapping[int, pa.Array]) -> Path:
    """Write a file of stripes, each given by its columns."""
    with OrcWriter(str(path), layout_) as writer:
        for columns in stripes:
            add_stripe(writer, columns)
        writer.finish({})
    return path


def add_stripe(writer: OrcDraft, columns: Mapping[int, pa.Array]) -> None:
    with writer.stripe(len(next(iter(columns.values())))) as stripe:
        for column, array in columns.items():
            stripe.add(column, array)


def read(path: Path) -> Iterator[dict[int, pa.Array]]:
    """The columns below the root of each stripe."""
    tail = read_tail(str(path))
    with path.open("rb") as file:
        for index in range(len(tail.footer.stripes)):
            stripe = StripeReader(file, tail, index)
            yield {column: stripe.column(column) for column in tail.types[0].subtypes}


def same_bits(array: pa.Array, other: pa.Array) -> bool:
    """Whether two arrays are equal, NaN and the sign of zero too."""
    return array.type == other.type and repr(array.to_pylist()) == repr(other.to_pylist())
