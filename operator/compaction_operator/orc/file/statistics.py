"""Column statistics of ORC indexes and footers: equal to those of ORC's Java writer, or safely wider.

Readers prune by statistics. ORC 1.5 (Hive 3.1: RecordReaderImpl.evaluatePredicateProto) takes a typed message without
a minimum to mean "all values are null" and skips the rows. It reads the rows only if the typed message is absent.
Therefore unknown bounds omit the whole typed message.
"""

import re
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from compaction_operator.orc import kernels
from compaction_operator.orc.spec import WORDS, Integers, Kind
from compaction_operator.orc.spec.interpret import MAX_DECIMAL_DIGITS, decimals, milliseconds, offsets_of
from compaction_operator.orc.spec.messages import ColumnStatistics

_LONG = range(-(2**63), 2**63)
_INT = range(-(2**31), 2**31)
_EXACT = Context(prec=4 * MAX_DECIMAL_DIGITS)
_BoundsAndSum = tuple[Decimal, Decimal, Decimal]
_PLAIN_DECIMAL = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,38})?", re.ASCII)

# Writers order strings by their bytes, Java's readers by UTF-16. In UTF-16, U+E000 to U+FFFF (UTF-8 lead bytes EE, EF)
# follow the four-byte characters (lead bytes F0 to F4). This is a table for bytes.translate.
_FOUR_BYTES = 0xF0
_JAVA_ORDER = bytes.maketrans(b"\xee\xef", b"\xfe\xff")

_FIELDS = {
    Kind.BOOLEAN: "bucket_statistics",
    **dict.fromkeys((Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG), "int_statistics"),
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), "double_statistics"),
    **dict.fromkeys((Kind.STRING, Kind.CHAR, Kind.VARCHAR), "string_statistics"),
    Kind.BINARY: "binary_statistics",
    Kind.DATE: "date_statistics",
    Kind.DECIMAL: "decimal_statistics",
    **dict.fromkeys((Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT), "timestamp_statistics"),
}


class _UnknownError(Exception):
    """No statistics are known to be safe for every reader."""


def column_statistics(types: Sequence[Any], column: int, array: pa.Array) -> Any:
    """Return the ColumnStatistics of a slice of one column, without its children.

    `array` holds the slice in `physical_type(types, column)`, or as `WORDS`, without rows whose parent is null. If it
    has no values, the typed message has no minimum and maximum, as in Java. The typed message is absent for kinds that
    have none, and if no bound is safe:

    - for floating point numbers with a NaN: ORC 1.5 ignores a NaN sum, and skips rows with values <> x if minimum and
      maximum are x;
    - for strings whose byte-order bounds are not bounds in the order of Java's strings (emoji beside full-width
      forms), or are not UTF-8: a reader compares in Java's order and would skip rows that it found before the merge;
    - for decimals of more than 38 digits, dates beyond 32 bits, and timestamps that ORC's writer cannot write.

    The sum of integers is absent if it overflows 64 bits, the sum of decimals if it has more than 38 digits.
    Timestamps are in milliseconds of a writer in UTC, with the maximum rounded up. -0.0 is less than 0.0.
    """
    result = ColumnStatistics(number_of_values=len(array) - array.null_count, has_null=array.null_count > 0)
    field = _FIELDS.get(Kind(types[column].kind))
    if field:
        _fill(result, field, _FUNCTIONS[field][0], array.drop_null() if array.null_count else array)
    return result


def merge(parts: Sequence[Any]) -> Any:
    """Merge ColumnStatistics: those of row groups into a stripe's, those of stripes into a file's.

    The typed message is absent if a part lacks it, or if a part has values but no bounds: the result is never
    narrower than the parts. Lower and upper bounds (ORC 1.6, long strings) replace a missing minimum and maximum.
    Raises ValueError without parts, because the type is then unknown.
    """
    if not parts:
        raise ValueError("no statistics to merge")
    result = ColumnStatistics(
        number_of_values=sum(part.number_of_values for part in parts),
        has_null=any(part.has_null or not part.HasField("has_null") for part in parts),
    )
    field = next((field for field in _FUNCTIONS if parts[0].HasField(field)), None)
    if field and all(part.HasField(field) for part in parts):
        known = [getattr(part, field) for part in parts if part.number_of_values]
        _fill(result, field, _FUNCTIONS[field][1], known)
    return result


def were_collected(stripe: Any, rows: int) -> bool:
    """Return whether StripeStatistics describe the stripe's rows: the root column must count all of them.

    Hive 3.1's minor compaction writes statistics of zero values, which look like statistics of nulls.
    """
    return bool(stripe.column_stats) and int(stripe.column_stats[0].number_of_values) == rows


def _fill(result: Any, field: str, fill: Callable[[Any, Any], None], source: Any) -> None:
    """Let `fill` write the typed message from its source; omit the message if `fill` raises _UnknownError."""
    typed = getattr(result, field)
    typed.SetInParent()
    try:
        fill(typed, source)
    except _UnknownError:
        result.ClearField(field)


def _integers_of(typed: Any, values: pa.Array) -> None:
    numbers = np.ascontiguousarray(values.to_numpy(), np.int64)
    least, greatest, total = _bounds_and_sum(numbers)
    if len(numbers):
        typed.minimum, typed.maximum = least, greatest
    if total is not None:
        typed.sum = total


def _bounds_and_sum(numbers: Integers) -> tuple[int, int, int | None]:
    """Return the least and the greatest number, 0 without any, and their `_sum`."""
    if kernels.compiled:
        least, greatest, total = kernels.compiled.integer_statistics(numbers)
        return least, greatest, total
    return (int(numbers.min()), int(numbers.max()), _sum(numbers)) if len(numbers) else (0, 0, 0)


def _sum(numbers: Integers) -> int | None:
    """Return the sum, or None if adding in order, as Java does, overflows 64 bits."""
    sums = np.cumsum(numbers)
    before = np.concatenate([np.zeros(1, np.int64), sums[:-1]])
    same_sign = (numbers >= 0) == (before >= 0)
    if np.any(same_sign & ((sums >= 0) != (before >= 0))):
        return None
    return int(sums[-1])


def _doubles_of(typed: Any, values: pa.Array) -> None:
    numbers = values.to_numpy().astype(np.float64, copy=False)
    if np.any(np.isnan(numbers)):
        raise _UnknownError
    with np.errstate(invalid="ignore", over="ignore"):
        # NB: cumsum adds in order, as Java does; numpy's sum adds pairwise and differs in the last bits
        typed.sum = 0.0 + float(np.cumsum(numbers)[-1]) if len(numbers) else 0.0
    if len(numbers):
        typed.minimum, typed.maximum = _signed(numbers.min(), -1, numbers), _signed(numbers.max(), 1, numbers)


def _signed(bound: np.float64, sign: int, numbers: npt.NDArray[np.float64]) -> float:
    """Return the bound; a zero gets the given sign if any zero has it, as readers order -0.0 below 0.0."""
    if bound != 0:
        return float(bound)
    zeros = np.copysign(1.0, numbers[numbers == 0])
    return float(np.copysign(0.0, zeros.min() if sign < 0 else zeros.max()))


def _strings_of(typed: Any, values: pa.Array) -> None:
    if values.type == WORDS:
        found, counts = np.unique(values.indices.to_numpy(), return_counts=True)
        words = values.dictionary.take(pa.array(found))
        _strings_of(typed, words)
        if len(values):
            typed.sum = int((np.diff(offsets_of(words)) * counts).sum())
    elif len(values):
        low, high = _least_and_greatest(values)
        moved = _in_java_order(values)
        if moved is not None and (_java_order(low), _java_order(high)) != _least_and_greatest(moved):
            raise _UnknownError
        _set_text_bounds(typed, low, high)
        typed.sum = _length(values)


def _least_and_greatest(values: pa.Array) -> tuple[bytes, bytes]:
    """Return the bounds of one or more large binaries in the order of their bytes."""
    if kernels.compiled:
        least, greatest = kernels.compiled.string_bounds(values.buffers()[2] or b"", offsets_of(values))
        return values[least].as_py(), values[greatest].as_py()
    bounds = pc.min_max(values)
    return bounds["min"].as_py(), bounds["max"].as_py()


def _in_java_order(values: pa.Array) -> pa.Array | None:
    """Return the strings translated for Java's order, or None if that order equals the order of the bytes."""
    offsets = offsets_of(values)
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    if data.max(initial=0) < _FOUR_BYTES:
        return None
    moved = np.frombuffer(_JAVA_ORDER, np.uint8)[data]
    buffers = [None, pa.py_buffer(offsets - offsets[0]), pa.py_buffer(moved)]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def _java_order(text: bytes) -> bytes:
    return text.translate(_JAVA_ORDER)


def _set_text_bounds(typed: Any, low: bytes, high: bytes) -> None:
    try:
        low.decode()
        high.decode()
    except UnicodeDecodeError:
        # Java would decode it as U+FFFD, which has another place in the order
        raise _UnknownError from None
    typed.minimum, typed.maximum = low, high


def _binaries_of(typed: Any, values: pa.Array) -> None:
    typed.sum = _length(values)


def _length(values: pa.Array) -> int:
    offsets = offsets_of(values)
    return int(offsets[-1] - offsets[0])


def _booleans_of(typed: Any, values: pa.Array) -> None:
    typed.count.append(values.true_count)


def _dates_of(typed: Any, values: pa.Array) -> None:
    if len(values):
        days = values.to_numpy()
        if int(days.min()) not in _INT or int(days.max()) not in _INT:
            raise _UnknownError
        typed.minimum, typed.maximum = int(days.min()), int(days.max())


def _timestamps_of(typed: Any, values: pa.Array) -> None:
    found = _timestamp_bounds(values)
    if found is None:
        raise _UnknownError
    if len(values):
        # NB: with the maximum rounded up, a reader in milliseconds neither mistakes the range for a single value nor
        # misses a fraction
        typed.minimum_utc, typed.maximum_utc = found


def _timestamp_bounds(values: pa.Array) -> tuple[int, int] | None:
    """Return the least timestamp in milliseconds and the greatest rounded up, 0 without any, as `milliseconds` does."""
    if kernels.compiled:
        seconds, nanos = (values.field(name).to_numpy() for name in ("seconds", "nanos"))
        bounds: tuple[int, int] | None = kernels.compiled.timestamp_bounds(seconds, nanos)
        return bounds
    found = milliseconds(values)
    if found is None or not len(values):
        return found and (0, 0)
    times, rounded = found
    return int(times.min()), int((times + rounded).max())


def _decimals_of(typed: Any, values: pa.Array) -> None:
    found = _small_decimals(values) if kernels.compiled else None
    if found is None:
        arrays = decimals(values)
        if arrays is None:
            raise _UnknownError
        found = [_decimal_bounds_and_sum(array) for array in arrays]
    if found:
        typed.minimum = _plain(min(least for least, _, _ in found))
        typed.maximum = _plain(max(greatest for _, greatest, _ in found))
    _set_decimal_sum(typed, [total for _, _, total in found])


def _small_decimals(values: pa.Array) -> list[_BoundsAndSum] | None:
    """Return least, greatest and sum by scale; None if an unscaled value has more than 64 bits, or a scale is wrong."""
    unscaled = values.field("value")
    scales = np.ascontiguousarray(values.field("scale").to_numpy(), np.int64)
    assert kernels.compiled
    found = kernels.compiled.decimal_statistics(unscaled.buffers()[2] or b"", offsets_of(unscaled), scales)
    return found and [
        (_scaled(least, scale), _scaled(greatest, scale), _scaled((high << 64) + low, scale))
        for scale, least, greatest, high, low in found
    ]


def _scaled(unscaled: int, scale: int) -> Decimal:
    return _EXACT.scaleb(Decimal(unscaled), -scale)


def _decimal_bounds_and_sum(array: pa.Array) -> _BoundsAndSum:
    bounds = pc.min_max(array)
    # 76 digits hold the sum of any number of 38-digit values
    total = pc.sum(array.cast(pa.decimal256(2 * MAX_DECIMAL_DIGITS, array.type.scale))).as_py()
    return bounds["min"].as_py(), bounds["max"].as_py(), total


def _set_decimal_sum(typed: Any, addends: Sequence[Decimal]) -> None:
    text = _plain(reduce(_EXACT.add, addends, Decimal(0)))
    if sum(character.isdigit() for character in text.lstrip("-0.")) <= MAX_DECIMAL_DIGITS:
        typed.sum = text


def _plain(number: Decimal) -> str:
    """Return a decimal as HiveDecimal writes it."""
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _merge_integers(typed: Any, parts: Sequence[Any]) -> None:
    _merge_bounds(typed, parts)
    total = sum(part.sum for part in parts)
    if all(part.HasField("sum") for part in parts) and total in _LONG:
        typed.sum = total


def _merge_doubles(typed: Any, parts: Sequence[Any]) -> None:
    if any(np.isnan([part.minimum, part.maximum, part.sum]).any() or not part.HasField("sum") for part in parts):
        raise _UnknownError
    total = 0.0
    for part in parts:
        total += part.sum
    typed.sum = total
    _merge_bounds(typed, parts, key=_zeros_apart)


def _zeros_apart(number: float) -> tuple[float, float]:
    return number, float(np.copysign(1.0, number))


def _merge_strings(typed: Any, parts: Sequence[Any]) -> None:
    if not parts:
        return
    lows = [_bound(part, "minimum", "lower_bound") for part in parts]
    highs = [_bound(part, "maximum", "upper_bound") for part in parts]
    low, high = min(lows), max(highs)
    if low != min(lows, key=_java_order) or high != max(highs, key=_java_order):
        raise _UnknownError
    _set_text_bounds(typed, low, high)
    if all(part.HasField("sum") for part in parts):
        typed.sum = sum(part.sum for part in parts)


def _merge_binaries(typed: Any, parts: Sequence[Any]) -> None:
    if not all(part.HasField("sum") for part in parts):
        raise _UnknownError
    typed.sum = sum(part.sum for part in parts)


def _merge_booleans(typed: Any, parts: Sequence[Any]) -> None:
    if not all(part.count for part in parts):
        raise _UnknownError
    typed.count.append(sum(part.count[0] for part in parts))


def _merge_decimals(typed: Any, parts: Sequence[Any]) -> None:
    said = [text for part in parts for text in (part.minimum, part.maximum)]
    if not all(_PLAIN_DECIMAL.fullmatch(text) for text in said):
        raise _UnknownError
    _merge_bounds(typed, parts, key=Decimal)
    if all(_PLAIN_DECIMAL.fullmatch(part.sum) for part in parts):
        _set_decimal_sum(typed, [Decimal(part.sum) for part in parts])


def _merge_bounds(
    typed: Any, parts: Sequence[Any], *, suffix: str = "", key: Callable[[Any], Any] | None = None
) -> None:
    for name, extreme in ((f"minimum{suffix}", min), (f"maximum{suffix}", max)):
        if parts:
            setattr(typed, name, extreme((_bound(part, name) for part in parts), key=key))


def _bound(part: Any, *names: str) -> Any:
    """Return the first field that the part has; raise _UnknownError if it has none."""
    for name in names:
        if part.HasField(name):
            return getattr(part, name)
    raise _UnknownError


_FUNCTIONS: dict[str, tuple[Callable[[Any, pa.Array], None], Callable[[Any, Sequence[Any]], None]]] = {
    "int_statistics": (_integers_of, _merge_integers),
    "double_statistics": (_doubles_of, _merge_doubles),
    "string_statistics": (_strings_of, _merge_strings),
    "bucket_statistics": (_booleans_of, _merge_booleans),
    "decimal_statistics": (_decimals_of, _merge_decimals),
    "date_statistics": (_dates_of, _merge_bounds),
    "binary_statistics": (_binaries_of, _merge_binaries),
    "timestamp_statistics": (_timestamps_of, partial(_merge_bounds, suffix="_utc")),
}
"""By the name of the typed message: what fills it from values, and what merges it from parts."""
