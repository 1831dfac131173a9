"""What comes next, and which forecasts of it have still to be made: those of the best partitions, some at a time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.forecasting import ForecastAnswer, ForecastQuestion
from compaction_operator.api.policy import MAX_NEXT, Strategy
from compaction_operator.policy.candidates import Candidate, has_minor
from compaction_operator.policy.choice import Hold, Verdict
from compaction_operator.policy.forecasts import Outlook, Outlooks, outlook
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.memory import PartitionState

PARTITIONS = 20
"""Partitions of a table that are forecast, the best ones. A larger candidate has no forecast as a whole."""
QUESTIONS = 100
"""Questions at a time: the next look has others."""
AGAIN = timedelta(hours=1)
"""After which time a forecast that could not be made is tried again: its reason may have passed."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """A forecast that is lacking: the question, and the partition's measure when it was asked."""

    question: ForecastQuestion
    measure: Measure


def upcoming(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the verdicts on what comes next, in their order.

    NB: what is due is never left out for what is not: a restart reads its wait in the status.
    """
    waiting = [(place, one) for place, one in enumerate(verdicts) if one.hold not in (None, Hold.UNFINISHED)]
    shown = sorted(waiting, key=lambda item: (*_of_least_use(item[1]), item[0]))[:MAX_NEXT]
    return [one for _, one in sorted(shown, key=lambda item: item[0])]


def _of_least_use(one: Verdict) -> tuple[bool, bool]:
    """Return what makes a verdict give way to others: nothing will start, or nothing is due."""
    return one.hold is Hold.NOTHING_GAINED, not one.whole.due


def lacking(verdicts: Iterable[Verdict], known: Outlooks, strategy: Strategy, now: datetime) -> tuple[Lacking, ...]:
    """Return the forecasts to make next: of Hive tables that come next, as far as they are not known.

    By gain the other type is asked about as well, as the choice between the two is the policy's.
    """
    return tuple(islice(_lacking(verdicts, known, strategy, now), QUESTIONS))


def _lacking(verdicts: Iterable[Verdict], known: Outlooks, strategy: Strategy, now: datetime) -> Iterator[Lacking]:
    for one in upcoming(verdicts):
        if one.hold is Hold.NOTHING_GAINED:
            continue
        for type_, state, measure in _choices(one.whole, strategy):
            found = outlook(known, one.whole.table, type_, state.name, measure)
            if found is None or (found.problem is not None and now - found.made >= AGAIN):
                question = ForecastQuestion(table=TableRef.of(one.whole.table), type=type_, partition=state.name)
                yield Lacking(question, measure)


def _choices(candidate: Candidate, strategy: Strategy) -> Iterator[tuple[CompactionType, PartitionState, Measure]]:
    """Yield the best partitions with each type that a policy chooses from. Hudi tables have none."""
    states = [part.state for part in candidate.parts[:PARTITIONS] if part.state]
    for type_ in _types(candidate.type, strategy):
        for state in states:
            if isinstance(state.measure, Measure) and (type_ is candidate.type or has_minor(state.measure)):
                yield type_, state, state.measure


def _types(own: CompactionType, strategy: Strategy) -> Sequence[CompactionType]:
    other = CompactionType.MINOR if own is CompactionType.MAJOR else CompactionType.MAJOR
    return (own, other) if strategy is Strategy.GAIN else (own,)


def learned(asked: Iterable[Lacking], answers: Iterable[ForecastAnswer], now: datetime) -> Outlooks:
    """Return what the answers to the first questions say."""
    found = dict[tuple[str, CompactionType, str], Outlook]()
    for one, answer in zip(asked, answers, strict=False):
        about = one.question
        key = str(about.table), about.type, about.partition
        found[key] = Outlook(one.measure, now, answer.forecast, answer.problem)
    return found
