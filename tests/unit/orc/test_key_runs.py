"""Keys as runs: what holds for their corners holds for all keys."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from compaction_operator.orc.encoding import IntegerRuns
from compaction_operator.orc.encoding.integer_runs import integer_runs
from compaction_operator.orc.merge.key_runs import KeyRuns, counted_runs
from compaction_operator.orc.merge.keys import Keys, counted
from compaction_operator.orc.spec import Integers
from tests.unit.orc.test_integer_runs import stored

RUN = st.tuples(st.integers(0, 3), st.integers(-1, 2), st.integers(1, 40))
COLUMN = st.lists(RUN, min_size=1, max_size=5)


def column(runs: list[tuple[int, int, int]], size: int) -> Integers:
    """Runs of (first value, step, length), repeated to fill a column."""
    values = np.concatenate([first + step * np.arange(length) for first, step, length in runs])
    return np.resize(values, size)


def as_runs(values: Integers) -> IntegerRuns:
    return integer_runs(stored(values), len(values), version=2)


@given(COLUMN, COLUMN, COLUMN, COLUMN, st.integers(1, 200))
def test_the_corners_are_as_good_as_all_keys(write_id, bucket, row_id, current, size: int):
    columns = [column(runs, size) for runs in (write_id, bucket, row_id, current)]
    keys, runs = Keys(*columns), KeyRuns.of(*map(as_runs, columns))
    assert (runs.corners.first_not_ascending() is None) == (keys.first_not_ascending() is None)
    assert runs.corners.extremes() == keys.extremes()
    assert runs.corners.row(len(runs.corners) - 1) == keys.row(size - 1)
    assert set(runs.corners.current.tolist()) == set(keys.current.tolist())
    assert runs.rows_by_write_id == counted(keys.write_id)


def test_the_keys_of_an_insert_are_three_corners():
    size = 400_000
    same = np.full(size, 7)
    runs = KeyRuns.of(as_runs(same), as_runs(same), as_runs(np.arange(size)), as_runs(same))
    assert runs.corners.row_id.tolist() == [0, 1, size - 1]
    assert runs.rows_by_write_id == {7: size}


def test_no_rows_have_no_corners():
    nothing = IntegerRuns.of(np.zeros(0, np.int64))
    assert len(KeyRuns.of(nothing, nothing, nothing, nothing).corners) == 0
    assert counted_runs(nothing) == {}
