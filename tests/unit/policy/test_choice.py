"""What comes first, what is kept back and by what, and what is deleted from the history."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.policy import CompactionPolicySpec, History, Strategy, Tables, Window
from compaction_operator.policy.candidates import Candidate, Part
from compaction_operator.policy.choice import Hold, Outcome, Past, Standing, Usage, choose, failures
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


def test_what_waits_overtakes_what_is_new_and_goes_first_after_its_maximum() -> None:
    old, new = candidate("old"), candidate("new", files=15)
    old = replace(old, parts=tuple(replace(part, hours=2.0) for part in old.parts))
    found = [new, old, candidate("late", files=1)]
    verdicts = choose(found, standing(due_since={"late": NOON - 18 * HOUR}), spec(), NOON)
    assert [one.candidate.table for one in verdicts] == ["late", "old", "new"]


def test_what_is_read_more_often_comes_first() -> None:
    found = [candidate("often"), candidate("much", files=15)]
    found[0] = replace(found[0], weight=2.0)
    verdicts = choose(found, standing(), spec(), NOON)
    assert [one.candidate.table for one in verdicts] == ["often", "much"]


def test_what_presses_keeps_the_budget_until_it_is_overdue() -> None:
    spent = standing(used=MIB, due_since={"a.b": NOON - 23 * HOUR})
    assert holds(candidate("a.b"), on=spent, bytes_per_window=MIB) == {"a.b": Hold.BUDGET_SPENT}
    overdue = replace(spent, due_since={"a.b": NOON - 24 * HOUR})
    assert holds(candidate("a.b"), on=overdue, bytes_per_window=MIB) == {"a.b": None}


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
    late = standing(ahead=1.0, due_since={"a": NOON - 24 * HOUR})
    assert holds(candidate("a"), on=late, **GAIN) == {"a": None}


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
    on = standing(window_open=False, due_since={"a.b": NOON - 48 * HOUR})
    assert holds(candidate("a.b"), on=on) == {"a.b": Hold.WINDOW_CLOSED}


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
    late = replace(spent, due_since={"a.1": NOON - 25 * HOUR})
    assert holds(*found, on=late, **share)["a.1"] is None
    assert holds(*found, on=late, max_concurrent=1, **share)["a.2"] is Hold.MAX_CONCURRENT
    busy = replace(late, running=2, databases={"a": Usage(2, MIB)})
    assert holds(*found, on=busy, **share)["a.1"] is Hold.DATABASE_SHARE


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


def test_failures_that_are_not_kept_any_more_count_too() -> None:
    last = replace(past("9", ago=9 * HOUR, outcome=Outcome.FAILED), failures=4)
    assert holds(candidate("a.b"), on=standing(last)) == {"a.b": Hold.BACKING_OFF}
    assert failures([last, past("10", ago=HOUR, outcome=Outcome.FAILED)], CompactionType.MINOR) == 6
    assert failures([last, past("10", ago=HOUR)], CompactionType.MINOR) == 0


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.NOTHING])
def test_what_keeps_a_table_back_is_kept(outcome: Outcome) -> None:
    """Whatever the limits say; of the others, as many as they say."""
    old = [past(f"{table}{n}", table=table, ago=(9 - n) * HOUR, outcome=outcome) for table in "ab" for n in (1, 2)]
    fine = [past(f"c{n}", table=f"c{n}", ago=9 * HOUR) for n in range(3)]
    limits = spec(history=History(succeeded=0, failed=0))
    gone = expired([*old, *fine], limits, budget_since=NOON, now=NOON)
    assert {one.name for one in gone} == {"a1", "b1", "c0", "c1", "c2"}


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
