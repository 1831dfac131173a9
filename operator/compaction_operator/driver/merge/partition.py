"""One partition's compaction, from listing to complete directories in staging. Shared by the driver and the CLI."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

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
from compaction_operator.driver.merge.buckets import (
    Cutting,
    bucket_work,
    buckets,
    files_to_sketch,
    inputs_of,
    raw_files,
    scratch_name,
)
from compaction_operator.driver.merge.tasks import BucketWork, SizedTask
from compaction_operator.orc import DEFAULT_TASK_MEMORY, EventKind, FileSketch, MergeResult, sketch
from compaction_operator.storage import Storage, join, local_path

TASKS = "tasks"
"""The folder for the tasks' files, inside the staging folder."""

_OPEN_FILES = 8
"""How many files' tails the driver reads at a time: storage that is far away answers many as fast as one."""


@dataclass(frozen=True)
class Request:
    """What is asked of a directory: the kind of compaction, how its output is named, the table's row and the means.

    `row_type` is the row as Hive writes it (`struct<a:int>`); without it the newest input's row is taken.
    `task_memory` is in bytes.
    """

    type: CompactionType
    layout: Layout
    visibility_txn: int | None = None
    valid_txns: ValidTxnList | None = None
    row_type: str | None = None
    task_memory: int = DEFAULT_TASK_MEMORY

    def plan(self, listing: Listing, write_ids: ValidWriteIdList) -> CompactionPlan:
        """Return the plan for a directory as its listing shows it; raises UnsupportedLayout or NotEnoughHistory."""
        return plan_compaction(
            listing,
            write_ids,
            type=self.type,
            layout=self.layout,
            visibility_txn=self.visibility_txn,
            valid_txns=self.valid_txns,
        )


@dataclass(frozen=True)
class Prepared:
    """A partition that was listed and planned, and the work that fills each of its output directories.

    `inputs` has the size of each file that is read.
    """

    location: str
    staging: str
    plan: CompactionPlan
    outputs: dict[AcidDirectory, list[BucketWork]]
    inputs: dict[str, int]

    def buckets(self) -> Iterator[tuple[AcidDirectory, BucketWork]]:
        """Yield each bucket file to be written, one output directory after another."""
        return ((output, bucket) for output, found in self.outputs.items() for bucket in found)

    def work(self) -> Iterator[SizedTask]:
        """Yield the work of all buckets, in their order."""
        return (piece for _, bucket in self.buckets() for piece in bucket.parts)

    @property
    def bytes_in(self) -> int:
        """The size of all files that are read."""
        return sum(self.inputs.values())


def prepare(
    storage: Storage, location: str, *, staging_name: str, write_ids: ValidWriteIdList, request: Request
) -> Prepared:
    """List and plan one directory and cut its work; writes nothing.

    Raises NotFoundError or StorageError of the storage, UnsupportedLayout or NotEnoughHistory of the plan, and
    OrcError for a file whose rows had to be counted.
    """
    listing = storage.list_partition(location)
    plan = request.plan(listing, write_ids)
    staging = join(location, staging_name)
    cutting = Cutting(write_ids=write_ids, row_type=request.row_type, memory=request.task_memory)
    outputs, inputs = _cut(plan, listing, cutting, location=location, scratch=local_path(join(staging, TASKS)))
    return Prepared(location=location, staging=staging, plan=plan, outputs=outputs, inputs=inputs)


def _cut(
    plan: CompactionPlan, listing: Listing, cutting: Cutting, *, location: str, scratch: str
) -> tuple[dict[AcidDirectory, list[BucketWork]], dict[str, int]]:
    """Return the work by output directory, and the files to be read. Opens only files of large buckets and raw ones."""
    if not plan.outputs:
        return {}, {}
    sketches = _sketched(raw_files(plan, listing, location=location))
    found = buckets(plan, listing, location=location, sketches=sketches)
    every = [bucket for of_output in found.values() for bucket in of_output]
    large = {path for bucket in every for path in files_to_sketch(bucket, cutting)}
    sketches |= _sketched(large - sketches.keys())
    outputs = {
        output: [
            bucket_work(bucket, cutting, sketches=sketches, output=join(scratch, scratch_name(output, bucket.bucket)))
            for bucket in of_output
        ]
        for output, of_output in found.items()
    }
    return outputs, inputs_of(every)


def _sketched(paths: Iterable[str]) -> dict[str, FileSketch]:
    ordered = sorted(paths)
    with ThreadPoolExecutor(max_workers=_OPEN_FILES) as pool:
        return dict(zip(ordered, pool.map(sketch, ordered), strict=True))


def make_staging(storage: Storage, location: str, staging_name: str) -> None:
    """Create the folder into which the tasks write; raises NotFoundError where the directory itself is missing.

    NB: it must be there before others are fenced: of two drivers at once the later fence then finds the other one.
    """
    staging = join(location, staging_name)
    storage.make_directory(staging)
    storage.make_directory(join(staging, TASKS))


def assemble(storage: Storage, prepared: Prepared, results: Sequence[MergeResult], *, layout: Layout) -> None:
    """Put the verified files of all buckets into complete output directories, still inside the staging folder."""
    remaining = iter(results)
    for output, found in prepared.outputs.items():
        directory = make_output(storage, prepared, output, layout=layout)
        for bucket in found:
            result = next(remaining)
            if _keeps_file(result, bucket, layout):
                storage.publish(result.output, join(directory, bucket_file_name(bucket.whole.bucket)))
        # Here and not at publication, where readers may have to wait for it.
        storage.sync(directory)


def make_output(storage: Storage, prepared: Prepared, output: AcidDirectory, *, layout: Layout) -> str:
    """Create an output directory in the staging folder, with nothing but its side files, and return its place."""
    directory = join(prepared.staging, output.name)
    storage.make_directory(directory)
    storage.write(join(directory, ORC_ACID_VERSION), ORC_ACID_VERSION_CONTENT)
    if output.kind is DirectoryKind.BASE and layout is Layout.HIVE3:
        storage.write(join(directory, METADATA_ACID), METADATA_ACID_CONTENT)
    return directory


def _keeps_file(result: MergeResult, bucket: BucketWork, layout: Layout) -> bool:
    """Hive 4 writes no file without rows; Hive 3 writes an empty one for inserts (its readers want a bucket)."""
    if bucket.whole.kind is EventKind.DELETE:
        return result.delete_events_out > 0
    return result.rows_out > 0 or layout is Layout.HIVE3


def totals_of(prepared: Prepared, results: Sequence[MergeResult], *, layout: Layout) -> Totals:
    """Return what was read and written; delete events are counted once, though each delete task reads them all."""
    pairs = [(bucket, result) for (_, bucket), result in zip(prepared.buckets(), results, strict=True)]
    inserts = [result for bucket, result in pairs if bucket.whole.kind is EventKind.INSERT]
    deletes = [result for bucket, result in pairs if bucket.whole.kind is EventKind.DELETE]
    written = [result for bucket, result in pairs if _keeps_file(result, bucket, layout)]
    return Totals(
        partitions=1,
        files_in=len(prepared.inputs),
        files_out=len(written),
        bytes_in=prepared.bytes_in,
        bytes_out=sum(result.bytes_out for result in written),
        rows_in=sum(result.rows_in for result in inserts),
        rows_out=sum(result.rows_out for result in inserts),
        delete_events_in=(deletes[0].delete_events_in if deletes else sum(one.delete_events_in for one in inserts)),
        delete_events_out=sum(result.delete_events_out for result in deletes),
    )
