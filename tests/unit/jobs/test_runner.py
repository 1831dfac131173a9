"""Where tasks run: the same outcomes in this process and in Spark, which starts only when there is work."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.jobs.runner import LocalRunner, Outcome, SparkRunner
from compaction_operator.orc import EventKind, InputFile, MergeTask

DELTA = Path(__file__).parents[2] / "fixtures/hive-3.1.3/table_txn_001/before/delta_0000001_0000001_0000/bucket_00000"


def tasks(directory: Path) -> list[MergeTask]:
    """One task that works and one whose input is not there."""
    return [
        MergeTask(
            kind=EventKind.INSERT,
            bucket=0,
            inputs=(InputFile(path=str(path)),),
            write_ids="d.t:1:9223372036854775807::",
            output=str(directory / f"{number}"),
        )
        for number, path in enumerate([DELTA, directory / "missing"])
    ]


@pytest.fixture(scope="module")
def spark() -> Any:
    """A SparkContext in this process."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # what the image sets for its own Python
    context = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate().sparkContext
    yield context
    context.stop()


def check(outcomes: list[Outcome]) -> None:
    worked, failed = outcomes
    assert worked.result is not None
    assert worked.result.rows_out == 1
    assert Path(worked.result.output).exists()
    assert failed.result is None
    assert "missing" in (failed.error or "")


def test_in_this_process(tmp_path: Path) -> None:
    check(LocalRunner().run(tasks(tmp_path)))


def test_in_spark(tmp_path: Path, spark: Any) -> None:
    check(SparkRunner(lambda: spark).run(tasks(tmp_path)))


def test_spark_is_not_started_for_nothing() -> None:
    def start() -> Any:
        raise AssertionError("nothing is to be done")

    runner = SparkRunner(start)
    assert runner.run([]) == []
    runner.stop()
