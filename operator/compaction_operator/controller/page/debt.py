"""Debt: what readers pay for each table until it is compacted, as the policies' looks have measured it. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from compaction_operator.api.compaction import CompactionType
from compaction_operator.controller.page.seen import Seen
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
    """The debt of all tables. That of a table which was not listed again since the last call is not computed again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[TableState, Debt]] = {}

    def owed(self, seen: Seen) -> list[Owed]:
        """Return all tables that policies know, each once: as the look that was latest found it."""
        latest: dict[tuple[str, str], Owed] = {}
        known = dict[int, tuple[TableState, Debt]]()
        for one in seen.policies:
            warehouse, memory, policy = one.policy.spec.warehouse, one.memory, str(one.policy.key)
            metastore = seen.metastore(warehouse)
            for name, state in memory.tables.items():
                _, debt = known[id(state)] = self._of(state)
                other = latest.get((metastore, name))
                if other is None or other.state.looked < state.looked:
                    due = min(memory.due_since.get(name, {}).values(), default=None)
                    latest[metastore, name] = Owed(warehouse, state, debt, due, name in memory.unread, policy)
        self._known = known
        return list(latest.values())

    def _of(self, state: TableState) -> tuple[TableState, Debt]:
        """Return a state with its debt. NB: the state is kept, so that no other one gets its identity."""
        found = self._known.get(id(state))
        return found if found is not None else (state, debt_of(state.partitions))


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
