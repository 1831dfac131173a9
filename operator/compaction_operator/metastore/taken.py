"""The entry of Hive 4's compaction queue that one compaction works on, after the controller took it from a pool."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Self

from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.request import Reason, queue_worker
from compaction_operator.metastore.compaction_queue import QueueEntry, QueueState
from compaction_operator.metastore.targets import Refused


@dataclass(frozen=True)
class Taken:
    """An entry by its id, and the worker id with which the controller of a warehouse takes entries."""

    queue_id: int
    worker: str

    @classmethod
    def of(cls, warehouse: str, queue_id: int | None) -> Self | None:
        """Return the entry of a compaction, None for one that works on none."""
        return None if queue_id is None else cls(queue_id, queue_worker(warehouse))

    def is_held(self, entry: QueueEntry) -> bool:
        """Whether an entry is this one, and nothing but its own compaction may end it.

        NB: after hive.compactor.worker.timeout (24 hours) Hive's Initiator takes it back to "initiated", and one of
        Hive's own Workers may take it. The controller takes it again, if it is faster.
        """
        same = entry.queue_id == self.queue_id
        return same and entry.state is QueueState.WORKING and entry.worker == self.worker

    def find(
        self, table: TableRef, queue: Iterable[QueueEntry], *, type_: CompactionType, partitions: Collection[str]
    ) -> QueueEntry:
        """Return the entry, which may be held or not; `partitions` are the names of those that will be compacted.

        Raises Refused (QueueEntryEnded) if it has ended or is gone, and Refused (UnsupportedTable) if it does not ask
        for exactly this.
        """
        found = next((entry for entry in queue if entry.queue_id == self.queue_id), None)
        if found is None:
            raise Refused(Reason.QUEUE_ENTRY_ENDED, f"queue entry {self.queue_id} of {table} is gone")
        if found.is_ended:
            why = f": {found.error}" if found.error else ""
            raise Refused(Reason.QUEUE_ENTRY_ENDED, f"queue {found} of {table} has ended{why}")
        wanted = [found.partition] if found.partition else []
        if found.type is not type_ or [one.lower() for one in partitions] != [one.lower() for one in wanted]:
            asked = f"{found.type_name} of {found.partition or 'a table without partitions'}"
            raise Refused(Reason.UNSUPPORTED_TABLE, f"queue entry {self.queue_id} is for {asked}, which {table} is not")
        return found
