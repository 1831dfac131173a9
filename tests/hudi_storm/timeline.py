"""What table services have begun and not completed on a table's timelines, by the names of their files alone."""

import re
from pathlib import Path
from typing import NamedTuple

_PENDING = re.compile(r"(?P<time>[0-9]{17})\.(?P<action>logcompaction|compaction)\.(?P<state>requested|inflight)")
_COMPLETED = re.compile(r"(?P<time>[0-9]{17})_[0-9]{17}\..+")
PARTS = (".hoodie", ".hoodie/metadata/.hoodie")
"""The folders of the table and of its metadata table."""


class Pending(NamedTuple):
    """An instant that is planned (`requested`) or was begun (`inflight`)."""

    time: str
    action: str
    state: str


def pending_services(location: Path) -> frozenset[Pending]:
    """Return the log compactions and compactions of a table (version 8 or later) that have not completed.

    Log compactions of its metadata table count, too; NB: compactions of that are Hudi's writer's own.
    """
    table, metadata = (_pending(location / part / "timeline") for part in PARTS)
    return table | {one for one in metadata if one.action == "logcompaction"}


def _pending(timeline: Path) -> frozenset[Pending]:
    names = [path.name for path in timeline.iterdir()]
    completed = {found["time"] for name in names if (found := _COMPLETED.fullmatch(name))}
    states: dict[str, Pending] = {}
    for name in sorted(names, reverse=True):  # NB: an instant that is inflight has both files, `requested` sorts later
        found = _PENDING.fullmatch(name)
        if found and found["time"] not in completed:
            states[found["time"]] = Pending(**found.groupdict())
    return frozenset(states.values())
