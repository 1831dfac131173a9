"""The flow of one compaction of a Hive ACID table on Hive 3.1: lock, fence, plan, write, journal, publish."""

import itertools
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from compaction_operator.acid.plan import Layout
from compaction_operator.acid.snapshot import NotEnoughHistory, UnsupportedLayout
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.cleanup import ObsoleteEntry, PartitionEntry, TableIdentity
from compaction_operator.api.compaction import Totals
from compaction_operator.api.request import FINAL_REASONS, WAITING_REASONS, DriverResult, JobRequest, Reason
from compaction_operator.cleanup.fence import fence, retire
from compaction_operator.cleanup.staging import staging_name
from compaction_operator.jobs.errors import JobError
from compaction_operator.jobs.journal import Journal
from compaction_operator.jobs.locks import HeldLock, Locks
from compaction_operator.jobs.partition import (
    Prepared,
    Request,
    assemble,
    make_staging,
    prepare,
    results_of,
    totals_of,
    verify,
)
from compaction_operator.jobs.publish import needs_exclusive, publish
from compaction_operator.jobs.runner import Outcome, TaskRunner
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
class Progress:
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
    """Compacts the partitions of one table, batch by batch; one instance per driver."""

    def __init__(
        self, request: JobRequest, *, client: MetastoreClient, runner: TaskRunner, locks: Locks, pod_uid: str
    ) -> None:
        self._request = request
        self._client = client
        self._runner = runner
        self._locks = locks
        self._staging_name = staging_name(uid=request.uid, attempt=request.attempt, pod_uid=pod_uid)
        self._progress = Progress()

    def run(self, targets: Sequence[Target], journal: Journal) -> DriverResult:
        """Compact the targets and return how it went; raises JobError or MetastoreError when it did not."""
        for number, batch in enumerate(batches(targets), 1):
            log.info("batch %d: %d of %d partitions", number, len(batch), len(targets))
            self._batch(batch, journal)
        return self._progress.result()

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
        prepared = [(target, item) for target in fenced if (item := self._prepare(target, write_ids))]
        tasks = [task for _, item in prepared for task in item.all_tasks()]
        log.info("%d tasks: one for each output directory and bucket", len(tasks))
        outcomes = iter(self._runner.run(tasks))
        staged = (
            self._finish(target, item, list(itertools.islice(outcomes, len(item.all_tasks()))))
            for target, item in prepared
        )
        return [item for item in staged if item]

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
        request = Request(type=self._request.type, layout=LAYOUT)
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
        return prepared

    def _finish(self, target: Target, prepared: Prepared, outcomes: Sequence[Outcome]) -> Staged | None:
        if not prepared.plan.outputs:
            return Staged(target, prepared)
        storage = open_storage(target.location)
        try:
            results = results_of(outcomes)
            verify(prepared, results)
            assemble(storage, prepared, results, layout=LAYOUT)
        except (JobError, StorageError) as error:
            self._give_up(target.location, _job_error(error))
            return None
        return Staged(target, prepared, totals_of(prepared, results, layout=LAYOUT))

    def _publish(self, item: Staged, lock: HeldLock) -> None:
        try:
            publish(open_storage(item.target.location), item.prepared, guard=lock.guard)
        except (JobError, StorageError) as error:
            self._give_up(item.target.location, _job_error(error))
            return
        names = ", ".join(output.name for output in item.prepared.plan.outputs)
        log.info("published %s in %s: %s", names, item.target.location, item.totals)
        self._progress.totals += item.totals

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
        self._progress.fail(error)


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
