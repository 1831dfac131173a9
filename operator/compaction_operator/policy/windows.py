"""Maintenance windows: when compactions may start."""

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from compaction_operator.api.policy import Day, Window
from compaction_operator.errors import OperatorError

_DAY = timedelta(days=1)
_DAYS = tuple(Day)


class UnknownTimeZoneError(OperatorError, ValueError):
    """A window names a time zone that the tz database lacks."""


def opened(windows: Sequence[Window], now: datetime) -> datetime | None:
    """Return when the window opened that is open now; of several the one that opened first. None if none is open.

    A window lasts its duration in real time. If a change of clocks skips its start, it opens at the time that follows.
    Raises UnknownTimeZoneError.
    """
    starts = [start for window in windows for start in _starts(window, now) if start <= now < _end(window, start)]
    return min(starts, default=None)


def next_opening(windows: Sequence[Window], now: datetime) -> datetime | None:
    """Return when the next window opens, None without windows. Raises UnknownTimeZoneError."""
    return min((start for window in windows for start in _starts(window, now) if start > now), default=None)


def open_from(windows: Sequence[Window], moment: datetime) -> datetime | None:
    """Return the first time from a moment on at which a window is open; without windows that is the moment.

    None if no window opens in the eight days after it. Raises UnknownTimeZoneError.
    """
    if not windows or opened(windows, moment):
        return moment
    return next_opening(windows, moment)


def _end(window: Window, start: datetime) -> datetime:
    return start + timedelta(seconds=window.duration)


def _starts(window: Window, now: datetime) -> list[datetime]:
    """Return the starts in UTC from two days before now, as a window lasts at most 24 hours, to eight days after."""
    zone, start = zone_of(window.time_zone), time.fromisoformat(window.start)
    today = now.astimezone(zone).date()
    dates = (today + _DAY * offset for offset in range(-2, 9))
    wanted = (date for date in dates if _DAYS[date.weekday()] in window.days)
    return [datetime.combine(date, start, zone).astimezone(UTC) for date in wanted]


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone by its name in the tz database. Raises UnknownTimeZoneError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f"windows: unknown time zone {name!r}; write one of the tz database, such as Europe/Berlin"
        raise UnknownTimeZoneError(message) from error
