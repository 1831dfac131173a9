"""What comes next, and which forecasts of it have still to be made: those of the best candidates, a few at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.forecasting import ForecastAnswer, ForecastQuestion, PartitionForecast
from compaction_operator.api.policy import MAX_NEXT, Strategy
from compaction_operator.policy.candidates import Candidate, has_minor, spec_of
from compaction_operator.policy.choice import Hold, Verdict
from compaction_operator.policy.forecasts import Outlooks, PartitionOutlook, outlook
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.memory import Memory, PartitionState, TableState

PARTITIONS = 20
"""Partitions of a candidate that are forecast, the best ones. A larger one has no forecast as a whole."""
QUESTIONS = 10
"""Questions at a time: a look follows soon, and with it the next ones."""
REMEMBERED = 1_000
"""Tables whose forecasts are kept. Those that come next are few; what a forecast has put behind must not come back."""
AGAIN = timedelta(hours=1)
"""After which time a forecast that could not be made is tried again: its reason may have passed."""


def upcoming(verdicts: Iterable[Verdict]) -> list[tuple[int, Verdict]]:
    """Return what comes next with its place, from 0, in this order.

    NB: what is due is never left out for what is not: a restart reads its wait in the status.
    """
    waiting = [(place, one) for place, one in enumerate(verdicts) if one.hold not in (None, Hold.UNFINISHED)]
    shown = sorted(waiting, key=lambda item: (*_of_least_use(item[1]), item[0]))[:MAX_NEXT]
    return sorted(shown, key=lambda item: item[0])


def _of_least_use(one: Verdict) -> tuple[bool, bool]:
    """Return what makes a verdict give way to others: nothing will start, or nothing is due."""
    return one.hold is Hold.NOTHING_GAINED, not one.whole.due


def questions(
    verdicts: Iterable[Verdict], memory: Memory, strategy: Strategy, now: datetime
) -> tuple[ForecastQuestion, ...]:
    """Return the forecasts to make next: of Hive tables that come next, as far as they are not known.

    By gain the other type is asked about as well, as the choice between the two is the policy's.
    """
    return tuple(islice(_questions(verdicts, memory, strategy, now), QUESTIONS))


def _questions(
    verdicts: Iterable[Verdict], memory: Memory, strategy: Strategy, now: datetime
) -> Iterator[ForecastQuestion]:
    for _, one in upcoming(verdicts):
        state = memory.tables[one.whole.table]
        if one.hold is Hold.NOTHING_GAINED or state.place is not None:
            continue
        parts = _parts(one.whole, state)
        known = memory.outlooks.get(state.name, {})
        for type_ in _types(one.whole.type, strategy):
            fitting = (part for part in parts if type_ is one.whole.type or has_minor(part.measure))
            specs = tuple(spec_of(part.name, state.keys) for part in fitting if _is_unknown(known, type_, part, now))
            if specs:
                yield ForecastQuestion(table=_ref(state.name), type=type_, partitions=specs)


def _types(own: CompactionType, strategy: Strategy) -> Sequence[CompactionType]:
    other = CompactionType.MINOR if own is CompactionType.MAJOR else CompactionType.MAJOR
    return (own, other) if strategy is Strategy.GAIN else (own,)


def _parts(candidate: Candidate, state: TableState) -> list[PartitionState]:
    by_spec = {spec_of(one.name, state.keys): one for one in state.partitions}
    return [by_spec[part.spec] for part in candidate.parts[:PARTITIONS]]


def _is_unknown(known: Outlooks, type_: CompactionType, part: PartitionState, now: datetime) -> bool:
    found = outlook(known, type_, part.name, part.measure)
    return found is None or (found.problem is not None and now - found.made >= AGAIN)


def _ref(table: str) -> TableRef:
    database, _, name = table.partition(".")
    return TableRef(database=database, name=name)


def forecast_problem(candidate: Candidate, memory: Memory) -> str | None:
    """Return why there is no forecast of a partition of a candidate, None if none has failed."""
    state = memory.tables[candidate.table]
    known = memory.outlooks.get(candidate.table, {})
    found = (outlook(known, candidate.type, part.name, part.measure) for part in _parts(candidate, state))
    said = ((one, part.spec) for one, part in zip(found, candidate.parts, strict=False) if one and one.problem)
    return next((f"{spec}: {one.problem}" if spec else one.problem for one, spec in said), None)


def learned(
    memory: Memory, asked: ForecastQuestion, answer: ForecastAnswer, now: datetime
) -> dict[tuple[CompactionType, str], PartitionOutlook]:
    """Return what an answer says of the partitions that were asked about, as `memory` knew them then."""
    state = memory.tables[f"{asked.table.database}.{asked.table.name}"]
    said = {one.partition: one for one in answer.partitions}
    found = {}
    for part in state.partitions:
        if spec_of(part.name, state.keys) in asked.partitions and isinstance(part.measure, Measure):
            one = said.get(part.name) or PartitionForecast(partition=part.name, problem=answer.problem or _GONE)
            found[asked.type, part.name] = PartitionOutlook(part.measure, now, one.forecast, one.problem)
    return found


_GONE = "the metastore has no such partition"


def still_true(outlooks: Mapping[str, Outlooks], memory: Memory) -> dict[str, Outlooks]:
    """Return the outlooks without those of partitions that are no more, or no more the same.

    Of very many tables, those are left out whose last forecast was made longest ago.
    """
    kept = dict[str, Outlooks]()
    for table, known in outlooks.items():
        state = memory.tables.get(table)
        measures = {part.name: part.measure for part in state.partitions} if state else {}
        if same := {key: one for key, one in known.items() if measures.get(key[1]) == one.measure}:
            kept[table] = same
    newest = sorted(kept, key=lambda table: max(one.made for one in kept[table].values()), reverse=True)
    return {table: kept[table] for table in newest[:REMEMBERED]}
