"""How the compaction of one partition is cut into tasks: one for each output directory and bucket. Pure."""

from collections.abc import Iterable, Iterator

from compaction_operator.acid.inputs import RawFile, original_inputs
from compaction_operator.acid.listing import File, Listing
from compaction_operator.acid.names import (
    AcidDirectory,
    DirectoryKind,
    bucket_file_name,
    parse_bucket_file,
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

    `scratch` is the folder for the tasks' files; `original_rows` gives the row count of each original and raw file by
    its path below the location, from which the row ids of the next file go on (Hive's OriginalReaderPair).
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
    """Return the bucket, original and raw files that the plan reads."""
    directories = [*([plan.base] if plan.base else []), *plan.deltas]
    inside = [File(f"{one.name}/{file.name}", file.size) for one in directories for file in _files(listing, one)]
    raw = {file.path for files in original_inputs(plan, listing).values() for file in files}
    read = [file for file in inside if file.name in raw or parse_bucket_file(file.name.partition("/")[2])]
    return [*read, *plan.originals]


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
    for bucket, files in original_inputs(plan, listing).items():
        inputs[bucket] = [*_numbered(files, location, original_rows), *inputs.get(bucket, [])]
    return inputs


def _numbered(files: Iterable[RawFile], location: str, original_rows: dict[str, int]) -> Iterator[InputFile]:
    """Number the rows of one bucket's files through, for each write id and statement from 0 on."""
    rows: dict[tuple[int, int], int] = {}
    for file in files:
        identity = file.write_id, file.bucket_property
        first = rows.get(identity, 0)
        rows[identity] = first + original_rows[file.path]
        original = OriginalRows(bucket_property=file.bucket_property, first_row_id=first, write_id=file.write_id)
        yield InputFile(path=join(location, file.path), original=original)


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
