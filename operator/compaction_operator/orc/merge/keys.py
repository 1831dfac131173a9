"""Vectorised ROW__IDs: order, equality and write-id validity of many keys at once. Pure, numpy only."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc.merge.events import KeyRange, RowId
from compaction_operator.orc.spec import Booleans, Integers


@dataclass(frozen=True, slots=True)
class Keys:
    """ROW__IDs (originalTransaction, bucket, rowId) and the currentTransaction of each: four columns of one length."""

    write_id: Integers
    bucket: Integers
    row_id: Integers
    current: Integers

    @classmethod
    def concatenate(cls, parts: Sequence["Keys"]) -> "Keys":
        """Return the concatenated keys of all parts."""
        if not parts:
            return cls(*[np.empty(0, np.int64)] * 4)
        return cls(*(np.concatenate(columns) for columns in zip(*(part.columns for part in parts), strict=True)))

    @property
    def columns(self) -> tuple[Integers, Integers, Integers, Integers]:
        """The four columns."""
        return self.write_id, self.bucket, self.row_id, self.current

    def __len__(self) -> int:
        return len(self.write_id)

    def __getitem__(self, which: Booleans | Integers | slice) -> "Keys":
        return Keys(*(column[which] for column in self.columns))

    def row(self, index: int) -> RowId:
        """Return one ROW__ID."""
        return int(self.write_id[index]), int(self.bucket[index]), int(self.row_id[index])

    def order(self) -> Integers:
        """Return the permutation that sorts as Hive does: by ROW__ID, then the newest event first.

        Source: OrcRawRecordMerger.ReaderKey.compareTo.
        """
        return np.lexsort((-self.current, self.row_id, self.bucket, self.write_id))

    def extremes(self) -> tuple[RowId, RowId]:
        """Return the smallest and the largest ROW__ID; there must be a key."""
        order = self.order()
        return self.row(order[0]), self.row(order[-1])

    def first_not_ascending(self) -> int | None:
        """Return the index of the first key that is not greater than its predecessor, or None."""
        ascending = np.zeros(max(0, len(self) - 1), np.bool_)
        equal = ~ascending
        for column in (self.write_id, self.bucket, self.row_id, -self.current):
            ascending |= equal & (column[1:] > column[:-1])
            equal &= column[1:] == column[:-1]
        return None if ascending.all() else int(np.argmin(ascending)) + 1

    def same_row_as_previous(self) -> Booleans:
        """Return, for each key, whether its ROW__ID equals its predecessor's."""
        same = np.zeros(len(self), np.bool_)
        if len(self):
            same[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in self.columns[:3]])
        return same

    def distinct(self) -> "Keys":
        """Return the events sorted and without duplicates."""
        keys = self[self.order()]
        again = keys.same_row_as_previous()
        again[1:] &= keys.current[1:] == keys.current[:-1]
        return keys[~again]


def counted(numbers: Integers) -> dict[int, int]:
    """Return how often each number occurs."""
    values, counts = np.unique(numbers, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def valid_write_ids(current: Integers, write_ids: ValidWriteIdList) -> Booleans:
    """Return, for each write id, whether it is valid in the list."""
    hidden = np.fromiter(write_ids.open | write_ids.aborted, np.int64)
    return (current <= write_ids.high_watermark) & ~np.isin(current, hidden)


def in_range(keys: Keys, range_: KeyRange) -> Booleans:
    """Return, for each key, whether the range contains it."""
    inside = np.ones(len(keys), np.bool_)
    if range_.after is not None:
        inside &= _compared(keys, range_.after)[0]
    if range_.to is not None:
        inside &= ~_compared(keys, range_.to)[0]
    return inside


def _compared(keys: Keys, limit: RowId) -> tuple[Booleans, Booleans]:
    """Return, for each key, whether its ROW__ID is above the limit, and whether it is equal."""
    above = np.zeros(len(keys), np.bool_)
    equal = ~above
    for column, number in zip(keys.columns, limit, strict=False):
        above |= equal & (column > number)
        equal &= column == number
    return above, equal


def touched_by(deletes: Keys, low: RowId, high: RowId) -> bool:
    """Return whether a delete event has a ROW__ID from `low` to `high`; `deletes` is sorted."""
    left = np.searchsorted(deletes.write_id, low[0], "left")
    right = np.searchsorted(deletes.write_id, high[0], "right")
    near = deletes[slice(int(left), int(right))]
    above, equal = _compared(near, low)
    return bool((~_compared(near, high)[0] & (above | equal)).any())


def hit_by(rows: Keys, deletes: Keys) -> Booleans:
    """Return, for each row, whether a delete event has its ROW__ID; `deletes` is sorted."""
    hit = np.zeros(len(rows), np.bool_)
    if not len(rows):
        return hit
    low = np.searchsorted(deletes.write_id, rows.write_id.min(), "left")
    high = np.searchsorted(deletes.write_id, rows.write_id.max(), "right")
    near = deletes[slice(int(low), int(high))]
    if not len(near):
        return hit
    both = Keys.concatenate([rows, near])
    is_delete = np.arange(len(both)) >= len(rows)
    order = np.lexsort((both.row_id, both.bucket, both.write_id))
    group = np.cumsum(~both[order].same_row_as_previous()) - 1
    deleted_groups = np.zeros(len(both), np.bool_)
    deleted_groups[group[is_delete[order]]] = True
    in_deleted = np.empty(len(both), np.bool_)
    in_deleted[order] = deleted_groups[group]
    return in_deleted[: len(rows)]
