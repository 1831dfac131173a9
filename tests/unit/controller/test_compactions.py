"""Every transition of a TableCompaction, decided from its status and from what was seen."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from compaction_operator.api.compaction import CleanupPhase, TableCompactionStatus
from compaction_operator.api.conditions import Condition, ConditionStatus, find_condition
from compaction_operator.api.progress import Progress
from compaction_operator.api.request import FINAL_REASONS, WAITING_REASONS, DriverResult, Reason
from compaction_operator.controller.answers import Automatic, Preflight
from compaction_operator.controller.compaction.decide import (
    CompactionAction,
    CompactionDecision,
    CompactionObservation,
    End,
    decide,
)
from compaction_operator.controller.kube.driver_pod import DriverEnd, PodTrouble
from compaction_operator.controller.kube.events import EventType
from compaction_operator.controller.kube.job import JobState, JobView, job_name
from compaction_operator.controller.kube.resources import Compaction, read_compaction
from compaction_operator.controller.kube.times import rfc3339
from compaction_operator.metastore import AutoCompaction
from tests.unit.controller.sandbox import CONFIG, NOON, REFUSED, baseline, cleanup, compaction, entry_json

JOB = job_name(compaction="nightly", uid="uid-default-nightly", attempt=1)
OK = Preflight()
UNSCHEDULABLE = PodTrouble("Unschedulable", "0/1 nodes")


def view(state: JobState = JobState.ACTIVE, *, ready: bool = True) -> JobView:
    return JobView(namespace="default", name=JOB, resource_version=5, compaction="nightly", state=state, ready=ready)


def end(*, result: DriverResult | None = None, seen: str = "the driver exited with code 1", cleanups: Any = ()) -> End:
    return End(DriverEnd(result, seen), tuple(cleanups))


def journal(state: str | None = "Published", *, attempt: int = 1, partition: str = "prt=p1") -> Any:
    """A cleanup of the compaction, settled unless the state is None."""
    status: dict[str, Any] = {}
    if state is not None:
        partitions = [{"partition": partition, "state": state}]
        status = {"baseline": baseline().to_json(), "partitions": partitions}
    return cleanup(name=f"nightly-{attempt}-0", attempt=attempt, entries=[entry_json(partition)], status=status)


def step(
    status: dict[str, Any], observed: CompactionObservation, *, now: datetime = NOON, **fields: Any
) -> CompactionDecision:
    return decide(compaction(status=status, **fields), observed, config=CONFIG, now=now)


def succeeded(decision: CompactionDecision) -> tuple[str, str, str]:
    condition = find_condition(decision.status.conditions, "Succeeded")
    assert condition is not None
    return condition.status.value, condition.reason, decision.status.phase.value


RUNNING = {"attempt": 1, "job": JOB}
BACKING_OFF = {"attempt": 1, "job": JOB, "failedAttempts": 1, "nextAttemptTime": "2026-01-01T12:00:10Z"}


@pytest.mark.parametrize(
    ("fields", "reason", "named"),
    [
        ({"warehouse": "sea"}, "UnknownWarehouse", "unknown warehouse 'sea'; configured: lake"),
        ({"spark": {"profile": "huge"}}, "UnknownProfile", "unknown profile 'huge'; configured: default"),
        ({"namespace": "kube-system"}, "NotAllowed", "namespace kube-system"),
        ({"table": {"database": "hr", "name": "t"}}, "NotAllowed", "database hr"),
        (
            {"cleanup": {"readers": "LocksAndOwnTransactions"}},
            "NotAllowed",
            "LocksAndOwnTransactions is not allowed for warehouse lake; allowed: LocksAndTransactions, Locks",
        ),
    ],
)
@pytest.mark.parametrize("status", [{}, BACKING_OFF, {"attempt": 1}])
def test_what_the_configuration_does_not_allow_fails_for_good(
    fields: dict[str, Any], reason: str, named: str, status: dict[str, Any]
) -> None:
    """Before anything is asked of the metastore; also when the configuration was changed between two steps."""
    decision = step(status, CompactionObservation(), **fields)
    assert succeeded(decision) == ("False", reason, "Failed")
    assert named in decision.status.conditions[0].message
    assert decision.status.completion_time == "2026-01-01T12:00:00Z"
    assert decision.action is CompactionAction.NONE
    assert decision.events[0].type == "Warning"


def test_its_turn_asks_the_metastore_first() -> None:
    """Nothing is written yet: a restart asks again."""
    decision = step({}, CompactionObservation())
    assert decision.action is CompactionAction.PREFLIGHT
    assert decision.status.attempt == 0


@pytest.mark.parametrize("reason", sorted(FINAL_REASONS))
def test_refused_by_the_preflight(reason: Reason) -> None:
    decision = step({}, CompactionObservation(verdict=Preflight(reason, "table sales.orders is odd")))
    assert succeeded(decision) == ("False", reason.value, "Failed")
    assert decision.status.conditions[0].message == "table sales.orders is odd"
    assert (decision.action, decision.status.attempt) == (CompactionAction.NONE, 0)


def test_metastore_down() -> None:
    """Not failed, not counted, asked again soon."""
    decision = step({}, CompactionObservation(verdict=Preflight(Reason.METASTORE_UNAVAILABLE, "refused")))
    assert succeeded(decision) == ("Unknown", "MetastoreUnavailable", "Waiting")
    assert decision.status.failed_attempts == 0
    assert decision.requeue_after is not None
    assert decision.requeue_after <= 5


def test_an_attempt_is_recorded_before_its_job_is_created() -> None:
    decision = step({}, CompactionObservation(verdict=OK))
    assert (decision.status.attempt, decision.status.job) == (1, None)
    assert decision.status.start_time == "2026-01-01T12:00:00Z"
    assert decision.action is CompactionAction.CREATE_JOB
    assert [event.reason for event in decision.events] == ["Started"]


def test_the_next_attempt_forgets_the_last_ones_job() -> None:
    status = {**BACKING_OFF, "startTime": "2026-01-01T11:00:00Z"}
    decision = step(status, CompactionObservation(verdict=OK), now=NOON + timedelta(seconds=10))
    assert (decision.status.attempt, decision.status.job, decision.status.next_attempt_time) == (2, None, None)
    assert decision.status.start_time == "2026-01-01T11:00:00Z"


def test_queued_names_whom_it_waits_for() -> None:
    decision = step({}, CompactionObservation(waits_for="compaction other/a, which comes first"))
    assert succeeded(decision) == ("Unknown", "Queued", "Queued")
    assert decision.status.conditions[0].message == "waiting for compaction other/a, which comes first"
    assert decision.action is CompactionAction.NONE


@pytest.mark.parametrize("status", [{}, BACKING_OFF])
def test_suspended_starts_nothing(status: dict[str, Any]) -> None:
    decision = step(status, CompactionObservation(), suspend=True, now=NOON + timedelta(hours=1))
    assert succeeded(decision) == ("Unknown", "Suspended", "Suspended")
    assert decision.action is CompactionAction.NONE


def test_backing_off_keeps_saying_why() -> None:
    failed = step(RUNNING, CompactionObservation(job=view(JobState.FAILED), end=end(), attempt_ended=True)).status
    later = step(failed.to_json(), CompactionObservation(), now=NOON + timedelta(seconds=4))
    assert later.status == failed
    assert (later.action, later.requeue_after) == (CompactionAction.NONE, 6.0)


def test_after_a_suspension_it_says_again_why_the_last_attempt_failed() -> None:
    failed = step(RUNNING, CompactionObservation(job=view(JobState.FAILED), end=end(), attempt_ended=True)).status
    held = step(failed.to_json(), CompactionObservation(), suspend=True).status
    assert succeeded(step(held.to_json(), CompactionObservation())) == succeeded(CompactionDecision(failed)) == (
        "Unknown", "DriverFailed", "Waiting",
    )  # fmt: skip


def test_a_status_of_an_older_version_says_when_it_goes_on() -> None:
    """It has no field for why it waits; it waits for as long, and counts what was counted."""
    decision = step(BACKING_OFF, CompactionObservation())
    assert succeeded(decision) == ("Unknown", "BackOff", "Waiting")
    assert decision.status.conditions[0].message == "next attempt at 2026-01-01T12:00:10Z"
    assert (decision.requeue_after, decision.status.failed_attempts) == (10.0, 1)


@pytest.mark.parametrize("said", ["InCompactionQueue", "Queued", "Suspended"])
def test_no_words_of_a_condition_decide_anything(said: str) -> None:
    """People read them: what a decision rests on has a field of its own."""
    words = {"type": "Succeeded", "status": "Unknown", "reason": said, "lastTransitionTime": "2026-01-01T12:00:00Z"}
    held = {"attempt": 1, "nextAttemptTime": "2026-01-01T12:00:10Z", "backOff": {"reason": "InCompactionQueue"}}
    mine = compaction(status={**held, "conditions": [words]})
    assert mine.kept_out
    assert succeeded(decide(mine, CompactionObservation(), config=CONFIG, now=NOON)) == (
        "Unknown",
        "InCompactionQueue",
        "Waiting",
    )
    assert not compaction(status={"attempt": 1, "conditions": [words]}).kept_out


def test_crashed_before_the_job_was_created() -> None:
    """The attempt is recorded and there is no Job: it is created now, as the same attempt."""
    decision = step({"attempt": 1}, CompactionObservation())
    assert (decision.action, decision.status.attempt) == (CompactionAction.CREATE_JOB, 1)
    assert decision.events == ()


def test_crashed_before_the_job_was_recorded() -> None:
    decision = step({"attempt": 1}, CompactionObservation(job=view()))
    assert (decision.status.job, decision.action) == (JOB, CompactionAction.NONE)


def test_a_driver_that_does_not_start_says_why() -> None:
    decision = step(RUNNING, CompactionObservation(job=view(ready=False), pod=UNSCHEDULABLE))
    assert succeeded(decision) == ("Unknown", "Unschedulable", "Waiting")
    assert "Unschedulable: 0/1 nodes" in decision.status.conditions[0].message
    assert decision.requeue_after == 5.0


def test_a_driver_that_does_not_start_is_an_event_once() -> None:
    """Not once more for each of the names that one trouble goes by; again when it comes back."""
    status: dict[str, Any] = dict(RUNNING)
    pulls = [PodTrouble(reason, "no such image") for reason in ("ErrImagePull", "ImagePullBackOff", "ErrImagePull")]
    starts = [PodTrouble("ContainerCreating"), None]
    told = []
    for pod in [*starts, *pulls, *starts, UNSCHEDULABLE, UNSCHEDULABLE]:
        decision = step(status, CompactionObservation(job=view(ready=False), pod=pod))
        told += [(event.reason, event.type.value) for event in decision.events]
        assert decision.status.phase == ("Running" if pod in starts else "Waiting")
        status = decision.status.to_json()
    assert told == [("ErrImagePull", "Warning"), ("Unschedulable", "Warning")]


def test_a_pod_that_only_starts_is_reported_when_it_takes_too_long() -> None:
    """Its secret may be missing, or its volume: the kubelet then says no more than that it creates the container."""
    observed = CompactionObservation(job=view(ready=False), pod=PodTrouble("ContainerCreating"))
    for minutes, expected in [(4, ("Unknown", "Running", "Running")), (5, ("Unknown", "ContainerCreating", "Waiting"))]:
        decision = step(STARTED, observed, now=NOON + timedelta(minutes=minutes))
        assert succeeded(decision) == expected
        assert len(decision.events) == (expected[2] == "Waiting")


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Unschedulable", "Unschedulable"),
        ("SchedulingGated", "Unschedulable"),
        ("ErrImagePull", "ImagePullFailed"),
        ("ImagePullBackOff", "ImagePullFailed"),
        ("InvalidImageName", "ImagePullFailed"),
        ("CreateContainerConfigError", "PodNotStarted"),
        ("ContainerCreating", "PodNotStarted"),
    ],
)
def test_a_driver_that_does_not_start_in_time_gives_its_slot_back(reason: str, cause: str) -> None:
    """It is tried again for as long as it takes: the cluster may be full, or the registry away."""
    observed = CompactionObservation(job=view(ready=False), pod=PodTrouble(reason, "words"))
    before = step(STARTED, observed, now=NOON + timedelta(minutes=29))
    assert before.action is CompactionAction.NONE
    decision = step(STARTED, observed, now=NOON + timedelta(minutes=30))
    assert decision.action is CompactionAction.DELETE_JOB
    assert decision.status.ending is not None
    said = f"not started within 1800s: the driver is waiting: {reason}: words"
    assert decision.status.ending.to_json() == {"reason": cause, "message": said}
    assert [event.reason for event in decision.events] == [cause]
    gone = CompactionObservation(job=None, end=end(), attempt_ended=True)
    paused = step(decision.status.to_json(), gone, now=NOON + timedelta(minutes=31))
    assert succeeded(paused) == ("Unknown", cause, "Waiting")
    assert (paused.status.failed_attempts, paused.events, paused.requeue_after) == (0, (), 10.0)


def test_a_driver_that_has_run_is_not_taken_for_one_that_does_not_start() -> None:
    """Its pod may be gone before its Job has failed."""
    gone = CompactionObservation(job=view(ready=False), pod=PodTrouble("PodNotCreated", "no pod"))
    decision = step({**STARTED, "progress": SHOWN}, gone, now=NOON + timedelta(hours=2))
    assert decision.status.ending is None


def test_a_job_that_cannot_be_created_in_time_gives_its_slot_back() -> None:
    status = {"attempt": 1, "attemptStartTime": "2026-01-01T12:00:00Z"}
    decision = step(status, CompactionObservation(refused="exceeded quota"), now=NOON + timedelta(minutes=30))
    assert decision.status.ending is not None
    assert decision.status.ending.reason == "JobNotCreated"


def test_executors_that_do_not_start_are_reported_with_one_event() -> None:
    status, told = STARTED, []
    waits = CompactionObservation(job=view(), executors=UNSCHEDULABLE)
    for seconds, observed in enumerate([waits, waits, CompactionObservation(job=view()), waits]):
        decision = step(status, observed, now=NOON + timedelta(seconds=seconds))
        told += [event.reason for event in decision.events]
        phase = "Waiting" if observed is waits else "Running"
        assert succeeded(decision) == ("Unknown", "ExecutorsWaiting" if observed is waits else "Running", phase)
        status = decision.status.to_json()
    assert told == ["ExecutorsWaiting", "ExecutorsWaiting"]
    assert status["podTrouble"] == {
        "reason": "ExecutorsWaiting",
        "message": "0/1 nodes",
        "since": "2026-01-01T12:00:03Z",
    }


@pytest.mark.parametrize(("instances", "ended"), [(2, True), ("Auto", False)])
def test_executors_that_do_not_start_in_time_end_the_attempt_that_asks_for_them(instances: object, ended: bool) -> None:
    """With Auto the driver itself goes on without them."""
    waits, spark = CompactionObservation(job=view(), executors=UNSCHEDULABLE), {"executors": {"instances": instances}}
    first = step(STARTED, waits, now=NOON + timedelta(hours=1), spark=spark).status
    before = step(first.to_json(), waits, now=NOON + timedelta(minutes=89), spark=spark)
    assert before.status.ending is None
    late = step(first.to_json(), waits, now=NOON + timedelta(minutes=90), spark=spark)
    assert (late.status.ending is not None) is ended
    if late.status.ending is not None:
        assert late.status.ending.reason == "ExecutorsNotStarted"
        assert late.status.ending.message.endswith("its executors are waiting: Unschedulable: 0/1 nodes")


HELD = replace(view(ready=False), suspended=True, queue="nightly")


def test_a_job_that_its_queue_holds_back_waits_without_a_time_limit() -> None:
    """Neither the profile's time for starting nor the deadline counts: it has no leave to start."""
    decision = step(STARTED, CompactionObservation(job=HELD), now=NOON + timedelta(days=9), deadline="1h")
    assert succeeded(decision) == ("Unknown", "Queued", "Queued")
    message = f"attempt 1: job {JOB} is suspended: it waits for queue nightly"
    assert decision.status.conditions[-1].message == message
    assert (decision.action, decision.events, decision.status.ending) == (CompactionAction.NONE, (), None)
    nameless = step(STARTED, CompactionObservation(job=replace(HELD, queue=None)))
    assert nameless.status.conditions[-1].message.endswith("it waits for what suspended it")


@pytest.mark.parametrize(("minutes", "ended"), [(29, None), (30, "Unschedulable")])
def test_the_time_for_starting_counts_from_when_the_queue_lets_it_go(minutes: int, ended: str | None) -> None:
    resumed = replace(view(ready=False), resumed="2026-01-02T12:00:00Z")
    now = NOON + timedelta(days=1, minutes=minutes)
    decision = step(STARTED, CompactionObservation(job=resumed, pod=UNSCHEDULABLE), now=now)
    assert decision.status.attempt_start_time == "2026-01-02T12:00:00Z"
    assert (decision.status.ending and decision.status.ending.reason) == ended


@pytest.mark.parametrize(("minutes", "ended"), [(59, None), (60, "DeadlineExceeded")])
def test_the_deadline_counts_from_when_the_queue_lets_it_go(minutes: int, ended: str | None) -> None:
    observed = CompactionObservation(job=replace(view(), resumed="2026-01-02T12:00:00Z"))
    decision = step(STARTED, observed, now=NOON + timedelta(days=1, minutes=minutes), deadline="1h")
    assert (decision.status.ending and decision.status.ending.reason) == ended


def test_a_driver_that_its_queue_stops_makes_room_for_the_next_attempt() -> None:
    """Its Job would start another driver in the same attempt. It did nothing wrong, so it does not count."""
    decision = step({**STARTED, "progress": SHOWN}, CompactionObservation(job=HELD))
    assert decision.action is CompactionAction.DELETE_JOB
    assert decision.status.ending is not None
    said = f"job {JOB} was suspended while it ran, by queue nightly"
    assert decision.status.ending.to_json() == {"reason": "Preempted", "message": said}
    gone = CompactionObservation(job=None, end=end(), attempt_ended=True)
    paused = step(decision.status.to_json(), gone)
    assert (succeeded(paused)[1], paused.status.failed_attempts) == ("Preempted", 0)


def test_a_driver_that_was_stopped_and_let_go_unseen_makes_room_for_the_next_attempt() -> None:
    """A controller that was away sees only that the Job may start later than what its driver reported."""
    observed = CompactionObservation(job=replace(view(), resumed="2026-01-02T12:00:00Z"))
    decision = step({**STARTED, "progress": SHOWN}, observed, now=NOON + timedelta(days=1))
    assert decision.status.ending is not None
    assert decision.status.ending.reason == "Preempted"


def test_a_driver_with_a_journal_has_run_whatever_it_reported() -> None:
    journal = cleanup(attempt=1)
    for attempt, ended in ((1, "Preempted"), (2, None)):
        observed = CompactionObservation(job=HELD, cleanups=(journal,))
        decision = step({**STARTED, "attempt": attempt}, observed)
        assert (decision.status.ending and decision.status.ending.reason) == ended


def test_a_suspended_compaction_does_not_wait_in_a_queue() -> None:
    decision = step(STARTED, CompactionObservation(job=HELD), suspend=True)
    assert decision.action is CompactionAction.DELETE_JOB


# --- An attempt that is ended


STARTED = {**RUNNING, "attemptStartTime": "2026-01-01T12:00:00Z"}
DAY = timedelta(hours=24)
LOST = "its lock 4 had no heartbeat since 2026-01-01T12:00:00Z"


def test_an_attempt_knows_when_it_was_started() -> None:
    """The next one counts from its own start."""
    assert step({}, CompactionObservation(verdict=OK)).status.attempt_start_time == "2026-01-01T12:00:00Z"
    again = step({**STARTED, **BACKING_OFF}, CompactionObservation(verdict=OK), now=NOON + timedelta(seconds=10)).status
    assert (again.attempt_start_time, again.start_time) == ("2026-01-01T12:00:10Z", "2026-01-01T12:00:10Z")


@pytest.mark.parametrize(
    ("fields", "most"),
    [({}, DAY), ({"deadline": "90m"}, timedelta(minutes=90)), ({"deadline": "48h"}, timedelta(hours=48))],
)
def test_an_attempt_that_takes_too_long_is_ended(fields: dict[str, Any], most: timedelta) -> None:
    """Its own deadline, or else the warehouse's; why is recorded before the Job is deleted."""
    before = step(STARTED, CompactionObservation(job=view()), now=NOON + most - timedelta(seconds=3), **fields)
    assert (before.action, before.requeue_after, before.status.ending) == (CompactionAction.NONE, 3.0, None)
    decision = step(STARTED, CompactionObservation(job=view()), now=NOON + most, **fields)
    assert decision.action is CompactionAction.DELETE_JOB
    assert decision.status.ending is not None
    assert decision.status.ending.reason == "DeadlineExceeded"
    assert succeeded(decision) == ("Unknown", "DeadlineExceeded", "Running")
    assert [event.reason for event in decision.events] == ["DeadlineExceeded"]


@pytest.mark.parametrize(
    ("observed", "seen"),
    [
        (
            CompactionObservation(job=view(ready=False), pod=UNSCHEDULABLE),
            "the driver is waiting: Unschedulable: 0/1 nodes",
        ),
        (CompactionObservation(job=view()), "the driver is running without reported progress"),
        (
            CompactionObservation(job=view(), progress=Progress(partitions_total=3), executors=UNSCHEDULABLE),
            "the driver is running (0/3 partitions, 0%); its executors are waiting: Unschedulable: 0/1 nodes",
        ),
        (CompactionObservation(refused="exceeded quota"), "the job cannot be created: exceeded quota"),
    ],
)
def test_an_attempt_that_is_ended_says_what_was_seen_of_it(observed: CompactionObservation, seen: str) -> None:
    status = STARTED if observed.job else {"attempt": 1, "attemptStartTime": "2026-01-01T12:00:00Z"}
    decision = step(status, observed, now=NOON + DAY)
    assert decision.status.ending is not None
    assert decision.status.ending.message == f"deadline 2026-01-02T12:00:00Z exceeded: {seen}"
    assert decision.status.job == JOB


def test_an_attempt_whose_driver_is_lost_is_ended() -> None:
    decision = step(STARTED, CompactionObservation(job=view(), lost=LOST))
    assert decision.action is CompactionAction.DELETE_JOB
    assert decision.status.ending is not None
    assert decision.status.ending.to_json() == {"reason": "DriverLost", "message": LOST}
    assert decision.events[0].message == f"ending attempt 1: {LOST}"


@pytest.mark.parametrize("status", [RUNNING, {"attempt": 1}])
def test_a_suspended_attempt_is_ended_and_not_counted(status: dict[str, Any]) -> None:
    """Also one whose Job is not created yet. Once it is resumed, the next attempt has nothing to wait for."""
    job = view() if "job" in status else None
    decision = step(status, CompactionObservation(job=job), suspend=True)
    assert decision.action is CompactionAction.DELETE_JOB
    assert [(event.reason, event.type) for event in decision.events] == [("Suspended", EventType.NORMAL)]
    gone = CompactionObservation(job=None, end=end(), attempt_ended=True)
    ended = step(decision.status.to_json(), gone, suspend=True)
    assert (ended.status.failed_attempts, ended.events, ended.requeue_after) == (0, (), 0.0)
    held = step(ended.status.to_json(), CompactionObservation(verdict=OK), suspend=True)
    assert succeeded(held) == ("Unknown", "Suspended", "Suspended")
    resumed = step(held.status.to_json(), CompactionObservation(verdict=OK))
    assert (resumed.action, resumed.status.attempt) == (CompactionAction.CREATE_JOB, 2)


@pytest.mark.parametrize("status", [RUNNING, {"attempt": 1}])
def test_an_attempt_that_has_ended_when_it_is_suspended_is_judged_by_its_result(status: dict[str, Any]) -> None:
    done = CompactionObservation(job=view(JobState.SUCCEEDED), end=end(cleanups=[journal()]))
    assert succeeded(step(status, done, suspend=True)) == ("True", "Compacted", "Succeeded")


def test_suspend_taken_back_does_not_stop_what_it_began() -> None:
    """The Job may be deleted already."""
    ending = step(RUNNING, CompactionObservation(job=view()), suspend=True).status.to_json()
    assert step(ending, CompactionObservation(job=view())).action is CompactionAction.DELETE_JOB


ENDING = {**STARTED, "ending": {"reason": "DriverLost", "message": LOST}}
OVERDUE = {**STARTED, "ending": {"reason": "DeadlineExceeded", "message": "not done"}}


def test_ending_goes_on_after_a_restart() -> None:
    """From the record alone: nothing of what it rests on has to be seen again, nor is it said again."""
    decision = step(ENDING, CompactionObservation(job=view()))
    assert (decision.action, decision.events) == (CompactionAction.DELETE_JOB, ())
    waits = step(ENDING, CompactionObservation(job=view(), job_deleted=True))
    assert (waits.action, waits.requeue_after) == (CompactionAction.NONE, 5.0)
    unborn = {name: value for name, value in ENDING.items() if name != "job"}
    assert step(unborn, CompactionObservation()).action is CompactionAction.LOOK_AT_END


@pytest.mark.parametrize(
    ("held", "reason"),
    [("MetastoreUnavailable", "MetastoreUnavailable"), ("StorageError", "StorageUnavailable")],
)
def test_a_compaction_that_settles_says_what_outage_it_waits_for(held: str, reason: str) -> None:
    """Its cleanup cannot determine what was published meanwhile; a user looks at the compaction."""
    away = Condition(
        type="Succeeded",
        status=ConditionStatus.UNKNOWN,
        reason=held,
        message="refused",
        last_transition_time=rfc3339(NOON),
    )
    pending = journal(None)
    status = pending.status.model_copy(update={"conditions": (away,)})
    observed = CompactionObservation(job=None, end=end(cleanups=[replace(pending, status=status)]))
    decision = step(ENDING, observed)
    assert succeeded(decision) == ("Unknown", reason, "Waiting")
    condition = find_condition(decision.status.conditions, "Succeeded")
    assert condition is not None
    assert condition.message == "attempt 1 has ended; nightly-1-0 determines what it published: refused"
    assert decision.requeue_after == 5.0


def test_an_ended_attempt_is_judged_when_all_is_known_and_nothing_is_left_of_it() -> None:
    """Not before its cleanups know what it published, and its locks and staging are gone."""
    unsettled = step(ENDING, CompactionObservation(job=None, end=end(cleanups=[journal(None)])))
    assert succeeded(unsettled) == ("Unknown", "Settling", "Running")
    assert (
        step(ENDING, CompactionObservation(job=None, end=end(cleanups=[journal()]))).action
        is CompactionAction.END_ATTEMPT
    )


@pytest.mark.parametrize(("status", "reason", "failed"), [(ENDING, "DriverLost", 0), (OVERDUE, "DeadlineExceeded", 1)])
@pytest.mark.parametrize("job", [None, view(JobState.FAILED)])
def test_a_lost_driver_is_not_counted_and_one_that_takes_too_long_is(
    status: dict[str, Any], reason: str, failed: int, job: JobView | None
) -> None:
    """Whatever the driver says while it is being ended."""
    said = DriverResult(reason=Reason.LOCK_LOST, message="lost")
    decision = step(status, CompactionObservation(job=job, end=end(result=said), attempt_ended=True))
    assert succeeded(decision) == ("Unknown", reason, "Waiting")
    assert (decision.status.failed_attempts, decision.status.ending) == (failed, None)
    assert decision.status.next_attempt_time is not None


@pytest.mark.parametrize("said", [Reason.LOCK_LOST, Reason.TRANSACTION_LOST, Reason.TABLE_CHANGED])
def test_a_driver_that_was_lost_and_came_back_is_not_counted(said: Reason) -> None:
    """Its cleanup saw first that it was lost, and ended what it held: it fails by that when it wakes."""
    ended = journal("NotPublished")
    lost = replace(ended, status=ended.status.model_copy(update={"driver_lost_time": "2026-01-01T11:59:00Z"}))
    result = DriverResult(reason=said, message="gone")
    failed = CompactionObservation(
        job=view(JobState.FAILED), end=end(cleanups=[lost], result=result), attempt_ended=True
    )
    decision = step(RUNNING, failed)
    assert succeeded(decision) == ("Unknown", "DriverLost", "Waiting")
    assert decision.status.failed_attempts == 0
    other = CompactionObservation(
        job=view(JobState.FAILED), end=end(cleanups=[ended], result=result), attempt_ended=True
    )
    assert step(RUNNING, other).status.failed_attempts == 1


def test_the_last_attempt_that_takes_too_long() -> None:
    decision = step({**OVERDUE, "failedAttempts": 2}, CompactionObservation(job=None, end=end(), attempt_ended=True))
    assert succeeded(decision) == ("False", "DeadlineExceeded", "Failed")
    partly = CompactionObservation(job=None, end=end(cleanups=[journal()]), attempt_ended=True)
    published = step({**OVERDUE, "failedAttempts": 2}, partly)
    assert succeeded(published) == ("False", "PartiallyPublished", "Failed")


def test_an_overlap_is_said_although_something_is_published() -> None:
    """Rows count twice: to compact the rest is not what helps."""
    overlap = DriverResult(reason=Reason.OVERLAPPED, message="base_3 and delta_1_5 overlap")
    seen = CompactionObservation(
        job=view(JobState.FAILED), end=end(cleanups=[journal()], result=overlap), attempt_ended=True
    )
    decision = step(RUNNING, seen)
    assert succeeded(decision) == ("False", "OverlappingCompaction", "Failed")
    told = find_condition(decision.status.conditions, "Succeeded")
    assert told is not None
    assert told.message == "base_3 and delta_1_5 overlap"


def test_a_driver_that_was_done_before_its_job_was_deleted_has_succeeded() -> None:
    decision = step(ENDING, CompactionObservation(job=view(JobState.SUCCEEDED), end=end(cleanups=[journal()])))
    assert succeeded(decision) == ("True", "Compacted", "Succeeded")
    assert decision.status.ending is None
    left = end(cleanups=[journal(), journal("NotPublished", partition="prt=p2")])
    fenced = step(ENDING, CompactionObservation(job=view(JobState.SUCCEEDED), end=left, attempt_ended=True))
    assert succeeded(fenced) == ("Unknown", "DriverLost", "Waiting")


def test_an_attempt_of_an_older_version_is_given_its_time_from_now_on() -> None:
    decision = step(RUNNING, CompactionObservation(job=view()), now=NOON + 7 * DAY)
    assert (decision.action, decision.status.attempt_start_time) == (CompactionAction.NONE, "2026-01-08T12:00:00Z")


@pytest.mark.parametrize("job", [view(JobState.SUCCEEDED), view(JobState.FAILED), None])
def test_an_ended_or_vanished_job_is_looked_at(job: JobView | None) -> None:
    assert step(RUNNING, CompactionObservation(job=job)).action is CompactionAction.LOOK_AT_END


@pytest.mark.parametrize("taken", [{"namespace": "kube-system"}, {"table": {"database": "hr", "name": "t"}}])
def test_an_attempt_whose_right_was_taken_away_is_ended_and_holds_nothing(taken: dict[str, Any]) -> None:
    """Its cleanups never find out what it published: it is ended without them, which completes a pair (H3)."""
    seen = CompactionObservation(job=view(JobState.SUCCEEDED), end=end(cleanups=[journal(None)]))
    assert step(RUNNING, seen, **taken).action is CompactionAction.END_ATTEMPT
    decision = step(RUNNING, replace(seen, attempt_ended=True), **taken)
    assert succeeded(decision) == ("False", "NotAllowed", "Failed")


def test_not_judged_before_every_cleanup_knows_what_is_published() -> None:
    found = end(cleanups=[journal(), journal(None, attempt=1, partition="prt=p2")])
    decision = step(RUNNING, CompactionObservation(job=view(JobState.SUCCEEDED), end=found))
    assert succeeded(decision) == ("Unknown", "Settling", "Running")
    assert decision.action is CompactionAction.NONE


@pytest.mark.parametrize(
    ("cleanups", "reason"),
    [
        ([journal()], "Compacted"),
        ([journal("NothingToPublish")], "NothingToCompact"),
        ([], "NothingToCompact"),
        ([journal("NotPublished", attempt=0), journal()], "Compacted"),
        ([journal(attempt=0), journal("NothingToPublish")], "Compacted"),
    ],
)
def test_success(cleanups: list[Any], reason: str) -> None:
    """What counts is what is published; an earlier attempt's unpublished entries do not."""
    decision = step(RUNNING, CompactionObservation(job=view(JobState.SUCCEEDED), end=end(cleanups=cleanups)))
    assert succeeded(decision) == ("True", reason, "Succeeded")
    assert decision.status.completion_time
    assert decision.action is CompactionAction.NONE
    assert [event.reason for event in decision.events] == [reason]


@pytest.mark.parametrize(
    ("observed", "type_", "absent"),
    [
        (CompactionObservation(job=view(JobState.SUCCEEDED), end=end(cleanups=[journal()])), "Complete", "Failed"),
        (CompactionObservation(job=None, end=end(), attempt_ended=True), "Failed", "Complete"),
    ],
)
def test_an_end_is_a_condition_of_its_own_as_a_jobs_is(
    observed: CompactionObservation, type_: str, absent: str
) -> None:
    """What waits for one of them must not go on too early, nor take one end for the other."""
    running = step(OVERDUE | {"failedAttempts": 2}, CompactionObservation(job=view())).status
    assert [one.type for one in running.conditions] == ["Succeeded"]
    ended = step(OVERDUE | {"failedAttempts": 2}, observed).status.conditions
    found, summary = find_condition(ended, type_), find_condition(ended, "Succeeded")
    assert found is not None
    assert summary is not None
    assert (found.status, found.reason, found.message) == ("True", summary.reason, summary.message)
    assert find_condition(ended, absent) is None


@pytest.mark.parametrize("cleanups", [[journal()], []])
def test_success_says_why_deltas_were_not_merged(cleanups: list[Any]) -> None:
    """What the driver says of that is all there is; what is published is still computed."""
    said = DriverResult(reason=Reason.COMPACTED, message="m", apart="/t: in runs: column b is in this file")
    seen = CompactionObservation(job=view(JobState.SUCCEEDED), end=end(result=said, cleanups=cleanups))
    condition = find_condition(step(RUNNING, seen).status.conditions, "Succeeded")
    assert condition is not None
    assert condition.message.endswith("; /t: in runs: column b is in this file")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (DriverResult(reason=Reason.NOTHING_TO_COMPACT, message="nothing: no delta"), "nothing: no delta"),
        (DriverResult(reason=Reason.COMPACTED, message="1 partition"), "nothing to compact"),
        (None, "nothing to compact"),
    ],
)
def test_nothing_to_compact_says_why_in_the_drivers_words(said: DriverResult | None, message: str) -> None:
    """Unless they contradict what is published."""
    seen = CompactionObservation(job=view(JobState.SUCCEEDED), end=end(result=said))
    condition = find_condition(step(RUNNING, seen).status.conditions, "Succeeded")
    assert condition is not None
    assert (condition.reason, condition.message) == ("NothingToCompact", message)


def test_totals_are_summed_over_published_entries_of_all_attempts() -> None:
    cleanups = [journal(attempt=0), journal("NotPublished", attempt=0, partition="prt=p2"), journal(partition="prt=p2")]
    totals = step(
        RUNNING, CompactionObservation(job=view(JobState.SUCCEEDED), end=end(cleanups=cleanups))
    ).status.totals
    assert totals is not None
    assert (totals.partitions, totals.rows_in, totals.files_out) == (2, 12, 2)


FAILURES = [
    (CompactionObservation(job=view(JobState.FAILED), end=end()), "DriverFailed"),
    (CompactionObservation(job=view(JobState.SUCCEEDED), end=end(cleanups=[journal("NotPublished")])), "DriverFailed"),
    (
        CompactionObservation(
            job=view(JobState.FAILED), end=end(result=DriverResult(reason=Reason.COMPACTED, message="done"))
        ),
        "DriverFailed",
    ),
    (
        CompactionObservation(
            job=view(JobState.FAILED), end=end(result=DriverResult(reason=Reason.LOCK_LOST, message="lost"))
        ),
        "LockLost",
    ),
]


@pytest.mark.parametrize(("observed", "reason"), FAILURES)
def test_a_failed_attempt_is_cleaned_up_after_then_counted(observed: CompactionObservation, reason: str) -> None:
    """Before its staging and locks are gone nothing is counted; a restart in between does the same again."""
    first = step(RUNNING, observed)
    assert first.action is CompactionAction.END_ATTEMPT
    assert first.status == compaction(status=RUNNING).status
    decision = step(RUNNING, CompactionObservation(job=observed.job, end=observed.end, attempt_ended=True))
    assert succeeded(decision) == ("Unknown", reason, "Waiting")
    assert decision.status.failed_attempts == 1
    assert decision.status.next_attempt_time == "2026-01-01T12:00:10Z"
    assert [event.reason for event in decision.events] == ["AttemptFailed"]


def test_cleaning_up_that_does_not_work_is_tried_again() -> None:
    decision = step(RUNNING, CompactionObservation(job=None, end=end(), attempt_ended=REFUSED))
    assert succeeded(decision) == ("Unknown", "CleaningUp", "Waiting")
    assert decision.status.failed_attempts == 0
    assert decision.requeue_after
    assert step(decision.status.to_json(), CompactionObservation(job=None)).action is CompactionAction.LOOK_AT_END


@pytest.mark.parametrize(("failed", "pause"), [(0, 10), (1, 20), (2, 40), (5, 320), (7, 600), (60, 600)])
def test_back_off_doubles_up_to_a_cap(failed: int, pause: int) -> None:
    status = {**RUNNING, "failedAttempts": failed}
    observed = CompactionObservation(job=view(JobState.FAILED), end=end(), attempt_ended=True)
    decision = step(status, observed, retry={"maxAttempts": 100, "backoff": "10s"})
    assert decision.requeue_after == pause


@pytest.mark.parametrize(("attempt", "pause"), [(1, 10), (2, 20), (4, 80), (9, 120), (10_000, 120)])
def test_a_job_that_a_user_deleted_is_followed_by_another_that_does_not_count(attempt: int, pause: int) -> None:
    """It is unknown whether its driver finished the work. The next one finds out at little cost, without a limit."""
    decision = step({**RUNNING, "attempt": attempt}, CompactionObservation(job=None, end=end(), attempt_ended=True))
    assert succeeded(decision) == ("Unknown", "JobGone", "Waiting")
    assert [(event.reason, event.type) for event in decision.events] == [("JobGone", "Warning")]
    assert decision.status.failed_attempts == 0
    assert decision.requeue_after == pause


@pytest.mark.parametrize("reason", [Reason.INTERRUPTED, Reason.EVICTED, Reason.PREEMPTED, Reason.NODE_GONE])
@pytest.mark.parametrize("said", [None, DriverResult(reason=Reason.INTERRUPTED, message="SIGTERM")])
def test_a_driver_that_was_made_to_end_is_followed_by_another_that_does_not_count(
    reason: Reason, said: DriverResult | None
) -> None:
    """A drained node is an event, but does not count as a failure. A reason that the driver itself gave counts."""
    cause = DriverResult(reason=reason, message="the driver exited with code 143")
    failed = CompactionObservation(job=view(JobState.FAILED), end=End(DriverEnd(said, "", cause=cause), ()))
    decision = step(RUNNING, replace(failed, attempt_ended=True))
    assert succeeded(decision) == ("Unknown", reason.value, "Waiting")
    assert (decision.status.failed_attempts, decision.requeue_after) == (0, 10.0)
    (event,) = decision.events
    assert (event.reason, event.message) == (reason, "attempt 1 ended: the driver exited with code 143")
    missing = DriverResult(reason=Reason.VERIFICATION_FAILED, message="rows are missing")
    found = End(DriverEnd(missing, "the driver exited with code 1", cause=cause), ())
    counted = step(RUNNING, CompactionObservation(job=view(JobState.FAILED), end=found, attempt_ended=True))
    assert (succeeded(counted)[1], counted.status.failed_attempts) == ("VerificationFailed", 1)


def test_a_driver_without_enough_memory_counts_and_says_so() -> None:
    """The next attempts have more of it, but it must not go on for ever."""
    cause = DriverResult(reason=Reason.OOM_KILLED, message="the driver exited with code 137 (OOMKilled)")
    killed = CompactionObservation(
        job=view(JobState.FAILED), end=End(DriverEnd(None, "", cause=cause), ()), attempt_ended=True
    )
    decision = step(RUNNING, killed)
    assert (succeeded(decision)[1], decision.status.failed_attempts) == ("OOMKilled", 1)
    assert decision.status.oom_killed
    assert succeeded(step({**RUNNING, "failedAttempts": 2}, killed)) == ("False", "OOMKilled", "Failed")


@pytest.mark.parametrize(
    ("result", "cleanups", "reason"),
    [
        (None, [], "AttemptsExhausted"),
        (DriverResult(reason=Reason.UNREADABLE_FILE, message="f"), [], "UnreadableFile"),
        (DriverResult(reason=Reason.UNREADABLE_FILE, message="f"), [journal(attempt=0)], "PartiallyPublished"),
        (None, [journal("NotPublished")], "AttemptsExhausted"),
    ],
)
def test_the_last_attempt(result: DriverResult | None, cleanups: list[Any], reason: str) -> None:
    observed = CompactionObservation(
        job=view(JobState.FAILED), end=end(result=result, cleanups=cleanups), attempt_ended=True
    )
    decision = step({**RUNNING, "failedAttempts": 2}, observed)
    assert succeeded(decision) == ("False", reason, "Failed")
    assert "(3 of 3)" in decision.status.conditions[0].message
    assert decision.status.completion_time
    assert [event.reason for event in decision.events] == ["AttemptFailed", reason]


@pytest.mark.parametrize("reason", sorted(FINAL_REASONS))
def test_a_drivers_final_reason_ends_it_at_once(reason: Reason) -> None:
    result = DriverResult(reason=reason, message="it is so")
    decision = step(
        RUNNING, CompactionObservation(job=view(JobState.FAILED), end=end(result=result), attempt_ended=True)
    )
    assert succeeded(decision) == ("False", reason.value, "Failed")


@pytest.mark.parametrize("reason", sorted(WAITING_REASONS))
def test_a_drivers_waiting_reason_is_not_counted(reason: Reason) -> None:
    result = DriverResult(reason=reason, message="held by lock 12 of alice@desk")
    status = {**RUNNING, "failedAttempts": 2}
    decision = step(
        status, CompactionObservation(job=view(JobState.FAILED), end=end(result=result), attempt_ended=True)
    )
    assert succeeded(decision) == ("Unknown", reason.value, "Waiting")
    assert decision.status.failed_attempts == 2
    assert decision.status.next_attempt_time
    assert decision.status.conditions[0].message == "held by lock 12 of alice@desk"


ENDED = {"attempt": 1, "completionTime": "2026-01-01T12:00:00Z", "observedGeneration": 1, "phase": "Failed"}


def test_an_ended_compaction_is_never_touched_again() -> None:
    """Not even when its Job or its warehouse goes; only the observed generation follows."""
    for observed in (
        CompactionObservation(),
        CompactionObservation(job=view()),
        CompactionObservation(job=view(JobState.FAILED), end=end(), attempt_ended=True),
    ):
        decision = step(ENDED, observed, warehouse="gone", suspend=True)
        assert decision == CompactionDecision(TableCompactionStatus.model_validate(ENDED))
    raw = dict(compaction().raw)
    raw = {**raw, "metadata": {**raw["metadata"], "generation": 2}, "status": ENDED}
    decision = decide(read_compaction(raw), CompactionObservation(), config=CONFIG, now=NOON)
    assert decision.status == TableCompactionStatus.model_validate({**ENDED, "observedGeneration": 2})


@pytest.mark.parametrize(
    ("phases", "shown"),
    [
        ((), None),
        (("Succeeded",), "Succeeded"),
        (("Succeeded", "WaitingForReaders", "Deleting"), "WaitingForReaders"),
        (("WaitingForReaders", "Failed", "Succeeded"), "Failed"),
    ],
)
def test_an_ended_compaction_shows_its_cleanup_that_needs_attention_most(
    phases: tuple[str, ...], shown: str | None
) -> None:
    cleanups = tuple(cleanup(name=f"c{number}", status={"phase": phase}) for number, phase in enumerate(phases))
    status = step(ENDED, CompactionObservation(cleanups=cleanups)).status
    assert status == TableCompactionStatus.model_validate({**ENDED, "cleanupPhase": shown})
    assert step(status.to_json(), CompactionObservation()).status == status


def test_the_cleanup_of_an_attempt_that_published_nothing_is_not_shown_as_a_success() -> None:
    """Its end says nothing about the compaction, whose next attempt may be far away."""
    idle, done = (
        replace(one, status=one.status.model_copy(update={"phase": CleanupPhase.SUCCEEDED}))
        for one in (journal("NotPublished"), journal())
    )
    for seen, shown in (((idle,), None), ((idle, done), "Succeeded")):
        failed = CompactionObservation(job=view(JobState.FAILED), end=end(cleanups=seen), attempt_ended=True)
        assert step({**RUNNING, "cleanupPhase": "Pending"}, failed).status.cleanup_phase == shown


def test_the_transition_time_moves_only_with_the_status() -> None:
    running = step({"attempt": 1}, CompactionObservation(job=view())).status
    trouble = CompactionObservation(job=view(ready=False), pod=PodTrouble("ErrImagePull"))
    later = step(running.to_json(), trouble, now=NOON + timedelta(hours=1))
    assert later.status.conditions[0].last_transition_time == "2026-01-01T12:00:00Z"


def test_the_same_sight_gives_the_same_status() -> None:
    """No write without news: deciding again on what was just written changes nothing."""
    sights = [
        (CompactionObservation(waits_for="x"), timedelta(hours=1)),
        (CompactionObservation(verdict=Preflight(Reason.METASTORE_UNAVAILABLE, "refused")), timedelta(seconds=1)),
    ]
    for observed, later in sights:
        written = step({}, observed).status
        assert step(written.to_json(), observed, now=NOON + later).status == written


def test_round_trip() -> None:
    """A status survives the API server."""
    status = step(RUNNING, CompactionObservation(job=None, end=end(), attempt_ended=True)).status
    assert isinstance(compaction(status=status.to_json()), Compaction)
    assert compaction(status=status.to_json()).status == status


def progress(partitions: int, *, bytes_done: int = 0) -> Progress:
    return Progress(partitions_done=partitions, partitions_total=12, bytes_done=bytes_done, bytes_total=1000)


def test_progress_is_shown_at_once_the_first_time() -> None:
    shown = step(RUNNING, CompactionObservation(job=view(), progress=progress(3, bytes_done=456))).status.progress
    assert shown is not None
    assert shown.to_json() == {
        "partitionsDone": 3,
        "partitionsTotal": 12,
        "bytesDone": 456,
        "bytesTotal": 1000,
        "summary": "3/12 partitions, 45%",
        "lastUpdateTime": "2026-01-01T12:00:00Z",
    }


def test_progress_is_written_every_ten_seconds_at_most() -> None:
    """News within them wait for the rest of them; without news there is neither a write nor a time."""
    first = step(RUNNING, CompactionObservation(job=view(), progress=progress(3))).status
    for seconds, partitions, expected, requeue_after in [(4, 4, 3, 6.0), (10, 4, 4, 30.0), (60, 3, 3, 30.0)]:
        now = NOON + timedelta(seconds=seconds)
        later = step(first.to_json(), CompactionObservation(job=view(), progress=progress(partitions)), now=now)
        assert later.status.progress is not None
        assert (later.status.progress.partitions_done, later.requeue_after) == (expected, requeue_after)
        assert (later.status == first) == (expected == 3)


def test_a_driver_that_is_not_ready_is_looked_at_all_the_same() -> None:
    first = step(RUNNING, CompactionObservation(job=view(), progress=progress(3))).status
    observed = CompactionObservation(job=view(ready=False), progress=progress(4))
    assert step(first.to_json(), observed, now=NOON + timedelta(seconds=1)).requeue_after == 5.0


def test_progress_that_is_not_known_any_more_stays() -> None:
    """As after a restart, before the watch has brought the pod again."""
    first = step(RUNNING, CompactionObservation(job=view(), progress=progress(3))).status
    assert step(first.to_json(), CompactionObservation(job=view())).status == first


SHOWN = {**progress(11, bytes_done=990).to_json(), "summary": "", "lastUpdateTime": "2026-01-01T11:59:59Z"}


def test_success_completes_the_progress() -> None:
    """Also where the driver's last word on it was lost."""
    decision = step({**RUNNING, "progress": SHOWN}, CompactionObservation(job=view(JobState.SUCCEEDED), end=end()))
    assert decision.status.progress is not None
    assert decision.status.progress.summary == "12/12 partitions, 100%"
    assert decision.status.progress.bytes_done == 1000
    assert step(RUNNING, CompactionObservation(job=view(JobState.SUCCEEDED), end=end())).status.progress is None


def test_failure_keeps_the_last_progress() -> None:
    """The last report of the driver counts, however soon it came. The next attempt starts from zero."""
    found = End(DriverEnd(None, "killed", progress(12, bytes_done=1000)), ())
    decision = step(
        {**RUNNING, "progress": SHOWN}, CompactionObservation(job=view(JobState.FAILED), end=found, attempt_ended=True)
    )
    assert decision.status.progress is not None
    assert decision.status.progress.partitions_done == 12
    status = {**BACKING_OFF, "progress": SHOWN}
    again = step(status, CompactionObservation(verdict=OK), now=NOON + timedelta(seconds=10))
    assert (again.status.attempt, again.status.progress) == (2, None)


@pytest.mark.parametrize("reported", [None, progress(3, bytes_done=456).model_copy(update={"seconds_left": 60})])
def test_an_attempt_that_has_ended_has_no_time_left(reported: Progress | None) -> None:
    """Neither by what its driver reported at last, nor by what was shown."""
    shown = {**SHOWN, "secondsLeft": 60, "summary": "11/12 partitions, 99%, about 1 min left"}
    found = End(DriverEnd(None, "killed", reported), ())
    failed = CompactionObservation(job=view(JobState.FAILED), end=found, attempt_ended=True)
    status = step({**RUNNING, "progress": shown}, failed).status.progress
    assert status is not None
    assert (status.seconds_left, "left" in status.summary) == (None, False)


QUEUED = Preflight(Reason.IN_COMPACTION_QUEUE, "entry 5 of default.t is initiated")


@pytest.mark.parametrize(("waits", "pause"), [(0, 10), (1, 20), (3, 80), (60, 120)])
def test_a_table_in_hives_own_queue_is_waited_for(waits: int, pause: int) -> None:
    """Not failed, no attempt, a little later each time, and the reason says whose entry it is."""
    before = {"backOff": {"reason": "InCompactionQueue", "waits": waits}} if waits else {}
    decision = step(before, CompactionObservation(verdict=QUEUED))
    assert succeeded(decision) == ("Unknown", "InCompactionQueue", "Waiting")
    assert (decision.requeue_after, decision.status.attempt, decision.status.failed_attempts) == (pause, 0, 0)
    assert decision.status.conditions[-1].message == QUEUED.message


def test_until_the_queue_is_asked_again_nothing_is_asked_or_written() -> None:
    held = step({}, CompactionObservation(verdict=QUEUED)).status
    later = step(held.to_json(), CompactionObservation(), now=NOON + timedelta(seconds=4))
    assert later == CompactionDecision(held, requeue_after=6.0)
    assert (
        step(held.to_json(), CompactionObservation(), now=NOON + timedelta(seconds=10)).action
        is CompactionAction.PREFLIGHT
    )


def test_an_attempt_that_starts_forgets_why_it_waited() -> None:
    held = {**step({}, CompactionObservation(verdict=QUEUED)).status.to_json(), "attempt": 1}
    assert compaction(status=held).kept_out
    started = step(held, CompactionObservation(verdict=OK), now=NOON + timedelta(seconds=10)).status
    assert started.back_off is None
    assert not compaction(status=started.to_json()).kept_out


def test_what_the_queue_kept_out_stays_so_while_the_metastore_does_not_answer() -> None:
    """Else a Job would start only to be kept out again, after each outage."""
    held = {**step({}, CompactionObservation(verdict=QUEUED)).status.to_json(), "attempt": 1}
    for minute in (1, 5):
        lost = CompactionObservation(verdict=Preflight(Reason.METASTORE_UNAVAILABLE, "refused"))
        held = step(held, lost, now=NOON + timedelta(minutes=minute)).status.to_json()
    mine = compaction(status=held)
    assert (mine.kept_out, mine.preflight_failed) == (True, True)
    started = step(held, CompactionObservation(verdict=OK), now=NOON + timedelta(minutes=9)).status
    assert not compaction(status=started.to_json()).kept_out


def test_what_met_only_an_outage_was_not_kept_out() -> None:
    lost = CompactionObservation(verdict=Preflight(Reason.METASTORE_UNAVAILABLE, "refused"))
    assert not compaction(status={**step({}, lost).status.to_json(), "attempt": 1}).kept_out


BY_ITSELF, MARKED = (
    Preflight(automatic=Automatic(found)) for found in (AutoCompaction.ON, AutoCompaction.OFF_BY_TABLE)
)


def auto_compaction(decision: CompactionDecision) -> tuple[str, str]:
    condition = find_condition(decision.status.conditions, "AutoCompactionOff")
    assert condition is not None
    return condition.status.value, condition.reason


def test_a_table_that_hive_may_compact_too_is_warned_of_once() -> None:
    """It still goes on. The warning quotes in full the statement that ends it."""
    decision = step({}, CompactionObservation(verdict=BY_ITSELF))
    assert decision.action is CompactionAction.CREATE_JOB
    assert auto_compaction(decision) == ("False", "NoAutoCompactionMissing")
    assert [(event.reason, event.type) for event in decision.events] == [
        ("NoAutoCompactionMissing", "Warning"),
        ("Started", "Normal"),
    ]
    statement = "ALTER TABLE sales.orders SET TBLPROPERTIES ('NO_AUTO_COMPACTION'='true')"
    assert decision.events[0].message.endswith(statement)
    again = {**decision.status.to_json(), **BACKING_OFF}
    later = step(again, CompactionObservation(verdict=BY_ITSELF), now=NOON + timedelta(hours=1))
    assert [event.reason for event in later.events] == ["Started"]
    repaired = step(again, CompactionObservation(verdict=MARKED), now=NOON + timedelta(hours=1))
    assert auto_compaction(repaired) == ("True", "NoAutoCompactionSet")


def test_what_is_not_known_of_auto_compaction_is_not_said() -> None:
    decision = step({}, CompactionObservation(verdict=OK))
    assert find_condition(decision.status.conditions, "AutoCompactionOff") is None
