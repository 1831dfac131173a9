"""The benchmark of policies on a tiny fleet: it is deterministic, keeps its limits, and measures what listings show."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from bench.policy.__main__ import compared
from bench.policy.arms import ALL, MAX_DELAY, weights
from bench.policy.fixed import FixedThresholds
from bench.policy.fleet import DELETED, GIB, MIB, REPLACED, TICKS_A_DAY, Fleet, Ints, Shape, Writes, make_fleet, time_of
from bench.policy.loop import Limits, Played, Run, Start, play, ticks_of
from bench.policy.oracle import SCHEDULES, bound, outcomes, reached
from bench.policy.ours import OurPolicy
from bench.policy.report import FIXED, FREE, ORACLE, WEIGHTED, drawn, judged
from bench.policy.state import State

from compaction_operator.acid.listing import Directory, File, Listing
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.policy import Strategy
from compaction_operator.controller.policies.standing import known_of
from compaction_operator.policy.choice import Usage
from compaction_operator.policy.measure import measure
from compaction_operator.policy.pace import PERIOD

TINY = Shape(tables=40, days=3)
LIMITS = Limits(slots=2, bytes=20 * GIB)
TXNS = ValidTxnList(1000, frozenset(), frozenset(), None)


@cache
def fleet() -> Fleet:
    return make_fleet(TINY)


class Checked(OurPolicy):
    """Compares what it knows of its compactions with what the operator makes of them, at each look."""

    def decide(self, tick: int, changed: Ints, ended: Iterable[Run]) -> list[Start]:
        starts = super().decide(tick, changed, ended)
        known, full = self.known(), known_of(self.policy, self.compactions.values(), lambda key: key)
        assert (known.past, known.unfinished, known.running) == (full.past, full.unfinished, full.running)
        (of_all,) = known.of_databases((), time_of(tick) - PERIOD).values()
        (expected,) = full.of_databases((), time_of(tick) - PERIOD).values() or (Usage(),)
        assert (of_all.running, of_all.bytes) == (expected.running, expected.bytes)
        assert sum(size for _, size in known.starts()) == of_all.bytes
        return starts


def policy(strategy: Strategy = Strategy.GAIN, limits: Limits = LIMITS) -> tuple[Played, OurPolicy]:
    state = State(fleet())
    arm = Checked(fleet(), state, limits, weights=weights(fleet()), maxDelay=MAX_DELAY, strategy=strategy)
    return play(fleet(), state, arm), arm


def fixed(limits: Limits = LIMITS) -> Played:
    state = State(fleet())
    return play(fleet(), state, FixedThresholds(fleet(), state, limits))


@pytest.mark.parametrize("strategy", Strategy)
def test_the_policy_keeps_budget_slots_and_its_longest_wait(strategy: Strategy) -> None:
    played, arm = policy(strategy)
    assert len(played.runs) > 50
    assert 0.8 * LIMITS.bytes < played.most <= LIMITS.bytes
    assert played.most_at_once <= LIMITS.slots
    assert arm.audit.late == 0


def test_fixed_thresholds_keep_budget_and_slots() -> None:
    played = fixed()
    assert len(played.runs) > 50
    assert 0.8 * LIMITS.bytes < played.most <= LIMITS.bytes
    assert played.most_at_once == LIMITS.slots


def test_no_partition_is_in_two_compactions_at_once() -> None:
    for played in (policy()[0], fixed()):
        until = np.zeros(len(fleet().partitions.table))
        for run in played.runs:
            where = run.start.partitions
            assert set(fleet().partitions.table[where]) == {run.start.table}
            assert (until[where] <= run.started).all()
            until[where] = run.ends


def test_a_seed_gives_one_result() -> None:
    with ThreadPoolExecutor(1) as pool:
        first, second, other = (
            compared(pool, Shape(tables=20, days=2, seed=seed), shares=[0.5], names=ALL) for seed in (7, 7, 8)
        )
    assert first == second
    assert first != other


def test_the_oracle_reaches_less_than_all_others() -> None:
    found, budget = outcomes(fleet()), LIMITS.bytes * TINY.days
    cost, size = reached(found, budget)
    assert size <= budget
    assert cost <= reached(found, budget, blind=True)[0]
    limited, _ = bound(outcomes(fleet(), max_delay=7 * TICKS_A_DAY), LIMITS.bytes)
    assert cost <= limited < min(policy()[0].cost.sum(), fixed().cost.sum())


def test_the_oracle_merges_in_time_whatever_its_schedule() -> None:
    """Also the schedule that never merges, and then the bytes count on the day on which the time is over."""
    never = np.flatnonzero(np.isinf(SCHEDULES[:, 0]) & (SCHEDULES[:, 2] == 0))
    assert not outcomes(fleet()).bytes[:, :, never].any()
    found = outcomes(fleet(), max_delay=TICKS_A_DAY).bytes[:, :, never].sum(axis=(1, 2))
    assert found[0] == 0
    assert found[1:].all()


def test_the_prices_of_the_days_keep_the_budget_of_each_day() -> None:
    """One price for all takes it on the days on which it is worth most: that is why the bound is higher."""
    found = outcomes(fleet())
    first_day, *others = found.at(np.full(TINY.days, 1e-9))[1]
    assert first_day < min(others)
    cost, _ = bound(found, LIMITS.bytes)
    one_price, _ = reached(found, LIMITS.bytes * TINY.days)
    assert cost >= one_price


def test_the_oracle_knows_the_cost_of_doing_nothing() -> None:
    """Its sums over writes are those of the clock over ticks."""

    class Nothing:
        def decide(self, tick: int, changed: Ints, ended: Iterable[Run]) -> list[Start]:
            return []

    cost = play(fleet(), State(fleet()), Nothing()).cost.sum()
    assert np.allclose(reached(outcomes(fleet()), 0.0), (cost, 0))


@pytest.mark.parametrize("price", [1e-8, 1e-7, 1e-6, 1e-5])
def test_the_oracles_schedules_are_nearly_as_good_as_the_best_of_all(price: float) -> None:
    """For partitions with few writes, all schedules can be tried: nothing, a minor or a major one after each write."""
    writes = fleet().writes
    counts = np.bincount(writes.partition, minlength=len(fleet().partitions.table))
    few = [int(one) for one in np.flatnonzero((counts >= 3) & (counts <= 6))][:40]
    best = sum(min(_priced(one, schedule, price) for schedule in _schedules(int(counts[one]))) for one in few)
    mask = np.isin(writes.partition, few)
    only = Writes(writes.tick[mask], writes.partition[mask], writes.bytes[mask], np.zeros(int(mask.sum()), bool))
    alone = replace(fleet(), writes=only, failing=np.zeros_like(fleet().failing))
    found = outcomes(alone)
    cost, by_day = found.at(np.full(TINY.days, price))
    size = by_day.sum()
    others = np.setdiff1d(np.arange(len(counts)), few)
    rest = (fleet().queries[:, others].sum(axis=0) * TICKS_A_DAY * fleet().partitions.base_files[others]).sum()
    assert best <= (cost - rest + price * size) * 1.0001 <= best * 1.05


def _schedules(writes: int) -> Iterable[tuple[CompactionType | None, ...]]:
    return product((None, CompactionType.MINOR, CompactionType.MAJOR), repeat=writes)


def _priced(partition: int, schedule: Sequence[CompactionType | None], price: float) -> float:
    """Return read cost plus price times bytes of one partition by one schedule."""
    parts, writes = fleet().partitions, fleet().writes
    mask = writes.partition == partition
    ticks = [0, *writes.tick[mask].tolist(), fleet().shape.ticks]
    spread, upserts = int(parts.spread[partition]), bool(parts.upserts[partition])
    base, base_files = float(parts.base_bytes[partition]), int(parts.base_files[partition])
    rows, dirs, total = 0.0, 0, _asked(partition, ticks[0], ticks[1]) * base_files
    for number, (size, type_) in enumerate(zip(writes.bytes[mask].tolist(), schedule, strict=True)):
        rows, dirs = rows + size, dirs + 1
        deletes, now = rows * DELETED if upserts else 0.0, ticks[number + 1]
        if type_ is not None:
            taken = rows + deletes + (base if type_ is CompactionType.MAJOR else 0)
            ends = min(now + int(ticks_of(np.array(taken))), ticks[number + 2])
            opened = base_files + dirs * spread * (2 if upserts else 1) + deletes / MIB
            total, now = total + price * taken + _asked(partition, now, ends) * opened, ends
        if type_ is CompactionType.MINOR:
            dirs = 1
        if type_ is CompactionType.MAJOR:
            base, base_files = base + rows * (1 - REPLACED if upserts else 1), max(base_files, spread)
            rows, dirs, deletes = 0.0, 0, 0.0
        opened = base_files + dirs * spread * (2 if upserts else 1) + deletes / MIB
        total += _asked(partition, now, ticks[number + 2]) * opened
    return total


def _asked(partition: int, start: int, end: int) -> float:
    return float(sum(fleet().queries[tick // TICKS_A_DAY, partition] for tick in range(start, end)))


def test_the_audit_sees_what_the_budget_keeps_back_too_long() -> None:
    """A budget too small for most tables, and a longest wait of an hour that all of them exceed."""
    tight = Limits(slots=1, bytes=GIB)
    state = State(fleet())
    arm = OurPolicy(fleet(), state, tight, maxDelay="1h")
    played = play(fleet(), state, arm)
    assert arm.audit.longest > 1 / 24
    assert arm.audit.forced > 0
    assert played.most > tight.bytes


@pytest.mark.parametrize("compacted", [False, True])
def test_the_state_measures_as_a_listing_does(compacted: bool) -> None:
    """Writes into one partition, and a minor compaction of the first ones."""
    upserted = np.flatnonzero(fleet().partitions.upserts & (fleet().partitions.base_files > 1))
    writes = fleet().writes
    where = next(one for one in upserted if (writes.partition == one).sum() > 6)
    ticks = writes.tick[writes.partition == where][:7]
    state, names = State(fleet()), [f"base_{1:07d}"]
    for tick in range(ticks[-1] + 1):
        state.write(tick)
        if compacted and tick == ticks[3]:
            part = np.array([where])
            state.merge(part, state.content(part), CompactionType.MINOR)
    made = int((writes.tick[writes.partition == where] <= ticks[-1]).sum())
    merged = int((writes.tick[writes.partition == where] <= ticks[3]).sum()) if compacted else 0
    spans = [(2, merged + 1)] if merged else []
    spans += [(number, number) for number in range(merged + 2, made + 2)]
    names += [f"{kind}_{low:07d}_{high:07d}" for low, high in spans for kind in ("delta", "delete_delta")]
    files = {"base": int(state.base_files[where]), "delta": int(state.spread[where])}
    counts = [files["base" if name.startswith("base") else "delta"] for name in names]
    directories = (
        Directory(name, tuple(File(f"bucket_{n:05d}", 1) for n in range(count)))
        for name, count in zip(names, counts, strict=True)
    )
    listing = Listing(tuple(directories), ())
    found = measure(listing, ValidWriteIdList.parse(f"db.t:{made + 1}:9223372036854775807::"), TXNS)
    (simulated,) = state.measures([int(where)])
    fields = ("base_files", "deltas", "delta_files", "buckets", "delta_buckets", "aborted")
    assert [getattr(simulated, field) for field in fields] == [getattr(found, field) for field in fields]


def test_a_missed_target_is_named() -> None:
    arms = {
        name: {"read_cost": cost, "most_of_budget": 1.0, "kept_back_too_long": 0}
        for name, cost in ((FIXED, 30), (WEIGHTED, 12), (ORACLE, 10))
    }
    assert judged(arms)["missed"] == []
    arms[WEIGHTED] = {"read_cost": 20, "most_of_budget": 1.1, "kept_back_too_long": 1}
    assert judged(arms)["missed"] == [
        "times_better_than_fixed",
        "times_the_oracle",
        "most_of_budget",
        "kept_back_too_long",
    ]


def test_the_plot_has_all_arms() -> None:
    lines = {name: {"by_day": [1.0, 2.0], "read_cost": 1.5} for name in (FIXED, WEIGHTED, ORACLE, FREE)}
    assert all(f"{name}<" in drawn(lines, TINY.days) for name in lines)


def test_all_tables_are_read_on_each_day() -> None:
    assert fleet().queries.shape == (TINY.days, len(fleet().partitions.table))
    assert fleet().asked.shape == (TINY.days,)
    assert fleet().writes.tick.max() < TINY.days * TICKS_A_DAY
