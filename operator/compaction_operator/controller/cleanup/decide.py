"""Next step of a CompactionCleanup: a pure function of its status and of one observation of the world.

It needs neither the compaction nor the Job to exist. The status fields hold all of its state; the conditions are for
people. Every failure is retried without limit, and the conditions say why.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from compaction_operator.api.cleanup import (
    MAX_BLOCKERS,
    OVERDUE,
    Blocker,
    CompactionCleanupStatus,
    PartitionEntry,
    PartitionStatus,
    PublishedState,
)
from compaction_operator.api.compaction import CleanupMode, CleanupPhase
from compaction_operator.api.conditions import SUCCEEDED, ConditionStatus
from compaction_operator.api.config import CleanupSettings
from compaction_operator.api.model import backed_off, counted, format_duration
from compaction_operator.cleanup.deletion import READERS_BUSY
from compaction_operator.cleanup.readers import grace_left
from compaction_operator.cleanup.settle import STORAGE_ERROR
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.cleanup import partitions as outcomes
from compaction_operator.controller.cleanup.observation import CleanupAction, CleanupObservation
from compaction_operator.controller.cleanup.partitions import NOT_DELETED_YET, Pass, Verdict, is_done
from compaction_operator.controller.cleanup.reader_watch import identities
from compaction_operator.controller.kube.draft import Draft
from compaction_operator.controller.kube.events import Event, EventType
from compaction_operator.controller.kube.resources import Cleanup
from compaction_operator.controller.kube.times import parse_time, rfc3339, seconds_until

PUBLISHED = "Published"
READERS_GONE = "ReadersGone"
APPROVED = "Approved"
DELETED = "Deleted"

JOB_CHECK = 30.0
NEEDED_CHECK = 600.0
UNREACHABLE_TRIES = 6
"""Attempts, over about a minute, to reach every partition; after that, unreachable partitions no longer block the
others."""
RETRY = 1.0
RETRY_CAP = 15.0
BUSY_RETRY = 5.0
BUSY_RETRY_CAP = 600.0
"""Each attempt briefly holds off new readers, so attempts become rare."""
INSIST_AFTER = 8
"""Consecutive attempts that found no moment without a starting reader; they take about 20 minutes."""
CHUNK = 20
"""Partitions between two writes of the progress."""

_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
_NOT_ASKED = (_UNKNOWN, "NotAskedYet", "the metastore has not been asked for readers yet")


@dataclass(frozen=True)
class CleanupDecision:
    """The status to write first, the action that follows, and the requeue delay in seconds."""

    status: CompactionCleanupStatus
    action: CleanupAction = CleanupAction.NONE
    partitions: tuple[PartitionEntry, ...] = ()
    insist: bool = False
    requeue_after: float | None = None
    events: tuple[Event, ...] = ()
    failed: bool = False


def decide(
    cleanup: Cleanup, observed: CleanupObservation, *, settings: CleanupSettings, now: datetime
) -> CleanupDecision:
    """Return the next step of a cleanup: what its first unfinished phase asks for.

    Each decision walks all phases from the first one, so a phase that blocks also blocks all later phases. The
    operator's `suspend` blocks every deletion. The status of an ended cleanup never changes, except for the observed
    generation. The record is deleted after its TTL, unless the cleanup failed or kept something that a person should
    know of.
    """
    step = _CleanupStep(cleanup, observed, settings, now)
    if cleanup.ended:
        return step.after_the_end()
    step.note_pass()
    step.note_approval()
    for phase in _phases(step):
        if phase.is_over():
            continue
        step.phase = phase.name
        trouble = phase.take_answer()
        if trouble is not None:
            return step.try_later(trouble)
        if not phase.is_over():
            return phase.ask()
    return step.end()


@dataclass(frozen=True)
class _Phase:
    """One phase: until `is_over`, `take_answer` stores the observation in the status, and `ask` requests more.

    If `take_answer` returns a Trouble, the phase is retried later.
    """

    name: CleanupPhase
    is_over: Callable[[], bool]
    take_answer: Callable[[], Trouble | None]
    ask: Callable[[], CleanupDecision]


def _phases(step: "_CleanupStep") -> tuple[_Phase, ...]:
    """Return the phases of every cleanup, in order.

    Those from SUSPENDED to the end of the quarantine are over once nothing is left.
    """
    is_phase = CleanupPhase
    return (
        #      name                  is over when ...          its answer ...        it asks for ...
        _Phase(is_phase.PENDING,     step.driver_is_done,       _nothing,             step.wait_for_driver),
        _Phase(is_phase.PENDING,     step.is_settled,           step.take_settlement,  step.ask_to_settle),
        _Phase(is_phase.SUSPENDED,   step.may_delete,           step.take_release,     step.stay_suspended),
        _Phase(is_phase.WAITING,     step.readers_are_gone,     step.take_look,        step.ask_for_readers),
        _Phase(is_phase.GRACE,       step.grace_is_over,        _nothing,             step.sit_out_grace),
        _Phase(is_phase.APPROVAL,    step.is_approved,          step.take_plan,        step.ask_for_approval),
        _Phase(is_phase.DELETING,    step.nothing_remains,      step.take_pass,        step.ask_to_delete),
        _Phase(is_phase.QUARANTINED, step.quarantine_is_over,   step.begin_quarantine, step.sit_out_quarantine),
        _Phase(is_phase.DELETING,    step.nothing_is_hidden,    step.take_pass,        step.ask_to_purge),
        _Phase(is_phase.DELETING,    step.queue_is_ended,       step.take_finish,      step.ask_to_finish),
        _Phase(is_phase.DELETING,    step.nothing_is_held,      step.take_release,     step.ask_to_release),
    )  # fmt: skip


def _nothing() -> None:
    """Take no answer: for phases that only wait."""


class _CleanupStep(Draft[CompactionCleanupStatus]):
    """One decision: the draft of the status to write, the inputs, and the parts of each phase in phase order."""

    def __init__(
        self, cleanup: Cleanup, observed: CleanupObservation, settings: CleanupSettings, now: datetime
    ) -> None:
        super().__init__(cleanup, now)
        self._cleanup = cleanup
        self._spec = cleanup.spec
        self._observed = observed
        self._settings = settings
        self.phase = cleanup.status.phase

    # --- Until the published state is known

    def driver_is_done(self) -> bool:
        """Whether the attempt publishes nothing more: its Job is over, it holds nothing, or its driver is lost.

        A lost driver, paused or cut off, may have published half of a pair. Readers see that half as soon as the
        metastore releases its EXCLUSIVE lock (hazard H3). Settling before the Job's end is safe. The fence removes the
        staging folder, so that no rename by the driver finds its source, and no pair begins that the roll-forward did
        not see. The fence completes the pair itself. The released locks and the aborted transactions fail the guard
        before a publication, and the commit. So a driver that comes back, or was never gone, publishes nothing more in
        these partitions, and fails.
        """
        return self.is_settled() or not self._observed.at_work

    def wait_for_driver(self) -> CleanupDecision:
        return self._stay("JobRunning", f"job {self._spec.compaction.job} is still running", requeue_after=JOB_CHECK)

    def is_settled(self) -> bool:
        return self.status.baseline is not None

    def take_settlement(self) -> Trouble | None:
        """Store states and baseline in one write.

        NB: nothing is deleted before it, and nothing is recomputed after it.
        """
        settled = self._observed.settled
        if settled is None or isinstance(settled, Trouble):
            return settled
        if settled.unreachable and self._observed.failures < UNREACHABLE_TRIES:
            return Trouble(STORAGE_ERROR, next(change.message for change in settled.unreachable.values()))
        partitions = tuple(outcomes.first_status(entry, settled) for entry in self._spec.partitions)
        self.update(baseline=settled.baseline, partitions=partitions)
        self.set(PUBLISHED, *outcomes.published_condition(partitions))
        locks, mark = len(settled.baseline.lock_ids), settled.baseline.txn_high_water_mark
        who = f"older readers: {counted(locks, 'lock')}, and transactions up to {mark}"
        self.event("BaselineTaken", who)
        self._observed = self._observed.since_baseline()
        self.note_approval()
        return None

    def ask_to_settle(self) -> CleanupDecision:
        lost = self._observed.lost
        if lost is not None and self.status.driver_lost_time is None:
            self.update(driver_lost_time=rfc3339(self.now))
            message = f"job {self._spec.compaction.job} is running, but {lost}; determining now what it published"
            self.event("DriverLost", message, EventType.WARNING)
        return self._decision(CleanupAction.SETTLE)

    # --- What blocks every deletion

    def nothing_is_left(self) -> bool:
        """Whether everything is deleted that ever will be."""
        return self._spec.mode is CleanupMode.NEVER or all(is_done(partition) for partition in self.status.partitions)

    def may_delete(self) -> bool:
        return self.nothing_is_left() or not (self._settings.suspend or self._spec.suspend)

    def stay_suspended(self) -> CleanupDecision:
        setting = "spec.suspend" if self._spec.suspend else "the operator's cleanup.suspend"
        action = CleanupAction.RELEASE if self._observed.left else CleanupAction.NONE
        return self._stay("Suspended", f"nothing is deleted while {setting} is set", action=action)

    def readers_are_gone(self) -> bool:
        """Whether the older readers were once seen to be gone. That is final: no reader joins the baseline."""
        return self.nothing_is_left() or self.status.readers_gone_time is not None

    def take_look(self) -> None:
        """Store the blocking readers.

        NB: ignore changes of heartbeats alone, or every tick would write every status.
        """
        look = self._observed.look
        if look is None or look.error is not None:  # An error is never "no readers".
            return
        if not look.blockers:
            self.update(readers_gone_time=rfc3339(self.now), blockers=(), blocker_count=0)
            self.set(READERS_GONE, _TRUE, "ReadersGone", "all older readers have finished")
            self.event("ReadersGone", "all older readers have finished")
            return
        if not self.status.blocker_count:
            self.event("WaitingForReaders", _waiting_for(look.blockers[0], len(look.blockers)))
        if identities(self.status.blockers) != identities(look.blockers[:MAX_BLOCKERS]):
            met = {(one.kind, one.id) for one in self.status.waited_for}
            new = (one for one in look.blockers if (one.kind, one.id) not in met)
            waited_for = (*self.status.waited_for, *new)[:MAX_BLOCKERS]
            self.update(blockers=look.blockers[:MAX_BLOCKERS], waited_for=waited_for)
        self.update(blocker_count=len(look.blockers))

    def ask_for_readers(self) -> CleanupDecision:
        """Report which readers block, or why they are unknown, and continue to watch."""
        look = self._observed.look
        if look is not None and look.error is not None:
            verdict = _UNKNOWN, "MetastoreUnavailable", look.error
        elif self.status.blockers:
            verdict = _FALSE, "ReadersFromBefore", _waiting_for(self.status.blockers[0], self.status.blocker_count)
        else:
            verdict = _NOT_ASKED
        self.set(READERS_GONE, *verdict)
        return self._stay(*verdict[1:], action=CleanupAction.WATCH)

    def grace_is_over(self) -> bool:
        return self.nothing_is_left() or self._grace_left() <= 0

    def sit_out_grace(self) -> CleanupDecision:
        left = self._grace_left()
        return self._stay("GracePeriod", f"{left:.0f} s of the grace period left", requeue_after=left)

    def _grace_left(self) -> float:
        assert self.status.baseline is not None
        return grace_left(self.status.baseline, grace_period=self._spec.grace_period, now=self.now)

    def is_approved(self) -> bool:
        return self.nothing_is_left() or self._spec.mode is not CleanupMode.PLAN or self._spec.approved

    def note_approval(self) -> None:
        """With mode Plan, report the approval. It may be given before the readers are gone, and withdrawn."""
        if self._spec.mode is not CleanupMode.PLAN or not self.is_settled() or self.nothing_is_left():
            return
        if self._spec.approved:
            self.update(listed_time=None)
            if self.set(APPROVED, _TRUE, "Approved", "spec.approved is set"):
                self.event("Approved", "spec.approved is set")
        elif self.status.listed_time is None:
            self.set(APPROVED, _FALSE, "NotListedYet", self._how_to_approve())

    def take_plan(self) -> Trouble | None:
        """Store what would be deleted, and ask for approval once. NB: the deletion itself computes it again."""
        planned = self._observed.planned
        if planned is None or isinstance(planned, Trouble):
            return planned
        by_name = {result.partition: result for result in planned}
        partitions = tuple(outcomes.expected(part, by_name) for part in self.status.partitions)
        self.update(partitions=partitions, listed_time=rfc3339(self.now))
        if not self.nothing_is_left():
            self.set(APPROVED, _FALSE, "WaitingForApproval", self._what_is_asked())
            self.event("WaitingForApproval", self._what_is_asked())
        return None

    def ask_for_approval(self) -> CleanupDecision:
        if self.status.listed_time is None:
            return self._decision(CleanupAction.PLAN)
        return self._stay("WaitingForApproval", self._what_is_asked())

    def _what_is_asked(self) -> str:
        names = sum(len(part.planned) for part in self.status.partitions)
        return f"{outcomes.paths(names)} would be deleted; {self._how_to_approve()}"

    def _how_to_approve(self) -> str:
        meta, patch = self._cleanup.meta, '{"spec":{"approved":true}}'
        return f"approve with: kubectl patch ccl {meta.name} -n {meta.namespace} --type=merge -p '{patch}'"

    # --- The deletion

    def _left(self) -> list[str]:
        """Return the partitions that still have names to hide or, after the quarantine, to delete."""
        purging = self.status.quarantined_until is not None
        return [part.partition for part in self.status.partitions if not is_done(part) and (part.remaining or purging)]

    def nothing_remains(self) -> bool:
        """Whether nothing is left where readers look."""
        return self.status.quarantined_until is not None or self.nothing_is_hidden()

    def nothing_is_hidden(self) -> bool:
        """Whether nothing is left in the quarantine, either."""
        return self.nothing_is_left() or not self._left()

    def note_pass(self) -> None:
        """Store what a pass has deleted, whatever blocks the deletion by now."""
        results = self._observed.deletion.latest if self._observed.deletion is not None else ()
        by_name = {result.partition: result for result in results}
        old = self.status.partitions
        partitions = tuple(outcomes.progressed(part, by_name.get(part.partition)) for part in old)
        gained = sum(len(new.deleted) - len(before.deleted) for new, before in zip(partitions, old, strict=True))
        self.update(
            partitions=partitions,
            directories_deleted=self.status.directories_deleted + gained,
            bytes_deleted=self.status.bytes_deleted + sum(result.bytes_deleted for result in results),
        )
        self._report_kept([new for new, before in zip(partitions, old, strict=True) if new.reason != before.reason])

    def _report_kept(self, partitions: list[PartitionStatus]) -> None:
        if partitions:
            more = f" (and {len(partitions) - 1} more)" if len(partitions) > 1 else ""
            first = f"{partitions[0].reason}: {partitions[0].partition or 'table'}: {partitions[0].message}"
            self.event("DeletionRefused", first + more, EventType.WARNING)

    def take_pass(self) -> Trouble | None:
        """Return the trouble once a pass is complete or was broken off; the next pass follows after a pause."""
        going = self._observed.deletion
        if going is None or not (going.broken_off or going.visited.issuperset(self._left())):
            return None
        trouble = going.trouble or Trouble(NOT_DELETED_YET, "the remaining names are checked again")
        if self.set(DELETED, _FALSE, trouble.reason, trouble.message):
            self.event("DeletionRefused", f"{trouble.reason}: {trouble.message}", EventType.WARNING)
        return trouble

    def ask_to_delete(self) -> CleanupDecision:
        what = "deleting {}" if self._spec.quarantine is None else "moving {} into the quarantine"
        return self._go_on(CleanupAction.DELETE, what)

    def ask_to_purge(self) -> CleanupDecision:
        return self._go_on(CleanupAction.PURGE, "deleting {} from the quarantine")

    def _go_on(self, action: CleanupAction, what: str) -> CleanupDecision:
        """Take the next chunk; report the start of the deletion once.

        NB: each chunk writes a new status first, so that an unseen suspension becomes a conflict.
        """
        if self.status.deletion_start_time is None:
            self.update(deletion_start_time=rfc3339(self.now))
            names = sum(len(part.remaining) + len(part.quarantined) for part in self.status.partitions)
            self.event("Deleting", what.format(outcomes.paths(names)))
        left, going = self._left(), self._observed.deletion or Pass()
        chunk = [name for name in left if name not in going.visited][:CHUNK]
        message = f"{len(left)} of {len(self.status.partitions)} partitions left, next: {chunk[0] or 'the table'}"
        known = self.find(DELETED)
        if known is None or known.status is not _FALSE:
            self.set(DELETED, _UNKNOWN, "Deleting", message)
        entries = tuple(entry for entry in self._spec.partitions if entry.partition in chunk)
        insist = self._observed.failures >= INSIST_AFTER
        return self._stay("Deleting", message, action=action, partitions=entries, insist=insist)

    def quarantine_is_over(self) -> bool:
        until = self.status.quarantined_until
        if self.nothing_is_left() or (until is None and self._spec.quarantine is None):
            return True
        return until is not None and seconds_until(parse_time(until), self.now) <= 0

    def begin_quarantine(self) -> None:
        if self.status.quarantined_until is None and self._spec.quarantine is not None:
            until = rfc3339(self.now + timedelta(seconds=self._spec.quarantine))
            self.update(quarantined_until=until, deletion_start_time=None)
            self._overdue_no_more()
            names = sum(len(partition.quarantined) for partition in self.status.partitions)
            self.event("Quarantined", f"{outcomes.paths(names)} until {until}")

    def sit_out_quarantine(self) -> CleanupDecision:
        until = self.status.quarantined_until or ""
        message = f"the obsolete directories stay in the quarantine until {until}"
        self.set(DELETED, _UNKNOWN, "Quarantined", message)
        return self._stay("Quarantined", message, requeue_after=seconds_until(parse_time(until), self.now))

    # --- The end

    def queue_is_ended(self) -> bool:
        """Whether the queue of a Hive 4 metastore has no open entries of the published partitions."""
        if self._spec.mode is CleanupMode.NEVER or self._observed.finished is True:
            return True
        states = {part.partition: part.state for part in self.status.partitions}
        mine = (entry.partition for entry in self._spec.partitions if entry.queue_id is not None)
        return all(states[partition] is PublishedState.NOT_PUBLISHED for partition in mine)

    def take_finish(self) -> Trouble | None:
        return self._observed.finished if isinstance(self._observed.finished, Trouble) else None

    def ask_to_finish(self) -> CleanupDecision:
        self._verdict()
        return self._decision(CleanupAction.FINISH)

    def nothing_is_held(self) -> bool:
        """Whether no lock is left that blocks readers."""
        return self._observed.left is False

    def take_release(self) -> Trouble | None:
        return self._observed.left if isinstance(self._observed.left, Trouble) else None

    def ask_to_release(self) -> CleanupDecision:
        return self._decision(CleanupAction.RELEASE)

    def end(self) -> CleanupDecision:
        """Record the final outcome."""
        outcome, reason, message = self._verdict()
        self.update(completion_time=rfc3339(self.now), blockers=(), blocker_count=0)
        self._overdue_no_more()
        self.update(phase=CleanupPhase.SUCCEEDED if outcome is _TRUE else CleanupPhase.FAILED)
        self.conclude(reason, message, success=outcome is _TRUE)
        return self._decision()

    def _verdict(self) -> Verdict:
        if self._spec.mode is CleanupMode.NEVER:
            return outcomes.left_in_place(self.status, self._spec.partitions)
        verdict = outcomes.ending(self.status)
        self.set(DELETED, *verdict)
        return verdict

    def after_the_end(self) -> CleanupDecision:
        """Handle an ended cleanup: discard its record once nothing needs it any more."""
        ended, outcome = self.status.completion_time, self.find(SUCCEEDED)
        if ended is None or outcome is None or outcome.status is not _TRUE or outcomes.kept(self.status.partitions):
            return CleanupDecision(self.status)
        left = seconds_until(parse_time(ended) + timedelta(seconds=self._settings.ttl), self.now)
        if left > 0:
            return CleanupDecision(self.status, requeue_after=left)
        if self._observed.needed:
            return CleanupDecision(self.status, requeue_after=NEEDED_CHECK)
        return CleanupDecision(self.status, CleanupAction.DISCARD)

    # --- The answer

    def try_later(self, trouble: Trouble) -> CleanupDecision:
        """Report the trouble and retry with a growing delay."""
        base, cap = (BUSY_RETRY, BUSY_RETRY_CAP) if trouble.reason == READERS_BUSY else (RETRY, RETRY_CAP)
        pause = backed_off(base, self._observed.failures + 1, cap=cap)
        return self._stay(trouble.reason, trouble.message, requeue_after=pause, failed=True)

    def _stay(self, reason: str, message: str, **more: Any) -> CleanupDecision:
        self.set(SUCCEEDED, _UNKNOWN, reason, message)
        if not self.is_settled():
            self.set(PUBLISHED, _UNKNOWN, reason, message)
        self.update(phase=self.phase)
        return self._decision(**more)

    def _decision(
        self, action: CleanupAction = CleanupAction.NONE, *, requeue_after: float | None = None, **more: Any
    ) -> CleanupDecision:
        dues = [due for due in (requeue_after, self._deadline()) if due is not None]
        events = tuple(self.events)
        return CleanupDecision(self.status, action, requeue_after=min(dues, default=None), events=events, **more)

    def _overdue_no_more(self) -> None:
        if self.find(OVERDUE) is not None:
            self.set(OVERDUE, _FALSE, "Done", "the cleanup took longer than spec.deadline")

    def _deadline(self) -> float | None:
        """Report a passed deadline once; return the seconds until it otherwise. NB: it never causes a deletion."""
        if self._spec.deadline is None or self.status.completion_time or self.status.quarantined_until:
            return None
        since = parse_time(self.status.baseline.time) if self.status.baseline else self._cleanup.meta.created
        left = seconds_until(since + timedelta(seconds=self._spec.deadline), self.now)
        if left > 0:
            return left
        known, waits = self.find(OVERDUE), self.find(SUCCEEDED)
        who = "; ".join(str(blocker) for blocker in self.status.blockers) or (waits.message if waits else "")
        message = f"not finished {format_duration(self._spec.deadline)} after {rfc3339(since)}: {who}"
        if known is None or known.status is not _TRUE:
            self.event(OVERDUE, message, EventType.WARNING)
        self.set(OVERDUE, _TRUE, "DeadlinePassed", message)
        return None


def _waiting_for(first: Blocker, count: int) -> str:
    return f"waiting for {first}" + (f" and {count - 1} more" if count > 1 else "")
