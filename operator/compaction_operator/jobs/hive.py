"""The flow of one compaction of a Hive ACID table on Hive 3.1: lock, fence, plan, write, journal, publish."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from compaction_operator.acid.plan import Layout, with_guard
from compaction_operator.acid.snapshot import NotEnoughHistory, UnsupportedLayout
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.cleanup import ObsoleteEntry, PartitionEntry, TableIdentity
from compaction_operator.api.compaction import Totals
from compaction_operator.api.request import FINAL_REASONS, WAITING_REASONS, DriverResult, JobRequest, Reason
from compaction_operator.cleanup.fence import fence, retire
from compaction_operator.cleanup.staging import staging_name
from compaction_operator.jobs.arithmetic import verify
from compaction_operator.jobs.errors import JobError
from compaction_operator.jobs.journal import Journal
from compaction_operator.jobs.locks import HeldLock, Locks
from compaction_operator.jobs.merge import Merged, merge
from compaction_operator.jobs.meter import Meter, Report
from compaction_operator.jobs.older import Mark, OlderSnapshots
from compaction_operator.jobs.partition import Prepared, Request, assemble, make_staging, prepare, totals_of
from compaction_operator.jobs.publish import needs_exclusive, publish
from compaction_operator.jobs.runner import TaskRunner
from compaction_operator.metastore.client import MetastoreClient
from compaction_operator.metastore.resolve import Target
from compaction_operator.orc import OrcError
from compaction_operator.storage import StorageError, open_storage

log = logging.getLogger(__name__)

BATCH_PARTITIONS = 500
LAYOUT = Layout.HIVE3

PARTITION_ERRORS = (UnsupportedLayout, NotEnoughHistory, OrcError, StorageError)
"""What makes one partition impossible to compact and leaves the others alone."""

FATAL_REASONS = frozenset({Reason.LOCK_LOST, Reason.SUPERSEDED})
"""What ends the attempt for all partitions: someone else may be at work."""


@dataclass
class Tally:
    """What the batches came to so far."""

    totals: Totals = field(default_factory=Totals)
    failures: list[JobError] = field(default_factory=list)

    def fail(self, error: JobError) -> None:
        """Note a partition's failure; raises it when it ends the whole attempt."""
        if error.reason in FATAL_REASONS:
            raise error
        log.warning("%s: %s", error.reason, error)
        self.failures.append(error)

    def result(self) -> DriverResult:
        """Return how the attempt ended; raises JobError when a partition failed.

        NB: its reason decides on the next attempt: one partition that can never be compacted ends nothing while there
        are others to try again.
        """
        if self.failures:
            first = min(self.failures, key=_retry_order)
            more = f" (and {len(self.failures) - 1} more partitions)" if len(self.failures) > 1 else ""
            raise JobError(first.reason, f"{first}{more}")
        if not self.totals.partitions:
            return DriverResult(reason=Reason.NOTHING_TO_COMPACT, message="no partition has anything to compact")
        return DriverResult(reason=Reason.COMPACTED, message=str(self.totals))


@dataclass(frozen=True)
class Staged:
    """A partition that is ready to be published, or that had nothing to do (`prepared.plan.outputs` is empty)."""

    target: Target
    prepared: Prepared
    totals: Totals = field(default_factory=Totals)


class HiveCompaction:
    """Compacts the partitions of one table, batch by batch; one instance per driver.

    `row_type` is the table's row as the metastore has it, None where it cannot be told.
    """

    def __init__(
        self,
        request: JobRequest,
        *,
        client: MetastoreClient,
        runner: TaskRunner,
        locks: Locks,
        pod_uid: str,
        row_type: str | None,
        report: Report,
    ) -> None:
        self._request = request
        self._client = client
        self._runner = runner
        self._locks = locks
        self._row_type = row_type
        self._report = report
        self._staging_name = staging_name(uid=request.uid, attempt=request.attempt, pod_uid=pod_uid)
        self._older = OlderSnapshots(client)
        self._tally = Tally()
        self._meter = Meter(report, partitions=0)

    def run(self, targets: Sequence[Target], journal: Journal) -> DriverResult:
        """Compact the targets and return how it went; raises JobError or MetastoreError when it did not."""
        self._meter = Meter(self._report, partitions=len(targets))
        for number, batch in enumerate(batches(targets), 1):
            log.info("batch %d: %d of %d partitions", number, len(batch), len(targets))
            self._batch(batch, journal)
            self._meter.end()
        return self._tally.result()

    def _batch(self, batch: Sequence[Target], journal: Journal) -> None:
        with self._locks.shared() as lock:
            staged = self._stage(batch)
            lock.guard()
            journal.record(journal_entries(staged), lock_ids=[lock.lock_id])
            written = [item for item in staged if item.prepared.plan.outputs]
            for item in written:
                if not needs_exclusive(item.prepared):
                    self._publish(item, lock)
        for item in written:
            if needs_exclusive(item.prepared):
                self._publish_pair(item)

    def _stage(self, batch: Sequence[Target]) -> list[Staged]:
        """Make staging, fence, ask for the valid write ids, list: in this order nothing older can still come in."""
        fenced = [target for target in batch if self._open(target)]
        write_ids = self._client.valid_write_ids(self._request.table.database, self._request.table.name)
        found = [(target, item) for target in fenced if (item := self._prepare(target, write_ids))]
        breaking = any(item.plan.breaks_older_snapshots for _, item in found)
        mark = self._older.mark() if breaking else None
        merged = self._merge([item for _, item in found])
        pairs = zip(found, merged, strict=True)
        staged = [done for (target, item), results in pairs if (done := self._finish(target, item, results))]
        return self._spare_older_snapshots(staged, mark) if mark else staged

    def _open(self, target: Target) -> bool:
        """Make the own staging folder, then fence everybody else's; return whether that worked."""
        location = target.location
        try:
            storage = open_storage(location)
            make_staging(storage, location, self._staging_name)
            report = fence(storage, location, keep=self._staging_name)
        except StorageError as error:
            self._give_up(location, _job_error(error))
            return False
        if report.removed:
            log.info("%s: removed staging of other attempts: %s", location, ", ".join(report.removed))
        if report.rolled_forward:
            log.info("%s: published what was left of a pair: %s", location, ", ".join(report.rolled_forward))
        return True

    def _prepare(self, target: Target, write_ids: ValidWriteIdList) -> Prepared | None:
        request = Request(
            type=self._request.type,
            layout=LAYOUT,
            row_type=self._row_type,
            task_memory=self._request.profile.task_memory,
        )
        storage = open_storage(target.location)
        try:
            prepared = prepare(
                storage, target.location, staging_name=self._staging_name, write_ids=write_ids, request=request
            )
            if not prepared.plan.outputs:
                storage.delete_tree(prepared.staging)
        except PARTITION_ERRORS as error:
            self._give_up(target.location, JobError(_reason(error), f"{target.location}: {error}"))
            return None
        if not prepared.plan.outputs:
            self._meter.partition_done()
        return prepared

    def _merge(self, prepared: Sequence[Prepared]) -> list[Merged]:
        work = [piece for item in prepared for piece in item.work()]
        total = sum(piece.bytes for piece in work)
        size = sum(item.bytes_in for item in prepared)
        log.info("%d tasks for %d bytes in %d files", len(work), size, sum(len(item.inputs) for item in prepared))
        self._meter.begin(size, partitions=len(prepared))
        return merge(prepared, self._runner, done=lambda done: self._meter.merged(done=done, total=total))

    def _finish(self, target: Target, prepared: Prepared, merged: Merged) -> Staged | None:
        if not prepared.plan.outputs:
            return Staged(target, prepared)
        storage = open_storage(target.location)
        try:
            if isinstance(merged, JobError):
                raise merged
            verify(prepared, merged)
            assemble(storage, prepared, merged, layout=LAYOUT)
        except (JobError, StorageError) as error:
            self._give_up(target.location, _job_error(error))
            return None
        return Staged(target, prepared, totals_of(prepared, merged, layout=LAYOUT))

    def _spare_older_snapshots(self, staged: Sequence[Staged], mark: Mark) -> list[Staged]:
        """Guard a first base against older snapshots, or wait for them where a guard would hide original files (H24).

        NB: after the merging, in whose time most of them have ended, and before the journal, which names the guard.
        """
        waiting = [item for item in staged if _must_wait(item.prepared)]
        kept = [item for item in staged if item not in waiting]
        if waiting:
            try:
                self._older.wait(mark)
                kept = list(staged)
            except JobError as error:
                for item in waiting:
                    self._give_up(item.target.location, JobError(error.reason, f"{item.target.location}: {error}"))
        if not self._older.open(mark):
            return kept
        return [_guarded(item) if item.prepared.plan.breaks_older_snapshots else item for item in kept]

    def _publish(self, item: Staged, lock: HeldLock) -> None:
        try:
            publish(open_storage(item.target.location), item.prepared, guard=lock.guard)
        except (JobError, StorageError) as error:
            self._give_up(item.target.location, _job_error(error))
            return
        names = ", ".join(output.name for output in item.prepared.plan.outputs)
        log.info("published %s in %s: %s", names, item.target.location, item.totals)
        self._tally.totals += item.totals
        self._meter.partition_done()

    def _publish_pair(self, item: Staged) -> None:
        try:
            with self._locks.exclusive(item.target.partition or None) as lock:
                self._publish(item, lock)
        except JobError as error:
            self._give_up(item.target.location, error)

    def _give_up(self, location: str, error: JobError) -> None:
        """Remove a failed partition's staging (rolling a half-published pair forward) and go on with the next.

        Where that does not work either, the controller does it when the attempt has ended.
        """
        try:
            retire(open_storage(location), location, self._staging_name)
        except StorageError as left:
            log.warning("staging is left behind: %s", left)
        self._tally.fail(error)


def _must_wait(prepared: Prepared) -> bool:
    return prepared.plan.breaks_older_snapshots and prepared.plan.has_originals


def _guarded(item: Staged) -> Staged:
    return replace(item, prepared=replace(item.prepared, plan=with_guard(item.prepared.plan)))


def batches(targets: Sequence[Target]) -> Iterable[Sequence[Target]]:
    """Yield the targets in groups of at most BATCH_PARTITIONS."""
    for start in range(0, len(targets), BATCH_PARTITIONS):
        yield targets[start : start + BATCH_PARTITIONS]


def journal_entries(staged: Iterable[Staged]) -> list[PartitionEntry]:
    """Return what the journal says of each partition that has anything obsolete or to be published."""
    return [
        PartitionEntry(
            partition=item.target.partition,
            location=item.target.location,
            create_time=item.target.create_time,
            outputs=tuple(output.name for output in item.prepared.plan.outputs),
            highest_write_id=item.prepared.plan.highest_write_id,
            obsolete=tuple(
                ObsoleteEntry(name=entry.name, reason=entry.reason) for entry in item.prepared.plan.obsolete
            ),
            totals=item.totals,
        )
        for item in staged
        if item.prepared.plan.outputs or item.prepared.plan.obsolete
    ]


def identity_of(database: str, name: str, *, create_time: int, location: str) -> TableIdentity:
    """Return the identity under which a table's journals are kept: names in lower case, as the metastore has them."""
    return TableIdentity(database=database.lower(), name=name.lower(), create_time=create_time, location=location)


def _retry_order(error: JobError) -> int:
    """What counts as a try comes first, then what is only waited for, then what no further attempt can mend."""
    return 2 if error.reason in FINAL_REASONS else int(error.reason in WAITING_REASONS)


def _job_error(error: JobError | StorageError) -> JobError:
    return error if isinstance(error, JobError) else JobError(_reason(error), str(error))


def _reason(error: Exception) -> Reason:
    if isinstance(error, UnsupportedLayout | NotEnoughHistory):
        return Reason.UNSUPPORTED_TABLE
    return Reason.UNREADABLE_FILE
