"""Candidates: the compactions that would help now, at most one of each type for a table."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.policy import Partitions
from compaction_operator.metastore.partition_specs import PartitionSpecError, parse_spec, values_of
from compaction_operator.policy.memory import PartitionState, Problem, TableState
from compaction_operator.policy.partitions import Filter, unknown_key, wanted
from compaction_operator.policy.thresholds import due

MAX_PARTITIONS = 500
MAX_CHARACTERS = 16_384
"""Limits of a TableCompaction. What exceeds them comes with the table's next compaction."""


@dataclass(frozen=True, slots=True)
class Part:
    """One partition of a candidate: its spec ('' for an unpartitioned table), its gain and its cost.

    `files_saved` is how many files less a reader opens afterwards, `bytes` what the compaction reads at most.
    """

    spec: str
    files_saved: int
    delete_bytes: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A compaction that would help, with the reason of its first partition."""

    table: str
    type: CompactionType
    reason: str
    parts: tuple[Part, ...]

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


def candidates_of(
    table: TableState, partitions: Partitions, filters: Sequence[Filter], now: datetime
) -> tuple[Candidate, ...]:
    """Return a table's candidates. `filters` are those of `partitions`, parsed."""
    if table.problem is not None or key_problem(table, filters) is not None:
        return ()
    found: defaultdict[CompactionType, list[tuple[str, Part]]] = defaultdict(list)
    for one in _wanted(table, partitions, filters, now):
        if needed := due(one.measure, table.thresholds, aborted_for=one.aborted_for(now)):
            found[needed.type].append((needed.reason, _part(one, table.keys, needed.type)))
    return tuple(_candidate(table.name, type_, parts) for type_, parts in found.items())


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
        values = dict(zip(keys, values_of(one.name), strict=True)) if filters else {}
        if wanted(partitions, filters, values=values, created=one.created, now=now):
            yield one


def _part(one: PartitionState, keys: Sequence[str], type_: CompactionType) -> Part:
    found, spec = one.measure, spec_of(one.name, keys)
    if type_ is CompactionType.MINOR:
        saved = found.delta_files - found.delta_buckets * (2 if found.delete_bytes else 1)
        return Part(spec, max(0, saved), 0, found.delta_bytes)
    saved = found.base_files + found.delta_files - found.buckets
    return Part(spec, max(0, saved), found.delete_bytes, found.base_bytes + found.delta_bytes)


def _candidate(table: str, type_: CompactionType, parts: list[tuple[str, Part]]) -> Candidate:
    best = sorted(parts, key=lambda one: (-one[1].files_saved - one[1].delete_bytes, one[1].spec))
    return Candidate(table, type_, best[0][0], tuple(_fitting(part for _, part in best)))


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
