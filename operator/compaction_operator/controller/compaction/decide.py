"""Next step of a TableCompaction: a pure function of its status and of one observation of the world.

The controller writes the status before it acts. So `decide` asks for the same action again when it runs on the status
of any earlier moment. Where `decide` lacks information, it asks for an action; the answer arrives in the
`CompactionObservation`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from compaction_operator.api.cleanup import PartitionEntry, PublishedState
from compaction_operator.api.compaction import (
    BackOff,
    CleanupPhase,
    Forecast,
    Obstacle,
    Phase,
    ProgressStatus,
    TableCompactionStatus,
    Totals,
    Why,
)
from compaction_operator.api.conditions import SUCCEEDED, ConditionStatus, find_condition
from compaction_operator.api.config import OperatorConfig
from compaction_operator.api.model import backed_off, format_duration
from compaction_operator.api.progress import Progress
from compaction_operator.api.request import (
    FINAL_REASONS,
    SUCCESS_REASONS,
    UNAVAILABLE_REASONS,
    WAITING_REASONS,
    DriverResult,
    Reason,
)
from compaction_operator.cleanup.settle import STORAGE_ERROR
from compaction_operator.controller.answers import Automatic, Preflight, Trouble
from compaction_operator.controller.kube.draft import Draft
from compaction_operator.controller.kube.driver_pod import DriverEnd, PodTrouble
from compaction_operator.controller.kube.events import Event, EventType
from compaction_operator.controller.kube.job import JobState, JobView, current_job
from compaction_operator.controller.kube.resources import Cleanup, Compaction
from compaction_operator.controller.kube.times import parse_time, rfc3339, seconds_until
from compaction_operator.controller.ownership import NOT_SERVED, Ownership
from compaction_operator.controller.permissions import may_use, refusal

AUTO_COMPACTION_OFF = "AutoCompactionOff"

METASTORE_RETRY = 3.0
"""Seconds to the next preflight after the first one that failed; doubles each time up to WAIT_PAUSE_CAP."""
JOB_CHECK = 30.0
STARTING_CHECK = 5.0
SETTLING_CHECK = 5.0
_OUTAGES: dict[str, Reason] = {reason: reason for reason in UNAVAILABLE_REASONS} | {
    STORAGE_ERROR: Reason.STORAGE_UNAVAILABLE
}
"""The reasons of a cleanup that an outage holds up, with those of its compaction."""
STARTING_LIMIT = 300.0
"""Seconds after which a pod that is only starting is reported: its secret or its volume may be missing."""
EXECUTORS_WAITING = "ExecutorsWaiting"
PROGRESS_PAUSE = 10.0
"""Minimum seconds between two status writes that change only the progress."""
WAIT_PAUSE = 10.0
"""Seconds to the next attempt after the first one that failed for an outside reason; doubles each time up to the
cap."""
WAIT_PAUSE_CAP = 120.0
BACKOFF_CAP = 600.0
FARTHEST = timedelta(seconds=2 * BACKOFF_CAP)
"""No pause ends later than this: such a time was written by a clock that was ahead."""

_OF_THE_FENCED = frozenset({Reason.LOCK_LOST, Reason.TRANSACTION_LOST, Reason.TABLE_CHANGED})
"""Reasons reported by a driver that wakes after its attempt was ended: its lock, transaction or staging is gone."""


class CompactionAction(StrEnum):
    """Action to take after the status is written."""

    NONE = "none"
    PREFLIGHT = "preflight"
    CREATE_JOB = "create job"
    DELETE_JOB = "delete job"
    LOOK_AT_END = "look at the attempt's end"
    END_ATTEMPT = "end the attempt"
    RECORD = "write the receipt"


@dataclass(frozen=True)
class End:
    """State after an attempt's Job has ended or is gone: the driver's end, and all cleanups of the compaction."""

    driver: DriverEnd
    cleanups: tuple[Cleanup, ...]

    @property
    def unsettled(self) -> list[Cleanup]:
        """The cleanups that have not yet determined what was published."""
        return [cleanup for cleanup in self.cleanups if not (cleanup.settled or cleanup.ended)]

    @property
    def published(self) -> list[PartitionEntry]:
        """The entries that any attempt has published."""
        return [entry for cleanup in self.cleanups for entry in _entries(cleanup, PublishedState.PUBLISHED)]


@dataclass(frozen=True)
class CompactionObservation:
    """One observation of the world. `job` None means that the API server was asked and has no such Job.

    `in_line` means that it waits for nothing that is worth a status: its turn comes as soon as a preflight may begin.
    `refused` is why the Job cannot be created, `pod` is what keeps the driver from running, `executors` is what keeps
    its executors from running, and `lost` is why the driver is lost according to the metastore. `recorded` means that
    the receipt of the end is written, or why it is not. `cleanups` are the known ones of a compaction that has ended
    or whose Job is suspended.
    """

    waits_for: str | None = None
    in_line: bool = False
    job: JobView | None = None
    refused: str | None = None
    pod: PodTrouble | None = None
    executors: PodTrouble | None = None
    lost: str | None = None
    job_deleted: bool = False
    progress: Progress | None = None
    verdict: Preflight | None = None
    end: End | None = None
    attempt_ended: bool | Trouble = False
    recorded: bool | Trouble = False
    cleanups: tuple[Cleanup, ...] = ()


@dataclass(frozen=True)
class CompactionDecision:
    """The status to write first, the action that follows, and the requeue delay in seconds.

    `ending` is the status with which the compaction ends once its receipt is written.
    """

    status: TableCompactionStatus
    action: CompactionAction = CompactionAction.NONE
    requeue_after: float | None = None
    events: tuple[Event, ...] = ()
    ending: TableCompactionStatus | None = None


def decide(
    compaction: Compaction, observed: CompactionObservation, *, config: OperatorConfig, now: datetime
) -> CompactionDecision:
    """Return the next step of a compaction.

    An ended one changes only in its observed generation, and in what it shows of its cleanups.
    """
    step = _CompactionStep(compaction, observed, config, now)
    if compaction.ended:
        step.show(observed.cleanups)
        return step.decision()
    return step.attempt_running() if compaction.attempt_running else step.between_attempts()


def leave(compaction: Compaction, *, ownership: Ownership, handled: bool, now: datetime) -> CompactionDecision:
    """Return the next step of a compaction that another operator may own: none, unless no operator writes to it.

    Then it gets one note about that. It does not fail: another operator may be slow, or be installed later. `handled`
    means that another operator has handled a resource of its namespace.
    """
    if compaction.status.conditions:
        return CompactionDecision(compaction.status)
    if (left := ownership.silence(compaction, now, handled=handled)) > 0:
        return CompactionDecision(compaction.status, requeue_after=left)
    step = _CompactionStep(compaction, CompactionObservation(), ownership.config, now)
    return step.not_served(ownership.not_served(compaction.meta.namespace))


def attempt_deadline(compaction: Compaction, config: OperatorConfig) -> datetime | None:
    """Return the deadline of the running attempt, None while it is unknown."""
    warehouse, since = config.warehouse(compaction.spec.warehouse), compaction.status.attempt_start_time
    most = compaction.spec.deadline or (warehouse.deadline if warehouse else None)
    return None if since is None or most is None else parse_time(since) + timedelta(seconds=most)


class _CompactionStep(Draft[TableCompactionStatus]):
    """One decision: the draft of the status to write, and the arguments of `decide`."""

    def __init__(
        self, compaction: Compaction, observed: CompactionObservation, config: OperatorConfig, now: datetime
    ) -> None:
        super().__init__(compaction, now)
        self._compaction = compaction
        self._spec = compaction.spec
        self._observed = observed
        self._config = config
        self._deadline = attempt_deadline(compaction, config)
        profile = config.profile(compaction.spec.spark.profile)
        self._start_timeout = math.inf if profile is None else profile.start_timeout

    def decision(
        self, action: CompactionAction = CompactionAction.NONE, *, requeue_after: float | None = None
    ) -> CompactionDecision:
        return CompactionDecision(self.status, action, requeue_after, tuple(self.events))

    def show(self, cleanups: Sequence[Cleanup]) -> None:
        """Show the phase of the cleanups. What was shown stays once their records are gone."""
        if cleanups:
            self.update(cleanup_phase=_phase_of(cleanups))

    def not_served(self, message: str) -> CompactionDecision:
        """Tell the user of a compaction that no operator handles."""
        self.event(NOT_SERVED, message, EventType.WARNING)
        return self._wait(Phase.WAITING, NOT_SERVED, message)

    def between_attempts(self) -> CompactionDecision:
        """Handle a compaction without a running attempt: fail, wait, or start the next attempt."""
        refused = refusal(self._compaction, self._config)
        if refused is not None:
            return self._fail(refused)
        if self._spec.suspend:
            return self._wait(Phase.SUSPENDED, Reason.SUSPENDED, "spec.suspend is set: no attempt is started")
        due = self._compaction.next_attempt
        if due is not None and due > self.now:
            return self._back_off(due)
        if self._observed.waits_for is not None:
            if self._observed.verdict is not None and self._compaction.preflight_failed:
                self.update(back_off=None)
            message = f"waiting for {self._observed.waits_for}"
            return self._wait(Phase.QUEUED, "Queued", message)
        return CompactionDecision(self._compaction.status) if self._observed.in_line else self._preflight()

    def attempt_running(self) -> CompactionDecision:
        """Handle a recorded attempt: ensure that its Job exists, and judge the attempt once the Job has ended."""
        job, recorded = self._observed.job, self.status.job is not None
        if self.status.attempt_start_time is None:  # written by an older version: count from now on
            self.update(attempt_start_time=rfc3339(self.now))
        going_on = not recorded if job is None else not job.ended
        if self._spec.suspend and self.status.ending is None and going_on:
            return self._give_up(Reason.SUSPENDED, "spec.suspend is set", EventType.NORMAL)
        if job is None and not recorded and self.status.ending is None:
            return self._create_job()
        self.update(job=current_job(self._compaction))
        if job is not None and not job.ended:
            return self._go_on(job)
        if self._observed.end is None:
            return self.decision(CompactionAction.LOOK_AT_END)
        unsettled = self._observed.end.unsettled
        # NB: cleanups without permission are never settled; it may have been revoked meanwhile.
        if unsettled and may_use(self._compaction, self._config):
            return self._settle(unsettled[0])
        return self._judge(self._observed.end)

    def _settle(self, cleanup: Cleanup) -> CompactionDecision:
        """Wait until a cleanup has determined what the attempt published, and show the outage that it waits for."""
        message = f"attempt {self.status.attempt} has ended; {cleanup.meta.name} determines what it published"
        held = find_condition(cleanup.status.conditions, SUCCEEDED)
        reason = None if held is None else _OUTAGES.get(held.reason)
        if held is not None and reason is not None:
            message = f"{message}: {held.message}"
            return self._wait(Phase.WAITING, reason, message, requeue_after=SETTLING_CHECK)
        return self._wait(Phase.RUNNING, "Settling", message, requeue_after=SETTLING_CHECK)

    def _preflight(self) -> CompactionDecision:
        verdict = self._observed.verdict
        if verdict is None:
            return CompactionDecision(self._compaction.status, CompactionAction.PREFLIGHT)
        if verdict.automatic is not None:
            self._report_automatic(verdict.automatic)
        if verdict.reason is None:
            return self._start() if verdict.location == self.status.location else self._note_location(verdict)
        said = DriverResult(reason=verdict.reason, message=verdict.message)
        if verdict.reason in FINAL_REASONS:
            return self._fail(said)
        if verdict.reason is Reason.IN_COMPACTION_QUEUE:
            return self._let_others(said, WAIT_PAUSE)
        return self._let_others(said, METASTORE_RETRY)

    def _let_others(self, obstacle: DriverResult, pause: float) -> CompactionDecision:
        """Back off from an obstacle that a preflight found. Until the next preflight, other compactions may go first.

        NB: without the pause in the status, each event of the compaction would bring another preflight.
        """
        waits = (self.status.back_off.waits if self.status.back_off else 0) + 1
        pause, kept_out = backed_off(pause, waits, cap=WAIT_PAUSE_CAP), self._compaction.kept_out
        return self._hold_off(obstacle, pause, waits=waits, kept_out=kept_out)

    def _note_location(self, verdict: Preflight) -> CompactionDecision:
        """Record the table's location before anything starts: others may use another name of the same table."""
        self.update(location=verdict.location)
        return self._wait(Phase.QUEUED, "Queued", f"the table is at {verdict.location}", requeue_after=0.0)

    def _report_automatic(self, automatic: Automatic) -> None:
        """Report whether Hive compacts the table by itself; if it may, emit an event on each change."""
        outcome, (reason, message) = automatic.outcome, automatic.explain(self._spec.table)
        known = self.find(AUTO_COMPACTION_OFF)
        if outcome is not ConditionStatus.TRUE and (known is None or known.status is not outcome):
            self.event(reason, message, EventType.WARNING)
        self.set(AUTO_COMPACTION_OFF, outcome, reason, message)

    def _start(self) -> CompactionDecision:
        """Record the next attempt.

        NB: its Job is created only afterwards, so that every Job belongs to a counted attempt.
        """
        attempt = self.status.attempt + 1
        self.update(
            attempt=attempt,
            job=None,
            progress=None,
            next_attempt_time=None,
            back_off=None,
            attempt_start_time=rfc3339(self.now),
            start_time=self.status.start_time or rfc3339(self.now),
        )
        message = f"attempt {attempt} of {self._spec.type.noun} of {self._spec.table} started"
        self._report(Phase.RUNNING, "Running", message)
        self.event("Started", message)
        return self.decision(CompactionAction.CREATE_JOB)

    def _create_job(self) -> CompactionDecision:
        refused = refusal(self._compaction, self._config)
        if refused is not None:
            return self._fail(refused)
        if self._observed.refused is None:
            return self.decision(CompactionAction.CREATE_JOB)
        why = f"the job cannot be created: {self._observed.refused}"
        if self._is_overdue():
            return self._give_up(Reason.DEADLINE_EXCEEDED, self._overdue(why))
        if self._is_late(self.status.attempt_start_time):
            return self._give_up(Reason.JOB_NOT_CREATED, self._late(why))
        message = f"attempt {self.status.attempt}: {why}"
        return self._wait(Phase.WAITING, "JobNotCreated", message, requeue_after=STARTING_CHECK)

    def _go_on(self, job: JobView) -> CompactionDecision:
        """Handle a Job that has not ended."""
        if self.status.ending is not None:
            return self._delete_job(self.status.ending)
        if job.suspended:
            return self._wait_in_queue(job)
        if self.status.progress is not None and self._waited_until(job.resumed):
            return self._give_up(Reason.PREEMPTED, f"job {job.name} was suspended while it ran, and resumed")
        return self._watch_job(job)

    def _watch_job(self, job: JobView) -> CompactionDecision:
        self._count_from(job.resumed)
        if self._observed.lost is not None:
            return self._give_up(Reason.DRIVER_LOST, self._observed.lost)
        if self._is_overdue():
            return self._give_up(Reason.DEADLINE_EXCEEDED, self._overdue(self._seen_of_driver()))
        requeue_after = min(JOB_CHECK if job.ready else STARTING_CHECK, self._follow_progress())
        if self._deadline is not None:
            requeue_after = min(requeue_after, seconds_until(self._deadline, self.now))
        trouble, executors = self._observed.pod, self._observed.executors
        # NB: the pod of a driver that has run may be gone before its Job has failed.
        progress = self._observed.progress or self.status.progress
        if trouble is not None and progress is None and self._is_late(self.status.attempt_start_time):
            return self._give_up(trouble.cause, self._late(f"the driver is waiting: {trouble}"))
        if trouble is None and executors is not None:
            return self._executors_wait(executors, requeue_after)
        what = f"is waiting: {trouble}" if trouble else "is running"
        message = f"attempt {self.status.attempt}: job {job.name} {what}"
        if trouble is None or (trouble.passing and self._waited(self.status.attempt_start_time) < STARTING_LIMIT):
            self.update(pod_trouble=None)
            return self._wait(Phase.RUNNING, "Running", message, requeue_after=requeue_after)
        return self._cannot_start(trouble.reason, trouble, message, requeue_after)

    def _wait_in_queue(self, job: JobView) -> CompactionDecision:
        """Wait until a queue, such as Kueue's, lets the Job start its driver; nothing counts meanwhile.

        A driver that has run has lost its pod: a later one belongs to an attempt of its own, which has its own Job.
        """
        where = f"queue {job.queue}" if job.queue else "what suspended it"
        journals = [one.spec.compaction.attempt for one in self._observed.cleanups]
        if (self._observed.progress or self.status.progress) is not None or self.status.attempt in journals:
            return self._give_up(Reason.PREEMPTED, f"job {job.name} was suspended while it ran, by {where}")
        self.update(pod_trouble=None)
        message = f"attempt {self.status.attempt}: job {job.name} is suspended: it waits for {where}"
        return self._wait(Phase.QUEUED, "Queued", message, requeue_after=JOB_CHECK)

    def _count_from(self, resumed: str | None) -> None:
        """Count the attempt's times from when its Job had leave to start."""
        if waited := self._waited_until(resumed):
            self.update(attempt_start_time=resumed)
            if self._deadline is not None:
                self._deadline += waited

    def _waited_until(self, resumed: str | None) -> timedelta | None:
        """Return how long the Job was suspended after the time from which the attempt counts; None if it was not."""
        since = self.status.attempt_start_time
        if resumed is None or since is None:
            return None
        return max(parse_time(resumed) - parse_time(since), timedelta()) or None

    def _executors_wait(self, trouble: PodTrouble, requeue_after: float) -> CompactionDecision:
        """Report that no executor runs. With Auto, the driver itself goes on without them after a while."""
        known, asked = self.status.pod_trouble, self._spec.spark.executors.asked
        if asked and known is not None and known.reason == EXECUTORS_WAITING and self._is_late(known.since):
            why = self._late(f"its executors are waiting: {trouble}")
            return self._give_up(Reason.EXECUTORS_NOT_STARTED, why)
        message = f"attempt {self.status.attempt}: its executors are waiting: {trouble}"
        return self._cannot_start(EXECUTORS_WAITING, trouble, message, requeue_after)

    def _cannot_start(self, reason: str, trouble: PodTrouble, message: str, requeue_after: float) -> CompactionDecision:
        """Report pods that cannot start, with one event.

        NB: one cause has several reasons (ErrImagePull, ImagePullBackOff).
        """
        known = self.status.pod_trouble
        if known is None:
            self.event(reason, message, EventType.WARNING)
        since = known.since if known is not None else rfc3339(self.now)
        self.update(pod_trouble=Obstacle(reason=reason, message=trouble.message, since=since))
        return self._wait(Phase.WAITING, reason, message, requeue_after=requeue_after)

    def _waited(self, since: str | None) -> float:
        """Return the seconds since a time; 0 if it is unknown."""
        return 0.0 if since is None else (self.now - parse_time(since)).total_seconds()

    def _is_late(self, since: str | None) -> bool:
        """Whether pods have been waited for since then for longer than the profile allows."""
        return self._waited(since) >= self._start_timeout

    def _late(self, seen: str) -> str:
        return f"not started within {format_duration(self._start_timeout)}: {seen}"

    def _is_overdue(self) -> bool:
        return self._deadline is not None and self._deadline <= self.now

    def _overdue(self, seen: str) -> str:
        return f"deadline {rfc3339(self._deadline or self.now)} exceeded: {seen}"

    def _seen_of_driver(self) -> str:
        """Describe the state of an attempt at its deadline."""
        if self._observed.pod is not None:
            return f"the driver is waiting: {self._observed.pod}"
        progress = self._observed.progress or self.status.progress
        far = f"the driver is running ({progress})" if progress else "the driver is running without reported progress"
        return f"{far}; its executors are waiting: {self._observed.executors}" if self._observed.executors else far

    def _give_up(self, reason: Reason, why: str, type_: EventType = EventType.WARNING) -> CompactionDecision:
        """Record why the attempt ends. NB: its Job is deleted only afterwards, so that a restart can continue."""
        ending = Why(reason=reason, message=why)
        self.update(ending=ending, job=current_job(self._compaction))
        self.event(reason, f"ending attempt {self.status.attempt}: {why}", type_)
        return self._delete_job(ending)

    def _delete_job(self, ending: Why) -> CompactionDecision:
        """Delete the Job, and poll until it is gone; finalizers of other controllers may delay that."""
        self._report(Phase.RUNNING, ending.reason, f"ending the attempt: {ending.message}")
        if self._observed.job_deleted:
            return self.decision(requeue_after=STARTING_CHECK)
        return self.decision(CompactionAction.DELETE_JOB)

    def _follow_progress(self) -> float:
        """Show new driver progress once the pause is over; return the requeue delay in seconds."""
        seen, shown = self._observed.progress, self.status.progress
        if seen is None or (shown is not None and shown.shows(seen)):
            return JOB_CHECK
        if shown is not None:
            due = parse_time(shown.last_update_time) + timedelta(seconds=PROGRESS_PAUSE)
            if due > self.now:
                return seconds_until(due, self.now)
        self._show(seen)
        return JOB_CHECK

    def _show(self, progress: Progress) -> None:
        shown = self.status.progress
        if shown is None or not shown.shows(progress):
            self.update(progress=ProgressStatus.of(progress, at=rfc3339(self.now)))

    def _judge(self, end: End) -> CompactionDecision:
        last = end.driver.progress or self.status.progress
        if last is not None:
            self._show(last.stopped())
        self._record(end)
        failure = self._failure(end)
        if failure is None:
            return self._succeed(self._done(end))
        if self._observed.attempt_ended is not True:
            return self._end_attempt(self._observed.attempt_ended)
        if failure.reason in FINAL_REASONS:
            return self._fail(self._at_last(failure, end))
        return self._pause(failure) if failure.reason in WAITING_REASONS else self._count(failure, end)

    def _record(self, end: End) -> None:
        if not self._compaction.is_hudi:
            self.show(end.cleanups)
            self.update(
                cleanups=tuple(cleanup.meta.name for cleanup in end.cleanups),
                totals=sum((entry.totals for entry in end.published), Totals()),
                forecast=sum((entry.forecast for entry in end.published), Forecast()),
                cpu_milliseconds=sum(entry.cpu_milliseconds for entry in end.published),
            )
        elif end.driver.result is not None and end.driver.result.hudi is not None:
            self.update(hudi=end.driver.result.hudi)

    def _failure(self, end: End) -> DriverResult | None:
        """Return why the attempt failed, None if it did not.

        NB: what is published is computed, never taken from a report.
        """
        if end.unsettled:
            return refusal(self._compaction, self._config)
        job, ending = self._observed.job, self.status.ending
        succeeded = job is not None and job.state is JobState.SUCCEEDED
        missing = [entry for one in self._of_attempt(end) for entry in _entries(one, PublishedState.NOT_PUBLISHED)]
        if succeeded and not missing:
            return None
        if ending is not None:
            return DriverResult(reason=Reason(ending.reason), message=ending.message)
        result, cause = end.driver.result, end.driver.cause
        if succeeded:
            where = missing[0].partition or self._spec.table
            why, message = Reason.DRIVER_FAILED, f"the driver succeeded, but {where} is not published"
        elif result is not None and result.reason in _OF_THE_FENCED and self._was_lost(end):
            why, message = Reason.DRIVER_LOST, f"the driver was lost and came back: {result.message}"
        elif result is not None and result.reason not in SUCCESS_REASONS:
            return cause if cause is not None and result.reason is Reason.INTERRUPTED else result
        elif job is None:
            why = Reason.JOB_GONE
            message = f"job {current_job(self._compaction)} was deleted; the next attempt determines what is left"
        else:
            return cause or DriverResult(reason=Reason.DRIVER_FAILED, message=end.driver.seen)
        return DriverResult(reason=why, message=message)

    def _was_lost(self, end: End) -> bool:
        """Return whether a cleanup treated the attempt's driver as lost and ended what it held."""
        return any(cleanup.status.driver_lost_time is not None for cleanup in self._of_attempt(end))

    def _of_attempt(self, end: End) -> Iterator[Cleanup]:
        return (found for found in end.cleanups if found.spec.compaction.attempt == self.status.attempt)

    def _end_attempt(self, trouble: Literal[False] | Trouble) -> CompactionDecision:
        """Remove the staging and locks of a failed attempt before it is judged; retry until that works."""
        if trouble is False:
            return CompactionDecision(self._compaction.status, CompactionAction.END_ATTEMPT)
        message = f"attempt {self.status.attempt} failed; removing what it left behind: {trouble.message}"
        return self._wait(Phase.WAITING, "CleaningUp", message, requeue_after=SETTLING_CHECK)

    def _done(self, end: End) -> DriverResult:
        """Return the successful result; on a Hudi table the driver's report, without which the Job still succeeded.

        NB: of a Hive table the report only says why deltas were not merged, or why there was nothing to merge; without
        it nothing else is different.
        """
        if self._compaction.is_hudi:
            lost = "the driver succeeded, but its report is lost; the table's timeline shows what it did"
            return end.driver.result or DriverResult(reason=Reason.COMPACTED, message=lost)
        result = end.driver.result
        apart = f"; {result.apart}" if result is not None and result.apart else ""
        if not end.published:
            idle = result is not None and result.reason is Reason.NOTHING_TO_COMPACT
            why = result.message if result is not None and idle else "nothing to compact"
            return DriverResult(reason=Reason.NOTHING_TO_COMPACT, message=f"{why}{apart}")
        return DriverResult(reason=Reason.COMPACTED, message=f"{self.status.totals or Totals()}{apart}")

    def _succeed(self, done: DriverResult) -> CompactionDecision:
        if self.status.progress is not None:
            # NB: the driver's last progress report may be lost; its success means that all work is done.
            self._show(self.status.progress.completed())
        return self._end(Phase.SUCCEEDED, done)

    def _pause(self, failure: DriverResult) -> CompactionDecision:
        if self.status.ending is None:  # otherwise there was an event when its end began
            self.event(failure.reason, f"attempt {self.status.attempt} ended: {failure.message}", EventType.WARNING)
        if failure.reason is Reason.SUSPENDED:
            return self._hold_off(failure, 0.0)  # once it is resumed, nothing is left to wait for
        pause = backed_off(WAIT_PAUSE, self.status.attempt - self.status.failed_attempts, cap=WAIT_PAUSE_CAP)
        return self._hold_off(failure, pause)

    def _count(self, failure: DriverResult, end: End) -> CompactionDecision:
        failed, most = self.status.failed_attempts + 1, self._spec.retry.max_attempts
        if failure.reason is Reason.OOM_KILLED:
            self.update(oom_killed=True)
        self.update(failed_attempts=failed)
        text = f"attempt {self.status.attempt} failed ({failed} of {most}): {failure.message}"
        self.event("AttemptFailed", f"{failure.reason}: {text}", EventType.WARNING)
        if failed >= most:
            reason = Reason.ATTEMPTS_EXHAUSTED if failure.reason is Reason.DRIVER_FAILED else failure.reason
            return self._fail(self._at_last(DriverResult(reason=reason, message=text), end))
        pause = backed_off(self._spec.retry.backoff, failed, cap=BACKOFF_CAP)
        return self._hold_off(DriverResult(reason=failure.reason, message=text), pause)

    def _hold_off(
        self, why: DriverResult, pause: float, *, waits: int = 0, kept_out: bool = False
    ) -> CompactionDecision:
        """Start nothing for `pause` seconds, and record why."""
        self.update(
            next_attempt_time=rfc3339(self.now + timedelta(seconds=pause)),
            back_off=BackOff(reason=why.reason, message=why.message, waits=waits, kept_out=kept_out),
            ending=None,
            pod_trouble=None,
        )
        return self._wait(Phase.WAITING, why.reason, why.message, requeue_after=pause)

    def _at_last(self, failure: DriverResult, end: End) -> DriverResult:
        """Return the result of a compaction that fails for good; part of it may be published.

        NB: where two compactions overlap, compacting the rest is no remedy.
        """
        if not end.published or failure.reason is Reason.OVERLAPPED:
            return failure
        text = f"{self.status.totals or Totals()}; the rest is not published: {failure.message}"
        return DriverResult(reason=Reason.PARTIALLY_PUBLISHED, message=text)

    def _fail(self, why: DriverResult) -> CompactionDecision:
        return self._end(Phase.FAILED, why)

    def _end(self, phase: Phase, why: DriverResult) -> CompactionDecision:
        self.update(
            phase=phase,
            completion_time=rfc3339(self.now),
            next_attempt_time=None,
            back_off=None,
            ending=None,
            pod_trouble=None,
        )
        self.conclude(why.reason, why.message, success=phase is Phase.SUCCEEDED)
        return self.decision() if self._is_recorded() else self._ask_to_record(self.status)

    def _is_recorded(self) -> bool:
        """Whether the end has its receipt, or needs none: no attempt was made, or the warehouse keeps none."""
        warehouse = self._config.warehouse(self._spec.warehouse)
        needs_one = self.status.attempt > 0 and warehouse is not None and warehouse.receipts is not None
        return self._observed.recorded is True or not needs_one

    def _ask_to_record(self, ending: TableCompactionStatus) -> CompactionDecision:
        """Ask for the receipt before the end is in the status: after it, a restart would not write it any more."""
        trouble = self._observed.recorded
        if not isinstance(trouble, Trouble):
            return CompactionDecision(self._compaction.status, CompactionAction.RECORD, ending=ending)
        again = _CompactionStep(self._compaction, self._observed, self._config, self.now)
        return again._wait(Phase.WAITING, trouble.reason, trouble.message, requeue_after=SETTLING_CHECK)

    def _back_off(self, due: datetime) -> CompactionDecision:
        """Report why the compaction backs off. NB: a status written by an older version does not record the reason."""
        if due > self.now + FARTHEST:
            due = self.now + timedelta(seconds=WAIT_PAUSE)
            self.update(next_attempt_time=rfc3339(due))
        why = self.status.back_off or BackOff(reason="BackOff", message=f"next attempt at {rfc3339(due)}")
        return self._wait(Phase.WAITING, why.reason, why.message, requeue_after=seconds_until(due, self.now))

    def _wait(
        self, phase: Phase, reason: str, message: str, *, requeue_after: float | None = None
    ) -> CompactionDecision:
        self._report(phase, reason, message)
        return self.decision(requeue_after=requeue_after)

    def _report(self, phase: Phase, reason: str, message: str) -> None:
        self.set(SUCCEEDED, ConditionStatus.UNKNOWN, reason, message)
        self.update(phase=phase)


def _phase_of(cleanups: Sequence[Cleanup]) -> CleanupPhase | None:
    """Return the phase of the cleanup that needs attention most: one that failed, else one that is not done.

    None if all are done and none had anything to delete, because their attempts published nothing.
    """
    phases = [cleanup.status.phase for cleanup in cleanups if not _had_nothing_to_do(cleanup)]
    if CleanupPhase.FAILED in phases:
        return CleanupPhase.FAILED
    done = CleanupPhase.SUCCEEDED if phases else None
    return next((phase for phase in phases if phase is not CleanupPhase.SUCCEEDED), done)


def _had_nothing_to_do(cleanup: Cleanup) -> bool:
    states = {found.state for found in cleanup.status.partitions}
    return cleanup.status.phase is CleanupPhase.SUCCEEDED and bool(states) and PublishedState.PUBLISHED not in states


def _entries(cleanup: Cleanup, state: PublishedState) -> Iterator[PartitionEntry]:
    states = {found.partition: found.state for found in cleanup.status.partitions}
    return (entry for entry in cleanup.spec.partitions if states.get(entry.partition) is state)
