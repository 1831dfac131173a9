"""Debt: what readers pay for each table until it is compacted, as the policies' looks have measured it. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from compaction_operator.api.compaction import CompactionType
from compaction_operator.controller.page.seen import Looked, Seen
from compaction_operator.policy.candidates import DELETE_UNIT, gain
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.memory import PartitionState, TableState
from compaction_operator.policy.timeline import TimelineMeasure


@dataclass(frozen=True, slots=True)
class Debt:
    """What readers pay. Sizes are in bytes.

    `deltas` are a Hudi table's delta commits. `files` is how many files less a reader opens after a major compaction,
    `deletes` the size of the delete events that it merges until then, and `data` that of everything else.
    """

    deltas: int = 0
    files: int = 0
    deletes: int = 0
    data: int = 0

    @property
    def value(self) -> float:
        """The debt in requests of a reader, as policies rank it: a file is one, and a MiB of delete events."""
        return self.files + self.deletes / DELETE_UNIT

    @property
    def delete_percent(self) -> float | None:
        """The delete events in percent of the other data, as the threshold `deletePercent` has it."""
        return self.deletes * 100 / self.data if self.data else None

    def __add__(self, other: "Debt") -> "Debt":
        return Debt(
            self.deltas + other.deltas, self.files + other.files, self.deletes + other.deletes, self.data + other.data
        )


@dataclass(frozen=True, slots=True)
class Owed:
    """A table that a policy's look knows, with its debt.

    `due_since` is since when a partition has exceeded a threshold, None if none does. `changed` is whether the
    table was written to since it was listed.
    """

    warehouse: str
    state: TableState
    debt: Debt
    due_since: datetime | None
    changed: bool
    policy: str

    @property
    def order(self) -> tuple[float, int, str]:
        """What tables are sorted by: the largest debt is largest."""
        return self.debt.value, self.debt.deltas, self.state.name


class Debts:
    """The debt of all tables. What has not changed since the last call is taken from there.

    NB: that saves more than the sums. Thousands of new objects for each page make Python's collector walk the whole
    heap every few pages, and nothing else runs meanwhile.
    """

    def __init__(self) -> None:
        self._known: Mapping[str, Mapping[str, Owed]] = {}

    def owed(self, seen: Seen) -> list[Owed]:
        """Return all tables that policies know, each once: as the look that was latest found it."""
        found = dict[str, dict[str, Owed]]()
        for metastore, names in _latest(seen).items():
            known = self._known.get(metastore, {})
            found[metastore] = {
                name: _owed(seen.policies[place], name, known.get(name)) for name, place in names.items()
            }
        self._known = found
        return [one for tables in found.values() for one in tables.values()]


def _latest(seen: Seen) -> Mapping[str, Mapping[str, int]]:
    """Return which of the policies read a table last, by metastore and table."""
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for place, one in enumerate(seen.policies):
        names = found[seen.metastore(one.policy.spec.warehouse)]
        for name, state in one.memory.tables.items():
            other = names.get(name)
            if other is None or seen.policies[other].memory.tables[name].looked < state.looked:
                names[name] = place
    return found


def _owed(looked: Looked, name: str, known: Owed | None) -> Owed:
    memory, policy = looked.memory, str(looked.policy.key)
    state, changed = memory.tables[name], name in memory.unread
    due = min(memory.due_since[name].values(), default=None) if name in memory.due_since else None
    if known is None or known.state is not state:
        return Owed(looked.policy.spec.warehouse, state, debt_of(state.partitions), due, changed, policy)
    if (known.due_since, known.changed, known.policy) == (due, changed, policy):
        return known
    return replace(known, due_since=due, changed=changed, policy=policy)


def debt_of(partitions: Sequence[PartitionState]) -> Debt:
    """Return the debt of some partitions together."""
    deltas = files = deletes = data = 0
    for one in partitions:
        part = of_measure(one.measure)
        deltas, files, deletes, data = (
            deltas + part.deltas,
            files + part.files,
            deletes + part.deletes,
            data + part.data,
        )
    return Debt(deltas, files, deletes, data)


def of_measure(found: Measure | TimelineMeasure) -> Debt:
    """Return the debt of one partition."""
    if isinstance(found, TimelineMeasure):
        files, _, size = gain(found, CompactionType.COMPACTION)
        return Debt(found.delta_commits, files, 0, size)
    files, deletes, size = gain(found, CompactionType.MAJOR)
    return Debt(found.deltas, files, deletes, size - deletes)


def total(tables: Iterable[Owed]) -> Debt:
    """Return the debt of many tables together."""
    return sum((one.debt for one in tables), Debt())


def due_tables(tables: Iterable[Owed]) -> int:
    """Return how many tables have a partition that exceeds a threshold."""
    return sum(one.due_since is not None for one in tables)
