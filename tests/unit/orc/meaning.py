"""What physical values mean, in the words of Arrow: for comparing with what Arrow reads."""

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from compaction_operator.orc.spec import Kind

_BASE = 1_420_070_400

Types = Sequence[Any]


def meaning(types: Types, column: int, value: Any) -> Any:
    """A value of a column: decimals as decimals, timestamps as nanoseconds since 1970, maps as pairs."""
    kind = Kind(types[column].kind)
    if value is None:
        return None
    return _NESTED[kind](types, column, value) if kind in _NESTED else _PLAIN.get(kind, lambda same: same)(value)


def _struct(types: Types, column: int, value: Any) -> Any:
    fields = zip(types[column].field_names, types[column].subtypes, strict=True)
    return {name: meaning(types, child, value[str(at)]) for at, (name, child) in enumerate(fields)}


def _list(types: Types, column: int, value: Any) -> Any:
    return [meaning(types, types[column].subtypes[0], one) for one in value]


def _map(types: Types, column: int, value: Any) -> Any:
    key, item = types[column].subtypes
    return [(meaning(types, key, one["key"]), meaning(types, item, one["value"])) for one in value]


def _decimal(value: Any) -> Decimal:
    number = sum((byte & 127) << 7 * place for place, byte in enumerate(value["value"]))
    digits = str((number >> 1) + (number & 1))
    return Decimal((number & 1, tuple(map(int, digits)), -value["scale"]))


def _nanoseconds(value: Any) -> int:
    zeros = value["nanos"] & 7
    nanos = (value["nanos"] >> 3) * (10 ** (zeros + 1) if zeros else 1)
    seconds = value["seconds"] + _BASE
    return int((seconds - (seconds < 0 and nanos >= 1_000_000)) * 10**9 + nanos)


_NESTED: dict[Kind, Callable[[Types, int, Any], Any]] = {
    Kind.STRUCT: _struct,
    Kind.LIST: _list,
    Kind.MAP: _map,
}
_PLAIN: dict[Kind, Callable[[Any], Any]] = {
    Kind.DECIMAL: _decimal,
    Kind.TIMESTAMP: _nanoseconds,
    Kind.TIMESTAMP_INSTANT: _nanoseconds,
    Kind.DATE: lambda days: date(1970, 1, 1) + timedelta(days=days),
    **dict.fromkeys((Kind.STRING, Kind.CHAR, Kind.VARCHAR), bytes.decode),
}


def comparable(value: Any) -> Any:
    """A value in which NaN equals itself and the zeros differ."""
    match value:
        case dict():
            return {name: comparable(one) for name, one in value.items()}
        case list() | tuple():
            return [comparable(one) for one in value]
        case float():
            return repr(value)
    return value
