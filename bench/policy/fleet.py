"""The fleet: tables with partitions, what is written to them and how often they are read, all known beforehand.

Sizes, rates of writes and rates of queries are lognormal: few tables are large, few are hot. The same seed gives the
same fleet. Arrays have one value for each partition, table or write; partitions of a table lie side by side.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

MIB = 1024.0**2
GIB = 1024.0**3
START = datetime(2026, 3, 1, tzinfo=UTC)
TICK = timedelta(minutes=10)
TICKS_A_DAY = 144
HISTORY = 14
"""Days before the first whose partitions a table by day has."""
KEYS = 8
"""Partitions of a table by key."""
WHOLE, BY_DAY, BY_KEY = range(3)
DELETED = 0.04
"""Bytes of delete events for each byte that an upsert writes."""
REPLACED = 0.8
"""Share of an upsert's bytes that replace older ones; the others are new rows."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Shape:
    """How large a fleet is, how long it is played, and what its random numbers begin with.

    `known` is the correlation of a table's rate of queries with its rate of writes, as logarithms.
    """

    tables: int = 2000
    days: int = 30
    seed: int = 1
    known: float = 0.5

    @property
    def ticks(self) -> int:
        """How many moments of decision there are."""
        return self.days * TICKS_A_DAY


@dataclass(frozen=True)
class Tables:
    """What each table is like. Rates are for a day; `bytes` is what it holds at first, `daily` what a day adds."""

    kind: Ints
    bytes: Floats
    daily: Floats
    writes: Floats
    queries: Floats
    upserts: Bools
    all_buckets: Bools
    active: Floats


@dataclass(frozen=True)
class Partitions:
    """What each partition is like at first. `spread` is the number of files that a write leaves."""

    table: Ints
    day: Ints
    base_files: Ints
    base_bytes: Floats
    spread: Ints
    upserts: Bools


@dataclass(frozen=True)
class Writes:
    """All writes in the order of time. An aborted one leaves a directory that nothing reads."""

    tick: Ints
    partition: Ints
    bytes: Floats
    aborted: Bools


@dataclass(frozen=True)
class Fleet:
    """Tables, partitions and writes, and `queries`: how many read a partition in a tick, by day and partition.

    `failing` says by day and table whether compactions fail.
    """

    shape: Shape
    tables: Tables
    partitions: Partitions
    writes: Writes
    queries: Floats
    asked: Floats
    failing: Bools

    @cached_property
    def first(self) -> Ints:
        """The first partition of each table, and the number of partitions."""
        return np.searchsorted(self.partitions.table, np.arange(self.shape.tables + 1))

    @cached_property
    def of_tick(self) -> Ints:
        """The first write of each tick, and the number of writes."""
        return np.searchsorted(self.writes.tick, np.arange(self.shape.ticks + 1))


def time_of(tick: int) -> datetime:
    """Return the time of a tick."""
    return START + tick * TICK


def make_fleet(shape: Shape) -> Fleet:
    """Return the fleet of that shape, the same one every time."""
    random = np.random.default_rng(shape.seed)
    tables = _tables(random, shape)
    partitions = _partitions(random, shape, tables)
    writes = _writes(random, shape, tables, partitions)
    asked = tables.active * tables.queries / TICKS_A_DAY
    return Fleet(
        shape=shape,
        tables=tables,
        partitions=partitions,
        writes=writes,
        queries=_queries(shape, tables, partitions, asked),
        asked=asked.sum(axis=1),
        failing=_failing(random, shape),
    )


def _tables(random: np.random.Generator, shape: Shape) -> Tables:
    number = shape.tables
    kind = random.choice([WHOLE, BY_DAY, BY_KEY], size=number, p=[0.5, 0.35, 0.15])
    size, hot, rest = random.normal(size=(3, number))
    total = np.clip(4 * GIB * np.exp(1.8 * size), 16 * MIB, 1024 * GIB)
    cold = random.random(number) < 0.25
    hotness = 0.3 * size + np.sqrt(1 - 0.3**2) * hot
    interest = shape.known * hotness + np.sqrt(1 - shape.known**2) * rest
    growth = np.where(kind == BY_DAY, 1 / HISTORY, 0.01 * np.exp(random.normal(size=number)))
    shares = {WHOLE: 0.4, BY_DAY: 0.1, BY_KEY: 0.7}
    return Tables(
        kind=kind,
        bytes=total,
        daily=total * growth * np.where(cold, 0.01, 1),
        writes=np.clip(6 * np.exp(1.5 * hotness), 0.2, 144) * np.where(cold, 0.01, 1),
        queries=20 * np.exp(1.5 * interest) * np.where(cold, 0.2, 1),
        upserts=random.random(number) < np.array([shares[one] for one in range(3)])[kind],
        all_buckets=random.random(number) < 0.3,
        active=_activity(random, shape),
    )


def _activity(random: np.random.Generator, shape: Shape) -> Floats:
    """Return how active each table is by day: a few become hot or cold on the way."""
    day, turn = np.arange(shape.days)[:, None], random.uniform(0, shape.days, shape.tables)
    fate = random.random(shape.tables)
    asleep = ((fate < 0.08) & (day >= turn)) | ((fate > 0.92) & (day < turn))
    return np.where(asleep, 0.02, 1.0)


def _partitions(random: np.random.Generator, shape: Shape, tables: Tables) -> Partitions:
    counts = np.array([1, HISTORY + shape.days, KEYS])[tables.kind]
    table = np.repeat(np.arange(shape.tables), counts)
    number = np.arange(len(table)) - np.repeat(np.cumsum(counts) - counts, counts)
    day = np.where(tables.kind[table] == BY_DAY, number - HISTORY, -1)
    share = np.array([1, 1 / HISTORY, 1 / KEYS])[tables.kind[table]] * np.exp(0.3 * random.normal(size=len(table)))
    size = tables.bytes[table] * share
    buckets = np.clip(np.round(size / (512 * MIB)), 1, 32).astype(np.int64)
    each = size_of_a_write(tables)[table]
    spread = np.where(tables.all_buckets[table], buckets, np.clip(np.ceil(each / (64 * MIB)), 1, buckets))
    return Partitions(
        table=table,
        day=day,
        base_files=np.where(day < 0, buckets, 0),
        base_bytes=np.where(day < 0, size, 0.0),
        spread=spread.astype(np.int64),
        upserts=tables.upserts[table],
    )


def size_of_a_write(tables: Tables) -> Floats:
    """Return the usual bytes of one write into one partition of each table."""
    touched = np.where(tables.kind == BY_KEY, KEYS / 2, 1)
    return np.maximum(20e3, tables.daily / tables.writes / touched)


def _writes(random: np.random.Generator, shape: Shape, tables: Tables, partitions: Partitions) -> Writes:
    share = np.where(tables.kind[partitions.table] == BY_KEY, 0.5, 1.0)
    ticks, places = [], []
    for day in range(shape.days):
        open_ = np.select([partitions.day == day, partitions.day == day - 1], [0.9, 0.1], 0.0)
        part = np.where(tables.kind[partitions.table] == BY_DAY, open_, share)
        rate = part * (tables.writes * tables.active[day])[partitions.table]
        place = np.repeat(np.arange(len(rate)), random.poisson(rate))
        places.append(place)
        ticks.append(day * TICKS_A_DAY + random.integers(0, TICKS_A_DAY, len(place)))
    tick, partition = np.concatenate(ticks), np.concatenate(places)
    order = np.lexsort((partition, tick))
    tick, partition = tick[order], partition[order]
    usual = size_of_a_write(tables)[partitions.table[partition]]
    size = usual * np.exp(0.8 * random.normal(size=len(tick)) - 0.32)
    return Writes(tick, partition, size, random.random(len(tick)) < 0.001)


def _queries(shape: Shape, tables: Tables, partitions: Partitions, asked: Floats) -> Floats:
    """Return the query mix, the expected number of queries of a tick that read a partition.

    - A table without partitions is always read as a whole.
    - Of a table by day, 60 % of the queries read the newest partition, 30 % the last seven, 10 % all.
    - Of a table by key, half read one key and half all.
    """
    kind, day = tables.kind[partitions.table], np.arange(shape.days)[:, None]
    age = day - partitions.day
    by_day = np.where(age < 0, 0.0, 0.1 + 0.6 * (age == 0) + 0.3 * (age < 7))
    share = np.where(kind == BY_DAY, by_day, np.where(kind == BY_KEY, 0.5 / KEYS + 0.5, 1.0))
    found: Floats = np.multiply(asked[:, partitions.table], share)
    return found


def _failing(random: np.random.Generator, shape: Shape) -> Bools:
    """Return which tables cannot be compacted on which day: 5 % for up to three days, and any on 1 % of the days."""
    day, turn = np.arange(shape.days)[:, None], random.uniform(0, shape.days, shape.tables)
    broken = (random.random(shape.tables) < 0.05) & (day >= turn) & (day < turn + 3)
    flaky: Bools = random.random((shape.days, shape.tables)) < 0.01
    return broken | flaky
