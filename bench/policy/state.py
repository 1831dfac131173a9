"""The state of all partitions: what writes and compactions make of it, and what readers open."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bench.policy.fleet import DELETED, MIB, REPLACED, Fleet, Floats, Ints
from compaction_operator.api.compaction import CompactionType
from compaction_operator.policy.measure import Measure


@dataclass(frozen=True)
class Content:
    """What is in the deltas of some partitions: directories, files and bytes of rows and of delete events."""

    dirs: Ints
    files: Ints
    bytes: Floats
    delete_dirs: Ints
    delete_files: Ints
    delete_bytes: Floats
    aborted: Ints


FIELDS = tuple(Content.__dataclass_fields__)


class State:
    """All partitions of a fleet on their way through time."""

    def __init__(self, fleet: Fleet) -> None:
        parts = fleet.partitions
        number = len(parts.table)
        self._writes, self._of_tick = fleet.writes, fleet.of_tick
        self.upserts, self.spread = parts.upserts, parts.spread
        self.base_files, self.base_bytes = parts.base_files.copy(), parts.base_bytes.copy()
        count, size = np.zeros(number, np.int64), np.zeros(number)
        rows, deletes = (count.copy(), count.copy(), size.copy()), (count.copy(), count.copy(), size.copy())
        self.now = Content(*rows, *deletes, aborted=count)
        self._majors, self._minors = count.copy(), count.copy()

    def write(self, tick: int) -> Ints:
        """Make the writes of a tick; return their partitions."""
        span = slice(self._of_tick[tick], self._of_tick[tick + 1])
        where, size, aborted = (getattr(self._writes, name)[span] for name in ("partition", "bytes", "aborted"))
        np.add.at(self.now.aborted, where[aborted], 1)
        where, size = where[~aborted], size[~aborted]
        self._add("", where, self.spread[where], size)
        upserted = self.upserts[where]
        self._add("delete_", where[upserted], self.spread[where[upserted]], size[upserted] * DELETED)
        changed: Ints = np.unique(self._writes.partition[span])
        return changed

    def _add(self, kind: str, where: Ints, files: Ints, size: Floats) -> None:
        np.add.at(getattr(self.now, f"{kind}dirs"), where, 1)
        np.add.at(getattr(self.now, f"{kind}files"), where, files)
        np.add.at(getattr(self.now, f"{kind}bytes"), where, size)

    def read_cost(self) -> Floats:
        """Return what a query pays for each partition: files, and delete events by the MiB."""
        found = self.now
        return self.base_files + found.files + found.delete_files + found.delete_bytes / MIB

    def content(self, where: Ints) -> Content:
        """Return what is in the deltas of some partitions now."""
        return Content(*(getattr(self.now, name)[where] for name in FIELDS))

    def cost(self, where: Ints, type_: CompactionType) -> Floats:
        """Return the bytes that a compaction of these partitions would read."""
        deltas = self.now.bytes[where] + self.now.delete_bytes[where]
        return deltas if type_ is CompactionType.MINOR else deltas + self.base_bytes[where]

    def merge(self, where: Ints, taken: Content, type_: CompactionType) -> None:
        """Let a compaction end that had read `taken`. What was written meanwhile stays."""
        for name in FIELDS:
            getattr(self.now, name)[where] -= getattr(taken, name)
        (self._majors if type_ is CompactionType.MAJOR else self._minors)[where] += 1
        if type_ is CompactionType.MAJOR:
            replaced = taken.delete_bytes / DELETED * REPLACED
            self.base_bytes[where] += np.maximum(taken.bytes - replaced, 0)
            self.base_files[where] = np.maximum(self.base_files[where], self.spread[where] * (taken.dirs > 0))
            return
        self.now.aborted[where] += taken.aborted
        for kind in ("", "delete_"):
            merged = np.minimum(getattr(taken, f"{kind}dirs"), 1)
            getattr(self.now, f"{kind}dirs")[where] += merged
            getattr(self.now, f"{kind}files")[where] += merged * self.spread[where]
            getattr(self.now, f"{kind}bytes")[where] += getattr(taken, f"{kind}bytes")

    def measures(self, where: Iterable[int]) -> list[Measure]:
        """Return the measures of some partitions, as a listing of their directories gives them.

        Of the write ids only that they change with a compaction is true.
        """
        found = self.now
        return [
            Measure(
                base_files=int(self.base_files[one]),
                base_bytes=int(self.base_bytes[one]),
                deltas=int(found.dirs[one] + found.delete_dirs[one]),
                delta_files=int(found.files[one] + found.delete_files[one]),
                delta_bytes=int(found.bytes[one] + found.delete_bytes[one]),
                delete_bytes=int(found.delete_bytes[one]),
                buckets=int(max(self.base_files[one], self.spread[one] if found.dirs[one] else 0)),
                delta_buckets=int(self.spread[one] if found.dirs[one] else 0),
                aborted=int(found.aborted[one]),
                base_write_id=int(self._majors[one]),
                first_delta=int(self._majors[one] + self._minors[one]),
            )
            for one in where
        ]
