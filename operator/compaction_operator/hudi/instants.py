"""Decisions about the instants that a run finds on a Hudi table's timeline. Nothing here touches the timeline."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

OWNER_KEY = "compaction.dev/compaction"
"""Key in the extra metadata of each plan by this operator: `<namespace>/<uid>/<attempt>` of the TableCompaction."""

SEEN_KEY = "compaction.dev/seen"
"""Key in the same metadata of a log compaction: the delta commits on the timeline at planning, joined by commas."""


class Action(StrEnum):
    """Relevant actions on the timeline, by their names while they are pending. `Timeline.instants` has no cleans."""

    LOG_COMPACTION = "logcompaction"
    COMPACTION = "compaction"
    CLUSTERING = "clustering"
    DELTA_COMMIT = "deltacommit"
    CLEAN = "clean"


class State(StrEnum):
    """State of an instant: HoodieInstant.State."""

    REQUESTED = "REQUESTED"
    INFLIGHT = "INFLIGHT"
    COMPLETED = "COMPLETED"


@dataclass(frozen=True)
class Instant:
    """An instant on the timeline: its requested time, action, state, and the owner of its plan (as in OWNER_KEY).

    NB: a completed compaction is still a `compaction` here. Hudi's timeline calls it a `commit`.
    """

    time: str
    action: Action
    state: State
    owner: str | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the instant is not completed."""
        return self.state is not State.COMPLETED

    @property
    def is_dead(self) -> bool:
        """Whether this is an inflight log compaction: its driver has died, and no driver ever resumes it."""
        return self.action is Action.LOG_COMPACTION and self.state is State.INFLIGHT

    def __str__(self) -> str:
        return f"{self.time}.{self.action}.{self.state.lower()}"


@dataclass(frozen=True)
class Todo:
    """Steps before a new plan, in this order. `left` are pending instants of other clients: reported, never touched."""

    roll_back: tuple[Instant, ...] = ()
    remove: tuple[Instant, ...] = ()
    run: tuple[Instant, ...] = ()
    left: tuple[Instant, ...] = ()


def decide(
    instants: Iterable[Instant],
    *,
    action: Action,
    namespace: str,
    all_instants: bool,
    newest_only: bool,
    may_merge: bool = True,
) -> Todo:
    """Return what a run of an action does with the instants on the timeline.

    An inflight log compaction is rolled back, never resumed. The plan of a log compaction that a later compaction made
    impossible is removed. Other pending plans of the run's own action are executed as they are
    (BaseHoodieTableServiceClient).

    Only plans by this operator for this namespace count, because the table's lease is valid in one namespace. With
    `all_instants` the plans of other clients count too. NB: with `newest_only` (`best_run`) log compactions of other
    clients are removed, never executed: it is unknown which writers were active when they were planned. Where the table
    may have no log compactions (not `may_merge`), the plan of one would keep compactions waiting, so it is removed.
    """
    found = sorted(instants, key=lambda instant: instant.time)
    pending = [instant for instant in found if instant.is_pending and instant.action is not Action.DELTA_COMMIT]
    own = [instant for instant in pending if is_own(instant, namespace)]
    ours = [one for one in pending if one in own or (all_instants and one.action is not Action.CLUSTERING)]
    roll_back = tuple(instant for instant in ours if instant.is_dead)
    plans = [one for one in ours if one.action is Action.LOG_COMPACTION and not one.is_dead]
    useless = stale(found) if may_merge else plans
    remove = tuple(one for one in plans if one in useless or (newest_only and one not in own))
    return Todo(
        roll_back=roll_back,
        remove=remove,
        run=tuple(one for one in ours if one.action is action and one not in roll_back and one not in remove),
        left=tuple(instant for instant in pending if instant not in ours),
    )


def is_own(instant: Instant, of: str) -> bool:
    """Whether this operator planned the instant for a TableCompaction: `of` is `<namespace>` or `<namespace>/<uid>`."""
    return (instant.owner or "").startswith(f"{of}/")


def stale(instants: Iterable[Instant]) -> tuple[Instant, ...]:
    """Return the plans of log compactions that can never run, because a later compaction is on the timeline.

    NB: the file groups do not matter. Hudi checks the whole table (LogCompaction's check of a "greater timestamp").
    """
    found = list(instants)
    newest = max((instant.time for instant in found if instant.action is Action.COMPACTION), default="")
    plans = (one for one in found if one.action is Action.LOG_COMPACTION and one.state is State.REQUESTED)
    return tuple(plan for plan in plans if plan.time < newest)


def late(instants: Iterable[Instant], *, before: str | None, seen: Collection[str]) -> tuple[Instant, ...]:
    """Return the delta commits older than `before` that were not on the timeline when a log compaction was planned.

    NB: a reader that replays a merged block at its own instant would put it over these writers' blocks. With `before`
    None all unseen delta commits count: before table version 8, readers order log files by number, not by instant.
    """
    found = (one for one in instants if one.action is Action.DELTA_COMMIT and one.time not in seen)
    return tuple(one for one in found if before is None or one.time < before)
