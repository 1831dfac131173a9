"""The oracle: what could be reached with all writes and queries known beforehand.

For each partition it tries all schedules of a family on the writes and queries to come, and takes the one with the
least read cost plus price times bytes. One price holds for all partitions, the one at which they take together as many
bytes as the budget has in all. So no partition could give bytes to another and both gain: within the family that is
the best there is (a Lagrangian relaxation).

A schedule merges when so many writes are loose, by a major compaction if the deltas have grown beyond a share of the
base and by a minor one otherwise, and perhaps once more after the last write. The oracle is favoured in what is hard
for all others: its compactions take no time, need no slot and fail only with tables on
which all others fail, it may spend the budget of all days on any of
them, and no table has to be compacted in time.
"""

from dataclasses import dataclass, field
from itertools import product

import numpy as np

from bench.policy.fleet import DELETED, MIB, REPLACED, TICKS_A_DAY, Bools, Fleet, Floats, Ints

LOOSE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 60, 120, np.inf)
GROWN = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, np.inf)
SCHEDULES = np.array([*product(LOOSE, GROWN, (0, 1))], dtype=float)
"""Each has a number of loose writes, a share of the base, and whether it merges after the last write."""
AT_ONCE = 1000
"""Partitions whose schedules are tried side by side; those with as many writes lie together."""


@dataclass(frozen=True)
class Stream:
    """The writes of partitions that lie side by side: `count` of each, the first one at `first`.

    `reads` is the number of queries from a write until the partition's next one, or until the end; `fails` is whether
    compactions of its table fail then.
    """

    partition: Ints
    count: Ints
    first: Ints
    bytes: Floats
    reads: Floats
    fails: Bools


@dataclass(frozen=True)
class Outcomes:
    """The read cost and the bytes of each partition (rows) by each schedule (columns), and the cost of all else.

    `popularity` is how often each partition's table is read.
    """

    cost: Floats
    bytes: Floats
    popularity: Floats
    unwritten: float

    def at(self, price: float, *, blind: bool) -> tuple[float, float]:
        """Return the read cost and the bytes of the schedules that seem best at a price."""
        seen = self.cost / self.popularity[:, None] if blind else self.cost
        best = np.argmin(seen + price * self.bytes, axis=1)[:, None]
        cost, size = (np.take_along_axis(one, best, axis=1).sum() for one in (self.cost, self.bytes))
        return float(cost) + self.unwritten, float(size)


def reached(found: Outcomes, budget: float, *, blind: bool = False) -> tuple[float, float]:
    """Return the read cost that the oracle reaches with so many bytes in all, and how many it takes.

    A blind oracle knows all writes and the query mix, but takes all tables for equally popular.
    """
    low, high = 1e-15, 1.0
    for _ in range(60):
        price = (low * high) ** 0.5
        low, high = (price, high) if found.at(price, blind=blind)[1] > budget else (low, price)
    return found.at(high, blind=blind)


def outcomes(fleet: Fleet) -> Outcomes:
    """Return what each schedule makes of each partition that is written to."""
    stream, before = _stream(fleet)
    order = np.argsort(-stream.count)
    groups = [order[start : start + AT_ONCE] for start in range(0, len(order), AT_ONCE)]
    tried = [_Trial(fleet, stream, group).played() for group in groups]
    cost, size = (np.concatenate(parts) for parts in zip(*tried, strict=True))
    popularity = fleet.tables.queries[fleet.partitions.table[stream.partition[order]]]
    return Outcomes(cost, size, popularity, before)


def _stream(fleet: Fleet) -> tuple[Stream, float]:
    """Return the writes by partition, and the read cost of all partitions before their first one."""
    writes, base_files = fleet.writes, fleet.partitions.base_files
    order = np.lexsort((writes.tick, writes.partition))
    order = order[~writes.aborted[order]]
    where, tick = writes.partition[order], writes.tick[order]
    partition, first, count = np.unique(where, return_index=True, return_counts=True)
    until = np.append(tick[1:], fleet.shape.ticks)
    until[first + count - 1] = fleet.shape.ticks
    known = _asked_until(fleet, where, until) - _asked_until(fleet, where, tick)
    everywhere = np.arange(len(base_files))
    begins = np.full(len(base_files), fleet.shape.ticks)
    begins[partition] = tick[first]
    before = float((_asked_until(fleet, everywhere, begins) * base_files).sum())
    fails = fleet.failing[tick // TICKS_A_DAY, fleet.partitions.table[where]]
    return Stream(partition, count, first, writes.bytes[order], known, fails), before


def _asked_until(fleet: Fleet, partition: Ints, tick: Ints) -> Floats:
    """Return the number of queries that read each partition before a tick."""
    days = np.vstack([np.zeros(fleet.queries.shape[1]), np.cumsum(fleet.queries, axis=0) * TICKS_A_DAY])
    day = np.minimum(tick // TICKS_A_DAY, fleet.shape.days - 1)
    found: Floats = days[day, partition] + fleet.queries[day, partition] * (tick - day * TICKS_A_DAY)
    return found


@dataclass
class _Trial:
    """Some partitions (rows, those with most writes first) on their way through all schedules (columns)."""

    fleet: Fleet
    stream: Stream
    group: Ints
    cost: Floats = field(init=False)
    bytes: Floats = field(init=False)

    def __post_init__(self) -> None:
        shape, parts = (len(self.group), len(SCHEDULES)), self.fleet.partitions
        where = self.stream.partition[self.group]
        self.cost, self.bytes = np.zeros(shape), np.zeros(shape)
        self.upserts = parts.upserts[where][:, None]
        self.spread = parts.spread[where][:, None].astype(float)
        self.base = np.repeat(parts.base_bytes[where][:, None], shape[1], axis=1)
        self.base_files = np.repeat(parts.base_files[where][:, None], shape[1], axis=1).astype(float)
        self.loose, self.merged, self.rows = np.zeros(shape), np.zeros(shape), np.zeros(shape)

    def played(self) -> tuple[Floats, Floats]:
        """Return the read cost and the bytes of all schedules."""
        counts = self.stream.count[self.group]
        for number in range(counts[0]):
            active = int(np.searchsorted(-counts, -number))
            self._write(number, active, last=counts[:active] == number + 1)
        return self.cost, self.bytes

    def _write(self, number: int, active: int, *, last: Bools) -> None:
        loose, grown, settles = SCHEDULES.T
        place, top = self.stream.first[self.group[:active]] + number, slice(0, active)
        self.rows[top] += self.stream.bytes[place][:, None]
        self.loose[top] += 1
        deletes = np.where(self.upserts[top], self.rows[top] * DELETED, 0)
        wanted = (self.loose[top] >= loose) | (last[:, None] & (settles > 0))
        merges = wanted & ~self.stream.fails[place][:, None]
        never = np.isinf(grown) & (self.base[top] > 0)
        large = self.rows[top] + deletes > np.where(np.isinf(grown), 0, grown) * self.base[top]
        major = merges & large & ~never
        minor = merges & ~major & (self.loose[top] + self.merged[top] > 1)
        self.bytes[top] += np.where(major | minor, self.rows[top] + deletes, 0) + np.where(major, self.base[top], 0)
        self._merge(top, major, minor)
        self.cost[top] += self.stream.reads[place][:, None] * self._opened(top)

    def _merge(self, top: slice, major: Bools, minor: Bools) -> None:
        kept = np.where(self.upserts[top], 1 - REPLACED, 1.0)
        self.base[top] += np.where(major, self.rows[top] * kept, 0)
        self.base_files[top] = np.where(major, np.maximum(self.base_files[top], self.spread[top]), self.base_files[top])
        self.rows[top] = np.where(major, 0, self.rows[top])
        self.merged[top] = np.where(major, 0, np.where(minor, 1, self.merged[top]))
        self.loose[top] = np.where(major | minor, 0, self.loose[top])

    def _opened(self, top: slice) -> Floats:
        """Return what a query pays for each partition now."""
        files = (self.loose[top] + self.merged[top]) * self.spread[top] * np.where(self.upserts[top], 2, 1)
        deletes = np.where(self.upserts[top], self.rows[top] * DELETED / MIB, 0)
        found: Floats = self.base_files[top] + files + deletes
        return found
