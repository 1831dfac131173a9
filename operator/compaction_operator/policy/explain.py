"""Explanation: why a policy's last look did or did not pick a table. Computed when asked, from what the look kept."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from compaction_operator.api.model import counted
from compaction_operator.api.policy import CompactionPolicySpec
from compaction_operator.api.why import (
    DueCompaction,
    Explanation,
    Number,
    PartitionNumbers,
    PartitionsSeen,
    Subject,
    Terms,
)
from compaction_operator.api.why import Verdict as Word
from compaction_operator.metastore.partition_specs import values_of
from compaction_operator.policy.candidates import PRESSING, key_problem
from compaction_operator.policy.choice import MEANING, Hold, Past, Verdict, rest
from compaction_operator.policy.memory import Memory, PartitionState, TableState
from compaction_operator.policy.partitions import Filter, parse_filter, unwanted_by
from compaction_operator.policy.ranking import score
from compaction_operator.policy.selection import matching
from compaction_operator.policy.thresholds import Due, checks, due
from compaction_operator.policy.windows import next_opening, open_from

NEAREST = 20
"""Partitions to list: a table may have very many."""

NOT_CREATED = "NotCreated"


@dataclass(frozen=True)
class Look:
    """The last look of a policy, with the spec of a generation: what it decided on, and what it decided.

    `past` are the policy's ended compactions by table, oldest first. `created` are the compactions that followed, by
    table; it grows while they are created. `refusal` is what the API server said to one that it did not accept.
    """

    generation: int
    at: datetime
    memory: Memory
    verdicts: Sequence[Verdict]
    past: Mapping[str, Sequence[Past]]
    created: dict[str, str] = field(default_factory=dict)
    refusal: str | None = None


def explain(
    subject: Subject, spec: CompactionPolicySpec, look: Look | None, *, allowed: bool, waiting: tuple[str, str]
) -> Explanation:
    """Return why a policy did or did not pick a table.

    `look` is the last look with this spec, None if there was none, and then `waiting` says why: a word and a sentence.
    `allowed` is whether the warehouse allows the table's database.
    """

    def says(verdict: Word, reason: str, message: str, **more: Any) -> Explanation:
        looked = look.at if look else None
        about = subject.model_dump()
        return Explanation(**about, looked_at=looked, verdict=verdict, reason=reason, message=message, **more)

    if out := _out_of_selection(subject, spec, allowed=allowed):
        return says(Word.NOT_SELECTED, *out)
    if look is None:
        return says(Word.NOT_LOOKED, *waiting)
    state = look.memory.tables.get(subject.table)
    if state is None and subject.table in look.memory.unread:
        return says(Word.NOT_LOOKED, "NotReadYet", "the controller has not read the table yet; its next looks do")
    if state is None:
        message = f"the metastore had no managed table and no Hudi table {subject.table} at the last look"
        return says(Word.NOT_FOUND, "TableNotFound", message)
    filters = tuple(map(parse_filter, spec.partitions.filters))
    if problem := state.problem or key_problem(state, filters):
        return says(Word.LEFT_ALONE, problem.reason, problem.message, read_at=state.looked)
    seen = _partitions(state, spec, filters, look.at)
    candidates = _due(state.name, spec, look)
    verdict, reason, message = _decision(state, candidates, seen, look)
    if subject.table in look.memory.unread:
        message += "; the table has changed since it was read, and is read again in the next looks"
    if state.round is not None:
        message += (
            f"; {state.round.read} of {state.round.total} partitions are read so far, the others in the next looks"
        )
    starts = _first(candidates).may_start if candidates else None
    return says(verdict, reason, message, may_start=starts, due=candidates, partitions=seen, read_at=state.looked)


def _out_of_selection(subject: Subject, spec: CompactionPolicySpec, *, allowed: bool) -> tuple[str, str] | None:
    if matching(subject.table, spec.tables.include) is None:
        return "NoGlobMatches", f"no glob of tables.include matches it: {', '.join(spec.tables.include)}"
    if excluded := matching(subject.table, spec.tables.exclude):
        return "Excluded", f"a glob of tables.exclude matches it: {excluded}"
    if not allowed:
        return "DatabaseNotAllowed", f"warehouse {subject.warehouse} does not allow its database"
    return None


def _decision(
    state: TableState, candidates: Sequence[DueCompaction], seen: PartitionsSeen, look: Look
) -> tuple[Word, str, str]:
    """Return verdict, reason and message for a table that nothing but its numbers decides about."""
    if not candidates:
        return Word.NOT_DUE, *_not_due(seen)
    first = _first(candidates)
    if first.kept_back_by is not None and not any(one.due for one in candidates):
        reason, message = _not_due(seen)
        return Word.NOT_DUE, reason, f"{message}; by gain it has place {first.place} ({first.kept_back_by})"
    if first.kept_back_by is not None:
        return Word.KEPT_BACK, first.kept_back_by, MEANING[Hold(first.kept_back_by)]
    if name := look.created.get(state.name):
        return Word.PICKED, "Created", f"TableCompaction {name} was created"
    if look.refusal is not None:
        return Word.KEPT_BACK, NOT_CREATED, look.refusal
    return Word.PICKED, "Creating", "its TableCompaction is about to be created"


def _not_due(seen: PartitionsSeen) -> tuple[str, str]:
    if seen.left_alone and not seen.mergeable:
        return "NotUnderstood", f"{counted(seen.left_alone, 'partition')} left alone: {seen.left_alone_example}"
    if not seen.mergeable:
        return "NothingToMerge", "no partition has deltas or aborted writes that could be merged now"
    if not seen.selected:
        partitions = counted(seen.mergeable, "partition")
        return "PartitionsNotSelected", f"the policy's filters and ages leave out all {partitions} with deltas"
    return "BelowThresholds", f"no threshold is exceeded; nearest: {_nearest(seen.nearest[0])}"


def _nearest(one: PartitionNumbers) -> str:
    number = max(one.numbers, key=lambda number: _share(number.value, number.limit))
    where = f" in partition {one.partition}" if one.partition else ""
    return f"{number.text}{where}"


def _first(candidates: Sequence[DueCompaction]) -> DueCompaction:
    """Return what speaks for the table: the compaction that was to start, or the one with the best place.

    What gains nothing says least: something else of the table waits.
    """
    useless = Hold.NOTHING_GAINED
    return min(candidates, key=lambda one: (one.kept_back_by is not None, one.kept_back_by == useless, one.place))


def _due(table: str, spec: CompactionPolicySpec, look: Look) -> tuple[DueCompaction, ...]:
    mine = ((place, one) for place, one in enumerate(look.verdicts, 1) if one.candidate.table == table)
    return tuple(_due_compaction(place, one, spec, look) for place, one in mine)


def _due_compaction(place: int, one: Verdict, spec: CompactionPolicySpec, look: Look) -> DueCompaction:
    """Return a verdict for people."""
    whole, max_delay = one.whole, timedelta(seconds=spec.max_delay)
    found = score(whole)
    terms = Terms(
        files_saved=whole.files_saved,
        delete_bytes=whole.delete_bytes,
        bytes=whole.bytes,
        benefit=round(found.benefit, 2),
        cost=round(found.cost, 2),
        hours=round(found.hours, 2),
        urgency=round(found.urgency, 2),
        weight=found.weight,
    )
    return DueCompaction(
        type=whole.type,
        due=whole.due,
        kept_back_by=one.hold,
        may_start=_may_start(one, spec, look),
        place=place,
        score=round(found.value, 2),
        terms=terms,
        forecast=whole.forecast,
        forecast_problem=whole.forecast_problem,
        due_since=one.due_since,
        first_at=one.due_since + PRESSING * max_delay,
        overdue_at=one.due_since + max_delay,
        partitions=len(whole.parts),
        partitions_due=sum(part.due for part in whole.parts),
        partitions_taken=len(one.candidate.parts),
    )


def _may_start(one: Verdict, spec: CompactionPolicySpec, look: Look) -> datetime | None:
    """Return when what keeps a compaction back ends, None if that is not known. Other tables may go first even then."""
    resting = rest(look.past.get(one.candidate.table, ()), one.candidate.type, spec)
    rested = max(look.at, resting[1]) if resting else look.at
    if one.hold in (Hold.WINDOW_CLOSED, Hold.MIN_INTERVAL, Hold.BACKING_OFF):
        return open_from(spec.windows, rested)
    if one.hold is Hold.BUDGET_TOO_SMALL and one.whole.due:
        return open_from(spec.windows, max(rested, one.due_since + timedelta(seconds=spec.max_delay)))
    if one.hold is Hold.BUDGET_SPENT:
        return next_opening(spec.windows, look.at)
    return None


@dataclass(frozen=True, slots=True)
class _Looked:
    """A partition with what the look thought of it. `nearness` is its largest part of a threshold."""

    state: PartitionState
    unselected_by: str | None
    due: Due | None
    nearness: float


def _partitions(
    state: TableState, spec: CompactionPolicySpec, filters: Sequence[Filter], now: datetime
) -> PartitionsSeen:
    looked = [_looked(one, state, spec, filters, now) for one in state.partitions]
    apart = state.left_alone
    where = f"partition {apart.example}: " if apart and apart.example else ""
    return PartitionsSeen(
        mergeable=len(looked),
        selected=sum(one.unselected_by is None for one in looked),
        due=sum(one.due is not None for one in looked),
        left_alone=apart.count if apart else 0,
        left_alone_example=f"{where}{apart.message}" if apart else None,
        nearest=tuple(_numbers(one, state, spec, now) for one in heapq.nsmallest(NEAREST, looked, key=_place)),
    )


def _looked(
    one: PartitionState, table: TableState, spec: CompactionPolicySpec, filters: Sequence[Filter], now: datetime
) -> _Looked:
    values = dict(zip((key.lower() for key in table.keys), values_of(one.name), strict=True)) if filters else {}
    unwanted = unwanted_by(spec.partitions, filters, values=values, created=one.created, now=now)
    age = one.aborted_for(now)
    needed = None if unwanted else due(one.measure, table.thresholds, aborted_for=age)
    shares = (_share(check.value, check.limit) for check in checks(one.measure, table.thresholds, aborted_for=age))
    return _Looked(one, unwanted, needed, max(shares))


def _place(one: _Looked) -> tuple[bool, bool, float, str]:
    return one.due is None, one.unselected_by is not None, -one.nearness, one.state.name


def _numbers(one: _Looked, table: TableState, spec: CompactionPolicySpec, now: datetime) -> PartitionNumbers:
    measure, age = one.state.measure, one.state.aborted_for(now)
    usual = {check.threshold: check.limit for check in checks(measure, spec.thresholds, aborted_for=age)}
    numbers = (
        Number(
            threshold=check.threshold,
            value=check.value,
            limit=check.limit,
            exceeded=check.exceeded,
            from_table=check.limit != usual.get(check.threshold),
        )
        for check in checks(measure, table.thresholds, aborted_for=age)
    )
    return PartitionNumbers(
        partition=one.state.name,
        due=one.due.type if one.due else None,
        reason=one.due.reason if one.due else None,
        unselected_by=one.unselected_by,
        numbers=tuple(numbers),
    )


def _share(value: float | None, limit: float) -> float:
    """Return how near a number is to its threshold."""
    return (value or 0.0) / (limit or 1.0)
