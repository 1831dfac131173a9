"""Memory: what the looks at a warehouse have found, table by table. Values only; the look itself is elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.policy import Thresholds
from compaction_operator.policy.measure import Measure


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition ('' for an unpartitioned table) that has something to merge. `created` is in Unix seconds.

    `aborted_since` is when its aborted writes were first seen. `minor_since` and `major_since` are since when it has
    been seen with deltas and without a new compaction of either type; a major compaction begins both.
    """

    name: str
    created: int
    measure: Measure
    aborted_since: datetime | None = None
    minor_since: datetime | None = None
    major_since: datetime | None = None

    def aborted_for(self, now: datetime) -> timedelta:
        """Return how long its aborted writes are known."""
        return now - self.aborted_since if self.aborted_since else timedelta()

    def loose_for(self, type_: CompactionType, now: datetime) -> timedelta:
        """Return for how long readers have been seen to pay what a compaction of a type would save."""
        since = self.minor_since if type_ is CompactionType.MINOR else self.major_since
        return now - since if since else timedelta()


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a table is left alone: one word and a sentence. `passing` asks for another look at the table."""

    reason: str
    message: str
    passing: bool = False


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """Partitions of a table that no look can decide on: how many, and why one of them."""

    count: int
    example: str
    message: str


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as it was listed at `looked`, with the write ids `write_ids`, which are unchanged since `changed`.

    `weight` is how often it is read, compared with others, as far as its owner says so.
    """

    name: str
    write_ids: str
    changed: datetime
    looked: datetime
    keys: tuple[str, ...] = ()
    thresholds: Thresholds = field(default_factory=Thresholds)
    partitions: tuple[PartitionState, ...] = ()
    problem: Problem | None = None
    left_alone: LeftAlone | None = None
    weight: float = 1.0


@dataclass
class Memory:
    """What is known of one policy's tables. It is rebuilt after a restart, some tables at each look.

    `unread` are the selected tables that must be listed and were not yet, and `matched` counts all that the globs
    select.
    `due_since` is when a table became due.
    """

    tables: dict[str, TableState] = field(default_factory=dict)
    due_since: dict[str, datetime] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    matched: int = 0

    def lacks(self, table: str) -> bool:
        """Whether a table must still be read before anything is decided on it."""
        state = self.tables.get(table)
        if state is None:
            return table in self.unread
        return state.problem is not None and state.problem.passing


def remembered(
    name: str, created: int, found: Measure, *, earlier: PartitionState | None, now: datetime
) -> PartitionState | None:
    """Return what is kept of a partition that was listed now, None if it has nothing to merge."""
    if found.is_clean:
        return None
    aborted = (earlier.aborted_since if earlier else None) or now
    minor, major = _since(found, earlier, now)
    return PartitionState(name, created, found, aborted if found.aborted else None, minor, major)


def _since(found: Measure, earlier: PartitionState | None, now: datetime) -> tuple[datetime, datetime]:
    """Return since when no minor and since when no major compaction has been seen."""
    if earlier is None or earlier.measure.base_write_id != found.base_write_id:
        return now, now
    merged = earlier.measure.first_delta != found.first_delta
    return now if merged else (earlier.minor_since or now), earlier.major_since or now


def stale(state: TableState | None, write_ids: str, ended: Mapping[str, datetime], name: str) -> bool:
    """Whether a table must be listed again: written to, compacted since it was listed, or not read then.

    `ended` is when a table's last compaction ended.
    """
    if state is None or state.write_ids != write_ids:
        return True
    if state.problem is not None and state.problem.passing:
        return True
    last = ended.get(name)
    return last is not None and last >= state.looked
