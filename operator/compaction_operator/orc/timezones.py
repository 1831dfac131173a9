"""What the time zone of a stripe's writer means for its timestamps.

A timestamp of a stripe is counted from 2015-01-01 00:00:00 in its writer's zone, and stands for the wall-clock time
there (ORC specification, "Timestamp Columns"). Java's `java.util.TimeZone` decides what that is: Hive reads by it.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

_UTC = frozenset({"UTC", "GMT", "Z", "UCT", "Zulu", "Universal", "Greenwich", "GMT0", "Etc/UTC", "Etc/GMT", "Etc/UCT"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BASE = datetime(2015, 1, 1)
_DAY = 86_400
# java.util.TimeZone knows no change of offsets before 1900, and what is before that has today's standard time
_FIRST = int(datetime(1900, 1, 1, tzinfo=UTC).timestamp())
# rules last for ever, and the Gregorian calendar repeats itself every 400 years
_CYCLE = 146_097 * _DAY
_LAST = int(datetime(2500, 1, 1, tzinfo=UTC).timestamp())


def is_utc(zone: str) -> bool:
    """Whether a zone's wall clock shows UTC."""
    return zone in _UTC


def base_seconds(zone: str) -> int:
    """Return the seconds from 1970-01-01 UTC to 2015-01-01 00:00:00 in the zone; ValueError for an unknown zone."""
    return int(_BASE.replace(tzinfo=_zone(zone)).timestamp())


def utc_offsets(zone: str, seconds: Integers) -> Integers:
    """Return the zone's offset from UTC, in seconds, at each time, given in seconds since 1970-01-01 UTC.

    Raises ValueError for an unknown zone.
    """
    changes, offsets = _changes(zone)
    folded = np.where(seconds < _LAST, seconds, _LAST - _CYCLE + (seconds - _LAST) % _CYCLE)
    return offsets[np.searchsorted(changes, folded, side="right")]


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"the time zone {name!r} is unknown") from error


@lru_cache(maxsize=16)
def _changes(name: str) -> tuple[Integers, Integers]:
    """Return when the offset of a zone changes, and the offsets: one before the first change and one after each."""
    zone = _zone(name)
    changes, offsets = [_FIRST], [_standard(zone), _offset(zone, _FIRST)]
    for day in range(_FIRST, _LAST, _DAY):
        offset = _offset(zone, day + _DAY)
        if offset != offsets[-1]:
            changes.append(_change_between(zone, day, day + _DAY))
            offsets.append(offset)
    return np.array(changes), np.array(offsets)


def _offset(zone: ZoneInfo, seconds: int) -> int:
    offset = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def _standard(zone: ZoneInfo) -> int:
    """The standard time of today's rules: without the hour of summer."""
    return min(_offset(zone, _LAST - half_year * 182 * _DAY) for half_year in (0, 1))


def _change_between(zone: ZoneInfo, low: int, high: int) -> int:
    """The first second with the offset of `high`, which is not that of `low`."""
    offset = _offset(zone, high)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle) == offset:
            high = middle
        else:
            low = middle
    return high
