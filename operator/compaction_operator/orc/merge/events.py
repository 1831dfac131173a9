"""Input and output types of the compaction engine: plain values that Spark can pickle."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")

RowId = tuple[int, int, int]
"""A ROW__ID: (originalTransaction, bucket, rowId), which is also the sort order of files."""

DEFAULT_TASK_MEMORY = 512 * 1024 * 1024

Check = Callable[[], None]
"""Runs before each step of a task: a file that is opened, a stripe, a column, a block of delete events.

It raises what ends the task early.
"""


def unchecked() -> None:
    """Let a task go on."""


def checked(items: Iterable[T], check: Check) -> Iterator[T]:
    """Yield the items; raises what `check` raises before the next one."""
    for item in items:
        check()
        yield item


class EventKind(StrEnum):
    """The content of a bucket file: insert events (base, delta) or delete events (delete delta)."""

    INSERT = "insert"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class OriginalRows:
    """The keys for rows of a file without ACID columns: one write id and consecutive row ids.

    The write id is 0 for a file that predates the ACID table, and the directory's write id for a file of LOAD DATA.
    """

    bucket_property: int
    first_row_id: int
    write_id: int = 0


@dataclass(frozen=True, slots=True)
class InputFile:
    """A bucket file at a local path; `original` is set if the file has no ACID columns."""

    path: str
    original: OriginalRows | None = None


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


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The ROW__IDs greater than `after` and up to `to`, inclusive; None means unbounded."""

    after: RowId | None = None
    to: RowId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """One output file to write: a whole bucket, or its part in the range `keys`.

    INSERT: `inputs` are the bucket's files of the base and the deltas; `deletes` are all applicable files of delete
    events (major only). DELETE: `inputs` are all files of the delete deltas, of every bucket.
    `write_ids` is the text of Hive's ValidWriteIdList. `row_type` is the table's row type in Hive's syntax
    (`struct<a:int,b:string>`); without it, all inputs are converted to the newest input's row type. Without inputs,
    the type tree comes from the files `schema_from`. `memory` limits the bytes that are decoded at a time.
    """

    kind: EventKind
    bucket: int
    inputs: tuple[InputFile, ...]
    deletes: tuple[InputFile, ...] = ()
    write_ids: str
    output: str
    row_type: str | None = None
    schema_from: tuple[str, ...] = ()
    keys: KeyRange = KeyRange()
    memory: int = DEFAULT_TASK_MEMORY

    @property
    def is_part(self) -> bool:
        """Whether it writes only a part of a bucket file, which is joined with others and not published itself."""
        return self.keys != KeyRange()


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeForecast:
    """What a task will do, as far as tails, stripe footers, keys and a few encoded columns say, before it is written.

    `files` are opened, and `columns_read` counts the columns of each of their stripes. `bytes_copied` is exact;
    `bytes_rewritten`, the rest of the output, is an estimate beyond what a plan encodes. What is decoded and encoded
    again makes `stripes_rewritten`, with `columns_rewritten` in all. `columns_filtered` counts the columns of the input
    stripes that lose rows on the way. `columns_empty` are those of delete events: nearly all hold no value. There are
    `values_rewritten`, one for each row and primitive column that is no text, and `texts_rewritten`, which have
    `text_bytes` in UTF-8. `columns_compressed` and `text_bytes_compressed` are the parts with any codec, and
    `bytes_deflated` the stored bytes with zlib or zstd. `rows_removed` are deleted rows.
    """

    files: int = 0
    columns_read: int = 0
    bytes_copied: int = 0
    bytes_deflated: int = 0
    bytes_rewritten: int = 0
    stripes_rewritten: int = 0
    columns_rewritten: int = 0
    columns_compressed: int = 0
    columns_filtered: int = 0
    columns_empty: int = 0
    values_rewritten: int = 0
    texts_rewritten: int = 0
    text_bytes: int = 0
    text_bytes_compressed: int = 0
    rows_removed: int = 0
    delete_events: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the output holds nothing."""
        return not (self.bytes_copied or self.stripes_rewritten)

    def __add__(self, other: "MergeForecast") -> "MergeForecast":
        return MergeForecast(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """Counts of the events and bytes read and written. Only events with a valid write id count.

    Rows are insert events. `rows_*_by_write_id` counts them by the write id of their ROW__ID. `rows_hidden` counts
    rows that were read and omitted because their own write id (currentTransaction) is not valid, by that id. Delete
    events count once each: `delete_events_in` over all buckets, `delete_events_out` in this file only.
    `bytes_copied` is the part of `bytes_out` that was copied as whole stripes without decoding. `copied` has the files
    that those stripes are from, by the stripe's number in the output. `checksums` has the CRC-32 of each stripe as it
    was written, and last that of the tail, or None where the store checks itself what it has. `forecast`
    is what `forecast_bucket` says of the task: it follows from what the engine decided, never from what it wrote.
    `cpu_seconds` are those of the thread that merged and verified, once both have ended.
    """

    output: str
    rows_in: int = 0
    rows_out: int = 0
    delete_events_in: int = 0
    delete_events_out: int = 0
    rows_deleted: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    bytes_copied: int = 0
    copied: dict[int, str] = field(default_factory=dict)
    checksums: tuple[int | None, ...] = ()
    rows_in_by_write_id: dict[int, int] = field(default_factory=dict)
    rows_out_by_write_id: dict[int, int] = field(default_factory=dict)
    rows_hidden: dict[int, int] = field(default_factory=dict)
    forecast: MergeForecast = MergeForecast()
    cpu_seconds: float = 0.0
