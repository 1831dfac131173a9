"""The batch Job of one attempt: pure functions from a request to its manifest, and from a Job to a view of it."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from compaction_operator.api import compaction as api
from compaction_operator.api.cleanup import LABEL_ATTEMPT, LABEL_COMPACTION_UID
from compaction_operator.api.compaction import SparkOptions
from compaction_operator.api.config import OperatorConfig, SparkProfile
from compaction_operator.api.hudi import HudiOptions
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.api.pods import container_security, pod_environment, pod_security, volume_mounts, volumes
from compaction_operator.api.request import REQUEST_VARIABLE, JobRequest
from compaction_operator.controller.kube.resources import Compaction

ANNOTATION_COMPACTION = "compaction.dev/compaction"
CONTAINER = "driver"
DRIVER_ARGUMENTS = ("compaction-operator", "job")
GRACE_SECONDS = 60
"""Seconds for a driver after SIGTERM: to finish a publication, release its locks and stop its executors."""
MEMORY_OVERHEAD_SHARE = 0.4
MEMORY_OVERHEAD_MINIMUM = 512
"""MiB beside the JVM's heap: Python and pyarrow do the work (the share is Spark's own for Python programs)."""

_SIZE = re.compile(r"^([0-9]+)([kmgt]?)b?$")
_MEBIBYTES = {"k": 1 / 1024, "": 1.0, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024.0}
SUSPENDED, RESUMED = ("Suspended", "True"), ("Suspended", "False")
LABEL_QUEUE = "kueue.x-k8s.io/queue-name"
"""Kueue's queue of a Job: https://kueue.sigs.k8s.io/docs/tasks/run/jobs/."""
_POD_FIELDS = {"POD_NAME": "metadata.name", "POD_UID": "metadata.uid", "POD_IP": "status.podIP"}


class JobState(StrEnum):
    """State of a Job's only pod."""

    ACTIVE = "Active"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True)
class JobView:
    """The parts of a Job that the controller needs.

    `suspended` means that it may have no pod now, as long as it waits in `queue`. `resumed` is when it last had leave
    to start one, None if it was never suspended.
    """

    namespace: str
    name: str
    resource_version: int
    compaction: str
    state: JobState
    ready: bool = False
    message: str = ""
    suspended: bool = False
    resumed: str | None = None
    queue: str | None = None

    @property
    def ended(self) -> bool:
        """Whether its pod has terminated for good."""
        return self.state is not JobState.ACTIVE


def job_name(*, compaction: str, uid: str, attempt: int) -> str:
    """Return the Job's name: a deterministic valid host name of at most 63 characters."""
    digest = hashlib.sha256(uid.encode()).hexdigest()[:8]
    return f"{compaction[:40].replace('.', '-').strip('-')}-{digest}-{attempt}"


def current_job(compaction: Compaction) -> str:
    """Return the name of the Job of a compaction's current attempt."""
    meta = compaction.meta
    return job_name(compaction=meta.name, uid=meta.uid, attempt=compaction.status.attempt)


def job_request(compaction: Compaction, config: OperatorConfig) -> JobRequest:
    """Return the request for the driver of the current attempt.

    Raises KeyError for an unknown warehouse or profile.
    """
    spec, meta = compaction.spec, compaction.meta
    warehouse = config.warehouse(spec.warehouse)
    profile = config.profile(spec.spark.profile)
    if warehouse is None or profile is None:
        raise KeyError(f"warehouse {spec.warehouse} or profile {spec.spark.profile}")
    return JobRequest(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        attempt=compaction.status.attempt,
        job=current_job(compaction),
        operator=compaction.status.operator,
        warehouse=warehouse,
        profile=profile,
        table=spec.table,
        partitions=spec.partitions,
        type=spec.type,
        format=spec.type.table_format,
        hudi=spec.hudi or HudiOptions(),
        cleaner_held=config.cleanup.suspend,
        cleanup=spec.cleanup,
        spark=spec.spark,
        allow_auto_compaction=spec.allow_auto_compaction,
        queue_id=spec.queue_id,
        log_format=config.log.format,
    )


def job_manifest(request: JobRequest, *, ttl: float, after_oom: bool = False) -> dict[str, Any]:
    """Return the Job that runs an attempt; it is deleted `ttl` seconds after its end, or with its compaction.

    `after_oom` means that a driver of an earlier attempt ran out of memory.

    The Job itself never retries: an attempt is counted before it starts, so retries are up to the controller.
    """
    placement = request.profile.of_driver
    labels = {
        **placement.labels,
        "app.kubernetes.io/name": "compaction-operator",
        "app.kubernetes.io/component": CONTAINER,
        LABEL_COMPACTION_UID: request.uid,
        LABEL_ATTEMPT: str(request.attempt),
    }
    owner = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": api.KIND,
        "name": request.name,
        "uid": request.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": request.job,
            "namespace": request.namespace,
            "labels": labels,
            "annotations": {**placement.annotations, ANNOTATION_COMPACTION: request.name},
            "ownerReferences": [owner],
        },
        "spec": {
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": math.ceil(ttl),
            "template": {
                "metadata": {"labels": labels, "annotations": placement.annotations},
                "spec": _pod_spec(request, after_oom=after_oom),
            },
        },
    }


def driver_resources(spark: SparkOptions, profile: SparkProfile, *, after_oom: bool) -> dict[str, Any]:
    """Return the container's requests and limits. CPU has no limit: it would slow down a starting JVM.

    Where the driver may do the work itself, each core's task may hold its memory in addition; only a few tables make it
    do so. One task more is what the driver's process did before it started Spark: Python keeps much of that memory.
    After a lack of memory the pod gets more. The JVM's heap stays: what the JVM lacks is an error of its own.
    """
    factor = profile.oom_memory_factor if after_oom else 1.0
    memory = driver_memory_mib(spark.driver.memory)
    tasks = 0 if spark.executors.asked else (spark.driver.cores + 1) * math.ceil(profile.task_memory / 1024**2)
    cpu = profile.driver_cpu_request or str(spark.driver.cores)
    least, most = math.ceil(memory * factor), math.ceil((memory + tasks) * factor)
    return {"requests": {"cpu": cpu, "memory": f"{least}Mi"}, "limits": {"memory": f"{most}Mi"}}


def driver_memory_mib(heap: str) -> int:
    """Return the MiB of a driver's container for a heap given as a Spark size (`512m`, `1g`; MiB without a unit).

    Raises ValueError, naming the text, if it is not a size.
    """
    match = _SIZE.match(heap.strip().lower())
    if not match:
        raise ValueError(f"{heap!r} is not a Spark memory size: write for example 512m or 1g")
    mebibytes = int(match[1]) * _MEBIBYTES[match[2]]
    return math.ceil(mebibytes + max(MEMORY_OVERHEAD_MINIMUM, mebibytes * MEMORY_OVERHEAD_SHARE))


def view_job(raw: Mapping[str, Any]) -> JobView:
    """Return the view of a Job in its API form."""
    metadata = raw["metadata"]
    status = raw.get("status") or {}
    state, message = _state(status)
    # NB: right after a resumption it is not known since when. The Job's controller says so by the condition.
    conditions = _conditions(status)
    suspended = bool((raw.get("spec") or {}).get("suspend")) or SUSPENDED in conditions
    return JobView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        resource_version=int(metadata["resourceVersion"]),
        compaction=(metadata.get("annotations") or {}).get(ANNOTATION_COMPACTION, ""),
        state=state,
        ready=bool(status.get("ready")),
        message=message,
        suspended=suspended,
        # NB: not its startTime, which Kueue removes, and which each Job has.
        resumed=None if suspended else conditions.get(RESUMED),
        queue=(metadata.get("labels") or {}).get(LABEL_QUEUE),
    )


def _conditions(status: Mapping[str, Any]) -> dict[tuple[str, str], str | None]:
    """Return since when the conditions are as they are, by type and status."""
    found = status.get("conditions") or ()
    return {(one["type"], one["status"]): one.get("lastTransitionTime") for one in found}


def _state(status: Mapping[str, Any]) -> tuple[JobState, str]:
    # NB: SuccessCriteriaMet and FailureTarget appear while the pod still runs; only these two mean that it has ended.
    for condition in status.get("conditions") or ():
        if condition["status"] == "True" and condition["type"] in ("Complete", "Failed"):
            ended = JobState.SUCCEEDED if condition["type"] == "Complete" else JobState.FAILED
            return ended, condition.get("message", "")
    return JobState.ACTIVE, ""


def _pod_spec(request: JobRequest, *, after_oom: bool) -> dict[str, Any]:
    profile = request.profile
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "serviceAccountName": profile.service_account,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "containers": [_container(request, after_oom=after_oom)],
        "volumes": volumes(request.warehouse, profile, metastore=True),
        **profile.pod_spec_fields(profile.of_driver),
    }


def _container(request: JobRequest, *, after_oom: bool) -> dict[str, Any]:
    warehouse, profile = request.warehouse, request.profile
    of_pod = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in _POD_FIELDS.items()]
    variables = [*of_pod, *pod_environment(warehouse, profile, metastore=True)]
    return {
        "name": CONTAINER,
        "image": profile.image,
        "imagePullPolicy": profile.image_pull_policy,
        "args": list(DRIVER_ARGUMENTS),
        "env": [{"name": REQUEST_VARIABLE, "value": json.dumps(request.to_json())}, *variables],
        "resources": driver_resources(request.spark, profile, after_oom=after_oom),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": container_security(),
        "volumeMounts": volume_mounts(warehouse, profile, metastore=True),
    }
