"""Small tasks share a Spark task; the results of parts add up."""

import pytest

from compaction_operator.driver.merge.tasks import SizedTask, combined, grouped, task_bytes
from compaction_operator.orc import EventKind, MergeResult, MergeTask

TASK = MergeTask(kind=EventKind.INSERT, bucket=0, inputs=(), write_ids="d.t:1:1::", output="/t")


@pytest.mark.parametrize(
    ("sizes", "slots", "groups"),
    [
        ([10] * 6, 1, [[10, 10, 10], [10, 10, 10]]),
        ([10] * 6, 6, [[10]] * 6),
        ([100, 1, 1, 100], 1, [[100], [1, 1], [100]]),
        ([5], 8, [[5]]),
        ([0, 0], 2, [[0, 0]]),
        ([], 2, []),
    ],
)
def test_groups_are_no_larger_than_a_task_and_no_slot_idles(
    sizes: list[int], slots: int, groups: list[list[int]]
) -> None:
    """The order is kept: outcomes belong to tasks by their place."""
    work = [SizedTask(TASK, size) for size in sizes]
    assert [[piece.bytes for piece in group] for group in grouped(work, slots=slots, limit=30)] == groups


def test_a_task_reads_less_than_it_may_hold() -> None:
    assert task_bytes(512 * 1024**2) == 256 * 1024**2


def test_the_results_of_parts_add_up() -> None:
    one = MergeResult(
        output="/a", rows_in=5, rows_out=3, rows_deleted=2, delete_events_in=4, delete_events_out=1, bytes_in=10,
        bytes_out=6, bytes_copied=2, rows_in_by_write_id={1: 3, 2: 2}, rows_out_by_write_id={1: 3},
    )  # fmt: skip
    other = MergeResult(output="/b", rows_in=1, rows_out=1, rows_in_by_write_id={2: 1}, rows_out_by_write_id={2: 1})
    assert combined([one, other], output="/c") == MergeResult(
        output="/c", rows_in=6, rows_out=4, rows_deleted=2, delete_events_in=4, delete_events_out=1, bytes_in=10,
        bytes_out=6, bytes_copied=2, rows_in_by_write_id={1: 3, 2: 3}, rows_out_by_write_id={1: 3, 2: 1},
    )  # fmt: skip
