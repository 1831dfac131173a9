"""Why a table was picked, or was not: each verdict, with the numbers behind it, and as a person reads it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from types import MappingProxyType
from typing import Any

import pytest

from compaction_operator.api.compaction import Phase
from compaction_operator.api.conditions import ConditionStatus
from compaction_operator.api.policy import CompactionPolicySpec, Partitions, Strategy, Tables, Thresholds, Window
from compaction_operator.api.why import Explanation, PolicyReady, Subject, Unfinished
from compaction_operator.policy.candidates import Candidate, candidates_of
from compaction_operator.policy.choice import Outcome, Past, Standing, choose, untried
from compaction_operator.policy.explain import NEAREST, Look, explain
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.memory import LeftAlone, Memory, PartitionState, Problem, Round, TableState
from compaction_operator.policy.partitions import Filter, parse_filter
from compaction_operator.policy.text import lines_of
from compaction_operator.policy.thresholds import checks, due
from compaction_operator.policy.timeline import TimelineMeasure

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MIB = 1024**2
NAME = "sales.orders"
SUBJECT = Subject(namespace="analytics", policy="nightly", warehouse="main", table=NAME)
WAITING = ("NotLookedYet", "no look yet")


def spec(**changes: Any) -> CompactionPolicySpec:
    plain: dict[str, Any] = {"tables": Tables(include=("*.none", "sales.*"), exclude=("*.none", "sales.tmp_*"))}
    return CompactionPolicySpec(warehouse="main", **{**plain, **changes})


def deltas(number: int, *, base: int = 1000 * MIB, size: int = 1, aborted: int = 0) -> Measure:
    return Measure(1 if base else 0, base, number, number, number * size, 0, 1, 1, aborted)


def state(*partitions: PartitionState, name: str = NAME, **changes: Any) -> TableState:
    return replace(TableState(name, "1", NOON - HOUR, partitions=partitions), **changes)


def day(number: int, measure: Measure) -> PartitionState:
    return PartitionState(f"day=2025-12-{number:02d}", int((NOON - number * HOUR).timestamp()), measure)


TEN, ELEVEN = (PartitionState("", 100, deltas(number)) for number in (10, 11))


def _found(
    table: TableState, policy: CompactionPolicySpec, filters: list[Filter], due_since: Mapping[str, datetime]
) -> tuple[Candidate, ...]:
    return candidates_of(table, policy.partitions, filters, NOON, strategy=policy.strategy, due_since=due_since)


def looked(
    *states: TableState,
    of: CompactionPolicySpec | None = None,
    past: tuple[Past, ...] = (),
    due_since: Mapping[str, datetime] = MappingProxyType({}),
    **standing: Any,
) -> Look:
    """A look as the controller makes it: memory, then candidates, then their choice."""
    policy, memory = of or spec(), Memory({one.name: one for one in states}, matched=len(states))
    filters = [parse_filter(text) for text in policy.partitions.filters]
    found = [one for table in states for one in _found(table, policy, filters, due_since)]
    earlier = {NAME: past}
    plain: dict[str, Any] = {"unfinished": (), "running": 0, "used": 0, "window_open": True}
    on = Standing(past=earlier, **{**plain, **standing})
    tried = (half for one in found for half in untried(one, past))
    return Look(1, NOON, memory, choose(tried, on, policy, NOON), earlier)


def why(look: Look | None, of: CompactionPolicySpec | None = None, *, allowed: bool = True) -> Explanation:
    return explain(SUBJECT, of or spec(), look, allowed=allowed, waiting=WAITING)


def ended(outcome: Outcome, *, ago: timedelta) -> Past:
    (one,) = candidates_of(state(ELEVEN), Partitions(), (), NOON)
    return Past("orders-minor-1", NAME, one.type, NOON - ago - HOUR, NOON - ago, outcome, 0, seen=one.seen)


def test_what_gains_nothing_does_not_speak_for_a_table_of_which_something_else_waits() -> None:
    """However much better its score is."""
    table = state(day(1, deltas(50)), day(2, deltas(11)), keys=("day",))
    (one,) = candidates_of(table, Partitions(), (), NOON)
    tried = replace(ended(Outcome.NOTHING, ago=2 * HOUR), seen=one.seen, partitions=("day=2025-12-01",))
    found = why(looked(table, past=(tried,), window_open=False))
    assert [candidate.kept_back_by for candidate in found.due] == ["WindowClosed", "WindowClosed"]
    found = why(looked(table, past=(tried,), running=5))
    assert [candidate.kept_back_by for candidate in found.due] == ["NothingGained", "MaxConcurrent"]
    assert (found.verdict, found.reason) == ("KeptBack", "MaxConcurrent")


@pytest.mark.parametrize(
    ("changes", "allowed", "reason", "says"),
    [
        ({"tables": Tables(include=("hr.*",))}, True, "NoGlobMatches", "hr.*"),
        ({"tables": Tables(include=("*.*",), exclude=("a.b", "SALES.o*"))}, True, "Excluded", "SALES.o*"),
        ({}, False, "DatabaseNotAllowed", "warehouse main"),
    ],
)
def test_a_table_that_no_look_is_about(changes: dict[str, Any], allowed: bool, reason: str, says: str) -> None:
    """It is said even before a look."""
    for look in (None, looked()):
        found = why(look, spec(**changes), allowed=allowed)
        assert (found.verdict, found.reason) == ("NotSelected", reason)
        assert says in found.message


def test_before_a_look_it_says_what_the_policy_waits_for() -> None:
    found = why(None)
    assert (found.verdict, found.reason, found.message) == ("NotLooked", *WAITING)
    assert found.looked_at is None


def test_a_table_that_is_not_read_yet_is_told_from_one_that_is_not_there() -> None:
    look = looked(state(ELEVEN, name="sales.other"))
    assert (why(look).verdict, why(look).reason) == ("NotFound", "TableNotFound")
    unread = replace(look, memory=replace(look.memory, unread=frozenset({NAME})))
    assert (why(unread).verdict, why(unread).reason) == ("NotLooked", "NotReadYet")


def test_a_problem_of_the_table() -> None:
    found = why(looked(state(problem=Problem("OptedOut", "its property is off"))))
    assert (found.verdict, found.reason, found.message) == ("LeftAlone", "OptedOut", "its property is off")
    assert (found.looked_at, found.read_at) == (NOON, NOON - HOUR)


def test_a_filter_on_a_key_that_the_table_lacks() -> None:
    filtered = spec(partitions=Partitions(filters=("day = 1",)))
    found = why(looked(state(ELEVEN), of=filtered), filtered)
    assert (found.verdict, found.reason) == ("LeftAlone", "NoPartitionKey")


def test_numbers_below_their_thresholds() -> None:
    found = why(looked(state(TEN)))
    assert (found.verdict, found.reason) == ("NotDue", "BelowThresholds")
    assert found.message == "no threshold is exceeded; nearest: deltas 10 of 10"
    assert found.partitions
    (one,) = found.partitions.nearest
    numbers = {number.threshold: (number.value, number.limit, number.exceeded) for number in one.numbers}
    assert numbers == {
        "abortedWrites": (0, 1000, False),
        "abortedAge": (0, 43200, False),
        "deltaPercent": (0, 10, False),
        "deltas": (10, 10, False),
    }


def test_a_limit_that_a_table_property_sets_is_marked() -> None:
    found = why(looked(state(ELEVEN, thresholds=Thresholds(deltas=40))))
    assert found.message == "no threshold is exceeded; nearest: deltas 11 of 40"
    assert found.partitions
    (one,) = found.partitions.nearest
    assert [number.threshold for number in one.numbers if number.from_table] == ["deltas"]


def test_a_limit_that_only_a_table_property_sets_is_marked() -> None:
    limited = Thresholds(small_files=5, delete_percent=3)
    found = why(looked(state(PartitionState("", 100, replace(deltas(9), small_files=8)), thresholds=limited)))
    assert found.partitions
    (one,) = found.partitions.nearest
    assert (one.due, one.reason) == ("Minor", "8 small files > 5")
    marked = [(number.text, number.exceeded) for number in one.numbers if number.from_table]
    assert marked == [("deletePercent 0 of 3", False), ("smallFiles 8 of 5", True)]


def test_nothing_to_merge() -> None:
    assert (why(looked(state())).verdict, why(looked(state())).reason) == ("NotDue", "NothingToMerge")


def test_partitions_that_are_left_alone_are_no_clean_ones() -> None:
    found = why(looked(state(left_alone=LeftAlone(3, "day=1", "an empty base"))))
    assert (found.verdict, found.reason) == ("NotDue", "NotUnderstood")
    assert found.message == "3 partitions left alone: partition day=1: an empty base"


@pytest.mark.parametrize(
    ("partitions", "by"),
    [
        (Partitions(filters=("day >= 2025-01-01", "day >= today - 7d")), "day >= today - 7d"),
        (Partitions(min_age=24 * 3600.0), "minAge 86400s"),
        (Partitions(max_age=3600.0), "maxAge 3600s"),
    ],
)
def test_partitions_that_the_policy_is_not_about(partitions: Partitions, by: str) -> None:
    policy = spec(partitions=partitions)
    found = why(looked(state(day(10, deltas(50)), keys=("day",)), of=policy), policy)
    assert (found.verdict, found.reason) == ("NotDue", "PartitionsNotSelected")
    assert found.partitions
    assert (found.partitions.mergeable, found.partitions.selected, found.partitions.due) == (1, 0, 0)
    assert found.partitions.nearest[0].unselected_by == by


def test_due_partitions_are_listed_first_then_those_nearest_to_a_threshold() -> None:
    parts = (day(1, deltas(3)), day(2, deltas(9)), day(3, deltas(12)), day(20, deltas(50)))
    policy = spec(partitions=Partitions(filters=("day <= 2025-12-10",)))
    found = why(looked(state(*parts, keys=("day",)), of=policy), policy)
    assert found.partitions
    assert [one.partition[-2:] for one in found.partitions.nearest] == ["03", "02", "01", "20"]
    assert [one.reason for one in found.partitions.nearest] == ["12 deltas > 10", None, None, None]
    assert (found.partitions.mergeable, found.partitions.selected, found.partitions.due) == (4, 3, 1)


def test_of_very_many_partitions_some_are_listed() -> None:
    parts = [PartitionState(f"n={number}", 100, deltas(11)) for number in range(NEAREST + 5)]
    found = why(looked(state(*parts, keys=("n",))))
    assert found.partitions
    assert (found.partitions.due, len(found.partitions.nearest)) == (NEAREST + 5, NEAREST)
    assert any("and 5 more" in line for line in lines_of([found]))


def test_a_picked_table_before_and_after_its_compaction_is_created() -> None:
    look = looked(state(ELEVEN))
    assert (why(look).verdict, why(look).reason) == ("Picked", "Creating")
    look.created[NAME] = "orders-minor-7"
    assert (why(look).verdict, why(look).reason) == ("Picked", "Created")
    assert "orders-minor-7" in why(look).message


def test_what_the_api_server_said_to_its_compaction() -> None:
    """One that was accepted before another was refused is there."""
    refused = replace(looked(state(ELEVEN)), refusal="exceeded quota")
    assert (why(refused).verdict, why(refused).reason, why(refused).message) == (
        "KeptBack",
        "NotCreated",
        "exceeded quota",
    )
    refused.created[NAME] = "orders-minor-7"
    assert why(refused).verdict == "Picked"


def test_the_score_is_that_of_the_choice_with_its_terms() -> None:
    """Of all due partitions, even if the budget takes only one of them."""
    policy = spec(bytes_per_window=12)
    since = NOON - 6 * HOUR
    parts = [PartitionState(f"n={number}", 100, deltas(11), None, since, since) for number in range(3)]
    look = looked(state(*parts, keys=("n",), weight=4.0), of=policy, due_since={"n=0": since})
    (one,) = why(look, policy).due
    assert (one.type, one.place, one.kept_back_by) == ("Minor", 1, None)
    assert (one.partitions, one.partitions_due, one.partitions_taken) == (3, 3, 1)
    assert one.terms.model_dump() == {
        "files_saved": 30,
        "delete_bytes": 0,
        "bytes": 33,
        "benefit": 30.0,
        "cost": 1.0,
        "hours": 9.0,
        "urgency": 1.0,
        "weight": 4.0,
    }
    assert one.score == round(look.verdicts[0].score, 2) == 1079.99
    assert (one.due_since, one.first_at, one.overdue_at) == (since, NOON + 15.6 * HOUR, NOON + 18 * HOUR)


def test_a_table_below_the_thresholds_has_a_place_by_gain() -> None:
    policy = spec(strategy=Strategy.GAIN, bytes_per_window=5)
    found = why(looked(state(TEN), of=policy), policy)
    assert (found.verdict, found.reason) == ("NotDue", "BelowThresholds")
    assert found.message.endswith("deltas 10 of 10; by gain it has place 1 (BudgetTooSmall)")
    assert "due since" not in "\n".join(lines_of([found]))
    assert (found.may_start, found.due[0].partitions, found.due[0].partitions_due) == (None, 1, 0)
    enough = policy.model_copy(update={"bytes_per_window": 100})
    assert why(looked(state(TEN), of=enough), enough).verdict == "Picked"


def test_a_table_is_due_even_if_a_partition_that_is_not_has_the_better_place() -> None:
    policy = spec(strategy=Strategy.GAIN, bytes_per_window=5)
    better = PartitionState("n=1", 100, deltas(10), None, NOON - 6 * HOUR, NOON - 6 * HOUR)
    due_one = PartitionState("n=2", 100, deltas(11, base=0))
    found = why(looked(state(better, due_one, keys=("n",)), of=policy), policy)
    assert [(one.type, one.due) for one in found.due] == [("Minor", False), ("Major", True)]
    assert (found.verdict, found.reason) == ("KeptBack", "BudgetTooSmall")


NIGHT = (Window(start="22:00", duration=8 * 3600.0),)


@pytest.mark.parametrize(
    ("changes", "standing", "past", "reason", "may_start"),
    [
        ({"windows": NIGHT}, {"window_open": False}, (), "WindowClosed", NOON + 10 * HOUR),
        ({}, {}, (ended(Outcome.SUCCEEDED, ago=HOUR / 2),), "MinInterval", NOON + HOUR / 2),
        ({}, {}, (ended(Outcome.FAILED, ago=1.5 * HOUR), ended(Outcome.FAILED, ago=HOUR)), "BackingOff", NOON + HOUR),
        (
            {"windows": NIGHT},
            {},
            (ended(Outcome.FAILED, ago=HOUR / 2),),
            "BackingOff",
            NOON + 10 * HOUR,
        ),
        ({}, {}, (ended(Outcome.NOTHING, ago=HOUR),), "NothingGained", None),
        ({}, {"unfinished": {NAME}}, (), "UnfinishedCompaction", None),
        ({}, {"running": 5}, (), "MaxConcurrent", None),
        ({"bytes_per_window": 20}, {"used": 15}, (), "BudgetSpent", None),
        ({"bytes_per_window": 20, "windows": NIGHT}, {"used": 15}, (), "BudgetSpent", NOON + 10 * HOUR),
        ({"bytes_per_window": 5}, {}, (), "BudgetTooSmall", NOON + 24 * HOUR),
        ({"dry_run": True}, {}, (), "DryRun", None),
    ],
)
def test_what_keeps_a_due_table_back_and_until_when(
    changes: dict[str, Any], standing: dict[str, Any], past: tuple[Past, ...], reason: str, may_start: datetime | None
) -> None:
    policy = spec(**changes)
    found = why(looked(state(ELEVEN), of=policy, past=past, **standing), policy)
    assert (found.verdict, found.reason, found.may_start) == ("KeptBack", reason, may_start)
    assert [one.kept_back_by for one in found.due] == [reason]


def test_a_table_with_two_types_is_explained_by_the_one_that_starts() -> None:
    minor, major = (
        PartitionState(f"n={number}", 100, deltas(number, base=base)) for number, base in ((30, MIB), (11, 0))
    )
    rested = (ended(Outcome.SUCCEEDED, ago=HOUR / 2),)
    policy = spec(thresholds=Thresholds(delta_percent=100))
    table = state(minor, major, keys=("n",), thresholds=policy.thresholds)
    found = why(looked(table, of=policy, past=rested), policy)
    assert [(one.type, one.kept_back_by) for one in found.due] == [("Minor", "MinInterval"), ("Major", None)]
    assert found.verdict == "Picked"


def test_a_table_that_was_written_to_since_it_was_read() -> None:
    look = looked(state(TEN))
    stale = replace(look, memory=replace(look.memory, unread=frozenset({NAME})))
    assert why(stale).verdict == "NotDue"
    assert "changed since it was read" in why(stale).message


def test_a_hudi_table_has_numbers_of_its_own() -> None:
    table = state(PartitionState("", 100, TimelineMeasure(4, 2)), thresholds=Thresholds(delta_commits=8))
    found = why(looked(table))
    assert (found.reason, found.message) == (
        "BelowThresholds",
        "no threshold is exceeded; nearest: deltaCommits 4 of 8",
    )
    assert found.partitions
    (one,) = found.partitions.nearest
    numbers = [(number.threshold, number.value, number.limit, number.from_table) for number in one.numbers]
    assert numbers == [("deltaCommits", 4, 8, True), ("logBlocks", 2, 5, False)]


def test_a_table_whose_partitions_are_read_over_several_looks() -> None:
    going_on = Round("1", NOON, "day=2025-12-05", 5000, 12000)
    found = why(looked(state(day(1, deltas(11)), keys=("day",), round=going_on)))
    assert found.verdict == "Picked"
    assert found.message.endswith("; 5000 of 12000 partitions are read so far, the others in the next looks")


def test_the_numbers_shown_are_those_that_decide() -> None:
    """The first that is exceeded is the reason; without one nothing is due."""
    numbers = product((0, 1, 2, 3), (0, 1, 2), (0, 1, 4, 5, 7), (0, 1, 2), (0, 2))
    for number, aborted, base, hours, limit in numbers:
        limits = Thresholds(deltas=limit, delta_percent=50, aborted_writes=1, aborted_age=3600.0)
        measure = deltas(number, base=base, aborted=aborted)
        needed = due(measure, limits, aborted_for=hours * HOUR)
        exceeded = [one.threshold for one in checks(measure, limits, aborted_for=hours * HOUR) if one.exceeded]
        assert (needed is None) == (not exceeded)
        if needed:
            word = {
                "abortedWrites": "aborted write",
                "abortedAge": "older than",
                "deltaPercent": "% of the base",
                "deltas": " delta",
            }
            assert word[exceeded[0]] in needed.reason


def test_as_a_person_reads_it() -> None:
    policy = spec(windows=NIGHT)
    late = [PartitionState("", 100, deltas(11), NOON - HOUR, NOON - 2 * HOUR, NOON - 2 * HOUR)]
    found = why(looked(state(*late), of=policy, window_open=False), policy)
    by_hand = Unfinished(namespace="analytics", name="by-hand", phase=Phase.RUNNING)
    broken = PolicyReady(status=ConditionStatus.UNKNOWN, reason="MetastoreUnavailable", message="connection refused")
    more = found.model_copy(update={"unfinished": (by_hand,), "policy_ready": broken, "next_look_at": NOON + HOUR})
    other = SUBJECT.model_copy(update={"policy": "hr"})
    not_mine = explain(other, spec(tables=Tables(include=("hr.*",))), None, allowed=True, waiting=WAITING)
    assert "\n".join(lines_of([not_mine, more])) == EXPECTED


EXPECTED = """\
analytics/nightly (warehouse main): due, but kept back (WindowClosed)
  no window is open
  policy      MetastoreUnavailable: connection refused
  unfinished  TableCompaction analytics/by-hand, Running
  may start   2026-01-01T22:00:00Z at the earliest
  minor       place 1, WindowClosed; score 50 = 1 weight * 10 benefit * 5 hours * 1 urgency / 1 cost
              10 files saved, 0 bytes of delete events merged, 11 bytes to read
              1 partition due
              due since 2026-01-01T12:00:00Z; goes first from 2026-01-02T09:36:00Z on
              may exceed the budget from 2026-01-02T12:00:00Z on
  partitions  1 with something to merge, 1 of them selected, 1 due
              the table: due, minor: 11 deltas > 10
                abortedWrites 0 of 1000, abortedAge 0 of 43200, deltaPercent 0 of 10, deltas 11 of 10 exceeded
  looked      2026-01-01T12:00:00Z
  next look   2026-01-01T13:00:00Z
  table read  2026-01-01T11:00:00Z
analytics/hr (warehouse main): not selected (NoGlobMatches)
  no glob of tables.include matches it: hr.*"""


def test_the_answer_is_read_back_as_it_was_written() -> None:
    found = why(looked(state(ELEVEN)))
    written = found.to_json()
    assert written["lookedAt"] == "2026-01-01T12:00:00Z"
    assert Explanation.model_validate(written) == found
