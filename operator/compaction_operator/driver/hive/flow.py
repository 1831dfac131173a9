"""The flow of one compaction of a Hive ACID table: lock, fence, plan, write, journal, publish."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from compaction_operator.api.cleanup import PartitionEntry, TableIdentity
from compaction_operator.api.compaction import Totals
from compaction_operator.api.request import FINAL_REASONS, WAITING_REASONS, DriverResult, Reason
from compaction_operator.cleanup.fence import fence, retire
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import JobError, job_error
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.journal import Journal
from compaction_operator.driver.hive.overlaps import explained
from compaction_operator.driver.hive.protocol import Held, HiveProtocol, Staged
from compaction_operator.driver.hive.publish import leave, needs_exclusive
from compaction_operator.driver.hive.queue_guard import refuse_queued
from compaction_operator.driver.hive.unchanged import TableChanged, changes
from compaction_operator.driver.merge.execute import Merged, merge
from compaction_operator.driver.merge.partition import Prepared, assemble, make_staging, totals_of
from compaction_operator.driver.merge.row_counts import verify
from compaction_operator.driver.merge.runner import TaskRunner
from compaction_operator.driver.progress import Meter, Report
from compaction_operator.metastore import Table, Target
from compaction_operator.storage import StorageError, open_storage

log = logging.getLogger(__name__)

FATAL_REASONS = frozenset({Reason.LOCK_LOST, Reason.SUPERSEDED, Reason.INTERRUPTED})
"""Reasons that end the attempt for all partitions: another driver may be at work, or this one must terminate."""


@dataclass
class Tally:
    """Running result of the attempt: the totals and failures of all batches so far."""

    totals: Totals = field(default_factory=Totals)
    failures: list[JobError] = field(default_factory=list)

    def fail(self, error: JobError) -> None:
        """Record a partition's failure; raises it when it ends the whole attempt."""
        if error.reason in FATAL_REASONS or isinstance(error, TableChanged):
            raise error
        log.warning("%s: %s", error.reason, error)
        self.failures.append(error)

    def result(self) -> DriverResult:
        """Return the attempt's result; raises JobError when a partition failed.

        NB: the reason of that error decides whether another attempt follows. A failure that a retry can fix therefore
        takes precedence over a partition that can never be compacted.
        """
        if self.failures:
            first = min(self.failures, key=_retry_order)
            more = f" (and {len(self.failures) - 1} more partitions)" if len(self.failures) > 1 else ""
            raise JobError(first.reason, f"{first}{more}")
        if not self.totals.partitions:
            return DriverResult(reason=Reason.NOTHING_TO_COMPACT, message="no partition has anything to compact")
        return DriverResult(reason=Reason.COMPACTED, message=str(self.totals))


class HiveCompaction:
    """Batch-by-batch compaction of one table's partitions; one instance per driver."""

    def __init__(self, attempt: DriverContext, protocol: HiveProtocol, *, runner: TaskRunner, report: Report) -> None:
        self._attempt = attempt
        self._protocol = protocol
        self._runner = runner
        self._report = report
        self._tally = Tally()
        self._meter = Meter(report, partitions=0)

    def run(self, targets: Sequence[Target], journal: Journal, *, refused: Sequence[JobError] = ()) -> DriverResult:
        """Compact the targets and return the result; raises JobError or MetastoreError on failure.

        `refused` has one error for each requested partition that the driver must not touch.
        """
        for error in refused:
            self._tally.fail(error)
        refuse_queued(self._attempt.client, self._attempt.table, targets)
        self._meter = Meter(self._report, partitions=len(targets) + len(refused))
        with closing(self._protocol):
            for number, batch in enumerate(batches(targets, self._protocol.batch_partitions), 1):
                interruption.check()
                log.info("batch %d: %d of %d partitions", number, len(batch), len(targets))
                with self._removing_staging(batch):
                    self._batch(batch, journal)
                self._meter.end()
        return self._tally.result()

    def _batch(self, batch: Sequence[Target], journal: Journal) -> None:
        with self._protocol.batch(self._give_up) as held:
            staged = self._stage(self._unchanged(batch, held), held)
            interruption.check()
            same = self._unchanged([item.target for item in staged], held)
            staged = held.confirm([item for item in staged if item.target in same])
            refused = journal.record(journal_entries(staged), lock_ids=held.lock_ids)
            ordered = sorted(staged, key=lambda item: needs_exclusive(item.prepared))
            held.look_again([item for item in ordered if self._publish(item, held, refused.get(item.target.partition))])

    def _stage(self, batch: Sequence[Target], held: Held) -> list[Staged]:
        """Make staging, fence, then list and plan. In this order no older attempt can publish after the listing."""
        found = held.prepare([target for target in batch if self._open(target, held)])
        for target, item in found:
            self._finish_if_empty(target, item)
        merged = self._merge([item for _, item in found])
        pairs = zip(found, merged, strict=True)
        return held.ready(
            [done for (target, item), results in pairs if (done := self._finish(target, item, results, held))]
        )

    @contextmanager
    def _removing_staging(self, batch: Sequence[Target]) -> Iterator[None]:
        """Remove the batch's own staging when an error (such as SIGTERM) ends the attempt for all partitions.

        NB: if the table was renamed meanwhile, no other process would find the staging folders.
        """
        try:
            yield
        except JobError:
            for target in batch:
                self._retire(target)
            raise

    def _unchanged(self, targets: Sequence[Target], held: Held) -> list[Target]:
        """Give up the partitions that were replaced or moved; raises TableChanged when the table itself was."""
        changed = changes(self._attempt, targets)
        for target in targets:
            if error := changed.get(target.partition):
                held.give_up(target, error)
        return [target for target in targets if target.partition not in changed]

    def _open(self, target: Target, held: Held) -> bool:
        """Make the own staging folder, then fence all others; return whether that succeeded."""
        location = target.location
        interruption.check()
        try:
            storage = open_storage(location)
            make_staging(storage, location, self._attempt.staging_name)
            report = fence(storage, location, keep=self._attempt.staging_name)
        except StorageError as error:
            held.give_up(target, job_error(error))
            return False
        if report.removed:
            log.info("%s: removed staging of other attempts: %s", location, ", ".join(report.removed))
        if report.rolled_forward:
            log.info("%s: published what was left of a pair: %s", location, ", ".join(report.rolled_forward))
        return True

    def _finish_if_empty(self, target: Target, prepared: Prepared) -> None:
        if prepared.plan.outputs:
            return
        leave(open_storage(target.location), prepared)
        self._meter.partition_done()

    def _merge(self, prepared: Sequence[Prepared]) -> list[Merged]:
        work = [piece for item in prepared for piece in item.work()]
        total = sum(piece.bytes for piece in work)
        size = sum(item.bytes_in for item in prepared)
        log.info("%d tasks for %d bytes in %d files", len(work), size, sum(len(item.inputs) for item in prepared))
        self._meter.begin(size, partitions=len(prepared))
        return merge(prepared, self._runner, done=lambda done: self._merged(done=done, total=total))

    def _merged(self, *, done: int, total: int) -> None:
        interruption.check()
        self._meter.merged(done=done, total=total)

    def _finish(self, target: Target, prepared: Prepared, merged: Merged, held: Held) -> Staged | None:
        if not prepared.plan.outputs:
            return Staged(target, prepared)
        interruption.check()
        layout = self._protocol.layout
        storage = open_storage(target.location)
        try:
            if isinstance(merged, JobError):
                raise explained(merged, prepared.plan)
            verify(prepared, merged)
            assemble(storage, prepared, merged, layout=layout)
        except (JobError, StorageError) as error:
            held.give_up(target, job_error(error))
            return None
        return Staged(target, prepared, totals_of(prepared, merged, layout=layout))

    def _publish(self, item: Staged, held: Held, refused: JobError | None) -> bool:
        """Publish a partition, unless the journal refused it; return whether that succeeded."""
        interruption.check()
        try:
            if refused:
                raise refused
            held.publish(item)
        except (JobError, StorageError) as error:
            held.give_up(item.target, job_error(error))
            return False
        if item.prepared.plan.outputs:
            names = ", ".join(output.name for output in item.prepared.plan.outputs)
            log.info("published %s in %s: %s", names, item.target.location, item.totals)
            self._tally.totals += item.totals
            self._meter.partition_done()
        return True

    def _give_up(self, target: Target, error: JobError) -> None:
        """Remove a failed partition's staging and record the failure; raises it when it ends the attempt."""
        self._retire(target)
        self._tally.fail(error)

    def _retire(self, target: Target) -> None:
        """Remove the own staging; roll a half-published pair forward first.

        If that fails too, the controller does it after the attempt has ended.
        """
        try:
            retire(open_storage(target.location), target.location, self._attempt.staging_name)
        except StorageError as error:
            log.warning("staging was not removed: %s", error)


def batches(targets: Sequence[Target], size: int) -> Iterable[Sequence[Target]]:
    """Yield the targets in groups of at most `size`."""
    for start in range(0, len(targets), size):
        yield targets[start : start + size]


def journal_entries(staged: Iterable[Staged]) -> list[PartitionEntry]:
    """Return a journal entry for each partition with outputs or obsolete entries."""
    return [item.entry() for item in staged if item.matters]


def identity_of(table: Table) -> TableIdentity:
    """Return the identity that a table's journals record: names in lower case, as the metastore stores them."""
    return TableIdentity(
        database=table.database.lower(),
        name=table.name.lower(),
        create_time=table.create_time,
        location=table.location,
        table_id=table.table_id,
    )


def _retry_order(error: JobError) -> int:
    """Sort key for the failure that the attempt reports; the lowest comes first.

    First comes an overlap, which only a person can fix. Then come failures that count as an attempt, then those that
    only wait, then those that no further attempt can fix.
    """
    if error.reason is Reason.OVERLAPPED:
        return -1
    return 2 if error.reason in FINAL_REASONS else int(error.reason in WAITING_REASONS)
