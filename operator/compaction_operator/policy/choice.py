"""Choice: which candidates start now, and what keeps each other one back."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.model import backed_off
from compaction_operator.api.policy import CompactionPolicySpec
from compaction_operator.policy.candidates import Candidate, Part
from compaction_operator.policy.ranking import PRESSING, overdue, score

BACK_OFF_CAP = timedelta(days=1)
BUDGET_PERIOD = timedelta(hours=24)
"""What the budget is for where there are no windows: the last 24 hours."""


class Outcome(StrEnum):
    """How a compaction ended. NOTHING is a success that found nothing to merge."""

    SUCCEEDED = "Succeeded"
    NOTHING = "Nothing"
    FAILED = "Failed"


class Hold(StrEnum):
    """What keeps a table back that is due."""

    WINDOW_CLOSED = "WindowClosed"
    UNFINISHED = "UnfinishedCompaction"
    BACKING_OFF = "BackingOff"
    NOTHING_GAINED = "NothingGained"
    MIN_INTERVAL = "MinInterval"
    MAX_CONCURRENT = "MaxConcurrent"
    BUDGET_SPENT = "BudgetSpent"
    BUDGET_TOO_SMALL = "BudgetTooSmall"
    DRY_RUN = "DryRun"


@dataclass(frozen=True, slots=True)
class Past:
    """An ended compaction of a policy. `started` is when it was created, `bytes` what it was expected to read."""

    name: str
    table: str
    type: CompactionType
    started: datetime
    ended: datetime
    outcome: Outcome
    bytes: int


@dataclass(frozen=True, slots=True)
class Standing:
    """What the cluster has: ended compactions by table, oldest first, tables with an unfinished one, and the budget.

    `changed` is since when a table's write ids are the same. `used` are the bytes of the budget that are used up.
    """

    past: Mapping[str, Sequence[Past]]
    unfinished: Collection[str]
    running: int
    used: int
    window_open: bool
    changed: Mapping[str, datetime]
    due_since: Mapping[str, datetime]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A candidate with its score; it starts unless something keeps it back."""

    candidate: Candidate
    score: float
    due_since: datetime
    hold: Hold | None = None


def choose(
    candidates: Iterable[Candidate], standing: Standing, spec: CompactionPolicySpec, now: datetime
) -> list[Verdict]:
    """Return the verdict on each candidate: overdue and pressing ones first, those due longest first, then by score.

    One compaction of a table starts at a time. An overdue one may exceed the budget, but neither a window nor
    `max_concurrent`.
    """
    max_delay = timedelta(seconds=spec.max_delay)
    slots, taken = spec.max_concurrent - standing.running, set[str]()
    budget = _Budget(spec.bytes_per_window, standing.used, frees=not spec.windows)
    verdicts = []
    for ranked in _ordered(candidates, standing, spec, now):
        one = ranked
        hold = _own_hold(one.candidate, standing, spec, now) or (
            Hold.UNFINISHED if one.candidate.table in taken else None
        )
        if hold is None and slots <= 0:
            hold = Hold.MAX_CONCURRENT
        if hold is None and not overdue(one.due_since, max_delay=max_delay, now=now):
            one, hold = budget.admit(one)
        if hold is None:
            slots, budget.used = slots - 1, budget.used + one.candidate.bytes
            taken.add(one.candidate.table)
            hold = Hold.DRY_RUN if spec.dry_run else None
        verdicts.append(replace(one, hold=hold))
    return verdicts


def _ordered(
    candidates: Iterable[Candidate], standing: Standing, spec: CompactionPolicySpec, now: datetime
) -> list[Verdict]:
    found, max_delay = [], timedelta(seconds=spec.max_delay)
    for one in candidates:
        since = standing.due_since.get(one.table, now)
        found.append(Verdict(one, score(one, waited=now - since), since))
    first_after = (PRESSING if _may_press(found, spec, now) else 1.0) * max_delay

    def place(one: Verdict) -> tuple[bool, float, str, str]:
        first = now - one.due_since >= first_after
        rank = one.due_since.timestamp() if first else -one.score
        return not first, rank, one.candidate.table, one.candidate.type

    return sorted(found, key=place)


def _may_press(found: Iterable[Verdict], spec: CompactionPolicySpec, now: datetime) -> bool:
    """Whether the budget suffices to start all pressing candidates before they are overdue.

    If not, they would take it all in the order of their waiting: the scores would count for nothing, and the budget
    would be exceeded all the same.
    """
    if spec.bytes_per_window is None:
        return True
    max_delay = timedelta(seconds=spec.max_delay)
    needed = sum(one.candidate.bytes for one in found if now - one.due_since >= PRESSING * max_delay)
    return needed <= spec.bytes_per_window * ((1 - PRESSING) * max_delay / BUDGET_PERIOD)


def _own_hold(one: Candidate, standing: Standing, spec: CompactionPolicySpec, now: datetime) -> Hold | None:
    """Return what keeps a candidate back whatever the others do."""
    if one.table in standing.unfinished:
        return Hold.UNFINISHED
    if not standing.window_open:
        return Hold.WINDOW_CLOSED
    past = [earlier for earlier in standing.past.get(one.table, ()) if earlier.type is one.type]
    if not past:
        return None
    last, pause = past[-1], timedelta(seconds=spec.min_interval)
    if last.outcome is Outcome.FAILED:
        return Hold.BACKING_OFF if now < last.ended + _back_off(past, pause) else None
    if last.outcome is Outcome.NOTHING and standing.changed.get(one.table, now) <= last.started:
        return Hold.NOTHING_GAINED
    return Hold.MIN_INTERVAL if now < last.ended + pause else None


def _back_off(past: Sequence[Past], pause: timedelta) -> timedelta:
    """Return the pause after failures in a row: it doubles with each, up to a day, or `min_interval` if longer."""
    failures = 0
    for one in reversed(past):
        if one.outcome is not Outcome.FAILED:
            break
        failures += 1
    base = max(pause, timedelta(minutes=1)).total_seconds()
    return timedelta(seconds=backed_off(base, failures, cap=max(BACK_OFF_CAP.total_seconds(), base)))


@dataclass
class _Budget:
    """The budget while verdicts are made, without limit if that is None.

    `frees` is whether bytes become free one by one, as they do without windows. Then what needs more than is left is
    `saved` for: all others wait, too. Otherwise small ones would use up each byte, and a large one would never start.
    A window begins with the whole budget, so there the rest goes to those that fit.
    """

    limit: int | None
    used: int
    frees: bool
    saved: bool = False

    def admit(self, one: Verdict) -> tuple[Verdict, Hold | None]:
        """Return a verdict on as many of a candidate's partitions as fit into what is left."""
        if self.limit is None:
            return one, None
        possible = [part for part in one.candidate.parts if part.bytes <= self.limit]
        if not possible:
            return one, Hold.BUDGET_TOO_SMALL
        parts = tuple(self._fitting(possible, self.limit - self.used))
        self.saved = self.saved or (self.frees and len(parts) < len(possible))
        if not parts:
            return one, Hold.BUDGET_SPENT
        return replace(one, candidate=replace(one.candidate, parts=parts)), None

    def _fitting(self, parts: Iterable[Part], left: int) -> Iterator[Part]:
        for part in parts:
            if self.saved or (self.frees and part.bytes > left):
                return
            if part.bytes <= left:
                left -= part.bytes
                yield part
