"""What is to be done with the instants that a run finds on a Hudi table's timeline, decided without touching it."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

OWNER_KEY = "compaction.dev/compaction"
"""In the extra metadata of each plan that this operator makes: `<namespace>/<uid>/<attempt>` of the TableCompaction."""

SEEN_KEY = "compaction.dev/seen"
"""Also there, of a log compaction: the delta commits that the timeline had when it was planned, joined by commas."""


class Action(StrEnum):
    """Actions on the timeline that matter here, as they are while they are pending."""

    LOG_COMPACTION = "logcompaction"
    COMPACTION = "compaction"
    CLUSTERING = "clustering"
    DELTA_COMMIT = "deltacommit"


class State(StrEnum):
    """Where an instant is: HoodieInstant.State."""

    REQUESTED = "REQUESTED"
    INFLIGHT = "INFLIGHT"
    COMPLETED = "COMPLETED"


@dataclass(frozen=True)
class Instant:
    """An instant: when it was requested, what it does, where it is, and whose plan it is (as in OWNER_KEY).

    NB: a compaction is a `compaction` here also when it is completed, where Hudi's timeline has a `commit`.
    """

    time: str
    action: Action
    state: State
    owner: str | None = None

    @property
    def is_pending(self) -> bool:
        """Whether it is not completed."""
        return self.state is not State.COMPLETED

    @property
    def is_dead(self) -> bool:
        """Whether it is a log compaction that had begun: whoever did is gone, and nobody goes on with it."""
        return self.action is Action.LOG_COMPACTION and self.state is State.INFLIGHT

    def __str__(self) -> str:
        return f"{self.time}.{self.action}.{self.state.lower()}"


@dataclass(frozen=True)
class Todo:
    """What comes before a new plan, in this order; `left` are pending ones of others, named and not touched."""

    roll_back: tuple[Instant, ...] = ()
    remove: tuple[Instant, ...] = ()
    run: tuple[Instant, ...] = ()
    left: tuple[Instant, ...] = ()


def decide(
    instants: Iterable[Instant], *, action: Action, namespace: str, all_instants: bool, newest_only: bool
) -> Todo:
    """Return what a run of that action does with what is on the timeline.

    A log compaction that had begun is rolled back, never resumed; a plan of one that a later compaction made
    impossible is removed; what is left of the run's own action is run as it is (BaseHoodieTableServiceClient).

    Only plans of this operator and namespace count, as the table's lease is one of the namespace; with `all_instants`
    also those of others. NB: with `newest_only` (`best_run`) no log compaction of others is run but removed: nobody
    knows beside which writers it was planned.
    """
    found = sorted(instants, key=lambda instant: instant.time)
    services = [instant for instant in found if instant.action is not Action.DELTA_COMMIT]
    pending = [instant for instant in services if instant.is_pending]
    own = [instant for instant in pending if is_own(instant, namespace)]
    ours = [one for one in pending if one in own or (all_instants and one.action is not Action.CLUSTERING)]
    roll_back = tuple(instant for instant in ours if instant.is_dead)
    plans = [one for one in ours if one.action is Action.LOG_COMPACTION and not one.is_dead]
    remove = tuple(one for one in plans if one in stale(found) or (newest_only and one not in own))
    return Todo(
        roll_back=roll_back,
        remove=remove,
        run=tuple(one for one in ours if one.action is action and one not in roll_back and one not in remove),
        left=tuple(instant for instant in pending if instant not in ours),
    )


def is_own(instant: Instant, namespace: str) -> bool:
    """Whether this operator planned it, for a TableCompaction of that namespace."""
    return (instant.owner or "").startswith(f"{namespace}/")


def stale(instants: Iterable[Instant]) -> tuple[Instant, ...]:
    """Return the plans of log compactions that can never run: a later compaction is on the timeline.

    NB: of whatever file groups; Hudi looks at the whole table (LogCompaction's check of a "greater timestamp").
    """
    found = list(instants)
    newest = max((instant.time for instant in found if instant.action is Action.COMPACTION), default="")
    plans = (one for one in found if one.action is Action.LOG_COMPACTION and one.state is State.REQUESTED)
    return tuple(plan for plan in plans if plan.time < newest)


def late(instants: Iterable[Instant], *, before: str | None, seen: Collection[str]) -> tuple[Instant, ...]:
    """Return the delta commits that were not seen when a log compaction was planned, of instants `before` its own.

    NB: a reader that replays a merged block at its own instant would put it over these writers' blocks. With `before`
    None all count: before table version 8 log files are read in the order of their numbers, whatever their instants.
    """
    found = (one for one in instants if one.action is Action.DELTA_COMMIT and one.time not in seen)
    return tuple(one for one in found if before is None or one.time < before)
