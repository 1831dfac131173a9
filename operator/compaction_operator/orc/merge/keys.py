"""Vectorised ROW__IDs: order, equality and write-id validity of many keys at once. Pure, numpy and kernels only."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc import kernels
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
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate(columns) for columns in zip(*(part.columns for part in parts), strict=True)))

    @property
    def columns(self) -> tuple[Integers, Integers, Integers, Integers]:
        """The four columns."""
        return self.write_id, self.bucket, self.row_id, self.current

    def __len__(self) -> int:
        return len(self.write_id)

    def __getitem__(self, which: Booleans | Integers | slice) -> "Keys":
        return Keys(*(column[which] for column in self.columns))

    def where(self, mask: Booleans) -> "Keys":
        """Return the keys for which the mask is true."""
        return self if mask.all() else self[mask]

    def row(self, index: int) -> RowId:
        """Return one ROW__ID."""
        return int(self.write_id[index]), int(self.bucket[index]), int(self.row_id[index])

    def order(self) -> Integers:
        """Return the permutation that sorts as Hive does: by ROW__ID, then the newest event first.

        Sorted runs are merged. Source: OrcRawRecordMerger.ReaderKey.compareTo.
        """
        if packing := _Packing.of(self):
            return np.argsort(packing.pack(self), kind="stable")
        return np.lexsort((-self.current, self.row_id, self.bucket, self.write_id))

    def order_if_needed(self) -> Integers | None:
        """Return `order`, or None if all keys ascend."""
        return None if self.first_not_ascending() is None else self.order()

    def extremes(self) -> tuple[RowId, RowId]:
        """Return the smallest and the largest ROW__ID; there must be a key."""
        if self.first_not_ascending() is None:
            return self.row(0), self.row(len(self) - 1)
        order = self.order()
        return self.row(order[0]), self.row(order[-1])

    def first_not_ascending(self) -> int | None:
        """Return the index of the first key that is not greater than its predecessor, or None."""
        if kernels.compiled:
            found = kernels.compiled.first_not_ascending(*map(np.ascontiguousarray, self.columns))
            return None if found < 0 else int(found)
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
        return self if self.first_not_ascending() is None else SortedKeys.of([self]).all()

    def _distinct_by_columns(self) -> "Keys":
        keys = self[self.order()]
        again = keys.same_row_as_previous()
        again[1:] &= keys.current[1:] == keys.current[:-1]
        return keys[~again]


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """The keys of many blocks, sorted and without duplicates: 8 bytes each where one number holds a key, else 32."""

    _keys: "Keys | _Packed"

    @classmethod
    def of(cls, blocks: Iterable[Keys]) -> "SortedKeys":
        """Return the keys of all blocks; each is packed before the next one is asked for."""
        packed = [_Packed.of(block) for block in blocks if len(block)]
        packing = _Packing.union([one.packing for one in packed if isinstance(one, _Packed)])
        if packing is None or not all(isinstance(one, _Packed) for one in packed):
            return cls(Keys.concatenate([_unpacked(one) for one in packed])._distinct_by_columns())
        numbers = np.empty(sum(map(len, packed)), np.int64)
        start = 0
        for one in packed:
            numbers[start : start + len(one)] = packing.pack(_unpacked(one))
            start += len(one)
        del packed
        numbers.sort(kind="stable")
        again = numbers[1:] == numbers[:-1]
        if again.any():
            numbers = numbers[np.append(True, ~again)]
        return cls(_Packed(packing, numbers))

    def __len__(self) -> int:
        return len(self._keys)

    def all(self) -> Keys:
        """Return the keys, 32 bytes each."""
        return _unpacked(self._keys)

    def between(self, low: RowId, high: RowId) -> Keys:
        """Return the keys with ROW__IDs from `low` to `high`, inclusive."""
        return _unpacked(self._keys[self._places(low, high)])

    def touch(self, low: RowId, high: RowId) -> bool:
        """Return whether a key has a ROW__ID from `low` to `high`, inclusive."""
        places = self._places(low, high)
        return bool(places.start < places.stop)

    def _places(self, low: RowId, high: RowId) -> slice:
        every = range(len(self))
        return slice(bisect_left(every, low, key=self._keys.row), bisect_right(every, high, key=self._keys.row))

    def slices(self, size: int) -> Iterator[Keys]:
        """Yield the keys, at most `size` at a time."""
        for start in range(0, len(self), size):
            yield _unpacked(self._keys[start : start + size])


@dataclass(frozen=True, slots=True)
class _Packing:
    """Keys as single numbers of the same order: the columns side by side, each as its distance from its lowest value.

    The kernel that sorts one array of numbers merges runs that are sorted, and is many times faster than a sort by four
    columns.
    """

    lows: tuple[int, ...]
    highs: tuple[int, ...]

    @classmethod
    def of(cls, keys: Keys) -> "_Packing | None":
        """Return how these keys are packed, or None if 63 bits do not hold them, or there is none."""
        if not len(keys):
            return None
        columns = _in_order(keys)
        return cls(
            tuple(int(column.min()) for column in columns), tuple(int(column.max()) for column in columns)
        )._if_it_fits()

    @classmethod
    def union(cls, packings: Sequence["_Packing"]) -> "_Packing | None":
        """Return how the keys of all are packed, or None if 63 bits do not hold them, or there is none."""
        if not packings:
            return None
        lows, highs = (
            zip(*(one.lows for one in packings), strict=True),
            zip(*(one.highs for one in packings), strict=True),
        )
        return cls(tuple(map(min, lows)), tuple(map(max, highs)))._if_it_fits()

    @property
    def bits(self) -> list[int]:
        """The width of each column."""
        return [(high - low).bit_length() for low, high in zip(self.lows, self.highs, strict=True)]

    def _if_it_fits(self) -> "_Packing | None":
        return self if sum(self.bits) <= 63 else None

    def pack(self, keys: Keys) -> Integers:
        """Return the number of each key."""
        numbers = np.zeros(len(keys), np.int64)
        for column, low, bits in zip(_in_order(keys), self.lows, self.bits, strict=True):
            numbers <<= bits
            numbers |= column - low
        return numbers

    def unpack(self, numbers: Integers) -> Keys:
        """Return the keys of numbers."""
        columns = []
        for low, bits in zip(reversed(self.lows), reversed(self.bits), strict=True):
            columns.append((numbers & (1 << bits) - 1) + low)
            numbers = numbers >> bits
        newest, row_id, bucket, write_id = columns
        return Keys(write_id, bucket, row_id, -newest)


@dataclass(frozen=True, slots=True)
class _Packed:
    """Keys as numbers, and how they are packed."""

    packing: _Packing
    numbers: Integers

    @classmethod
    def of(cls, keys: Keys) -> "Keys | _Packed":
        """Return keys packed if 63 bits hold each, or as they are."""
        packing = _Packing.of(keys)
        return cls(packing, packing.pack(keys)) if packing else keys

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, which: slice) -> "_Packed":
        return _Packed(self.packing, self.numbers[which])

    def row(self, index: int) -> RowId:
        """Return the ROW__ID of one key."""
        return self.packing.unpack(self.numbers[index : index + 1]).row(0)


def _unpacked(keys: Keys | _Packed) -> Keys:
    return keys if isinstance(keys, Keys) else keys.packing.unpack(keys.numbers)


def _in_order(keys: Keys) -> tuple[Integers, ...]:
    """Return the columns by which keys are sorted, the most significant first."""
    return keys.write_id, keys.bucket, keys.row_id, -keys.current


def changes(numbers: Integers) -> Integers:
    """Return the indexes at which a number differs from its predecessor; the first one does."""
    differs = np.ones(len(numbers), np.bool_)
    differs[1:] = numbers[1:] != numbers[:-1]
    return np.flatnonzero(differs)


def counted(numbers: Integers) -> dict[int, int]:
    """Return how often each number occurs."""
    starts = changes(numbers)
    return added(numbers[starts], np.diff(starts, append=len(numbers)))


def added(numbers: Integers, counts: Integers) -> dict[int, int]:
    """Return the sum of the counts of each number."""
    values, which = np.unique(numbers, return_inverse=True)
    sums = np.zeros(len(values), np.int64)
    np.add.at(sums, which, counts)
    return dict(zip(values.tolist(), sums.tolist(), strict=True))


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


def hit_by(rows: Keys, deletes: SortedKeys) -> Booleans:
    """Return, for each row, whether a delete event has its ROW__ID."""
    near = deletes.between(*rows.extremes()) if len(rows) and len(deletes) else None
    if near is None or not len(near):
        return np.zeros(len(rows), np.bool_)
    found = kernels.compiled.find_hits(*_row_ids(rows), *_row_ids(near)) if kernels.compiled else None
    return _hit_by_sorting(rows, near) if found is None else np.frombuffer(found, np.bool_)


def _row_ids(keys: Keys) -> tuple[Integers, ...]:
    return tuple(map(np.ascontiguousarray, keys.columns[:3]))


def _hit_by_sorting(rows: Keys, near: Keys) -> Booleans:
    both = Keys.concatenate([rows, near])
    is_delete = np.arange(len(both)) >= len(rows)
    order = np.lexsort((both.row_id, both.bucket, both.write_id))
    group = np.cumsum(~both[order].same_row_as_previous()) - 1
    deleted_groups = np.zeros(len(both), np.bool_)
    deleted_groups[group[is_delete[order]]] = True
    in_deleted = np.empty(len(both), np.bool_)
    in_deleted[order] = deleted_groups[group]
    return in_deleted[: len(rows)]
