"""What to do next about a CompactionCleanup: one pure function of its status and of what was seen of the world.

It needs neither its compaction nor its Job to exist. The way: the attempt's Job has ended -> settled (fenced, published
states computed, reader baseline taken, all stored at once and never again) -> readers from before gone -> grace period
over -> approved (mode Plan) -> deleted, or moved into quarantine and deleted later -> the metastore's queue entries
ended. Whatever fails is tried again for ever, and the conditions say why.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from compaction_operator.api.cleanup import (
    MAX_BLOCKERS,
    Blocker,
    CleanupPhase,
    CompactionCleanupStatus,
    PartitionEntry,
    PartitionStatus,
    PublishedState,
    ReaderBaseline,
)
from compaction_operator.api.compaction import CleanupMode
from compaction_operator.api.conditions import ConditionStatus
from compaction_operator.api.config import CleanupSettings
from compaction_operator.api.model import counted, format_duration
from compaction_operator.cleanup.deletion import PartitionDeletion
from compaction_operator.cleanup.gate import grace_left
from compaction_operator.cleanup.identity import Change
from compaction_operator.controller.draft import Draft
from compaction_operator.controller.events import Event, EventType
from compaction_operator.controller.gatekeeper import Look, identities
from compaction_operator.controller.jobs import JobView
from compaction_operator.controller.outcomes import (
    Pass,
    Trouble,
    ending,
    expected,
    first_status,
    is_done,
    kept,
    left_in_place,
    progressed,
    published_condition,
)
from compaction_operator.controller.resources import Cleanup
from compaction_operator.controller.times import backed_off, parse_time, rfc3339, seconds_until

PUBLISHED = "Published"
READERS_GONE = "ReadersGone"
APPROVED = "Approved"
DELETED = "Deleted"
OVERDUE = "Overdue"
SUCCEEDED = "Succeeded"

JOB_CHECK = 30.0
RETRY = 1.0
RETRY_CAP = 15.0
NEEDED_CHECK = 600.0
CHUNK = 20
"""Partitions between two records of the progress."""

_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
_NOT_ASKED = (_UNKNOWN, "NotAskedYet", "the metastore was not asked yet who reads")


class Action(StrEnum):
    """What is to be done once the status is written."""

    NONE = "none"
    SETTLE = "settle"
    WATCH = "watch the readers"
    PLAN = "list what would be deleted"
    DELETE = "delete, or move into quarantine"
    PURGE = "delete from the quarantine"
    FINISH = "end the metastore's queue entries"
    DISCARD = "delete the ended cleanup's record"


@dataclass(frozen=True)
class Settled:
    """What the fence and the listing after it found, and who read then.

    `gone` says what became of partitions that were dropped, created again or moved before that: nothing is published.
    """

    states: Mapping[str, PublishedState]
    baseline: ReaderBaseline
    gone: Mapping[str, Change] = field(default_factory=dict)


@dataclass(frozen=True)
class Sight:
    """What was seen of the world. `job` None means that the API server has none: it was asked.

    `planned` is a pass that only looked; `needed` says that the compaction still counts with this journal.
    """

    job: JobView | None = None
    settled: Settled | Trouble | None = None
    look: Look | None = None
    planned: tuple[PartitionDeletion, ...] | Trouble | None = None
    deletion: Pass | None = None
    finished: bool = False
    finish_trouble: Trouble | None = None
    needed: bool = False
    failures: int = 0


@dataclass(frozen=True)
class Decision:
    """The status to write first, then what to do, and when to look again without being told."""

    status: CompactionCleanupStatus
    action: Action = Action.NONE
    partitions: tuple[PartitionEntry, ...] = ()
    again_in: float | None = None
    events: tuple[Event, ...] = field(default=())
    failed: bool = False


def decide(cleanup: Cleanup, sight: Sight, *, settings: CleanupSettings, now: datetime) -> Decision:
    """Return the next step of a cleanup; the operator's `suspend` holds every deletion.

    The status of an ended cleanup is never touched again but for the observed generation; once its time is over, the
    record goes, unless it failed or kept something that a person should know of.
    """
    step = _Step(cleanup, sight, settings, now)
    if cleanup.ended:
        return step.after_end()
    return step.after_baseline() if cleanup.settled else step.before_baseline()


class _Step:
    """One decision: the arguments of `decide` and the pieces of its answer."""

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

    def before_baseline(self) -> Decision:
        """Nothing is known yet: wait for the Job's end, then settle."""
        if self._sight.job is not None and not self._sight.job.ended:
            message = f"job {self._spec.compaction.job} still runs"
            self._draft.set(PUBLISHED, _UNKNOWN, "JobRunning", message)
            return self._stay(CleanupPhase.PENDING, "JobRunning", message, again_in=JOB_CHECK)
        settled = self._sight.settled
        if settled is None:
            return self._decision(Action.SETTLE)
        if isinstance(settled, Trouble):
            self._draft.set(PUBLISHED, _UNKNOWN, settled.reason, settled.message)
            return self._try_later(CleanupPhase.PENDING, settled)
        return self._store(settled)

    def after_baseline(self) -> Decision:
        """Wait for readers, grace period and approval, then delete; suspension holds at any point."""
        if self._spec.mode is CleanupMode.NEVER:
            return self._end(*left_in_place(self.status, self._spec.partitions))
        if all(is_done(partition) for partition in self.status.partitions):
            return self._finish()
        self._note_approval()
        held = self._held()
        if held is not None:
            return held
        until = self.status.quarantined_until
        return self._delete() if until is None else self._purge(until)

    def _held(self) -> Decision | None:
        """Return what holds every deletion now, None when nothing does."""
        if self._settings.suspend or self._spec.suspend:
            return self._suspend()
        if not self._readers_gone():
            return self._wait_for_readers()
        left = grace_left(self._baseline, grace_period=self._spec.grace_period, now=self._now)
        if left > 0:
            message = f"{left:.0f} s of the grace period are left"
            return self._stay(CleanupPhase.GRACE, "GracePeriod", message, again_in=left)
        if self._spec.mode is CleanupMode.PLAN and not self._spec.approved:
            return self._wait_for_approval()
        return None

    def after_end(self) -> Decision:
        """Nothing is left to do but to forget it, when it tells nobody anything any more."""
        ended, outcome = self.status.completion_time, self._draft.find(SUCCEEDED)
        if ended is None or outcome is None or outcome.status is not _TRUE or kept(self.status.partitions):
            return Decision(self.status)
        left = seconds_until(parse_time(ended) + timedelta(seconds=self._settings.ttl), self._now)
        if left > 0:
            return Decision(self.status, again_in=left)
        if self._sight.needed:
            return Decision(self.status, again_in=NEEDED_CHECK)
        return Decision(self.status, Action.DISCARD)

    @property
    def _baseline(self) -> ReaderBaseline:
        assert self.status.baseline is not None
        return self.status.baseline

    def _store(self, settled: Settled) -> Decision:
        """Store states and baseline in one write. NB: before it nothing is deleted, after it nothing is recomputed."""
        names = ((entry, entry.partition) for entry in self._spec.partitions)
        partitions = tuple(first_status(entry, settled.states[name], settled.gone.get(name)) for entry, name in names)
        self._draft.update(baseline=settled.baseline, partitions=partitions)
        self._draft.set(PUBLISHED, *published_condition(partitions))
        locks, mark = len(settled.baseline.lock_ids), settled.baseline.txn_high_water_mark
        who = f"readers from before: {counted(locks, 'lock')}, and transactions up to {mark}"
        self._draft.event("BaselineTaken", who)
        return self.after_baseline()

    def _suspend(self) -> Decision:
        message = "nothing is deleted while " + (
            "spec.suspend is set" if self._spec.suspend else "the operator's cleanup.suspend is set"
        )
        return self._stay(CleanupPhase.SUSPENDED, "Suspended", message)

    def _readers_gone(self) -> bool:
        """Whether it was seen once that they are gone: nobody joins the readers from before."""
        known = self._draft.find(READERS_GONE)
        if known is not None and known.status is _TRUE:
            return True
        look = self._sight.look
        if look is None or look.error is not None or look.blockers:
            return False
        self._draft.update(blockers=(), blocker_count=0)
        self._draft.set(READERS_GONE, _TRUE, "ReadersGone", "no reader from before is left")
        self._draft.event("ReadersGone", "no reader from before is left")
        return True

    def _wait_for_readers(self) -> Decision:
        outcome, reason, message = self._readers()
        self._draft.set(READERS_GONE, outcome, reason, message)
        return self._stay(CleanupPhase.WAITING, reason, message, action=Action.WATCH)

    def _readers(self) -> tuple[ConditionStatus, str, str]:
        look = self._sight.look
        if look is None:
            known = self._draft.find(READERS_GONE)
            return (known.status, known.reason, known.message) if known is not None else _NOT_ASKED
        if look.error is not None:
            # An error is never "no readers".
            return _UNKNOWN, "MetastoreUnavailable", look.error
        message = _waiting_for(look.blockers)
        self._name(look.blockers, message)
        return _FALSE, "ReadersFromBefore", message

    def _name(self, blockers: tuple[Blocker, ...], message: str) -> None:
        """Keep who is waited for. NB: heartbeats alone are no change, or every tick would write every status."""
        if not self.status.blocker_count:
            self._draft.event("WaitingForReaders", message)
        if identities(self.status.blockers) != identities(blockers[:MAX_BLOCKERS]):
            self._draft.update(blockers=blockers[:MAX_BLOCKERS])
        self._draft.update(blocker_count=len(blockers))

    def _note_approval(self) -> None:
        """With mode Plan, say whether it is approved; that may be given before the readers are gone, and taken back."""
        if self._spec.mode is not CleanupMode.PLAN:
            return
        known = self._draft.find(APPROVED)
        if self._spec.approved:
            if known is None or known.status is not _TRUE:
                self._draft.event("Approved", "spec.approved is set")
            self._draft.set(APPROVED, _TRUE, "Approved", "spec.approved is set")
        elif known is None or known.status is _TRUE:
            self._draft.set(APPROVED, _FALSE, "NotListedYet", self._how_to_approve())

    def _how_to_approve(self) -> str:
        meta, patch = self._cleanup.meta, '{"spec":{"approved":true}}'
        return f"approve with: kubectl patch ccl {meta.name} -n {meta.namespace} --type=merge -p '{patch}'"

    def _wait_for_approval(self) -> Decision:
        """List what would be deleted, once, and ask. NB: what is deleted in the end is computed anew."""
        known, planned = self._draft.find(APPROVED), self._sight.planned
        if known is not None and known.reason == "WaitingForApproval":
            return self._stay(CleanupPhase.APPROVAL, known.reason, known.message)
        if planned is None:
            return self._decision(Action.PLAN)
        if isinstance(planned, Trouble):
            return self._try_later(CleanupPhase.APPROVAL, planned)
        by_name = {result.partition: result for result in planned}
        self._draft.update(partitions=tuple(expected(part, by_name) for part in self.status.partitions))
        if all(is_done(partition) for partition in self.status.partitions):
            return self._finish()
        names = sum(len(part.planned) for part in self.status.partitions)
        message = f"{names} (directories and original files) would be deleted; {self._how_to_approve()}"
        self._draft.set(APPROVED, _FALSE, "WaitingForApproval", message)
        self._draft.event("WaitingForApproval", message)
        return self._stay(CleanupPhase.APPROVAL, "WaitingForApproval", message)

    def _delete(self) -> Decision:
        """Delete, or move into quarantine, what is recorded and obsolete."""
        going = self._begin_pass(Action.DELETE)
        left = [part.partition for part in self.status.partitions if part.remaining and part.message is None]
        if left:
            return self._go_on(Action.DELETE, going, left)
        if self._spec.quarantine is None or all(is_done(partition) for partition in self.status.partitions):
            return self._finish()
        until = self._now + timedelta(seconds=self._spec.quarantine)
        self._draft.update(quarantined_until=rfc3339(until))
        names = sum(len(partition.quarantined) for partition in self.status.partitions)
        self._draft.event("Quarantined", f"{names} (directories and original files) until {rfc3339(until)}")
        return self._purge(rfc3339(until))

    def _purge(self, until: str) -> Decision:
        """Delete what lies in the quarantine when its time is over."""
        left = seconds_until(parse_time(until), self._now)
        if left > 0:
            message = f"what is obsolete lies in the quarantine until {until}"
            self._draft.set(DELETED, _UNKNOWN, "Quarantined", message)
            return self._stay(CleanupPhase.QUARANTINED, "Quarantined", message, again_in=left)
        going = self._begin_pass(Action.PURGE)
        names = [part.partition for part in self.status.partitions if not is_done(part)]
        return self._go_on(Action.PURGE, going, names) if names else self._finish()

    def _begin_pass(self, action: Action) -> Pass:
        """Return the pass that goes on, after what came of it is recorded; tell once that deletion begins."""
        if self._sight.deletion is not None:
            self._record(self._sight.deletion.latest)
            return self._sight.deletion
        known = self._draft.find(DELETED)
        if known is None or known.reason == "Quarantined":
            names = sum(len(part.remaining) + len(part.quarantined) for part in self.status.partitions)
            self._draft.event("Deleting", f"{action}: {names} (directories and original files)")
        return Pass()

    def _go_on(self, action: Action, going: Pass, left: list[str]) -> Decision:
        """Take the next chunk; a pass that left something behind is followed by another after a pause.

        NB: the status that is written before each pass is new, so that a suspension nobody saw yet is a conflict.
        """
        chunk = [name for name in left if name not in going.visited][:CHUNK]
        if not chunk or going.broken_off:
            return self._refused(going.trouble or Trouble("NotDeletedYet", "what is left is looked at again"))
        message = f"{len(left)} of {len(self.status.partitions)} partitions are left"
        known = self._draft.find(DELETED)
        if known is None or known.status is not _FALSE:
            self._draft.set(DELETED, _UNKNOWN, "Deleting", message)
        entries = tuple(entry for entry in self._spec.partitions if entry.partition in chunk)
        return self._stay(CleanupPhase.DELETING, "Deleting", message, action=action, partitions=entries)

    def _refused(self, trouble: Trouble) -> Decision:
        self._tell_once(DELETED, trouble)
        return self._try_later(CleanupPhase.DELETING, trouble)

    def _tell_once(self, type_: str, trouble: Trouble) -> None:
        """Post an event about what is in the way, and another only when something else is."""
        known = self._draft.find(type_)
        if known is None or (known.status, known.reason, known.message) != (_FALSE, trouble.reason, trouble.message):
            self._draft.event("DeletionRefused", f"{trouble.reason}: {trouble.message}", EventType.WARNING)
        self._draft.set(type_, _FALSE, trouble.reason, trouble.message)

    def _record(self, results: Iterable[PartitionDeletion]) -> None:
        by_name = {result.partition: result for result in results}
        old = self.status.partitions
        partitions = tuple(progressed(part, by_name.get(part.partition)) for part in old)
        gained = sum(len(new.deleted) - len(before.deleted) for new, before in zip(partitions, old, strict=True))
        self._draft.update(
            partitions=partitions,
            directories_deleted=self.status.directories_deleted + gained,
            bytes_deleted=self.status.bytes_deleted + sum(result.bytes_deleted for result in by_name.values()),
        )
        self._tell_kept([new for new, before in zip(partitions, old, strict=True) if new.reason != before.reason])

    def _tell_kept(self, partitions: list[PartitionStatus]) -> None:
        if partitions:
            more = f" (and {len(partitions) - 1} more)" if len(partitions) > 1 else ""
            first = f"{partitions[0].reason}: {partitions[0].partition or 'table'}: {partitions[0].message}"
            self._draft.event("DeletionRefused", first + more, EventType.WARNING)

    def _finish(self) -> Decision:
        """Nothing is left to delete: end the entries that the metastore's queue has of this compaction, then say so."""
        outcome, reason, message = ending(self.status)
        self._draft.set(DELETED, outcome, reason, message)
        if self._sight.finished or not self._queued():
            return self._end(outcome, reason, message)
        trouble = self._sight.finish_trouble
        return self._decision(Action.FINISH) if trouble is None else self._try_later(CleanupPhase.DELETING, trouble)

    def _queued(self) -> bool:
        """Whether the queue of a Hive 4 metastore has entries of what was published."""
        states = {part.partition: part.state for part in self.status.partitions}
        mine = (entry.partition for entry in self._spec.partitions if entry.queue_id is not None)
        return any(states[partition] is not PublishedState.NOT_PUBLISHED for partition in mine)

    def _end(self, outcome: ConditionStatus, reason: str, message: str) -> Decision:
        """Say what came of it, for good."""
        self._draft.update(completion_time=rfc3339(self._now), blockers=(), blocker_count=0)
        if self._draft.find(OVERDUE) is not None:
            self._draft.set(OVERDUE, _FALSE, "Ended", "it took longer than spec.deadline")
        self._draft.set(SUCCEEDED, outcome, reason, message)
        self._draft.update(phase=CleanupPhase.SUCCEEDED if outcome is _TRUE else CleanupPhase.FAILED)
        self._draft.event(reason, message, EventType.NORMAL if outcome is _TRUE else EventType.WARNING)
        return self._decision()

    def _try_later(self, phase: CleanupPhase, trouble: Trouble) -> Decision:
        pause = backed_off(RETRY, self._sight.failures + 1, cap=RETRY_CAP)
        return self._stay(phase, trouble.reason, trouble.message, again_in=pause, failed=True)

    def _stay(self, phase: CleanupPhase, reason: str, message: str, **more: Any) -> Decision:
        self._draft.set(SUCCEEDED, _UNKNOWN, reason, message)
        self._draft.update(phase=phase)
        return self._decision(**more)

    def _decision(self, action: Action = Action.NONE, *, again_in: float | None = None, **more: Any) -> Decision:
        dues = [due for due in (again_in, self._deadline()) if due is not None]
        events = tuple(self._draft.events)
        return Decision(self.status, action, again_in=min(dues, default=None), events=events, **more)

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


def _waiting_for(blockers: tuple[Blocker, ...]) -> str:
    more = len(blockers) - 1
    return f"waiting for {blockers[0]}" + (f" and {more} more" if more else "")
