"""Tells how far the driver is: in its log, and by an annotation of its own pod that the controller reads."""

import logging
import threading
import time
from collections.abc import Callable
from functools import cached_property

import kubernetes

from compaction_operator.api.progress import ANNOTATION_PROGRESS, Progress

log = logging.getLogger(__name__)

PAUSE_SECONDS = 10.0
"""The time between two reports that nobody insisted on."""

TIMEOUT_SECONDS = (2.0, 3.0)
"""To connect and to read. NB: the driver waits for it, so it is shorter than the pause."""


def _later(seconds: float, call: Callable[[], None]) -> None:
    """Call something in so many seconds, unless the process has ended by then."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


class OwnPod:
    """The pod that this process runs in, with the driver's rights: patch."""

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace = namespace
        self._name = name

    def annotate(self, value: str) -> None:
        """Set the progress annotation. Raises whatever the Kubernetes client does when that does not work."""
        body = {"metadata": {"annotations": {ANNOTATION_PROGRESS: value}}}
        self._api.patch_namespaced_pod(self._name, self._namespace, body, _request_timeout=TIMEOUT_SECONDS)

    @cached_property
    def _api(self) -> kubernetes.client.CoreV1Api:
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_incluster_config(client_configuration=configuration)
        # The next report is soon enough: a server that does not answer is not waited for several times.
        configuration.retries = False
        return kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))


class ProgressReporter:
    """Reports progress at a sane rate: the first one, then the newest every PAUSE_SECONDS, or when told to.

    NB: what came too soon is reported later, also when nobody calls any more: a driver may wait for a lock for minutes.
    """

    def __init__(
        self,
        annotate: Callable[[str], None],
        *,
        ticks: Callable[[], float] = time.monotonic,
        later: Callable[[float, Callable[[], None]], None] = _later,
    ) -> None:
        self._annotate = annotate
        self._ticks = ticks
        self._later = later
        self._lock = threading.Lock()
        self._newest: Progress | None = None
        self._reported: Progress | None = None
        self._due = ticks()
        self._waiting = False

    def update(self, progress: Progress, *, at_once: bool = False) -> None:
        """Log and annotate the progress if it is news, now or when its time has come; `at_once` when a batch has ended.

        Never raises: nobody's data depends on it.
        """
        with self._lock:
            self._newest = progress
            if at_once:
                self._due = self._ticks()
            self._report_when_due()

    def _wake(self) -> None:
        with self._lock:
            self._waiting = False
            self._report_when_due()

    def _report_when_due(self) -> None:
        if self._newest is None or self._newest == self._reported:
            return
        left = self._due - self._ticks()
        if left <= 0:
            self._report(self._newest)
        elif not self._waiting:
            self._waiting = True
            self._later(left, self._wake)

    def _report(self, progress: Progress) -> None:
        self._reported, self._due = progress, self._ticks() + PAUSE_SECONDS
        log.info("progress: %s (%d of %d bytes)", progress, progress.bytes_done, progress.bytes_total)
        try:
            self._annotate(progress.model_dump_json(by_alias=True))
        except Exception as error:
            log.debug("progress not annotated: %s", error)
