"""Forecasts of what comes next: which are asked for, how long they hold, and what they change in the order."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest

from compaction_operator.api.compaction import CompactionType, Forecast, TableRef
from compaction_operator.api.forecasting import ForecastAnswer, ForecastQuestion
from compaction_operator.api.policy import MAX_NEXT, Partitions, Strategy
from compaction_operator.hudi import LogSizes, SliceSizes
from compaction_operator.policy import forecasts
from compaction_operator.policy.candidates import CPU_UNIT, DELETED_ROWS_UNIT, Candidate, candidates_of, startable
from compaction_operator.policy.choice import DEFAULT_RATE, Hold, Standing, Verdict
from compaction_operator.policy.forecasts import Outlook, Outlooks, outlook, with_new
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.memory import PartitionState, TableState
from compaction_operator.policy.ranking import score
from compaction_operator.policy.timeline import TimelineMeasure
from compaction_operator.policy.upcoming import (
    AGAIN,
    PARTITIONS,
    QUESTIONS,
    Lacking,
    lacking,
    learned,
    upcoming,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MIB, GIB = 1024**2, 1024**3
MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
ELEVEN = Measure(1, GIB, 11, 11, 4 * MIB, 0, 1, 1, 0, base_write_id=5, first_delta=6)
ALONE = replace(ELEVEN, base_files=0, base_bytes=0)
NOTHING: Outlooks = MappingProxyType({})
RATES = dict.fromkeys(CompactionType, DEFAULT_RATE)


def table(name: str, *measures: Measure | TimelineMeasure) -> TableState:
    keys = ("n",) if len(measures) > 1 else ()
    names = [f"n={number}" for number in range(len(measures))] if keys else [""]
    parts = (PartitionState(one, 0, measure) for one, measure in zip(names, measures, strict=True))
    return TableState(name, "9", NOON, keys, partitions=tuple(parts))


def known(of: Measure = ELEVEN, *, made: datetime = NOON, problem: str | None = None, **numbers: int) -> Outlook:
    return Outlook(of, made, None if problem else Forecast(**numbers), problem)


def about(*outlooks: Outlook, type_: CompactionType = MINOR, name: str = "a.b") -> Outlooks:
    """Those of an unpartitioned table, or of its first partitions."""
    if len(outlooks) == 1:
        return {(name, type_, ""): outlooks[0], (name, type_, "n=0"): outlooks[0]}
    return {(name, type_, f"n={number}"): one for number, one in enumerate(outlooks)}


def candidate(state: TableState, outlooks: Outlooks = NOTHING, **more: Any) -> Candidate:
    (one,) = candidates_of(state, Partitions(), (), NOON, outlooks=outlooks, **more)
    return one


def waiting(*states: TableState, hold: Hold | None = Hold.WINDOW_CLOSED, outlooks: Outlooks = NOTHING) -> list[Verdict]:
    found = [candidate(state, outlooks) for state in states]
    return [Verdict(one, one, score(one).value, NOON, hold) for one in found]


def ask(
    *states: TableState,
    hold: Hold | None = Hold.WINDOW_CLOSED,
    strategy: Strategy = Strategy.THRESHOLDS,
    outlooks: Outlooks = NOTHING,
) -> Sequence[tuple[str, CompactionType, str]]:
    found = lacking(waiting(*states, hold=hold), outlooks, strategy, NOON)
    return [(str(one.question.table), one.question.type, one.question.partition) for one in found]


class TestQuestions:
    def test_each_partition_that_waits_is_asked_about_by_its_own_type(self) -> None:
        found = ask(table("a.b", ELEVEN), table("a.c", ALONE, ALONE))
        assert found == [("a.b", MINOR, ""), ("a.c", MAJOR, "n=0"), ("a.c", MAJOR, "n=1")]

    def test_by_gain_both_types_are_asked_about_where_there_are_two(self) -> None:
        """A minor compaction of a table without a base is no alternative."""
        gain = Strategy.GAIN
        assert ask(table("a.b", ELEVEN), strategy=gain) == [("a.b", MINOR, ""), ("a.b", MAJOR, "")]
        assert ask(table("a.b", ALONE), strategy=gain) == [("a.b", MAJOR, "")]

    @pytest.mark.parametrize("hold", [None, Hold.UNFINISHED, Hold.NOTHING_GAINED])
    def test_what_starts_runs_or_gains_nothing_is_not_asked_about(self, hold: Hold | None) -> None:
        assert ask(table("a.b", ELEVEN), hold=hold) == []

    def test_hudi_tables_are_not_asked_about(self) -> None:
        assert ask(table("a.b", TimelineMeasure(5, 5, SliceSizes(LogSizes(1, 4, 40))))) == []

    def test_what_is_known_is_not_asked_again_until_it_changes(self) -> None:
        state = table("a.b", ELEVEN, ELEVEN)
        assert ask(state, outlooks=about(known(), known())) == []
        changed = about(known(), known(replace(ELEVEN, delta_bytes=1)))
        assert ask(state, outlooks=changed) == [("a.b", MINOR, "n=1")]

    @pytest.mark.parametrize(("ago", "asked"), [(AGAIN, 1), (AGAIN / 2, 0)])
    def test_what_could_not_be_forecast_is_asked_again_after_a_while(self, ago: timedelta, asked: int) -> None:
        failed = about(known(made=NOON - ago, problem="no ORC file"))
        assert len(ask(table("a.b", ELEVEN), outlooks=failed)) == asked

    def test_questions_are_limited_and_about_the_best_partitions(self) -> None:
        assert len(ask(table("a.b", *[ELEVEN] * (PARTITIONS + 5)))) == PARTITIONS
        assert len(ask(*(table(f"a.t{n:02d}", *[ELEVEN] * PARTITIONS) for n in range(MAX_NEXT)))) == QUESTIONS


class TestAnswers:
    asked = tuple(
        Lacking(ForecastQuestion(table=TableRef(database="a", name="b"), type=MINOR, partition=name), ELEVEN)
        for name in ("n=0", "n=1")
    )

    def test_an_answer_is_known_of_the_partition_as_it_was(self) -> None:
        answers = [ForecastAnswer(forecast=Forecast(bytes_in=7))]
        assert learned(self.asked, answers, NOON) == {("a.b", MINOR, "n=0"): known(bytes_in=7)}

    def test_why_there_is_none_is_said_with_the_partition(self) -> None:
        found = learned(self.asked, [ForecastAnswer(problem="no ORC file")], NOON)
        state = table("a.b", ELEVEN, ELEVEN)
        assert candidate(state, found).forecast_problem == "n=0: no ORC file"
        assert candidate(state).forecast_problem is None

    def test_of_very_many_the_newest_are_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(forecasts, "MOST", 2)
        old, new = about(known(made=NOON - HOUR), known(made=NOON)), about(known(made=NOON + HOUR), name="c.d")
        assert {key[2] for key in with_new(old, new)} == {"", "n=0"}
        assert with_new(old, {}) == old

    def test_a_partition_that_has_changed_has_none(self) -> None:
        outlooks = about(known())
        assert outlook(outlooks, "a.b", MINOR, "", ELEVEN) == known()
        assert outlook(outlooks, "a.b", MINOR, "", replace(ELEVEN, deltas=12)) is None


class TestRanking:
    @pytest.mark.parametrize(("rows", "benefit"), [(None, 10.5), (1, 10.5), (3 * DELETED_ROWS_UNIT, 13)])
    def test_rows_that_are_deleted_count_where_their_events_take_few_bytes(
        self, rows: int | None, benefit: float
    ) -> None:
        """Of rows that follow one another a delete event takes a hundredth of a byte."""
        few = replace(ALONE, delete_bytes=MIB // 2)
        outlooks = NOTHING if rows is None else about(known(few, rows_removed=rows), type_=MAJOR)
        assert candidate(table("a.b", few), outlooks).parts[0].benefit == benefit

    def test_by_gain_the_deleted_rows_make_it_a_major_compaction(self) -> None:
        state, gain = table("a.b", ELEVEN), Strategy.GAIN
        assert candidate(state, strategy=gain).type is MINOR
        deleted = about(known(rows_removed=5000 * DELETED_ROWS_UNIT), type_=MAJOR)
        assert candidate(state, deleted, strategy=gain).type is MAJOR

    def test_where_core_hours_are_limited_the_cpu_time_is_the_cost(self) -> None:
        """By the forecast, else by the bytes and what compactions of the type took."""
        state, forecast = table("a.b", ELEVEN), about(known(cpu_milliseconds=round(9 * CPU_UNIT)))
        assert candidate(state, forecast).cost == 2
        assert candidate(state, rates=RATES).cost == 2
        assert candidate(state, forecast, rates=RATES).cost == 10

    def test_the_cpu_time_of_a_forecast_counts_for_the_budget(self) -> None:
        state = table("a.b", ELEVEN, ELEVEN)
        on = Standing(past={}, unfinished=(), running=0, used=0, window_open=True)
        assert on.cpu_of(candidate(state, about(known(cpu_milliseconds=1000)))) == 1200

    def test_partitions_that_are_not_forecast_take_what_those_do_that_are(self) -> None:
        """By the rate of all tables they would seem much dearer, and would not go with the others."""
        state = table("a.b", *[ELEVEN] * (PARTITIONS + 5))
        cheap = about(*[known(cpu_milliseconds=5)] * PARTITIONS)
        found = candidate(state, cheap, rates=RATES, strategy=Strategy.GAIN)
        assert {part.cpu for part in found.parts} == {5}
        assert len(startable(found, strategy=Strategy.GAIN, late=NOON - HOUR).parts) == PARTITIONS + 5

    def test_deleted_rows_of_some_partitions_do_not_put_off_the_others(self) -> None:
        """What is known of few is no measure for all of a table."""
        state = table("a.b", *[ALONE] * 3)
        some = about(known(ALONE, rows_removed=500 * DELETED_ROWS_UNIT), known(ALONE), type_=MAJOR)
        found = candidate(state, some, strategy=Strategy.GAIN)
        assert len(startable(found, strategy=Strategy.GAIN, late=NOON - HOUR).parts) == 3

    def test_a_candidate_is_forecast_if_all_its_partitions_are(self) -> None:
        state = table("a.b", ELEVEN, ELEVEN)
        assert candidate(state, about(known(bytes_in=2))).forecast is None
        assert candidate(state, about(known(bytes_in=2), known(bytes_in=3))).forecast == Forecast(bytes_in=5)


def test_what_is_due_stays_in_the_list_before_what_is_not() -> None:
    many = waiting(*(table(f"a.t{number:02d}", ELEVEN) for number in range(MAX_NEXT + 1)))
    part = replace(many[0].whole.parts[0], due=False)
    rest = replace(many[0].whole, parts=(part,))
    many[0] = replace(many[0], candidate=rest, whole=rest)
    assert upcoming(many) == many[1:]
