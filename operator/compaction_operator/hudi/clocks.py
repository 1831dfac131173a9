"""Clocks: how far the instants of a table's writers are from the times at which the file system got their files."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

NEWEST = 10
"""How many of the timeline's files are compared: an older one may be from before a clock was corrected."""

_COMPLETED = re.compile(r"[0-9]+_([0-9]{14,17})\..+")
"""A completed instant from table version 8 on: its name has the time at which it completed."""

_REQUESTED = re.compile(r"([0-9]{14,17})\.(?!logcompaction\.).+\.requested")
"""A requested instant of any action but a log compaction, which gets the instant after the newest one, however old."""


def writers_offset(files: Iterable[tuple[str, int]]) -> float | None:
    """Return by how many seconds writers' instants, read as UTC, are ahead of the file system's clock.

    `files` are names and times of change (milliseconds since the epoch) of the active timeline. The largest difference
    counts: a writer may take its instant long before the timeline has it (Spark's of 1.0, before its query), but not
    after. None if no file says anything.
    """
    newest = sorted(((changed, name) for name, changed in files if _time_in(name)), reverse=True)[:NEWEST]
    return max((instant_seconds(_time_in(name)) - changed / 1000 for changed, name in newest), default=None)


def instant_seconds(instant: str) -> float:
    """Return an instant (yyyyMMddHHmmss, and perhaps milliseconds) in seconds since the epoch, as if it were in UTC."""
    parsed = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    return parsed.timestamp() + int(instant[14:17].ljust(3, "0")) / 1000


def _time_in(name: str) -> str:
    """Return the time in a file's name that its writer took right before it, '' if there is none."""
    found = _COMPLETED.fullmatch(name) or _REQUESTED.fullmatch(name)
    return found[1] if found else ""
