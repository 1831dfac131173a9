"""Tables of version 6, 8 and 9: which bundle takes them by itself, which may, and that none makes another of them."""

import pytest
from sandbox.hudi.look import log_files
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering, SmallTable

from tests.integration.hudi.conftest import NEWEST, MakeTable
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs
from tests.integration.hudi.other_client import LATEST_ONLY

OPTIONS = {
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.compact.inline.max.delta.commits": "1",
    **LATEST_ONLY,
}


def is_of_version(table: SmallTable, version: str) -> bool:
    """Whether a table's own properties say so."""
    properties = (table.location / ".hoodie/hoodie.properties").read_text().splitlines()
    return f"hoodie.table.version={version}" in properties


def test_the_newest_version_of_a_bundle_is_served_by_it(hudi: HudiSession, table: SmallTable, jobs: Jobs) -> None:
    version = NEWEST[hudi.version]
    assert is_of_version(table, version)
    status = jobs.done(table, LOG_COMPACTION, options=OPTIONS, bundle=None)
    assert (status.table_version, status.bundle) == (int(version), hudi.version)
    assert is_of_version(table, version)


def compacted(make_table: MakeTable, jobs: Jobs, *, version: str, asked: str | None, bundle: str) -> None:
    """Merge, compact and clean a table of an older version; see that it stays one."""
    table = make_table(Ordering.EVENT_TIME, version=version)
    assert is_of_version(table, version)
    status = jobs.done(table, LOG_COMPACTION, options=OPTIONS, bundle=asked)
    assert (status.table_version, status.bundle) == (int(version), bundle)
    assert (status.blocks_in, status.blocks_out) == (4, 1)
    table.check("after the log compaction")
    table.upsert(range(60, 95), 35)
    jobs.done(table, COMPACTION, options=OPTIONS, bundle=asked, clean=True)
    assert not log_files(table.location)
    table.check("after the compaction")
    assert is_of_version(table, version)


@pytest.mark.only("1.0.2")
def test_version_6_is_served_by_1_0_2(make_table: MakeTable, jobs: Jobs) -> None:
    compacted(make_table, jobs, version="6", asked=None, bundle="1.0.2")


@pytest.mark.only("1.2.0")
@pytest.mark.parametrize(("version", "asked"), [("6", "1.2.0"), ("8", None)])
def test_versions_6_and_8_are_served_by_1_2_0_if_it_made_them_or_is_asked_to(
    make_table: MakeTable, jobs: Jobs, version: str, asked: str | None
) -> None:
    """1.0.2 does not know the name that 1.2.0 gives the ordering field: it would let late rows win."""
    compacted(make_table, jobs, version=version, asked=asked, bundle="1.2.0")
