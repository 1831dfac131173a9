"""Writers whose query takes long, on tables whose readers replay a merged block at its own instant, or last."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from sandbox.hudi.look import actions, timeline
from sandbox.hudi.table import Ordering, SmallTable

from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hudi import flow
from compaction_operator.hudi import HudiError
from tests.integration.hudi.conftest import MakeTable
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs

pytestmark = pytest.mark.metadata_table

THRESHOLD = {"hoodie.log.compaction.blocks.threshold": "2"}
IDS, TS = range(40, 70), 5
"""What is written: smaller in every way than what is there, so that commit time alone decides."""


def slow(table: SmallTable, at_work: Path, go_on: Path) -> DataFrame:
    """Return rows of a query that opens one pipe when it has begun, and goes on when the other one is opened."""

    def slowly(rows: Iterator[Any]) -> Iterator[Any]:
        found = list(rows)
        at_work.write_text("")
        go_on.read_text()
        return iter(found)

    rows = table.rows(IDS, TS)
    return table.spark.createDataFrame(rows.rdd.coalesce(1).mapPartitions(slowly), rows.schema)


@contextmanager
def writing(table: SmallTable, folder: Path, *, shown: bool) -> Iterator[None]:
    """Have the query of a write run meanwhile, and the write end after; its instant is on the timeline, or not yet."""
    at_work, go_on = folder / "at-work", folder / "go-on"
    for pipe in (at_work, go_on):
        os.mkfifo(pipe)
    rows = slow(table, at_work, go_on)
    # A shuffle is done before the instant is shown, all else after.
    writer = threading.Thread(target=table.write, args=(rows if shown else rows.repartition(1),), daemon=True)
    before = timeline(table.location)
    writer.start()
    at_work.read_text()
    assert (timeline(table.location) != before) is shown
    yield
    go_on.write_text("")
    writer.join()
    table.expect(IDS, TS)


@pytest.mark.only("1.0.2")
@pytest.mark.parametrize("shown", [False, True], ids=["not-shown-yet", "shown"])
def test_a_log_compaction_beside_a_writer_hides_none_of_its_rows(
    make_table: MakeTable, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: bool
) -> None:
    """Spark's writer of 1.0 takes its instant first: the merged block must not be replayed over what it writes."""
    monkeypatch.setattr(flow, "LOOKS", 1)
    table = make_table(Ordering.COMMIT_TIME)
    with writing(table, tmp_path, shown=shown):
        assert jobs.done(table, LOG_COMPACTION, options=THRESHOLD).blocks_in == 4
    table.check("after the writer's commit")


@pytest.mark.only("1.0.2")
@pytest.mark.metadata_table(False)
def test_in_version_6_what_was_written_since_the_plan_is_not_hidden_by_it(make_table: MakeTable, jobs: Jobs) -> None:
    """Its log files are read by their numbers: the merged block would come last, though its instant is older."""
    table = make_table(Ordering.COMMIT_TIME, version="6")
    planned = jobs.run(table, LOG_COMPACTION, options=THRESHOLD, mode="Schedule").hudi
    assert planned is not None
    assert planned.instant is not None
    table.upsert(IDS, TS)
    with pytest.raises(JobError, match="overtaken") as caught:
        jobs.run(table, LOG_COMPACTION, options=THRESHOLD, mode="Execute")
    assert caught.value.reason is Reason.WAITING_FOR_INSTANT
    assert actions(table.location, planned.instant) == []
    table.check("after the rollback")
    jobs.done(table, LOG_COMPACTION, options=THRESHOLD)
    table.check("after the next")


@pytest.mark.parametrize("single_writer", [True, False])
def test_in_version_6_a_table_with_a_metadata_table_gets_no_log_compaction(
    make_table: MakeTable, jobs: Jobs, single_writer: bool
) -> None:
    """A writer would take the merged file into its commit, named wrong by a plain path: then no client lists the table.

    NB: a fault of Hudi's, as between two writers. Without the refusal, a writer that commits while the plan is executed
    sees it: reading ends with `Expected scheme-specific part at index 5: file:`.
    """
    table = make_table(Ordering.COMMIT_TIME, version="6")
    before = timeline(table.location)
    with pytest.raises(HudiError, match="version 6 and a metadata table"):
        jobs.run(table, LOG_COMPACTION, options=THRESHOLD, single_writer=single_writer)
    assert timeline(table.location) == before
    jobs.done(table, COMPACTION, options={"hoodie.compact.inline.max.delta.commits": "1"})
    table.check("after a full compaction")
