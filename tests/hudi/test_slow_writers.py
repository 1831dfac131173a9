"""A writer whose query takes long has its instant from before it, and shows it only after it."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandbox.hudi.table import Ordering

from tests.hudi.conftest import MakeTable
from tests.hudi.job import LOG_COMPACTION, Jobs

THRESHOLD = {"hoodie.log.compaction.blocks.threshold": "2"}


@pytest.mark.only("1.0.2")
def test_a_log_compaction_beside_a_writer_who_has_not_shown_its_instant_yet_hides_none_of_its_rows(
    make_table: MakeTable, jobs: Jobs, tmp_path: Path
) -> None:
    """Spark's writer of 1.0 takes its instant first: the merged block must not be replayed over what it writes."""
    table = make_table(Ordering.COMMIT_TIME)
    at_work, go_on = tmp_path / "at-work", tmp_path / "go-on"
    for pipe in (at_work, go_on):
        os.mkfifo(pipe)

    def slowly(rows: Iterator[Any]) -> Iterator[Any]:
        found = list(rows)
        at_work.write_text("")
        go_on.read_text()
        return iter(found)

    rows = table.rows(range(40, 70), 50)
    slow = table.spark.createDataFrame(rows.rdd.coalesce(1).mapPartitions(slowly), rows.schema).repartition(1)
    writer = threading.Thread(target=table.write, args=(slow,), daemon=True)
    writer.start()
    at_work.read_text()
    status = jobs.done(table, LOG_COMPACTION, options=THRESHOLD)
    go_on.write_text("")
    writer.join()
    table.expect(range(40, 70), 50)
    assert status.blocks_in == 4
    table.check("after the writer's commit")
