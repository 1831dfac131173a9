"""Candidates: the compactions that would help now, at most one of each type for a table."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.policy import Partitions, Strategy
from compaction_operator.metastore.partition_specs import PartitionSpecError, parse_spec, values_of
from compaction_operator.policy.memory import PartitionState, Problem, TableState
from compaction_operator.policy.partitions import Filter, unknown_key, wanted
from compaction_operator.policy.thresholds import due

HOUR = timedelta(hours=1)
MAX_PARTITIONS = 500
MAX_CHARACTERS = 16_384
"""Limits of a TableCompaction. What exceeds them comes with the table's next compaction."""
DELETE_UNIT = 1024**2
COST_UNIT = 16 * 1024**2
SOON = 1 / 6
"""Hours that count at least: all that was listed for the first time is ranked by benefit and cost alone."""
AS_GOOD = 0.5
"""With the best partition of a table go those with at least this share of its score."""


BELOW = "most gain for its cost; below the thresholds"
"""Why a partition is compacted by gain that is not due."""


@dataclass(frozen=True, slots=True)
class Part:
    """One partition of a candidate: its spec ('' for an unpartitioned table), its gain and its cost.

    `files_saved` is how many files less a reader opens afterwards, `bytes` what the compaction reads at most, and
    `hours` for how long readers have been without it, at least `SOON`. `due` is whether a threshold is exceeded.
    """

    spec: str
    files_saved: int
    delete_bytes: int
    bytes: int
    hours: float = SOON
    due: bool = True

    @property
    def benefit(self) -> float:
        """What a reader need not open or merge afterwards, in requests: a file is one, and a MiB of delete events."""
        return self.files_saved + self.delete_bytes / DELETE_UNIT

    @property
    def score(self) -> float:
        """The score of this partition alone, if its table weighs 1."""
        return self.benefit * self.hours / (1 + self.bytes / COST_UNIT)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A compaction that would help, with the reason of its first partition.

    `weight` is how often the table is read, compared with others. `due` is whether a partition of the table, of this
    candidate or not, exceeds a threshold.
    """

    table: str
    type: CompactionType
    reason: str
    parts: tuple[Part, ...]
    weight: float = 1.0
    due: bool = True

    @property
    def files_saved(self) -> int:
        """How many files less a reader of all partitions opens afterwards."""
        return sum(part.files_saved for part in self.parts)

    @property
    def delete_bytes(self) -> int:
        """Bytes of delete events that readers merge until then."""
        return sum(part.delete_bytes for part in self.parts)

    @property
    def bytes(self) -> int:
        """Bytes that the compaction reads at most."""
        return sum(part.bytes for part in self.parts)

    @property
    def cost(self) -> float:
        """What the compaction costs, in `COST_UNIT`s; one is for the start of its Job."""
        return 1 + self.bytes / COST_UNIT


_Chosen = tuple[CompactionType, str, Part]
"""What a partition would get: type, reason, gain and cost."""


def candidates_of(
    table: TableState,
    partitions: Partitions,
    filters: Sequence[Filter],
    now: datetime,
    *,
    strategy: Strategy = Strategy.THRESHOLDS,
    late: bool = False,
) -> tuple[Candidate, ...]:
    """Return a table's candidates. `filters` are those of `partitions`, parsed.

    By thresholds a candidate has the partitions that are due. By gain it has the best partitions, due or not, unless
    the table is late: then all that are due.
    """
    if not table.partitions or table.problem is not None or key_problem(table, filters) is not None:
        return ()
    considered = _due if strategy is Strategy.THRESHOLDS else _best
    found: defaultdict[CompactionType, list[tuple[str, Part]]] = defaultdict(list)
    for one in _wanted(table, partitions, filters, now):
        if chosen := considered(one, table, now):
            type_, reason, part = chosen
            found[type_].append((reason, part))
    is_due = any(part.due for parts in found.values() for _, part in parts)
    all_due = is_due and (late or strategy is Strategy.THRESHOLDS)
    kept = {type_: _kept(parts, all_due=all_due) for type_, parts in found.items()}
    return tuple(_candidate(table, type_, parts, due=is_due) for type_, parts in kept.items() if parts)


def key_problem(table: TableState, filters: Sequence[Filter]) -> Problem | None:
    """Return that a filter names no partition key of a table: what it would mean there is not known."""
    key = unknown_key(filters, table.keys)
    if key is None:
        return None
    known = ", ".join(table.keys) or "none"
    return Problem("NoPartitionKey", f"table {table.name} has no partition key {key!r}; its keys are: {known}")


def _wanted(
    table: TableState, partitions: Partitions, filters: Sequence[Filter], now: datetime
) -> Iterator[PartitionState]:
    if not filters and partitions.min_age is None and partitions.max_age is None:
        yield from table.partitions
        return
    keys = [key.lower() for key in table.keys]
    for one in table.partitions:
        values = dict(zip(keys, values_of(one.name), strict=True)) if filters else {}
        if wanted(partitions, filters, values=values, created=one.created, now=now):
            yield one


def _due(one: PartitionState, table: TableState, now: datetime) -> _Chosen | None:
    """Return the compaction that a partition needs by its thresholds, None if it needs none."""
    needed = due(one.measure, table.thresholds, aborted_for=one.aborted_for(now))
    return (needed.type, needed.reason, _part(one, needed.type, now, due=True)) if needed else None


def _best(one: PartitionState, table: TableState, now: datetime) -> _Chosen | None:
    """Return the compaction from which readers gain most for its cost, None if they gain nothing.

    NB: aborted writes ask for a major compaction, as Hive has it, however little readers gain.
    """
    found, age = one.measure, one.aborted_for(now)
    needed = due(found, table.thresholds, aborted_for=age)
    best = _part(one, CompactionType.MAJOR, now, due=needed is not None)
    if found.aborted and needed and due(replace(found, deltas=0, delta_bytes=0), table.thresholds, aborted_for=age):
        return needed.type, needed.reason, best
    type_, reason = CompactionType.MAJOR, needed.reason if needed else BELOW
    if found.base_bytes:
        minor = _part(one, CompactionType.MINOR, now, due=best.due)
        type_, best = (CompactionType.MINOR, minor) if minor.score > best.score else (type_, best)
    return (type_, reason, best) if best.due or best.benefit else None


def _kept(parts: list[tuple[str, Part]], *, all_due: bool) -> list[tuple[str, Part]]:
    """Return the partitions that go together: all that are due, or those nearly as good as the best."""
    if all_due:
        return [one for one in parts if one[1].due]
    least = AS_GOOD * max(part.score for _, part in parts)
    return [one for one in parts if one[1].score >= least]


def _part(one: PartitionState, type_: CompactionType, now: datetime, *, due: bool) -> Part:
    """Return a partition's gain and cost. Its spec is still its name."""
    found, hours = one.measure, max(SOON, one.loose_for(type_, now) / HOUR)
    if type_ is CompactionType.MINOR:
        saved = found.delta_files - found.delta_buckets * (2 if found.delete_bytes else 1)
        return Part(one.name, max(0, saved), 0, found.delta_bytes, hours, due)
    saved = found.base_files + found.delta_files - found.buckets
    return Part(one.name, max(0, saved), found.delete_bytes, found.base_bytes + found.delta_bytes, hours, due)


def _candidate(table: TableState, type_: CompactionType, parts: list[tuple[str, Part]], *, due: bool) -> Candidate:
    best = sorted(parts, key=lambda one: (-one[1].score, one[1].spec))
    named = (replace(part, spec=spec_of(part.spec, table.keys)) for _, part in best)
    return Candidate(table.name, type_, best[0][0], tuple(_fitting(named)), table.weight, due)


def _fitting(parts: Iterable[Part]) -> Iterator[Part]:
    characters = 0
    for number, part in enumerate(parts, 1):
        characters += len(part.spec)
        if number > MAX_PARTITIONS or characters > MAX_CHARACTERS:
            return
        yield part


@lru_cache(maxsize=100_000)
def spec_of(name: str, keys: tuple[str, ...]) -> str:
    """Return the spec that selects the partition of that name alone. A name with a comma, say, needs quotes."""
    if not name:
        return ""
    values = values_of(name)
    try:
        if parse_spec(name, keys) == values:
            return name
    except PartitionSpecError:
        pass
    quoted = (value.replace("\\", "\\\\").replace("'", "\\'") for value in values)
    return ",".join(f"{key}='{value}'" for key, value in zip(keys, quoted, strict=True))
