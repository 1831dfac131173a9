"""Memory: what the looks at a warehouse have found, table by table. Values only; the look itself is elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.hudi import HudiOptions
from compaction_operator.api.policy import Thresholds
from compaction_operator.policy.forecasts import Outlooks
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.timeline import TimelineMeasure


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition ('' for an unpartitioned or Hudi table) that has something to merge. `created` is in Unix seconds.

    `aborted_since` is when its aborted writes were first seen. `minor_since` and `major_since` are since when it has
    been seen with deltas and without a new compaction of either type; a major compaction begins both. Of a Hudi table
    these are log compactions and compactions. `written` is when a look last found it different by writes alone.
    """

    name: str
    created: int
    measure: Measure | TimelineMeasure
    aborted_since: datetime | None = None
    minor_since: datetime | None = None
    major_since: datetime | None = None
    written: datetime | None = None

    def aborted_for(self, now: datetime) -> timedelta:
        """Return how long its aborted writes are known."""
        return now - self.aborted_since if self.aborted_since else timedelta()

    def loose_for(self, type_: CompactionType, now: datetime) -> timedelta:
        """Return for how long readers have been seen to pay what a compaction of a type would save."""
        minor = type_ in (CompactionType.MINOR, CompactionType.LOG_COMPACTION)
        since = self.minor_since if minor else self.major_since
        return now - since if since else timedelta()

    def quiet_for(self, now: datetime) -> timedelta:
        """Return for how long nothing has been seen to be written."""
        return now - self.written if self.written else timedelta()


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
class Round:
    """The listing of a table with very many partitions, over several looks in the order of their names.

    `version` and `began` are the table's version and the time when it began. `last` is the last partition listed so
    far, `read` how many of the `total` are, and `left_alone` those of them that are left alone.
    """

    version: str
    began: datetime
    last: str
    read: int
    total: int
    left_alone: LeftAlone | None = None


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as it was listed at `looked`. `version` is the text of its write ids then: each write changes it.

    While a `round` goes on, both are those of the round before, and '' if there was none.
    Of a Hudi table, `version` stands for its timeline, `place` is a key that all names of its location share, and
    `hudi` has the options of a compaction of each type, `given` those of its warehouse, and `plans` the instants of
    table services that have not completed: they keep file groups from a compaction.
    `weight` is how often the table is read, compared with others, as far as its owner says so.
    """

    name: str
    version: str
    looked: datetime
    keys: tuple[str, ...] = ()
    thresholds: Thresholds = field(default_factory=Thresholds)
    partitions: tuple[PartitionState, ...] = ()
    problem: Problem | None = None
    left_alone: LeftAlone | None = None
    round: Round | None = None
    place: str | None = None
    hudi: Mapping[CompactionType, HudiOptions] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    plans: frozenset[str] = frozenset()
    weight: float = 1.0


@dataclass
class Memory:
    """What is known of one policy's tables. It is rebuilt after a restart, some tables at each look.

    `unread` are the selected tables that must be listed and were not yet, and `matched` counts all that the globs
    select.
    `external` are external tables that are no Hudi tables, by when this was read.
    `due_since` is by table and partition spec when the partitions that are due became so. It has all tables that a
    compaction would help: of those that are due by no threshold, no partition.
    `began` is when the first look with the policy's spec of today ended, None before.
    `outlooks` are the forecasts of what comes next, as far as they have been made.
    """

    tables: dict[str, TableState] = field(default_factory=dict)
    due_since: Mapping[str, Mapping[str, datetime]] = field(default_factory=dict)
    external: Mapping[str, datetime] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    matched: int = 0
    began: datetime | None = None
    outlooks: Outlooks = field(default_factory=dict)

    @property
    def is_new(self) -> bool:
        """Whether there are tables that were never read to the end."""
        return any(name not in self.tables for name in self.unread) or any(not one.version for one in self.large)

    @property
    def large(self) -> list[TableState]:
        """The tables whose partitions are read over several looks."""
        return [one for one in self.tables.values() if one.round is not None]

    def names_of_places(self) -> dict[str, str]:
        """Return the Hudi table that stands for each place."""
        return {one.place: one.name for one in self.tables.values() if one.place and one.hudi}

    def lacks(self, table: str) -> bool:
        """Whether a table must still be read before all is known of it."""
        state = self.tables.get(table)
        if state is None:
            return table in self.unread
        return state.round is not None or (state.problem is not None and state.problem.passing)


def remembered(
    name: str, created: int, found: Measure | TimelineMeasure, *, earlier: PartitionState | None, now: datetime
) -> PartitionState | None:
    """Return what is kept of a partition that was listed now, None if it has nothing to merge."""
    if found.is_clean:
        return None
    aborted = ((earlier.aborted_since if earlier else None) or now) if _has_aborted(found) else None
    return PartitionState(name, created, found, aborted, *_since(found, earlier, now))


def _has_aborted(found: Measure | TimelineMeasure) -> bool:
    return isinstance(found, Measure) and found.aborted > 0


def _since(
    found: Measure | TimelineMeasure, earlier: PartitionState | None, now: datetime
) -> tuple[datetime, datetime, datetime | None]:
    """Return since when no minor, no major compaction and nothing written has been seen."""
    if earlier is None:
        return now, now, now
    minor, major = _merged(earlier.measure, found)
    written = earlier.written if minor or major or earlier.measure == found else now
    if major:
        return now, now, written
    return now if minor else (earlier.minor_since or now), earlier.major_since or now, written


def _merged(old: Measure | TimelineMeasure, new: Measure | TimelineMeasure) -> tuple[bool, bool]:
    """Return whether a minor and whether a major compaction came between two looks.

    NB: that of a Hudi table is not seen if more commits follow it than it merged.
    """
    if isinstance(old, Measure) and isinstance(new, Measure):
        return old.first_delta != new.first_delta, old.base_write_id != new.base_write_id
    if isinstance(old, TimelineMeasure) and isinstance(new, TimelineMeasure):
        return new.log_blocks < old.log_blocks, new.delta_commits < old.delta_commits
    return True, True


def stale(state: TableState | None, version: str, ended: Mapping[str, datetime], name: str) -> bool:
    """Whether a table must be listed: written to, compacted or cleaned since it was listed, or not read then.

    One that was not read to the end must be, too. `ended` is when the last compaction or cleanup of a table ended.
    """
    if state is None or state.version != version or state.round is not None:
        return True
    if state.problem is not None and state.problem.passing:
        return True
    last = ended.get(name)
    return last is not None and last >= state.looked
