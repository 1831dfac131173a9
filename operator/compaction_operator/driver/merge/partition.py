"""One partition's compaction, from listing to complete directories in staging. Shared by the driver and the CLI."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from compaction_operator import orc
from compaction_operator.acid.listing import Listing
from compaction_operator.acid.names import (
    METADATA_ACID,
    METADATA_ACID_CONTENT,
    ORC_ACID_VERSION,
    ORC_ACID_VERSION_CONTENT,
    AcidDirectory,
)
from compaction_operator.acid.plan import CompactionPlan, Layout, plan_compaction
from compaction_operator.acid.runs import RowTypes
from compaction_operator.acid.snapshot import wrote_compaction
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.cleanup import Upload
from compaction_operator.api.compaction import CompactionType, Totals
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.merge.buckets import (
    Cutting,
    bucket_work,
    buckets,
    files_to_sketch,
    raw_files,
)
from compaction_operator.driver.merge.tails import by_path
from compaction_operator.driver.merge.tasks import BucketWork, SizedTask
from compaction_operator.metastore import Target
from compaction_operator.orc import DEFAULT_TASK_MEMORY, EventKind, MergeResult
from compaction_operator.storage import Listed, Storage, StorageError, join, normal, open_storage

TASKS = "tasks"
"""The folder inside the staging folder that holds the tasks' files."""


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

    def plan(
        self, listing: Listing, write_ids: ValidWriteIdList, *, row_types: RowTypes | None = None
    ) -> CompactionPlan:
        """Return the plan for a listed directory; raises UnsupportedLayout or NotEnoughHistory.

        With `row_types` it is one in runs of one row type.
        """
        return plan_compaction(
            listing,
            write_ids,
            type=self.type,
            layout=self.layout,
            visibility_txn=self.visibility_txn,
            valid_txns=self.valid_txns,
            row_types=row_types,
        )


@dataclass(frozen=True, slots=True)
class Basis:
    """What a partition is planned by: its listing, the valid write ids, and the request."""

    listing: Listing
    write_ids: ValidWriteIdList
    request: Request

    def plan(self, row_types: RowTypes | None = None) -> CompactionPlan:
        """Return the plan. Raises what `Request.plan` raises."""
        return self.request.plan(self.listing, self.write_ids, row_types=row_types)


@dataclass(frozen=True)
class OpenTarget(Target):
    """A target with its storage, and with the name of the staging folder in it that only this driver writes to."""

    staging_name: str

    @cached_property
    def storage(self) -> Storage:
        """The storage, opened by the first step that uses it: a StorageError then fails only this target."""
        return open_storage(self.location)

    @property
    def staging(self) -> str:
        """The location of the staging folder."""
        return join(self.location, self.staging_name)


@dataclass(frozen=True)
class Prepared:
    """A listed and planned partition, with the work for all buckets of its output directories.

    `inputs` has the size in bytes of each file that is read, by path. `bytes_ingested` is the size of those that no
    earlier compaction wrote. `apart` says why its deltas are merged in runs of one row type, if they are.
    """

    target: OpenTarget
    plan: CompactionPlan
    basis: Basis
    buckets: tuple[BucketWork, ...] = ()
    inputs: Mapping[str, int] = field(default_factory=dict)
    bytes_ingested: int = 0
    apart: str | None = None

    def work(self) -> Iterator[SizedTask]:
        """Yield the work of all buckets."""
        return (piece for bucket in self.buckets for piece in bucket.parts)

    @property
    def bytes_in(self) -> int:
        """The size in bytes of all files that are read."""
        return sum(self.inputs.values())


@dataclass(frozen=True, slots=True)
class MergedBucket:
    """A bucket whose file is written, in the tasks' folder."""

    bucket: BucketWork
    result: MergeResult

    @property
    def kind(self) -> EventKind:
        """What the file holds."""
        return self.bucket.whole.kind

    @property
    def is_empty(self) -> bool:
        """Whether the file holds nothing."""
        return not (self.result.delete_events_out if self.kind is EventKind.DELETE else self.result.rows_out)


@dataclass(frozen=True)
class Merged:
    """A partition whose tasks have ended: the results of its buckets, or the error that prevented them."""

    prepared: Prepared
    buckets: tuple[MergedBucket, ...] = ()
    error: JobError | None = None

    @property
    def published(self) -> list[MergedBucket]:
        """The buckets whose files are published."""
        layout = self.prepared.plan.layout
        return [one for one in self.buckets if not one.is_empty or keeps_empty(layout, one.kind)]

    @property
    def delete_results(self) -> dict[str, list[MergeResult]]:
        """The results of the buckets of each delete delta, by its name."""
        found: defaultdict[str, list[MergeResult]] = defaultdict(list)
        for one in self.buckets:
            if one.kind is EventKind.DELETE:
                found[one.bucket.directory.name].append(one.result)
        return found


def keeps_empty(layout: Layout, kind: EventKind) -> bool:
    """Return whether a file without rows is published.

    Hive 4 writes none. Hive 3 writes an empty one for inserts, because its readers expect a bucket.
    """
    return layout is Layout.HIVE3 and kind is EventKind.INSERT


def listed(targets: Sequence[OpenTarget]) -> dict[OpenTarget, Listed]:
    """List the directories of all targets now, side by side; an error is that of its target alone."""
    found: dict[OpenTarget, Listed] = {}
    together: defaultdict[int, list[OpenTarget]] = defaultdict(list)
    for target in targets:
        try:
            together[id(target.storage)].append(target)
        except StorageError as error:
            found[target] = error
    for group in together.values():
        listings = group[0].storage.list_partitions([target.location for target in group])
        found |= {target: listings[target.location] for target in group}
    return found


def prepare(target: OpenTarget, seen: Listed, *, write_ids: ValidWriteIdList, request: Request) -> Prepared:
    """Plan one directory by its listing and cut its work; writes nothing.

    Raises NotFoundError or StorageError from the listing, UnsupportedLayout or NotEnoughHistory from the plan, and
    OrcError for an unreadable file whose rows must be counted.
    """
    basis = Basis(found_in(seen), write_ids, request)
    return cut(target, basis.plan(), basis)


def cut(target: OpenTarget, plan: CompactionPlan, basis: Basis) -> Prepared:
    """Cut the work of a planned directory; writes nothing. Raises OrcError as `prepare` does."""
    if not plan.outputs:
        return Prepared(target, plan, basis)
    listing, request = basis.listing, basis.request
    scratch = normal(join(target.staging, TASKS))
    cutting = Cutting(
        write_ids=basis.write_ids,
        row_type=request.row_type,
        memory=request.task_memory,
        scratch=scratch,
        own_row_type=plan.own_row_type,
    )
    # Only files that are not ACID files, and files of large buckets, are opened.
    sketches = by_path(raw_files(plan, listing, location=target.location), orc.sketch)
    found = buckets(plan, listing, location=target.location, sketches=sketches)
    large = {path for bucket in found for path in files_to_sketch(bucket, cutting)}
    sketches |= by_path(large - sketches.keys(), orc.sketch)
    work = tuple(bucket_work(bucket, cutting, sketches=sketches) for bucket in found)
    inputs = {source.file.path: source.bytes for bucket in found for source in (*bucket.inputs, *bucket.deletes)}
    compacted = _compacted(plan, listing, location=target.location)
    ingested = sum(size for path, size in inputs.items() if path.rpartition("/")[0] not in compacted)
    return Prepared(target, plan, basis, work, inputs, ingested)


def _compacted(plan: CompactionPlan, listing: Listing, *, location: str) -> set[str]:
    """Return the local paths of the inputs' directories that an earlier compaction wrote."""
    found = ((one, listing.directory(one.name)) for one in plan.directories)
    return {
        join(normal(location), one.name) for one, directory in found if directory and wrote_compaction(directory, one)
    }


def found_in(seen: Listed) -> Listing:
    """Return a listing; raises the StorageError that there is instead."""
    if isinstance(seen, StorageError):
        raise seen
    return seen


def make_staging(target: OpenTarget) -> None:
    """Create the folder that the tasks write to; raises NotFoundError if the partition's directory does not exist.

    NB: create it before fencing the others. Then, of two concurrent drivers, the later fence always finds the other
    driver's folder.
    """
    target.storage.make_directory(target.staging)
    target.storage.make_directory(join(target.staging, TASKS))


def empty_staging(target: OpenTarget) -> None:
    """Remove what tasks have written, so that others can write files of the same names; raises StorageError."""
    folder = join(target.staging, TASKS)
    target.storage.delete_tree(folder)
    target.storage.make_directory(folder)


def assemble(merged: Merged) -> tuple[Upload, ...]:
    """Put the verified files of all buckets into complete output directories, still inside the staging folder.

    Where the store cannot rename directories, it begins the uploads of all their files instead, and returns them.
    """
    target, plan = merged.prepared.target, merged.prepared.plan
    storage = target.storage
    if storage.uploads is not None:
        return storage.uploads.begin(target.location, _sources(merged))
    for output in plan.outputs:
        directory = make_output(merged.prepared, output)
        for found in merged.published:
            if found.bucket.directory == output:
                storage.publish(found.result.output, join(directory, found.bucket.name))
        # Sync now rather than at publication, where readers may have to wait for it.
        storage.sync(directory)
    return ()


def _sources(merged: Merged) -> dict[str, str]:
    """Return the staged file of each file of the outputs, by its name below the partition."""
    found = {f"{one.bucket.directory.name}/{one.bucket.name}": one.result.output for one in merged.published}
    for output in merged.prepared.plan.outputs:
        side_files = make_output(merged.prepared, output)
        found[f"{output.name}/{ORC_ACID_VERSION}"] = join(side_files, ORC_ACID_VERSION)
    return found


def make_output(prepared: Prepared, output: AcidDirectory) -> str:
    """Create an output directory in the staging folder with only its side files, and return its location."""
    storage, directory = prepared.target.storage, join(prepared.target.staging, output.name)
    storage.make_directory(directory)
    storage.write(join(directory, ORC_ACID_VERSION), ORC_ACID_VERSION_CONTENT)
    if output.is_base and prepared.plan.layout is Layout.HIVE3:
        storage.write(join(directory, METADATA_ACID), METADATA_ACID_CONTENT)
    return directory


def totals_of(merged: Merged) -> Totals:
    """Return what was read and written. Delete events count once, although each delete task reads all of them."""
    inserts = [found.result for found in merged.buckets if found.kind is EventKind.INSERT]
    deletes = merged.delete_results
    read = [results[0].delete_events_in for results in deletes.values()]
    written = [found.result for found in merged.published]
    bytes_out, copied = sum(result.bytes_out for result in written), sum(result.bytes_copied for result in written)
    return Totals(
        partitions=1,
        files_in=len(merged.prepared.inputs),
        files_out=len(written),
        bytes_in=merged.prepared.bytes_in,
        bytes_ingested=merged.prepared.bytes_ingested,
        bytes_out=bytes_out,
        bytes_copied=copied,
        bytes_rewritten=bytes_out - copied,
        rows_in=sum(result.rows_in for result in inserts),
        rows_out=sum(result.rows_out for result in inserts),
        delete_events_in=sum(read) if read else sum(one.delete_events_in for one in inserts),
        delete_events_out=sum(result.delete_events_out for results in deletes.values() for result in results),
    )
