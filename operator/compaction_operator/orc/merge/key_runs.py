"""The ROW__IDs of a stripe as runs: their order and counts, without a key for each row. Pure, numpy only."""

from dataclasses import dataclass

import numpy as np

from compaction_operator.orc.encoding import IntegerRuns
from compaction_operator.orc.merge.keys import Keys, added, changes


@dataclass(frozen=True, slots=True)
class KeyRuns:
    """The keys of consecutive rows, cut where a column begins a run.

    Within a run, write id, bucket and currentTransaction are the same, and row ids have a fixed step. `corners` are
    the first, second and last key of each run, in the order of the rows. So all keys ascend if the corners ascend, all
    are valid if the corners are, and all lie between the extremes of the corners. `rows_by_write_id` counts all rows.
    """

    corners: Keys
    rows_by_write_id: dict[int, int]

    @classmethod
    def of(cls, write_id: IntegerRuns, bucket: IntegerRuns, row_id: IntegerRuns, current: IntegerRuns) -> "KeyRuns":
        """Return the runs of four columns of one length."""
        write_id, bucket, current = write_id.constant(), bucket.constant(), current.constant()
        columns = (write_id, bucket, row_id, current)
        begins = np.zeros(row_id.count, np.bool_)
        for column in columns:
            begins[column.starts] = True
        corners = begins.copy()
        corners[1:] |= begins[:-1]
        corners[:-1] |= begins[1:]
        corners[-1:] = True
        at = np.flatnonzero(corners)
        return cls(Keys(*(column.at(at) for column in columns)), counted_runs(write_id))


def counted_runs(runs: IntegerRuns) -> dict[int, int]:
    """Return how often each value occurs."""
    constant = runs.constant()
    starts = changes(constant.firsts)
    return added(constant.firsts[starts], np.diff(constant.starts[starts], append=runs.count))
