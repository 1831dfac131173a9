"""Times in Kubernetes' format. The clock itself is always an argument."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]
"""Returns the current time, with its time zone."""


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """Return a time as RFC 3339 in UTC. NB: keeps microseconds, since grace periods count from such texts."""
    text = moment.astimezone(UTC).isoformat(timespec="microseconds" if moment.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def rfc3339_seconds(moment: datetime) -> str:
    """Return a time as RFC 3339 in UTC, without the fraction of its second."""
    return rfc3339(moment.replace(microsecond=0))


def parse_time(text: str) -> datetime:
    """Parse an RFC 3339 time, whose letters may be in any case. Raises ValueError if it is invalid."""
    moment = datetime.fromisoformat(text.upper())
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def known_time(text: str) -> datetime | None:
    """Return an RFC 3339 time, None if it cannot be read: others may have written it."""
    try:
        return parse_time(text)
    except ValueError:
        return None


def seconds_until(moment: datetime, now: datetime) -> float:
    """Return the seconds until a time, 0 if it has passed."""
    return max(0.0, (moment - now) / timedelta(seconds=1))
