"""What to do next about a CompactionCleanup: one pure function of its status and of what was seen of the world.

It needs neither its compaction nor its Job to exist. The way: the attempt's Job has ended -> settled (fenced, published
states computed, reader baseline taken, all stored at once and never again) -> readers from before gone -> grace period
over -> approved (mode Plan) -> deleted, or moved into quarantine and deleted later -> the metastore's queue entries
ended. Whatever fails is tried again for ever, and the conditions say why.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from compaction_operator.api.cleanup import MAX_BLOCKERS, Blocker, CleanupPhase, ReaderBaseline
from compaction_operator.api.compaction import CleanupMode
from compaction_operator.api.conditions import SUCCEEDED, ConditionStatus
from compaction_operator.api.config import CleanupSettings
from compaction_operator.api.model import counted
from compaction_operator.cleanup.gate import grace_left
from compaction_operator.controller.cleanup_step import PUBLISHED, Action, Decision, Settled, Sight
from compaction_operator.controller.deleting import DeletingStep
from compaction_operator.controller.events import EventType
from compaction_operator.controller.gatekeeper import identities
from compaction_operator.controller.outcomes import (
    Trouble,
    expected,
    first_status,
    is_done,
    kept,
    left_in_place,
    published_condition,
)
from compaction_operator.controller.resources import Cleanup
from compaction_operator.controller.times import parse_time, seconds_until

READERS_GONE = "ReadersGone"
APPROVED = "Approved"

JOB_CHECK = 30.0
NEEDED_CHECK = 600.0

_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
_NOT_ASKED = (_UNKNOWN, "NotAskedYet", "the metastore was not asked yet who reads")


def decide(cleanup: Cleanup, sight: Sight, *, settings: CleanupSettings, now: datetime) -> Decision:
    """Return the next step of a cleanup; the operator's `suspend` holds every deletion.

    The status of an ended cleanup is never touched again but for the observed generation; once its time is over, the
    record goes, unless it failed or kept something that a person should know of.
    """
    step = _Step(cleanup, sight, settings, now)
    if cleanup.ended:
        return step.after_end()
    return step.after_baseline() if cleanup.settled else step.before_baseline()


class _Step(DeletingStep):
    """The first half of the way: until nothing holds the deletion any more, and what comes after the end."""

    def before_baseline(self) -> Decision:
        """Nothing is known yet: wait until the driver has let go of what is recorded, then settle.

        It has when its Job is over, and when it holds nothing in the metastore any more. Or it is lost: paused or cut
        off, it may have published half of a pair, which readers see as soon as the metastore takes its EXCLUSIVE lock
        away (hazard H3). Settling before the Job's end is safe. The
        fence takes the staging folder, so that no rename of the driver's finds its source, and no pair is begun that
        the roll-forward did not see. It completes the pair itself. The locks that are given back and the transactions
        that are aborted fail the guard before a publication, and the commit. So a driver that comes back, or was there
        all the time, publishes nothing more of these partitions, and fails.
        """
        if self._sight.at_work:
            return self._wait_for_job()
        settled = self._sight.settled
        if settled is None:
            if self._sight.lost is not None:
                self._tell_lost(self._sight.lost)
            return self._decision(Action.SETTLE)
        if isinstance(settled, Trouble):
            self._draft.set(PUBLISHED, _UNKNOWN, settled.reason, settled.message)
            return self._try_later(CleanupPhase.PENDING, settled)
        return self._store(settled)

    def _wait_for_job(self) -> Decision:
        message = f"job {self._spec.compaction.job} still runs"
        self._draft.set(PUBLISHED, _UNKNOWN, "JobRunning", message)
        return self._stay(CleanupPhase.PENDING, "JobRunning", message, again_in=JOB_CHECK)

    def _tell_lost(self, why: str) -> None:
        """Say it once, and not with each try to settle."""
        known = self._draft.find(PUBLISHED)
        if known is None or known.reason == "JobRunning":
            message = f"job {self._spec.compaction.job} runs, but {why}: what it published is determined now"
            self._draft.event("DriverLost", message, EventType.WARNING)

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
        partitions = tuple(
            first_status(entry, settled.states[name], settled.gone.get(name), needed=settled.needed.get(name, ()))
            for entry, name in names
        )
        self._draft.update(baseline=settled.baseline, partitions=partitions)
        self._draft.set(PUBLISHED, *published_condition(partitions))
        locks, mark = len(settled.baseline.lock_ids), settled.baseline.txn_high_water_mark
        who = f"readers from before: {counted(locks, 'lock')}, and transactions up to {mark}"
        self._draft.event("BaselineTaken", who)
        # What was looked at before the baseline says nothing of the readers that are in it.
        self._sight = replace(self._sight, look=None)
        return self.after_baseline()

    def _suspend(self) -> Decision:
        message = "nothing is deleted while " + (
            "spec.suspend is set" if self._spec.suspend else "the operator's cleanup.suspend is set"
        )
        trouble = self._sight.release_trouble
        if trouble is not None:
            return self._try_later(CleanupPhase.SUSPENDED, trouble)
        action = Action.RELEASE if self._sight.left else Action.NONE
        return self._stay(CleanupPhase.SUSPENDED, "Suspended", message, action=action)

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


def _waiting_for(blockers: tuple[Blocker, ...]) -> str:
    more = len(blockers) - 1
    return f"waiting for {blockers[0]}" + (f" and {more} more" if more else "")
