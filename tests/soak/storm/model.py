"""What each write did to one partition, and the rows a snapshot must see therefore; shares no code with the product."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.integration.oracle.hive import Row, RowId

Values = tuple[int, str]
Rows = Mapping[RowId, Values]
Sees = Callable[[int], bool]
"""Whether a snapshot sees a write id."""

INSERT_CODE = 536870912
SHOWN = 5


def row_id(write_id: int, *, bucket: int, statement: int, number: int) -> RowId:
    """Return the ROW__ID that Hive gives to the nth row that a statement puts into a bucket (BucketCodec.V1)."""
    return write_id, INSERT_CODE | bucket << 16 | statement, number


def bucket_of(found: RowId) -> int:
    """Return the bucket that a ROW__ID names."""
    return found[1] >> 16 & 0xFFF


@dataclass(frozen=True)
class Write:
    """What one transaction did to one partition; an INSERT OVERWRITE replaces everything that was there before it."""

    write_id: int
    inserted: Rows = field(default_factory=dict)
    deleted: frozenset[RowId] = frozenset()
    overwrites: bool = False


class History:
    """The writes of one partition, noted before they are committed. Many threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writes: dict[int, Write] = {}

    def note(self, write: Write) -> None:
        """Add a write. NB: before its commit, as the next reader may see it at once."""
        with self._lock:
            self._writes[write.write_id] = write

    def forget(self, write_id: int) -> None:
        """Remove an aborted write: no snapshot may ever include it."""
        with self._lock:
            self._writes.pop(write_id, None)

    def rows(self, sees: Sees) -> Rows:
        """Return the rows that a snapshot must see."""
        with self._lock:
            seen = [write for write in self._writes.values() if sees(write.write_id)]
        base = max((write.write_id for write in seen if write.overwrites), default=0)
        counted = [write for write in seen if write.write_id >= base]
        deleted = {found for write in counted for found in write.deleted}
        inserted = {found: values for write in counted for found, values in write.inserted.items()}
        return {found: values for found, values in inserted.items() if found not in deleted}

    def fate(self, found: RowId, sees: Sees) -> str:
        """Say in words what became of a row, and whether a snapshot knows it."""
        with self._lock:
            writes = sorted(self._writes.values(), key=lambda write: write.write_id)
        inserts = [write.write_id for write in writes if found in write.inserted]
        deletes = [(write.write_id, sees(write.write_id)) for write in writes if found in write.deleted]
        overwrites = [(write.write_id, sees(write.write_id)) for write in writes if write.overwrites]
        return f"inserted by {inserts}; (write id, seen) of deletes {deletes}, of overwrites {overwrites}"


def difference(expected: Rows, seen: Sequence[Row], *, fate: Callable[[RowId], str] = lambda _: "") -> str | None:
    """Return in words how the rows read differ from those expected; None when they are the same."""
    read = {row[:3]: (row.values[0], row.values[1]) for row in seen}
    times = Counter(row[:3] for row in seen)
    wrong = {
        "missing": [one for one in expected if one not in read],
        "returned or never there": [one for one in read if one not in expected],
        "doubled": [one for one in read if times[one] > 1],
        "changed": [one for one in read if one in expected and read[one] != expected[one]],
    }
    said = [_say(what, ids, expected, read, fate) for what, ids in wrong.items() if ids]
    return "\n".join(said) or None


def _say(what: str, ids: Sequence[RowId], expected: Rows, read: Rows, fate: Callable[[RowId], str]) -> str:
    lines = [f"  {one}: expected {expected.get(one)}, read {read.get(one)}; {fate(one)}" for one in sorted(ids)[:SHOWN]]
    return "\n".join([f"{what}: {len(ids)} rows", *lines])
