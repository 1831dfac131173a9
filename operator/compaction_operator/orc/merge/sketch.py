"""Summarises a bucket file from its tail alone: enough to cut its rows into key ranges."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from compaction_operator.orc.file.tail import Tail, read_tail
from compaction_operator.orc.merge.events import RowId

KEY_INDEX = "hive.acid.key.index"
"""User metadata with the last key of each stripe, as `writeId,bucket,rowId;` (OrcRecordUpdater.KeyIndexBuilder)."""

_ENTRY = re.compile(r"(-?[0-9]{1,19}),(-?[0-9]{1,10}),(-?[0-9]{1,19});")


@dataclass(frozen=True, slots=True)
class StripeSketch:
    """One stripe: its number of rows, its size in bytes, and its last ROW__ID if the file records it."""

    rows: int
    bytes: int
    last: RowId | None


@dataclass(frozen=True, slots=True)
class FileSketch:
    """A bucket file: total rows and bytes, and its stripes in order."""

    rows: int
    bytes: int
    stripes: tuple[StripeSketch, ...]


def sketch(path: str) -> FileSketch:
    """Return the sketch of the file at a local path; raise OrcError if its tail cannot be read."""
    tail = read_tail(path)
    lasts: Sequence[RowId | None] = key_index(tail) or [None] * len(tail.footer.stripes)
    stripes = tuple(
        StripeSketch(rows=stripe.number_of_rows, bytes=stripe.index_length + stripe.data_length, last=last)
        for stripe, last in zip(tail.footer.stripes, lasts, strict=True)
    )
    return FileSketch(rows=tail.rows, bytes=tail.size, stripes=stripes)


def key_index(tail: Tail) -> list[RowId] | None:
    """Return the last ROW__ID of each stripe, or None if the file has no index that matches its stripes.

    NB: Hive before HIVE-18817 could write an index with too few entries, which must not be trusted.
    """
    text = tail.user_metadata.get(KEY_INDEX, b"").decode("ascii", errors="replace")
    entries = _ENTRY.findall(text)
    if _ENTRY.sub("", text) or len(entries) != len(tail.footer.stripes):
        return None
    index = [(int(write_id), int(bucket), int(row_id)) for write_id, bucket, row_id in entries]
    return index if index == sorted(set(index)) else None
