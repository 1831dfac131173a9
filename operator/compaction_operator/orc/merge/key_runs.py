"""The ROW__IDs of a stripe as runs: their order and counts, without a key for each row. Pure, numpy only."""

from dataclasses import dataclass

import numpy as np

from compaction_operator.orc.encoding import IntegerRuns
from compaction_operator.orc.merge.keys import Keys


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
        starts = np.unique(np.concatenate([column.starts for column in columns]))
        lasts = np.append(starts[1:], row_id.count)[: len(starts)] - 1
        corners = np.unique(np.concatenate([starts, np.minimum(starts + 1, lasts), lasts]))
        return cls(Keys(*(column.at(corners) for column in columns)), counted_runs(write_id))


def counted_runs(runs: IntegerRuns) -> dict[int, int]:
    """Return how often each value occurs."""
    constant = runs.constant()
    values, which = np.unique(constant.firsts, return_inverse=True)
    counts = np.zeros(len(values), np.int64)
    np.add.at(counts, which, constant.lengths)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))
