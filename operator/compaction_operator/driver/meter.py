"""Adds up how far the driver is, for whoever tells the user."""

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
