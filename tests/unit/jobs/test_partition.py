"""One partition's compaction step by step: how it is cut, and what must add up before anything is published (H18)."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from compaction_operator.acid.plan import Layout
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.jobs.arithmetic import verify
from compaction_operator.jobs.errors import JobError
from compaction_operator.jobs.merge import merge
from compaction_operator.jobs.partition import Prepared, Request, assemble, make_staging, prepare, totals_of
from compaction_operator.jobs.runner import LocalRunner
from compaction_operator.orc import EventKind, MergeResult, MergeTask
from compaction_operator.storage import LocalStorage

FIXTURES = Path(__file__).parents[2] / "fixtures"
STORAGE = LocalStorage()
STAGING = "_compaction_0f8c-1-pod"
MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR


def prepared(place: Path, fixture: str, kind: CompactionType) -> Prepared:
    """A copy of a table that real Hive 3.1.3 wrote, planned and cut."""
    table, source = place / "table", FIXTURES / "hive-3.1.3" / fixture
    shutil.copytree(source / "before", table)
    write_ids = ValidWriteIdList.parse((source / f"writeids-{kind.lower()}-before.txt").read_text().strip())
    make_staging(STORAGE, str(table), STAGING)
    request = Request(kind, Layout.HIVE3)
    return prepare(STORAGE, str(table), staging_name=STAGING, write_ids=write_ids, request=request)


def merged(work: Prepared) -> list[MergeResult]:
    (results,) = merge([work], LocalRunner())
    assert not isinstance(results, JobError), results
    return results


def tasks(work: Prepared) -> list[MergeTask]:
    return [bucket.whole for _, bucket in work.buckets()]


def test_each_output_and_bucket_is_a_task_of_its_own(tmp_path: Path) -> None:
    work = prepared(tmp_path, "bucketed", MINOR)
    cut = {output.name: [bucket.whole.bucket for bucket in found] for output, found in work.outputs.items()}
    assert cut == {"delta_0000001_0000005": [0, 1, 2, 3], "delete_delta_0000001_0000005": [0, 1, 2, 3]}


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
    results = merged(work)
    verify(work, results)
    assemble(STORAGE, work, results, layout=Layout.HIVE3)
    base = tmp_path / "table" / STAGING / "base_0000005"
    buckets = [f"bucket_0000{number}" for number in range(4)]
    assert sorted(path.name for path in base.iterdir()) == ["_metadata_acid", "_orc_acid_version", *buckets]
    totals = totals_of(work, results, layout=Layout.HIVE3)
    assert (totals.rows_in, totals.rows_out, totals.delete_events_in, totals.files_out) == (70, 49, 21, 4)


def test_hive4_writes_no_file_without_rows(tmp_path: Path) -> None:
    """A base whose rows are all deleted holds `_orc_acid_version` alone; Hive 3 gives it an empty bucket."""
    table = tmp_path / "p1"
    shutil.copytree(FIXTURES / "hive-4.0.1/try_it/before/prt=p1", table)
    make_staging(STORAGE, str(table), STAGING)
    write_ids = ValidWriteIdList.parse(f"d.try_it:6:{2**63 - 1}::")
    request = Request(MAJOR, Layout.HIVE4, 99)
    work = prepare(STORAGE, str(table), staging_name=STAGING, write_ids=write_ids, request=request)
    assemble(STORAGE, work, merged(work), layout=Layout.HIVE4)
    base = Path(work.staging) / "base_0000005_v0000099"
    assert [path.name for path in base.iterdir()] == ["_orc_acid_version"]


def test_a_lost_row_publishes_nothing(tmp_path: Path) -> None:
    work = prepared(tmp_path, "bucketed", MAJOR)
    results = merged(work)
    results[2] = replace(results[2], rows_out=results[2].rows_out - 1)
    with pytest.raises(JobError, match=r"base_0000005/bucket_00002: .* nothing is published") as failed:
        verify(work, results)
    assert failed.value.reason is Reason.VERIFICATION_FAILED


def test_a_delete_event_that_no_bucket_took_publishes_nothing(tmp_path: Path) -> None:
    """Its row would come back."""
    work = prepared(tmp_path, "bucketed", MINOR)
    results = merged(work)
    results[-1] = replace(results[-1], delete_events_out=results[-1].delete_events_out - 1)
    with pytest.raises(JobError, match="delete events"):
        verify(work, results)


def test_a_missing_result_publishes_nothing(tmp_path: Path) -> None:
    work = prepared(tmp_path, "bucketed", MAJOR)
    with pytest.raises(JobError, match="4 buckets gave 3 results"):
        verify(work, merged(work)[:-1])
