"""The clock: each tick brings writes, ends compactions and lets an arm decide; all is counted on the way."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from bench.policy.fleet import MIB, TICK, TICKS_A_DAY, Fleet, Floats, Ints
from bench.policy.state import Content, State
from compaction_operator.api.compaction import CompactionType

OVERHEAD_S = 30.0
BYTES_A_SECOND = 150 * MIB


@dataclass(frozen=True)
class Limits:
    """What each arm may use: compactions at once, and bytes of the compactions that start in 24 hours."""

    slots: int
    bytes: float


@dataclass(frozen=True)
class Start:
    """A compaction of some partitions of one table. `name` is the arm's own."""

    name: str
    table: int
    partitions: Ints
    type: CompactionType

    @classmethod
    def one(cls, fleet: Fleet, partition: int, type_: CompactionType) -> "Start":
        """Return the compaction of one partition."""
        return cls("", int(fleet.partitions.table[partition]), np.array([partition]), type_)


@dataclass(frozen=True)
class Run:
    """A compaction that runs until a tick, and what it has read."""

    start: Start
    started: int
    ends: int
    fails: bool
    taken: Content
    bytes: float


class Arm(Protocol):
    """A way to decide."""

    def decide(self, tick: int, changed: Ints, ended: Iterable[Run]) -> list[Start]:
        """Return what starts now. `changed` are the partitions written to or compacted since the last tick."""


@dataclass
class Played:
    """What came of an arm: the read cost of all queries by day, and its compactions."""

    cost: Floats
    runs: list[Run] = field(default_factory=list)
    most: float = 0.0
    most_at_once: int = 0

    @property
    def bytes(self) -> float:
        """What all compactions have read."""
        return sum(one.bytes for one in self.runs)


class Ledger:
    """The bytes of what has started in the last 24 hours."""

    def __init__(self) -> None:
        self._started: deque[tuple[int, float]] = deque()
        self.used = 0.0

    def forget(self, tick: int) -> None:
        """Forget what started more than 24 hours ago."""
        while self._started and self._started[0][0] < tick - TICKS_A_DAY:
            self.used -= self._started.popleft()[1]

    def add(self, tick: int, size: float) -> None:
        """Count a start."""
        self._started.append((tick, size))
        self.used += size


def play(fleet: Fleet, state: State, arm: Arm) -> Played:
    """Play a fleet through an arm from the first tick to the last."""
    played, ledger, running = Played(np.zeros(fleet.shape.days)), Ledger(), list[Run]()
    for tick in range(fleet.shape.ticks):
        ended = [one for one in running if one.ends <= tick]
        running = [one for one in running if one.ends > tick]
        changed = [state.write(tick), *(end(state, one) for one in ended)]
        ledger.forget(tick)
        for start in arm.decide(tick, np.unique(np.concatenate(changed)), ended):
            run = begin(fleet, state, start, tick)
            ledger.add(tick, run.bytes)
            running.append(run)
            played.runs.append(run)
        played.most = max(played.most, ledger.used)
        played.most_at_once = max(played.most_at_once, len(running))
        day = tick // TICKS_A_DAY
        played.cost[day] += (fleet.queries[day] * state.read_cost()).sum()
    return played


def begin(fleet: Fleet, state: State, start: Start, tick: int) -> Run:
    """Let a compaction begin: it reads what is there now."""
    size = float(state.cost(start.partitions, start.type).sum())
    ends = tick + int(ticks_of(np.array(size)))
    fails = bool(fleet.failing[tick // TICKS_A_DAY, start.table])
    return Run(start, tick, ends, fails, state.content(start.partitions), size)


def ticks_of(size: Floats) -> Ints:
    """Return how long compactions take that read so many bytes."""
    found: Ints = np.ceil((OVERHEAD_S + size / BYTES_A_SECOND) / TICK.total_seconds()).astype(np.int64)
    return found


def end(state: State, run: Run) -> Ints:
    """Let a compaction end; return its partitions."""
    if not run.fails:
        state.merge(run.start.partitions, run.taken, run.start.type)
    return run.start.partitions


def whole(state: State, partition: int, type_: CompactionType) -> float:
    """Return the bytes that a compaction of one partition would read."""
    return float(state.cost(np.array([partition]), type_)[0])
