"""One table of each version, 6, 8 and 9: log compaction, then a compaction, then the cleaner, by the operator's job."""

import pytest
from sandbox.hudi.look import log_files
from sandbox.hudi.table import Ordering

from tests.hudi.conftest import MakeTable
from tests.hudi.job import COMPACTION, LOG_COMPACTION, Jobs
from tests.hudi.somebody import LATEST_ONLY

OPTIONS = {
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.compact.inline.max.delta.commits": "1",
    **LATEST_ONLY,
}


def compacted(make_table: MakeTable, jobs: Jobs, *, version: int, bundle: str) -> None:
    """Compact a table of a version, and see that the operator takes that bundle by itself."""
    table = make_table(Ordering.EVENT_TIME, version=str(version))
    properties = (table.location / ".hoodie/hoodie.properties").read_text().splitlines()
    assert f"hoodie.table.version={version}" in properties
    status = jobs.done(table, LOG_COMPACTION, options=OPTIONS, bundle=None)
    assert (status.table_version, status.bundle) == (version, bundle)
    assert (status.blocks_in, status.blocks_out) == (4, 1)
    table.check("after the log compaction")
    table.upsert(range(60, 95), 35)
    jobs.done(table, COMPACTION, options=OPTIONS, clean=True)
    assert not log_files(table.location)
    table.check("after the compaction")
    assert f"hoodie.table.version={version}" in (table.location / ".hoodie/hoodie.properties").read_text().splitlines()


@pytest.mark.only("1.0.2")
@pytest.mark.parametrize("version", [6, 8])
def test_versions_6_and_8_are_served_by_1_0_2(make_table: MakeTable, jobs: Jobs, version: int) -> None:
    compacted(make_table, jobs, version=version, bundle="1.0.2")


@pytest.mark.only("1.2.0")
def test_version_9_is_served_by_1_2_0(make_table: MakeTable, jobs: Jobs) -> None:
    compacted(make_table, jobs, version=9, bundle="1.2.0")
