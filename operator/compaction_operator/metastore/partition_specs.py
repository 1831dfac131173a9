"""Partition names, and partition specs that select them: spec `year=2024/month='1'`, name `year=2024/month=1`.

A name is Hive's directory name: `key=value` joined by slashes, with special characters of the values as %XX (Hive's
FileUtils.escapePathName). In a spec, a quoted value is literal, as in SQL. An unquoted value is spelled as in a name,
so every name is also a spec.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compaction_operator.errors import OperatorError

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNSAFE = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_PAIR = re.compile(
    r"""\s*(?P<key>[^\s=,/'"]+)\s*=\s*
        (?: '(?P<single>(?:[^'\\]|\\.)*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<bare>[^\s'",/][^'",/]*?) )\s*
        (?P<end>[,/]|$)""",
    re.VERBOSE,
)


class PartitionSpecError(OperatorError, ValueError):
    """A partition spec is malformed, or does not match the table's partition keys."""


@dataclass(frozen=True)
class Selection:
    """The names that any spec matches, in their original order, and the specs that match none."""

    names: tuple[str, ...]
    unmatched: tuple[str, ...]


def select(specs: Sequence[str], *, keys: Sequence[str], names: Iterable[str]) -> Selection:
    """Return the partition names that the specs select. Without specs, every name is selected.

    Values are compared as case-sensitive text, keys case-insensitively. Raises PartitionSpecError.
    """
    values = {name: values_of(name) for name in names}
    if not specs:
        return Selection(tuple(values), ())
    prefixes = {spec: parse_spec(spec, keys) for spec in specs}
    hits = {
        spec: {name for name in values if values[name][: len(prefix)] == prefix} for spec, prefix in prefixes.items()
    }
    wanted = set().union(*hits.values())
    return Selection(tuple(name for name in values if name in wanted), tuple(s for s, hit in hits.items() if not hit))


def parse_spec(spec: str, keys: Sequence[str]) -> tuple[str, ...]:
    """Return the values of a spec for the first partition keys of a table.

    Pairs are separated by commas or slashes, in any order, as in Hive's PARTITION (...) clause. They must name the
    first keys without a gap. Raises PartitionSpecError, naming the spec, if they do not.
    """
    pairs = _pairs(spec)
    lower = [key.lower() for key in keys]
    if unknown := pairs.keys() - set(lower):
        known = ", ".join(keys) or "none"
        raise PartitionSpecError(f"partition spec {spec!r}: no partition key {min(unknown)!r}; keys are: {known}")
    prefix = lower[: len(pairs)]
    if missing := [key for key in prefix if key not in pairs]:
        raise PartitionSpecError(f"partition spec {spec!r}: key {missing[0]!r} must be given before the later ones")
    return tuple(pairs[key] for key in prefix)


def values_of(name: str) -> tuple[str, ...]:
    """Return the unescaped values of a partition name (Hive's Warehouse.makeValsFromName)."""
    return tuple(unescape(part.partition("=")[2]) for part in name.split("/"))


def escape(value: str) -> str:
    """Return the value with special characters as %XX (Hive's FileUtils.escapePathName)."""
    return _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", value)


def unescape(text: str) -> str:
    """Return the text with each %XX replaced by the character of that code (Hive's FileUtils.unescapePathName)."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def lock_name(name: str) -> str:
    """Return a partition's name normalized for comparing locks: in lower case, each character escaped once.

    Hive 3 lowers the case of a lock's partition (TxnHandler.normalizeCase), and Hive 4 escapes an escaped name again
    (TxnUtils.normalizePartitionCase). Different names may normalize to the same name, but never one name to two.
    """
    return "/".join(_escaped_once(part) for part in name.split("/")).lower()


def _escaped_once(pair: str) -> str:
    key, equals, value = pair.partition("=")
    while (plain := unescape(value)) != value:
        value = plain
    return f"{key}{equals}{escape(value)}"


def _pairs(spec: str) -> Mapping[str, str]:
    pairs: dict[str, str] = {}
    position, end = 0, ","
    while end:
        match = _PAIR.match(spec, position)
        if not match:
            raise PartitionSpecError(
                f"partition spec {spec!r} cannot be read at {spec[position:]!r}: write key='value', key2='value2'"
            )
        key = match["key"].lower()
        if key in pairs:
            raise PartitionSpecError(f"partition spec {spec!r} gives key {key!r} twice")
        pairs[key] = _value(match)
        position, end = match.end(), match["end"]
    return pairs


def _value(match: re.Match[str]) -> str:
    quoted = match["single"] if match["single"] is not None else match["double"]
    return unescape(match["bare"]) if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
