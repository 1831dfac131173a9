"""The compaction protocol of Hive 3.1: a lock without a transaction, and bare names that are visible once renamed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from compaction_operator.acid.plan import CompactionPlan, Layout, with_guard
from compaction_operator.api.request import Reason
from compaction_operator.cleanup.places import hive3_refusal
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive.checks import changes, refuse_queued
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.driver_locks import Locks
from compaction_operator.driver.hive.older_snapshots import OlderSnapshots
from compaction_operator.driver.hive.overlaps import Overlaps, refuse_left_by_worker
from compaction_operator.driver.hive.pair import publish_pair
from compaction_operator.driver.hive.protocol import Failed, Held, HiveProtocol, Staged, each, failed_at
from compaction_operator.driver.hive.publish import needs_exclusive, publish
from compaction_operator.driver.merge.partition import OpenTarget, Prepared, listed, prepare


class Hive3(HiveProtocol):
    """The protocol of Hive 3.1 for one table."""

    batch_partitions = 500
    """The capacity of one journal."""

    def __init__(self, attempt: DriverContext, locks: Locks) -> None:
        super().__init__(attempt, locks)
        self.older = OlderSnapshots(attempt.client)

    @contextmanager
    def batch(self) -> Iterator[Held]:
        """Hold SHARED_READ on the table; raises JobError (WaitingForLock).

        NB: the lock has no transaction, because an open transaction of this driver would delay every other cleanup.
        """
        self.locks.share()
        yield Hive3Batch(self)


class Hive3Batch(Held):
    """One batch under the table's shared lock; see `Held`."""

    def __init__(self, hive: Hive3) -> None:
        self._hive = hive
        self._overlaps = Overlaps(hive.attempt)
        self._mark: int | None = None
        self._targets: Sequence[OpenTarget] = ()

    @property
    def lock_ids(self) -> Sequence[int]:
        """The id of the shared lock."""
        return [self._hive.locks.lock_id]

    def prepare(self, targets: Sequence[OpenTarget]) -> Iterator[Prepared | Failed]:
        """Get the valid write ids first, then list and plan: so each listing is at least as new as the write ids."""
        self._targets = targets
        attempt = self._hive.attempt
        write_ids = attempt.client.valid_write_ids(attempt.table.database, attempt.table.name)
        fit = yield from each(interruption.checked(targets), _fit)
        seen, request = listed(fit), attempt.request(Layout.HIVE3)

        def planned(target: OpenTarget) -> Prepared:
            return prepare(target, seen[target], write_ids=write_ids, request=request)

        found = yield from each(interruption.checked(fit), planned)
        if any(prepared.plan.breaks_older_snapshots for prepared in found):
            self._mark = self._hive.older.mark()
        yield from found

    def ready(self, staged: Sequence[Staged]) -> Iterator[Staged | Failed]:
        """Guard a first base against older snapshots, or wait for them where a guard would hide original files (H24).

        NB: this runs after the merge, because most older snapshots end during it. It runs before the journal is
        written, because the journal names the guard.
        """
        if self._mark is None:
            yield from staged
            return
        waiting, kept = [item for item in staged if _must_wait(item.plan)], staged
        try:
            if waiting:
                self._hive.older.wait(self._mark)
        except JobError as error:
            kept = [item for item in staged if not _must_wait(item.plan)]
            for item in waiting:
                yield failed_at(item.target, error)
        guards = bool(self._hive.older.open(self._mark))
        for item in kept:
            guarded = guards and item.plan.breaks_older_snapshots
            yield replace(item, plan=with_guard(item.plan)) if guarded else item

    def confirm(self, staged: Sequence[Staged]) -> Iterator[Staged]:
        """Yield all partitions; raises JobError when the lock is lost or another compaction has begun."""
        self._hive.locks.guard()
        refuse_queued(self._hive.attempt.table, self._hive.attempt.queue(), self._targets)
        yield from staged

    def publish(self, item: Staged) -> None:
        """Rename the outputs; a pair under an EXCLUSIVE lock, which requires releasing the shared one (hazard H3).

        NB: a client that queued for an EXCLUSIVE lock earlier runs first, for example a RENAME. So a pair is checked
        for a changed table or partition again.
        """
        target, locks = item.target, self._hive.locks
        if not item.plan.outputs:
            return
        if not needs_exclusive(item):
            self._overlaps.refuse_begun(target)
            publish(item, guard=locks.guard)
            return
        with locks.exclusive(target.partition or None):
            if changed := changes(self._hive.attempt, [target]).get(target.partition):
                raise changed
            self._overlaps.refuse_begun(target)
            publish_pair(item, locks)

    def look_again(self, published: Sequence[Staged]) -> Iterator[Failed]:
        """Yield each partition where Hive's Worker has published across an output, or still may."""
        return self._overlaps.found([item for item in published if item.plan.outputs])


def _fit(target: OpenTarget) -> OpenTarget:
    """Return a target in whose directory this compaction may publish; raises JobError for any other."""
    if why := hive3_refusal(target.storage.abilities):
        raise JobError(Reason.UNSUPPORTED_TABLE, f"{target.location}: {why}")
    refuse_left_by_worker(target)
    return target


def _must_wait(plan: CompactionPlan) -> bool:
    return plan.breaks_older_snapshots and plan.has_originals
