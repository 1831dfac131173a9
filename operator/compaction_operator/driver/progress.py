"""Progress of a driver: summed batch by batch, logged, and published as an annotation on the driver's own pod."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from compaction_operator.api.progress import Progress

log = logging.getLogger(__name__)

PAUSE_SECONDS = 10.0
"""The minimum time between two reports, unless the caller requests one at once."""

TELLING_SECONDS, TELLING_SHARE = 10.0, 0.05
"""How long the work must have gone on, and which share of it must be done, before its pace says how much is left."""


class Report(Protocol):
    """Receiver of a driver's progress. It decides itself how often to publish it."""

    def update(self, progress: Progress, *, at_once: bool = False) -> None:
        """Accept the current progress; `at_once` marks the end of a batch."""
        ...


def seconds_left(progress: Progress, *, elapsed: float) -> int | None:
    """Return how long the rest takes at the pace of the `elapsed` seconds so far; None if that cannot be told.

    The pace is that of the bytes. Once all are merged, what is left is to publish, about which they say nothing.
    """
    done, total = progress.bytes_done, progress.bytes_total
    if elapsed < TELLING_SECONDS or done < TELLING_SHARE * total or done >= total:
        return None
    return round(elapsed * (total - done) / done)


def next_step(progress: Progress) -> str:
    """Return what a driver does next with its partitions, in a word."""
    if progress.partitions_done >= progress.partitions_total:
        return "the end"
    return "merge" if progress.bytes_done < progress.bytes_total or not progress.bytes_total else "publish"


class Meter:
    """Counter of finished partitions and merged bytes, batch by batch.

    The input of a later batch is unknown until the batch is listed. Until then the meter estimates it by the average
    partition so far.
    """

    def __init__(self, report: Report, *, partitions: int) -> None:
        self._report = report
        self._progress = Progress(partitions_total=partitions)
        self._listed = 0
        self._known_bytes = 0
        self._batch_bytes = 0

    def begin(self, size: int, *, partitions: int) -> None:
        """Start a batch of `partitions` partitions whose inputs have `size` bytes."""
        self._listed += partitions
        self._known_bytes += size
        self._batch_bytes = size
        self._set(bytes_total=self._known_bytes * self._progress.partitions_total // max(1, self._listed))

    def merged(self, *, done: int, total: int) -> None:
        """Record that `done` of the batch's `total` bytes of work are finished.

        Both count bytes as tasks read them, so delete events count more than once.
        """
        before = self._known_bytes - self._batch_bytes
        self._set(bytes_done=before + self._batch_bytes * min(done, total) // max(1, total))

    def partition_done(self) -> None:
        """Count a partition that is published or had nothing to compact.

        NB: a partition that cannot be compacted never counts as done.
        """
        self._set(partitions_done=self._progress.partitions_done + 1)

    def end(self) -> None:
        """End the batch."""
        self._report.update(self._progress, at_once=True)

    def _set(self, **changes: int) -> None:
        self._progress = self._progress.model_copy(update=changes)
        self._report.update(self._progress)


def _later(seconds: float, call: Callable[[], None]) -> None:
    """Call `call` after `seconds` seconds, unless the process has ended by then."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


class ProgressReporter:
    """Rate-limited progress reports: the first one, then the newest every PAUSE_SECONDS or on request.

    NB: an update that comes too early is reported later by a timer, without a further call. A driver may wait for a
    lock for minutes and call nothing in that time.
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
        self._execution: str | None = None
        self._reported: Progress | None = None
        self._began: float | None = None
        self._due = ticks()
        self._waiting = False

    def update(self, progress: Progress, *, at_once: bool = False) -> None:
        """Log and annotate the progress if it changed, now or when the pause is over.

        `at_once` skips the pause: a batch has ended. Never raises, since no data depends on a report.
        """
        with self._lock:
            self._newest = progress.model_copy(update={"execution": self._execution})
            if self._began is None and progress.bytes_total:
                self._began = self._ticks()
            if at_once:
                self._due = self._ticks()
            self._report_when_due()

    def tell(self, execution: str) -> None:
        """Say with all further progress where the work is done, and why."""
        with self._lock:
            self._execution = execution

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
        now = self._ticks()
        self._reported, self._due = progress, now + PAUSE_SECONDS
        elapsed = 0.0 if self._began is None else now - self._began
        told = progress.model_copy(update={"seconds_left": seconds_left(progress, elapsed=elapsed)})
        log.info("progress: %s (%d of %d bytes); next: %s", told, told.bytes_done, told.bytes_total, next_step(told))
        try:
            self._annotate(told.model_dump_json(by_alias=True, exclude_none=True))
        except Exception as error:
            log.debug("progress not annotated: %s", error)
