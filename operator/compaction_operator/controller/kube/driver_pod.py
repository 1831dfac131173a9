"""Information in the driver's pod: how it ended, its progress, or what keeps it from starting.

Pure functions of pods.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compaction_operator.api.progress import ANNOTATION_PROGRESS, Progress
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.controller.kube.job import CONTAINER
from compaction_operator.controller.kube.times import known_time

Pod = Mapping[str, Any]

SIGTERM_CODE = 143
"""Exit code of a process ended by SIGTERM."""
DISRUPTIONS = {
    "Evicted": Reason.EVICTED,
    "Preempting": Reason.PREEMPTED,
    "Preempted": Reason.PREEMPTED,
    "NodeLost": Reason.NODE_GONE,
    "NodeShutdown": Reason.NODE_GONE,
    "Shutdown": Reason.NODE_GONE,
    "Terminated": Reason.NODE_GONE,
    "EvictionByEvictionAPI": Reason.EVICTED,
    "TerminationByKubelet": Reason.EVICTED,
    "PreemptionByScheduler": Reason.PREEMPTED,
    "DeletionByTaintManager": Reason.NODE_GONE,
    "DeletionByPodGC": Reason.NODE_GONE,
}
"""Reasons of a pod ended from outside: the kubelet's in the pod's status, and those of the condition DisruptionTarget.

https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
"""
LAST_WORDS = 300
"""Characters to show of a message that is not a result (the log's end)."""


@dataclass(frozen=True)
class DriverEnd:
    """How a driver ended: its own report if it left one, the outside view, and its last progress.

    `cause` is what ended it from outside: its pod was deleted, evicted, preempted or out of memory, or lost its node.
    """

    result: DriverResult | None
    seen: str
    progress: Progress | None = None
    cause: DriverResult | None = None
    started: datetime | None = None
    finished: datetime | None = None


@dataclass(frozen=True)
class PodTrouble:
    """What keeps a pod from running; `passing` marks the stages that every starting pod goes through."""

    reason: str
    message: str = ""

    @property
    def passing(self) -> bool:
        """Whether it only means that the pod is starting."""
        return self.reason in ("PodNotCreated", "ContainerCreating", "PodInitializing")

    @property
    def cause(self) -> Reason:
        """The reason of an attempt that is ended because of it: one for the many words that the kubelet has."""
        if self.reason in ("Unschedulable", "SchedulerError", "SchedulingGated"):
            return Reason.UNSCHEDULABLE
        if self.reason.startswith(("Image", "ErrImage", "InvalidImage", "RegistryUnavailable")):
            return Reason.IMAGE_PULL_FAILED
        return Reason.QUOTA_EXCEEDED if self.reason == "QuotaExceeded" else Reason.POD_NOT_STARTED

    def __str__(self) -> str:
        return _joined(self.reason, self.message)


def driver_end(pods: Iterable[Pod], *, job_message: str = "") -> DriverEnd:
    """Return how the youngest of a Job's pods ended.

    A missing pod left no report and was deleted: the pods of an ended Job stay as long as the Job does.
    """
    ended = [(pod, end) for pod in pods if (end := _terminated(pod)) is not None]
    if not ended:
        gone = "the driver's pod is gone" + (f": {job_message}" if job_message else "")
        return DriverEnd(None, gone, cause=DriverResult(reason=Reason.INTERRUPTED, message=gone))
    pod, end = max(ended, key=lambda found: found[0]["metadata"].get("creationTimestamp", ""))
    times = (known_time(end.get(key) or "") for key in ("startedAt", "finishedAt"))
    return DriverEnd(_result(end.get("message", "")), _seen(pod, end), driver_progress(pod), _cause(pod, end), *times)


def pod_trouble(pods: Sequence[Pod]) -> PodTrouble | None:
    """Return what keeps a driver from running (no node, no image, no volume), None if nothing does."""
    if not pods:
        return PodTrouble("PodNotCreated", "the job has not created a pod yet")
    status = pods[0].get("status") or {}
    for container in status.get("containerStatuses") or ():
        waiting = container["state"].get("waiting")
        if waiting:
            return PodTrouble(waiting.get("reason") or "Waiting", waiting.get("message") or "")
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return PodTrouble(condition.get("reason") or "Unschedulable", condition.get("message") or "")
    return None


def refusal_of(events: Sequence[Mapping[str, Any]]) -> PodTrouble | None:
    """Return why the API server refuses the pod of a Job, by the newest of the Job's events; None without any."""
    if not events:
        return None
    newest = max(events, key=lambda event: event.get("lastTimestamp") or event["metadata"]["creationTimestamp"])
    message = newest.get("message") or ""
    return PodTrouble("QuotaExceeded" if "exceeded quota" in message else "FailedCreate", message)


def executors_trouble(pods: Iterable[Pod]) -> PodTrouble | None:
    """Return what keeps the existing executors from running, None if one runs or is starting, or none exists."""
    found = [pod_trouble((pod,)) for pod in pods]
    return next((trouble for trouble in found if not any(one is None or one.passing for one in found)), None)


def driver_progress(pod: Pod) -> Progress | None:
    """Return the progress that a driver reports, None if it reports none, or an invalid one."""
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
    # The pod of an eviction or of a lost node may never have had a container status.
    return {} if status.get("phase") == "Failed" else None


def _cause(pod: Pod, end: Mapping[str, Any]) -> DriverResult | None:
    """Return what ended a pod from outside, None if its container ended by itself."""
    status, seen = pod.get("status") or {}, _seen(pod, end)
    if (reason := DISRUPTIONS.get(status.get("reason", ""))) is not None:
        return DriverResult(reason=reason, message=_ended_by(status.get("message") if end else None, seen))
    for condition in status.get("conditions") or ():
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            reason = DISRUPTIONS.get(condition.get("reason", ""), Reason.INTERRUPTED)
            return DriverResult(reason=reason, message=_ended_by(condition.get("message"), seen))
    if end.get("reason") == "OOMKilled":
        return DriverResult(reason=Reason.OOM_KILLED, message=seen)
    if end.get("exitCode") == SIGTERM_CODE or "deletionTimestamp" in pod["metadata"]:
        return DriverResult(reason=Reason.INTERRUPTED, message=seen)
    return None


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
    return _joined(named, _last(words.strip()))


def _last(words: str) -> str:
    """Return the last lines of a log: whole ones, unless the last one alone is too long."""
    if len(words) <= LAST_WORDS:
        return words
    return words[-LAST_WORDS:].partition("\n")[2] or words[-LAST_WORDS:]


def _ended_by(detail: str | None, seen: str) -> str:
    """Return Kubernetes' own words first: the driver's exit code is only what followed."""
    return f"Kubernetes ended the driver's pod: {detail}; {seen}" if detail else seen


def _joined(what: str | None, detail: str | None) -> str:
    return f"{what}: {detail}" if detail else str(what)
