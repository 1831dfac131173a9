"""What comes first, what is kept back and by what, and what is deleted from the history."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.policy import CompactionPolicySpec, History, Strategy, Tables, Window
from compaction_operator.policy.candidates import MAX_PARTITIONS, Candidate, Part, startable
from compaction_operator.policy.choice import (
    CORE_HOUR,
    Hold,
    Outcome,
    Past,
    Standing,
    Usage,
    choose,
    failures,
    rest,
    untried,
    waits_since,
)
from compaction_operator.policy.history import expired
from compaction_operator.policy.naming import compaction_name
from compaction_operator.policy.ranking import score

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MIB = 1024**2


def spec(**changes: Any) -> CompactionPolicySpec:
    return CompactionPolicySpec(warehouse="lake", tables=Tables(include=("*.*",)), **changes)


def part(
    number: int = 0, *, files: int = 10, size: int = MIB, waited: timedelta = timedelta(), hours: float = 1.0
) -> Part:
    return Part(f"p={number}", files, 0, size, NOON - waited, hours)


def candidate(table: str, *, parts: int = 1, minor: bool = True, **of_each: Any) -> Candidate:
    type_ = CompactionType.MINOR if minor else CompactionType.MAJOR
    return Candidate(table, type_, tuple(part(n, **of_each) for n in range(parts)))


def past(name: str, *, ago: timedelta, outcome: Outcome = Outcome.SUCCEEDED, table: str = "a.b", size: int = 0) -> Past:
    return Past(name, table, CompactionType.MINOR, NOON - ago, NOON - ago, outcome, size)


def standing(*earlier: Past, **changes: Any) -> Standing:
    plain: dict[str, Any] = {
        "past": {one.table: [two for two in earlier if two.table == one.table] for one in earlier},
        "unfinished": (),
        "running": 0,
        "used": 0,
        "window_open": True,
    }
    return Standing(**{**plain, **changes})


def holds(*candidates: Candidate, on: Standing, **changes: Any) -> dict[str, Hold | None]:
    return {one.candidate.table: one.hold for one in choose(candidates, on, spec(**changes), NOON)}


def test_what_saves_more_files_for_its_bytes_comes_first() -> None:
    found = [candidate("few", files=5), candidate("large", files=20, size=4096 * MIB), candidate("many", files=20)]
    verdicts = choose(found, standing(), spec(max_concurrent=2), NOON)
    assert [one.candidate.table for one in verdicts] == ["many", "few", "large"]
    assert [one.hold for one in verdicts] == [None, None, Hold.MAX_CONCURRENT]


def test_what_waits_overtakes_what_is_new_and_goes_first_after_its_maximum() -> None:
    old, late = candidate("old", files=10, hours=2.0), candidate("late", files=1, waited=22 * HOUR)
    verdicts = choose([candidate("new", files=15), old, late], standing(), spec(), NOON)
    assert [one.candidate.table for one in verdicts] == ["late", "old", "new"]


def test_what_is_read_more_often_comes_first() -> None:
    found = [candidate("often"), candidate("much", files=15)]
    found[0] = replace(found[0], weight=2.0)
    verdicts = choose(found, standing(), spec(), NOON)
    assert [one.candidate.table for one in verdicts] == ["often", "much"]


def test_what_presses_keeps_the_budget_until_it_is_overdue() -> None:
    spent = standing(used=MIB)
    assert holds(candidate("a.b", waited=23 * HOUR), on=spent, bytes_per_window=MIB) == {"a.b": Hold.BUDGET_SPENT}
    assert holds(candidate("a.b", waited=24 * HOUR), on=spent, bytes_per_window=MIB) == {"a.b": None}


GAIN = {"strategy": Strategy.GAIN, "bytes_per_window": 24 * MIB}


def test_by_gain_the_budget_is_spread_over_the_day() -> None:
    """One starts as long as the starts are not ahead of the pace. A window has its own end."""
    found = [candidate("a", files=20), candidate("b", files=10)]
    assert holds(*found, on=standing(ahead=-1.0), **GAIN) == {"a": None, "b": Hold.BUDGET_PACED}
    assert holds(*found, on=standing(ahead=1.0), **GAIN) == {"a": Hold.BUDGET_PACED, "b": Hold.BUDGET_PACED}
    night = (Window(start="22:00", duration=3600.0),)
    assert holds(*found, on=standing(ahead=1.0), windows=night, **GAIN) == {"a": None, "b": None}
    assert holds(*found, on=standing(ahead=1.0), bytes_per_window=24 * MIB) == {"a": None, "b": None}


def test_an_overdue_table_does_not_wait_for_the_pace() -> None:
    assert holds(candidate("a", waited=24 * HOUR), on=standing(ahead=1.0), **GAIN) == {"a": None}


def test_by_gain_the_budget_is_saved_for_what_comes_first() -> None:
    """Small ones would use up each byte that becomes free, and the large one would never start."""
    found = [candidate("large", files=900, size=3 * MIB), candidate("small", files=1)]
    spent = standing(used=22 * MIB, ahead=-100.0 * MIB)
    assert holds(*found, on=spent, **GAIN) == {"large": Hold.BUDGET_SPENT, "small": Hold.BUDGET_SPENT}
    assert holds(*found, on=spent, bytes_per_window=24 * MIB) == {"large": Hold.BUDGET_SPENT, "small": None}


def test_an_unfinished_compaction_keeps_its_table_back() -> None:
    assert holds(candidate("a.b"), on=standing(unfinished={"a.b"})) == {"a.b": Hold.UNFINISHED}


def test_a_table_gets_one_compaction_at_a_time() -> None:
    verdicts = choose([candidate("a.b"), candidate("a.b", minor=False)], standing(), spec(), NOON)
    assert [one.hold for one in verdicts] == [None, Hold.UNFINISHED]


def test_nothing_starts_outside_a_window_even_if_overdue() -> None:
    late = candidate("a.b", waited=48 * HOUR)
    assert holds(late, on=standing(window_open=False)) == {"a.b": Hold.WINDOW_CLOSED}


def test_a_database_gets_its_share_of_the_slots() -> None:
    """However many of its tables come first; what is left is for others."""
    found = [candidate(f"a.{n}", files=20) for n in range(3)] + [candidate("b.t")]
    wanted = {"a.0": None, "a.1": None, "a.2": Hold.DATABASE_SHARE, "b.t": None}
    assert holds(*found, on=standing(), max_concurrent=4, database_share=50) == wanted
    on = standing(running=2, databases={"a": Usage(running=2)})
    assert holds(*found, on=on, max_concurrent=4, database_share=50)["a.0"] is Hold.DATABASE_SHARE
    assert holds(*found, on=on, max_concurrent=4)["a.0"] is None


def test_one_compaction_of_a_database_may_run_however_small_its_share() -> None:
    found = holds(candidate("a.1"), candidate("a.2"), on=standing(), max_concurrent=5, database_share=1)
    assert found == {"a.1": None, "a.2": Hold.DATABASE_SHARE}


def test_a_database_gets_its_share_of_the_budget() -> None:
    """An overdue table may exceed it, as it may the budget, but not its share of the slots."""
    found = [candidate("a.1", files=20), candidate("a.2", files=19), candidate("b.t")]
    share = {"bytes_per_window": 3 * MIB, "database_share": 50}
    assert holds(*found, on=standing(), **share) == {"a.1": None, "a.2": Hold.DATABASE_SHARE, "b.t": None}
    spent = standing(used=MIB, databases={"a": Usage(bytes=MIB)})
    assert holds(*found, on=spent, **share) == {
        "a.1": Hold.DATABASE_SHARE,
        "a.2": Hold.DATABASE_SHARE,
        "b.t": None,
    }
    late = [candidate("a.1", files=20, waited=25 * HOUR), *found[1:]]
    assert holds(*late, on=spent, **share)["a.1"] is None
    assert holds(*late, on=spent, max_concurrent=1, **share)["a.2"] is Hold.MAX_CONCURRENT
    busy = replace(spent, running=2, databases={"a": Usage(2, MIB)})
    assert holds(*late, on=busy, **share)["a.1"] is Hold.DATABASE_SHARE


def test_a_share_takes_those_partitions_that_fit() -> None:
    whole = candidate("a.b", parts=4)
    (one,) = choose([whole], standing(), spec(bytes_per_window=4 * MIB, database_share=50), NOON)
    assert (one.hold, len(one.candidate.parts), one.whole) == (None, 2, whole)


def test_a_share_that_is_too_small_for_any_partition_is_told_from_one_that_is_spent() -> None:
    share = {"bytes_per_window": 4 * MIB, "database_share": 50}
    assert holds(candidate("a.b", size=3 * MIB), on=standing(), **share) == {"a.b": Hold.BUDGET_TOO_SMALL}
    assert holds(candidate("a.b"), on=standing(used=4 * MIB), **share) == {"a.b": Hold.BUDGET_SPENT}


def test_compactions_that_run_take_the_slots() -> None:
    assert holds(candidate("a.b"), on=standing(running=5)) == {"a.b": Hold.MAX_CONCURRENT}


@pytest.mark.parametrize(("ago", "hold"), [(59, Hold.MIN_INTERVAL), (60, None)])
def test_a_table_rests_between_two_compactions(ago: int, hold: Hold | None) -> None:
    on = standing(past("one", ago=timedelta(minutes=ago)))
    assert holds(candidate("a.b"), on=on) == {"a.b": hold}


def test_failures_in_a_row_double_the_pause() -> None:
    failed = [past(str(n), ago=n * HOUR, outcome=Outcome.FAILED) for n in (9, 5, 3)]
    assert holds(candidate("a.b"), on=standing(*failed)) == {"a.b": Hold.BACKING_OFF}
    assert holds(candidate("a.b"), on=standing(past("0", ago=5 * HOUR), *failed[2:])) == {"a.b": None}


@pytest.mark.parametrize(("size", "hours"), [(0, 2), (120, 2), (500, 6), (1000, 12), (2000, 24), (9000, 24)])
def test_by_gain_what_costs_little_is_tried_again_sooner(size: int, hours: int) -> None:
    """What takes a twelfth of the budget or more pauses for up to a day: 2,000 MiB of 24,000."""
    failed = [past(str(n), ago=(20 - n) * HOUR, outcome=Outcome.FAILED, size=size * MIB) for n in range(10)]
    by_gain = spec(strategy=Strategy.GAIN, bytes_per_window=24_000 * MIB)
    assert rest(failed, CompactionType.MINOR, by_gain) == (Hold.BACKING_OFF, failed[-1].ended + hours * HOUR)
    assert rest(failed, CompactionType.MINOR, spec()) == (Hold.BACKING_OFF, failed[-1].ended + 24 * HOUR)


def test_failures_that_are_not_kept_any_more_count_too() -> None:
    last = replace(past("9", ago=9 * HOUR, outcome=Outcome.FAILED), failures=4)
    assert holds(candidate("a.b"), on=standing(last)) == {"a.b": Hold.BACKING_OFF}
    assert failures([last, past("10", ago=HOUR, outcome=Outcome.FAILED)], CompactionType.MINOR) == 6
    assert failures([last, past("10", ago=HOUR)], CompactionType.MINOR) == 0


def test_a_candidate_costs_twice_as_much_after_each_failure() -> None:
    """What has failed will probably fail again: the others go first."""
    failed = [past(str(n), ago=n * HOUR, outcome=Outcome.FAILED) for n in (9, 5)]
    (fresh,), (again,) = (untried(candidate("a.b"), earlier) for earlier in ((), failed))
    assert (score(again).cost, score(again).value) == (4 * score(fresh).cost, score(fresh).value / 4)


def gone(
    *ended: Past, limits: History, fruitless: Collection[str] = (), budget: Mapping[str, int] | None = None
) -> set[str]:
    """The names of those that are deleted, with a budget that counts for eight hours."""
    policy, since = spec(history=limits, **(budget or {})), NOON - 8 * HOUR
    found = expired(ended, policy, fruitless=fruitless, budget_since=since, now=NOON)
    return {one.name for one in found}


def test_what_keeps_a_table_back_is_kept() -> None:
    """Whatever the limits say; of the others, as many as they say."""
    failed = [past(f"a{n}", table="a", ago=(9 - n) * HOUR, outcome=Outcome.FAILED) for n in (1, 2)]
    nothing = [past(f"b{n}", table="b", ago=(9 - n) * HOUR, outcome=Outcome.NOTHING) for n in (1, 2, 3)]
    fine = [past(f"c{n}", table=f"c{n}", ago=9 * HOUR) for n in range(3)]
    found = gone(*failed, *nothing, *fine, limits=History(succeeded=0, failed=0), fruitless={"b1", "b3"})
    assert found == {"a1", "b2", "c0", "c1", "c2"}


def test_what_found_nothing_to_merge_is_not_tried_again_until_something_is_written() -> None:
    """One that does not say what it was decided on, is."""
    nothing, one = past("one", ago=2 * HOUR, outcome=Outcome.NOTHING), candidate("a.b")
    for seen, now, hold in (("1", "1", Hold.NOTHING_GAINED), ("1", "2", None), ("", "1", None), ("", "", None)):
        assert holds(replace(one, seen=now), on=standing(replace(nothing, seen=seen))) == {"a.b": hold}


def test_what_found_nothing_in_some_partitions_does_not_keep_the_others_back() -> None:
    """A policy by gain compacts some partitions of a table; only those that were tried gain nothing."""
    of_two = replace(past("one", ago=2 * HOUR, outcome=Outcome.NOTHING), partitions=("p=0", "p=1"), seen="1")
    later = replace(past("two", ago=HOUR), partitions=("p=2",), seen="1")
    one = replace(candidate("a.b", parts=4), seen="1")
    halves = [*untried(one, [of_two, later])]
    assert [[part.spec for part in half.parts] for half in halves] == [["p=2", "p=3"], ["p=0", "p=1"]]
    verdicts = choose(halves, standing(of_two, later), spec(), NOON)
    assert [one.hold for one in verdicts] == [None, Hold.NOTHING_GAINED]
    (whole,) = untried(replace(one, seen="2"), [of_two, later])
    assert len(whole.parts) == 4


def test_by_gain_nothing_starts_that_does_not_press_before_all_tables_are_read() -> None:
    """The first tables could take the budget of the whole day."""
    found = [candidate("a.a"), candidate("a.b", waited=22 * HOUR)]
    assert holds(*found, on=standing(incomplete=True)) == {"a.a": Hold.FIRST_LOOK, "a.b": None}


def test_the_budget_takes_the_partitions_that_fit() -> None:
    (verdict,) = choose([candidate("a.b", parts=5)], standing(used=MIB), spec(bytes_per_window=3 * MIB), NOON)
    assert (verdict.hold, len(verdict.candidate.parts)) == (None, 2)


def test_each_start_uses_up_the_budget() -> None:
    found = [candidate("a.a", files=9), candidate("a.b", files=8), candidate("a.c", files=7)]
    on = standing(used=MIB)
    assert holds(*found, on=on, bytes_per_window=2 * MIB) == {
        "a.a": None,
        "a.b": Hold.BUDGET_SPENT,
        "a.c": Hold.BUDGET_SPENT,
    }


def test_a_table_larger_than_the_whole_budget_is_named_and_starts_once_it_is_overdue() -> None:
    large, late = (candidate("a.b", size=10 * MIB, waited=waited) for waited in (23 * HOUR, 24 * HOUR))
    assert holds(large, on=standing(), bytes_per_window=MIB) == {"a.b": Hold.BUDGET_TOO_SMALL}
    assert holds(late, on=standing(), bytes_per_window=MIB) == {"a.b": None}


def test_of_an_overdue_table_only_what_is_overdue_exceeds_the_budget() -> None:
    parts = (part(0, size=9 * MIB, waited=24 * HOUR), part(1, size=9 * MIB), part(2), part(3, waited=30 * HOUR))
    one = Candidate("a.b", CompactionType.MINOR, parts)
    for budget, taken in ((MIB, ["p=0", "p=3"]), (11 * MIB, ["p=0", "p=2", "p=3"])):
        (verdict,) = choose([one], standing(), spec(bytes_per_window=budget), NOON)
        assert [one.spec for one in verdict.candidate.parts] == taken


def test_the_type_that_is_due_longest_goes_first() -> None:
    both = [candidate("a.b", waited=25 * HOUR), candidate("a.b", minor=False, waited=24 * HOUR)]
    verdicts = choose(both, standing(), spec(), NOON)
    assert [(one.candidate.type, one.hold) for one in verdicts] == [
        (CompactionType.MINOR, None),
        (CompactionType.MAJOR, Hold.UNFINISHED),
    ]


def test_what_is_overdue_has_its_place_among_very_many_partitions() -> None:
    """Those from which readers gain more would keep it out of each compaction."""
    many = candidate("a.b", parts=MAX_PARTITIONS + 1)
    late = [part(MAX_PARTITIONS + n, files=1, waited=waited * HOUR) for n, waited in ((1, 24), (2, 30))]
    both = replace(many, parts=(*many.parts, *late))
    taken = startable(both, strategy=Strategy.THRESHOLDS, late=NOON - 24 * HOUR).parts
    assert [one.spec for one in taken[:3]] == [f"p={MAX_PARTITIONS + 2}", f"p={MAX_PARTITIONS + 1}", "p=0"]
    assert len(taken) == MAX_PARTITIONS


def test_a_compaction_of_a_partition_begins_its_wait_again() -> None:
    """That of another one does not, nor one that ended before."""
    since = NOON - 5 * HOUR
    other, whole, before = (
        replace(past("one", ago=ago * HOUR), partitions=specs) for ago, specs in ((1, ("p=1",)), (2, ()), (6, ("p=0",)))
    )
    assert waits_since([before, other], "p=0", since) == since
    assert waits_since([before, other, whole], "p=0", since) == NOON - 2 * HOUR
    assert waits_since([before, other, whole], "p=1", since) == NOON - HOUR


HOUR_EACH = {CompactionType.MINOR: CORE_HOUR / MIB}
"""A compaction takes a core-hour for each MiB."""


@pytest.mark.parametrize(
    ("used", "limits", "taken", "hold"),
    [
        (0, {"core_hours_per_window": 3}, 3, None),
        (2, {"core_hours_per_window": 3}, 1, None),
        (3, {"core_hours_per_window": 3}, 5, Hold.BUDGET_SPENT),
        (0, {"core_hours_per_window": 3, "bytes_per_window": 2 * MIB}, 2, None),
        (0, {"core_hours_per_window": 2, "bytes_per_window": 3 * MIB}, 2, None),
        (0, {"core_hours_per_window": 4, "database_share": 50}, 2, None),
        (0, {"core_hours_per_window": 1, "database_share": 50}, 5, Hold.BUDGET_TOO_SMALL),
    ],
)
def test_core_hours_are_a_budget_beside_the_bytes(
    used: int, limits: dict[str, Any], taken: int, hold: Hold | None
) -> None:
    on = standing(used_cpu=used * CORE_HOUR, rates=HOUR_EACH)
    (one,) = choose([candidate("a.b", parts=5)], on, spec(**limits), NOON)
    assert (len(one.candidate.parts), one.hold) == (taken, hold)


def test_each_start_uses_up_core_hours_by_what_its_type_takes() -> None:
    """A type takes the default until something is known of it."""
    found = [candidate("a.a", files=9), candidate("a.b", files=8, minor=False), candidate("a.c", files=7)]
    limits = spec(core_hours_per_window=2)
    assert [one.hold for one in choose(found, standing(rates=HOUR_EACH), limits, NOON)] == [
        None,
        None,
        Hold.BUDGET_SPENT,
    ]
    assert standing().cpu_of(candidate("a.b", parts=2)) == 100


@pytest.mark.parametrize(
    ("cheap", "dear", "taken", "hold"),
    [
        (0.1, 0.4, 2, None),
        (0.1, 0.9, 1, None),
        (0.9, 0.1, 1, None),
        (0.9, 0.9, 0, Hold.BUDGET_SPENT),
        (2, 3, 0, Hold.BUDGET_TOO_SMALL),
    ],
)
def test_each_partition_takes_its_own_core_hours(cheap: float, dear: float, taken: int, hold: Hold | None) -> None:
    """By their mean, a small partition that takes long would go for its bytes, and a large one that is copied not."""
    parts = [replace(part(n, size=MIB * 100**n), cpu=hours * CORE_HOUR) for n, hours in enumerate((dear, cheap))]
    on = standing(used_cpu=CORE_HOUR // 2)
    (one,) = choose([replace(candidate("a.b"), parts=tuple(parts))], on, spec(core_hours_per_window=1), NOON)
    assert (0 if one.hold else len(one.candidate.parts), one.hold) == (taken, hold)


def test_what_starts_leaves_what_its_partitions_do_not_take() -> None:
    first = replace(candidate("a.a", files=99), parts=(replace(part(files=99), cpu=0.7 * CORE_HOUR),))
    limits = spec(core_hours_per_window=1)
    second = replace(candidate("a.b"), parts=(replace(part(), cpu=0.2 * CORE_HOUR),))
    third = replace(candidate("a.c", files=5), parts=(replace(part(files=5), cpu=0.2 * CORE_HOUR),))
    assert [one.hold for one in choose([first, second, third], standing(), limits, NOON)] == [
        None,
        None,
        Hold.BUDGET_SPENT,
    ]


def test_names_are_deterministic_and_follow_from_the_previous_one() -> None:
    def name(table: str = "sales.Orders", previous: str | None = None) -> str:
        return compaction_name(policy_uid="u", table=table, type_=CompactionType.MINOR, previous=previous)

    assert name() == name() != name(previous=name())
    assert name().startswith("sales-orders-minor-")
    assert len(name("d" * 128 + "." + "t" * 128)) <= 52
    assert name("__.__").startswith("table-minor-")


def test_the_history_keeps_the_newest_and_failed_ones_longer() -> None:
    done = [past(f"d{n}", ago=n * HOUR) for n in range(2, 6)]
    failed = [past(f"f{n}", ago=n * HOUR, outcome=Outcome.FAILED) for n in range(2, 6)]
    assert gone(*done, *failed, limits=History(succeeded=1, failed=3)) == {"d3", "d4", "d5", "f5"}


def test_the_history_keeps_what_decisions_still_read() -> None:
    """Within the pause of a table, and what has used up the budget."""
    found = [past("rests", ago=HOUR / 2), past("counts", ago=3 * HOUR), past("old", ago=9 * HOUR)]
    for budget in ({"bytes_per_window": MIB}, {"core_hours_per_window": 1}):
        assert gone(*found, limits=History(succeeded=0), budget=budget) == {"old"}
