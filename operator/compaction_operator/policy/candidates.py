"""Candidates: the compactions that would help now, at most one of each type for a table."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.hudi import HudiOptions
from compaction_operator.api.policy import Partitions
from compaction_operator.hudi import SliceSizes
from compaction_operator.metastore.partition_specs import PartitionSpecError, parse_spec, values_of
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.memory import PartitionState, Problem, TableState
from compaction_operator.policy.partitions import Filter, unknown_key, wanted
from compaction_operator.policy.thresholds import due
from compaction_operator.policy.timeline import TimelineMeasure

MAX_PARTITIONS = 500
MAX_CHARACTERS = 16_384
"""Limits of a TableCompaction. What exceeds them comes with the table's next compaction."""

_HASH = 16


@dataclass(frozen=True, slots=True)
class Part:
    """One partition of a candidate: its spec ('' for an unpartitioned table), its gain and its cost.

    `files_saved` is how many files less a reader opens afterwards, `bytes` what the compaction reads at most.
    `due_since` is since when it is due.
    """

    spec: str
    files_saved: int
    delete_bytes: int
    bytes: int
    due_since: datetime


@dataclass(frozen=True, slots=True)
class Candidate:
    """A compaction that would help, with the reason of its first partition. `seen` is the table's version, hashed.

    `hudi` are the options for a Hudi table.
    """

    table: str
    type: CompactionType
    reason: str
    parts: tuple[Part, ...]
    seen: str = ""
    hudi: HudiOptions | None = None

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
    def due_longest(self) -> Part:
        """The partition that has been due for the longest time."""
        return min(self.parts, key=lambda part: part.due_since)


def candidates_of(
    table: TableState,
    partitions: Partitions,
    filters: Sequence[Filter],
    now: datetime,
    *,
    due_since: Mapping[str, datetime] = MappingProxyType({}),
) -> tuple[Candidate, ...]:
    """Return a table's candidates with all partitions that are due, those first from which readers gain most.

    `filters` are those of `partitions`, parsed. `due_since` says by spec since when partitions are due; the others are
    due from now on.
    """
    if table.problem is not None or key_problem(table, filters) is not None:
        return ()
    found: defaultdict[CompactionType, list[tuple[str, Part]]] = defaultdict(list)
    for one in _wanted(table, partitions, filters, now):
        if needed := due(one.measure, table.thresholds, aborted_for=one.aborted_for(now)):
            spec = spec_of(one.name, table.keys)
            part = _part(one.measure, needed.type, spec=spec, due_since=due_since.get(spec, now))
            found[needed.type].append((needed.reason, part))
    seen = hashlib.sha256(table.version.encode()).hexdigest()[:_HASH]
    return tuple(
        replace(_candidate(table.name, type_, parts), seen=seen, hudi=table.hudi.get(type_))
        for type_, parts in found.items()
    )


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
    keys = [key.lower() for key in table.keys]
    for one in table.partitions:
        values = dict(zip(keys, values_of(one.name), strict=True)) if keys else {}
        if wanted(partitions, filters, values=values, created=one.created, now=now):
            yield one


def _part(found: Measure | TimelineMeasure, type_: CompactionType, *, spec: str, due_since: datetime) -> Part:
    if isinstance(found, TimelineMeasure):
        return _hudi_part(found.sizes, type_, due_since)
    if type_ is CompactionType.MINOR:
        saved = found.delta_files - found.buckets * (2 if found.delete_bytes else 1)
        return Part(spec, max(0, saved), 0, found.delta_bytes, due_since)
    saved = found.base_files + found.delta_files - found.buckets
    return Part(spec, max(0, saved), found.delete_bytes, found.base_bytes + found.delta_bytes, due_since)


def _hudi_part(found: SliceSizes, type_: CompactionType, due_since: datetime) -> Part:
    """Return a Hudi table as a partition: a log compaction leaves one log file in each file group."""
    if type_ is CompactionType.LOG_COMPACTION:
        return Part("", found.small.files - found.small.groups, 0, found.small.bytes, due_since)
    return Part("", found.logs.files, 0, found.logs.bytes + found.base_bytes, due_since)


def _candidate(table: str, type_: CompactionType, parts: list[tuple[str, Part]]) -> Candidate:
    best = sorted(parts, key=lambda one: (-one[1].files_saved - one[1].delete_bytes, one[1].spec))
    return Candidate(table, type_, best[0][0], tuple(part for _, part in best))


def startable(candidate: Candidate, *, late: datetime) -> Candidate:
    """Return a candidate with as many of its partitions as one TableCompaction takes.

    Those that are due since `late` or earlier come first, the longest wait before all: otherwise those from which
    readers gain most would keep them out, one compaction after the other.
    """
    waited = sorted((part for part in candidate.parts if part.due_since <= late), key=lambda part: part.due_since)
    others = (part for part in candidate.parts if part.due_since > late)
    return replace(candidate, parts=tuple(_fitting((*waited, *others))))


def _fitting(parts: Iterable[Part]) -> Iterator[Part]:
    characters = 0
    for number, part in enumerate(parts, 1):
        characters += len(part.spec)
        if number > MAX_PARTITIONS or characters > MAX_CHARACTERS:
            return
        yield part


def spec_of(name: str, keys: Sequence[str]) -> str:
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
