"""A real Spark that gets no executors gives way to another one in the same process."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.compaction import ExecutorResources
from compaction_operator.driver.merge import runner
from compaction_operator.driver.merge.load import Load
from compaction_operator.driver.merge.placement import Limits
from compaction_operator.driver.merge.runner import PlacedRunner, SparkRunner
from compaction_operator.driver.merge.tasks import SizedTask
from compaction_operator.orc import EventKind, InputFile, MergeTask

DELTA = Path(__file__).parents[2] / "fixtures/hive-3.1.3/table_txn_001/before/delta_0000001_0000001_0000/bucket_00000"
NO_WORKERS, NO_CLUSTER, THIS_PROCESS = "local-cluster[0,1,1024]", "local-cluster", "local[1]"


def context(master: str) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.master(master).config("spark.ui.enabled", "false").getOrCreate().sparkContext


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (NO_WORKERS, "no executor has come in 1 s"),
        (NO_CLUSTER, "Spark has failed without an executor: .*Could not parse Master URL: 'local-cluster'"),
    ],
)
def test_spark_begins_again_without_executors(
    first: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "PYSPARK_PYTHON", sys.executable)  # what the image sets for its own Python
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.1)
    masters: list[str] = []

    def spark(executors: int) -> SparkRunner:
        masters.append(first if executors else THIS_PROCESS)
        return SparkRunner(lambda: context(masters[-1]), slots=1, task_bytes=1, patience=1.0 if executors else None)

    task = MergeTask(
        kind=EventKind.INSERT,
        bucket=0,
        inputs=(InputFile(str(DELTA)),),
        write_ids=f"d.t:1:{2**63 - 1}::",
        output=str(tmp_path / "merged"),
    )
    said: list[str] = []
    placed = PlacedRunner(Limits(ExecutorResources(), most=1), spark=spark, tell=said.append)
    try:
        (outcome,) = placed.run([SizedTask(task, 100, Load(rewritten=10**9))], lambda _: None)
    finally:
        placed.close()
    assert masters == [first, THIS_PROCESS]
    assert outcome.result is not None
    assert outcome.result.rows_out == 1
    assert re.fullmatch(f"{why}; done by Spark in the driver's pod", said[-1])
