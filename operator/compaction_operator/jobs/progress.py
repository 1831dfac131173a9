"""Tells how far the driver is: in its log, and by an annotation of its own pod that the controller reads."""

import logging
import time
from collections.abc import Callable
from functools import cached_property

import kubernetes

from compaction_operator.api.progress import ANNOTATION_PROGRESS, Progress

log = logging.getLogger(__name__)

PAUSE_SECONDS = 10.0
"""The shortest time between two reports that nobody insisted on."""

TIMEOUT_SECONDS = (2.0, 3.0)
"""To connect and to read. NB: the driver waits for it, so it is shorter than the pause."""


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
    """Reports progress at a sane rate: the first one, then at most one in PAUSE_SECONDS, or when told to."""

    def __init__(self, annotate: Callable[[str], None], *, ticks: Callable[[], float] = time.monotonic) -> None:
        self._annotate = annotate
        self._ticks = ticks
        self._reported: Progress | None = None
        self._due = ticks()

    def update(self, progress: Progress, *, at_once: bool = False) -> None:
        """Log and annotate the progress if it is news and its time has come, or `at_once` (a batch has ended).

        Never raises: nobody's data depends on it.
        """
        now = self._ticks()
        if progress == self._reported or (now < self._due and not at_once):
            return
        self._reported, self._due = progress, now + PAUSE_SECONDS
        log.info("progress: %s (%d of %d bytes)", progress, progress.bytes_done, progress.bytes_total)
        try:
            self._annotate(progress.model_dump_json(by_alias=True))
        except Exception as error:
            log.debug("progress not annotated: %s", error)
