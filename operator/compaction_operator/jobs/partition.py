"""One partition's compaction, from listing to complete directories in staging. Shared by the driver and the CLI."""

from collections.abc import Sequence
from dataclasses import dataclass

from compaction_operator.acid.inputs import original_inputs
from compaction_operator.acid.listing import Listing
from compaction_operator.acid.names import (
    METADATA_ACID,
    METADATA_ACID_CONTENT,
    ORC_ACID_VERSION,
    ORC_ACID_VERSION_CONTENT,
    AcidDirectory,
    DirectoryKind,
    bucket_file_name,
)
from compaction_operator.acid.plan import CompactionPlan, Layout, plan_compaction
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import CompactionType, Totals
from compaction_operator.api.request import Reason
from compaction_operator.jobs.cut import input_files, merge_tasks
from compaction_operator.jobs.errors import JobError
from compaction_operator.jobs.runner import Outcome
from compaction_operator.orc import EventKind, MergeResult, MergeTask, count_rows
from compaction_operator.storage import Storage, join, local_path

TASKS = "tasks"
"""The folder for the tasks' files, inside the staging folder."""


@dataclass(frozen=True)
class Request:
    """What is asked of a directory: the kind of compaction and how its output is named."""

    type: CompactionType
    layout: Layout
    visibility_txn: int | None = None
    valid_txns: ValidTxnList | None = None


@dataclass(frozen=True)
class Prepared:
    """A partition that was listed and planned, and the tasks that fill each of its output directories."""

    location: str
    staging: str
    listing: Listing
    plan: CompactionPlan
    tasks: dict[AcidDirectory, list[MergeTask]]

    def all_tasks(self) -> list[MergeTask]:
        """Return the tasks of all outputs, one output after another."""
        return [task for tasks in self.tasks.values() for task in tasks]


def prepare(
    storage: Storage, location: str, *, staging_name: str, write_ids: ValidWriteIdList, request: Request
) -> Prepared:
    """List and plan one directory and cut its work; writes nothing.

    Raises NotFoundError or StorageError of the storage, and UnsupportedLayout or NotEnoughHistory of the plan.
    """
    listing = storage.list_partition(location)
    plan = plan_compaction(
        listing,
        write_ids,
        type=request.type,
        layout=request.layout,
        visibility_txn=request.visibility_txn,
        valid_txns=request.valid_txns,
    )
    staging = join(location, staging_name)
    originals = [file.path for files in original_inputs(plan, listing).values() for file in files]
    original_rows = {path: count_rows(local_path(join(location, path))) for path in originals}
    tasks = merge_tasks(
        plan,
        listing,
        location=location,
        scratch=join(staging, TASKS),
        write_ids=write_ids,
        original_rows=original_rows,
    )
    return Prepared(location=location, staging=staging, listing=listing, plan=plan, tasks=tasks)


def make_staging(storage: Storage, location: str, staging_name: str) -> None:
    """Create the folder into which the tasks write; raises NotFoundError where the directory itself is missing.

    NB: it must be there before others are fenced: of two drivers at once the later fence then finds the other one.
    """
    staging = join(location, staging_name)
    storage.make_directory(staging)
    storage.make_directory(join(staging, TASKS))


def results_of(outcomes: Sequence[Outcome]) -> list[MergeResult]:
    """Return the results of a partition's tasks; raises JobError with the first failure's text: it names the file."""
    for outcome in outcomes:
        if outcome.error is not None:
            raise JobError(Reason.UNREADABLE_FILE, outcome.error)
    return [outcome.result for outcome in outcomes if outcome.result is not None]


def verify(prepared: Prepared, results: Sequence[MergeResult]) -> None:
    """Check the row arithmetic of the whole partition (hazard H18); raises JobError naming what does not add up."""
    tasks = prepared.all_tasks()
    if len(results) != len(tasks):
        raise _mismatch(prepared, f"{len(tasks)} tasks gave {len(results)} results")
    for task, result in zip(tasks, results, strict=True):
        if task.kind is EventKind.INSERT and result.rows_in - result.rows_deleted != result.rows_out:
            raise _mismatch(prepared, f"{result.output}: {result.rows_in} rows in, {result.rows_out} out")
    _verify_deletes([result for task, result in zip(tasks, results, strict=True) if _deletes(task)], prepared)


def _verify_deletes(results: Sequence[MergeResult], prepared: Prepared) -> None:
    """Each delete event must be in exactly one bucket's output; every task read them all."""
    read = {result.delete_events_in for result in results}
    written = sum(result.delete_events_out for result in results)
    if results and read != {written}:
        raise _mismatch(prepared, f"{sorted(read)} delete events were read and {written} written")


def _deletes(task: MergeTask) -> bool:
    return task.kind is EventKind.DELETE


def _mismatch(prepared: Prepared, message: str) -> JobError:
    return JobError(Reason.VERIFICATION_FAILED, f"{prepared.location}: {message}: nothing is published")


def assemble(storage: Storage, prepared: Prepared, results: Sequence[MergeResult], *, layout: Layout) -> None:
    """Put the verified task files into complete output directories, still inside the staging folder."""
    remaining = iter(results)
    for output, tasks in prepared.tasks.items():
        directory = join(prepared.staging, output.name)
        storage.make_directory(directory)
        for task in tasks:
            result = next(remaining)
            if _keeps_file(result, task, layout):
                storage.publish(result.output, join(directory, bucket_file_name(task.bucket)))
        storage.write(join(directory, ORC_ACID_VERSION), ORC_ACID_VERSION_CONTENT)
        if output.kind is DirectoryKind.BASE and layout is Layout.HIVE3:
            storage.write(join(directory, METADATA_ACID), METADATA_ACID_CONTENT)
        # Here and not at publication, where readers may have to wait for it.
        storage.sync(directory)


def _keeps_file(result: MergeResult, task: MergeTask, layout: Layout) -> bool:
    """Hive 4 writes no file without rows; Hive 3 writes an empty one for inserts (its readers want a bucket)."""
    if task.kind is EventKind.DELETE:
        return result.delete_events_out > 0
    return result.rows_out > 0 or layout is Layout.HIVE3


def totals_of(prepared: Prepared, results: Sequence[MergeResult], *, layout: Layout) -> Totals:
    """Return what was read and written; delete events are counted once, though each delete task reads them all."""
    inputs = input_files(prepared.plan, prepared.listing)
    tasks = prepared.all_tasks()
    inserts = [result for task, result in zip(tasks, results, strict=True) if not _deletes(task)]
    deletes = [result for task, result in zip(tasks, results, strict=True) if _deletes(task)]
    events_in = deletes[0].delete_events_in if deletes else sum(result.delete_events_in for result in inserts)
    written = [result for task, result in zip(tasks, results, strict=True) if _keeps_file(result, task, layout)]
    return Totals(
        partitions=1,
        files_in=len(inputs),
        files_out=len(written),
        bytes_in=sum(file.size for file in inputs),
        bytes_out=sum(result.bytes_out for result in written),
        rows_in=sum(result.rows_in for result in inserts),
        rows_out=sum(result.rows_out for result in inserts),
        delete_events_in=events_in,
        delete_events_out=sum(result.delete_events_out for result in deletes),
    )
