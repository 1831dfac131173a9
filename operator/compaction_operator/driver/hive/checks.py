"""Checks before a publication: no other client compacts the table, and it is still the one to compact.

Locks, claims and write ids are bound to a table's name, directories to their locations. If another table takes the name
meanwhile, its write ids would be applied to the first table's files, and rows that were rolled back would reappear.
"""

from collections.abc import Iterable, Sequence

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import Reason
from compaction_operator.cleanup.identity import TableGoneError, resolve_today
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.metastore import QueueEntry, Target, say_queued


def refuse_queued(table: TableRef, queue: Iterable[QueueEntry], targets: Sequence[Target]) -> None:
    """Raise JobError (InCompactionQueue) when the queue has an open entry for the table or one of the partitions.

    Two overlapping compactions duplicate rows (hazard H23), and Hive's own does not check again before it publishes.
    """
    meant = {target.partition for target in targets}
    if found := [entry for entry in queue if entry.is_open and entry.concerns(meant)]:
        raise in_queue(table, found)


def in_queue(table: TableRef, entries: Iterable[QueueEntry]) -> JobError:
    """Return the error that names the conflicting entries."""
    return JobError(Reason.IN_COMPACTION_QUEUE, say_queued(table, entries))


class TableChanged(JobError):  # noqa: N818 - a verdict on the table
    """The table was replaced: this attempt must not touch the table that now has its name."""


def changes(attempt: DriverContext, targets: Sequence[Target]) -> dict[str, JobError]:
    """Return, by partition name, an error with reason TableChanged for each partition that was replaced or moved.

    Makes two metastore calls. Raises TableChanged when the table itself was replaced, and MetastoreError.
    NB: call it only while a lock is held. Hive's RENAME and DROP wait for an EXCLUSIVE lock, so the answer stays true.
    """
    try:
        today = resolve_today(attempt.client, attempt.identity, targets)
    except TableGoneError as gone:
        raise TableChanged(Reason.TABLE_CHANGED, f"{gone}: nothing more is published") from gone
    found = ((target.partition, today.what_changed(target)) for target in targets)
    return {name: JobError(Reason.TABLE_CHANGED, change.message) for name, change in found if change}
