"""The loop as a whole over a cluster in memory: a compaction's way, restarts at any point, waiting and queueing."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from compaction_operator.api.cleanup import PublishedState
from compaction_operator.api.compaction import Readers
from compaction_operator.api.progress import Progress
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.cleanup.identity import Change
from compaction_operator.cleanup.readers import ReaderSnapshot, blockers
from compaction_operator.cleanup.settle import Settlement
from compaction_operator.controller.answers import Preflight, Trouble
from compaction_operator.controller.cleanup.decide import decide
from compaction_operator.controller.cleanup.observation import CleanupObservation
from compaction_operator.controller.cleanup.reader_watch import Look
from compaction_operator.controller.kube.cluster import Pools, WarehousePools
from compaction_operator.controller.kube.job import job_name
from compaction_operator.controller.kube.resources import Cleanup, Compaction, ResourceKind, TableKey
from compaction_operator.controller.kube.times import rfc3339
from tests.unit.controller.sandbox import (
    CONFIG,
    DELTAS,
    NOON,
    REFUSED,
    Inline,
    KilledError,
    Sandbox,
    baseline,
    cleanup,
    cleanup_raw,
    compaction_raw,
    condition,
    entry_json,
    reader_snapshot,
    runs,
    settlement,
)


def job(attempt: int = 1, name: str = "nightly") -> str:
    return job_name(compaction=name, uid=f"uid-default-{name}", attempt=attempt)


def journal(attempt: int = 1, **changes: Any) -> dict[str, Any]:
    """The journal that an attempt of `nightly` writes."""
    raw = cleanup_raw(f"nightly-{attempt}-0", attempt=attempt, **changes)
    raw["spec"]["compaction"]["job"] = job(attempt)
    return raw


@runs
async def test_the_whole_way() -> None:
    """Job created, ended, settled, compacted; the reader from before is waited for by name; then it is deleted."""
    box = Sandbox()
    await box.start()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.run()
    assert box.kube.jobs() == [job()]
    assert box.compaction()["phase"] == "Running"

    box.work.locks = (12,)
    box.kube.apply(ResourceKind.CLEANUP, journal())
    await box.run()
    assert box.cleanup()["phase"] == "Pending"
    box.kube.end_job(job(), DriverResult(reason=Reason.COMPACTED, message="done"), ok=True)
    await box.run()
    assert condition(box.compaction())["reason"] == "Compacted"
    assert box.compaction()["totals"]["rowsIn"] == 6
    assert condition(box.cleanup(), "ReadersGone")["message"] == "waiting for lock 12 of alice@desk since " + (
        "2026-01-01T12:00:00.000Z"
    )

    await box.pass_time(60)
    assert box.work.count("delete") == 0
    box.work.locks = ()
    await box.pass_time(2)
    assert box.cleanup()["phase"] == "Succeeded"
    assert (box.cleanup()["directoriesDeleted"], box.cleanup()["bytesDeleted"]) == (3, 30)
    assert box.work.directories == set()
    told = ["Started", "BaselineTaken", "Compacted", "WaitingForReaders", "ReadersGone", "Deleting", "Deleted"]
    assert box.kube.reasons() == told


@runs
async def test_a_compaction_shows_how_far_its_cleanup_is() -> None:
    """Also after its end and over a restart. What is over within a second costs no write."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    box.kube.apply(ResourceKind.CLEANUP, journal())
    box.work.locks = (12,)
    box.kube.end_job(job(), ok=True)
    await box.pass_time(5)
    assert (box.compaction()["phase"], box.compaction()["cleanupPhase"]) == ("Succeeded", "WaitingForReaders")
    written = box.kube.get(ResourceKind.COMPACTION, "nightly")["metadata"]["resourceVersion"]
    await box.start()
    await box.pass_time(3600)
    assert box.kube.get(ResourceKind.COMPACTION, "nightly")["metadata"]["resourceVersion"] == written
    for suspend, phase in ((True, "Suspended"), (False, "WaitingForReaders")):
        raw = box.kube.get(ResourceKind.CLEANUP, "nightly-1-0")
        box.kube.apply(ResourceKind.CLEANUP, {**raw, "spec": {**raw["spec"], "suspend": suspend}})
        await box.run()
        assert box.cleanup()["phase"] == phase
    await box.pass_time(10)
    assert box.kube.get(ResourceKind.COMPACTION, "nightly")["metadata"]["resourceVersion"] == written
    box.work.locks = ()
    await box.pass_time(10)
    assert box.compaction()["cleanupPhase"] == "Succeeded"


@runs
async def test_a_later_reader_does_not_hold_the_cleanup_up() -> None:
    """Only the baseline's locks count."""
    box = Sandbox()
    box.kube.apply(ResourceKind.CLEANUP, journal())
    box.work.locks = (12,)
    await box.start()
    box.work.locks = (13, 14)
    await box.pass_time(2)
    assert box.cleanup()["phase"] == "Succeeded"


@runs
async def test_nothing_is_written_while_nothing_changes() -> None:
    """An hour of ticks with the same reader leaves the status alone."""
    box = Sandbox()
    box.kube.apply(ResourceKind.CLEANUP, journal())
    box.work.locks = (12,)
    await box.start()
    await box.pass_time(2)
    version, looks = box.kube.version, box.work.count("look")
    await box.pass_time(3600)
    assert box.kube.version == version
    assert box.work.count("look") == looks + 1800


async def with_a_running_driver() -> Sandbox:
    """A journal whose Job runs."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    box.kube.apply(ResourceKind.CLEANUP, journal())
    await box.run()
    return box


@runs
async def test_a_driver_without_heartbeats_is_lost_though_its_job_runs() -> None:
    """While the metastore still has its lock: behind it the half of a pair is completed before anyone can read it."""
    box = await with_a_running_driver()
    await box.pass_time(3600)
    box.work.last_heartbeat = box.time.now
    await box.pass_time(89)
    assert box.work.count("settle") == 0
    await box.pass_time(31)
    assert box.work.count("settle") == 1
    assert box.cleanup()["baseline"]
    assert "DriverLost" in box.kube.reasons()


@runs
async def test_what_a_driver_has_let_go_of_is_settled_while_its_job_runs() -> None:
    """It is done with the journal's partitions, and not lost."""
    box = await with_a_running_driver()
    box.work.holding = False
    await box.pass_time(31)
    assert box.work.count("settle") == 1
    assert box.kube.reasons().count("DriverLost") == 0
    assert box.compaction()["phase"] == "Running"


@runs
async def test_a_metastore_that_does_not_answer_says_nothing_of_the_driver() -> None:
    box = await with_a_running_driver()
    box.work.holding = False
    box.work.metastore_down = True
    await box.pass_time(3600)
    assert box.work.count("settle") == 0
    box.work.metastore_down = False
    await box.pass_time(31)
    assert box.work.count("settle") == 1


@runs
async def test_what_deleted_compactions_left_is_looked_for_all_the_time() -> None:
    """What is of a compaction that is there is its own affair."""
    box = await with_a_running_driver()
    await box.pass_time(60)
    box.kube.delete(ResourceKind.COMPACTION, "default", "nightly")
    await box.pass_time(30)
    uid = "uid-default-nightly"
    assert box.work.swept == [("lake", frozenset({uid})), ("lake", frozenset({uid})), ("lake", frozenset())]


@runs
async def test_a_slow_metastore_is_not_swept_twice_at_a_time() -> None:
    """The sweeps that wait would take the threads of those who look for readers."""
    box = Sandbox()
    await box.start()
    for _ in range(3):
        box.time.seconds += 30
        box.controller.step()
    await box.idle()
    assert len(box.work.swept) == 1
    await box.pass_time(30)
    assert len(box.work.swept) == 2


@runs
async def test_a_compaction_whose_driver_is_lost_goes_on_with_another() -> None:
    """Its pod may stay Terminating for ever: the Job goes, then the attempt ends, and the table is free."""
    box = await with_a_running_driver()
    box.work.lost_drivers.add(1)
    await box.pass_time(31)
    assert box.kube.jobs() == []
    assert box.work.count("settle") == 1
    assert box.work.count("end 1") == 1
    assert condition(box.compaction())["reason"] == "DriverLost"
    assert box.compaction()["failedAttempts"] == 0
    await box.pass_time(10)
    assert box.kube.jobs() == [job(2)]
    # Once for the compaction, once for the cleanup.
    assert box.kube.reasons().count("DriverLost") == 2


@runs
async def test_the_time_in_which_a_driver_waited_for_a_node_is_none_in_which_it_held_nothing() -> None:
    """Its pod was there, unscheduled for twenty minutes: it has only just begun."""
    box = await with_a_running_driver()
    box.work.holding = False
    await box.pass_time(60)
    raw = box.kube.get(ResourceKind.JOB, job())
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    box.kube.pods[job()] = [{"metadata": {"name": job(), "uid": "driver"}, "status": {"conditions": [unscheduled]}}]
    box.kube.apply(ResourceKind.JOB, {**raw, "status": {"ready": 0}})
    await box.pass_time(1200)
    box.kube.apply(ResourceKind.JOB, {**box.kube.get(ResourceKind.JOB, job()), "status": {"ready": 1}})
    await box.pass_time(120)
    assert box.kube.jobs() == [job()]
    await box.pass_time(300)
    assert box.kube.jobs() == [job(2)]


@runs
async def test_the_metastore_is_not_asked_for_the_driver_all_the_time() -> None:
    """However much news of it there is, nor is it in doubt when the metastore does not answer."""
    box = await with_a_running_driver()
    for second in range(300):
        box.kube.report(job(), Progress(partitions_done=second, partitions_total=300))
        await box.pass_time(1)
    assert 9 <= box.work.calls.count("held nightly") <= 10
    box.work.metastore_down = True
    box.work.lost_drivers.add(1)
    await box.pass_time(3600)
    assert box.kube.jobs() == [job()]


@runs
async def test_a_driver_that_never_starts_gives_its_table_and_its_slot_back() -> None:
    """After its deadline the next attempt has its turn, and after the last one others of the table have."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw(deadline="1h", retry={"maxAttempts": 2}))
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("another", created=NOON.replace(minute=1)))
    await box.start()
    await box.pass_time(3600)
    assert condition(box.compaction())["reason"] == "DeadlineExceeded"
    await box.pass_time(86400 + 3700)
    assert box.compaction()["phase"] == "Failed"
    assert condition(box.compaction())["reason"] == "DeadlineExceeded"
    assert "(2 of 2): deadline " in condition(box.compaction())["message"]


@runs
async def test_a_job_in_a_queue_keeps_its_attempt_until_it_may_start() -> None:
    """However long: it is asked for neither a pod nor the locks of a driver, and starts as soon as it may."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw(deadline="1h"))
    await box.start()
    raw = box.kube.get(ResourceKind.JOB, job())
    held = {**raw, "spec": {**raw["spec"], "suspend": True}, "status": {"ready": 0}}
    held["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "nightly"
    looks = list[str]()
    box.kube.list_pods = lambda namespace, job: looks.append(job) or []  # type: ignore[method-assign,func-returns-value]
    box.work.holding = False
    box.kube.apply(ResourceKind.JOB, held)
    await box.pass_time(3 * 86400)
    assert (box.compaction()["phase"], condition(box.compaction())["reason"]) == ("Queued", "Queued")
    assert condition(box.compaction())["message"].endswith("waits for queue nightly")
    assert (box.kube.jobs(), looks, box.work.calls.count("held nightly")) == ([job()], [], 0)
    let_go = {"type": "Suspended", "status": "False", "lastTransitionTime": rfc3339(box.time.now)}
    box.kube.apply(ResourceKind.JOB, {**raw, "status": {"ready": 1, "conditions": [let_go]}})
    await box.pass_time(1)
    assert (box.compaction()["phase"], box.compaction()["attempt"]) == ("Running", 1)
    assert box.compaction()["attemptStartTime"] == let_go["lastTransitionTime"]
    assert box.kube.jobs() == [job()]


def executor(driver: str) -> dict[str, Any]:
    """An executor's pod of some driver, which no node can take."""
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": f"for {driver}"}
    return {"metadata": {"name": "x", "ownerReferences": [{"uid": driver}]}, "status": {"conditions": [waits]}}


async def with_waiting_executors(instances: object) -> Sandbox:
    """A driver that runs, and whose executors no node can take. Others of the namespace wait, too."""
    box = Sandbox()
    executors = {"executors": {"instances": instances}}
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw(deadline="1h", spark=executors))
    await box.start()
    box.kube.report(job(), Progress(partitions_total=3))
    box.kube.pods[job()][0]["metadata"]["uid"] = "driver"
    box.kube.executors = [executor("stranger"), executor("driver")]
    return box


@runs
async def test_executors_that_wait_are_seen_within_a_minute_and_so_is_their_start() -> None:
    box = await with_waiting_executors(2)
    await box.pass_time(60)
    said = condition(box.compaction())
    assert (said["reason"], box.compaction()["phase"]) == ("ExecutorsWaiting", "Waiting")
    assert said["message"] == "attempt 1: its executors are waiting: Unschedulable: for driver"
    assert box.kube.reasons().count("ExecutorsWaiting") == 1
    box.kube.executors = [{**executor("driver"), "status": {"phase": "Running"}}]
    await box.pass_time(60)
    assert (condition(box.compaction())["reason"], box.compaction()["phase"]) == ("Running", "Running")


@runs
async def test_executors_are_looked_at_at_a_limited_rate() -> None:
    """However much news of the driver there is. A compaction without executors has none to look at."""
    for instances, most in ((2, 10), (0, 0)):
        box, looks = await with_waiting_executors(instances), list[str]()
        real = box.kube.list_executors
        box.kube.list_executors = lambda name, real=real, looks=looks: (looks.append(name), real(name))[1]  # type: ignore[method-assign,misc]
        for second in range(300):
            box.kube.report(job(), Progress(partitions_done=second, partitions_total=300))
            box.kube.pods[job()][0]["metadata"]["uid"] = "driver"
            await box.pass_time(1)
        assert most - 1 <= len(looks) <= most


@runs
async def test_a_driver_whose_executors_wait_is_ended_and_says_so() -> None:
    """In the time for starting; with Auto, which needs none, not before its deadline."""
    for instances, reason in ((2, "ExecutorsNotStarted"), ("Auto", "DeadlineExceeded")):
        box = await with_waiting_executors(instances)
        await box.pass_time(1800)
        assert condition(box.compaction())["reason"] == "ExecutorsWaiting"
        await box.pass_time(60 if instances == 2 else 1800)
        (said,) = (event["message"] for event in box.kube.events if event["reason"] == reason)
        assert said.endswith("its executors are waiting: Unschedulable: for driver")


@runs
async def test_grace_period_counts_from_the_baseline() -> None:
    """Readers gone at once, yet nothing goes before the grace period is over, and then at once."""
    box = Sandbox()
    box.kube.apply(ResourceKind.CLEANUP, journal(gracePeriod="30s"))
    await box.start()
    await box.pass_time(29)
    assert box.cleanup()["phase"] == "GracePeriod"
    assert box.work.count("delete") == 0
    await box.pass_time(1)
    assert box.cleanup()["phase"] == "Succeeded"


@runs
async def test_own_interval_counts() -> None:
    """A cleanup with an interval of 30 s gets an answer every 30 s."""
    box = Sandbox()
    box.kube.apply(ResourceKind.CLEANUP, journal(interval="30s"))
    box.work.locks = (12,)
    await box.start()
    await box.pass_time(300)
    assert box.work.count("look") == 11


@pytest.mark.parametrize("where", ["resource", "operator"])
def test_suspension_holds_every_deletion(where: str) -> None:
    """The field and the operator's switch: states and baseline are taken, nothing is deleted."""

    async def scenario() -> None:
        suspended = CONFIG.cleanup.model_copy(update={"suspend": True})
        box = Sandbox(config=CONFIG.model_copy(update={"cleanup": suspended}) if where == "operator" else CONFIG)
        box.kube.apply(ResourceKind.CLEANUP, journal(suspend=where == "resource"))
        await box.start()
        await box.pass_time(60)
        assert box.cleanup()["phase"] == "Suspended"
        assert box.cleanup()["baseline"]
        assert box.work.count("delete") == 0

    asyncio.run(scenario())


@runs
async def test_what_a_pass_left_locked_is_given_back_when_it_is_suspended() -> None:
    """Tried until it works: readers of the partition wait for that lock."""
    box = Sandbox()
    box.kube.apply(ResourceKind.CLEANUP, journal(gracePeriod="30s"))
    await box.start()
    box.work.metastore_down = True
    await box.pass_time(60)
    raw = box.kube.get(ResourceKind.CLEANUP, "nightly-1-0")
    raw["spec"]["suspend"] = True
    box.kube.apply(ResourceKind.CLEANUP, raw)
    await box.pass_time(60)
    assert condition(box.cleanup())["reason"] == "MetastoreUnavailable"
    box.work.metastore_down = False
    await box.pass_time(60)
    assert condition(box.cleanup())["reason"] == "Suspended"
    assert box.work.calls[-1] == "release nightly-1-0"


@runs
async def test_nothing_is_left_locked_by_a_cleanup_that_ends() -> None:
    """Its last words come after that; what it deleted is counted once."""
    box = Sandbox()
    box.kube.apply(ResourceKind.CLEANUP, journal())
    await box.start()
    await box.pass_time(60)
    assert [call for call in box.work.calls if "look" not in call][-2:] == ["delete nightly-1-0", "release nightly-1-0"]
    assert (box.cleanup()["phase"], box.cleanup()["directoriesDeleted"]) == ("Succeeded", 3)


@runs
async def test_suspension_lifted() -> None:
    """What was held goes on when the field is taken away."""
    box = Sandbox()
    box.kube.apply(ResourceKind.CLEANUP, journal(suspend=True))
    await box.start()
    raw = box.kube.get(ResourceKind.CLEANUP, "nightly-1-0")
    raw["spec"]["suspend"] = False
    box.kube.apply(ResourceKind.CLEANUP, raw)
    await box.run()
    assert box.cleanup()["phase"] == "Succeeded"


@runs
async def test_metastore_down_before_an_attempt() -> None:
    """Waiting with the reason shown, no failed attempt; it goes on when the metastore is back."""
    box = Sandbox()
    box.work.metastore_down = True
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    await box.pass_time(60)
    assert box.compaction()["phase"] == "Waiting"
    assert condition(box.compaction()) | {"lastTransitionTime": ""} == {
        "type": "Succeeded",
        "status": "Unknown",
        "reason": "MetastoreUnavailable",
        "message": "connection refused",
        "observedGeneration": 1,
        "lastTransitionTime": "",
    }
    assert box.kube.jobs() == []
    box.work.metastore_down = False
    await box.pass_time(60)
    assert box.kube.jobs() == [job()]


def test_an_outage_of_a_metastore_is_two_lines_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """However many calls fail. Also while no resource waits for it."""

    @runs
    async def scenario() -> None:
        box = Sandbox()
        box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
        await box.start()
        box.work.metastore_down = True
        await box.pass_time(300)
        box.kube.apply(ResourceKind.COMPACTION, compaction_raw("another", table={"database": "sales", "name": "items"}))
        await box.pass_time(300)
        box.work.metastore_down = False
        await box.pass_time(60)

    caplog.set_level(logging.INFO)
    scenario()
    told = [record.getMessage() for record in caplog.records if "its metastore" in record.getMessage()]
    assert told == [
        "warehouse lake: its metastore does not answer: connection refused",
        "warehouse lake: its metastore answers again",
    ]


@runs
async def test_metastore_down_while_settling() -> None:
    """No baseline is stored on an error; the compaction is judged only when the cleanup knows."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    box.kube.apply(ResourceKind.CLEANUP, journal())
    box.work.metastore_down = True
    box.kube.end_job(job(), ok=True)
    await box.run()
    await box.pass_time(120)
    assert "baseline" not in box.cleanup()
    assert condition(box.cleanup(), "Published")["reason"] == "MetastoreUnavailable"
    assert condition(box.compaction())["reason"] == "MetastoreUnavailable"
    box.work.metastore_down = False
    await box.pass_time(20)
    assert condition(box.compaction())["reason"] == "Compacted"
    assert condition(box.cleanup())["status"] == "True"


@runs
async def test_metastore_down_while_waiting() -> None:
    """An error is never "no readers"."""
    box = Sandbox()
    box.kube.apply(ResourceKind.CLEANUP, journal())
    box.work.locks = (12,)
    await box.start()
    box.work.metastore_down = True
    box.work.locks = ()
    await box.pass_time(120)
    assert condition(box.cleanup(), "ReadersGone")["status"] == "Unknown"
    assert box.work.count("delete") == 0
    box.work.metastore_down = False
    await box.pass_time(15)
    assert box.cleanup()["phase"] == "Succeeded"


@runs
async def test_each_of_many_journals_that_is_settled_does_not_list_them_all() -> None:
    """100,000 partitions on Hive 4 have 3,000 journals; they are listed once all that are known are settled."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    began, settle = box.time.seconds, box.work.settle

    def one_by_one(cleanup: Cleanup, *, driver_ended: bool, attempt: Sequence[Cleanup] = ()) -> Settlement | Trouble:
        late = box.time.seconds - began < 20 * int(cleanup.meta.name.removeprefix("nightly-1-"))
        return REFUSED if late else settle(cleanup, driver_ended=driver_ended, attempt=attempt)

    box.work.settle = one_by_one  # type: ignore[method-assign]
    for shard in range(20):
        box.kube.apply(ResourceKind.CLEANUP, cleanup_raw(f"nightly-1-{shard}", entries=[entry_json(f"prt=p{shard}")]))
    box.kube.end_job(job(), ok=True)
    await box.pass_time(500)
    assert box.compaction()["phase"] == "Succeeded"
    assert len(box.compaction()["cleanups"]) == 20
    assert box.kube.cleanups_listed < 5


@runs
async def test_driver_dies_and_a_new_attempt_follows() -> None:
    """Staging is removed, the back-off waited for, the next attempt has its own Job, and that one counts."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    box.kube.end_job(job(), ok=False, exit_code=137)
    await box.run()
    assert box.work.count("end 1") == 1
    assert box.compaction()["failedAttempts"] == 1
    assert "code 137" in condition(box.compaction())["message"]
    await box.pass_time(9)
    assert box.kube.jobs() == [job()]
    await box.pass_time(1)
    assert box.kube.jobs() == [job(), job(2)]
    box.kube.end_job(job(2), ok=True)
    await box.run()
    assert condition(box.compaction())["reason"] == "NothingToCompact"
    assert "AttemptFailed" in box.kube.reasons()


@runs
async def test_attempts_are_counted() -> None:
    """At most retry.maxAttempts, then it has failed for good."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw(retry={"maxAttempts": 2, "backoff": "1s"}))
    await box.start()
    for attempt in (1, 2):
        box.kube.end_job(job(attempt), ok=False)
        await box.run()
        await box.pass_time(60)
    assert box.compaction()["phase"] == "Failed"
    assert condition(box.compaction())["reason"] == "AttemptsExhausted"
    await box.pass_time(3600)
    assert box.kube.jobs() == [job(), job(2)]


@runs
async def test_waiting_reasons_do_not_count() -> None:
    """A driver that could not get its lock is followed by another as often as it takes."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw(retry={"maxAttempts": 1}))
    await box.start()
    for attempt in range(1, 6):
        result = DriverResult(reason=Reason.WAITING_FOR_EXCLUSIVE_LOCK, message="held by lock 12 of alice@desk")
        box.kube.end_job(job(attempt), result, ok=False)
        await box.run()
        assert condition(box.compaction())["reason"] == "WaitingForExclusiveLock"
        await box.pass_time(120)
    assert box.compaction()["failedAttempts"] == 0
    assert box.compaction()["attempt"] == 6


@runs
async def test_partially_published() -> None:
    """What one attempt published counts in the totals; what no attempt published makes it fail for good."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw(retry={"maxAttempts": 2}))
    await box.start()
    box.kube.apply(ResourceKind.CLEANUP, journal(1, entries=[entry_json("prt=p1")]))
    box.kube.end_job(job(1), ok=False)
    await box.run()
    await box.pass_time(10)
    box.work.published = False
    box.kube.apply(ResourceKind.CLEANUP, journal(2, entries=[entry_json("prt=p2")]))
    box.kube.end_job(job(2), ok=False)
    await box.run()
    assert condition(box.compaction())["reason"] == "PartiallyPublished"
    assert box.compaction()["totals"]["partitions"] == 1
    assert box.compaction()["cleanups"] == ["nightly-1-0", "nightly-2-0"]
    assert condition(box.cleanup("nightly-2-0"))["reason"] == "NotPublished"


@runs
async def test_a_driver_without_enough_memory_is_followed_by_larger_ones() -> None:
    """By the same factor each time, and after other failures, too."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    for attempt, why in ((1, "OOMKilled"), (2, "Error")):
        box.kube.end_job(job(attempt), ok=False, exit_code=137, why=why)
        await box.pass_time(60)
    pods = [box.kube.get(ResourceKind.JOB, job(attempt))["spec"]["template"]["spec"] for attempt in (1, 2, 3)]
    given = [pod["containers"][0]["resources"]["requests"]["memory"] for pod in pods]
    assert given == ["1536Mi", "2304Mi", "2304Mi"]


@runs
async def test_job_that_vanishes_is_followed_by_another() -> None:
    """Also when the watch missed its deletion: a Job that seems to run is asked for again."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    box.kube.watchers.clear()
    box.kube.delete(ResourceKind.JOB, "default", job())
    await box.pass_time(30)
    assert condition(box.compaction())["reason"] == "JobGone"
    assert "deleted" in condition(box.compaction())["message"]


@runs
async def test_one_attempt_per_table_over_all_namespaces() -> None:
    """The oldest goes first, the others say whom they wait for, and the next one follows at once."""
    box = Sandbox()
    for index, (name, namespace) in enumerate([("nightly", "default"), ("a", "other"), ("b", "default")]):
        created = box.time.now.replace(minute=index)
        table = {"database": "sales", "name": "ORDERS"} if index else {"database": "SALES", "name": "orders"}
        box.kube.apply(ResourceKind.COMPACTION, compaction_raw(name, namespace=namespace, created=created, table=table))
    await box.start()
    assert box.kube.jobs() == [job()]
    message = condition(box.compaction("b"))["message"]
    assert message == "waiting for compaction default/nightly, which works on the same table"
    assert box.compaction("b")["phase"] == "Queued"
    box.kube.end_job(job(), ok=True)
    await box.run()
    assert len(box.kube.jobs()) == 2
    assert box.kube.status(ResourceKind.COMPACTION, "a", "other")["phase"] == "Running"
    assert condition(box.compaction("b"))["message"].startswith("waiting for compaction other/a,")


@runs
async def test_one_attempt_per_table_over_all_warehouses_of_a_metastore() -> None:
    """Another name of the warehouse is no way around the one that works on the table."""
    sea = CONFIG.warehouses[0].model_copy(update={"name": "sea"})
    box = Sandbox(config=CONFIG.model_copy(update={"warehouses": (*CONFIG.warehouses, sea)}))
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("other", created=NOON.replace(minute=1), warehouse="sea"))
    await box.start()
    assert box.kube.jobs() == [job()]
    assert condition(box.compaction("other"))["reason"] == "Queued"


@runs
async def test_so_many_jobs_at_once() -> None:
    """maxConcurrentJobs over all tables; one that ends makes room."""
    box = Sandbox()
    for index in range(4):
        created = box.time.now.replace(minute=index)
        raw = compaction_raw(f"c{index}", created=created, table={"database": "sales", "name": f"t{index}"})
        box.kube.apply(ResourceKind.COMPACTION, raw)
    await box.start()
    assert box.kube.jobs() == [job(name="c0"), job(name="c1")]
    assert "maxConcurrentJobs" in condition(box.compaction("c3"))["message"]
    box.kube.end_job(job(name="c1"), ok=True)
    await box.run()
    assert box.kube.jobs()[2:] == [job(name="c2")]


@runs
async def test_deleted_compaction_cancels_no_cleanup_but_holds_the_table() -> None:
    """Its Job goes with it; a new compaction of the table starts only when the cleanup knows what was published."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    box.kube.apply(ResourceKind.CLEANUP, journal())
    box.work.metastore_down = True
    box.kube.delete(ResourceKind.JOB, "default", job())
    box.kube.delete(ResourceKind.COMPACTION, "default", "nightly")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("next"))
    await box.run()
    assert condition(box.compaction("next"))["message"].startswith("waiting for cleanup default/nightly-1-0")
    box.work.metastore_down = False
    await box.pass_time(20)
    assert box.cleanup()["phase"] == "Succeeded"
    assert box.kube.jobs() == [job(name="next")]


@runs
async def test_final_problems_cost_no_pod() -> None:
    """A table that does not exist: failed for good, with the metastore's message."""
    box = Sandbox()
    box.work.verdict = Preflight(Reason.TABLE_NOT_FOUND, "table sales.orders does not exist")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    assert condition(box.compaction())["reason"] == "TableNotFound"
    assert box.kube.jobs() == []
    await box.pass_time(3600)
    assert box.work.count("preflight") == 1


@runs
async def test_object_that_cannot_be_read_is_left_alone() -> None:
    """One malformed object stops nothing."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("odd", type="Enormous"))
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    assert box.kube.jobs() == [job()]


@runs
async def test_a_cleanup_that_was_deleted_deletes_nothing() -> None:
    """Even if the watch missed it: deleting a journal keeps the directories."""
    box = Sandbox()
    box.kube.apply(ResourceKind.CLEANUP, journal())
    box.work.locks = (12,)
    await box.start()
    box.kube.watchers.clear()
    box.kube.delete(ResourceKind.CLEANUP, "default", "nightly-1-0")
    box.work.locks = ()
    await box.pass_time(60)
    assert box.work.count("delete") == 0
    assert not box.controller._reader_watch._tables


@runs
async def test_a_suspension_that_the_watch_has_not_brought_yet_holds() -> None:
    """The status is written under the known version before anything is deleted: the conflict comes first."""
    box = Sandbox()
    box.kube.apply(ResourceKind.CLEANUP, journal())
    box.work.locks = (12,)
    await box.start()
    box.kube.watchers.clear()
    raw = box.kube.get(ResourceKind.CLEANUP, "nightly-1-0")
    raw["spec"]["suspend"] = True
    box.kube.apply(ResourceKind.CLEANUP, raw)
    box.work.locks = ()
    await box.pass_time(60)
    assert box.work.count("delete") == 0


@runs
async def test_an_attempt_is_not_started_on_an_outdated_spec() -> None:
    """The attempt is recorded under the known version: without the record there is no Job."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())

    def suspend_unseen() -> None:
        box.kube.watchers.clear()
        raw = box.kube.get(ResourceKind.COMPACTION, "nightly")
        raw["spec"]["suspend"] = True
        box.kube.apply(ResourceKind.COMPACTION, raw)

    box.work.during_preflight = suspend_unseen
    await box.start()
    assert box.work.count("preflight") > 0
    assert box.kube.jobs() == []
    assert "attempt" not in box.compaction()


@runs
async def test_progress_reaches_the_status_at_a_sane_rate() -> None:
    """A driver that tells every second is shown every ten seconds; without news nothing is written."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    shown = []
    for second in range(40):
        box.kube.report(job(), Progress(partitions_done=second, partitions_total=40))
        before = box.kube.changes
        await box.pass_time(1)
        if box.kube.changes > before:
            shown.append(box.compaction()["progress"]["partitionsDone"])
    assert shown == [0, 10, 20, 30]
    await box.pass_time(10)
    assert box.compaction()["progress"]["summary"] == "39/40 partitions, 97%"
    version = box.kube.version
    await box.pass_time(3600)
    assert box.kube.version == version


@runs
async def test_a_talkative_driver_costs_no_more_than_others() -> None:
    """However often its pod changes within a second, its compaction is looked at once, afterwards."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    for number in range(100):
        box.kube.report(job(), Progress(partitions_done=number, partitions_total=100))
        assert box.controller.step() == 0
    box.time.seconds += 1
    assert box.controller.step() == 1
    await box.idle()
    assert box.compaction()["progress"]["partitionsDone"] == 99


@runs
async def test_progress_is_found_again_after_a_restart() -> None:
    """The watch brings the pods that are there once more, before or after the compactions are listed."""
    for early in (True, False):
        box = Sandbox()
        box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
        await box.start()
        box.kube.watchers.clear()
        box.kube.report(job(), Progress(partitions_done=2, partitions_total=4))
        (pod,) = box.kube.all(ResourceKind.POD)
        await box.start(early=[pod] if early else [])
        if not early:
            box.controller.on_event(ResourceKind.POD, None, pod)
        await box.pass_time(1)
        assert box.compaction()["progress"]["summary"] == "2/4 partitions, 50%"


@runs
async def test_each_attempt_tells_its_own_progress() -> None:
    """The first attempt's pod is still there when the second starts, and says nothing of it."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    box.kube.report(job(), Progress(partitions_done=2, partitions_total=4))
    await box.pass_time(1)
    box.kube.end_job(job(), ok=False)
    await box.run()
    await box.pass_time(20)
    assert box.kube.jobs() == [job(), job(2)]
    assert "progress" not in box.compaction()
    box.kube.report(job(2), Progress(partitions_done=1, partitions_total=4))
    await box.pass_time(1)
    assert box.compaction()["progress"]["partitionsDone"] == 1
    box.kube.end_job(job(2), ok=True)
    await box.run()
    assert box.compaction()["progress"]["summary"] == "4/4 partitions, 100%"


@runs
async def test_a_pod_that_is_deleted_is_forgotten() -> None:
    """What it said stays in the status."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    box.kube.report(job(), Progress(partitions_done=2, partitions_total=4))
    await box.pass_time(1)
    box.kube.delete(ResourceKind.POD, "default", f"{job()}-x")
    await box.pass_time(60)
    assert box.compaction()["progress"]["partitionsDone"] == 2


@runs
async def test_a_plan_waits_for_its_approval() -> None:
    box = Sandbox()
    box.kube.apply(ResourceKind.CLEANUP, journal(mode="Plan"))
    await box.start()
    await box.pass_time(3600)
    assert box.cleanup()["phase"] == "WaitingForApproval"
    assert box.cleanup()["partitions"][0]["planned"] == list(DELTAS)
    assert (box.work.count("plan"), box.work.count("delete")) == (1, 0)
    raw = box.kube.get(ResourceKind.CLEANUP, "nightly-1-0")
    raw["spec"]["approved"] = True
    box.kube.apply(ResourceKind.CLEANUP, raw)
    await box.run()
    assert box.cleanup()["phase"] == "Succeeded"
    assert box.work.directories == set()


@runs
async def test_an_approval_that_was_taken_back_unseen_holds() -> None:
    """The status is written under the known version before anything is deleted."""
    box = Sandbox()
    box.kube.apply(ResourceKind.CLEANUP, journal(mode="Plan", approved=True))
    box.work.locks = (12,)
    await box.start()
    box.kube.watchers.clear()
    raw = box.kube.get(ResourceKind.CLEANUP, "nightly-1-0")
    raw["spec"]["approved"] = False
    box.kube.apply(ResourceKind.CLEANUP, raw)
    box.work.locks = ()
    await box.pass_time(60)
    assert box.work.count("delete") == 0


@runs
async def test_the_quarantine_is_emptied_when_its_time_is_over() -> None:
    """Also by a controller that was restarted in between, and never earlier."""
    box = Sandbox()
    box.kube.apply(ResourceKind.CLEANUP, journal(quarantine="24h"))
    await box.start()
    assert box.cleanup()["phase"] == "Quarantined"
    await box.pass_time(80000)
    await box.start()
    await box.pass_time(6399)
    assert box.work.count("purge") == 0
    await box.pass_time(1)
    assert (box.work.count("delete"), box.work.count("purge")) == (1, 1)
    assert box.cleanup()["phase"] == "Succeeded"
    assert box.cleanup()["directoriesDeleted"] == 3


@runs
async def test_on_hive_4_the_queues_entry_is_ended_in_the_end() -> None:
    """It is tried for ever: who deleted what is known, but not to the metastore."""
    box = Sandbox()
    box.kube.apply(ResourceKind.CLEANUP, journal(entries=[entry_json(txnId=9, queueId=5)]))
    box.work.finish_down = True
    await box.start()
    await box.pass_time(3600)
    assert condition(box.cleanup())["reason"] == "MetastoreUnavailable"
    assert (box.work.count("delete"), box.cleanup()["directoriesDeleted"]) == (1, 3)
    box.work.finish_down = False
    await box.pass_time(15)
    assert box.cleanup()["phase"] == "Succeeded"


@runs
async def test_an_ended_cleanup_goes_after_its_time() -> None:
    """While its compaction still runs it stays; with nothing of it left to remember, it goes."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw(deadline="48h"))
    await box.start()
    box.kube.apply(ResourceKind.CLEANUP, journal())
    box.kube.end_job(job(), ok=False)
    await box.run()
    box.kube.apply(ResourceKind.COMPACTION, {**box.kube.get(ResourceKind.COMPACTION, "nightly")})
    await box.pass_time(86400 + 600)
    assert box.compaction()["phase"] == "Running"
    assert box.cleanup()["phase"] == "Succeeded"
    box.kube.end_job(job(2), ok=True)
    await box.run()
    assert condition(box.compaction())["reason"] == "Compacted"
    await box.pass_time(600)
    assert box.kube.all(ResourceKind.CLEANUP) == []


@runs
async def test_a_cleanup_that_failed_stays() -> None:
    box = Sandbox()
    box.work.gone = Change("TableDropped", "table sales.orders was dropped")
    box.kube.apply(ResourceKind.CLEANUP, journal())
    await box.start()
    await box.pass_time(10 * 86400)
    assert condition(box.cleanup())["reason"] == "TableDropped"


@runs
async def test_what_cannot_be_deleted_is_tried_with_pauses() -> None:
    """Although each try writes the status, and the watch brings that back as news."""
    box = Sandbox()
    box.work.kept = {"": "not obsolete"}
    box.kube.apply(ResourceKind.CLEANUP, journal())
    await box.start()
    assert box.work.count("delete") == 1
    await box.pass_time(1 + 2 + 4)
    assert box.work.count("delete") == 4
    assert box.kube.reasons().count("DeletionRefused") == 1
    box.work.kept = {}
    await box.pass_time(15)
    assert box.cleanup()["phase"] == "Succeeded"


@runs
async def test_hives_own_entries_are_waited_for_longer_each_time() -> None:
    box = Sandbox()
    box.work.verdict = Preflight(Reason.IN_COMPACTION_QUEUE, "entry 5 is initiated")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    await box.pass_time(10 + 20 + 40)
    assert box.work.count("preflight") == 4
    assert condition(box.compaction())["reason"] == "InCompactionQueue"
    box.work.verdict = Preflight()
    await box.pass_time(120)
    assert box.kube.jobs() == [job()]


def kept_out(box: Sandbox, *names: str) -> None:
    """From now on the metastore's queue keeps these compactions out."""

    def preflight(compaction: Compaction) -> Preflight:
        held = compaction.meta.name in names
        return Preflight(Reason.IN_COMPACTION_QUEUE, "entry 7 is ready for cleaning") if held else Preflight()

    box.work.preflight = preflight  # type: ignore[method-assign]


def minutes_later(name: str, minutes: int, **spec: Any) -> dict[str, Any]:
    """A compaction that was made some minutes after noon."""
    return compaction_raw(name, created=NOON.replace(minute=minutes), **spec)


@runs
async def test_what_the_queue_keeps_out_holds_up_no_younger_one() -> None:
    """A dead entry may stay for good; others of the table are about partitions of their own."""
    box = Sandbox()
    kept_out(box, "nightly")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    box.kube.apply(ResourceKind.COMPACTION, minutes_later("younger", 1))
    await box.start()
    await box.pass_time(30)
    assert box.kube.jobs() == [job(name="younger")]
    box.kube.end_job(job(name="younger"), ok=True)
    await box.pass_time(3600)
    assert condition(box.compaction())["message"] == "entry 7 is ready for cleaning"
    assert condition(box.compaction("younger"))["status"] == "True"


@runs
async def test_what_was_kept_out_has_its_place_by_age_again() -> None:
    """It is asked for whenever its pause is over and the table is free, before all that are younger."""
    box = Sandbox()
    kept_out(box, "nightly")
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    for minute, name in enumerate(("a", "b", "c"), 1):
        box.kube.apply(ResourceKind.COMPACTION, minutes_later(name, minute))
    await box.start()
    await box.pass_time(300)
    assert box.kube.jobs() == [job(name="a")]
    kept_out(box)
    box.kube.end_job(job(name="a"), ok=True)
    await box.run()
    assert box.kube.jobs() == [job(name="a"), job()]
    said = condition(box.compaction("b"))["message"]
    assert said == "waiting for compaction default/nightly, which works on the same table"


@runs
async def test_ten_thousand_waiting_cleanups_of_a_hundred_tables_cost_a_hundred_lock_queries_a_tick() -> None:
    """One call of the metastore's work a tick, in which each table is asked for once."""
    box = Sandbox()
    box.work.locks = (12,)
    waiting = settled_status()
    for index in range(10_000):
        raw = cleanup_raw(f"c{index}", table={**IDENTITY, "name": f"t{index % 100}"})
        box.kube.objects[ResourceKind.CLEANUP, "default", f"c{index}"] = {**raw, "status": waiting}
    await box.start()
    looks, queries = box.work.looks, box.work.count("look")
    for tick in range(1, 4):
        await box.pass_time(2)
        assert (box.work.looks - looks, box.work.count("look") - queries) == (tick, 100 * tick)
    assert box.work.count("delete") == 0


IDENTITY = {"database": "sales", "createTime": 100, "location": "/warehouse/orders"}


SETTLED = settlement({"": PublishedState.PUBLISHED}, baseline(12))


def settled_status() -> dict[str, Any]:
    """The status of a cleanup that waits for lock 12, and has said so."""
    found = blockers(baseline(12), reader_snapshot(12), readers=Readers.LOCKS_AND_TRANSACTIONS, now=NOON)
    observed = CleanupObservation(look=Look(found))
    taken = decide(cleanup(), CleanupObservation(settled=SETTLED), settings=CONFIG.cleanup, now=NOON).status
    status: dict[str, Any] = decide(
        cleanup(status=taken.to_json()), observed, settings=CONFIG.cleanup, now=NOON
    ).status.to_json()
    return status


@runs
async def test_a_metastore_that_hangs_does_not_delay_looks_at_others() -> None:
    """Each warehouse has threads of its own: while one hangs, the cleanup of the other gets its answer and ends."""
    hung, free, done = threading.Event(), threading.Event(), asyncio.Event()
    sea = CONFIG.warehouses[0].model_copy(update={"name": "sea"})
    box = Sandbox(config=CONFIG.model_copy(update={"warehouses": (*CONFIG.warehouses, sea)}))
    pools = {
        name: WarehousePools(Inline(), Inline(), ThreadPoolExecutor(1), Inline(), Inline()) for name in ("lake", "sea")
    }
    box.pools = Pools(Inline(), pools, pools["lake"])
    look = box.work.look

    def hang(warehouse: str, tables: Sequence[TableKey]) -> Mapping[TableKey, ReaderSnapshot | Trouble]:
        if warehouse == "sea":
            hung.set()
            free.wait(60)
        else:
            hung.wait(60)
        return look(warehouse, tables)

    box.work.look = hang  # type: ignore[method-assign]
    box.kube.apply(ResourceKind.CLEANUP, journal(warehouse="sea"))
    box.kube.apply(ResourceKind.CLEANUP, cleanup_raw("other", attempt=2))
    box.create()
    box.kube.watchers.append(lambda *_: done.set() if box.cleanup("other").get("phase") == "Succeeded" else None)
    task = asyncio.create_task(box.controller.run())
    try:
        await asyncio.wait_for(done.wait(), 30)
        assert box.cleanup()["phase"] == "WaitingForReaders"
    finally:
        free.set()
        task.cancel()
        box.pools.shut_down()


@runs
async def test_nothing_is_kept_in_memory_of_what_is_gone() -> None:
    """Compactions that waited for their turn and were deleted, and cleanups that waited for readers."""
    box = Sandbox()
    box.work.locks = (12,)
    for name in ("nightly", "a", "b"):
        box.kube.apply(ResourceKind.COMPACTION, compaction_raw(name))
    box.kube.apply(ResourceKind.CLEANUP, journal())
    await box.start()
    assert len(box.controller._turns._tables)
    for name in ("nightly", "a", "b"):
        box.kube.delete(ResourceKind.COMPACTION, "default", name)
    box.kube.delete(ResourceKind.CLEANUP, "default", "nightly-1-0")
    await box.run()
    turns = box.controller._turns
    assert not (len(turns._tables) or len(turns._slots) or turns._offers or turns._patience)
    assert not box.controller._reader_watch._tables
    assert not (box.controller._failures or box.controller._resting)


async def lose_a_driver(box: Sandbox) -> None:
    """What happens around a compaction whose first driver is lost: repeatable, driven by what is there."""
    box.work.lost_drivers.add(1)
    await box.run()
    for attempt in (1, 2):
        if (ResourceKind.CLEANUP, "default", f"nightly-{attempt}-0") not in box.kube.objects:
            box.kube.apply(ResourceKind.CLEANUP, journal(attempt, entries=[entry_json(f"prt=p{attempt}")]))
        if attempt == 2 and "conditions" not in box.kube.get(ResourceKind.JOB, job(2))["status"]:
            box.kube.end_job(job(2), ok=True)
        await box.pass_time(120)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_between_any_two_steps_while_a_lost_driver_is_ended(after: bool) -> None:
    """A controller that is started again goes on where the status says that its predecessor was."""
    undisturbed = killed_at(None, after=after, scenario=lose_a_driver)
    expected = final_state(undisturbed)
    assert (expected["reason"], expected["jobs"]) == ("Compacted", [job(2)])
    assert expected["compaction"]["failedAttempts"] == 0
    for change in range(1, undisturbed.kube.changes + 1):
        killed = killed_at(change, after=after, scenario=lose_a_driver)
        assert final_state(killed) == expected, f"killed at change {change}"


async def compact_once(box: Sandbox) -> None:
    """What happens around one compaction with a driver that dies first: repeatable, driven by what is there."""
    await box.run()
    for attempt, ok in ((1, False), (2, True)):
        await box.pass_time(20)
        if (ResourceKind.JOB, "default", job(attempt)) not in box.kube.objects:
            continue
        if (ResourceKind.CLEANUP, "default", f"nightly-{attempt}-0") not in box.kube.objects:
            box.kube.apply(ResourceKind.CLEANUP, journal(attempt, entries=[entry_json(f"prt=p{attempt}")]))
        if "conditions" not in box.kube.get(ResourceKind.JOB, job(attempt))["status"]:
            box.kube.end_job(job(attempt), ok=ok)
        await box.run()
    await box.pass_time(60)


async def survive(box: Sandbox, scenario: Callable[[Sandbox], Awaitable[None]]) -> None:
    """Run a scenario; whenever the controller is killed, start a new one."""
    for _ in range(5):
        with suppress(KilledError):
            await box.start()
            await scenario(box)
            return


def final_state(box: Sandbox) -> dict[str, Any]:
    """What must not depend on who was killed when: everything but times."""
    status = box.compaction()
    return {
        "jobs": box.kube.jobs(),
        "compaction": {name: status[name] for name in ("phase", "attempt", "failedAttempts", "totals", "cleanups")},
        "reason": condition(status)["reason"],
        "cleanups": [box.cleanup(f"nightly-{attempt}-0")["phase"] for attempt in (1, 2)],
        "directories": box.work.directories,
    }


def killed_at(
    change: int | None, *, after: bool, scenario: Callable[[Sandbox], Awaitable[None]] | None = None
) -> Sandbox:
    box = Sandbox()
    box.work.directories = {f"prt=p{attempt}/{name}" for attempt in (1, 2) for name in DELTAS}
    box.kube.die_at, box.kube.die_after = change, after
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    asyncio.run(survive(box, scenario or compact_once))
    return box


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_between_any_two_steps(after: bool) -> None:
    """The controller is killed before (or after) each of its writes in turn: the end is the same each time."""
    undisturbed = killed_at(None, after=after)
    expected = final_state(undisturbed)
    assert expected["reason"] == "Compacted"
    assert expected["directories"] == set()
    assert undisturbed.kube.changes > 10
    for change in range(1, undisturbed.kube.changes + 1):
        assert final_state(killed_at(change, after=after)) == expected, f"killed at change {change}"


@runs
async def test_a_cleanup_of_another_namespace_is_none_of_a_compactions() -> None:
    """Whatever UID it bears: it would hold up the judgement, and its numbers would count."""
    box = Sandbox()
    forged = cleanup_raw("evil")
    forged["metadata"]["namespace"] = "other"
    box.kube.apply(ResourceKind.CLEANUP, forged)
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    box.kube.end_job(box.kube.jobs()[0], ok=True)
    await box.run()
    assert condition(box.compaction())["reason"] == "NothingToCompact"


@runs
async def test_only_a_cleanup_beside_its_compaction_knows_that_the_driver_has_ended() -> None:
    """No Job of that name is in the other's namespace: there the metastore decides whether the attempt is ended."""
    box = await with_a_running_driver()
    forged = journal()
    forged["metadata"] = {**forged["metadata"], "name": "evil", "namespace": "other"}
    box.kube.apply(ResourceKind.CLEANUP, forged)
    box.kube.end_job(job(), ok=True)
    await box.run()
    assert box.work.drivers_ended == {"evil": False, "nightly-1-0": True}
