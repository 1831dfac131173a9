"""How a driver's end is read from its pod, and what keeps one from starting."""

from typing import Any

import pytest

from compaction_operator.api.progress import Progress
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.controller.kube.driver_pod import driver_end, driver_progress, executors_trouble, pod_trouble

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


def disrupted(pod: dict[str, Any]) -> dict[str, Any]:
    """A pod with the condition that drains, preemptions and lost nodes leave."""
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    return {**pod, "status": {**pod["status"], "conditions": [target]}}


def deleted(pod: dict[str, Any]) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T12:00:00Z"}}


@pytest.mark.parametrize(
    ("pods", "interrupted"),
    [
        ([ended(143)], True),
        ([deleted(ended(137))], True),
        ([disrupted(ended(1, message="the connection was closed"))], True),
        ([pod(phase="Failed", reason="Evicted", message="disk")], True),
        ([pod(phase="Failed", reason="Preempting")], True),
        ([pod(phase="Failed", reason="UnexpectedAdmissionError")], False),
        ([], True),
        ([ended(1)], False),
        ([ended(137, reason="OOMKilled")], False),
        ([pod({"terminated": {"exitCode": 1}}, conditions=[{"type": "DisruptionTarget", "status": "False"}])], False),
    ],
)
def test_an_interrupted_driver_is_distinguished_from_a_failed_one(
    pods: list[dict[str, Any]], interrupted: bool
) -> None:
    assert driver_end(pods).interrupted is interrupted


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


def test_executors_are_in_trouble_when_none_of_them_runs() -> None:
    waits = pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}])
    assert executors_trouble([waits, waits]) == "Unschedulable: 0/1"
    assert executors_trouble([waits, pod({"running": {}})]) is None
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
