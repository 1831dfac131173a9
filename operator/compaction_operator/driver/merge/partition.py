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
"""The folder inside the staging folder that holds the tasks' files."""

_OPEN_FILES = 8
"""How many file tails the driver reads concurrently: remote storage answers many requests as fast as one."""


@dataclass(frozen=True)
class Request:
    """The requested compaction of a directory: its type, the layout of its output, the table's row type, and memory.

    `row_type` is in Hive's notation (`struct<a:int>`); without it the newest input's row type applies.
    `task_memory` is in bytes.
    """

    type: CompactionType
    layout: Layout
    visibility_txn: int | None = None
    valid_txns: ValidTxnList | None = None
    row_type: str | None = None
    task_memory: int = DEFAULT_TASK_MEMORY

    def plan(self, listing: Listing, write_ids: ValidWriteIdList) -> CompactionPlan:
        """Return the plan for a listed directory; raises UnsupportedLayout or NotEnoughHistory."""
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
    """A listed and planned partition, with the work that fills each of its output directories.

    `inputs` has the size in bytes of each file that is read, by path.
    """

    location: str
    staging: str
    plan: CompactionPlan
    outputs: dict[AcidDirectory, list[BucketWork]]
    inputs: dict[str, int]

    def buckets(self) -> Iterator[tuple[AcidDirectory, BucketWork]]:
        """Yield each bucket file to write, one output directory after another."""
        return ((output, bucket) for output, found in self.outputs.items() for bucket in found)

    def work(self) -> Iterator[SizedTask]:
        """Yield the work of all buckets, in the order of `buckets()`."""
        return (piece for _, bucket in self.buckets() for piece in bucket.parts)

    @property
    def bytes_in(self) -> int:
        """The size in bytes of all files that are read."""
        return sum(self.inputs.values())


def prepare(
    storage: Storage, location: str, *, staging_name: str, write_ids: ValidWriteIdList, request: Request
) -> Prepared:
    """List and plan one directory and cut its work; writes nothing.

    Raises NotFoundError or StorageError from the storage, UnsupportedLayout or NotEnoughHistory from the plan, and
    OrcError for an unreadable file whose rows must be counted.
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
    """Return the work by output directory, and the files to read. Opens only raw files and files of large buckets."""
    if not plan.outputs:
        return {}, {}
    sketches = _sketched(raw_files(plan, listing, location=location))
    found = buckets(plan, listing, location=location, sketches=sketches)
    every = [bucket for output_buckets in found.values() for bucket in output_buckets]
    large = {path for bucket in every for path in files_to_sketch(bucket, cutting)}
    sketches |= _sketched(large - sketches.keys())
    outputs = {
        output: [
            bucket_work(bucket, cutting, sketches=sketches, output=join(scratch, scratch_name(output, bucket.bucket)))
            for bucket in output_buckets
        ]
        for output, output_buckets in found.items()
    }
    return outputs, inputs_of(every)


def _sketched(paths: Iterable[str]) -> dict[str, FileSketch]:
    ordered = sorted(paths)
    with ThreadPoolExecutor(max_workers=_OPEN_FILES) as pool:
        return dict(zip(ordered, pool.map(sketch, ordered), strict=True))


def make_staging(storage: Storage, location: str, staging_name: str) -> None:
    """Create the folder that the tasks write to; raises NotFoundError if the partition's directory does not exist.

    NB: create it before fencing the others. Then, of two concurrent drivers, the later fence always finds the other
    driver's folder.
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
        # Sync now rather than at publication, where readers may have to wait for it.
        storage.sync(directory)


def make_output(storage: Storage, prepared: Prepared, output: AcidDirectory, *, layout: Layout) -> str:
    """Create an output directory in the staging folder with only its side files, and return its location."""
    directory = join(prepared.staging, output.name)
    storage.make_directory(directory)
    storage.write(join(directory, ORC_ACID_VERSION), ORC_ACID_VERSION_CONTENT)
    if output.kind is DirectoryKind.BASE and layout is Layout.HIVE3:
        storage.write(join(directory, METADATA_ACID), METADATA_ACID_CONTENT)
    return directory


def _keeps_file(result: MergeResult, bucket: BucketWork, layout: Layout) -> bool:
    """Whether a bucket's file is published.

    Hive 4 writes no file without rows. Hive 3 writes an empty one for inserts, because its readers expect a bucket.
    """
    if bucket.whole.kind is EventKind.DELETE:
        return result.delete_events_out > 0
    return result.rows_out > 0 or layout is Layout.HIVE3


def totals_of(prepared: Prepared, results: Sequence[MergeResult], *, layout: Layout) -> Totals:
    """Return what was read and written. Delete events count once, although each delete task reads all of them."""
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
