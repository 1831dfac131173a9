"""Rows that stay the same for every reader: tables of real 0.15, and deletes by event time."""

import os
import shutil
from pathlib import Path

import pytest
from hudi import HudiTableBuilder
from sandbox.hudi.look import timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering, Row, SmallTable

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.hudi import HudiError, read_table
from compaction_operator.hudi.clocks import instant_seconds
from compaction_operator.hudi.merging import PAYLOADS
from compaction_operator.storage import open_storage
from tests.integration.hudi.conftest import MakeTable
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs

FIXTURE = Path(__file__).parents[2] / "fixtures/hudi-0.15.0/commit_time"
ROWS = {0: 15, 1: 30, 2: 20, 3: 20, 4: 30, 6: 10, 7: 10, 8: 10, 9: 10}
"""By id, the `ts` of the row that 0.15 itself reads there."""

EACH_TIME = {"hoodie.log.compaction.blocks.threshold": "2", "hoodie.compact.inline.max.delta.commits": "1"}


@pytest.fixture
def of_0_15(hudi: HudiSession, tmp_path: Path) -> SmallTable:
    """A table that 0.15.0 made without an ordering field, its timeline's files as old as their instants."""
    location = tmp_path / "of-0.15"
    shutil.copytree(FIXTURE, location)
    for file in location.glob(".hoodie/*.deltacommit*"):
        seconds = instant_seconds(file.name.partition(".")[0])
        os.utime(file, (seconds, seconds))
    table = SmallTable(hudi.spark, location, ordering=Ordering.COMMIT_TIME)
    table.expected = {number: Row(ts, f"{number}-{ts}-") for number, ts in ROWS.items()}
    return table


def without_a_jvm(table: SmallTable) -> dict[int, int]:
    """Return `ts` by id as the `hudi` package reads the table."""
    found = HudiTableBuilder.from_base_uri(table.uri).build().read()
    return {row["id"]: row["ts"] for batch in found for row in batch.to_pylist()}


def test_a_table_of_0_15_without_an_ordering_field_keeps_its_rows(of_0_15: SmallTable, jobs: Jobs) -> None:
    of_0_15.check("as 0.15 wrote it")
    status = jobs.done(of_0_15, LOG_COMPACTION, options=EACH_TIME)
    assert (status.table_version, status.blocks_in, status.blocks_out) == (6, 4, 1)
    of_0_15.check("after the log compaction")
    jobs.done(of_0_15, COMPACTION, options=EACH_TIME)
    of_0_15.check("after the compaction")
    assert without_a_jvm(of_0_15) == ROWS


def test_a_table_of_0_15_with_its_default_payload_and_an_ordering_field_is_refused(
    of_0_15: SmallTable, jobs: Jobs
) -> None:
    """A full compaction by 1.0.2 or 1.2.0 would keep a late row of smaller ordering, which 0.15 does not show."""
    properties = of_0_15.location / ".hoodie/hoodie.properties"
    properties.write_text(f"{properties.read_text()}hoodie.table.precombine.field=ts\n")
    for kind in (LOG_COMPACTION, COMPACTION):
        with pytest.raises(HudiError, match=r"made by a release before 1\.0"):
            jobs.run(of_0_15, kind, options=EACH_TIME)


@pytest.mark.only("1.0.2")
def test_1_0_leaves_deletes_by_event_time_alone(make_table: MakeTable, jobs: Jobs) -> None:
    """Its merged block would lose them, and then readers of other releases see the rows again."""
    table = make_table(Ordering.EVENT_TIME)
    table.delete(range(45, 55))
    table.upsert(range(60, 70), 50)
    before = without_a_jvm(table)
    result = jobs.run(table, LOG_COMPACTION, options=EACH_TIME)
    assert result.reason is Reason.NOTHING_TO_COMPACT
    assert "hudi.bundle: 1.2.0" in result.message
    assert without_a_jvm(table) == before


@pytest.mark.only("1.0.2")
def test_a_table_whose_payload_merges_columns_is_refused_by_name(hudi: HudiSession, jobs: Jobs, tmp_path: Path) -> None:
    """A log compaction by 1.0.2 would keep the older columns of it, for readers of 1.2."""
    payload = "OverwriteNonDefaultsWithLatestAvroPayload"
    named = {"hoodie.datasource.write.payload.class": f"org.apache.hudi.common.model.{payload}"}
    table = SmallTable(hudi.spark, tmp_path / "table", options=named)
    # As users write: the merge mode follows from the payload class.
    del table.options["hoodie.record.merge.mode"]
    for ids, ts in ((range(20), 10), (range(9), 20), (range(6), 30)):
        table.upsert(ids, ts)
    before = timeline(table.location)
    for kind in (LOG_COMPACTION, COMPACTION, CompactionType.CLEAN):
        with pytest.raises(HudiError, match=payload) as refused:
            jobs.run(table, kind, options=EACH_TIME)
        assert refused.value.reason is Reason.UNSUPPORTED_TABLE
    assert timeline(table.location) == before


BY_ARRIVAL = {
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.payload.class": PAYLOADS[Ordering.COMMIT_TIME.value],
}
"""A table by commit time that has an ordering field all the same."""


def test_by_commit_time_a_late_row_wins_in_a_table_with_an_ordering_field_too(
    hudi: HudiSession, jobs: Jobs, tmp_path: Path
) -> None:
    table = SmallTable(hudi.spark, tmp_path / "table", ordering=Ordering.COMMIT_TIME, options=BY_ARRIVAL)
    for ids, ts in ((range(20), 10), (range(9), 30), (range(6), 20), (range(3), 15)):
        table.upsert(ids, ts)
    by_ts = {key: row.ts for key, row in table.expected.items()}
    assert read_table(open_storage(table.uri), table.uri).ordering_fields == ("ts",)
    for kind in (LOG_COMPACTION, COMPACTION):
        table.check("before")
        assert without_a_jvm(table) == by_ts
        jobs.done(table, kind, options=EACH_TIME)
    table.check("after")
    assert without_a_jvm(table) == by_ts
