"""Data files of a base or delta: ACID bucket files or raw files. Any other file is refused."""

from dataclasses import dataclass

from compaction_operator.acid.listing import Directory, File
from compaction_operator.acid.names import (
    AcidDirectory,
    DataFile,
    DirectoryKind,
    is_flush_length,
    is_hidden,
    parse_bucket_file,
    parse_original_file,
)
from compaction_operator.acid.snapshot import UnsupportedLayout, is_compacted


@dataclass(frozen=True, slots=True)
class Contents:
    """The data files of one directory, ordered by bucket and name. Either `buckets` or `raw` is empty.

    `raw` are files without ACID columns that LOAD DATA moved there (MetaDataFile.isRawFormat). Files of 0 bytes are
    omitted, because they have no rows and no ORC tail.
    """

    buckets: tuple[DataFile, ...]
    raw: tuple[DataFile, ...]


def contents(directory: Directory, parsed: AcidDirectory) -> Contents:
    """Return the data files of a base or delta.

    Raises UnsupportedLayout, naming the file, if Hive's versions read the file differently or not at all.
    """
    visible = [file for file in directory.files if not is_hidden(file.name)]
    for file in visible:
        _require_data_file(directory, parsed, file)
    buckets = [bucket for file in visible if (bucket := parse_bucket_file(file.name))]
    raw = [original for file in visible if file.size and (original := parse_original_file(file.name))]
    _require_each_bucket_once(directory, buckets)
    if raw:
        _require_raw_only(directory, parsed, raw[0], buckets)
    empty = {file.name for file in visible if not file.size}
    return Contents(
        buckets=tuple(sorted((one for one in buckets if one.name not in empty), key=lambda bucket: bucket.bucket)),
        raw=tuple(sorted(raw, key=lambda original: (original.bucket, original.name))),
    )


def _require_data_file(directory: Directory, parsed: AcidDirectory, file: File) -> None:
    place = f"{directory.name}/{file.name}"
    if "/" in file.name:
        raise UnsupportedLayout(f"{place} lies in a sub-directory: Hive 4 reads it and Hive 3 does not")
    if is_flush_length(file.name):
        raise UnsupportedLayout(f"{place} shows that a streaming writer has not closed its file")
    if parse_bucket_file(file.name) is None and parse_original_file(file.name) is None:
        raise UnsupportedLayout(f"{place} is not a bucket file")
    if parsed.kind is DirectoryKind.DELETE_DELTA and not file.size:
        raise UnsupportedLayout(f"{place} is empty: Hive's readers fail on it, and delete events may be lost")


def _require_each_bucket_once(directory: Directory, buckets: list[DataFile]) -> None:
    """Refuse two attempts of one bucket. Readers use inserts of both but deletes of one (getDeltaToAttemptIdMap)."""
    seen: dict[int, str] = {}
    for bucket in buckets:
        first = seen.setdefault(bucket.bucket, bucket.name)
        if first != bucket.name:
            raise UnsupportedLayout(f"{directory.name} holds a bucket twice: {first} and {bucket.name}")


def _require_raw_only(directory: Directory, parsed: AcidDirectory, raw: DataFile, buckets: list[DataFile]) -> None:
    """Refuse raw files where LOAD DATA never puts them. Hive assumes one format for a whole directory."""
    place = f"{directory.name}/{raw.name}"
    if buckets:
        raise UnsupportedLayout(f"{place} is a raw file beside {buckets[0].name}: Hive reads only one of the two kinds")
    if parsed.kind is DirectoryKind.DELETE_DELTA:
        raise UnsupportedLayout(f"{place} is a raw file among delete events")
    if is_compacted(directory, parsed) or parsed.min_write_id != parsed.max_write_id:
        raise UnsupportedLayout(f"{place} is a raw file in the output of a compaction: its write id is not known")
