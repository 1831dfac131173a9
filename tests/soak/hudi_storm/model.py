"""What a table holds after a live writer's writes: random upserts, deletes and late rows, merged as Hudi merges."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from random import Random
from typing import NamedTuple

FIRST_ROWS = 400
UPSERTED = (10, 60)
INSERTED = (0, 12)
DELETED = (1, 8)
DELETES_EVERY = 4
COMING_BACK = (0, 2)
"""How many of the deleted keys a write brings back."""
LATE_SHARE = 0.25
"""How many of the upserted rows bear an older time than the row that is there."""
VALUE_BLOCKS = 2


class MergeMode(StrEnum):
    """Hudi's `hoodie.record.merge.mode`: whether the row with the greatest `ts` holds, or the one written last."""

    EVENT_TIME = "EVENT_TIME_ORDERING"
    COMMIT_TIME = "COMMIT_TIME_ORDERING"


class Row(NamedTuple):
    """One record. `ts` is the ordering field, `value` tells which write it is of."""

    id: int
    ts: int
    value: str


@dataclass(frozen=True)
class Write:
    """One commit: rows to upsert, or ids to delete."""

    upserts: tuple[Row, ...] = ()
    deletes: tuple[int, ...] = ()


@dataclass
class Model:
    """The rows that a table must have, all writes applied in the order of their commits.

    NB: an id that was deleted comes back with a time greater than all before. With a smaller one it depends on where
    base and log files meet which row Hudi shows: a delete has no ordering value, and does not outlive its log block.
    """

    mode: MergeMode
    rows: dict[int, Row] = field(default_factory=dict)
    writes: int = 0
    gone: set[int] = field(default_factory=set)
    next_id: int = 0

    def next_write(self, rng: Random) -> Write:
        """Return a random write; the first one inserts many rows."""
        self.writes += 1
        if not self.rows:
            return Write(upserts=self._new(FIRST_ROWS))
        if self.writes % DELETES_EVERY == 0:
            return Write(deletes=tuple(sorted(rng.sample(sorted(self.rows), rng.randint(*DELETED)))))
        chosen = rng.sample(sorted(self.rows), rng.randint(*UPSERTED))
        changed = tuple(self._row(key, self._time(key, rng)) for key in sorted(chosen))
        return Write(upserts=changed + self._back(rng) + self._new(rng.randint(*INSERTED)))

    def apply(self, write: Write) -> None:
        """Take a write that was committed."""
        for key in write.deletes:
            del self.rows[key]
            self.gone.add(key)
        for row in write.upserts:
            there = self.rows.get(row.id)
            if there is None or self.mode is MergeMode.COMMIT_TIME or row.ts >= there.ts:
                self.rows[row.id] = row
                self.gone.discard(row.id)

    def differences(self, read: Sequence[Row]) -> list[str]:
        """Return in words how rows that were read differ from those that must be there: lost, doubled, wrong."""
        problems, seen = [], set()
        for row in sorted(read):
            if row.id in seen:
                problems.append(f"doubled: {row}")
            elif row != self.rows.get(row.id):
                problems.append(f"wrong: {row} instead of {self.rows.get(row.id)}")
            seen.add(row.id)
        return problems + [f"lost: {self.rows[key]}" for key in sorted(self.rows.keys() - seen)]

    def _new(self, number: int) -> tuple[Row, ...]:
        first, self.next_id = self.next_id, self.next_id + number
        return tuple(self._row(key, self.writes * 10) for key in range(first, self.next_id))

    def _back(self, rng: Random) -> tuple[Row, ...]:
        chosen = rng.sample(sorted(self.gone), min(len(self.gone), rng.randint(*COMING_BACK)))
        return tuple(self._row(key, self.writes * 10) for key in chosen)

    def _time(self, key: int, rng: Random) -> int:
        return self.rows[key].ts - rng.randint(1, 5) if rng.random() < LATE_SHARE else self.writes * 10

    def _row(self, key: int, ts: int) -> Row:
        digests = (sha256(f"{key}/{self.writes}/{block}".encode()).hexdigest() for block in range(VALUE_BLOCKS))
        return Row(key, ts, f"{self.writes}:{''.join(digests)}")
