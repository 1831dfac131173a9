"""Snapshot of a directory: what a reader uses and what is obsolete, as in Hive's AcidUtils.getAcidState."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from compaction_operator.acid.base_metadata import DataFormat, parse_metadata
from compaction_operator.acid.listing import Directory, File, Listing
from compaction_operator.acid.names import (
    METADATA_ACID,
    AcidDirectory,
    DirectoryKind,
    is_hidden,
    is_union_directory,
    parse_directory,
    parse_original_file,
    parse_original_path,
)
from compaction_operator.acid.write_ids import RangeValidity, ValidTxnList, ValidWriteIdList
from compaction_operator.errors import OperatorError

Visibility = Callable[[AcidDirectory], bool]


class NotEnoughHistory(OperatorError, ValueError):  # noqa: N818 - Hive's own name for it
    """There are bases, but this snapshot may use none of them (Hive's ACID_NOT_ENOUGH_HISTORY)."""


class OpenWriteBelow(NotEnoughHistory):
    """Readers start from a base that lies above an open write. Nothing can be decided until that write has ended."""


class UnsupportedLayout(OperatorError, ValueError):  # noqa: N818 - a verdict on the directory
    """The directory contains something that must be read or judged, but is not understood."""


@dataclass(frozen=True, slots=True)
class Obsolete:
    """A directory or original file that no new snapshot needs: its bare name and the reason.

    The only non-ACID directory that can be obsolete is a UNION ALL's that contains only original files.
    """

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a reader uses: `base` or else `originals`, and `deltas` (insert and delete) in the order of Hive's walk.

    `aborted` are the wholly aborted directories, which are also in `obsolete`. Both contain only directories at or
    below the watermark, because an open transaction may still write above it.
    """

    base: AcidDirectory | None
    deltas: tuple[AcidDirectory, ...]
    originals: tuple[File, ...]
    obsolete: tuple[Obsolete, ...]
    aborted: tuple[AcidDirectory, ...]


def snapshot(listing: Listing, write_ids: ValidWriteIdList, *, valid_txns: ValidTxnList | None = None) -> Snapshot:
    """Return the snapshot of a directory for a reader with these write ids.

    A `_v` directory counts only if its transaction is valid. Otherwise it is ignored and makes nothing obsolete.
    Raises NotEnoughHistory if there are bases but none is usable. Raises UnsupportedLayout for a `_v` directory if no
    transactions are given, for a base whose `_metadata_acid` is not understood, for an empty directory that would cover
    others, and for a delta below every write id.
    """
    return resolve(listing, write_ids, visible=visibility(valid_txns))


def obsolete_now(
    listing: Listing, write_ids: ValidWriteIdList, *, valid_txns: ValidTxnList | None = None, highest_write_id: int
) -> dict[str, str]:
    """Return what is obsolete with these write ids, as name and reason, without write ids above `highest_write_id`.

    Names outside the grammar are never included. Raises as `snapshot` does: then nothing is known to be obsolete.
    """
    current = snapshot(listing, write_ids, valid_txns=valid_txns)
    parsed = ((entry, parse_directory(entry.name)) for entry in current.obsolete)
    capped = [entry for entry, found in parsed if found is None or found.max_write_id <= highest_write_id]
    in_vain = written_in_vain(listing, write_ids.capped(highest_write_id), valid_txns)
    return {entry.name: entry.reason for entry in (*capped, *in_vain)}


def written_in_vain(
    listing: Listing, write_ids: ValidWriteIdList, valid_txns: ValidTxnList | None
) -> tuple[Obsolete, ...]:
    """Return the directories at or below the watermark that an aborted compaction wrote (Hive 4).

    No snapshot ever sees them. Hive's Cleaner also treats them as aborted (AcidUtils.isDirUsable).
    """
    aborted = valid_txns.aborted if valid_txns else frozenset()
    return tuple(
        Obsolete(directory.name, f"written by aborted transaction {directory.visibility_txn}")
        for directory in acid_directories(listing)
        if directory.visibility_txn in aborted and directory.max_write_id <= write_ids.watermark
    )


def visibility(valid_txns: ValidTxnList | None) -> Visibility:
    """Return the visibility test. It raises UnsupportedLayout if it needs transactions and none are given."""

    def visible(directory: AcidDirectory) -> bool:
        if directory.visibility_txn is None:
            return True
        if valid_txns is None:
            txn = directory.visibility_txn
            raise UnsupportedLayout(
                f"{directory.name} counts only if transaction {txn} is committed: give --valid-txns"
            )
        return valid_txns.is_valid(directory.visibility_txn)

    return visible


def resolve(listing: Listing, write_ids: ValidWriteIdList, *, visible: Visibility) -> Snapshot:
    """Return the snapshot of the directories that pass `visible`. Raises as `snapshot` does."""
    found = tuple(directory for directory in acid_directories(listing) if visible(directory))
    compacted = compacted_bases(listing, highest=write_ids.high_watermark)
    base = _best_base(found, write_ids, compacted)
    aborted = tuple(directory for directory in found if _wholly_aborted(directory, write_ids, compacted))
    unaborted = [d for d in found if not d.is_base and d not in aborted]
    readable = [d for d in unaborted if write_ids.valid_range(d.min_write_id, d.max_write_id) != RangeValidity.NONE]
    deltas, covered = _walk(sorted(readable, key=_walk_order), write_ids, base)
    _require_files(listing, [base, *deltas])
    older = (d for d in found if base and d.is_base and d != base and d.max_write_id <= base.max_write_id)
    lower = [directory for directory in older if directory not in aborted]
    obsolete = [
        *(Obsolete(directory.name, "aborted") for directory in aborted),
        *(Obsolete(directory.name, _reason(directory, base, deltas)) for directory in (*lower, *covered)),
    ]
    settled = {d.name for d in found if d.max_write_id <= write_ids.watermark}
    return Snapshot(
        base=base,
        deltas=deltas,
        originals=() if base else original_files(listing),
        obsolete=tuple(o for o in obsolete if o.name in settled) + _obsolete_originals(listing, base),
        aborted=tuple(d for d in aborted if d.name in settled),
    )


def acid_directories(listing: Listing) -> tuple[AcidDirectory, ...]:
    """Return the bases, deltas and delete deltas of a listing, in the order of their names."""
    parsed = (parse_directory(directory.name) for directory in listing.directories)
    return tuple(sorted((directory for directory in parsed if directory), key=lambda directory: directory.name))


def original_files(listing: Listing) -> tuple[File, ...]:
    """Return the non-empty files beside the ACID directories, in the order in which Hive counts rows.

    Files in the sub-directories of a UNION ALL are named by their path (AcidUtils.findOriginals).
    """
    below = (file for directory in listing.directories for file in _files_of_union(directory))
    files = (file for file in (*listing.files, *below) if file.size and not is_hidden(file.name))
    return tuple(sorted(files, key=lambda file: file.name))


def _files_of_union(directory: Directory) -> Iterable[File]:
    if is_union_directory(directory.name):
        yield from (File(f"{directory.name}/{file.name}", file.size) for file in directory.files)


def compacted_bases(listing: Listing, *, highest: int) -> frozenset[str]:
    """Return the names of the bases that a compaction wrote. INSERT OVERWRITE or TRUNCATE wrote any other.

    Bases above the write id `highest` are ignored, because their writer may be still active.
    Raises UnsupportedLayout for a base whose `_metadata_acid` is not understood.
    """
    parsed = ((directory, parse_directory(directory.name)) for directory in listing.directories)
    bases = ((one, found) for one, found in parsed if found and found.is_base and found.max_write_id <= highest)
    return frozenset(one.name for one, found in bases if is_compacted(one, found))


def is_compacted(directory: Directory, parsed: AcidDirectory) -> bool:
    """Whether a compaction wrote that directory, by its name or a base's `_metadata_acid` (isCompactedBase).

    Raises UnsupportedLayout for a base whose `_metadata_acid` is not understood.
    """
    mark = next((file for file in directory.files if file.name == METADATA_ACID), None)
    if parsed.visibility_txn is not None or not parsed.is_base or mark is None:
        return parsed.visibility_txn is not None
    try:
        return parse_metadata(mark.content) is DataFormat.COMPACTED
    except ValueError as error:
        raise UnsupportedLayout(f"{directory.name}/{METADATA_ACID}: {error}: Hive's readers fail on it") from error


def wrote_compaction(directory: Directory, parsed: AcidDirectory) -> bool:
    """Whether a compaction seems to have written that directory: enough to count bytes, not to hide or delete any.

    Hive 3 marks no delta of a minor compaction: it has a range of write ids and no statement. So has a delta of a
    streaming writer with several transactions. Raises UnsupportedLayout as `is_compacted` does.
    """
    is_range = parsed.min_write_id < parsed.max_write_id and parsed.statement_id is None
    return is_compacted(directory, parsed) or (is_range and not parsed.is_base)


def _require_files(listing: Listing, read: Iterable[AcidDirectory | None]) -> None:
    """Refuse a base or compacted delta without files. No writer leaves one; it may be half of a copy or a deletion.

    Hive 3 uses the empty directory, but Hive 4 lists only files and does not see it (getHdfsDirSnapshots).
    """
    for directory in read:
        if directory and directory.statement_id is None:
            found = listing.directory(directory.name)
            if found and not found.files:
                raise UnsupportedLayout(f"{directory.name} is empty: Hive 3 hides what it covers, Hive 4 does not")


def _best_base(
    found: Iterable[AcidDirectory], write_ids: ValidWriteIdList, compacted: frozenset[str]
) -> AcidDirectory | None:
    bases = [directory for directory in found if directory.is_base]
    valid = [base for base in bases if _is_valid_base(base, write_ids, compacted)]
    if not valid and (closed := [base for base in bases if not _never_seen(base, write_ids, compacted)]):
        oldest = min(closed, key=lambda base: base.max_write_id)
        raise NotEnoughHistory(f"no base is usable with write ids {write_ids}; the oldest is {oldest.name}")
    # If two bases have the same write id, Hive uses the compacted one, which then has a transaction.
    return max(valid, key=lambda base: (base.max_write_id, base.visibility_txn or -1), default=None)


def _is_valid_base(base: AcidDirectory, write_ids: ValidWriteIdList, compacted: frozenset[str]) -> bool:
    if base.name in compacted:
        return base.max_write_id <= write_ids.watermark
    return write_ids.is_valid(base.max_write_id)


def _never_seen(base: AcidDirectory, write_ids: ValidWriteIdList, compacted: frozenset[str]) -> bool:
    # NB: Hive 3.1 reports this as missing history too. But an uncommitted INSERT OVERWRITE replaced nothing.
    return base.name not in compacted and base.max_write_id in write_ids.open | write_ids.aborted


def _wholly_aborted(directory: AcidDirectory, write_ids: ValidWriteIdList, compacted: frozenset[str]) -> bool:
    # NB: a compacted base may have the name of an aborted write id. Its rows have lower write ids.
    if directory.name in compacted:
        return False
    return write_ids.aborted_range(directory.min_write_id, directory.max_write_id)


def _walk_order(delta: AcidDirectory) -> tuple[int, int, int, str]:
    statement = -1 if delta.statement_id is None else delta.statement_id
    return delta.min_write_id, -delta.max_write_id, statement, delta.name


def _walk(
    ordered: Sequence[AcidDirectory], write_ids: ValidWriteIdList, base: AcidDirectory | None
) -> tuple[tuple[AcidDirectory, ...], list[AcidDirectory]]:
    """Return the deltas that a reader needs and the covered deltas (getAcidState's loop over `working`)."""
    current = base.max_write_id if base else 0
    last_statement: int | None = None
    kept: list[AcidDirectory] = []
    covered: list[AcidDirectory] = []
    for delta in ordered:
        if delta.max_write_id > current:
            if write_ids.valid_range(current + 1, delta.max_write_id) != RangeValidity.NONE:
                kept.append(delta)
                current, last_statement = delta.max_write_id, delta.statement_id
        elif (delta.max_write_id == current and last_statement is not None) or (kept and kept[-1].range == delta.range):
            # Another statement of the same write id, or the delete delta of the same range: both count.
            kept.append(delta)
        else:
            covered.append(delta)
    return tuple(kept), covered


def _reason(directory: AcidDirectory, base: AcidDirectory | None, deltas: Iterable[AcidDirectory]) -> str:
    if base and directory.max_write_id <= base.max_write_id:
        return f"covered by {base.name}"
    wider = [d for d in deltas if d.min_write_id <= directory.min_write_id and directory.max_write_id <= d.max_write_id]
    if not wider:
        # Without a base, Hive's walk starts at write id 0, which is never allocated. No other directory holds its rows.
        raise UnsupportedLayout(f"{directory.name} is below every write id: readers skip it")
    # A minor compaction always writes the delta, but not always the delete delta.
    return f"merged into {min(wider, key=lambda delta: delta.kind is DirectoryKind.DELETE_DELTA).name}"


def _obsolete_originals(listing: Listing, base: AcidDirectory | None) -> tuple[Obsolete, ...]:
    files = (file.name for file in listing.files if parse_original_file(file.name))
    unions = (directory.name for directory in listing.directories if _holds_only_originals(directory))
    return tuple(Obsolete(name, f"covered by {base}") for name in sorted((*files, *unions)) if base)


def _holds_only_originals(union: Directory) -> bool:
    return is_union_directory(union.name) and all(
        is_hidden(file.name) or parse_original_path(file.name) for file in _files_of_union(union)
    )
