"""What a compaction of a damaged file must keep, by a plain reading of all that is in it: no statistics, no index."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compaction_operator.acid.names import bucket_of_property
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc import OrcError
from compaction_operator.orc.file import StripeReader, Tail, read_tail
from compaction_operator.orc.merge.source import DELETE, INSERT
from compaction_operator.orc.spec.schema import ROW_ID, is_acid, same
from tests.unit.orc.build import BUCKET_0

_UNREADABLE = "unreadable"


class Wrong(Exception):  # noqa: N818 - a verdict
    """A wrong answer, and which."""


@dataclass(frozen=True, order=True)
class Event:
    """One event: its key as Hive sorts it, its operation, and the text of its row's columns."""

    key: tuple[int, int, int]
    newest_first: int
    operation: int
    values: tuple[str, ...]


def read_events(path: Path, *, like: Path | None = None) -> list[Event]:
    """The events of a file; rows of a file that is not an ACID one are numbered through.

    With `like` its frames may be as large as that file's: a copy of its stripes can be read so.
    """
    tail, first = read_tail(str(path)), 0
    tail = tail if like is None else _with_frames(tail, read_tail(str(like)).block_size)
    events: list[Event] = []
    row = ROW_ID if is_acid(tail.types) else 0
    with path.open("rb") as file:
        for index, rows in enumerate(tail.stripe_rows):
            if rows:
                reader = StripeReader(file, tail, index)
                events += _events_of(reader, tail.types[row].subtypes, first=None if row else first)
            first += rows
    return events


def _with_frames(tail: Tail, size: int) -> Tail:
    """The tail with the largest frame of that size, or of its own."""
    postscript = deepcopy(tail.postscript)
    postscript.compression_block_size = max(size, tail.block_size)
    return replace(tail, postscript=postscript)


def _events_of(reader: StripeReader, columns: Sequence[int], *, first: int | None) -> Iterator[Event]:
    if first is None:
        operations, write_ids, buckets, row_ids, current = (_values(reader, column) for column in range(1, 6))
    else:
        operations = write_ids = current = [0] * reader.rows
        row_ids, buckets = list(range(first, first + reader.rows)), [BUCKET_0] * reader.rows
    texts = [] if operations[0] == DELETE else [_texts(reader, column) for column in columns]
    rows = zip(*texts, strict=True) if texts else [()] * reader.rows
    keys = zip(write_ids, buckets, row_ids, strict=True)
    for key, now, operation, values in zip(keys, current, operations, rows, strict=True):
        yield Event(key, -now, operation, tuple(values))


def _values(reader: StripeReader, column: int) -> list[Any]:
    found: list[Any] = reader.column(column).to_pylist()
    return found


def _texts(reader: StripeReader, column: int) -> list[str]:
    try:
        return [repr(value) for value in _values(reader, column)]
    except OrcError:
        return [_UNREADABLE] * reader.rows


def expected_deletes(path: Path, write_ids: ValidWriteIdList, *, bucket: int) -> list[Event]:
    """What a compaction of delete events writes for a bucket: each event once."""
    valid = {event for event in _of_operation(path, DELETE) if write_ids.is_valid(-event.newest_first)}
    return sorted(event for event in valid if bucket_of_property(event.key[1]) == bucket)


def expected_rows(
    inserts: Path, deletes: Path | None, write_ids: ValidWriteIdList, *, copied_to: Path | None = None
) -> list[Event]:
    """What a compaction of rows, and perhaps delete events, writes.

    A stripe that is `copied_to` a file is read by that file's postscript from then on. If its own states frames that
    are too small, no reader could read it before; its copy has all rows that were written.
    """
    deleted = _of_operation(deletes, DELETE) if deletes else []
    gone = {event.key for event in deleted if write_ids.is_valid(-event.newest_first)}
    rows = _of_operation(inserts, INSERT, like=copied_to)
    return sorted(event for event in rows if write_ids.is_valid(-event.newest_first) and event.key not in gone)


def _of_operation(path: Path, operation: int, *, like: Path | None = None) -> list[Event]:
    events = read_events(path, like=like)
    if other := [event for event in events if event.operation != operation]:
        raise Wrong(f"compacted, though there is an event of another kind: {other[0]}")
    return events


def have_one_row_type(path: Path, output: Path) -> bool:
    """Whether the columns of the output are those of the input, so that the values can be foreseen."""
    types, others = (read_tail(str(one)).types for one in (path, output))
    return same(types, ROW_ID if is_acid(types) else 0, others, ROW_ID)


def compare(expected: list[Event], events: list[Event], *, values: bool, copied: bool) -> None:
    """Raise Wrong unless the events are the expected ones.

    Without `values` only the keys count. What is `copied` is not looked at, so a column that cannot be read is in the
    output as it was.
    """
    pairs = list(zip(expected, events, strict=False))
    foreseen = [_foreseen(one, other, copied=copied) if values else _unforeseen(one, other) for one, other in pairs]
    if foreseen != events or len(expected) != len(events):
        first = next((pair for pair in pairs if pair[0] != pair[1]), "the end of one")
        raise Wrong(f"{len(expected)} events expected, {len(events)} there; the first difference: {first}")


def _foreseen(one: Event, other: Event, *, copied: bool) -> Event:
    if not copied or len(one.values) != len(other.values):
        return one
    pairs = zip(one.values, other.values, strict=True)
    return replace(one, values=tuple(found if value == _UNREADABLE else value for value, found in pairs))


def _unforeseen(one: Event, other: Event) -> Event:
    return replace(one, values=other.values)
