"""What one decision about a cleanup is made of: what was seen, what is to be done, and the status in between."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from compaction_operator.api.cleanup import (
    CleanupPhase,
    CompactionCleanupStatus,
    PartitionEntry,
    PublishedState,
    ReaderBaseline,
)
from compaction_operator.api.conditions import SUCCEEDED, ConditionStatus
from compaction_operator.api.config import CleanupSettings
from compaction_operator.api.model import format_duration
from compaction_operator.cleanup.deletion import READERS_BUSY, PartitionDeletion
from compaction_operator.cleanup.identity import Change
from compaction_operator.controller.draft import Draft
from compaction_operator.controller.events import Event, EventType
from compaction_operator.controller.gatekeeper import Look
from compaction_operator.controller.jobs import JobView
from compaction_operator.controller.outcomes import Pass, Trouble
from compaction_operator.controller.resources import Cleanup
from compaction_operator.controller.times import backed_off, parse_time, rfc3339, seconds_until

PUBLISHED = "Published"
DELETED = "Deleted"
OVERDUE = "Overdue"

RETRY = 1.0
RETRY_CAP = 15.0
BUSY_RETRY = 5.0
BUSY_RETRY_CAP = 600.0
"""A try holds new readers off, if only for a moment: so the tries get rare."""
INSIST_AFTER = 8
"""Tries without a moment in which nobody was beginning to read, which is about 20 minutes."""

_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


class Action(StrEnum):
    """What is to be done once the status is written."""

    NONE = "none"
    SETTLE = "settle"
    WATCH = "watch the readers"
    PLAN = "list what would be deleted"
    DELETE = "delete, or move into quarantine"
    PURGE = "delete from the quarantine"
    FINISH = "end the metastore's queue entries"
    RELEASE = "give back the cleanup's own locks"
    DISCARD = "delete the ended cleanup's record"


@dataclass(frozen=True)
class Settled:
    """What the fence and the listing after it found, and who read then.

    `gone` says what became of partitions that were dropped, created again or moved before that: nothing is published.
    `needed` are recorded names that were not obsolete then.
    """

    states: Mapping[str, PublishedState]
    baseline: ReaderBaseline
    gone: Mapping[str, Change] = field(default_factory=dict)
    needed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sight:
    """What was seen of the world. `job` None means that the API server has none: it was asked.

    `at_work` says that the attempt's driver runs and may be at work on what is recorded; `lost` why it is lost, by the
    metastore. `left`
    says that an earlier pass may have left a lock of the cleanup's own.
    `planned` is a pass that only looked; `needed` says that the compaction still counts with this journal.
    """

    job: JobView | None = None
    at_work: bool = False
    lost: str | None = None
    settled: Settled | Trouble | None = None
    look: Look | None = None
    planned: tuple[PartitionDeletion, ...] | Trouble | None = None
    deletion: Pass | None = None
    finished: bool = False
    finish_trouble: Trouble | None = None
    needed: bool = False
    left: bool = False
    release_trouble: Trouble | None = None
    failures: int = 0


@dataclass(frozen=True)
class Decision:
    """The status to write first, then what to do, and when to look again without being told."""

    status: CompactionCleanupStatus
    action: Action = Action.NONE
    partitions: tuple[PartitionEntry, ...] = ()
    insist: bool = False
    again_in: float | None = None
    events: tuple[Event, ...] = field(default=())
    failed: bool = False


class Step:
    """One decision: what it is about, and the pieces of its answer."""

    def __init__(self, cleanup: Cleanup, sight: Sight, settings: CleanupSettings, now: datetime) -> None:
        self._cleanup = cleanup
        self._spec = cleanup.spec
        self._sight = sight
        self._settings = settings
        self._now = now
        self._draft = Draft(cleanup, now)

    @property
    def status(self) -> CompactionCleanupStatus:
        """The status as decided so far."""
        return self._draft.status

    def _end(self, outcome: ConditionStatus, reason: str, message: str) -> Decision:
        """Say what came of it, for good; before that no lock may be left that readers would wait for."""
        trouble = self._sight.release_trouble
        if trouble is not None:
            return self._try_later(CleanupPhase.DELETING, trouble)
        if self._sight.left:
            # NB: nothing is written yet, so that the same is decided once more.
            return Decision(self._cleanup.status, Action.RELEASE)
        self._draft.update(completion_time=rfc3339(self._now), blockers=(), blocker_count=0)
        self._overdue_no_more()
        self._draft.set(SUCCEEDED, outcome, reason, message)
        self._draft.update(phase=CleanupPhase.SUCCEEDED if outcome is _TRUE else CleanupPhase.FAILED)
        self._draft.event(reason, message, EventType.NORMAL if outcome is _TRUE else EventType.WARNING)
        return self._decision()

    def _try_later(self, phase: CleanupPhase, trouble: Trouble) -> Decision:
        base, cap = (BUSY_RETRY, BUSY_RETRY_CAP) if trouble.reason == READERS_BUSY else (RETRY, RETRY_CAP)
        pause = backed_off(base, self._sight.failures + 1, cap=cap)
        return self._stay(phase, trouble.reason, trouble.message, again_in=pause, failed=True)

    def _stay(self, phase: CleanupPhase, reason: str, message: str, **more: Any) -> Decision:
        self._draft.set(SUCCEEDED, _UNKNOWN, reason, message)
        self._draft.update(phase=phase)
        return self._decision(**more)

    def _decision(self, action: Action = Action.NONE, *, again_in: float | None = None, **more: Any) -> Decision:
        dues = [due for due in (again_in, self._deadline()) if due is not None]
        events = tuple(self._draft.events)
        return Decision(self.status, action, again_in=min(dues, default=None), events=events, **more)

    def _overdue_no_more(self) -> None:
        if self._draft.find(OVERDUE) is not None:
            self._draft.set(OVERDUE, _FALSE, "Done", "it took longer than spec.deadline")

    def _deadline(self) -> float | None:
        """Say it, once, when the deadline has passed; return when it will. NB: nothing is deleted because of it."""
        if self._spec.deadline is None or self.status.completion_time or self.status.quarantined_until:
            return None
        since = parse_time(self.status.baseline.time) if self.status.baseline else self._cleanup.meta.created
        left = seconds_until(since + timedelta(seconds=self._spec.deadline), self._now)
        if left > 0:
            return left
        known, waits = self._draft.find(OVERDUE), self._draft.find(SUCCEEDED)
        who = "; ".join(str(blocker) for blocker in self.status.blockers) or (waits.message if waits else "")
        message = f"not done {format_duration(self._spec.deadline)} after {rfc3339(since)}: {who}"
        if known is None or known.status is not _TRUE:
            self._draft.event(OVERDUE, message, EventType.WARNING)
        self._draft.set(OVERDUE, _TRUE, "DeadlinePassed", message)
        return None
