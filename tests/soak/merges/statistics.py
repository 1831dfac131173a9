"""Column statistics by the definition, value by value, for comparing with those of a file."""

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal
from functools import reduce
from typing import Any

import pyarrow as pa

from compaction_operator.orc.spec import Kind, Type
from tests.unit.orc.meaning import meaning

_LONG = range(-(2**63), 2**63)
_EXACT = Context(prec=200)
_MOST_DIGITS = 38
_FIRST_OTHER_BYTE = 0xEE
"""From this byte on, UTF-8 and Java's strings may have different orders."""


def statistics_problem(kind: Kind, array: pa.Array, statistics: Any) -> str | None:
    """Return what is wrong with the ColumnStatistics of these values, or None."""
    values = [value for value in array.to_pylist() if value is not None]
    if (statistics.number_of_values, statistics.has_null) != (len(values), len(values) < len(array)):
        return f"{len(values)} values of {len(array)} rows, not {statistics.number_of_values}"
    check = _CHECKS.get(kind)
    problem = check(statistics, values) if check else None
    return problem and f"{problem}: {str(statistics).split()} of {sorted(values, key=repr)[:20]}"


def _of_integers(statistics: Any, values: list[int]) -> str | None:
    return _integers(statistics.int_statistics, values, summed=True)


def _of_dates(statistics: Any, values: list[int]) -> str | None:
    return _integers(statistics.date_statistics, values, summed=False)


def _integers(found: Any, values: list[int], *, summed: bool) -> str | None:
    if values and (found.minimum, found.maximum) != (min(values), max(values)):
        return "bounds"
    known = summed and found.HasField("sum")
    if known and found.sum != sum(values):
        return "sum"
    # NB: added row by row the sum may overflow although it ends within 64 bits
    wild = sum(map(abs, values)) not in _LONG
    return "no sum" if summed and not known and not wild else None


def _of_reals(statistics: Any, values: list[float]) -> str | None:
    """The bounds must be unknown beside a NaN, and may be where the sum is one."""
    known = statistics.HasField("double_statistics")
    if any(math.isnan(value) for value in values):
        return "bounds in spite of a NaN" if known else None
    if not known and {math.inf, -math.inf} <= set(values):
        return None
    found, order = statistics.double_statistics, sorted(values, key=_zeros_apart)
    same = not values or [repr(found.minimum), repr(found.maximum)] == [repr(order[0]), repr(order[-1])]
    return None if same else "bounds"


def _zeros_apart(value: float) -> tuple[float, float]:
    return value, math.copysign(1.0, value)


def _of_texts(statistics: Any, values: list[bytes]) -> str | None:
    """The bounds may be unknown if a reader might order them otherwise, or cannot read them."""
    if not statistics.HasField("string_statistics"):
        return None if any(max(value, default=0) >= _FIRST_OTHER_BYTE for value in values) else "no bounds"
    found = statistics.string_statistics
    bounds = [text.encode() if isinstance(text, str) else text for text in (found.minimum, found.maximum)]
    if values and bounds != [min(values), max(values)]:
        return "bounds"
    java = [value.decode(errors="replace").encode("utf-16-be") for value in values]
    low, high = (bound.decode().encode("utf-16-be") for bound in bounds)
    if values and not low <= min(java) <= max(java) <= high:
        return "bounds in Java's order"
    return None if found.sum == sum(map(len, values)) else "sum"


def _of_binaries(statistics: Any, values: list[bytes]) -> str | None:
    return None if statistics.binary_statistics.sum == sum(map(len, values)) else "sum"


def _of_booleans(statistics: Any, values: list[bool]) -> str | None:
    return None if list(statistics.bucket_statistics.count) == [sum(values)] else "count"


def _of_timestamps(statistics: Any, values: list[Any]) -> str | None:
    """A reader compares milliseconds: all times must lie between the bounds, and no closer ones may exist."""
    found, times = statistics.timestamp_statistics, [_meaning(Kind.TIMESTAMP, value) for value in values]
    expected = [min(times) // 10**6, -(-max(times) // 10**6)] if times else [0, 0]
    return None if [found.minimum_utc, found.maximum_utc] == expected else f"bounds, not {expected}"


def _of_decimals(statistics: Any, values: list[Any]) -> str | None:
    found, numbers = statistics.decimal_statistics, [_meaning(Kind.DECIMAL, value) for value in values]
    bounds = (found.minimum, found.maximum)
    if numbers and tuple(map(Decimal, bounds)) != (min(numbers), max(numbers)):
        return "bounds"
    if found.HasField("sum"):
        return None if Decimal(found.sum) == _total(numbers) else "sum"
    return None if _longest_sum(numbers) > _MOST_DIGITS else "no sum"


def _longest_sum(numbers: Sequence[Decimal]) -> int:
    """Return how many digits the sum of some of the numbers may have: a part of the file may be without a sum."""
    whole = len(str(int(_total(number.copy_abs() for number in numbers))))
    return whole + max((-int(number.as_tuple().exponent) for number in numbers), default=0)


def _total(numbers: Iterable[Decimal]) -> Decimal:
    return reduce(_EXACT.add, numbers, Decimal(0))


def _meaning(kind: Kind, value: Any) -> Any:
    return meaning([Type(kind=kind)], 0, value)


_CHECKS: dict[Kind, Callable[[Any, list[Any]], str | None]] = {
    **dict.fromkeys((Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG), _of_integers),
    Kind.DATE: _of_dates,
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), _of_reals),
    **dict.fromkeys((Kind.STRING, Kind.CHAR, Kind.VARCHAR), _of_texts),
    Kind.BINARY: _of_binaries,
    Kind.BOOLEAN: _of_booleans,
    **dict.fromkeys((Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT), _of_timestamps),
    Kind.DECIMAL: _of_decimals,
}
