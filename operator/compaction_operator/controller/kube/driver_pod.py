"""What the driver's pod tells: how it ended, how far it is, or what keeps it from starting. Pure functions of pods."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compaction_operator.api.progress import ANNOTATION_PROGRESS, Progress
from compaction_operator.api.request import DriverResult
from compaction_operator.controller.kube.job import CONTAINER

Pod = Mapping[str, Any]

SIGTERM_CODE = 143
"""The exit code of a process that SIGTERM ended."""
DISRUPTIONS = frozenset({"Evicted", "Preempting", "Preempted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated"})
"""Reasons of a pod that was ended from outside, as the kubelet and Kubernetes' controllers write them."""
LAST_WORDS = 300
"""Characters of a message that is no result (the log's end) to show."""


@dataclass(frozen=True)
class DriverEnd:
    """How a driver ended: in its own words where it had any, as seen from outside, and how far it had come.

    `interrupted` says that it was made to end from outside: its pod was deleted, evicted or preempted.
    """

    result: DriverResult | None
    seen: str
    progress: Progress | None = None
    interrupted: bool = False


@dataclass(frozen=True)
class PodTrouble:
    """What keeps a pod from running; `passing` is what every pod goes through when it starts."""

    reason: str
    message: str = ""

    @property
    def passing(self) -> bool:
        """Whether it says nothing but that the pod is being started."""
        return self.reason in ("PodNotCreated", "ContainerCreating", "PodInitializing")

    def __str__(self) -> str:
        return _joined(self.reason, self.message)


def driver_end(pods: Iterable[Pod], *, job_message: str = "") -> DriverEnd:
    """Return how the youngest of a Job's pods ended.

    A pod that is gone said nothing, and was deleted: those of a Job that has ended stay for as long as it does.
    """
    ended = [(pod, end) for pod in pods if (end := _terminated(pod)) is not None]
    if not ended:
        gone = "the driver's pod is gone" + (f": {job_message}" if job_message else "")
        return DriverEnd(None, gone, interrupted=True)
    pod, end = max(ended, key=lambda found: found[0]["metadata"].get("creationTimestamp", ""))
    return DriverEnd(_result(end.get("message", "")), _seen(pod, end), driver_progress(pod), _interrupted(pod, end))


def pod_trouble(pods: Sequence[Pod]) -> PodTrouble | None:
    """Return what keeps a driver from running (no node, no image, no volume), None when nothing does."""
    if not pods:
        return PodTrouble("PodNotCreated", "its job has created no pod yet")
    status = pods[0].get("status") or {}
    for container in status.get("containerStatuses") or ():
        waiting = container["state"].get("waiting")
        if waiting:
            return PodTrouble(waiting.get("reason") or "Waiting", waiting.get("message") or "")
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return PodTrouble(condition.get("reason") or "Unschedulable", condition.get("message") or "")
    return None


def executors_trouble(pods: Iterable[Pod]) -> str | None:
    """Return what keeps the executors that there are from running, None when one of them runs or nothing is known."""
    found = [pod_trouble((pod,)) for pod in pods]
    return None if None in found else next((str(trouble) for trouble in found), None)


def driver_progress(pod: Pod) -> Progress | None:
    """Return how far a driver says that it is, None when it says nothing, or nothing that makes sense."""
    try:
        return Progress.model_validate_json((pod["metadata"].get("annotations") or {}).get(ANNOTATION_PROGRESS, ""))
    except ValueError:
        return None


def _terminated(pod: Pod) -> Mapping[str, Any] | None:
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        if container["name"] == CONTAINER and "terminated" in container["state"]:
            end: Mapping[str, Any] = container["state"]["terminated"]
            return end
    # An evicted pod, or one of a lost node, may never have had a container's status.
    return {} if status.get("phase") == "Failed" else None


def _interrupted(pod: Pod, end: Mapping[str, Any]) -> bool:
    """Whether a pod was made to end: by SIGTERM, a deletion, or a disruption (a drain, an eviction, a preemption)."""
    status = pod.get("status") or {}
    if end.get("exitCode") == SIGTERM_CODE or "deletionTimestamp" in pod["metadata"]:
        return True
    conditions = status.get("conditions") or ()
    disrupted = any(one["type"] == "DisruptionTarget" and one["status"] == "True" for one in conditions)
    return disrupted or status.get("reason") in DISRUPTIONS


def _result(message: str) -> DriverResult | None:
    try:
        return DriverResult.model_validate_json(message)
    except ValueError:
        return None


def _seen(pod: Pod, end: Mapping[str, Any]) -> str:
    status = pod.get("status") or {}
    if not end:
        return _joined(f"the driver's pod failed: {status.get('reason', 'no reason given')}", status.get("message"))
    why = end.get("reason", "")
    code = f"the driver exited with code {end.get('exitCode')}"
    named = f"{code} ({why})" if why not in ("", "Error", "Completed") else code
    words = end.get("message", "") if _result(end.get("message", "")) is None else ""
    return _joined(named, words.strip()[-LAST_WORDS:])


def _joined(what: str | None, detail: str | None) -> str:
    return f"{what}: {detail}" if detail else str(what)
