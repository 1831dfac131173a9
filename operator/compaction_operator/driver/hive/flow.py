"""The flow of one compaction of a Hive ACID table: lock, fence, plan, write, journal, publish."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from compaction_operator.acid.plan import why_nothing
from compaction_operator.api.cleanup import TableIdentity, Upload
from compaction_operator.api.compaction import Totals
from compaction_operator.api.request import FINAL_REASONS, WAITING_REASONS, DriverResult, Reason, Stage
from compaction_operator.cleanup.fence import fence, retire
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import JobError, Unstopped, job_error
from compaction_operator.driver.hive.checks import TableChanged, changes, refuse_queued
from compaction_operator.driver.hive.journal import Journal
from compaction_operator.driver.hive.overlaps import explained
from compaction_operator.driver.hive.pair import HalfPublished
from compaction_operator.driver.hive.protocol import Failed, Held, HiveProtocol, Staged
from compaction_operator.driver.hive.publish import leave, needs_exclusive
from compaction_operator.driver.merge.execute import merge
from compaction_operator.driver.merge.partition import Merged, OpenTarget, Prepared, assemble, make_staging
from compaction_operator.driver.merge.row_counts import verify
from compaction_operator.driver.merge.runner import TaskRunner
from compaction_operator.driver.progress import Meter, Report
from compaction_operator.driver.stages import Stages
from compaction_operator.metastore import MetastoreError, Table, Target
from compaction_operator.storage import Silences, StorageError

log = logging.getLogger(__name__)

T = TypeVar("T")

FATAL_REASONS = frozenset({Reason.LOCK_LOST, Reason.SUPERSEDED, Reason.INTERRUPTED})
"""Reasons that end the attempt for all partitions: another driver may be at work, or this one must terminate."""


@dataclass
class Tally:
    """Running result of the attempt: the totals and failures of all batches so far.

    `apart` says of each partition that is merged in runs of one row type why it is. `idle` says of the others without
    outputs why they have none.
    """

    totals: Totals = field(default_factory=Totals)
    failures: list[JobError] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)

    def fail(self, error: JobError) -> None:
        """Record a partition's failure; raises it when it ends the whole attempt."""
        if error.reason in FATAL_REASONS or isinstance(error, TableChanged | HalfPublished):
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
            raise JobError(first.reason, f"{first}{_more(self.failures)}")
        apart = f"{self.apart[0]}{_more(self.apart)}" if self.apart else None
        if not self.totals.partitions:
            message = f"nothing to compact{f': {self.idle[0]}{_more(self.idle)}' if self.idle else ''}"
            return DriverResult(reason=Reason.NOTHING_TO_COMPACT, message=message, apart=apart)
        return DriverResult(reason=Reason.COMPACTED, message=str(self.totals), apart=apart)


class HiveCompaction:
    """Batch-by-batch compaction of one table's partitions; one instance per driver."""

    def __init__(
        self, protocol: HiveProtocol, *, runner: TaskRunner, report: Report, stages: Stages | None = None
    ) -> None:
        self._stages = stages or Stages()
        self._attempt = protocol.attempt
        self._protocol = protocol
        self._runner = runner
        self._report = report
        self._tally = Tally()
        self._meter = Meter(report, partitions=0)
        self._begun: dict[OpenTarget, tuple[Upload, ...]] = {}
        self._able: set[int] = set()
        self._silences = Silences()

    def run(self, targets: Sequence[Target], journal: Journal, *, refused: Sequence[JobError] = ()) -> DriverResult:
        """Compact the targets and return the result; raises JobError or MetastoreError on failure.

        `refused` has one error for each requested partition that the driver must not touch.
        """
        for error in refused:
            self._tally.fail(error)
        refuse_queued(self._attempt.table, self._attempt.queue_of_others(), targets)
        self._meter = Meter(self._report, partitions=len(targets) + len(refused))
        size = self._protocol.batch_partitions
        with closing(self._protocol):
            for start in interruption.checked(range(0, len(targets), size)):
                batch = [self._attempt.open(target) for target in targets[start : start + size]]
                log.info("batch %d: %d of %d partitions", start // size + 1, len(batch), len(targets))
                with self._removing_staging(batch):
                    self._batch(batch, journal)
                self._begun.clear()
                self._silences = Silences()
                self._meter.end()
        return self._tally.result()

    def _batch(self, batch: Sequence[OpenTarget], journal: Journal) -> None:
        with self._protocol.batch() as held:
            staged = self._stage(self._kept(self._unchanged(batch), held), held)
            interruption.check()
            same = self._kept(self._unchanged([item.target for item in staged]), held)
            staged = self._kept(held.confirm([item for item in staged if item.target in same]), held)
            with self._stages.during(Stage.PUBLISH):
                refused = journal.record([item.entry() for item in staged if item.matters], lock_ids=held.lock_ids)
                ordered = sorted(staged, key=needs_exclusive)
                results = (self._publish(item, held, refused.get(item.target.partition)) for item in ordered)
                self._kept(held.look_again(self._kept(results, held)), held)

    def _stage(self, batch: Sequence[OpenTarget], held: Held) -> list[Staged]:
        """Make staging, fence, then list and plan. In this order no older attempt can publish after the listing."""
        with self._stages.during(Stage.PLAN):
            opened = self._kept(map(self._open, batch), held)
            prepared = self._kept(held.prepare(opened), held)
        with self._stages.during(Stage.MERGE):
            merged = self._merge(prepared)
        with self._stages.during(Stage.VERIFY):
            staged = self._kept(map(self._finish, merged), held)
        return self._kept(held.ready(staged), held)

    def _kept(self, found: Iterable[T | Failed], held: Held) -> list[T]:
        """Return the others after giving up each failed partition; raises its error if it ends the whole attempt."""
        kept = []
        for one in found:
            if isinstance(one, Failed):
                held.release(one)
                self._retire(one.target)
                self._tally.fail(one.error)
            else:
                kept.append(one)
        return kept

    @contextmanager
    def _removing_staging(self, batch: Sequence[OpenTarget]) -> Iterator[None]:
        """Remove the batch's own staging when an error (such as SIGTERM) ends the attempt for all partitions.

        NB: if the table was renamed meanwhile, no other process would find the staging folders. And no other process
        knows the uploads before the journal is written; one that is completed stays as it is. Where a thread still
        waits for the store, the store would not answer the removal either, and the thread might write a file again:
        the controller removes the staging once the process has ended.
        """
        try:
            yield
        except Unstopped as error:
            log.warning("staging is left to the controller: %s", error)
            raise
        except JobError:
            for target in batch:
                self._retire(target)
            raise
        except MetastoreError:
            for target in batch:
                self._abort_uploads(target)
            raise

    def _unchanged(self, targets: Sequence[OpenTarget]) -> Iterator[OpenTarget | Failed]:
        """Yield the partitions, as failed if replaced or moved; raises TableChanged when the table itself was."""
        changed = changes(self._attempt, targets)
        for target in targets:
            error = changed.get(target.partition)
            yield Failed(target, error) if error else target

    def _open(self, target: OpenTarget) -> OpenTarget | Failed:
        """Make the own staging folder, then fence all others."""
        location = target.location
        interruption.check()
        try:
            with self._asking(target):
                self._require_able(target)
                make_staging(target)
                report = fence(target.storage, location, keep=target.staging_name)
        except (JobError, StorageError) as error:
            return Failed(target, job_error(error))
        if report.removed:
            log.info("%s: removed staging of other attempts: %s", location, ", ".join(report.removed))
        if report.rolled_forward:
            log.info("%s: published what was left of a pair: %s", location, ", ".join(report.rolled_forward))
        return target

    def _require_able(self, target: OpenTarget) -> None:
        """Raise JobError unless the store can do what uploads need; each store is asked once.

        NB: the preflight has asked that of the table's own directory. A partition may be in another bucket.
        """
        storage = target.storage
        if storage.uploads is not None and id(storage) not in self._able:
            if why := storage.uploads.probe(target.location):
                raise JobError(Reason.UNSUPPORTED_TABLE, f"{target.location}: {why}")
            self._able.add(id(storage))

    def _asking(self, target: OpenTarget) -> AbstractContextManager[None]:
        """Make calls for a partition, or raise a StorageError at once if its storage answered no other of the batch.

        NB: there are hundreds in a batch, one after the other, while its lock is held.
        """
        return self._silences.asked(target.storage, target.location)

    def _merge(self, prepared: Sequence[Prepared]) -> list[Merged]:
        work = [piece for item in prepared for piece in item.work()]
        total = sum(piece.bytes for piece in work)
        size = sum(item.bytes_in for item in prepared)
        log.info("%d tasks for %d bytes in %d files", len(work), size, sum(len(item.inputs) for item in prepared))
        self._meter.begin(size, partitions=len(prepared))
        return merge(prepared, self._runner, done=lambda done: self._progress(done=done, total=total))

    def _progress(self, *, done: int, total: int) -> None:
        interruption.check()
        self._meter.merged(done=done, total=total)

    def _finish(self, merged: Merged) -> Staged | Failed:
        """Verify and assemble a merged partition."""
        prepared = merged.prepared
        if not prepared.plan.outputs:
            leave(prepared)
            self._meter.partition_done()
            return Staged.of(prepared)
        interruption.check()
        try:
            with self._asking(prepared.target):
                verify(merged)
                uploads = self._begun[prepared.target] = assemble(merged)
        except (JobError, StorageError) as error:
            return Failed(prepared.target, explained(job_error(error), prepared.plan))
        return Staged.merged(merged, uploads)

    def _publish(self, item: Staged, held: Held, refused: JobError | None) -> Staged | Failed:
        """Publish a partition, unless the journal refused it."""
        interruption.check()
        try:
            if refused:
                raise refused
            with self._asking(item.target):
                held.publish(item)
        except (JobError, StorageError) as error:
            return Failed(item.target, job_error(error))
        if item.plan.outputs:
            names = ", ".join(output.name for output in item.plan.outputs)
            log.info("published %s in %s: %s", names, item.target.location, item.totals)
            self._tally.totals += item.totals
            self._meter.partition_done()
        if item.apart:
            self._tally.apart.append(item.apart)
        elif not item.plan.outputs:
            self._tally.idle.append(f"{item.target.partition or 'the table'}: {why_nothing(item.plan)}")
        return item

    def _retire(self, target: OpenTarget) -> None:
        """Remove the own staging and uploads; roll a half-published pair forward first.

        If that fails too, the controller does it after the attempt has ended.
        """
        self._abort_uploads(target)
        try:
            with self._asking(target):
                retire(target.storage, target.location, target.staging_name)
        except StorageError as error:
            log.warning("staging was not removed: %s", error)

    def _abort_uploads(self, target: OpenTarget) -> None:
        begun = self._begun.get(target, ())
        try:
            with self._asking(target):
                if begun and target.storage.uploads is not None:
                    target.storage.uploads.abort(target.location, begun)
        except StorageError as error:
            log.warning("%s: uploads were not aborted: %s", target.location, error)


def identity_of(table: Table) -> TableIdentity:
    """Return the identity that a table's journals record: names in lower case, as the metastore stores them."""
    return TableIdentity(
        database=table.database.lower(),
        name=table.name.lower(),
        create_time=table.create_time,
        location=table.location,
        table_id=table.table_id,
    )


def _more(partitions: Sequence[object]) -> str:
    return f" (and {len(partitions) - 1} more partitions)" if len(partitions) > 1 else ""


def _retry_order(error: JobError) -> int:
    """Sort key for the failure that the attempt reports; the lowest comes first.

    First comes an overlap, which only a person can fix. Then come failures that count as an attempt, then those that
    only wait, then those that no further attempt can fix.
    """
    if error.reason is Reason.OVERLAPPED:
        return -1
    return 2 if error.reason in FINAL_REASONS else int(error.reason in WAITING_REASONS)
