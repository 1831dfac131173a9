"""What was written to a Hudi table (version 8 or later), by what wrote it: from names and sizes of its files alone."""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

_COMPLETED = re.compile(r"(?P<time>[0-9]{17})_[0-9]{17}\.(?P<action>deltacommit|commit)")
_LOG_COMPACTION = re.compile(r"(?P<time>[0-9]{17})\.logcompaction\.requested")
_FILE = re.compile(r".+_(?P<time>[0-9]{17})\.(parquet|log\.[0-9]+_[0-9-]+)")


class By(StrEnum):
    """What wrote a file."""

    LOAD = "load"
    UPSERTS = "upserts"
    LOG_COMPACTION = "log compaction"
    COMPACTION = "compaction"


class Commit(NamedTuple):
    """What one instant wrote."""

    time: str
    by: By
    bytes: int


def commits(location: Path) -> list[Commit]:
    """Return what each completed instant of a table wrote, the oldest first; the first one is the load."""
    sizes: dict[str, int] = {}
    for path in _data_files(location):
        if found := _FILE.fullmatch(path.name):
            sizes[found["time"]] = sizes.get(found["time"], 0) + path.stat().st_size
    return [Commit(time, by, sizes.get(time, 0)) for time, by in sorted(_instants(location).items())]


def log_file_sizes(location: Path) -> list[int]:
    """Return the bytes of each log file."""
    return [
        path.stat().st_size for path in _data_files(location) if ".log." in path.name and _FILE.fullmatch(path.name)
    ]


def _instants(location: Path) -> dict[str, By]:
    names = [path.name for path in (location / ".hoodie" / "timeline").iterdir()]
    merged = {found["time"] for name in names if (found := _LOG_COMPACTION.fullmatch(name))}
    kinds: dict[str, By] = {}
    for name in sorted(names):
        if found := _COMPLETED.fullmatch(name):
            ordinary = By.LOG_COMPACTION if found["time"] in merged else By.UPSERTS
            by = By.COMPACTION if found["action"] == "commit" else ordinary
            kinds[found["time"]] = by if kinds else By.LOAD
    return kinds


def _data_files(location: Path) -> Iterator[Path]:
    return (
        path for path in location.rglob("*") if path.is_file() and ".hoodie" not in path.relative_to(location).parts
    )
