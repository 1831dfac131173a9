"""Candidates: the compactions that would help now, at most one of each type for a table."""

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import product
from types import MappingProxyType

from compaction_operator import __version__
from compaction_operator.api.compaction import CompactionType, Forecast
from compaction_operator.api.hudi import HudiOptions
from compaction_operator.api.policy import Partitions, Strategy
from compaction_operator.hudi import SliceSizes
from compaction_operator.metastore.partition_specs import PartitionSpecError, parse_spec, values_of
from compaction_operator.policy.forecasts import Outlook, Outlooks, outlook, together
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.memory import PartitionState, Problem, TableState
from compaction_operator.policy.partitions import Filter, unknown_key, wanted
from compaction_operator.policy.thresholds import Due, due
from compaction_operator.policy.timeline import TimelineMeasure

HOUR = timedelta(hours=1)
NEVER = datetime.min.replace(tzinfo=UTC)
MAX_PARTITIONS = 500
MAX_CHARACTERS = 16_384
"""Limits of a TableCompaction. What exceeds them comes with the table's next compaction."""
DELETE_UNIT = 1024**2
DELETED_ROWS_UNIT = 2**20
"""Rows that count like a MiB of delete events, as these have where a few percent of the rows are deleted.

The events of rows that follow one another take hardly any bytes, and cost readers as much.
"""
COST_UNIT = 4 * 1024**2
CPU_UNIT = 200.0
"""CPU milliseconds that cost as much, where the CPU time counts."""
SOON = 3.0
"""Hours to come that count beside those that have passed: readers gain from then on, and a large gain need not wait."""
PRESSING = 0.9
"""Share of `max_delay` after which a due table goes before those with a higher score, within the budget."""
QUIET = 3.0
"""Hours to come for each hour without a write: what has been quiet for long stays so, and readers gain for longer."""
URGENT = 3
"""How steeply a score rises on the way there."""
SMALL = 1 / 48
"""Share of a budget above which a partition is less urgent: large ones keep all others waiting, so few go early."""
AS_GOOD = 0.25
"""With the best partition of a table go those with at least this share of its score."""


DEAREST = 5
"""How many failures in a row make a compaction dearer: a table that was repaired must not wait for ever."""
BELOW = "most gain for its cost; below the thresholds"
"""Why a partition is compacted by gain that is not due."""

_HASH = 16


@dataclass(frozen=True, slots=True)
class Part:
    """One partition of a candidate: its spec ('' for an unpartitioned table), its gain and its cost.

    `files_saved` is how many files less a reader opens afterwards, `bytes` what the compaction reads at most.
    `due` is whether a threshold is exceeded, and `due_since` since when, now if none is. `hours` is for how long
    readers have been without the compaction and, by `SOON` and `QUIET`, will gain by it. `reason` is why it is
    compacted, and `urgency` what its score is multiplied by, as it has to start within `max_delay`.
    `state` is the partition itself, and `outlook` what is known of its compaction. `cpu` are the CPU milliseconds that
    it is expected to take, where these count as its cost.
    """

    spec: str
    files_saved: int
    delete_bytes: int
    bytes: int
    due_since: datetime
    hours: float = SOON
    due: bool = True
    reason: str = ""
    urgency: float = 1.0
    state: PartitionState | None = None
    outlook: Outlook | None = None
    cpu: float | None = None

    @property
    def forecast(self) -> Forecast | None:
        """What it will do, None if that is not known."""
        return self.outlook.forecast if self.outlook else None

    @property
    def benefit(self) -> float:
        """What a reader need not open or merge afterwards, in requests: a file is one, and a MiB of delete events.

        So are `DELETED_ROWS_UNIT` of the rows that a forecast says to be deleted.
        """
        rows = self.forecast.rows_removed if self.forecast else 0
        return self.files_saved + max(self.delete_bytes / DELETE_UNIT, rows / DELETED_ROWS_UNIT)

    @property
    def listed(self) -> float:
        """Its score by its listing alone: the measure for all partitions of a table, as few of them are forecast."""
        if self.outlook is None and self.cpu is None:
            return self.score
        return replace(self, outlook=None, cpu=None).score

    def cpu_at(self, rate: float) -> float:
        """Return the CPU milliseconds that it is expected to take: by its forecast, or by its bytes at a rate."""
        return self.forecast.cpu_milliseconds if self.forecast else self.bytes * rate

    @property
    def cost(self) -> float:
        """What its compaction costs beside the start of a Job."""
        return self.bytes / COST_UNIT if self.cpu is None else self.cpu / CPU_UNIT

    @property
    def worth(self) -> float:
        """What readers gain for the cost, however urgent it is."""
        return self.benefit * self.hours / (1 + self.cost)

    @property
    def score(self) -> float:
        """The score of this partition alone, if its table weighs 1."""
        return self.worth * self.urgency


@dataclass(frozen=True, slots=True)
class Candidate:
    """A compaction that would help. `seen` is a hash of all that decides what it finds.

    `hudi` are the options for a Hudi table. `weight` is how often the table is read, compared with others. `later` are
    partitions that need such a compaction and do not go with these: they follow with another one. `failures` of the
    same table and type in a row came before it.
    """

    table: str
    type: CompactionType
    parts: tuple[Part, ...]
    seen: str = ""
    hudi: HudiOptions | None = None
    weight: float = 1.0
    later: tuple[Part, ...] = ()
    failures: int = 0

    @property
    def reason(self) -> str:
        """Why its first partition is compacted."""
        return self.parts[0].reason

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
    def forecast(self) -> Forecast | None:
        """What the compaction of all partitions will do, None if it is not known of each."""
        return together(part.forecast for part in self.parts)

    @property
    def forecast_problem(self) -> str | None:
        """Why there is no forecast of one of its partitions, None if none has failed."""
        for part in self.parts:
            if part.outlook and part.outlook.problem:
                return f"{part.spec}: {part.outlook.problem}" if part.spec else part.outlook.problem
        return None

    @property
    def cost(self) -> float:
        """What the compaction costs, in `COST_UNIT`s; one is for the start of its Job. Each failure doubles it.

        What has failed will probably fail again, and what that takes is lost for the others.
        """
        return (1 + sum(part.cost for part in self.parts)) * 2.0 ** min(self.failures, DEAREST)

    @property
    def due(self) -> bool:
        """Whether a partition exceeds a threshold."""
        return any(part.due for part in (*self.parts, *self.later))

    @property
    def due_longest(self) -> Part:
        """The partition that has been due for the longest time."""
        return min((*self.parts, *self.later), key=lambda part: part.due_since)


_Chosen = tuple[CompactionType, Part]
"""What a partition would get: type, reason, gain and cost."""


def candidates_of(
    table: TableState,
    partitions: Partitions,
    filters: Sequence[Filter],
    now: datetime,
    *,
    strategy: Strategy = Strategy.THRESHOLDS,
    due_since: Mapping[str, datetime] = MappingProxyType({}),
    late: datetime = NEVER,
    budget: float = math.inf,
    outlooks: Outlooks = MappingProxyType({}),
    rates: Mapping[CompactionType, float] | None = None,
) -> tuple[Candidate, ...]:
    """Return a table's candidates with all partitions that are due, those first from which readers gain most.

    By gain, partitions from which readers gain belong to them whether due or not. `filters` are those of `partitions`,
    parsed. `due_since` says by spec since when partitions are due; the others are due from now on. What is due since
    `late` or earlier presses. `budget` are the bytes of a window. `outlooks` are the forecasts that are known. `rates`
    are the CPU milliseconds for a byte by type, if the CPU time counts as the cost, and not the bytes.
    """
    if not table.partitions or table.problem is not None or key_problem(table, filters) is not None:
        return ()
    considered = _due if strategy is Strategy.THRESHOLDS else _best
    if rates and outlooks:
        rates = {**rates, **_own_rates(table, outlooks)}
    found: defaultdict[CompactionType, list[Part]] = defaultdict(list)
    for one in _wanted(table, partitions, filters, now):
        spec = spec_of(one.name, table.keys)
        wait = _Wait(table.name, spec, due_since.get(spec, now), now, late, budget, outlooks, rates)
        if chosen := considered(one, table, wait):
            type_, part = chosen
            found[type_].append(part)
    return tuple(_candidate(table, type_, parts) for type_, parts in found.items())


def _own_rates(table: TableState, outlooks: Outlooks) -> dict[CompactionType, float]:
    """Return the CPU milliseconds for a byte by type of the partitions of a table that are forecast.

    NB: those that are not take about the same. By the rate of all tables they would seem much dearer or cheaper.
    """
    size, cpu = defaultdict[CompactionType, int](int), defaultdict[CompactionType, int](int)
    for type_, one in product((CompactionType.MINOR, CompactionType.MAJOR), table.partitions):
        found = outlook(outlooks, table.name, type_, one.name, one.measure)
        if found and found.forecast:
            size[type_] += gain(one.measure, type_)[2]
            cpu[type_] += found.forecast.cpu_milliseconds
    return {type_: cpu[type_] / size[type_] for type_ in size if size[type_]}


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


@dataclass(frozen=True, slots=True)
class _Wait:
    """A partition's table and spec, since when it is due, now, since when it has to be due to press, and the budget.

    `outlooks` and `rates` are as for `candidates_of`.
    """

    table: str
    spec: str
    since: datetime
    now: datetime
    late: datetime
    budget: float
    outlooks: Outlooks
    rates: Mapping[CompactionType, float] | None

    def urgency(self, size: int) -> float:
        """How much more a due partition of a size counts the nearer it is to pressing: `1 + 3 s u / (1 - u)`.

        `u` is the share of `max_delay` for which it has been due, up to `PRESSING`. `s` is 1 for small ones, and falls
        with the size of others.
        """
        share = PRESSING * min(1.0, max(0.0, (self.now - self.since) / (self.now - self.late)))
        small = min(1.0, SMALL * self.budget / size) if size else 1.0
        return 1 + URGENT * small * share / (1 - share)


def _due(one: PartitionState, table: TableState, wait: _Wait) -> _Chosen | None:
    """Return the compaction that a partition needs by its thresholds, None if it needs none."""
    needed = due(one.measure, table.thresholds, aborted_for=one.aborted_for(wait.now))
    return (needed.type, _part(one, needed.type, wait, needed)) if needed else None


def _best(one: PartitionState, table: TableState, wait: _Wait) -> _Chosen | None:
    """Return the compaction from which readers gain most for its cost, None if they gain nothing.

    NB: aborted writes ask for a major compaction, as Hive has it, however little readers gain. What presses gets a
    minor one if that saves any file: else large bases that are hardly read would take much of the budget. A Hudi table
    goes by its thresholds: the sizes of its files are read only when it is due.
    """
    found, age = one.measure, one.aborted_for(wait.now)
    if isinstance(found, TimelineMeasure):
        return _due(one, table, wait)
    needed = due(found, table.thresholds, aborted_for=age)
    type_, best = CompactionType.MAJOR, _part(one, CompactionType.MAJOR, wait, needed)
    if needed and found.aborted and due(_aborted_alone(found), table.thresholds, aborted_for=age):
        return type_, best
    if has_minor(found):
        minor = _part(one, CompactionType.MINOR, wait, needed)
        presses = best.due and wait.since <= wait.late and minor.benefit > 0
        type_, best = (CompactionType.MINOR, minor) if presses or minor.worth > best.worth else (type_, best)
    return (type_, best) if best.due or best.benefit else None


def has_minor(found: Measure | TimelineMeasure) -> bool:
    """Whether a minor compaction is an alternative. NB: that of one delta finds nothing to merge."""
    return isinstance(found, Measure) and found.base_bytes > 0 and found.deltas > 1


def _aborted_alone(found: Measure) -> Measure:
    return replace(found, deltas=0, delta_bytes=0, delete_bytes=0, small_files=0, small_base_files=0)


def _part(one: PartitionState, type_: CompactionType, wait: _Wait, needed: Due | None) -> Part:
    files, deletes, size = gain(one.measure, type_)
    part = Part(
        wait.spec,
        files,
        deletes,
        size,
        due_since=wait.now,
        hours=SOON + (one.loose_for(type_, wait.now) + QUIET * one.quiet_for(wait.now)) / HOUR,
        due=False,
        reason=BELOW,
        state=one,
        outlook=outlook(wait.outlooks, wait.table, type_, one.name, one.measure),
    )
    if wait.rates is not None:
        part = replace(part, cpu=part.cpu_at(wait.rates[type_]))
    if needed is None:
        return part
    return replace(part, due=True, due_since=wait.since, reason=needed.reason, urgency=wait.urgency(size))


def gain(found: Measure | TimelineMeasure, type_: CompactionType) -> tuple[int, int, int]:
    """Return the files and the bytes of delete events that a compaction saves, and the bytes that it reads."""
    if isinstance(found, TimelineMeasure):
        return _hudi_gain(found.sizes, type_)
    if type_ is CompactionType.MINOR:
        saved = found.delta_files - found.delta_buckets * (2 if found.delete_bytes else 1)
        return max(0, saved), 0, found.delta_bytes
    saved = found.base_files + found.delta_files - found.buckets
    return max(0, saved), found.delete_bytes, found.base_bytes + found.delta_bytes


def _hudi_gain(found: SliceSizes, type_: CompactionType) -> tuple[int, int, int]:
    """Return the gain for a Hudi table: a log compaction leaves one log file in each file group."""
    if type_ is CompactionType.LOG_COMPACTION:
        return found.small.files - found.small.groups, 0, found.small.bytes
    return found.logs.files, 0, found.logs.bytes + found.base_bytes


def _candidate(table: TableState, type_: CompactionType, parts: list[Part]) -> Candidate:
    best = tuple(sorted(parts, key=lambda one: (-one.score, one.spec)))
    return Candidate(table.name, type_, best, _seen(table, type_), table.hudi.get(type_), table.weight)


def _seen(table: TableState, type_: CompactionType) -> str:
    """Return a hash of all that decides what a compaction finds to merge: the files, its options, and this version."""
    own = table.hudi.get(type_)
    options = own.to_json() if own else None
    decides = [table.version, sorted(table.plans), options, dict(table.given), __version__]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:_HASH]


def startable(candidate: Candidate, *, strategy: Strategy, late: datetime) -> Candidate:
    """Return a candidate with as many of its partitions as one TableCompaction takes.

    Those that are due since `late` or earlier come first, the longest wait before all: otherwise those from which
    readers gain most would keep them out, one compaction after the other. By gain, the others go with the best of them
    if they are nearly as good.
    """
    if len(candidate.parts) == 1:
        return candidate
    waited = sorted((part for part in candidate.parts if part.due_since <= late), key=lambda part: part.due_since)
    others = [part for part in candidate.parts if part.due_since > late]
    if strategy is Strategy.GAIN:
        least = AS_GOOD * max(part.listed for part in candidate.parts)
        others = [part for part in others if part.listed >= least]
    taken = tuple(_fitting((*waited, *others)))
    kept = {part.spec for part in taken}
    return replace(candidate, parts=taken, later=tuple(part for part in candidate.parts if part.spec not in kept))


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
