"""What a plan says before anything runs, beside what the driver's flow then writes into the journal."""

import shutil
from pathlib import Path

import pytest

from compaction_operator.acid.plan import Layout
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.driver.merge import calibration
from compaction_operator.driver.merge.partition import Request
from compaction_operator.driver.offline import plan_directory
from compaction_operator.orc import sample_task, verify_output
from compaction_operator.orc.merge.engine import forecast_bucket, merge_bucket
from tests.unit.driver.support import TABLE, Store
from tests.unit.driver.test_hive import FIXTURES, run, with_deletes


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
    assert said == {name: number for name, number in planned.to_json().items() if name != "cpuMilliseconds"}
    assert {name: said[name] for name in ("filesIn", "bytesIn", "bytesCopied")} == {
        name: totals[name] for name in ("filesIn", "bytesIn", "bytesCopied")
    }
    assert said["rowsRemoved"] == totals["rowsIn"] - totals["rowsOut"]
    assert said["bytesRewritten"] == pytest.approx(totals["bytesRewritten"], rel=0.25)
    assert entry["cpuMilliseconds"] > 0


def test_the_sample_of_a_calibration_is_rewritten_whole(tmp_path: Path) -> None:
    """By copied stripes a machine would seem fast."""
    task = sample_task(str(tmp_path))
    expected, result = forecast_bucket(task), merge_bucket(task)
    verify_output(task, result)
    assert (result.rows_out, result.bytes_copied, expected.texts_rewritten) == (80_000, 0, 80_000)
    assert expected.bytes_rewritten == pytest.approx(result.bytes_out, rel=0.02)


def test_a_driver_takes_the_factor_that_the_image_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "STORED", tmp_path / "cpu_factor")
    stored_factor = calibration.stored_factor.__wrapped__
    assert stored_factor() == 1
    calibration.STORED.write_text("1.250\n")
    assert stored_factor() == 1.25
    calibration.STORED.write_text("")
    assert stored_factor() == 1
