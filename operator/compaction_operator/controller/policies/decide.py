"""The decision of one policy after a look: which compactions start, and which old ones are deleted. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from compaction_operator.api.policy import CompactionPolicySpec, CompactionPolicyStatus, Partitions, Strategy
from compaction_operator.controller.kube.times import parse_time
from compaction_operator.controller.policies.standing import Known
from compaction_operator.policy.candidates import Candidate, candidates_of, key_problem
from compaction_operator.policy.choice import Past, Standing, Verdict, choose, is_paced
from compaction_operator.policy.history import expired
from compaction_operator.policy.memory import Memory, Problem, TableState
from compaction_operator.policy.pace import PERIOD, ahead_of_pace
from compaction_operator.policy.partitions import Filter, FilterError, parse_filter
from compaction_operator.policy.ranking import pressing
from compaction_operator.policy.windows import UnknownTimeZoneError, next_opening, opened


@dataclass(frozen=True)
class Hours:
    """Whether compactions may start now, when a closed window opens, and since when the budget counts."""

    open: bool
    opens: datetime | None
    budget_since: datetime


@dataclass(frozen=True)
class Plan:
    """What a policy decides: a verdict for each candidate in their order, and the compactions to delete.

    `problems` are why tables that the globs select are left alone, by table.
    """

    verdicts: Sequence[Verdict]
    expired: Sequence[Past]
    problems: Mapping[str, Problem]
    due_since: Mapping[str, datetime]
    used: int

    @property
    def starting(self) -> list[Verdict]:
        """The verdicts on the compactions to create."""
        return [one for one in self.verdicts if one.hold is None]


def hours(spec: CompactionPolicySpec, now: datetime) -> Hours:
    """Return the hours of a policy. Raises UnknownTimeZoneError."""
    if not spec.windows:
        return Hours(open=True, opens=None, budget_since=now - PERIOD)
    since = opened(spec.windows, now)
    return Hours(open=since is not None, opens=next_opening(spec.windows, now), budget_since=since or now - PERIOD)


def cannot_work(spec: CompactionPolicySpec, now: datetime) -> tuple[str, str] | None:
    """Return why a policy can never start anything, whatever its tables: a word and a sentence; None if it can."""
    try:
        when = hours(spec, now)
        filters_of(spec)
    except UnknownTimeZoneError as error:
        return "UnknownTimeZone", str(error)
    except FilterError as error:
        return "InvalidFilter", str(error)
    if not when.open and when.opens is None:
        return "NeverOpens", "windows: none of them opens in the next 8 days"
    if spec.strategy is Strategy.GAIN and spec.bytes_per_window is None:
        return "NoBudget", "strategy Gain spends bytesPerWindow, which is not set"
    if _is_empty(spec.partitions):
        return "NothingSelected", "partitions: minAge is above maxAge, so that no partition is ever selected"
    return None


def _is_empty(partitions: Partitions) -> bool:
    low, high = partitions.min_age, partitions.max_age
    return low is not None and high is not None and low > high


def filters_of(spec: CompactionPolicySpec) -> tuple[Filter, ...]:
    """Return the parsed partition filters. Raises FilterError."""
    return tuple(map(parse_filter, spec.partitions.filters))


def plan(
    spec: CompactionPolicySpec,
    memory: Memory,
    known: Known,
    *,
    created: Collection[str],
    when: Hours,
    now: datetime,
) -> Plan:
    """Return the decision. `created` are tables with a compaction that the watch has not brought yet."""
    filters = filters_of(spec)
    states = memory.tables.values()
    candidates = [one for state in states for one in _candidates(state, spec, filters, memory, now)]
    since = _due_since(candidates, memory, known, now)
    used = known.used(when.budget_since)
    standing = Standing(
        past=known.past,
        unfinished=known.unfinished.union(created),
        running=known.running + len(created),
        used=used,
        window_open=when.open,
        changed={state.name: state.changed for state in states},
        due_since=since,
        databases=known.of_databases(created, when.budget_since),
        ahead=ahead_of_pace(known.starts(), budget=spec.bytes_per_window or 0, now=now) if is_paced(spec) else 0.0,
    )
    ended = [one for past in known.past.values() for one in past]
    return Plan(
        verdicts=choose(candidates, standing, spec, now),
        expired=expired(ended, spec, budget_since=when.budget_since, now=now),
        problems=_problems(memory, filters),
        due_since=since,
        used=used,
    )


def _candidates(
    state: TableState, spec: CompactionPolicySpec, filters: Sequence[Filter], memory: Memory, now: datetime
) -> tuple[Candidate, ...]:
    since, max_delay = memory.due_since.get(state.name, now), timedelta(seconds=spec.max_delay)
    late = pressing(since, max_delay=max_delay, now=now)
    return candidates_of(state, spec.partitions, filters, now, strategy=spec.strategy, late=late)


def restored(status: CompactionPolicyStatus) -> dict[str, datetime]:
    """Return since when tables are due, as far as a status says so: a restart does not begin their wait again."""
    return {one.table: parse_time(one.due_since) for one in status.next}


def _problems(memory: Memory, filters: Sequence[Filter]) -> dict[str, Problem]:
    found = ((state.name, state.problem or key_problem(state, filters)) for state in memory.tables.values())
    return {name: problem for name, problem in found if problem is not None}


def _due_since(candidates: Sequence[Candidate], memory: Memory, known: Known, now: datetime) -> dict[str, datetime]:
    """Return since when each candidate's table is due; a compaction that ended meanwhile begins the wait again.

    A table that was due and could not be read since keeps its time.
    """
    earlier = {table: since for table, since in memory.due_since.items() if memory.lacks(table)}
    earlier |= {one.table: memory.due_since.get(one.table, now) for one in candidates if one.due}
    return {table: max(since, known.ended.get(table, since)) for table, since in earlier.items()}
