"""Partition filters such as `day >= today - 7d`, and ages."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from compaction_operator.api.model import format_duration
from compaction_operator.api.policy import Partitions
from compaction_operator.errors import OperatorError

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_FILTER = re.compile(r"\s*(?P<key>[^\s=<>!]+)\s*(?P<operator>!=|<=|>=|=|<|>)\s*(?P<value>.*?)\s*")
_TODAY = re.compile(r"today(?:\s*(?P<sign>[+-])\s*(?P<days>[0-9]{1,5})d)?")
_DATE = re.compile(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})")
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")


class FilterError(OperatorError, ValueError):
    """A partition filter of a policy cannot be read."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition: a partition key in lower case, an operator, and a text or the days from today."""

    key: str
    operator: str
    value: str
    days: int | None = None

    def __str__(self) -> str:
        return f"{self.key} {self.operator} {self.value}"

    def accepts(self, value: str, today: date) -> bool:
        """Whether a partition's value meets the condition. One that cannot be compared does not.

        A date is compared with dates (`2026-11-01` or `20261101`), a number with numbers, other text as text.
        """
        compare = _OPERATORS[self.operator]
        if self.days is not None:
            found = _date(value)
            return found is not None and compare(found, today + timedelta(days=self.days))
        if _NUMBER.fullmatch(self.value):
            return bool(_NUMBER.fullmatch(value)) and compare(float(value), float(self.value))
        return compare(value, self.value)


def parse_filter(text: str) -> Filter:
    """Parse `key operator value`, where the value is `today`, `today - 7d`, a number, or a text. Raises FilterError."""
    match = _FILTER.fullmatch(text)
    if not match or not match["value"]:
        raise FilterError(f"partitions.filters: {text!r} cannot be read; write, for example, day >= today - 7d")
    key, operator, value = match["key"].lower(), match["operator"], match["value"]
    if today := _TODAY.fullmatch(value):
        days = int(today["days"] or 0)
        return Filter(key, operator, value, -days if today["sign"] == "-" else days)
    quoted = _QUOTED.fullmatch(value)
    return Filter(key, operator, (quoted[1] or quoted[2] or "") if quoted else value)


def unknown_key(filters: Sequence[Filter], keys: Sequence[str]) -> str | None:
    """Return the first key of the filters that a table's partition keys lack, None if it has all."""
    known = {key.lower() for key in keys}
    return next((one.key for one in filters if one.key not in known), None)


def wanted(
    partitions: Partitions,
    filters: Sequence[Filter],
    *,
    values: Mapping[str, str],
    created: int,
    now: datetime,
) -> bool:
    """Whether a policy is about a partition, by its values by key in lower case and its Unix time of creation.

    `filters` are those of `partitions`, parsed. NB: `today` is that of UTC.
    """
    return unwanted_by(partitions, filters, values=values, created=created, now=now) is None


def unwanted_by(
    partitions: Partitions,
    filters: Sequence[Filter],
    *,
    values: Mapping[str, str],
    created: int,
    now: datetime,
) -> str | None:
    """Return the filter or the age that keeps a policy away from a partition, None if none does. See `wanted`."""
    age = now.timestamp() - created
    if partitions.min_age is not None and age < partitions.min_age:
        return f"minAge {format_duration(partitions.min_age)}"
    if partitions.max_age is not None and age > partitions.max_age:
        return f"maxAge {format_duration(partitions.max_age)}"
    today = now.date()
    return next((str(one) for one in filters if not one.accepts(values[one.key], today)), None)


def _date(text: str) -> date | None:
    match = _DATE.fullmatch(text)
    try:
        return date(int(match[1]), int(match[2]), int(match[3])) if match else None
    except ValueError:
        return None
