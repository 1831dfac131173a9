"""Non-ACID input files of a plan, and the row identity that Hive gives to their rows."""

from collections.abc import Iterator
from dataclasses import dataclass

from compaction_operator.acid.contents import contents
from compaction_operator.acid.listing import Listing
from compaction_operator.acid.names import AcidDirectory, DataFile, encode_bucket_property, parse_original_path
from compaction_operator.acid.plan import CompactionPlan
from compaction_operator.acid.snapshot import UnsupportedLayout

Sources = Iterator[tuple[AcidDirectory | None, DataFile]]


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file without ACID columns, by its path below the location. All its rows share one write id and property."""

    path: str
    write_id: int
    bucket_property: int


def original_inputs(plan: CompactionPlan, listing: Listing) -> dict[int, tuple[RawFile, ...]]:
    """Return the original and raw files that the plan reads, by bucket, in the order of their row ids.

    Within a bucket, row ids continue across files of the same write id and bucket property, and restart at 0 for the
    next. Files from before the table became ACID have write id 0. Files of LOAD DATA have the write id and statement of
    their directory (OrcRawRecordMerger's OriginalReaderPair and TransactionMetaData.findWriteIDForSynthetcRowIDs).
    A plan without outputs reads nothing.
    Raises UnsupportedLayout for a file with an unknown name, or whose bucket or statement exceeds the bucket property.
    """
    found: dict[int, list[RawFile]] = {}
    if not plan.outputs:
        return {}
    for directory, original in (*_originals(plan), *_loaded(plan, listing)):
        found.setdefault(original.bucket, []).append(_raw_file(directory, original))
    return {bucket: tuple(files) for bucket, files in sorted(found.items())}


def _originals(plan: CompactionPlan) -> Sources:
    """Yield the originals ordered by path: `_copy_10` before `_copy_2`, files before sub-directories."""
    for file in sorted(plan.originals, key=lambda file: file.name):
        original = parse_original_path(file.name)
        if original is None:
            raise UnsupportedLayout(f"{file.name} is not the name of a bucket's original file")
        yield None, original


def _loaded(plan: CompactionPlan, listing: Listing) -> Sources:
    for directory in plan.directories:
        if found := listing.directory(directory.name):
            for original in contents(found, directory).raw:
                yield directory, original


def _raw_file(directory: AcidDirectory | None, original: DataFile) -> RawFile:
    path = f"{directory.name}/{original.name}" if directory else original.name
    statement_id = (directory.statement_id or 0) if directory else 0
    try:
        bucket_property = encode_bucket_property(bucket=original.bucket, statement_id=statement_id)
    except ValueError as error:
        raise UnsupportedLayout(f"{path}: {error}") from error
    return RawFile(path, directory.max_write_id if directory else 0, bucket_property)
