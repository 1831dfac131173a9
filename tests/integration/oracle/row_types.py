"""Random row types of Hive and random values of them, extreme ones among them, in the oracle's JSON form."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

Make = Callable[[Random], Any]
"""Makes one value that is not null."""

SIZED = ("char", "varchar", "decimal")
INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
TEXTS = ("", " ", "a", "Grüße", "🙂🙃", "trailing  ", "nul\0l", "x" * 300, "\ud7ff\ue000\uffff")
# NB: never 0.0 beside -0.0: ORC's readers call a batch of both repeated, and give the first of them for all.
REALS = ("-0.0", 1.0, -1.5, "NaN", "Infinity", "-Infinity", "NaN:7ff8000000000001", "NaN:fff8000000000000")
DAYS = ("0001-01-01", "1582-10-04", "1582-10-05", "1582-10-14", "1582-10-15", "1970-01-01", "1969-12-31", "9999-12-31")
TIMES = ("0001-01-01T00:00:00", "1677-09-21T00:12:43.145224191", "2262-04-11T23:47:16.854775808", "9999-12-31T23:59:59")
FRACTIONS = (0, 1, 10, 1_000, 999_999, 1_000_000, 123_456_789, 500_000_000, 999_999_999)


@dataclass(frozen=True)
class ColumnType:
    """A type as Hive writes it, and how to make a value of it."""

    name: str
    make: Make

    def value(self, rng: Random, *, nulls: float = 0.15) -> Any:
        """Return a value, or None with the probability `nulls`."""
        return None if rng.random() < nulls else self.make(rng)


def random_type(rng: Random, *, depth: int = 2) -> ColumnType:
    """Return a type that Hive stores in ORC and reads again, nested at most `depth` deep.

    NB: `timestamp with local time zone` is none: 3.1.3 cannot write it to ORC, 4.0.1 cannot read what it writes.
    """
    if depth == 0 or rng.random() < 0.7:
        return _primitive(rng)
    inner = [random_type(rng, depth=depth - 1) for _ in range(rng.randint(1, 3))]
    return rng.choice([_array, _map, _struct, _union])(inner, rng)


def widened(type_: ColumnType, rng: Random) -> ColumnType | None:
    """Return a type that every value of this one fits into, as ALTER TABLE CHANGE COLUMN allows; None for no such.

    NB: float to double is refused: Hive's versions differ about the values.
    """
    base, _, arguments = type_.name.partition("(")
    sizes = [int(number) for number in arguments.rstrip(")").split(",")] if base in SIZED else []
    if base in INTEGERS and base != "bigint":
        wider = [name for name, bits in INTEGERS.items() if bits > INTEGERS[base]]
        return _integer(rng.choice(wider))
    if base in SIZED[:2]:
        return _text(base, sizes[0] + rng.randint(1, 20))
    if base == "decimal" and sizes[0] < 38:
        growth = rng.randint(1, 38 - sizes[0])
        return _decimal(sizes[0] + growth, sizes[1] + rng.choice([0, rng.randint(0, growth)]))
    return None


def _primitive(rng: Random) -> ColumnType:
    kinds: list[Callable[[], ColumnType]] = [
        lambda: ColumnType("boolean", lambda rng: rng.random() < 0.5),
        lambda: _integer(rng.choice(list(INTEGERS))),
        lambda: _integer(rng.choice(list(INTEGERS))),
        lambda: _real(rng.choice(["float", "double"])),
        lambda: _random_decimal(rng),
        lambda: ColumnType("string", _string),
        lambda: _text(rng.choice(["char", "varchar"]), rng.randint(1, 12)),
        lambda: ColumnType("binary", lambda rng: base64.b64encode(rng.randbytes(rng.choice([0, 1, 7, 40]))).decode()),
        lambda: ColumnType("date", _date),
        lambda: ColumnType("timestamp", _timestamp),
    ]
    return rng.choice(kinds)()


def _integer(name: str) -> ColumnType:
    high = 2 ** (INTEGERS[name] - 1)

    def make(rng: Random) -> int:
        near = rng.randint(-min(high, 200), min(high - 1, 200))
        extremes = (-high, high - 1, 0)
        return near if rng.random() < 0.5 else rng.choice((*extremes, rng.randrange(-high, high)))

    return ColumnType(name, make)


def _real(name: str) -> ColumnType:
    least = 1.401298464324817e-45 if name == "float" else 5e-324

    def make(rng: Random) -> Any:
        return rng.choice([*REALS, least, rng.randint(1, 1000) / -8, rng.uniform(-1e30, 1e30)])

    return ColumnType(name, make)


def _random_decimal(rng: Random) -> ColumnType:
    precision = rng.randint(1, 38)
    return _decimal(precision, rng.randint(0, precision))


def _decimal(precision: int, scale: int) -> ColumnType:
    def make(rng: Random) -> str:
        most = 10**precision - 1
        unscaled = rng.choice(
            [0, 1, -1, most, -most, rng.randint(-most, most), rng.randint(-min(999, most), min(999, most))]
        )
        digits = str(abs(unscaled)).rjust(scale + 1, "0")
        whole = digits[: len(digits) - scale] + ("." + digits[-scale:] if scale else "")
        return ("-" if unscaled < 0 else "") + whole

    return ColumnType(f"decimal({precision},{scale})", make)


def _string(rng: Random) -> Any:
    if rng.random() < 0.03:
        return {"bytes": base64.b64encode(b"\xff\xc3" + rng.randbytes(3)).decode()}
    return rng.choice([*TEXTS, f"value-{rng.randint(0, 50)}", rng.randbytes(6).hex()])


def _text(name: str, length: int) -> ColumnType:
    def make(rng: Random) -> str:
        text: str = rng.choice(["", "a", "ab ", "  x", "ü" * length, "z" * length, rng.randbytes(3).hex()])
        return text[:length]

    return ColumnType(f"{name}({length})", make)


def _date(rng: Random) -> str:
    between = date.min + timedelta(days=rng.randrange((date.max - date.min).days))
    return rng.choice([*DAYS, between.isoformat(), f"2024-02-{rng.randint(1, 29):02}"])


def _timestamp(rng: Random) -> str:
    between = datetime(1, 1, 2) + timedelta(seconds=rng.randrange(315_000_000_000))
    whole = rng.choice([*TIMES, between.isoformat(), f"1969-12-31T23:59:{rng.randint(50, 58)}"])
    return whole if "." in whole else f"{whole}.{rng.choice(FRACTIONS):09}"


def _array(inner: list[ColumnType], _: Random) -> ColumnType:
    element = inner[0]
    return ColumnType(f"array<{element.name}>", lambda rng: [element.value(rng) for _ in range(rng.randint(0, 4))])


def _map(inner: list[ColumnType], rng: Random) -> ColumnType:
    key = rng.choice([_integer("int"), ColumnType("string", lambda rng: f"k{rng.randint(0, 9)}")])
    value = inner[0]

    def make(rng: Random) -> list[list[Any]]:
        keys = {key.value(rng, nulls=0.0) for _ in range(rng.randint(0, 4))}
        return [[one, value.value(rng)] for one in sorted(keys)]

    return ColumnType(f"map<{key.name},{value.name}>", make)


def _struct(inner: list[ColumnType], _: Random) -> ColumnType:
    fields = ",".join(f"f{i}:{field.name}" for i, field in enumerate(inner))
    return ColumnType(f"struct<{fields}>", lambda rng: [field.value(rng) for field in inner])


def _union(inner: list[ColumnType], _: Random) -> ColumnType:
    def make(rng: Random) -> dict[str, Any]:
        tag = rng.randrange(len(inner))
        return {"tag": tag, "value": inner[tag].value(rng)}

    return ColumnType(f"uniontype<{','.join(one.name for one in inner)}>", make)
