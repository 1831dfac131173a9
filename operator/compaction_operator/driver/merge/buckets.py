"""Cutting of one partition's compaction into tasks: one or several for each output directory and bucket. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compaction_operator.acid.contents import contents
from compaction_operator.acid.inputs import RawFile, original_inputs
from compaction_operator.acid.listing import Listing
from compaction_operator.acid.names import AcidDirectory, DirectoryKind, bucket_file_name
from compaction_operator.acid.plan import CompactionPlan, inputs_of
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.driver.merge.key_ranges import (
    Piece,
    Share,
    insert_piece,
    original_pieces,
    shares,
    stripe_pieces,
)
from compaction_operator.driver.merge.load import Load
from compaction_operator.driver.merge.tasks import BucketWork, SizedTask, task_bytes
from compaction_operator.orc import EventKind, FileSketch, InputFile, MergeTask, OriginalRows
from compaction_operator.storage import join, normal

SKETCHED_FILES = 64
"""How many files of a large bucket are opened to find where their stripes end; the largest files come first."""

BEFORE_ACID = 0
"""The write id of rows from before the table was ACID: their files lie in none of its directories."""

COPIED_FROM = 2 * 1024 * 1024
"""Bytes from which a file counts as one of large stripes, which are copied; smaller ones are merged."""

Sketches = Mapping[str, FileSketch]
"""File sketches by the files' local paths."""


@dataclass(frozen=True, slots=True)
class BucketSource:
    """A file to read, its size in bytes, and an upper bound of its rows' write ids (None for delete events).

    `rows` is the number of its rows if it had to be counted, otherwise 0.
    """

    file: InputFile
    bytes: int
    highest_write_id: int | None = None
    rows: int = 0

    @property
    def is_remote(self) -> bool:
        """Whether it is in a store over the network. NB: normal paths are absolute ones of this machine, or URIs."""
        return not self.file.path.startswith("/")


@dataclass(frozen=True, slots=True)
class Bucket:
    """The inputs of one bucket file of an output directory."""

    directory: AcidDirectory
    bucket: int
    inputs: tuple[BucketSource, ...]
    deletes: tuple[BucketSource, ...] = ()

    @property
    def kind(self) -> EventKind:
        """What its file holds."""
        return EventKind.DELETE if self.directory.kind is DirectoryKind.DELETE_DELTA else EventKind.INSERT

    @property
    def bytes(self) -> int:
        """The size of its inputs in bytes, without the delete events that apply to them."""
        return sum(source.bytes for source in self.inputs)

    @property
    def load(self) -> Load:
        """The work of merging it, without its delete events: no file has been opened yet.

        NB: for the same reason all stripes count as rewritten where delete events apply.
        """
        files = (*self.inputs, *self.deletes)
        opened = Load(files=len(files), remote=sum(source.is_remote for source in files))
        if self.kind is EventKind.DELETE:
            return opened
        copied = 0 if self.deletes else sum(source.bytes for source in self.inputs if _is_copied(source))
        return replace(opened, copied=copied, rewritten=self.bytes - copied, rows=sum(one.rows for one in self.inputs))


def _is_copied(source: BucketSource) -> bool:
    return source.file.original is None and source.bytes >= COPIED_FROM


@dataclass(frozen=True, slots=True)
class Cutting:
    """Parameters that all tasks of a partition share.

    `memory` is the bytes that one task may hold. `row_type` is the table's row type, or None if it is unknown.
    `scratch` is the local path of the folder that the tasks write to. In the outputs `own_row_type`, rows keep the row
    type of their files.
    """

    write_ids: ValidWriteIdList
    row_type: str | None
    memory: int
    scratch: str
    own_row_type: frozenset[AcidDirectory] = frozenset()


def raw_files(plan: CompactionPlan, listing: Listing, *, location: str) -> list[str]:
    """Return the local paths of the inputs that are not ACID files; their row counts must be known before cutting."""
    raw = original_inputs(plan, listing)
    return [_local(location, file.path) for files in raw.values() for file in files]


def buckets(plan: CompactionPlan, listing: Listing, *, location: str, sketches: Sketches) -> list[Bucket]:
    """Return the buckets of the plan's output directories: the union of all inputs' buckets (hazard H9).

    `sketches` has at least the files that `raw_files` returns, because their rows are numbered consecutively.
    """
    files = _Files(plan, listing, location, sketches)
    found: list[Bucket] = []
    for output in plan.outputs:
        read = inputs_of(output, plan)
        inserts, deletes = files.inserts(read), files.deletes(read)
        if output.kind is DirectoryKind.DELETE_DELTA:
            # Each bucket reads all delete files: Hive 3.1.3's own minor compaction copies every event into each file.
            every = tuple(source for _, sources in sorted(deletes.items()) for source in sources)
            found += [Bucket(output, bucket, every) for bucket in sorted(deletes)]
        else:
            applied = deletes if output.is_base else {}
            found += [
                Bucket(output, bucket, tuple(inserts.get(bucket, ())), tuple(applied.get(bucket, ())))
                for bucket in sorted(inserts.keys() | applied.keys())
            ]
    return found


class _Files:
    """The files that a plan reads, by bucket, older directories first."""

    def __init__(self, plan: CompactionPlan, listing: Listing, location: str, sketches: Sketches) -> None:
        self._plan = plan
        self._listing = listing
        self._location = location
        self._sketches = sketches
        self._sizes = {file.name: file.size for file in plan.originals}
        for directory in listing.directories:
            self._sizes |= {f"{directory.name}/{file.name}": file.size for file in directory.files}

    def deletes(self, read: Sequence[AcidDirectory]) -> dict[int, list[BucketSource]]:
        """Return the files of delete events in these directories by bucket."""
        found: dict[int, list[BucketSource]] = {}
        for directory in read:
            if directory.kind is DirectoryKind.DELETE_DELTA:
                for bucket, path in self._bucket_files(directory):
                    found.setdefault(bucket, []).append(self._source(path))
        return found

    def inserts(self, read: Sequence[AcidDirectory]) -> dict[int, list[BucketSource]]:
        """Return the files of rows by bucket: originals, then those in these directories.

        A raw file takes its directory's place.
        """
        directories = [one for one in read if one.kind is not DirectoryKind.DELETE_DELTA]
        places = {directory.name: place for place, directory in enumerate(directories)}
        found: list[tuple[int, int, BucketSource]] = []
        for bucket, raw, original in self._numbered():
            place = places.get(raw.path.partition("/")[0], -1)
            if place >= 0 or raw.write_id == BEFORE_ACID:
                found.append((bucket, place, self._source(raw.path, raw.write_id, original)))
        for place, directory in enumerate(directories):
            for bucket, path in self._bucket_files(directory):
                found.append((bucket, place, self._source(path, directory.max_write_id)))
        by_bucket: dict[int, list[BucketSource]] = {}
        for bucket, _, source in sorted(found, key=lambda entry: entry[:2]):
            by_bucket.setdefault(bucket, []).append(source)
        return by_bucket

    def _bucket_files(self, directory: AcidDirectory) -> Iterator[tuple[int, str]]:
        if found := self._listing.directory(directory.name):
            for file in contents(found, directory).buckets:
                yield file.bucket, f"{directory.name}/{file.name}"

    def _numbered(self) -> Iterator[tuple[int, RawFile, OriginalRows]]:
        """Number the rows of raw files consecutively across the files of one write id and bucket property."""
        for bucket, files in original_inputs(self._plan, self._listing).items():
            rows: dict[tuple[int, int], int] = {}
            for raw in files:
                first = rows.get((raw.write_id, raw.bucket_property), 0)
                rows[raw.write_id, raw.bucket_property] = first + self._rows(raw.path)
                yield bucket, raw, OriginalRows(raw.bucket_property, first, raw.write_id)

    def _source(
        self, path: str, highest_write_id: int | None = None, original: OriginalRows | None = None
    ) -> BucketSource:
        file = InputFile(_local(self._location, path), original)
        return BucketSource(file, self._sizes[path], highest_write_id, self._rows(path) if original else 0)

    def _rows(self, path: str) -> int:
        return self._sketches[_local(self._location, path)].rows


def _local(location: str, path: str) -> str:
    return join(normal(location), *path.split("/"))


def files_to_sketch(bucket: Bucket, cutting: Cutting) -> list[str]:
    """Return the local paths of the files whose stripes decide where the bucket is cut; empty if it is not cut."""
    if bucket.bytes <= task_bytes(cutting.memory):
        return []
    largest = sorted(bucket.inputs, key=lambda source: source.bytes, reverse=True)
    return [source.file.path for source in largest[:SKETCHED_FILES]]


def bucket_work(bucket: Bucket, cutting: Cutting, *, sketches: Sketches) -> BucketWork:
    """Return the tasks that write a bucket: several if it exceeds one task's bytes."""
    whole = MergeTask(
        kind=bucket.kind,
        bucket=bucket.bucket,
        inputs=tuple(source.file for source in bucket.inputs),
        deletes=tuple(source.file for source in bucket.deletes),
        write_ids=str(cutting.write_ids),
        output=join(cutting.scratch, f"{bucket.directory}-{bucket_file_name(bucket.bucket)}"),
        row_type=None if bucket.directory in cutting.own_row_type else cutting.row_type,
        schema_from=() if bucket.inputs else tuple(source.file.path for source in bucket.deletes),
        memory=cutting.memory,
    )
    deletes = sum(source.bytes for source in bucket.deletes)
    cut: list[Share] = []
    if bucket.bytes > task_bytes(cutting.memory):
        pieces = [piece for source in bucket.inputs for piece in _pieces(source, sketches)]
        cut = shares(pieces, total=bucket.bytes, limit=task_bytes(cutting.memory))
    if len(cut) < 2:
        return BucketWork(bucket.directory, whole, (SizedTask(whole, bucket.bytes + deletes, bucket.load),))
    parts = (
        SizedTask(
            replace(whole, keys=share.keys, output=f"{whole.output}.part{number}"),
            share.bytes + deletes // len(cut),
            bucket.load.scaled(share.bytes / bucket.bytes),
        )
        for number, share in enumerate(cut)
    )
    return BucketWork(bucket.directory, whole, tuple(parts))


def _pieces(source: BucketSource, sketches: Sketches) -> list[Piece]:
    sketch = sketches.get(source.file.path)
    if sketch is not None and source.file.original is not None:
        return original_pieces(sketch, source.file.original)
    if sketch is not None and (pieces := stripe_pieces(sketch)):
        return pieces
    # Keys of insert events have their directory's write ids. Keys of delete events may have any write id.
    return [] if source.highest_write_id is None else [insert_piece(source.highest_write_id, source.bytes)]
