"""Moments as Kubernetes writes them. The clock itself is always handed in."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]
"""Returns the present moment, aware of its time zone."""


def utc_now() -> datetime:
    """Return the present moment in UTC."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """Return a moment as RFC 3339 in UTC; NB: with its microseconds, since grace periods count from such texts."""
    text = moment.astimezone(UTC).isoformat(timespec="microseconds" if moment.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Return the moment that an RFC 3339 text names. Raises ValueError when it names none."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def seconds_until(moment: datetime, now: datetime) -> float:
    """Return how long it is until a moment, never less than nothing."""
    return max(0.0, (moment - now) / timedelta(seconds=1))


def backed_off(base: float, failures: int, *, cap: float) -> float:
    """Return base * 2^(failures - 1) seconds, at most `cap`; failures count from one."""
    return min(cap, base * 2.0 ** min(max(failures, 1) - 1, 32))
