"""What a compaction asks of an engine, and what it gets back: plain values that Spark can pickle."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class EventKind(StrEnum):
    """What a bucket file holds: insert events (base, delta) or delete events (delete delta)."""

    INSERT = "insert"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class OriginalRows:
    """How rows of a file from before ACID become insert events: write id 0 and consecutive row ids."""

    bucket_property: int
    first_row_id: int


@dataclass(frozen=True, slots=True)
class InputFile:
    """A bucket file by its local path; with `original`, one that is not an ACID file."""

    path: str
    original: OriginalRows | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """One output file to write.

    INSERT: `inputs` are the bucket's files of base and deltas, `deletes` all delete events that apply (major only).
    DELETE: `inputs` are all files of the delete deltas, of every bucket.
    `write_ids` is the text of Hive's ValidWriteIdList. Without inputs the type tree comes from `schema_from`.
    """

    kind: EventKind
    bucket: int
    inputs: tuple[InputFile, ...]
    deletes: tuple[InputFile, ...] = ()
    write_ids: str
    output: str
    schema_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """What was read and written. Only events with a valid write id count.

    Rows are insert events; `rows_*_by_write_id` counts them by the write id of their ROW__ID. Delete events are
    counted distinct: `delete_events_in` over all buckets, `delete_events_out` those written to this file.
    """

    output: str
    rows_in: int = 0
    rows_out: int = 0
    delete_events_in: int = 0
    delete_events_out: int = 0
    rows_deleted: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    rows_in_by_write_id: dict[int, int] = field(default_factory=dict)
    rows_out_by_write_id: dict[int, int] = field(default_factory=dict)


class Engine(Protocol):
    """Writes one compacted bucket file."""

    def merge(self, task: MergeTask) -> MergeResult:
        """Write `task.output`, which must not exist; raises OrcError and leaves no file when it cannot."""
        ...
