"""The decision of one policy after a look: which compactions start, and which old ones are deleted. Pure."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.policy import CompactionPolicySpec, CompactionPolicyStatus, Partitions, Strategy
from compaction_operator.controller.kube.times import known_time
from compaction_operator.controller.policies.standing import Created, Known
from compaction_operator.policy.candidates import PRESSING, Candidate, candidates_of, key_problem, startable
from compaction_operator.policy.choice import (
    DEFAULT_RATE,
    Outcome,
    Past,
    Standing,
    Usage,
    Verdict,
    choose,
    fruitless,
    is_paced,
    untried,
    waits_since,
)
from compaction_operator.policy.history import expired
from compaction_operator.policy.memory import Memory, Problem
from compaction_operator.policy.pace import PERIOD, ahead_of_pace
from compaction_operator.policy.partitions import Filter, FilterError, parse_filter
from compaction_operator.policy.windows import UnknownTimeZoneError, next_opening, opened

FIRST_LOOK = timedelta(hours=1)
"""For how long after its first look a policy by gain waits at most until it has read all tables: the first ones could
take the budget."""


@dataclass(frozen=True)
class Hours:
    """Whether compactions may start now, when a closed window opens, and since when the budget counts."""

    open: bool
    opens: datetime | None
    budget_since: datetime


@dataclass(frozen=True)
class Plan:
    """What a policy decides: a verdict for each candidate in their order, and the compactions to delete.

    `problems` are why tables that the globs select are left alone, by table. `due_since` is that of `Memory`, and
    `standing` what was decided on.
    """

    verdicts: Sequence[Verdict]
    expired: Sequence[Past]
    problems: Mapping[str, Problem]
    due_since: Mapping[str, Mapping[str, datetime]]
    standing: Standing

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
    created: Collection[Created],
    when: Hours,
    now: datetime,
) -> Plan:
    """Return the decision. `created` are compactions that the watch has not brought yet."""
    filters = filters_of(spec)
    waits = _waits(memory, known)
    found = _candidates(memory, spec, known, waits, now)
    tried = (half for one in found for half in untried(one, known.past.get(one.table, ())))
    databases = known.of_databases(created, when.budget_since)
    used = Usage(
        known.running + len(created),
        sum(one.bytes for one in databases.values()),
        sum(one.cpu for one in databases.values()),
    )
    starts = [*known.starts(), *((one.at, one.bytes) for one in created)]
    standing = Standing(
        past=known.past,
        unfinished=known.unfinished.union(one.table for one in created),
        running=used.running,
        used=used.bytes,
        used_cpu=used.cpu,
        rates=known.rates,
        window_open=when.open,
        incomplete=spec.strategy is Strategy.GAIN and memory.is_new and now - (memory.began or now) < FIRST_LOOK,
        databases=databases,
        ahead=ahead_of_pace(starts, budget=spec.bytes_per_window or 0, now=now) if is_paced(spec) else 0.0,
    )
    late = _late(spec, now)
    ended = [one for past in known.past.values() for one in past]
    needed = _fruitless(found, memory, known)
    return Plan(
        verdicts=choose((startable(one, strategy=spec.strategy, late=late) for one in tried), standing, spec, now),
        expired=expired(ended, spec, fruitless=needed, budget_since=when.budget_since, now=now),
        problems=_problems(memory, filters),
        due_since=_due_since(found, memory, waits),
        standing=standing,
    )


def _fruitless(candidates: Sequence[Candidate], memory: Memory, known: Known) -> set[str]:
    """Return the compactions that found nothing to merge, as far as they keep back what is known to have something.

    Of a table that is not read to the end, all of them: what they keep back is not known yet.
    """
    found = ((fruitless(known.past.get(one.table, ()), one, part) for part in one.parts) for one in candidates)
    names = {past.name for some in found for past in some if past is not None}
    unknown = (past for table, past in known.past.items() if memory.lacks(table))
    return names.union(one.name for past in unknown for one in past if one.outcome is Outcome.NOTHING)


def _candidates(
    memory: Memory,
    spec: CompactionPolicySpec,
    known: Known,
    waits: Mapping[str, Mapping[str, datetime]],
    now: datetime,
) -> list[Candidate]:
    filters, late, rates = filters_of(spec), _late(spec, now), _rates(spec, known)
    budget = math.inf if spec.bytes_per_window is None else spec.bytes_per_window
    found = list[Candidate]()
    for state in memory.tables.values():
        found += candidates_of(
            state,
            spec.partitions,
            filters,
            now,
            strategy=spec.strategy,
            due_since=waits.get(state.name, {}),
            late=late,
            budget=budget,
            outlooks=memory.outlooks,
            rates=rates,
        )
    return found


def _rates(spec: CompactionPolicySpec, known: Known) -> dict[CompactionType, float] | None:
    """Return the CPU milliseconds for a byte by type, None if no budget limits the CPU time: the bytes cost, then."""
    if spec.core_hours_per_window is None:
        return None
    return dict.fromkeys(CompactionType, DEFAULT_RATE) | known.rates


def _late(spec: CompactionPolicySpec, now: datetime) -> datetime:
    """Return since when a partition has to be due to press."""
    return now - PRESSING * timedelta(seconds=spec.max_delay)


def restored(status: CompactionPolicyStatus) -> dict[str, dict[str, datetime]]:
    """Return since when partitions are due, as far as a status says so: their wait goes on after a restart."""
    found: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
    for one in status.next:
        if one.due and (since := known_time(one.due_since)):
            found[one.table][one.due_longest] = since
    return dict(found)


def _problems(memory: Memory, filters: Sequence[Filter]) -> dict[str, Problem]:
    found = ((state.name, state.problem or key_problem(state, filters)) for state in memory.tables.values())
    return {name: problem for name, problem in found if problem is not None}


def _waits(memory: Memory, known: Known) -> dict[str, dict[str, datetime]]:
    """Return since when the partitions wait that were due at the last look."""
    return {
        table: {spec: waits_since(known.past.get(table, ()), spec, since) for spec, since in parts.items()}
        for table, parts in memory.due_since.items()
    }


def _due_since(
    candidates: Sequence[Candidate], memory: Memory, waits: Mapping[str, Mapping[str, datetime]]
) -> dict[str, dict[str, datetime]]:
    """Return since when partitions are due. Those of a table that could not be read keep their time."""
    found: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
    for one in candidates:
        found[one.table].update((part.spec, part.due_since) for part in one.parts if part.due)
    return {table: dict(parts) for table, parts in waits.items() if memory.lacks(table)} | found
