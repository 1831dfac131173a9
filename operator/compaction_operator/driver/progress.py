"""Progress of a driver: added up batch by batch, logged, and shown as an annotation of the own pod."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from compaction_operator.api.progress import Progress


class Report(Protocol):
    """Is told how far the driver is; decides itself how often to pass that on."""

    def update(self, progress: Progress, *, at_once: bool = False) -> None:
        """Take note; `at_once` when a batch has ended."""
        ...


class Meter:
    """Counts the partitions that are done and the bytes that are merged, batch by batch.

    What later batches have to read is not known before they are listed: until then they are taken for average ones.
    """

    def __init__(self, report: Report, *, partitions: int) -> None:
        self._report = report
        self._progress = Progress(partitions_total=partitions)
        self._listed = 0
        self._known_bytes = 0
        self._batch_bytes = 0

    def begin(self, size: int, *, partitions: int) -> None:
        """A batch of so many partitions begins whose inputs have that many bytes."""
        self._listed += partitions
        self._known_bytes += size
        self._batch_bytes = size
        self._set(bytes_total=self._known_bytes * self._progress.partitions_total // max(1, self._listed))

    def merged(self, *, done: int, total: int) -> None:
        """Of the batch's work, counted as tasks read it (delete events more than once), so much is done."""
        before = self._known_bytes - self._batch_bytes
        self._set(bytes_done=before + self._batch_bytes * min(done, total) // max(1, total))

    def partition_done(self) -> None:
        """A partition is published, or had nothing to do. NB: one that cannot be compacted is never done."""
        self._set(partitions_done=self._progress.partitions_done + 1)

    def end(self) -> None:
        """The batch is over."""
        self._report.update(self._progress, at_once=True)

    def _set(self, **changes: int) -> None:
        self._progress = self._progress.model_copy(update=changes)
        self._report.update(self._progress)


log = logging.getLogger(__name__)


PAUSE_SECONDS = 10.0
"""The time between two reports that nobody insisted on."""


def _later(seconds: float, call: Callable[[], None]) -> None:
    """Call something in so many seconds, unless the process has ended by then."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


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
