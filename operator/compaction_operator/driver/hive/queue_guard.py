"""A check of the metastore's compaction queue that refuses a table which another client compacts or will compact."""

from collections.abc import Iterable, Sequence

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.metastore import MetastoreClient, QueueEntry, Target, say_queued


def refuse_queued(client: MetastoreClient, table: TableRef, targets: Sequence[Target]) -> None:
    """Raise JobError (InCompactionQueue) when the queue has an open entry for the table or one of the partitions.

    Two overlapping compactions duplicate rows (hazard H23), and Hive's own does not check again before it publishes.
    Raises MetastoreError.
    """
    meant = {target.partition for target in targets}
    entries = client.compactions(table.database, table.name)
    if found := [entry for entry in entries if entry.is_open and entry.concerns(meant)]:
        raise in_queue(table, found)


def in_queue(table: TableRef, entries: Iterable[QueueEntry]) -> JobError:
    """Return the error that names the conflicting entries."""
    return JobError(Reason.IN_COMPACTION_QUEUE, say_queued(table, entries))
