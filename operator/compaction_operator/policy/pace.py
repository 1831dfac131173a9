"""Pace: how far what has been started is ahead of a budget that is spread evenly over its period."""

from collections.abc import Iterable
from datetime import datetime, timedelta

PERIOD = timedelta(hours=24)
"""What the budget is for where there are no windows: the last 24 hours."""
SLACK = timedelta(hours=6)
"""What was not used is kept for so long: a large start is followed by a pause, and a pause by a few starts at once."""


def ahead_of_pace(starts: Iterable[tuple[datetime, int]], *, budget: int, now: datetime) -> float:
    """Return the bytes that the starts (time and bytes) of the last 24 hours are ahead, negative if behind.

    It is a leaky bucket: each start fills it, and the budget's share of the time that passes empties it.
    """
    begin = now - PERIOD
    level, at = -_share(budget, SLACK), begin
    for started, size in sorted(one for one in starts if one[0] >= begin):
        level = max(level - _share(budget, started - at), -_share(budget, SLACK)) + size
        at = started
    return max(level - _share(budget, now - at), -_share(budget, SLACK))


def _share(budget: int, time: timedelta) -> float:
    return budget * (time / PERIOD)
