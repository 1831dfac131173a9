"""Random columns and their physical values, extreme ones among them."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa

from compaction_operator.orc.spec import Kind, physical_type
from tests.unit.orc.columns import (
    BITS,
    LONG,
    PRIMITIVE_SHAPES,
    STRING,
    STRINGS,
    TIMESTAMPS,
    Shape,
    random_value,
    tree,
)
from tests.unit.orc.columns import decimal as physical_decimal
from tests.unit.orc.columns import timestamp as physical_timestamp

_EPOCH = 1_420_070_400
"""2015 in seconds since 1970: the base of a stream's seconds."""

_NESTED: list[Shape] = [
    (Kind.LIST, (LONG,)),
    (Kind.LIST, ((Kind.STRUCT, ((Kind.DECIMAL, ()), (Kind.TIMESTAMP, ()))),)),
    (Kind.MAP, (STRING, (Kind.DOUBLE, ()))),
    (Kind.STRUCT, (LONG, (Kind.STRUCT, (STRING, (Kind.BOOLEAN, ()))))),
    (Kind.UNION, (LONG, STRING)),
]
_SECONDS = (-_EPOCH, -_EPOCH - 1, -_EPOCH - 2, -_EPOCH + 1, -_EPOCH - 62_135_596_800, 251_983_699_199, 0, -1)
_NANOS = (0, 1, 999, 1_000, 999_999, 1_000_000, 1_000_001, 500_000_000, 999_999_999)
_TEXTS = (b"", b"a", b"x" * 1025, "Grüße".encode(), "🙂".encode(), "\uffff".encode(), "\ue000".encode(), b"\xff\xc3")
_REALS = (0.0, -0.0, float("nan"), float("inf"), float("-inf"), 5e-324, -1.5)
_UNSCALED = (0, 1, -1, 10**38 - 1, -(10**38) + 1, 2**63, -(2**63) - 1, 2**63 - 1, 10**18)
_DAYS = (-719_162, -141_428, -141_427, -1, 0, 2_932_896)


def random_shapes(random: Random) -> list[Shape]:
    """Return the types of one to four columns."""
    return [random.choice(_NESTED if random.random() < 0.2 else PRIMITIVE_SHAPES) for _ in range(random.randint(1, 4))]


def random_rows(shapes: Sequence[Shape], count: int, random: Random) -> list[tuple[Any, ...]]:
    """Return rows of few distinct values, of many, or of numbers that ascend, so that every encoding is met."""
    columns = [_column(shape, count, random) for shape in shapes]
    return list(zip(*columns, strict=True))


def _column(shape: Shape, count: int, random: Random) -> list[Any]:
    if shape[0] in (Kind.INT, Kind.LONG, Kind.DATE) and random.random() < 0.2:
        first, step = random.randint(-1000, 1000), random.randint(-3, 3)
        return [first + step * number for number in range(count)]
    pool = [_value(shape, random) for _ in range(random.choice([1, 3, 30, min(count, 1000)]))]
    held = pa.array(pool, physical_type(tree(shape), 1)).to_pylist()  # as a file can hold it: a float is shorter
    return [random.choice(held) for _ in range(count)]


def _value(shape: Shape, random: Random) -> Any:
    kind = shape[0]
    if random.random() < 0.7 or kind in (Kind.BOOLEAN, Kind.LIST, Kind.MAP, Kind.STRUCT, Kind.UNION):
        return random_value(shape, random)
    if kind in BITS and kind is not Kind.DATE:
        half = 1 << (BITS[kind] - 1)
        return random.choice((-half, half - 1, half // 2, -1, 0))
    if kind is Kind.DECIMAL:
        return physical_decimal(random.choice(_UNSCALED), random.choice((0, 2, 18, 38)))
    if kind in TIMESTAMPS:
        return physical_timestamp(random.choice(_SECONDS), random.choice(_NANOS))
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return random.choice(_REALS)
    return random.choice(_DAYS if kind is Kind.DATE else _TEXTS if kind in STRINGS else (b"", bytes(300)))
