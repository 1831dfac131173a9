"""The oracle: what could be reached with all writes and queries known beforehand.

For each partition it tries all schedules of a family on the writes and queries to come, and takes the one with the
least read cost plus price times bytes. One price holds for all partitions, the one at which they take together as many
bytes as the budget has in all. So no partition could give bytes to another and both gain: within the family that is
the best there is (a Lagrangian relaxation).

A schedule merges when so many writes are loose, by a major compaction if the deltas have grown beyond a share of the
base and by a minor one otherwise, and perhaps once more after the last write.

There are two oracles:

- One keeps what a policy keeps. What has been due for `maxDelay` is merged, as a policy does it, and there is a price
  for each day, so that no day takes more than its budget. What it reaches is a lower bound: prices for which no other
  choice among the schedules costs less. (A budget for each day is less than a budget for any 24 hours.)
- The other may spend the budget of all days on any of them, and no table has to be compacted in time.

Their compactions begin with a write, and take as long as those of all others. Both oracles are still favoured: they
need no slot, and what fails costs them nothing.
"""

from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from bench.policy.fleet import DELETED, MIB, REPLACED, TICKS_A_DAY, Bools, Fleet, Floats, Ints
from bench.policy.loop import ticks_of

ROUNDS = 100
"""How often the prices of the days are set again."""
OLD = 12 * TICKS_A_DAY // 24
"""Ticks after which an aborted write asks for a major compaction (Hive's default)."""
DUE_DELTAS, DUE_SHARE = 10, 0.1
"""What Hive's thresholds say of the others: so many deltas, or deltas beyond this share of the base."""
LOOSE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 60, 120, np.inf)
GROWN = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, np.inf)
SCHEDULES = np.array([*product(LOOSE, GROWN, (0, 1))], dtype=float)
"""Each has a number of loose writes, a share of the base, and whether it merges after the last write."""
AT_ONCE = 1000
"""Partitions whose schedules are tried side by side; those with as many writes lie together."""


@dataclass(frozen=True)
class Stream:
    """The writes of partitions that lie side by side: `count` of each, the first one at `first`.

    `until` is the tick of the partition's next write, or the end; `fails` is whether compactions of its table fail at
    the write. An aborted one has no bytes, and no query reads it.
    """

    partition: Ints
    count: Ints
    first: Ints
    tick: Ints
    until: Ints
    bytes: Floats
    aborted: Bools
    fails: Bools


@dataclass(frozen=True)
class Outcomes:
    """The read cost and the bytes of each partition (rows) by each schedule (columns), and the cost of all else.

    The bytes are by day first. `popularity` is how often each partition's table is read.
    """

    cost: Floats
    bytes: NDArray[np.float32]
    popularity: Floats
    unwritten: float

    def at(self, prices: Floats, *, blind: bool = False) -> tuple[float, Floats]:
        """Return the read cost and the bytes by day of the schedules that seem best at the prices of the days."""
        seen = self.cost / self.popularity[:, None] if blind else self.cost
        best = np.argmin(seen + np.tensordot(prices.astype(np.float32), self.bytes, axes=1), axis=1)
        everywhere = np.arange(len(best))
        size = self.bytes[:, everywhere, best].sum(axis=1, dtype=float)
        return float(self.cost[everywhere, best].sum()) + self.unwritten, size


def reached(found: Outcomes, budget: float, *, blind: bool = False) -> tuple[float, float]:
    """Return the read cost that the oracle reaches with so many bytes in all, and how many it takes.

    A blind oracle knows all writes and the query mix, but takes all tables for equally popular.
    """
    whole = replace(found, bytes=found.bytes.sum(axis=0, keepdims=True))
    cost, size = whole.at(np.array([_one_price(whole, budget, blind=blind)]), blind=blind)
    return cost, float(size.sum())


def _one_price(whole: Outcomes, budget: float, *, blind: bool = False) -> float:
    """Return the price at which one period takes its budget."""
    low, high = 1e-15, 1.0
    for _ in range(60):
        price = (low * high) ** 0.5
        low, high = (price, high) if whole.at(np.array([price]), blind=blind)[1].sum() > budget else (low, price)
    return high


def bound(found: Outcomes, budget: float) -> tuple[float, float]:
    """Return a lower bound of the read cost with so many bytes on each day, and the bytes at the prices that give it.

    A day that takes too much gets dearer, the others cheaper (the subgradient of the dual, in logarithms). Each step
    gives a bound; the highest one counts.
    """
    whole = replace(found, bytes=found.bytes.sum(axis=0, keepdims=True))
    first = _one_price(whole, budget * len(found.bytes))
    prices, best = np.full(len(found.bytes), first), (0.0, 0.0)
    for step in range(ROUNDS):
        cost, size = found.at(prices)
        best = max(best, (cost + float(prices @ (size - budget)), float(size.sum())))
        prices = np.clip(prices * np.clip(size / budget, 0.2, 5) ** (5 / (10 + step)), first * 1e-4, first * 1e4)
    return best


def outcomes(fleet: Fleet, *, max_delay: int | None = None) -> Outcomes:
    """Return what each schedule makes of each partition that is written to.

    What has been due for `max_delay` ticks is merged, whatever the schedule.
    """
    stream, before = _stream(fleet)
    order = np.argsort(-stream.count)
    groups = [order[start : start + AT_ONCE] for start in range(0, len(order), AT_ONCE)]
    tried = [_Trial(fleet, stream, group, max_delay).played() for group in groups]
    cost, size = np.concatenate([one for one, _ in tried]), np.concatenate([one for _, one in tried], axis=1)
    popularity = fleet.tables.queries[fleet.partitions.table[stream.partition[order]]]
    return Outcomes(cost, size, popularity, before)


def _stream(fleet: Fleet) -> tuple[Stream, float]:
    """Return the writes by partition, and the read cost of all partitions before their first one."""
    writes, base_files = fleet.writes, fleet.partitions.base_files
    order = np.lexsort((writes.tick, writes.partition))
    where, tick = writes.partition[order], writes.tick[order]
    partition, first, count = np.unique(where, return_index=True, return_counts=True)
    until = np.append(tick[1:], fleet.shape.ticks)
    until[first + count - 1] = fleet.shape.ticks
    everywhere = np.arange(len(base_files))
    begins = np.full(len(base_files), fleet.shape.ticks)
    begins[partition] = tick[first]
    before = float((_asked_until(fleet, everywhere, begins) * base_files).sum())
    fails = fleet.failing[tick // TICKS_A_DAY, fleet.partitions.table[where]]
    aborted = writes.aborted[order]
    size = np.where(aborted, 0.0, writes.bytes[order])
    return Stream(partition, count, first, tick, until, size, aborted, fails), before


def _asked_until(fleet: Fleet, partition: Ints, tick: Ints, days: Floats | None = None) -> Floats:
    """Return the number of queries that read each partition before a tick. `days` are those of `_asked_by_day`."""
    days = _asked_by_day(fleet) if days is None else days
    day = np.minimum(tick // TICKS_A_DAY, fleet.shape.days - 1)
    found: Floats = days[day, partition] + fleet.queries[day, partition] * (tick - day * TICKS_A_DAY)
    return found


def _everywhere(found: Ints) -> tuple[Ints, Ints]:
    """Return indices of all rows and columns."""
    return np.arange(len(found))[:, None], np.arange(found.shape[1])


def _asked_by_day(fleet: Fleet) -> Floats:
    """Return the number of queries that read each partition before each day."""
    return np.vstack([np.zeros(fleet.queries.shape[1]), np.cumsum(fleet.queries, axis=0) * TICKS_A_DAY])


@dataclass
class _Trial:
    """Some partitions (rows, those with most writes first) on their way through all schedules (columns).

    `due` is the tick since when a partition exceeds a threshold or was last merged, and `old` the one from which its
    aborted writes do; both are infinite if it does not.
    """

    fleet: Fleet
    stream: Stream
    group: Ints
    max_delay: int | None
    cost: Floats = field(init=False)
    bytes: NDArray[np.float32] = field(init=False)

    def __post_init__(self) -> None:
        shape, parts = (len(self.group), len(SCHEDULES)), self.fleet.partitions
        where = self.where = self.stream.partition[self.group]
        self.cost, self.bytes = np.zeros(shape), np.zeros((self.fleet.shape.days, *shape), np.float32)
        self.deleted = np.where(parts.upserts[where], DELETED, 0.0)
        self.kept = np.where(parts.upserts[where], 1 - REPLACED, 1.0)
        self.dirs = np.where(parts.upserts[where], 2.0, 1.0)
        self.spread = parts.spread[where].astype(float)
        self.base = np.repeat(parts.base_bytes[where][:, None], shape[1], axis=1)
        self.base_files = np.repeat(parts.base_files[where][:, None], shape[1], axis=1).astype(float)
        self.loose, self.merged, self.rows = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.due, self.old = np.full(shape, np.inf), np.full(shape, np.inf)
        self.days = _asked_by_day(self.fleet)

    def played(self) -> tuple[Floats, NDArray[np.float32]]:
        """Return the read cost of all schedules, and their bytes by day."""
        counts = self.stream.count[self.group]
        for number in range(counts[0]):
            active = int(np.searchsorted(-counts, -number))
            self._write(number, active, last=counts[:active] == number + 1)
        return self.cost, self.bytes

    def _write(self, number: int, active: int, *, last: Bools) -> None:
        stream, top = self.stream, slice(0, active)
        place = stream.first[self.group[top]] + number
        tick, aborted = stream.tick[place], stream.aborted[place]
        self.rows[top] += stream.bytes[place][:, None]
        self.loose[top] += ~aborted[:, None]
        self.old[top][aborted] = np.minimum(self.old[top][aborted], tick[aborted][:, None] + OLD)
        loose, _, settles = SCHEDULES.T
        wanted = (self.loose[top] >= loose) | (last[:, None] & (settles > 0))
        row, column = np.nonzero(wanted & ~stream.fails[place][:, None])
        read = np.repeat(tick[:, None], len(SCHEDULES), axis=1)
        merged = np.zeros((active, len(SCHEDULES)), bool)
        merged[row, column] = self._merge(row, column, read, stream.until[place])
        if self.max_delay is not None:
            over = self._exceeds(*_everywhere(read))
            self.due[top] = np.where(over, np.where(merged, read, np.minimum(self.due[top], read)), np.inf)
            self._merge_in_time(read, stream.until[place], self.max_delay)
        self._read(*_everywhere(read), read, stream.until[place][:, None])

    def _exceeds(self, row: Ints, column: Ints) -> Bools:
        """Whether partitions exceed Hive's thresholds for deltas."""
        base = self.base[row, column]
        many = (self.loose[row, column] + self.merged[row, column]) * self.dirs[row] > DUE_DELTAS
        found: Bools = many | ((base > 0) & (self.rows[row, column] * (1 + self.deleted[row]) > base * DUE_SHARE))
        return found

    def _merge_in_time(self, read: Ints, until: Ints, max_delay: int) -> None:
        """Merge what will have been due for too long before the next write. `read` moves on to these merges."""
        top = slice(0, len(read))
        while True:
            at = np.minimum(self.due[top], self.old[top]) + max_delay
            row, column = np.nonzero(np.maximum(at, read) < until[:, None])
            if not len(row):
                return
            tick = np.maximum(at[row, column], read[row, column]).astype(np.int64)
            self._read(row, column, read[row, column], tick)
            read[row, column] = tick
            works = ~self.fleet.failing[tick // TICKS_A_DAY, self.fleet.partitions.table[self.where[row]]]
            self._merge(row[works], column[works], read, until, must=True)
            self.due[row, column] = np.where(self._exceeds(row, column), tick, np.inf)
            self.old[row, column] = np.where(self.old[row, column] <= tick, tick, self.old[row, column])

    def _merge(self, row: Ints, column: Ints, read: Ints, until: Ints, *, must: bool = False) -> Bools:
        """Merge partitions as their schedules do; return which are. What `must` be gets a major one if nothing else.

        A compaction begins at `read`, up to which all queries are counted. Those that come before it ends, or before
        the next write, are counted here.
        """
        tick, rows, base = read[row, column], self.rows[row, column], self.base[row, column]
        size, grown = rows * (1 + self.deleted[row]), SCHEDULES[column, 1]
        major = (size > np.where(np.isinf(grown), 0, grown) * base) & ~(np.isinf(grown) & (base > 0))
        minor = ~major & (self.loose[row, column] + self.merged[row, column] > 1)
        if must:
            minor &= self.old[row, column] > tick
            major = ~minor
        taken = np.where(major | minor, size, 0) + major * base
        np.add.at(self.bytes, (tick // TICKS_A_DAY, row, column), taken)
        read[row, column] = np.where(major | minor, np.minimum(tick + ticks_of(taken), until[row]), tick)
        self._read(row, column, tick, read[row, column])
        self.base[row, column] += major * rows * self.kept[row]
        files = self.base_files[row, column]
        self.base_files[row, column] = np.where(major, np.maximum(files, self.spread[row]), files)
        self.rows[row, column] = np.where(major, 0, rows)
        self.merged[row, column] = np.where(major, 0, np.where(minor, 1, self.merged[row, column]))
        self.loose[row, column] = np.where(major | minor, 0, self.loose[row, column])
        self.old[row, column] = np.where(major, np.inf, self.old[row, column])
        merged: Bools = major | minor
        return merged

    def _read(self, row: Ints, column: Ints, since: Ints, until: Ints) -> None:
        """Count what queries pay for partitions from a tick until another."""
        where = self.where[row]
        queries = _asked_until(self.fleet, where, until, self.days) - _asked_until(self.fleet, where, since, self.days)
        files = (self.loose[row, column] + self.merged[row, column]) * self.spread[row] * self.dirs[row]
        deletes = self.rows[row, column] * self.deleted[row] / MIB
        self.cost[row, column] += queries * (self.base_files[row, column] + files + deletes)
