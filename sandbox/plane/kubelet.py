"""Stands in for the kubelet: runs the drivers of our Jobs' pods as processes here and reports how their pods are."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kubernetes
from kubernetes.client.exceptions import ApiException

from compaction_operator.api.cleanup import LABEL_ATTEMPT, LABEL_COMPACTION_UID
from compaction_operator.api.request import TERMINATION_MESSAGE_BYTES
from sandbox.plane.mirror import Mirror, Raw
from sandbox.plane.processes import Entry, Launch, PythonProcess

POD_IP = "127.0.0.1"
LAST_WORDS = 2048
"""Bytes of a log that stand in for a termination message, as a kubelet has it."""


@dataclass(frozen=True)
class Driver:
    """The driver process of one pod."""

    namespace: str
    pod: str
    pod_uid: str
    compaction_uid: str
    attempt: int
    process: PythonProcess
    folder: Path

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "log"

    def kill(self) -> None:
        """Kill it with all that it started; its pod then fails."""
        self.process.kill()

    def pause(self) -> None:
        """Stop it."""
        self.process.pause()

    def resume(self) -> None:
        """Let it go on."""
        self.process.resume()


class Kubelet:
    """The drivers of one namespace. NB: their pods are never bound to a node: there is none."""

    def __init__(
        self,
        api: kubernetes.client.ApiClient,
        mirror: Mirror,
        *,
        folder: Path,
        launch: Callable[..., Launch],
        entry: Entry,
    ) -> None:
        self.entry = entry
        self._core = kubernetes.client.CoreV1Api(api)
        self._mirror = mirror
        self.folder = folder
        self._launch = launch
        self._drivers: dict[str, Driver] = {}
        self._lost: list[Driver] = []
        self._ends: dict[str, tuple[str, Raw]] = {}
        self._lock = threading.Lock()
        mirror.listen("pods", self._saw)

    def current(self) -> tuple[Driver, ...]:
        """Return the drivers whose pods exist and whose processes have not ended, the oldest first."""
        with self._lock:
            return tuple(driver for driver in self._drivers.values() if driver.process.running)

    def last_words(self) -> dict[str, str]:
        """Return the termination message of each pod by its name; empty for one that runs or was killed."""
        return {path.parent.name: path.read_text() for path in sorted(self.folder.glob("*/termination-log"))}

    def lose(self, driver: Driver) -> None:
        """Lose the pod's node for good, as the pod garbage collector sees it: the process goes on, or stays paused.

        NB: a pod that is only deleted would be waited for: its Job replaces it once it has a phase that is final.
        """
        with self._lock:
            self._drivers.pop(driver.pod_uid, None)
            self._lost.append(driver)
        reason = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
        self._core.patch_namespaced_pod_status(
            driver.pod, driver.namespace, {"status": {"phase": "Failed", "conditions": [reason]}}
        )
        self._core.delete_namespaced_pod(driver.pod, driver.namespace, grace_period_seconds=0)

    def end(self, driver: Driver, *, why: str = "Error", **pod: Any) -> None:
        """Kill a driver as Kubernetes does; `why` is the reason of its container, `pod` are fields of its pod's status.

        `why="OOMKilled"` for one, `reason="Evicted"` and `message` for another.
        """
        with self._lock:
            self._ends[driver.pod_uid] = why, pod
        driver.kill()

    def kill_all(self) -> None:
        """Kill all drivers, the lost ones too."""
        with self._lock:
            every = [*self._drivers.values(), *self._lost]
        for driver in every:
            driver.kill()

    def _saw(self, event: str, pod: Raw) -> None:
        uid = pod["metadata"]["uid"]
        if LABEL_COMPACTION_UID not in (pod["metadata"].get("labels") or {}):
            return
        going = event == "DELETED" or pod["metadata"].get("deletionTimestamp")
        with self._lock:
            known = self._drivers.get(uid)
            if known is None and not going and "phase" in pod["status"] and pod["status"]["phase"] == "Pending":
                self._drivers[uid] = known = self._start(pod)
                threading.Thread(target=self._look_after, args=(pod, known), name=uid, daemon=True).start()
        if known is not None and going:
            known.kill()

    def _start(self, pod: Raw) -> Driver:
        metadata, container = pod["metadata"], pod["spec"]["containers"][0]
        folder = self.folder / metadata["name"]
        folder.mkdir()
        (folder / "termination-log").touch()
        fields = {"metadata.name": metadata["name"], "metadata.uid": metadata["uid"], "status.podIP": POD_IP}
        launch = self._launch(arguments=container["args"], environment=_environment(container, fields), folder=folder)
        return Driver(
            namespace=metadata["namespace"],
            pod=metadata["name"],
            pod_uid=metadata["uid"],
            compaction_uid=metadata["labels"][LABEL_COMPACTION_UID],
            attempt=int(metadata["labels"][LABEL_ATTEMPT]),
            process=PythonProcess(self.entry, launch),
            folder=folder,
        )

    def _look_after(self, pod: Raw, driver: Driver) -> None:
        """Report the driver's start and end. NB: never before the end of the process: its Job would be replaced."""
        container = pod["spec"]["containers"][0]
        started = _now()
        self._report(pod, "Running", _status(container, {"running": {"startedAt": started}}, ready=True))
        driver.process.wait()
        self._mirror.poke()
        code = driver.process.exit_code or 0
        with self._lock:
            why, more = self._ends.get(driver.pod_uid, ("Error", {}))
        end = {
            "startedAt": started,
            "exitCode": code if code >= 0 else 128 - code,
            "reason": "Completed" if code == 0 else why,
            "message": _message(driver, failed=code != 0),
            "finishedAt": _now(),
        }
        with self._lock:
            lost = driver.pod_uid not in self._drivers
        if not lost:
            phase = "Succeeded" if code == 0 else "Failed"
            self._report(pod, phase, _status(container, {"terminated": end}, ready=False), **more)

    def _report(self, pod: Raw, phase: str, container: Raw, **more: Any) -> None:
        status = {"phase": phase, "podIP": POD_IP, "startTime": _now(), "containerStatuses": [container], **more}
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        try:
            self._core.patch_namespaced_pod_status(metadata["name"], metadata["namespace"], body)
        except ApiException as error:
            if error.status not in (404, 409):  # the pod is gone, or another one has its name
                raise


def _environment(container: Raw, fields: Mapping[str, str]) -> dict[str, str]:
    return {
        variable["name"]: variable["value"]
        if "value" in variable
        else fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        for variable in container["env"]
    }


def _status(container: Raw, state: Mapping[str, Any], *, ready: bool) -> Raw:
    image = container["image"]
    return {
        "name": container["name"],
        "image": image,
        "imageID": image,
        "restartCount": 0,
        "ready": ready,
        "started": ready,
        "state": dict(state),
    }


def _message(driver: Driver, *, failed: bool) -> str:
    said = (driver.folder / "termination-log").read_text()[:TERMINATION_MESSAGE_BYTES]
    if said or not failed or not driver.log.exists():
        return said
    return driver.log.read_bytes()[-LAST_WORDS:].decode(errors="replace")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
