"""What table services have begun and not completed on a table's timeline, by the names of its files alone."""

import re
from pathlib import Path
from typing import NamedTuple

_PENDING = re.compile(r"(?P<time>[0-9]{17})\.(?P<action>logcompaction|compaction)\.(?P<state>requested|inflight)")
_COMPLETED = re.compile(r"(?P<time>[0-9]{17})_[0-9]{17}\..+")


class Pending(NamedTuple):
    """An instant that is planned (`requested`) or was begun (`inflight`)."""

    time: str
    action: str
    state: str


def pending_services(location: Path) -> frozenset[Pending]:
    """Return the log compactions and compactions of a table (version 8 or later) that have not completed."""
    names = [path.name for path in (location / ".hoodie" / "timeline").iterdir()]
    completed = {found["time"] for name in names if (found := _COMPLETED.fullmatch(name))}
    states: dict[str, Pending] = {}
    for name in sorted(names, reverse=True):  # NB: an instant that is inflight has both files, `requested` sorts later
        found = _PENDING.fullmatch(name)
        if found and found["time"] not in completed:
            states[found["time"]] = Pending(**found.groupdict())
    return frozenset(states.values())
