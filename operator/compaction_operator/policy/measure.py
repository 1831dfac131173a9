"""Measure: what a reader of one directory opens, in numbers, from its listing alone."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from compaction_operator.acid.listing import File, Listing
from compaction_operator.acid.names import (
    AcidDirectory,
    DirectoryKind,
    is_hidden,
    parse_bucket_file,
    parse_original_path,
)
from compaction_operator.acid.snapshot import snapshot
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.policy import SMALL_FILE


@dataclass(frozen=True, slots=True)
class Measure:
    """The directories that a compaction could merge now, at or below the watermark. Sizes are in bytes.

    `base_files` and `base_bytes` count the original files where there is no base. `delta_bytes` and `delta_files`
    include those of delete deltas, whose part is `delete_bytes`. `buckets` is the number of files that readers open
    after a major compaction, at most, and `delta_buckets` the same of the deltas alone. `aborted` counts directories of
    aborted writes alone, without those that the base covers: no compaction could do more about them, and their cleanup
    may have to wait.
    `small_files` and `small_base_files` are the small files of deltas and base that a compaction saves: those beyond
    the first file of a bucket, delete events apart.
    `base_write_id` is 0 without a base, and `first_delta` is the highest write id of the lowest delta: what a
    compaction publishes changes one of the two, and what writers publish changes neither.
    """

    base_files: int
    base_bytes: int
    deltas: int
    delta_files: int
    delta_bytes: int
    delete_bytes: int
    buckets: int
    delta_buckets: int
    aborted: int
    small_files: int = 0
    small_base_files: int = 0
    base_write_id: int = 0
    first_delta: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing that a compaction could merge or remove."""
        return not (self.deltas or self.aborted)


def measure(
    listing: Listing, write_ids: ValidWriteIdList, valid_txns: ValidTxnList, *, small: int = SMALL_FILE
) -> Measure:
    """Return the measure of a listed directory for a reader that starts now; a file below `small` bytes is small.

    Raises as `snapshot` does.
    """
    found = snapshot(listing, write_ids, valid_txns=valid_txns)
    files = {directory.name: _data(directory.files) for directory in listing.directories}
    base = files.get(found.base.name, []) if found.base else list(found.originals)
    deltas = [one for one in found.deltas if one.max_write_id <= write_ids.watermark]
    deletes = [file for one in deltas if one.kind is DirectoryKind.DELETE_DELTA for file in files[one.name]]
    inserts = [file for one in deltas if one.kind is not DirectoryKind.DELETE_DELTA for file in files[one.name]]
    in_deltas = [*deletes, *inserts]
    return Measure(
        base_files=len(base),
        base_bytes=_size(base),
        deltas=len(deltas),
        delta_files=len(in_deltas),
        delta_bytes=_size(in_deltas),
        delete_bytes=_size(deletes),
        buckets=len(_buckets([*base, *in_deltas])),
        delta_buckets=len(_buckets(in_deltas)),
        small_files=_surplus(deletes, small) + _surplus(inserts, small),
        small_base_files=_surplus(base, small),
        aborted=sum(found.base is None or one.max_write_id > found.base.max_write_id for one in found.aborted),
        base_write_id=found.base.max_write_id if found.base else 0,
        first_delta=_first(deltas),
    )


def _first(deltas: Iterable[AcidDirectory]) -> int:
    lowest = min(deltas, key=lambda one: (one.min_write_id, -one.max_write_id), default=None)
    return lowest.max_write_id if lowest else 0


def _data(files: Iterable[File]) -> list[File]:
    return [file for file in files if not is_hidden(file.name)]


def _size(files: Iterable[File]) -> int:
    return sum(file.size for file in files)


def _surplus(files: Iterable[File], small: int) -> int:
    """Return how many small files there are beyond the first file of each bucket."""
    sizes: defaultdict[int | None, list[int]] = defaultdict(list)
    for file in files:
        sizes[_bucket(file.name)].append(file.size)
    return sum(min(len(found) - 1, sum(size < small for size in found)) for found in sizes.values())


def _buckets(files: Iterable[File]) -> set[int | None]:
    return {_bucket(file.name) for file in files}


def _bucket(name: str) -> int | None:
    parsed = parse_bucket_file(name) or parse_original_path(name)
    return parsed.bucket if parsed else None
