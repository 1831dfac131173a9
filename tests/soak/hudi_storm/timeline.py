"""What table services have on a table's timelines, and how far that has come, by the names of their files alone."""

import re
from pathlib import Path
from typing import NamedTuple

REQUESTED, INFLIGHT, COMPLETED = STATES = ("requested", "inflight", "completed")
"""How far an instant has come, in this order."""

_BEGUN = re.compile(r"(?P<time>[0-9]{17})\.(?P<action>logcompaction|compaction)\.(?P<state>requested|inflight)")
_COMPLETED = re.compile(r"(?P<time>[0-9]{17})(?:_[0-9]{17})?\.(?:deltacommit|commit)")
PARTS = (".hoodie", ".hoodie/metadata/.hoodie")
"""The folders of the table and of its metadata table."""


class Service(NamedTuple):
    """An instant of a table service, in one of `STATES`."""

    time: str
    action: str
    state: str


def services(location: Path) -> frozenset[Service]:
    """Return the log compactions and compactions on the active timeline of a table.

    Log compactions of its metadata table count, too; NB: compactions of that are Hudi's writer's own.
    """
    table, metadata = (_services(folder) if (folder := location / part).exists() else frozenset() for part in PARTS)
    return table | {one for one in metadata if one.action == "logcompaction"}


def pending_services(location: Path) -> frozenset[Service]:
    """Return those of a table's log compactions and compactions that have not completed."""
    return frozenset(one for one in services(location) if one.state != COMPLETED)


def _services(folder: Path) -> frozenset[Service]:
    timeline = folder / "timeline"  # from version 8 on
    names = [path.name for path in (timeline if timeline.exists() else folder).iterdir()]
    completed = {found["time"] for name in names if (found := _COMPLETED.fullmatch(name))}
    states: dict[str, Service] = {}
    for name in sorted(names, reverse=True):  # NB: an instant that is inflight has both files, `requested` sorts later
        if begun := _BEGUN.fullmatch(name):
            one = Service(**begun.groupdict())
            states[one.time] = one._replace(state=COMPLETED) if one.time in completed else one
    return frozenset(states.values())
