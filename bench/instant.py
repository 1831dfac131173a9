"""What the controller's benchmark has instead of metastore and drivers: both are done at once."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import kubernetes
from sandbox.plane.pod import move_in
from sandbox.plane.processes import Launch

from compaction_operator import cli
from compaction_operator.controller import app
from compaction_operator.controller.answers import Preflight
from compaction_operator.controller.kube.resources import Compaction
from compaction_operator.controller.work import Work

THREADS = 4


class InstantWork(Work):
    """A metastore that has every table, and nothing against its compaction."""

    def preflight(self, _: Compaction) -> Preflight:
        """Nothing is in the way."""
        return Preflight()

    def sweep(self, *_: object, **__: object) -> None:
        """Nothing was left behind."""


def controller(launch: Launch) -> None:
    """Be the controller, on one core."""
    os.sched_setaffinity(0, {0})
    move_in(launch)
    app.Work = InstantWork  # type: ignore[attr-defined]
    cli.main()


class Drivers:
    """Ends each Job with success as soon as it is seen; while `held`, only remembers it."""

    def __init__(self, api: kubernetes.client.ApiClient) -> None:
        self._batch = kubernetes.client.BatchV1Api(api)
        self._threads = ThreadPoolExecutor(THREADS)
        self._waiting: list[Mapping[str, Any]] = []
        self._held = False
        self.started = 0

    def hold(self) -> None:
        """Let Jobs run from now on."""
        self._held, self.started = True, 0

    def let_go(self) -> None:
        """End all Jobs that run, and from now on each one at once."""
        self._held = False
        while self._waiting:
            self._threads.submit(self._end, self._waiting.pop())

    def saw(self, event: str, job: Mapping[str, Any]) -> None:
        """Take an event of a Job."""
        if event != "ADDED":
            return
        self.started += 1
        if self._held:
            self._waiting.append(job["metadata"])
        else:
            self._threads.submit(self._end, job["metadata"])

    def _end(self, job: Mapping[str, Any]) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = [
            {"type": type_, "status": "True", "lastProbeTime": now, "lastTransitionTime": now}
            for type_ in ("SuccessCriteriaMet", "Complete")
        ]
        status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": conditions}
        self._batch.patch_namespaced_job_status(
            job["name"], job["namespace"], {"status": status}, _preload_content=False
        )
