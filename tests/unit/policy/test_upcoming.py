"""Forecasts of what comes next: which are asked for, how long they hold, and what they change in the order."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest

from compaction_operator.api.compaction import CompactionType, Forecast, TableRef
from compaction_operator.api.forecasting import ForecastAnswer, ForecastQuestion, PartitionForecast
from compaction_operator.api.policy import MAX_NEXT, Partitions, Strategy
from compaction_operator.policy.candidates import CPU_UNIT, DELETED_ROWS_UNIT, Candidate, candidates_of
from compaction_operator.policy.choice import DEFAULT_RATE, Hold, Standing, Verdict
from compaction_operator.policy.forecasts import Outlooks, PartitionOutlook
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.memory import Memory, PartitionState, TableState
from compaction_operator.policy.ranking import score
from compaction_operator.policy.upcoming import (
    AGAIN,
    PARTITIONS,
    QUESTIONS,
    REMEMBERED,
    forecast_problem,
    learned,
    questions,
    still_true,
    upcoming,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MIB, GIB = 1024**2, 1024**3
MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
ELEVEN = Measure(1, GIB, 11, 11, 4 * MIB, 0, 1, 1, 0, base_write_id=5, first_delta=6)
ALONE = replace(ELEVEN, base_files=0, base_bytes=0)
NOTHING: Outlooks = MappingProxyType({})


def table(name: str, *measures: Measure) -> TableState:
    keys = ("n",) if len(measures) > 1 else ()
    names = [f"n={number}" for number in range(len(measures))] if keys else [""]
    parts = (PartitionState(one, 0, measure) for one, measure in zip(names, measures, strict=True))
    return TableState(name, "9", NOON, keys, partitions=tuple(parts))


def known(
    of: Measure = ELEVEN, *, made: datetime = NOON, problem: str | None = None, **numbers: int
) -> PartitionOutlook:
    return PartitionOutlook(of, made, None if problem else Forecast(**numbers), problem)


def candidate(state: TableState, outlooks: Outlooks = NOTHING, **more: Any) -> Candidate:
    (one,) = candidates_of(state, Partitions(), (), NOON, outlooks=outlooks, **more)
    return one


def waiting(*states: TableState, hold: Hold | None = Hold.WINDOW_CLOSED) -> list[Verdict]:
    found = [candidate(state) for state in states]
    return [Verdict(one, one, score(one).value, NOON, hold) for one in found]


def ask(
    *states: TableState,
    hold: Hold | None = Hold.WINDOW_CLOSED,
    strategy: Strategy = Strategy.THRESHOLDS,
    outlooks: dict[str, Outlooks] | None = None,
) -> Sequence[ForecastQuestion]:
    memory = Memory({one.name: one for one in states}, outlooks=outlooks or {})
    return questions(waiting(*states, hold=hold), memory, strategy, NOON)


class TestQuestions:
    def test_each_table_that_waits_is_asked_about_by_its_own_type(self) -> None:
        first, second = ask(table("a.b", ELEVEN), table("a.c", ALONE))
        assert first == ForecastQuestion(table=TableRef(database="a", name="b"), type=MINOR, partitions=("",))
        assert (second.table.name, second.type) == ("c", MAJOR)

    def test_by_gain_both_types_are_asked_about_where_there_are_two(self) -> None:
        """A minor compaction of a table without a base is no alternative."""
        assert [one.type for one in ask(table("a.b", ELEVEN), strategy=Strategy.GAIN)] == [MINOR, MAJOR]
        assert [one.type for one in ask(table("a.b", ALONE), strategy=Strategy.GAIN)] == [MAJOR]

    @pytest.mark.parametrize("hold", [None, Hold.UNFINISHED, Hold.NOTHING_GAINED])
    def test_what_starts_runs_or_gains_nothing_is_not_asked_about(self, hold: Hold | None) -> None:
        assert ask(table("a.b", ELEVEN), hold=hold) == ()

    def test_what_is_known_is_not_asked_again_until_it_changes(self) -> None:
        state = table("a.b", ELEVEN, ELEVEN)
        both: dict[tuple[CompactionType, str], PartitionOutlook] = {(MINOR, "n=0"): known(), (MINOR, "n=1"): known()}
        assert ask(state, outlooks={"a.b": both}) == ()
        changed = {**both, (MINOR, "n=1"): known(replace(ELEVEN, delta_bytes=1))}
        assert [one.partitions for one in ask(state, outlooks={"a.b": changed})] == [("n=1",)]

    def test_what_could_not_be_forecast_is_asked_again_after_a_while(self) -> None:
        for made, asked in ((NOON - AGAIN, 1), (NOON - AGAIN / 2, 0)):
            failed: Outlooks = {(MINOR, ""): known(made=made, problem="no ORC file")}
            assert len(ask(table("a.b", ELEVEN), outlooks={"a.b": failed})) == asked

    def test_questions_are_few_at_a_time_and_about_the_best_partitions(self) -> None:
        many = [table(f"a.t{number:02d}", ELEVEN) for number in range(MAX_NEXT + 5)]
        assert [one.table.name for one in ask(*many)] == [f"t{number:02d}" for number in range(QUESTIONS)]
        (one,) = ask(table("a.b", *[ELEVEN] * (PARTITIONS + 5)))
        assert len(one.partitions) == PARTITIONS


class TestAnswers:
    state = table("a.b", ELEVEN, replace(ELEVEN, deltas=12))
    memory = Memory({"a.b": state})
    asked = ForecastQuestion(table=TableRef(database="a", name="b"), type=MINOR, partitions=("n=1", "n=0"))

    def test_an_answer_is_known_of_the_partitions_as_they_were(self) -> None:
        forecast = Forecast(bytes_in=7)
        answer = ForecastAnswer(partitions=(PartitionForecast(partition="n=1", forecast=forecast),))
        found = learned(self.memory, self.asked, answer, NOON)
        second = self.state.partitions[1].measure
        assert found[MINOR, "n=1"] == PartitionOutlook(second, NOON, forecast)  # type: ignore[arg-type]
        assert found[MINOR, "n=0"].problem == "the metastore has no such partition"

    def test_without_an_answer_the_reason_holds_for_all(self) -> None:
        found = learned(self.memory, self.asked, ForecastAnswer(problem="it is gone"), NOON)
        assert {one.problem for one in found.values()} == {"it is gone"}
        on = replace(self.memory, outlooks={"a.b": found})
        assert forecast_problem(candidate(self.state), on) == "n=0: it is gone"
        assert forecast_problem(candidate(self.state), self.memory) is None

    def test_what_has_changed_is_forgotten(self) -> None:
        both: Outlooks = {(MINOR, "n=0"): known(), (MINOR, "n=1"): known()}
        assert still_true({"a.b": both, "a.gone": both}, self.memory) == {"a.b": {(MINOR, "n=0"): known()}}

    def test_of_very_many_tables_the_newest_forecasts_are_kept(self) -> None:
        names = [f"a.t{number}" for number in range(REMEMBERED + 1)]
        memory = Memory({name: table(name, ELEVEN) for name in names})
        outlooks = {name: {(MINOR, ""): known(made=NOON + n * HOUR)} for n, name in enumerate(names)}
        assert set(names) - still_true(outlooks, memory).keys() == {"a.t0"}


class TestRanking:
    def test_rows_that_a_forecast_says_to_be_deleted_count_where_events_take_few_bytes(self) -> None:
        """Of rows that follow one another a delete event takes a hundredth of a byte."""
        few = table("a.b", replace(ALONE, delete_bytes=MIB // 2))
        assert candidate(few).parts[0].benefit == 10.5
        rows = {(MAJOR, ""): known(few.partitions[0].measure, rows_removed=3 * DELETED_ROWS_UNIT)}  # type: ignore[arg-type]
        assert candidate(few, rows).parts[0].benefit == 13
        less = {(MAJOR, ""): known(few.partitions[0].measure, rows_removed=1)}  # type: ignore[arg-type]
        assert candidate(few, less).parts[0].benefit == 10.5

    def test_by_gain_the_deleted_rows_make_it_a_major_compaction(self) -> None:
        state, gain = table("a.b", ELEVEN), Strategy.GAIN
        assert candidate(state, strategy=gain).type is MINOR
        deleted: Outlooks = {(MAJOR, ""): known(rows_removed=5000 * DELETED_ROWS_UNIT)}
        assert candidate(state, deleted, strategy=gain).type is MAJOR

    def test_where_core_hours_are_limited_the_cpu_time_is_the_cost(self) -> None:
        """By the forecast, else by the bytes and what compactions of the type took."""
        state, rates = table("a.b", ELEVEN), dict.fromkeys(CompactionType, DEFAULT_RATE)
        forecast: Outlooks = {(MINOR, ""): known(cpu_milliseconds=round(9 * CPU_UNIT))}
        assert candidate(state, forecast).cost == 2
        assert candidate(state, rates=rates).cost == 2
        assert candidate(state, forecast, rates=rates).cost == 10

    def test_the_cpu_time_of_a_forecast_counts_for_the_budget(self) -> None:
        state = table("a.b", ELEVEN, ELEVEN)
        one: Outlooks = {(MINOR, "n=0"): known(cpu_milliseconds=1000)}
        on = Standing(past={}, unfinished=(), running=0, used=0, window_open=True)
        assert on.cpu_of(candidate(state, one)) == 1200
        assert on.rate_of(candidate(state, one)) == 1200 / (8 * MIB)

    def test_a_candidate_is_forecast_if_all_its_partitions_are(self) -> None:
        state = table("a.b", ELEVEN, ELEVEN)
        one: dict[tuple[CompactionType, str], PartitionOutlook] = {(MINOR, "n=0"): known(bytes_in=2)}
        assert candidate(state, one).forecast is None
        assert candidate(state, {**one, (MINOR, "n=1"): known(bytes_in=3)}).forecast == Forecast(bytes_in=5)


def test_what_is_due_stays_in_the_list_before_what_is_not() -> None:
    many = waiting(*(table(f"a.t{number:02d}", ELEVEN) for number in range(MAX_NEXT + 1)))
    part = replace(many[0].whole.parts[0], due=False)
    rest = replace(many[0].whole, parts=(part,))
    many[0] = replace(many[0], candidate=rest, whole=rest)
    assert [place for place, _ in upcoming(many)] == list(range(1, MAX_NEXT + 1))
