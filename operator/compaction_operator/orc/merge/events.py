"""What a compaction asks of an engine, and what it gets back: plain values that Spark can pickle."""

from dataclasses import dataclass, field
from enum import StrEnum

RowId = tuple[int, int, int]
"""A ROW__ID: (originalTransaction, bucket, rowId), in the order in which files are sorted."""

DEFAULT_TASK_MEMORY = 512 * 1024 * 1024


class EventKind(StrEnum):
    """What a bucket file holds: insert events (base, delta) or delete events (delete delta)."""

    INSERT = "insert"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class OriginalRows:
    """How rows of a file that is not an ACID one become insert events: one write id and consecutive row ids.

    The write id is 0 for a file from before the table was ACID, and that of its directory for one of LOAD DATA.
    """

    bucket_property: int
    first_row_id: int
    write_id: int = 0


@dataclass(frozen=True, slots=True)
class InputFile:
    """A bucket file by its local path; with `original`, one that is not an ACID file."""

    path: str
    original: OriginalRows | None = None


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The ROW__IDs from behind `after` up to and with `to`; None means without end on that side."""

    after: RowId | None = None
    to: RowId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """One output file to write: the whole of a bucket, or the part of it that lies in `keys`.

    INSERT: `inputs` are the bucket's files of base and deltas, `deletes` all delete events that apply (major only).
    DELETE: `inputs` are all files of the delete deltas, of every bucket.
    `write_ids` is the text of Hive's ValidWriteIdList. `row_type` is the table's row as Hive writes it
    (`struct<a:int,b:string>`); without it the newest input's row is what all inputs become. Without inputs the type
    tree comes from `schema_from`. `memory` bounds, in bytes, what is decoded at a time.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """What was read and written. Only events with a valid write id count.

    Rows are insert events; `rows_*_by_write_id` counts them by the write id of their ROW__ID. `rows_hidden` counts the
    rows that were read and left out, by their own write id, which is not valid. Delete events are
    counted distinct: `delete_events_in` over all buckets, `delete_events_out` those written to this file.
    `bytes_copied` are those of `bytes_out` that were copied as whole stripes without being decoded, and `copied_from`
    has for each such stripe, by its number in the output, the file that it was in.
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
    copied_from: dict[int, str] = field(default_factory=dict)
    rows_in_by_write_id: dict[int, int] = field(default_factory=dict)
    rows_out_by_write_id: dict[int, int] = field(default_factory=dict)
    rows_hidden: dict[int, int] = field(default_factory=dict)
