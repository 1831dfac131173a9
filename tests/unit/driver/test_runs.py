"""A partition whose files differ in row type: merged in runs of one row type, and only then are all tails read."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as po
import pytest

from compaction_operator import orc
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive.publish import needs_exclusive
from compaction_operator.driver.merge.execute import merge
from compaction_operator.driver.merge.partition import Merged, Prepared, totals_of
from compaction_operator.driver.merge.row_counts import verify
from compaction_operator.driver.merge.runner import LocalRunner
from compaction_operator.orc.file import read_tail
from compaction_operator.orc.spec.schema import ROW_ID
from tests.support.row_types import FORMER, give_former_name
from tests.unit.driver.tables import MAJOR, MINOR, NOTHING_OPEN, copied, falsified, merged, planned, tasks
from tests.unit.orc.build import BUCKET_0, delete, insert, read_events, write_acid

ROW = "struct<id:int,s:string>"
RUNS = (
    "delta_0000001_0000003",
    "delete_delta_0000001_0000003",
    "delta_0000004_0000006",
    "delete_delta_0000004_0000006",
)


def two_runs(place: Path) -> Path:
    """Three writes before a column was renamed and three after it; of each run's rows some are deleted."""
    table = place / "table"
    for write_id in range(1, 7):
        write_acid(table / f"delta_{write_id}_{write_id}_0000/bucket_00000", [insert(write_id, n) for n in range(3)])
    for by, write_ids in ((3, [1, 2]), (5, [3]), (6, [4, 5])):
        events = [delete(write_id, 0, by=by) for write_id in write_ids]
        write_acid(table / f"delete_delta_{by}_{by}_0001/bucket_00000", events)
    give_former_name(*(table / f"delta_{write_id}_{write_id}_0000" for write_id in (1, 2, 3)))
    return table


def plan(table: Path, highest: int = 6, **more: object) -> Prepared:
    return planned(table, f"d.t:{highest}:{NOTHING_OPEN}", MINOR, **{"row_type": ROW} | more)


def outcome(work: Prepared) -> Merged:
    """What has become of the partition, and the error if it failed."""
    (found,) = merge([work], LocalRunner())
    return found


@pytest.mark.parametrize("row_type", [ROW, None])
def test_each_run_has_its_rows_and_delete_events_in_their_own_row_type(tmp_path: Path, row_type: str | None) -> None:
    done = merged(plan(two_runs(tmp_path), row_type=row_type))
    verify(done)
    assert tuple(output.name for output in done.prepared.plan.outputs) == RUNS
    files = {one.bucket.directory.name: one.result.output for one in done.buckets}
    first, first_deletes, second, second_deletes = (files[name] for name in RUNS)
    assert [read_tail(file).types[ROW_ID].field_names[1] for file in (first, second)] == [FORMER, "s"]
    for file, write_ids in ((first, (1, 2, 3)), (second, (4, 5, 6))):
        keys = [event[1:4] for event in read_events(file)]
        assert keys == [(write_id, BUCKET_0, number) for write_id in write_ids for number in range(3)]
    assert [event[1] for event in read_events(first_deletes)] == [1, 2]
    assert [event[1] for event in read_events(second_deletes)] == [3, 4, 5]


def test_runs_without_delete_events_are_published_all_or_none_too(tmp_path: Path) -> None:
    """The end of an attempt can decide nothing about a journal entry of which only some outputs are there."""
    table = two_runs(tmp_path)
    for deletes in table.glob("delete_delta_*"):
        shutil.rmtree(deletes)
    done = merged(plan(table)).prepared
    assert [output.name for output in done.plan.outputs] == [*RUNS[::2]]
    assert needs_exclusive(done)


def test_the_totals_are_those_of_all_runs(tmp_path: Path) -> None:
    totals = totals_of(merged(plan(two_runs(tmp_path))))
    assert (totals.partitions, totals.files_in, totals.files_out) == (1, 9, 4)
    assert (totals.rows_in, totals.rows_out) == (18, 18)
    assert (totals.delete_events_in, totals.delete_events_out) == (5, 5)


@pytest.mark.parametrize("output", RUNS[1::2])
def test_a_delete_event_that_is_lost_in_any_run_publishes_nothing(output: str, tmp_path: Path) -> None:
    done = merged(plan(two_runs(tmp_path)))
    number = [one.bucket.directory.name for one in done.buckets].index(output)
    lost = falsified(done, number, delete_events_out=done.buckets[number].result.delete_events_out - 1)
    with pytest.raises(JobError, match=f"{output}: .* delete events"):
        verify(lost)


def test_the_result_says_which_file_and_column_keep_the_runs_apart(tmp_path: Path) -> None:
    apart = merged(plan(two_runs(tmp_path))).prepared.apart or ""
    assert apart.startswith(f"{tmp_path / 'table'}: deltas are merged in runs of files with one row type: ")
    assert "bucket_00000: column former is in this file but not in the table" in apart


def one_by_one(place: Path) -> Path:
    """Three writes, of which the second one alone has another row type."""
    table = place / "table"
    for write_id in (1, 2, 3):
        write_acid(table / f"delta_{write_id}_{write_id}_0000/bucket_00000", [insert(write_id, 0)])
    give_former_name(table / "delta_2_2_0000")
    return table


def test_row_types_that_take_turns_leave_nothing_to_merge(tmp_path: Path) -> None:
    done = outcome(plan(one_by_one(tmp_path), 3))
    assert (done.error, done.prepared.plan.outputs) == (None, ())
    assert "column former" in (done.prepared.apart or "")


def test_a_loaded_file_of_another_row_type_is_merged_with_no_other(tmp_path: Path) -> None:
    """It has no ROW__IDs of its own, and readers match the columns of such files by rules of their own."""
    table = tmp_path / "table"
    for write_id in (1, 2, 4, 5):
        write_acid(table / f"delta_{write_id}_{write_id}_0000/bucket_00000", [insert(write_id, 0)])
    (table / "delta_3_3_0000").mkdir()
    po.write_table(pa.table({"id": pa.array([1], pa.int32()), FORMER: ["x"]}), str(table / "delta_3_3_0000/000000_0"))
    write_acid(table / "delete_delta_3_3_0000/bucket_00000", [delete(1, 0, by=3)])
    done = merged(plan(table, 5))
    assert [output.name for output in done.prepared.plan.outputs] == ["delta_0000001_0000002", "delta_0000004_0000005"]


def test_a_major_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    error = outcome(planned(two_runs(tmp_path), f"d.t:6:{NOTHING_OPEN}", MAJOR, row_type=ROW)).error
    assert error is not None
    assert error.reason is Reason.ROW_TYPES_DIFFER
    assert "column former is in this file but not in the table" in str(error)
    assert "Minor merges the deltas in runs" in str(error)


def test_one_row_type_needs_no_look_at_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orc, "row_type", lambda *_: pytest.fail("it looks"), raising=False)
    assert tasks(merged(planned(copied(tmp_path / "t", "bucketed"), f"d.t:5:{NOTHING_OPEN}", MINOR)).prepared)


def test_a_file_that_cannot_be_read_then_fails_the_partition_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> str:
        raise orc.OrcError("/t/delta_5_5_0000/bucket_00000", "it is not an ORC file")

    monkeypatch.setattr(orc, "row_type", damaged, raising=False)
    error = outcome(plan(two_runs(tmp_path))).error
    assert error is not None
    assert error.reason is Reason.UNREADABLE_FILE
    assert "delta_5_5_0000/bucket_00000: it is not an ORC file" in str(error)


def test_one_partitions_runs_leave_the_others_as_they_are(tmp_path: Path) -> None:
    """They are merged after the others, and each partition keeps its place and its results."""
    usual = planned(copied(tmp_path / "a/t", "bucketed"), f"d.t:5:{NOTHING_OPEN}", MINOR)
    runs = plan(two_runs(tmp_path / "b"))
    last = planned(copied(tmp_path / "c/t", "bucketed"), f"d.t:5:{NOTHING_OPEN}", MINOR)
    done = merge([usual, runs, last], LocalRunner())
    assert [one.prepared.target for one in done] == [usual.target, runs.target, last.target]
    assert [len(one.prepared.plan.outputs) for one in done] == [2, 4, 2]
    for one in done:
        verify(one)
