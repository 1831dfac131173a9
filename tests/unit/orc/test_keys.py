"""Order, equality and validity of ROW__IDs against the plain way of doing it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.orc.merge.keys import Keys, SortedKeys, counted, hit_by, valid_write_ids

SMALL = st.integers(min_value=-2, max_value=3)
ROWS = st.lists(st.tuples(SMALL, SMALL, SMALL, SMALL), max_size=30)


def keys(rows: list[tuple[int, int, int, int]]) -> Keys:
    return Keys(*(np.array([row[n] for row in rows], np.int64) for n in range(4)))


def tuples(of: Keys) -> list[tuple[int, ...]]:
    return [tuple(map(int, row)) for row in zip(*of.columns, strict=True)]


@given(ROWS)
def test_order_is_by_row_id_then_newest_first(rows: list[tuple[int, int, int, int]]):
    found = keys(rows)
    assert tuples(found[found.order()]) == sorted(rows, key=lambda row: (*row[:3], -row[3]))


@given(ROWS, st.sampled_from([0, 5, 2**31, 2**40, 2**60]), st.sampled_from([0, 5, 2**31, 2**40]))
def test_keys_that_lie_far_apart_are_sorted_and_distinct_too(rows, one: int, other: int):
    """63 bits may hold the four columns side by side, or may not."""
    far = [(write_id * one, bucket, row_id * other, current) for write_id, bucket, row_id, current in rows]
    found = keys(far)
    expected = sorted(far, key=lambda row: (*row[:3], -row[3]))
    assert tuples(found[found.order()]) == expected
    assert tuples(found.distinct()) == sorted(set(far), key=lambda row: (*row[:3], -row[3]))
    if far:
        assert found.extremes() == (expected[0][:3], expected[-1][:3])


def test_no_keys_are_in_order():
    assert len(keys([]).order()) == len(keys([]).distinct()) == 0


@given(ROWS, ROWS)
def test_a_row_is_hit_when_some_delete_event_has_its_row_id(rows, deletes):
    hit = hit_by(keys(rows), SortedKeys.of([keys(deletes)]))
    gone = {delete[:3] for delete in deletes}
    assert hit.tolist() == [row[:3] in gone for row in rows]


@given(ROWS, st.sampled_from([1, 2**60]), st.tuples(SMALL, SMALL, SMALL), st.tuples(SMALL, SMALL, SMALL))
def test_sorted_keys_between_two_row_ids_are_those_of_a_plain_search(rows, factor: int, one, other):
    """Whether one number holds a key or not, and bounds that lie outside all keys too."""
    low, high = sorted((bound[0] * factor, *bound[1:]) for bound in (one, other))
    far = [(row[0] * factor, *row[1:]) for row in rows]
    expected = [row for row in sorted(set(far), key=lambda row: (*row[:3], -row[3])) if low <= row[:3] <= high]
    found = SortedKeys.of([keys(far)])
    assert tuples(found.between(low, high)) == expected
    assert found.touch(low, high) == bool(expected)


@given(ROWS)
def test_distinct_keeps_each_event_once_in_order(rows):
    distinct = keys(rows).distinct()
    assert tuples(distinct) == sorted(set(rows), key=lambda row: (*row[:3], -row[3]))
    assert distinct.first_not_ascending() is None


@given(ROWS)
def test_first_not_ascending_is_where_the_order_breaks(rows):
    order = [(*row[:3], -row[3]) for row in rows]
    broken = [n for n in range(1, len(order)) if order[n] <= order[n - 1]]
    assert keys(rows).first_not_ascending() == (broken[0] if broken else None)


@given(st.lists(st.integers(min_value=0, max_value=12), max_size=20))
def test_validity_is_that_of_the_write_id_list(ids: list[int]):
    write_ids = ValidWriteIdList.parse("db.t:9:4:4,7:2,5")
    valid = valid_write_ids(np.array(ids, np.int64), write_ids)
    assert valid.tolist() == [write_ids.is_valid(number) for number in ids]


def test_counts_by_write_id():
    found = keys([(1, 0, 0, 1), (1, 0, 1, 1), (3, 0, 0, 3)])
    assert counted(found.write_id) == {1: 2, 3: 1}
    assert counted(Keys.concatenate([]).write_id) == {}
