"""How the compaction of one partition is cut into tasks: one for each output directory and bucket. Pure."""

from collections.abc import Iterable

from compaction_operator.acid.listing import File, Listing
from compaction_operator.acid.names import (
    AcidDirectory,
    DirectoryKind,
    bucket_file_name,
    encode_bucket_property,
    parse_bucket_file,
    parse_original_file,
)
from compaction_operator.acid.plan import CompactionPlan
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc import EventKind, InputFile, MergeTask, OriginalRows
from compaction_operator.storage import join, local_path

BucketFiles = dict[int, list[str]]


def merge_tasks(
    plan: CompactionPlan,
    listing: Listing,
    *,
    location: str,
    scratch: str,
    write_ids: ValidWriteIdList,
    original_rows: dict[str, int],
) -> dict[AcidDirectory, list[MergeTask]]:
    """Return, for each output directory of the plan, the tasks that fill it.

    `scratch` is the folder for the tasks' files; `original_rows` gives the row count of each original file by
    name, from which the row ids of the next file of the same bucket go on (Hive's OriginalReaderPair).
    """
    location, scratch = local_path(location), local_path(scratch)
    deletes = _bucket_files(listing, _of_kind(plan, DirectoryKind.DELETE_DELTA), location)
    tasks: dict[AcidDirectory, list[MergeTask]] = {}
    for output in plan.outputs:
        path = join(scratch, output.name)
        if output.kind is DirectoryKind.DELETE_DELTA:
            tasks[output] = _delete_tasks(deletes, scratch=path, write_ids=write_ids)
        else:
            inserts = _insert_files(plan, listing, location, original_rows)
            applied = deletes if output.kind is DirectoryKind.BASE else {}
            tasks[output] = _insert_tasks(inserts, applied, scratch=path, write_ids=write_ids)
    return tasks


def input_files(plan: CompactionPlan, listing: Listing) -> list[File]:
    """Return the bucket and original files that the plan reads."""
    directories = [*([plan.base] if plan.base else []), *plan.deltas]
    files = [file for directory in directories for file in _files(listing, directory)]
    return [*(file for file in files if parse_bucket_file(file.name)), *plan.originals]


def _of_kind(plan: CompactionPlan, *kinds: DirectoryKind) -> list[AcidDirectory]:
    return [directory for directory in plan.deltas if directory.kind in kinds]


def _files(listing: Listing, directory: AcidDirectory) -> tuple[File, ...]:
    found = listing.directory(directory.name)
    return found.files if found else ()


def _bucket_files(listing: Listing, directories: Iterable[AcidDirectory], location: str) -> BucketFiles:
    buckets: BucketFiles = {}
    for directory in directories:
        for file in _files(listing, directory):
            if parsed := parse_bucket_file(file.name):
                buckets.setdefault(parsed.bucket, []).append(join(location, directory.name, file.name))
    return buckets


def _insert_files(
    plan: CompactionPlan, listing: Listing, location: str, original_rows: dict[str, int]
) -> dict[int, list[InputFile]]:
    directories = [*([plan.base] if plan.base else []), *_of_kind(plan, DirectoryKind.DELTA)]
    acid = _bucket_files(listing, directories, location)
    inputs = {bucket: [InputFile(path=path) for path in paths] for bucket, paths in acid.items()}
    for bucket, originals in _original_inputs(plan.originals, location, original_rows).items():
        inputs[bucket] = [*originals, *inputs.get(bucket, [])]
    return inputs


def _original_inputs(
    originals: Iterable[File], location: str, original_rows: dict[str, int]
) -> dict[int, list[InputFile]]:
    """Number the rows of the files of each bucket through.

    NB: Hive takes them in the order of their paths, in which `_copy_10` comes before `_copy_2`.
    """
    parsed = [original for file in originals if (original := parse_original_file(file.name))]
    inputs: dict[int, list[InputFile]] = {}
    rows: dict[int, int] = {}
    for original in sorted(parsed, key=lambda original: (original.bucket, original.name)):
        first = rows.get(original.bucket, 0)
        rows[original.bucket] = first + original_rows[original.name]
        identity = OriginalRows(bucket_property=encode_bucket_property(bucket=original.bucket), first_row_id=first)
        inputs.setdefault(original.bucket, []).append(
            InputFile(path=join(location, original.name), original=identity)
        )
    return inputs


def _insert_tasks(
    inserts: dict[int, list[InputFile]], deletes: BucketFiles, *, scratch: str, write_ids: ValidWriteIdList
) -> list[MergeTask]:
    return [
        MergeTask(
            kind=EventKind.INSERT,
            bucket=bucket,
            inputs=tuple(inputs),
            deletes=tuple(InputFile(path=path) for path in deletes.get(bucket, [])),
            write_ids=str(write_ids),
            output=f"{scratch}-{bucket_file_name(bucket)}",
        )
        for bucket, inputs in sorted(inserts.items())
    ]


def _delete_tasks(deletes: BucketFiles, *, scratch: str, write_ids: ValidWriteIdList) -> list[MergeTask]:
    """Give each task all delete files: Hive 3.1.3's own minor copies every event into every bucket's file."""
    files = tuple(InputFile(path=path) for _, paths in sorted(deletes.items()) for path in paths)
    return [
        MergeTask(
            kind=EventKind.DELETE,
            bucket=bucket,
            inputs=files,
            write_ids=str(write_ids),
            output=f"{scratch}-{bucket_file_name(bucket)}",
        )
        for bucket in sorted(deletes)
    ]
