"""A warehouse's pool of Hive 4's compaction queue, as one of Hive's Workers uses it: blocking, repeatable calls."""

import logging

from compaction_operator.api.config import QueuePool, Warehouse
from compaction_operator.api.request import queue_compaction_name, queue_worker
from compaction_operator.cleanup.attempt import end_entries, is_taken_for, queue_job
from compaction_operator.metastore import Generation, MetastoreClient, MetastoreError, QueueEntry, QueueState

log = logging.getLogger(__name__)


class Pool:
    """The pool of one warehouse; calls raise MetastoreError, also if the warehouse has none, or its Hive knows none."""

    def __init__(self, client: MetastoreClient, warehouse: Warehouse) -> None:
        self._client = client
        self._warehouse = warehouse.name
        self._settings = _settings(client, warehouse)
        self._worker = queue_worker(warehouse.name)

    def held(self) -> tuple[QueueEntry, ...]:
        """Return the entries that the controller took and that are still worked on, the oldest first.

        Marks those that were committed and not marked, whose driver may be dead. The other way round, which drivers of
        an earlier version leave, they have failed: Hive's Cleaner would take them for compacted.
        """
        entries = sorted(self._client.pool_compactions(self._settings.pool), key=lambda entry: entry.queue_id)
        if any(self._is_half_done(entry) for entry in entries):
            self._end_half_done()
        return tuple(entry for entry in entries if self._is_held(entry) and not self._is_half_done(entry))

    def take(self) -> QueueEntry | None:
        """Take the oldest initiated entry of the pool and return it, None if there is none.

        NB: after an error an entry may be taken: `held` then returns it.
        """
        taken = self._client.take_any_compaction(pool=self._settings.pool, worker=self._worker)
        if taken is None:
            return None
        return next((one for one in self._client.pool_compactions(self._settings.pool) if one.queue_id == taken), None)

    def name(self, entry: QueueEntry, name: str) -> None:
        """Record in an entry the TableCompaction that works on it: SHOW COMPACTIONS shows it as the job."""
        self._client.set_job(entry.queue_id, name)

    def end(self, entry: QueueEntry, *, refused: bool, message: str) -> None:
        """End an entry as refused or failed, with the reason that SHOW COMPACTIONS shows, if it is still held.

        NB: both marks end an entry in any state, also one that is committed. So nothing is done while a transaction of
        the entry is open: a driver whose TableCompaction was deleted may still commit it.
        """
        opened = {txn.txn for txn in self._client.open_transactions().open}
        held = next((one for one in self.held() if one.queue_id == entry.queue_id), None)
        if held is None or held.txn in opened:
            return
        log.info("queue %s of %s.%s: %s", entry, entry.database, entry.table, message)
        mark = self._client.mark_refused if refused else self._client.mark_failed
        mark(queue_job(entry), message)

    def _is_held(self, entry: QueueEntry) -> bool:
        return entry.state is QueueState.WORKING and entry.worker == self._worker

    def _is_half_done(self, entry: QueueEntry) -> bool:
        """Whether it was taken by the controller, and is either marked as compacted or committed, but not both."""
        own = is_taken_for(entry, queue_compaction_name(self._warehouse, entry.queue_id))
        is_marked = entry.state is QueueState.READY_FOR_CLEANING
        return own and not entry.is_ended and is_marked != (entry.committed is not None)

    def _end_half_done(self) -> None:
        """Mark those whose transaction is no longer open.

        NB: they are listed after the transactions: one that is not open may have been committed just now.
        """
        opened = {txn.txn for txn in self._client.open_transactions().open}
        after = filter(self._is_half_done, self._client.pool_compactions(self._settings.pool))
        end_entries(self._client, [entry for entry in after if entry.txn not in opened])


def _settings(client: MetastoreClient, warehouse: Warehouse) -> QueuePool:
    if warehouse.queue is None:
        raise MetastoreError(f"warehouse {warehouse.name} names no pool of the compaction queue")
    if client.generation() is not Generation.HIVE4:
        raise MetastoreError(
            f"queue.pool {warehouse.queue.pool} is refused: the compaction queue of {client.generation()} has no pools "
            "(HIVE-26804 brought them with Hive 4); remove `queue` from the warehouse"
        )
    return warehouse.queue
