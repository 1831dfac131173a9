"""What a plan says before anything runs, beside what the driver's flow then writes into the journal."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.acid.plan import Layout
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.driver.merge import calibration
from compaction_operator.driver.merge.partition import Request
from compaction_operator.driver.merge.runner import LocalRunner
from compaction_operator.driver.offline import compact_directory, plan_directory
from compaction_operator.orc import EventKind, MergeForecast, MergeResult, MergeTask, sample_task, verify_output
from compaction_operator.orc.file import read_tail
from compaction_operator.orc.merge.engine import forecast_bucket, merge_bucket
from compaction_operator.policy.candidates import gain
from compaction_operator.policy.measure import measure
from compaction_operator.storage import LocalStorage
from tests.unit.driver.support import TABLE, Store
from tests.unit.driver.tables import NOTHING_OPEN
from tests.unit.driver.test_hive import FIXTURES, run, with_deletes
from tests.unit.driver.test_runs import ROW, RUNS, one_by_one, two_runs
from tests.unit.orc.build import ALL_VALID, Event, delete, insert, write_acid

SLACK_BYTES = 64
"""Two encodings of the same rows may differ by some bytes (`orc/encoding/codec.py`)."""


@pytest.mark.parametrize("kind", [CompactionType.MINOR, CompactionType.MAJOR])
def test_the_journal_has_the_forecast_of_the_plan_beside_the_totals(kind: CompactionType, tmp_path: Path) -> None:
    table = Path(shutil.copytree(FIXTURES / "types" / "before", tmp_path / "t"))
    metastore, store = with_deletes(), Store()
    write_ids: ValidWriteIdList = metastore.write_ids[TABLE]
    planned = plan_directory(str(table), write_ids=write_ids, request=Request(kind, Layout.HIVE3)).forecast
    assert planned is not None
    run(table, metastore=metastore, store=store, kind=kind)
    (journal,) = store.resources.values()
    (entry,) = journal["spec"]["partitions"]
    said, totals = dict(entry["forecast"]), entry["totals"]
    assert said.pop("cpuMilliseconds") > 0
    # NB: isa-l may deflate the same bytes to other sizes (docs/develop.md).
    expected = planned.to_json() | {"bytesRewritten": pytest.approx(planned.bytes_rewritten, abs=SLACK_BYTES)}
    assert said == {name: number for name, number in expected.items() if name != "cpuMilliseconds"}
    assert {name: said[name] for name in ("filesIn", "bytesIn", "bytesCopied")} == {
        name: totals[name] for name in ("filesIn", "bytesIn", "bytesCopied")
    }
    assert said["rowsRemoved"] == totals["rowsIn"] - totals["rowsOut"]
    assert said["bytesRewritten"] == pytest.approx(totals["bytesRewritten"], abs=SLACK_BYTES)
    assert entry["cpuMilliseconds"] > 0


@pytest.mark.parametrize("kind", [CompactionType.MINOR, CompactionType.MAJOR])
@pytest.mark.parametrize("table", sorted(one.name for one in FIXTURES.iterdir()))
def test_a_policy_knows_files_and_bytes_from_the_listing_as_a_forecast_does(table: str, kind: CompactionType) -> None:
    """A policy ranks thousands of tables by listings alone: what footers say beside that, it asks for the best few."""
    write_ids = ValidWriteIdList.parse((FIXTURES / table / f"writeids-{kind.lower()}-before.txt").read_text().strip())
    before = FIXTURES / table / "before"
    for place in sorted(before.glob("*=*")) or [before]:
        found = measure(LocalStorage().list_partition(str(place)), write_ids, ValidTxnList.parse(f"9:{NOTHING_OPEN}"))
        planned = plan_directory(str(place), write_ids=write_ids, request=Request(kind, Layout.HIVE3))
        assert planned.forecast is not None
        files = found.delta_files + (found.base_files if kind is CompactionType.MAJOR else 0)
        assert (files, gain(found, kind)[2]) == (planned.forecast.files_in, planned.forecast.bytes_in)


def test_the_sample_of_a_calibration_is_rewritten_whole(tmp_path: Path) -> None:
    """By copied stripes a machine would seem fast."""
    task = sample_task(str(tmp_path))
    expected, result = forecast_bucket(task), merge_bucket(task)
    verify_output(task, result)
    assert (result.rows_out, result.bytes_copied, expected.texts_rewritten) == (80_000, 0, 80_000)
    assert expected.bytes_rewritten == pytest.approx(result.bytes_out, rel=0.02)
    assert (expected.columns_read, expected.columns_rewritten) == (2 * 10, 10)


def test_a_driver_takes_the_factor_that_the_image_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "STORED", tmp_path / "cpu_factor")
    stored_factor = calibration.stored_factor.__wrapped__
    assert stored_factor() == 1
    calibration.STORED.write_text("1.250\n")
    assert stored_factor() == 1.25
    for unusable in ("", "nan", "inf", "0", "-1"):
        calibration.STORED.write_text(unusable)
        assert stored_factor() == 1
    calibration.STORED.unlink()
    calibration.STORED.mkdir()
    assert stored_factor() == 1


def test_a_minor_of_differing_row_types_is_forecast_in_the_runs_that_compact_writes(tmp_path: Path) -> None:
    table = str(two_runs(tmp_path))
    write_ids, request = ValidWriteIdList.parse(f"d.t:6:{NOTHING_OPEN}"), request_of(CompactionType.MINOR)
    planned = plan_directory(table, write_ids=write_ids, request=request)
    done = compact_directory(table, write_ids=write_ids, request=request, runner=LocalRunner())
    assert planned.forecast is not None
    assert tuple(output.name for output in planned.plan.outputs) == RUNS
    assert (planned.plan, planned.apart) == (done.plan, done.apart)
    assert planned.forecast.files_in == done.totals.files_in
    assert planned.forecast.bytes_copied == done.totals.bytes_copied
    assert planned.forecast.bytes_rewritten == pytest.approx(done.totals.bytes_rewritten, abs=SLACK_BYTES)


def test_runs_that_leave_nothing_to_merge_are_no_forecast(tmp_path: Path) -> None:
    table = one_by_one(tmp_path)
    write_ids, request = ValidWriteIdList.parse(f"d.t:3:{NOTHING_OPEN}"), request_of(CompactionType.MINOR)
    planned = plan_directory(str(table), write_ids=write_ids, request=request)
    assert (planned.plan.outputs, planned.forecast, planned.problem) == ((), None, None)
    assert "column former" in (planned.apart or "")


def test_a_major_of_differing_row_types_has_a_problem_and_says_what_to_do(tmp_path: Path) -> None:
    write_ids, request = ValidWriteIdList.parse(f"d.t:6:{NOTHING_OPEN}"), request_of(CompactionType.MAJOR)
    planned = plan_directory(str(two_runs(tmp_path)), write_ids=write_ids, request=request)
    assert planned.forecast is None
    assert "column former is in this file but not in the table" in (planned.problem or "")
    assert "Minor merges the deltas in runs" in (planned.problem or "")


def request_of(kind: CompactionType) -> Request:
    return Request(kind, Layout.HIVE3, row_type=ROW)


def test_small_stripes_are_forecast_in_the_sections_in_which_they_are_joined(tmp_path: Path) -> None:
    """Sections of small stripes, a large one between them, and one that small ones before it do not outweigh."""
    sizes = [*[50] * 9, 60_000, *[50] * 9, 300]
    task = task_of(tmp_path, [[insert(number, row) for row in range(rows)] for number, rows in enumerate(sizes, 1)])
    expected, result = forecast_bucket(task), merge_bucket(task)
    stripes = len(read_tail(result.output).footer.stripes)
    assert (expected.bytes_copied, expected.stripes_rewritten) == (result.bytes_copied, stripes - len(result.copied))
    assert_of(expected, result)


def test_a_little_work_is_forecast_to_the_byte(tmp_path: Path) -> None:
    """Files with words of their own: their dictionaries add up, and their values compress otherwise."""
    task = task_of(tmp_path, [words(number) for number in range(1, 11)])
    assert_of(forecast_bucket(task), merge_bucket(task))


def test_delete_events_are_forecast_to_the_byte(tmp_path: Path) -> None:
    events = [[delete(1, row, by=number) for row in range(number, 3000, 10)] for number in range(2, 8)]
    task = task_of(tmp_path, events, kind=EventKind.DELETE)
    expected = forecast_bucket(task)
    assert_of(expected, merge_bucket(task))
    assert (expected.delete_events, expected.columns_rewritten, expected.columns_empty) == (1800, 0, 9)


@pytest.mark.parametrize("compression", ["uncompressed", "snappy"])
def test_what_a_codec_and_removed_rows_add_is_counted_apart(compression: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, [words(number) for number in (1, 2, 3)], compression=compression)
    deletes = (write_acid(tmp_path / "deletes", [delete(2, row, by=4) for row in range(100)]),)
    expected = forecast_bucket(replace(task, deletes=deletes))
    share = compression != "uncompressed"
    assert (expected.columns_rewritten, expected.columns_compressed) == (9, 9 * share)
    assert (expected.columns_filtered, expected.rows_removed) == (9, 100)
    assert expected.text_bytes > 0
    assert expected.text_bytes_compressed == expected.text_bytes * share


def test_of_more_work_a_plan_decodes_only_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(tmp_path, [words(number) for number in range(1, 11)])
    merged = merge_bucket(task).bytes_out
    monkeypatch.setattr("compaction_operator.orc.merge.forecast.ENCODED_VALUES", 2000)
    monkeypatch.setattr("compaction_operator.orc.merge.output._parts", lambda *_, **__: pytest.fail("it decodes"))
    assert forecast_bucket(task).bytes_rewritten == pytest.approx(merged, rel=0.5)


@pytest.mark.parametrize("dictionaries", [0.0, 0.8], ids=["plain", "with dictionaries"])
def test_of_more_work_a_plan_encodes_texts_first(
    dictionaries: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else is as wrong: here the dictionary of the joined stripe has ten times the words of each part."""
    files = [words(number, rows=2000) for number in range(1, 11)]
    task = task_of(tmp_path, files, dictionary_key_size_threshold=dictionaries)
    monkeypatch.setattr("compaction_operator.orc.merge.forecast.ENCODED_VALUES", 20_000)  # those of one column
    assert forecast_bucket(task).bytes_rewritten == pytest.approx(merge_bucket(task).bytes_out, rel=0.05)


def test_a_merge_forecasts_more_work_as_a_plan_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compaction_operator.orc.merge.forecast.ENCODED_VALUES", 2000)
    task = task_of(tmp_path, [words(number) for number in range(1, 11)])
    expected, result = forecast_bucket(task), merge_bucket(task)
    assert (result.forecast.bytes_rewritten, result.forecast) == (expected.bytes_rewritten, expected)
    assert expected.bytes_rewritten != pytest.approx(result.bytes_out, abs=SLACK_BYTES)


def words(number: int, *, rows: int = 400) -> list[Event]:
    """Return events with words that no other number has, each in four rows."""
    return [insert(number, row, f"word {number} {row % (rows // 4)}") for row in range(rows)]


def task_of(
    folder: Path, files: Sequence[Sequence[Event]], *, kind: EventKind = EventKind.INSERT, **options: Any
) -> MergeTask:
    inputs = tuple(write_acid(folder / f"delta_{number}", events, **options) for number, events in enumerate(files))
    return MergeTask(kind=kind, bucket=0, inputs=inputs, write_ids=ALL_VALID, output=str(folder / "out"))


def assert_of(expected: MergeForecast, result: MergeResult) -> None:
    assert expected.bytes_copied + expected.bytes_rewritten == pytest.approx(result.bytes_out, abs=SLACK_BYTES)
    own = replace(result.forecast, bytes_rewritten=expected.bytes_rewritten)
    assert (own, result.forecast.bytes_rewritten) == (expected, result.bytes_out - result.bytes_copied)
