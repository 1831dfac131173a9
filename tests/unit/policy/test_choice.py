"""What comes first, what is kept back and by what, and what is deleted from the history."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.policy import CompactionPolicySpec, History, Tables, Window
from compaction_operator.policy.candidates import Candidate, Part
from compaction_operator.policy.choice import Hold, Outcome, Past, Standing, choose
from compaction_operator.policy.history import expired
from compaction_operator.policy.naming import compaction_name

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MIB = 1024**2


def spec(**changes: Any) -> CompactionPolicySpec:
    return CompactionPolicySpec(warehouse="lake", tables=Tables(include=("*.*",)), **changes)


def candidate(table: str, *, files: int = 10, size: int = MIB, parts: int = 1, minor: bool = True) -> Candidate:
    type_ = CompactionType.MINOR if minor else CompactionType.MAJOR
    return Candidate(table, type_, "11 deltas", tuple(Part(f"p={n}", files, 0, size) for n in range(parts)))


def past(name: str, *, ago: timedelta, outcome: Outcome = Outcome.SUCCEEDED, table: str = "a.b", size: int = 0) -> Past:
    return Past(name, table, CompactionType.MINOR, NOON - ago, NOON - ago, outcome, size)


def standing(*earlier: Past, **changes: Any) -> Standing:
    plain: dict[str, Any] = {
        "past": {one.table: [two for two in earlier if two.table == one.table] for one in earlier},
        "unfinished": (),
        "running": 0,
        "used": 0,
        "window_open": True,
        "changed": {},
        "due_since": {},
    }
    return Standing(**{**plain, **changes})


def holds(*candidates: Candidate, on: Standing, **changes: Any) -> dict[str, Hold | None]:
    return {one.candidate.table: one.hold for one in choose(candidates, on, spec(**changes), NOON)}


def test_what_saves_more_files_for_its_bytes_comes_first() -> None:
    found = [candidate("few", files=5), candidate("large", files=20, size=4096 * MIB), candidate("many", files=20)]
    verdicts = choose(found, standing(), spec(max_concurrent=2), NOON)
    assert [one.candidate.table for one in verdicts] == ["many", "few", "large"]
    assert [one.hold for one in verdicts] == [None, None, Hold.MAX_CONCURRENT]


def test_what_waits_overtakes_what_is_new_and_goes_first_after_three_quarters_of_its_maximum() -> None:
    found = [candidate("new", files=15), candidate("old", files=10), candidate("pressing", files=1)]
    since = {"old": NOON - 17 * HOUR, "pressing": NOON - 18 * HOUR}
    verdicts = choose(found, standing(due_since=since), spec(), NOON)
    assert [one.candidate.table for one in verdicts] == ["pressing", "old", "new"]


def test_benefit_counts_for_each_hour_due() -> None:
    found = [candidate("four hours", files=10), candidate("one hour", files=24)]
    since = {"four hours": NOON - 4 * HOUR, "one hour": NOON - HOUR}
    verdicts = choose(found, standing(due_since=since), spec(), NOON)
    assert [one.candidate.table for one in verdicts] == ["four hours", "one hour"]
    assert verdicts[0].score / verdicts[1].score == pytest.approx((10 * 5) / (24 * 2))


def test_an_unfinished_compaction_keeps_its_table_back() -> None:
    assert holds(candidate("a.b"), on=standing(unfinished={"a.b"})) == {"a.b": Hold.UNFINISHED}


def test_a_table_gets_one_compaction_at_a_time() -> None:
    verdicts = choose([candidate("a.b"), candidate("a.b", minor=False)], standing(), spec(), NOON)
    assert [one.hold for one in verdicts] == [None, Hold.UNFINISHED]


def test_nothing_starts_outside_a_window_even_if_overdue() -> None:
    on = standing(window_open=False, due_since={"a.b": NOON - 48 * HOUR})
    assert holds(candidate("a.b"), on=on) == {"a.b": Hold.WINDOW_CLOSED}


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


def test_what_found_nothing_to_merge_is_not_tried_again_until_something_is_written() -> None:
    nothing = past("one", ago=2 * HOUR, outcome=Outcome.NOTHING)
    before, after = {"a.b": NOON - 3 * HOUR}, {"a.b": NOON - HOUR}
    assert holds(candidate("a.b"), on=standing(nothing, changed=before)) == {"a.b": Hold.NOTHING_GAINED}
    assert holds(candidate("a.b"), on=standing(nothing, changed=after)) == {"a.b": None}


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


NIGHTLY = (Window(start="11:00", duration="8h"),)
LARGE_FIRST = (candidate("large", files=90, size=3 * MIB), candidate("small", files=1))


def test_small_ones_do_not_use_up_what_a_large_one_waits_for() -> None:
    on = standing(used=2 * MIB)
    assert holds(*LARGE_FIRST, on=on, bytes_per_window=4 * MIB) == {
        "large": Hold.BUDGET_SPENT,
        "small": Hold.BUDGET_SPENT,
    }


def test_nothing_becomes_free_in_a_window_so_what_is_left_goes_to_what_fits() -> None:
    on = standing(used=2 * MIB)
    assert holds(*LARGE_FIRST, on=on, bytes_per_window=4 * MIB, windows=NIGHTLY) == {
        "large": Hold.BUDGET_SPENT,
        "small": None,
    }


def test_what_is_larger_than_the_whole_budget_is_not_waited_for() -> None:
    on = standing(used=MIB)
    assert holds(*LARGE_FIRST, on=on, bytes_per_window=2 * MIB) == {"large": Hold.BUDGET_TOO_SMALL, "small": None}


def test_a_large_partition_is_not_passed_over_for_smaller_ones_of_its_table() -> None:
    parts = tuple(Part(f"p={size}", 1, 0, size * MIB) for size in (1, 3, 1))
    found = [Candidate("a.b", CompactionType.MINOR, "11 deltas", parts), candidate("small", files=1)]
    verdicts = choose(found, standing(used=MIB), spec(bytes_per_window=4 * MIB), NOON)
    assert [len(one.candidate.parts) for one in verdicts if one.hold is None] == [1]
    assert verdicts[1].hold is Hold.BUDGET_SPENT


@pytest.mark.parametrize(("budget", "first"), [(12, "large"), (11, "small")])
def test_nothing_presses_if_the_budget_does_not_suffice_until_it_is_overdue(budget: int, first: str) -> None:
    """A table presses for a quarter of `maxDelay`, 6 hours: a quarter of the budget of a day is its share."""
    since = {"large": NOON - 20 * HOUR}
    found = [candidate("large", files=1, size=3 * MIB), candidate("small", files=900)]
    verdicts = choose(found, standing(due_since=since), spec(bytes_per_window=budget * MIB), NOON)
    assert verdicts[0].candidate.table == first


def test_an_overdue_one_goes_first_even_if_the_budget_does_not_suffice() -> None:
    since = {"large": NOON - 24 * HOUR}
    found = [candidate("large", files=1, size=3 * MIB), candidate("small", files=900)]
    verdicts = choose(found, standing(due_since=since), spec(bytes_per_window=2 * MIB), NOON)
    assert verdicts[0].candidate.table == "large"


def test_a_pressing_one_keeps_the_budget() -> None:
    since = {"a.b": NOON - 20 * HOUR}
    on = standing(used=MIB, due_since=since)
    assert holds(candidate("a.b"), on=on, bytes_per_window=MIB) == {"a.b": Hold.BUDGET_SPENT}


def test_a_table_larger_than_the_whole_budget_is_named_and_starts_once_it_is_overdue() -> None:
    large = candidate("a.b", size=10 * MIB)
    assert holds(large, on=standing(), bytes_per_window=MIB) == {"a.b": Hold.BUDGET_TOO_SMALL}
    assert holds(large, on=standing(due_since={"a.b": NOON - 24 * HOUR}), bytes_per_window=MIB) == {"a.b": None}


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
    limits = spec(history=History(succeeded=1, failed=3))
    assert {one.name for one in expired([*done, *failed], limits, budget_since=NOON, now=NOON)} == {
        *("d3", "d4", "d5"),
        "f5",
    }


def test_the_history_keeps_what_decisions_still_read() -> None:
    """Within the pause of a table, and what has used up the budget."""
    found = [past("rests", ago=HOUR / 2), past("counts", ago=3 * HOUR), past("old", ago=9 * HOUR)]
    limits = spec(history=History(succeeded=0), bytes_per_window=MIB)
    assert [one.name for one in expired(found, limits, budget_since=NOON - 8 * HOUR, now=NOON)] == ["old"]
