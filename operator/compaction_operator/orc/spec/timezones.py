"""Converts timestamps from the time zone of a stripe's writer to UTC.

A timestamp counts from 2015-01-01 00:00:00 in its writer's zone and means the wall-clock time there (ORC
specification, "Timestamp Columns"). Hive reads it with Java's `java.util.TimeZone`; this module follows Java's rules.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import numpy as np

from compaction_operator.orc.spec.arrays import Integers
from compaction_operator.orc.spec.interpret import MILLISECOND, nanoseconds

_UTC = frozenset({"UTC", "GMT", "Z", "UCT", "Zulu", "Universal", "Greenwich", "GMT0", "Etc/UTC", "Etc/GMT", "Etc/UCT"})
_CUSTOM = re.compile("GMT([+-])([0-9]{1,2}):([0-9]{2})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BASE = datetime(2015, 1, 1)
_DAY = 86_400
# java.util.TimeZone knows no offset changes before 1900; it applies today's standard time to earlier times
_FIRST = int(datetime(1900, 1, 1, tzinfo=UTC).timestamp())
# the last rules apply for ever, and the Gregorian calendar repeats every 400 years
_LAST = int(datetime(2500, 1, 1, tzinfo=UTC).timestamp())
_CYCLE = 146_097 * _DAY
_SPAN = 366 * _DAY
_EVER = int(np.iinfo(np.int64).min)
_SECONDS_LIMIT = 1 << 53  # beyond this, Java's 64-bit milliseconds overflow


def is_utc(zone: str) -> bool:
    """Return whether the zone's wall clock shows UTC."""
    return zone in _UTC


def as_written_in_utc(seconds: Integers, nanos: Integers, zone: str) -> Integers:
    """Return the seconds that a writer in UTC stores for the wall-clock times of a writer in `zone`.

    `seconds` and `nanos` are as in the stripe's streams; nanoseconds do not change. Raises ValueError for an unknown
    zone, for a value that Java cannot represent, and for a time that a stripe in UTC cannot represent.
    NB: Java's writer divides milliseconds by 1000. Before 1970 this rounds seconds up if there are milliseconds, and
    the reader subtracts one (ORC's TimestampTreeWriter and TimestampTreeReader). To the reader, the last second before
    1970 looks like the first one after it, whatever times these are in UTC.
    """
    if len(seconds) and not -_SECONDS_LIMIT < seconds.min() <= seconds.max() < _SECONDS_LIMIT:
        raise ValueError("a timestamp beyond Java's range")
    has_millis = nanoseconds(nanos) >= MILLISECOND
    rounded = seconds + _base_seconds(zone)
    instants = rounded - ((rounded < 0) & has_millis)
    wall = instants + utc_offsets(zone, instants)
    if np.any((wall == -1) & has_millis):
        raise ValueError(f"a fraction of the last second before 1970 in {zone}, which a stripe in UTC cannot represent")
    return wall + ((wall < 0) & has_millis) - _base_seconds("UTC")


def utc_offsets(zone: str, seconds: Integers) -> Integers:
    """Return the zone's offset from UTC, in seconds, at each time in seconds since 1970-01-01 UTC.

    Raises ValueError for an unknown zone.
    """
    folded = np.where(seconds < _LAST, seconds, _LAST - _CYCLE + (seconds - _LAST) % _CYCLE)
    spans = np.unique((np.maximum(folded, _FIRST - 1) - _FIRST) // _SPAN)
    table = [change for span in spans.tolist() for change in _changes(zone, span)]
    changes, offsets = np.array(table, dtype=np.int64).reshape(-1, 2).T
    return offsets[np.searchsorted(changes, folded, side="right") - 1]


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    """Return the zone from the package tzdata: the rules of operating systems differ."""
    if custom := _CUSTOM.fullmatch(name):
        sign, hours, minutes = custom.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-offset if sign == "-" else offset)
    if name not in _names():
        raise ValueError(f"the time zone {name!r} is unknown")
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, name)


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="ascii").split())


def _base_seconds(zone: str) -> int:
    """Return the seconds from 1970-01-01 UTC to 2015-01-01 00:00:00 in the zone."""
    return int(_BASE.replace(tzinfo=_zone(zone)).timestamp())


@lru_cache(maxsize=4096)
def _changes(name: str, span: int) -> list[tuple[int, int]]:
    """Return (time, offset) pairs for a span since 1900: the offset at its start, then each change within it."""
    zone = _zone(name)
    if span < 0:
        return [(_EVER, _standard(zone))]
    start = _FIRST + span * _SPAN
    found = [(start, _offset(zone, start))]
    for day in range(start, start + _SPAN, _DAY):
        offset = _offset(zone, day + _DAY)
        if offset != found[-1][1]:
            found.append((_change_between(zone, day, day + _DAY), offset))
    return found


def _offset(zone: tzinfo, seconds: int) -> int:
    offset = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def _standard(zone: tzinfo) -> int:
    """Return the standard-time offset of the last rules, without daylight saving time."""
    return min(_offset(zone, _LAST - half_year * 182 * _DAY) for half_year in (0, 1))


def _change_between(zone: tzinfo, low: int, high: int) -> int:
    """Return the first second with the offset of `high`; `low` has another offset."""
    offset = _offset(zone, high)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle) == offset:
            high = middle
        else:
            low = middle
    return high
