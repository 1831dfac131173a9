"""Choice: which candidates start now, and what keeps each other one back."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.model import backed_off
from compaction_operator.api.policy import CompactionPolicySpec, Strategy
from compaction_operator.policy.candidates import Candidate, Part
from compaction_operator.policy.ranking import pressing, score

SHORTEST = timedelta(minutes=10)
"""The pause after the first failure, unless `min_interval` is longer."""
BACK_OFF_CAP = timedelta(days=1)
"""The longest pause after failures, unless `min_interval` is longer."""
CHEAP_CAP = timedelta(hours=2)
"""By gain, that of what is small beside the budget: the others go before it as well, as failures make it cost more."""
LOST = 1 / 12
"""Share of the budget whose failures pause for up to a day by gain: the failing attempts of small ones take less."""
CORE_HOUR = 3_600_000
"""CPU milliseconds."""
DEFAULT_RATE = 50 / 2**20
"""CPU milliseconds for a byte, until a compaction of the type has ended. The engine needs less for most tables."""


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
    DATABASE_SHARE = "DatabaseShare"
    BUDGET_SPENT = "BudgetSpent"
    BUDGET_PACED = "BudgetPaced"
    FIRST_LOOK = "FirstLook"
    BUDGET_TOO_SMALL = "BudgetTooSmall"
    DRY_RUN = "DryRun"


MEANING = {
    Hold.WINDOW_CLOSED: "no window is open",
    Hold.UNFINISHED: "a compaction of the table has not ended, or another type goes first",
    Hold.BACKING_OFF: "the last compaction failed; the pause doubles with each failure",
    Hold.NOTHING_GAINED: "the last compaction found nothing to merge, and no write or option has changed since",
    Hold.MIN_INTERVAL: "minInterval since the last compaction is not over",
    Hold.MAX_CONCURRENT: "maxConcurrent compactions run already",
    Hold.DATABASE_SHARE: "its database has its databaseShare of maxConcurrent, bytesPerWindow or coreHoursPerWindow",
    Hold.BUDGET_SPENT: "what is left of bytesPerWindow or coreHoursPerWindow is too little",
    Hold.BUDGET_PACED: "by gain, bytesPerWindow is spread over 24 hours; the next bytes come soon",
    Hold.FIRST_LOOK: "by gain, all tables are read once before the best of them start; this takes an hour at most",
    Hold.BUDGET_TOO_SMALL: "each partition exceeds a budget, or databaseShare of it; what is due starts after maxDelay",
    Hold.DRY_RUN: "dryRun is set",
}
"""Each hold as a sentence for people."""


@dataclass(frozen=True, slots=True)
class Past:
    """An ended compaction of a policy.

    `started` is when it was created, `bytes` what it was expected to read. `failures` of the same table and type failed
    in a row before it: they may not be kept any more. `partitions` are the specs of its partitions, empty for all.
    `seen` is that of the `Candidate` with which it was decided on, empty if that is not known.
    """

    name: str
    table: str
    type: CompactionType
    started: datetime
    ended: datetime
    outcome: Outcome
    bytes: int
    failures: int = 0
    partitions: Collection[str] = ()
    seen: str = ""

    def covers(self, spec: str) -> bool:
        """Whether it was to compact a partition, by the spec that the policy has for it."""
        return not self.partitions or spec in self.partitions


@dataclass(frozen=True, slots=True)
class Usage:
    """How many compactions have not ended, and the bytes and CPU milliseconds of the budgets that are used up."""

    running: int = 0
    bytes: int = 0
    cpu: int = 0


class Amount(NamedTuple):
    """Bytes and CPU milliseconds: what a compaction takes, or a budget has."""

    bytes: float
    cpu: float

    def fits(self, left: "Amount") -> bool:
        """Whether there is so much left of both."""
        return self.bytes <= left.bytes and self.cpu <= left.cpu

    def without(self, taken: "Amount") -> "Amount":
        """Return what is left of it after something was taken."""
        return Amount(self.bytes - taken.bytes, self.cpu - taken.cpu)


@dataclass(frozen=True, slots=True)
class Standing:
    """What the cluster has: ended compactions by table, oldest first, tables with an unfinished one, and the budget.

    `used` are the bytes of the budget that are used up, and `used_cpu` the CPU milliseconds.
    `databases` says of each database what it has of these and of `running`. `rates` are the CPU milliseconds for a byte
    that compactions of a type took. `ahead` are the bytes that have been started ahead of an even pace.
    `incomplete` is whether tables are still unknown that may be better than all that are known.
    """

    past: Mapping[str, Sequence[Past]]
    unfinished: Collection[str]
    running: int
    used: int
    window_open: bool
    databases: Mapping[str, Usage] = field(default_factory=dict)
    used_cpu: int = 0
    rates: Mapping[CompactionType, float] = field(default_factory=dict)
    ahead: float = 0.0
    incomplete: bool = False

    def cpu_of(self, candidate: Candidate) -> int:
        """Return the CPU milliseconds that a candidate's compaction is expected to take."""
        return round(sum(self._cpu(candidate.type, part) for part in candidate.parts))

    def amount_of(self, type_: CompactionType, part: Part) -> Amount:
        """Return what the compaction of a partition is expected to take of the budgets."""
        return Amount(part.bytes, self._cpu(type_, part))

    def _cpu(self, type_: CompactionType, part: Part) -> float:
        """Return the CPU milliseconds that a partition is expected to take."""
        return part.cpu_at(self.rates.get(type_, DEFAULT_RATE)) if part.cpu is None else part.cpu


@dataclass(frozen=True, slots=True)
class Verdict:
    """A candidate with its score; it starts unless something keeps it back.

    `whole` is the candidate that the score is about. `candidate` has those of its partitions that the budget allows.
    """

    candidate: Candidate
    whole: Candidate
    score: float
    due_since: datetime
    hold: Hold | None = None


def choose(
    candidates: Iterable[Candidate], standing: Standing, spec: CompactionPolicySpec, now: datetime
) -> list[Verdict]:
    """Return the verdict on each candidate: the pressing ones first, those due longest first, then by score.

    One compaction of a table starts at a time. Its overdue partitions may exceed the budget, but neither a window nor
    `max_concurrent`.
    """
    max_delay, taken, verdicts = timedelta(seconds=spec.max_delay), set[str](), list[Verdict]()
    used = Usage(standing.running, standing.used, standing.used_cpu)
    total, shares = _Room.of(spec, used, percent=100), dict[str, _Room]()
    total.ahead = standing.ahead if is_paced(spec) else None
    for ranked in _ordered(candidates, max_delay, now):
        one, database = ranked, database_of(ranked.candidate.table)
        used = standing.databases.get(database, Usage())
        share = shares.setdefault(database, _Room.of(spec, used, percent=spec.database_share))
        hold = _own_hold(one.candidate, standing, spec, now) or (
            Hold.UNFINISHED if one.candidate.table in taken else None
        )
        if hold is None and standing.incomplete and not pressing(one.due_since, max_delay=max_delay, now=now):
            hold = Hold.FIRST_LOOK
        if hold is None:
            amount_of = partial(standing.amount_of, one.candidate.type)
            one, hold = _admitted(one, total, share, late=now - max_delay, amount_of=amount_of)
        if hold is None:
            taking = Amount(one.candidate.bytes, standing.cpu_of(one.candidate))
            total.take(taking)
            share.take(taking)
            taken.add(one.candidate.table)
            hold = Hold.DRY_RUN if spec.dry_run else None
        verdicts.append(Verdict(one.candidate, one.whole, one.score, one.due_since, hold))
    return verdicts


def database_of(table: str) -> str:
    """Return the database of a table's full name."""
    return table.partition(".")[0]


_NONE = Amount(-math.inf, -math.inf)


@dataclass
class _Room:
    """What a policy, or one database of it, has left: slots, and of the budgets, which are infinite if there are none.

    `ahead` are the bytes ahead of an even pace, None without one. Then the budget is `saving` for what comes first and
    does not fit yet: small ones would use up each byte that becomes free, and a large one would never start.
    """

    slots: int
    whole: Amount
    left: Amount
    ahead: float | None = None
    saving: bool = False

    @classmethod
    def of(cls, spec: CompactionPolicySpec, used: Usage, *, percent: int) -> "_Room":
        size, hours = spec.bytes_per_window, spec.core_hours_per_window
        whole = Amount(
            math.inf if size is None else size * percent // 100,
            math.inf if hours is None else hours * CORE_HOUR * percent // 100,
        )
        slots = max(1, spec.max_concurrent * percent // 100) - used.running
        return cls(slots, whole, whole.without(Amount(used.bytes, used.cpu)))

    def is_less_than(self, other: "_Room") -> bool:
        """Whether less is left of a budget here than there."""
        return not other.left.fits(self.left)

    def take(self, amount: Amount) -> None:
        """Use up a slot, and a part of the budgets."""
        self.slots -= 1
        self.left = self.left.without(amount)
        if self.ahead is not None:
            self.ahead += amount.bytes


def is_paced(spec: CompactionPolicySpec) -> bool:
    """Whether a policy spreads its budget evenly over time.

    By gain there is always something that readers gain from: at once, the budget would go to what is loose by chance,
    and nothing would be left for what is written during the next 24 hours. A window has its own end.
    """
    return spec.strategy is Strategy.GAIN and spec.bytes_per_window is not None and not spec.windows


def _admitted(
    one: Verdict, total: _Room, share: _Room, *, late: datetime, amount_of: Callable[[Part], Amount]
) -> tuple[Verdict, Hold | None]:
    """Return a verdict on what there is room for, and what keeps it back if there is none.

    What is due since `late` or earlier may exceed the budgets and the pace. `amount_of` is what a partition takes.
    """
    if total.slots <= 0 or share.slots <= 0:
        return one, Hold.MAX_CONCURRENT if total.slots <= 0 else Hold.DATABASE_SHARE
    parts = one.candidate.parts
    if all(part.due_since > late and not amount_of(part).fits(share.whole) for part in parts):
        return one, Hold.BUDGET_TOO_SMALL
    waits = total.saving or (total.ahead or 0) > 0
    left = [_NONE] if waits else [total.left, share.left]
    if taken := tuple(_within(parts, amount_of, left, late)):
        return replace(one, candidate=replace(one.candidate, parts=taken)), None
    if waits:
        return one, Hold.BUDGET_SPENT if total.saving else Hold.BUDGET_PACED
    hold = Hold.DATABASE_SHARE if share.is_less_than(total) else Hold.BUDGET_SPENT
    total.saving = total.ahead is not None and hold is Hold.BUDGET_SPENT
    return one, hold


def _ordered(candidates: Iterable[Candidate], max_delay: timedelta, now: datetime) -> list[Verdict]:
    found = []
    for one in candidates:
        found.append(Verdict(one, one, score(one).value, one.due_longest.due_since))

    def place(one: Verdict) -> tuple[bool, float, str, str]:
        late = pressing(one.due_since, max_delay=max_delay, now=now)
        rank = one.due_since.timestamp() if late else -one.score
        return not late, rank, one.candidate.table, one.candidate.type

    return sorted(found, key=place)


def _own_hold(one: Candidate, standing: Standing, spec: CompactionPolicySpec, now: datetime) -> Hold | None:
    """Return what keeps a candidate back whatever the others do."""
    if one.table in standing.unfinished:
        return Hold.UNFINISHED
    if not standing.window_open:
        return Hold.WINDOW_CLOSED
    past = standing.past.get(one.table, ())
    resting = rest(past, one.type, spec)
    if resting is None:
        return None
    if all(fruitless(past, one, part) for part in one.parts):
        return Hold.NOTHING_GAINED
    hold, until = resting
    return hold if now < until else None


def untried(candidate: Candidate, past: Sequence[Past]) -> Iterator[Candidate]:
    """Yield a candidate without the partitions whose last compaction found nothing to merge, and one with these alone.

    Nothing that decides has changed since: only the others can gain. Both know how often such compactions failed.
    `past` is as for `rest`.
    """
    failed = failures(past, candidate.type)
    nothing = {part.spec for part in candidate.parts if fruitless(past, candidate, part)}
    for tried in (False, True):
        if parts := tuple(part for part in candidate.parts if (part.spec in nothing) is tried):
            yield replace(candidate, parts=parts, failures=failed)


def fruitless(past: Sequence[Past], of: Candidate, part: Part) -> Past | None:
    """Return a partition's last compaction if it found nothing to merge, and another one would find the same."""
    same = (one for one in reversed(past) if one.type is of.type and one.covers(part.spec))
    last = next(same, None)
    known = last is not None and last.outcome is Outcome.NOTHING and last.seen != "" and last.seen == of.seen
    return last if known else None


def rest(past: Sequence[Past], type_: CompactionType, spec: CompactionPolicySpec) -> tuple[Hold, datetime] | None:
    """Return until when a table rests after its last compaction of a type, and why; None if it had none.

    `past` are the table's ended compactions, oldest first.
    """
    same = _of_type(past, type_)
    if not same:
        return None
    last, pause = same[-1], timedelta(seconds=spec.min_interval)
    if last.outcome is Outcome.FAILED:
        return Hold.BACKING_OFF, last.ended + _back_off(failures(past, type_), pause, cap=_longest(last, spec))
    return Hold.MIN_INTERVAL, last.ended + pause


def failures(past: Sequence[Past], type_: CompactionType) -> int:
    """Return how many of a table's compactions of a type failed in a row up to now. `past` is as for `rest`."""
    streak = [*takewhile(lambda one: one.outcome is Outcome.FAILED, reversed(_of_type(past, type_)))]
    return len(streak) + streak[-1].failures if streak else 0


def waits_since(past: Iterable[Past], spec: str, since: datetime) -> datetime:
    """Return since when a partition waits that is due since some time: a compaction of it begins the wait again."""
    return max([since, *(one.ended for one in past if one.ended > since and one.covers(spec))])


def _of_type(past: Sequence[Past], type_: CompactionType) -> list[Past]:
    return [one for one in past if one.type is type_]


def _back_off(failures: int, pause: timedelta, *, cap: timedelta) -> timedelta:
    """Return the pause after failures in a row: it doubles with each, up to `cap`, or `min_interval` if longer."""
    base = max(pause, SHORTEST).total_seconds()
    return timedelta(seconds=backed_off(base, failures, cap=max(cap.total_seconds(), base)))


def _longest(failed: Past, spec: CompactionPolicySpec) -> timedelta:
    """Return the longest pause after a failure: by gain, the time in which the budget pays for it `1 / LOST` times."""
    if spec.strategy is not Strategy.GAIN or not spec.bytes_per_window:
        return BACK_OFF_CAP
    return max(CHEAP_CAP, BACK_OFF_CAP * min(1.0, failed.bytes / (LOST * spec.bytes_per_window)))


def _within(
    parts: Iterable[Part], amount_of: Callable[[Part], Amount], left: Sequence[Amount], late: datetime
) -> Iterator[Part]:
    """Yield the partitions that fit into what is left of all, and those that are due since `late` or earlier."""
    for part in parts:
        amount = amount_of(part)
        if part.due_since <= late or all(amount.fits(one) for one in left):
            left = [one.without(amount) for one in left]
            yield part
