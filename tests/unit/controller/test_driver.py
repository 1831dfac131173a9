"""How a driver's end is read from its pod, and what keeps one from starting."""

from typing import Any

import pytest

from compaction_operator.api.progress import Progress
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.controller.kube.driver_pod import (
    PodTrouble,
    driver_end,
    driver_progress,
    executors_trouble,
    pod_trouble,
    refusal_of,
)

RESULT = DriverResult(reason=Reason.LOCK_LOST, message="metastore lock 7 is gone")


def pod(state: Any = None, *, created: str = "2026-01-01T12:00:00Z", **status: Any) -> dict[str, Any]:
    containers = [{"name": "driver", "state": state}] if state else []
    return {"metadata": {"creationTimestamp": created}, "status": {"containerStatuses": containers, **status}}


def ended(code: int = 1, *, reason: str = "Error", message: str = "", **more: Any) -> dict[str, Any]:
    return pod({"terminated": {"exitCode": code, "reason": reason, "message": message}}, **more)


def test_own_words() -> None:
    end = driver_end([ended(message=RESULT.model_dump_json())])
    assert end.result == RESULT
    assert end.seen == "the driver exited with code 1"


@pytest.mark.parametrize(
    ("pods", "seen"),
    [
        ([ended(137, reason="OOMKilled")], "the driver exited with code 137 (OOMKilled)"),
        ([ended(1, message="Traceback\nValueError: x\n")], "the driver exited with code 1: Traceback\nValueError: x"),
        ([ended(1, message="{}")], "the driver exited with code 1: {}"),
        ([], "the driver's pod is gone: its job is gone"),
        ([pod({"running": {}})], "the driver's pod is gone: its job is gone"),
        ([pod(phase="Failed", reason="Evicted", message="disk")], "the driver's pod failed: Evicted: disk"),
    ],
)
def test_seen_from_outside(pods: list[dict[str, Any]], seen: str) -> None:
    """No result: exit code, the kernel's or kubelet's reason and the log's end, whichever there is."""
    end = driver_end(pods, job_message="its job is gone")
    assert (end.result, end.seen) == (None, seen)


def disrupted(pod: dict[str, Any], *, by: str = "EvictionByEvictionAPI") -> dict[str, Any]:
    """A pod with the condition that drains, preemptions and lost nodes leave."""
    target = {"type": "DisruptionTarget", "status": "True", "reason": by, "message": "Eviction API: evicting"}
    return {**pod, "status": {**pod["status"], "conditions": [target]}}


def deleted(pod: dict[str, Any]) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T12:00:00Z"}}


@pytest.mark.parametrize(
    ("pods", "cause"),
    [
        ([ended(143)], "Interrupted"),
        ([deleted(ended(137))], "Interrupted"),
        ([deleted(ended(137, reason="OOMKilled"))], "OOMKilled"),
        ([disrupted(ended(1, message="the connection was closed"))], "Evicted"),
        ([disrupted(ended(1), by="PreemptionByScheduler")], "Preempted"),
        ([disrupted(ended(137), by="DeletionByTaintManager")], "NodeGone"),
        ([disrupted(pod(phase="Failed"), by="DeletionByPodGC")], "NodeGone"),
        ([disrupted(ended(137, reason="OOMKilled"), by="SomethingNew")], "Interrupted"),
        ([pod(phase="Failed", reason="Evicted", message="disk")], "Evicted"),
        ([disrupted(pod(phase="Failed", reason="Terminated"), by="TerminationByKubelet")], "NodeGone"),
        ([pod(phase="Failed", reason="Preempting")], "Preempted"),
        ([pod(phase="Failed", reason="UnexpectedAdmissionError")], None),
        ([], "Interrupted"),
        ([ended(1)], None),
        ([ended(137, reason="OOMKilled")], "OOMKilled"),
        ([pod({"terminated": {"exitCode": 1}}, conditions=[{"type": "DisruptionTarget", "status": "False"}])], None),
    ],
)
def test_what_ends_a_driver_from_outside_is_told_apart_from_its_own_failures(
    pods: list[dict[str, Any]], cause: str | None
) -> None:
    found = driver_end(pods).cause
    assert (found and found.reason) == cause


def test_the_cause_quotes_kubernetes_and_the_driver() -> None:
    full = driver_end([ended(137, reason="OOMKilled", message="INFO task 3\nINFO task 4")]).cause
    assert full is not None
    assert full.message == "the driver exited with code 137 (OOMKilled): INFO task 3\nINFO task 4"
    moved = driver_end([disrupted(ended(1, message=RESULT.model_dump_json()))]).cause
    assert moved is not None
    assert moved.message == ("Kubernetes ended the driver's pod: Eviction API: evicting; the driver exited with code 1")


def test_the_last_words_are_whole_lines() -> None:
    said = "\n".join(f"line {number} {'x' * 90}" for number in range(9))
    assert driver_end([ended(1, message=said)]).seen == (
        f"the driver exited with code 1: line 6 {'x' * 90}\nline 7 {'x' * 90}\nline 8 {'x' * 90}"
    )
    assert driver_end([ended(1, message="y" * 1000)]).seen == f"the driver exited with code 1: {'y' * 300}"


def test_of_two_pods_the_younger_one_counts() -> None:
    """Two pods of one Job can exist for a moment."""
    old, young = ended(1, created="2026-01-01T12:00:00Z"), ended(2, created="2026-01-01T12:00:01Z")
    assert driver_end([young, old]).seen == driver_end([old, young]).seen == "the driver exited with code 2"


@pytest.mark.parametrize(
    ("pods", "trouble"),
    [
        ([], "PodNotCreated: the job has not created a pod yet"),
        (
            [pod({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})],
            "ImagePullBackOff: no such image",
        ),
        (
            [
                pod(
                    conditions=[
                        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}
                    ]
                )
            ],
            "Unschedulable: 0/1",
        ),
        ([pod({"running": {}}, conditions=[{"type": "PodScheduled", "status": "True"}])], None),
    ],
)
def test_what_keeps_a_driver_from_starting(pods: list[dict[str, Any]], trouble: str | None) -> None:
    found = pod_trouble(pods)
    assert (str(found) if found else None) == trouble


@pytest.mark.parametrize(
    ("reason", "passing"),
    [("ContainerCreating", True), ("PodInitializing", True), ("ImagePullBackOff", False), ("Unschedulable", False)],
)
def test_what_every_pod_goes_through_is_no_trouble(reason: str, passing: bool) -> None:
    found = pod_trouble([pod({"waiting": {"reason": reason}})])
    assert found is not None
    assert found.passing is passing


def refused(message: str, *, last: str | None, created: str = "2026-01-01T12:00:00Z") -> dict[str, Any]:
    return {"metadata": {"creationTimestamp": created}, "lastTimestamp": last, "message": message}


def test_the_newest_event_says_why_a_job_has_no_pod() -> None:
    quota = 'pods "nightly-1-x" is forbidden: exceeded quota: compute, requested: pods=1'
    old = refused("serviceaccount not found", last="2026-01-01T12:00:01Z")
    found = refusal_of([old, refused(quota, last=None, created="2026-01-01T12:00:02Z")])
    assert found == PodTrouble("QuotaExceeded", quota)
    assert (found.cause, found.passing) == (Reason.QUOTA_EXCEEDED, False)
    other = refusal_of([old])
    assert other is not None
    assert (other.reason, other.cause, other.passing) == ("FailedCreate", Reason.POD_NOT_STARTED, False)
    assert refusal_of([]) is None


def test_executors_are_in_trouble_when_none_of_them_runs() -> None:
    waits = pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}])
    assert executors_trouble([waits, waits]) == PodTrouble("Unschedulable", "0/1")
    assert executors_trouble([waits, pod({"running": {}})]) is None
    assert executors_trouble([waits, pod({"waiting": {"reason": "ContainerCreating"}})]) is None
    assert executors_trouble([]) is None


def annotated(text: str, pod: dict[str, Any]) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], "annotations": {"compaction.dev/progress": text}}}


PROGRESS = Progress(partitions_done=3, partitions_total=12, bytes_done=450, bytes_total=1000)


def test_progress() -> None:
    """What the driver wrote on its pod is read back, from a running one as from one that has ended."""
    text = PROGRESS.model_dump_json(by_alias=True)
    assert driver_progress(annotated(text, pod({"running": {}}))) == PROGRESS
    assert driver_end([annotated(text, ended())]).progress == PROGRESS


@pytest.mark.parametrize(
    "text",
    ["", "3/12", "[]", "{", '{"partitionsDone": -1}', '{"bytesDone": 9223372036854775808}', '{"bytesDone": "x"}'],
)
def test_progress_that_makes_no_sense_is_none(text: str) -> None:
    """Anyone who may patch pods may write anything there. The API server must still accept the status."""
    assert driver_progress(annotated(text, pod())) is None
    assert driver_progress(pod()) is None
