"""The active timeline and the file slices of a merge-on-read table, by the names of its files, without Hudi.

Names: HoodieInstant's file names of both layouts of the timeline, FSUtils.LOG_FILE_PATTERN and BASE_FILE_PATTERN.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from compaction_operator.hudi.properties import HudiTable
from compaction_operator.storage import join

_INSTANT = re.compile(
    r"(?P<time>[0-9]{14,17})(?:_[0-9]{14,17})?\.(?P<action>[a-z]+)(?:\.(?P<state>requested|inflight))?"
)
_LOG = re.compile(r"\.(?P<id>.+)_(?P<instant>[0-9]+)\.log\.[0-9]+(?:_[^.]+)?(?<!-cdc)")
_BASE = re.compile(r"(?P<id>.+)_[0-9]+-[0-9]+-[0-9]+_(?P<instant>[0-9]+)\.(?:parquet|orc|hfile)")

_PLANNED = frozenset({"compaction", "logcompaction", "clustering"})
_ACTIONS = _PLANNED | {"deltacommit", "commit", "replacecommit"}
_HASH = 16


@dataclass(frozen=True, slots=True)
class Commits:
    """What a timeline says of the delta commits of writers that have completed.

    - `since_compaction` came after the last compaction, `since_merge` after the last compaction or log compaction.
    - `pending` are the instants that have not completed, `plans` those of table services. `version` changes with each
      commit.
    """

    since_compaction: int
    since_merge: int
    pending: frozenset[str]
    plans: frozenset[str]
    version: str


@dataclass(frozen=True, slots=True)
class LogSizes:
    """Log files of the newest slices: in how many file groups, how many, and their size in bytes."""

    groups: int = 0
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class SliceSizes:
    """All log files of the newest slices, those of at most a limit, and the size of the base files below them."""

    logs: LogSizes = LogSizes()
    small: LogSizes = LogSizes()
    base_bytes: int = 0


def timeline_folder(table: HudiTable) -> str:
    """Return the folder of a table's active timeline. Its layout changed with table version 8."""
    folder = join(table.location, ".hoodie")
    return join(folder, "timeline") if table.table_version >= 8 else folder


def commits_of(names: Iterable[str]) -> Commits:
    """Return what the names of a timeline's files say.

    A delta commit counts by its instant, as Hudi has it (CompactionUtils.getDeltaCommitsSinceLatestCompaction). Hudi
    also counts pending delta commits and log compactions: it plans whenever this number has reached its threshold.
    NB: a completed log compaction is a delta commit by its name, and only a compaction makes a commit.
    """
    found = [one for one in map(_INSTANT.fullmatch, names) if one and one["action"] in _ACTIONS]
    done = {one["time"]: one["action"] for one in found if one["state"] is None}
    merges = {one["time"] for one in found if one["action"] == "logcompaction"} & done.keys()
    compacted = max((time for time, action in done.items() if action == "commit"), default="")
    merged = max(merges, default="")
    commits = [
        time for time, action in done.items() if action == "deltacommit" and time > compacted and time not in merges
    ]
    completed = "\n".join(sorted(one[0] for one in found if one["state"] is None))
    return Commits(
        since_compaction=len(commits),
        since_merge=sum(time > merged for time in commits),
        pending=frozenset(one["time"] for one in found) - done.keys(),
        plans=frozenset(one["time"] for one in found if one["action"] in _PLANNED) - done.keys(),
        version=hashlib.sha256(completed.encode()).hexdigest()[:_HASH],
    )


def sizes_of(
    files: Iterable[tuple[str, str, int]], table: HudiTable, *, pending: Collection[str], limit: int | None
) -> SliceSizes:
    """Return the sizes of what a compaction would read now.

    `files` are the folder, name and size of each file of the table. What a `pending` instant wrote does not count.
    `limit` is the largest size of a small log file in bytes, None for any size.
    """
    bases, logs = dict[tuple[str, str], tuple[str, int]](), defaultdict[tuple[str, str], list[tuple[str, int]]](list)
    for folder, name, size in files:
        if (base := _BASE.fullmatch(name)) and base["instant"] not in pending:
            key = folder, base["id"]
            bases[key] = max(bases.get(key, ("", 0)), (base["instant"], size))
        elif log := _LOG.fullmatch(name):
            logs[folder, log["id"]].append((log["instant"], size))
    live = {key: _live(found, bases.get(key), table, pending) for key, found in logs.items()}
    small = {key: [size for size in sizes if limit is None or size <= limit] for key, sizes in live.items()}
    return SliceSizes(
        logs=_sum(live), small=_sum(small), base_bytes=sum(bases[key][1] for key in live if live[key] and key in bases)
    )


def _live(
    found: Iterable[tuple[str, int]], base: tuple[str, int] | None, table: HudiTable, pending: Collection[str]
) -> list[int]:
    """Return the sizes of a file group's log files in its newest slice.

    NB: before table version 8 the name of a log file has the instant of its slice, not that of its commit.
    """
    newest = base[0] if base else ""
    if table.numbers_log_files:
        return [size for instant, size in found if instant >= newest]
    return [size for instant, size in found if instant > newest and instant not in pending]


def _sum(sizes: Mapping[tuple[str, str], list[int]]) -> LogSizes:
    there = [found for found in sizes.values() if found]
    return LogSizes(len(there), sum(map(len, there)), sum(map(sum, there)))
