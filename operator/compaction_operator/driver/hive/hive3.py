"""The compaction protocol of Hive 3.1: a lock without a transaction, and bare names that are visible once renamed."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from compaction_operator.acid.plan import Layout, with_guard
from compaction_operator.cleanup.fence import retire
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import PARTITION_ERRORS, JobError, at_location
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.driver_locks import Locks
from compaction_operator.driver.hive.older_snapshots import Mark, OlderSnapshots
from compaction_operator.driver.hive.overlaps import Overlaps, refuse_left_by_worker
from compaction_operator.driver.hive.protocol import GiveUp, Staged
from compaction_operator.driver.hive.publish import needs_exclusive, publish
from compaction_operator.driver.hive.queue_guard import refuse_queued
from compaction_operator.driver.hive.unchanged import changes
from compaction_operator.driver.merge.partition import Prepared, prepare
from compaction_operator.metastore import Target
from compaction_operator.storage import StorageError, open_storage

log = logging.getLogger(__name__)

BATCH_PARTITIONS = 500


class Hive3:
    """The protocol of Hive 3.1 for one table."""

    layout = Layout.HIVE3

    def __init__(self, attempt: DriverContext, locks: Locks) -> None:
        self.attempt = attempt
        self.locks = locks
        self.older = OlderSnapshots(attempt.client)

    @property
    def batch_partitions(self) -> int:
        """The capacity of one journal."""
        return BATCH_PARTITIONS

    @contextmanager
    def batch(self, give_up: GiveUp) -> Iterator["Hive3Batch"]:
        """Hold SHARED_READ on the table; raises JobError (WaitingForLock).

        NB: the lock has no transaction, because an open transaction of this driver would delay every other cleanup.
        """
        self.locks.share()
        yield Hive3Batch(self, give_up=give_up)

    def close(self) -> None:
        """Release the lock."""
        self.locks.release()


class Hive3Batch:
    """One batch under the table's shared lock; see `Held`."""

    def __init__(self, hive: Hive3, *, give_up: GiveUp) -> None:
        self.give_up = give_up
        self._hive = hive
        self._overlaps = Overlaps(hive.attempt)
        self._mark: Mark | None = None
        self._targets: list[Target] = []

    @property
    def lock_ids(self) -> Sequence[int]:
        """The id of the shared lock."""
        return [self._hive.locks.lock_id]

    def prepare(self, opened: Sequence[Target]) -> list[tuple[Target, Prepared]]:
        """Get the valid write ids first, then list and plan: so each listing is at least as new as the write ids."""
        self._targets = list(opened)
        attempt = self._hive.attempt
        write_ids = attempt.client.valid_write_ids(attempt.table.database, attempt.table.name)
        found: list[tuple[Target, Prepared]] = []
        for target in opened:
            location = target.location
            interruption.check()
            try:
                refuse_left_by_worker(location)
                prepared = prepare(
                    open_storage(location),
                    location,
                    staging_name=attempt.staging_name,
                    write_ids=write_ids,
                    request=attempt.request(Layout.HIVE3),
                )
            except (JobError, *PARTITION_ERRORS) as error:
                self.give_up(target, at_location(error, location))
            else:
                found.append((target, prepared))
        if any(prepared.plan.breaks_older_snapshots for _, prepared in found):
            self._mark = self._hive.older.mark()
        return found

    def ready(self, staged: Sequence[Staged]) -> list[Staged]:
        """Guard a first base against older snapshots, or wait for them where a guard would hide original files (H24).

        NB: this runs after the merge, because most older snapshots end during it. It runs before the journal is
        written, because the journal names the guard.
        """
        if self._mark is None:
            return list(staged)
        waiting = [item for item in staged if _must_wait(item.prepared)]
        kept = [item for item in staged if item not in waiting]
        if waiting:
            try:
                self._hive.older.wait(self._mark)
                kept = list(staged)
            except JobError as error:
                for item in waiting:
                    self.give_up(item.target, at_location(error, item.target.location))
        if not self._hive.older.open(self._mark):
            return kept
        return [_guarded(item) if item.prepared.plan.breaks_older_snapshots else item for item in kept]

    def confirm(self, staged: Sequence[Staged]) -> list[Staged]:
        """Return all partitions; raises JobError when the lock is lost or another compaction has begun."""
        self._hive.locks.guard()
        refuse_queued(self._hive.attempt.client, self._hive.attempt.table, self._targets)
        return list(staged)

    def publish(self, item: Staged) -> None:
        """Rename the outputs; a pair under an EXCLUSIVE lock, which requires releasing the shared one (hazard H3).

        NB: a client that queued for an EXCLUSIVE lock earlier runs first, for example a RENAME. So a pair is checked
        for a changed table or partition again.
        """
        target, locks = item.target, self._hive.locks
        if not item.prepared.plan.outputs:
            return
        pair = needs_exclusive(item.prepared)
        with locks.exclusive(target.partition or None) if pair else nullcontext():
            if pair and (changed := changes(self._hive.attempt, [target]).get(target.partition)):
                raise changed
            self._overlaps.refuse_begun(target)
            storage = open_storage(target.location)
            try:
                publish(storage, item.prepared, guard=locks.guard)
            except StorageError:
                # Retire while the EXCLUSIVE lock is still held, not in give_up: no reader may see half of a pair.
                retire(storage, target.location, self._hive.attempt.staging_name)
                raise

    def look_again(self, published: Sequence[Staged]) -> None:
        """Give up each partition where Hive's Worker has published across an output, or still may."""
        for item, error in self._overlaps.found([item for item in published if item.prepared.plan.outputs]):
            self.give_up(item.target, error)


def _must_wait(prepared: Prepared) -> bool:
    return prepared.plan.breaks_older_snapshots and prepared.plan.has_originals


def _guarded(item: Staged) -> Staged:
    return replace(item, prepared=replace(item.prepared, plan=with_guard(item.prepared.plan)))
