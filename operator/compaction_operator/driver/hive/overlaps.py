"""Detection of Hive 3.1's own compactions that overlap this driver's (hazard H23).

Hive's Worker respects no locks of this driver and does not list again before it publishes. A compaction that it begins
before our rename and publishes after it overlaps our output, and rows count twice. The Worker's queue entry is
"working" from before it lists until it has published, and it writes below the partition, into _tmp_ and a UUID
(CompactorMR). So a Worker that is idle right before a rename and right after it has not published across it.
"""

import re
import time
from collections.abc import Iterator, Sequence

from compaction_operator.acid.plan import CompactionPlan, overlapping_inputs, require_alone
from compaction_operator.acid.snapshot import UnsupportedLayout
from compaction_operator.api.request import Reason
from compaction_operator.cleanup.deletion import open_worker_entries
from compaction_operator.driver.errors import JobError, RepeatedRow, job_error
from compaction_operator.driver.hive.checks import refuse_queued
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.protocol import Failed, Staged
from compaction_operator.driver.merge.partition import OpenTarget
from compaction_operator.metastore import QueueEntry
from compaction_operator.storage import StorageError, join

FRESH_SECONDS = 1.0
"""How long the queue's entries are cached: Hive 3.1 sends the history of all tables, which may be megabytes."""

_WORKERS_FOLDER = re.compile(r"_tmp_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_WHAT_TO_DO = "nothing is deleted there; docs/operate.md, When two compactions overlap, says what to do"


def refuse_left_by_worker(target: OpenTarget) -> None:
    """Raise JobError (InCompactionQueue) if a compaction of Hive's writes in the directory, or died there.

    Raises StorageError.
    """
    for entry in target.storage.list(target.location):
        if _WORKERS_FOLDER.fullmatch(entry.name):
            raise JobError(
                Reason.IN_COMPACTION_QUEUE,
                f"{join(target.location, entry.name)} belongs to a compaction by Hive; if none runs, remove the folder",
            )


def explained(error: JobError, plan: CompactionPlan) -> JobError:
    """Return an error with reason OverlappingCompaction for repeated rows in overlapping inputs, else `error`.

    An attempt finds such inputs when its predecessor was killed before it could look for overlaps.
    """
    overlapping = overlapping_inputs(plan) if isinstance(error, RepeatedRow) else None
    if overlapping is None:
        return error
    return JobError(Reason.OVERLAPPED, f"{error}: {' and '.join(overlapping)} overlap; {_WHAT_TO_DO}")


class Overlaps:
    """Detector of Hive's own compactions around one batch's renames."""

    def __init__(self, attempt: DriverContext) -> None:
        self._attempt = attempt
        self._asked: tuple[float, Sequence[QueueEntry]] | None = None

    def refuse_begun(self, target: OpenTarget) -> None:
        """Raise JobError (InCompactionQueue) if Hive compacts the partition or is about to.

        NB: call it before the last listing. That listing then shows everything that was published earlier.
        """
        refuse_queued(self._attempt.table, self._queue(), [target])
        refuse_left_by_worker(target)

    def found(self, published: Sequence[Staged]) -> Iterator[Failed]:
        """Yield each published partition that is overlapped, or may soon be. Asks the queue first, then lists."""
        if not published:
            return
        working = open_worker_entries(self._attempt.client, self._attempt.table)
        for item in published:
            at_work = [entry for entry in working if entry.concerns([item.target.partition])]
            try:
                self._require_alone(item, at_work)
            except (JobError, StorageError) as error:
                yield Failed(item.target, job_error(error))

    def _queue(self) -> Sequence[QueueEntry]:
        if self._asked is None or time.monotonic() > self._asked[0] + FRESH_SECONDS:
            entries = self._attempt.queue()
            self._asked = (time.monotonic(), entries)
        return self._asked[1]

    def _require_alone(self, item: Staged, at_work: Sequence[QueueEntry]) -> None:
        location, outputs = item.target.location, [output.name for output in item.plan.outputs]
        try:
            require_alone(outputs, item.target.storage.list_partition(location))
        except UnsupportedLayout as overlap:
            raise JobError(Reason.OVERLAPPED, f"{location}: {overlap}; {_WHAT_TO_DO}") from overlap
        if at_work:
            why = f"Hive was at work when {outputs[0]} was published, and may overlap it: {at_work[0]}"
            raise JobError(Reason.OVERLAPPED, f"{location}: {why}; {_WHAT_TO_DO}")
