"""One partition's compaction step by step: how it is cut, and what must add up before anything is published (H18)."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from compaction_operator import orc
from compaction_operator.acid.plan import Layout
from compaction_operator.acid.snapshot import UnsupportedLayout
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.merge.partition import assemble, totals_of
from compaction_operator.driver.merge.row_counts import verify
from compaction_operator.orc import EventKind, FileSketch, OriginalRows, count_rows
from tests.unit.driver.tables import (
    FIXTURES,
    MAJOR,
    MINOR,
    NOTHING_OPEN,
    STAGING,
    copied,
    falsified,
    merged,
    planned,
    prepared,
    results,
    tasks,
)


def test_each_output_and_bucket_is_a_task_of_its_own(tmp_path: Path) -> None:
    work = prepared(tmp_path, "bucketed", MINOR)
    cut = [(bucket.directory.name, bucket.whole.bucket) for bucket in work.buckets]
    outputs = ("delta_0000001_0000005", "delete_delta_0000001_0000005")
    assert cut == [(output, number) for output in outputs for number in range(4)]


def test_a_bucket_that_only_some_deltas_have_is_not_forgotten(tmp_path: Path) -> None:
    """H9: the union of the buckets of base and deltas."""
    work = prepared(tmp_path, "overwrite", MAJOR)
    assert [task.bucket for task in tasks(work)] == [0, 1]
    assert [len(task.inputs) for task in tasks(work)] == [2, 1]
    assert [len(task.deletes) for task in tasks(work)] == [0, 1]


def test_every_delete_task_reads_all_delete_files(tmp_path: Path) -> None:
    """Hive 3.1.3's own minor copies each event into every bucket's file."""
    work = prepared(tmp_path, "bucketed", MINOR)
    deletes = [task for task in tasks(work) if task.kind is EventKind.DELETE]
    assert len({task.inputs for task in deletes}) == 1
    assert len(deletes[0].inputs) == 7


def test_rows_of_original_files_are_numbered_through_their_copies(tmp_path: Path) -> None:
    work = prepared(tmp_path, "original", MAJOR)
    originals = [file for file in tasks(work)[0].inputs if file.original]
    assert [Path(file.path).name for file in originals] == ["000000_0", "000000_0_copy_1"]
    firsts = [file.original.first_row_id for file in originals if file.original]
    assert firsts[0] == 0
    assert firsts[1] > 0


def test_what_adds_up_is_assembled_into_complete_directories(tmp_path: Path) -> None:
    work = prepared(tmp_path, "bucketed", MAJOR)
    done = merged(work)
    verify(done)
    assemble(done)
    base = tmp_path / "table" / STAGING / "base_0000005"
    buckets = [f"bucket_0000{number}" for number in range(4)]
    assert sorted(path.name for path in base.iterdir()) == ["_metadata_acid", "_orc_acid_version", *buckets]
    totals = totals_of(done)
    assert (totals.rows_in, totals.rows_out, totals.delete_events_in, totals.files_out) == (70, 49, 21, 4)


def test_hive4_writes_no_file_without_rows(tmp_path: Path) -> None:
    """A base whose rows are all deleted holds `_orc_acid_version` alone; Hive 3 gives it an empty bucket."""
    table = tmp_path / "p1"
    shutil.copytree(FIXTURES / "hive-4.0.1/try_it/before/prt=p1", table)
    work = planned(table, f"d.try_it:6:{NOTHING_OPEN}", MAJOR, layout=Layout.HIVE4, visibility_txn=99)
    assemble(merged(work))
    base = Path(work.target.staging) / "base_0000005_v0000099"
    assert [path.name for path in base.iterdir()] == ["_orc_acid_version"]


def test_a_lost_row_publishes_nothing(tmp_path: Path) -> None:
    done = merged(prepared(tmp_path, "bucketed", MAJOR))
    lost = falsified(done, 2, rows_out=done.buckets[2].result.rows_out - 1)
    with pytest.raises(JobError, match=r"base_0000005/bucket_00002: .* nothing is published") as failed:
        verify(lost)
    assert failed.value.reason is Reason.VERIFICATION_FAILED


def test_a_delete_event_that_no_bucket_took_publishes_nothing(tmp_path: Path) -> None:
    """Its row would come back."""
    done = merged(prepared(tmp_path, "bucketed", MINOR))
    lost = falsified(done, -1, delete_events_out=done.buckets[-1].result.delete_events_out - 1)
    with pytest.raises(JobError, match="delete events"):
        verify(lost)


def test_a_missing_result_publishes_nothing(tmp_path: Path) -> None:
    done = merged(prepared(tmp_path, "bucketed", MAJOR))
    with pytest.raises(JobError, match="4 buckets gave 3 results"):
        verify(replace(done, buckets=done.buckets[:-1]))


def test_rows_without_a_delete_event_cannot_be_gone(tmp_path: Path) -> None:
    """H18: an engine that drops rows and counts them as deleted; in a minor no row may go at all."""
    done = merged(prepared(tmp_path, "table_txn_001", MINOR))
    (result,) = results(done)
    with pytest.raises(JobError, match="delta_0000001_0000003/bucket_00000: 1 rows are gone"):
        verify(falsified(done, 0, rows_out=result.rows_out - 1, rows_deleted=1))


def test_rows_that_moved_to_another_write_id_publish_nothing(tmp_path: Path) -> None:
    """Older snapshots would see them, or no longer see them."""
    done = merged(prepared(tmp_path, "table_txn_001", MINOR))
    with pytest.raises(JobError, match="more rows of write id 1 come out than went in"):
        verify(falsified(done, 0, rows_out_by_write_id={1: 2, 2: 1}))


def test_statements_of_one_write_id_go_together(tmp_path: Path) -> None:
    """H17: whatever is compacted of a write id, all its statements are inputs of the same output."""
    work = prepared(tmp_path, "merge", MINOR)
    (inserts, deletes) = tasks(work)
    names = [[Path(file.path).parent.name for file in task.inputs] for task in (inserts, deletes)]
    assert names == [
        ["delta_0000001_0000001_0000", "delta_0000002_0000002_0001", "delta_0000002_0000002_0002"],
        ["delete_delta_0000002_0000002_0000", "delete_delta_0000002_0000002_0002"],
    ]
    assert [bucket.directory.name for bucket in work.buckets] == [
        "delta_0000001_0000002",
        "delete_delta_0000001_0000002",
    ]


def loaded(place: Path) -> Path:
    """A table into which two files were loaded beside an insert: raw ones, which have no ROW__IDs of their own."""
    table = place / "table"
    shutil.copytree(FIXTURES / "hive-3.1.3/table_txn_001/before/delta_0000001_0000001_0000", table / "delta_1_1_0000")
    delta = table / "delta_0000002_0000002_0000"
    delta.mkdir()
    for name in ("000000_0", "000000_0_copy_1"):
        shutil.copy(FIXTURES / "hive-3.1.3/original/before" / name, delta / name)
    return table


@pytest.mark.parametrize("kind", [MINOR, MAJOR])
def test_raw_files_of_load_data_get_the_row_ids_that_hive_gives_them(kind: CompactionType, tmp_path: Path) -> None:
    """H15: their directory's write id, and row ids through all files of the bucket; minor and major read them."""
    work = planned(loaded(tmp_path), f"d.t:2:{NOTHING_OPEN}", kind)
    (task,) = tasks(work)
    first, second = (file.original for file in task.inputs[1:])
    assert task.inputs[0].original is None
    assert first == OriginalRows(536870912, 0, 2)
    assert second is not None
    assert (second.write_id, second.bucket_property) == (2, 536870912)
    assert second.first_row_id == count_rows(task.inputs[1].path) > 0


def test_what_is_not_understood_is_not_prepared(tmp_path: Path) -> None:
    """H15: a sub-directory that one version of Hive reads and the other does not."""
    table = loaded(tmp_path)
    union = table / "delta_0000002_0000002_0000" / "HIVE_UNION_SUBDIR_1"
    union.mkdir()
    shutil.copy(FIXTURES / "hive-3.1.3/original/before/000000_0", union / "000000_0")
    with pytest.raises(UnsupportedLayout, match="HIVE_UNION_SUBDIR_1"):
        planned(table, f"d.t:2:{NOTHING_OPEN}", MAJOR)


def test_files_of_a_union_are_folded_in(tmp_path: Path) -> None:
    """H15: what Hive wrote into sub-directories before the table was ACID; a minor leaves it alone."""
    table = copied(tmp_path / "table", "original")
    (table / "HIVE_UNION_SUBDIR_1").mkdir()
    (table / "000000_0_copy_1").rename(table / "HIVE_UNION_SUBDIR_1/000000_0")
    (task,) = tasks(planned(table, f"d.t:10000003:{NOTHING_OPEN}", MAJOR))
    originals = [file.path.removeprefix(f"{table}/") for file in task.inputs if file.original]
    assert originals == ["000000_0", "HIVE_UNION_SUBDIR_1/000000_0"]


def test_a_delta_without_rows_to_add_still_gets_its_bucket(tmp_path: Path) -> None:
    """Hive 3 wants a bucket file where only delete events are: it has the columns of theirs and no rows."""
    table = copied(tmp_path / "table", "table_txn_001")
    for delta in list(table.glob("delta_*")):
        shutil.rmtree(delta)
    source = FIXTURES / "hive-3.1.3/try_it/before/prt=p1"
    for delta in source.glob("delete_delta_*"):
        shutil.copytree(delta, table / delta.name)
    work = planned(table, f"d.t:6:{NOTHING_OPEN}", MAJOR)
    (task,) = tasks(work)
    assert (task.inputs, task.bucket) == ((), 0)
    (result,) = results(merged(work))
    assert (result.rows_out, result.bytes_out > 0) == (0, True)


def test_every_task_knows_the_tables_row_and_its_memory(tmp_path: Path) -> None:
    row = "struct<id:int,name:varchar(10)>"
    (task,) = tasks(prepared(tmp_path, "table_txn_001", MAJOR, row_type=row, task_memory=2**26))
    assert (task.row_type, task.memory) == (row, 2**26)


def test_small_buckets_are_not_opened_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver would do that for thousands of files, one after another."""

    def opened(path: str) -> FileSketch:
        raise AssertionError(path)

    monkeypatch.setattr(orc, "sketch", opened)
    prepared(tmp_path, "bucketed", MAJOR)
