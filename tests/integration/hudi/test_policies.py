"""What a policy knows of a real table by the names of its files, beside what Hudi itself decides."""

from datetime import UTC, datetime

import pytest
from sandbox.hudi.look import log_files
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import SmallTable

from compaction_operator.api.config import HudiSettings, Metastore, Warehouse
from compaction_operator.api.policy import CompactionPolicySpec, HudiTemplate, PolicyTemplate, Tables, Thresholds
from compaction_operator.controller.timelines import Timelines
from compaction_operator.metastore import Table
from compaction_operator.policy.timeline import TimelineMeasure
from compaction_operator.storage import LocalStorage
from tests.integration.hudi.conftest import NEWEST, MakeOtherClient, MakeTable
from tests.integration.hudi.job import COMPACTION as FULL
from tests.integration.hudi.job import LOG_COMPACTION as LOG
from tests.integration.hudi.job import Jobs
from tests.integration.hudi.other_client import COMPACTION

COMMITS = "hoodie.compact.inline.max.delta.commits"
BLOCKS = "hoodie.log.compaction.blocks.threshold"
REALTIME = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
VERSIONS = pytest.mark.parametrize("version", ["6", None], ids=["version 6", "newest"])


def seen(table: SmallTable) -> TimelineMeasure | None:
    """Return what a policy's look sees of a table, None if there is nothing to merge. Anything is due."""
    spec = CompactionPolicySpec(
        warehouse="main",
        tables=Tables(include=("*.*",)),
        thresholds=Thresholds(delta_commits=1, log_blocks=2),
        template=PolicyTemplate(hudi=HudiTemplate(single_writer=True)),
    )
    locations = (table.uri,)
    warehouse = Warehouse(
        name="main",
        metastore=Metastore(uris=("thrift://unused:9083",)),
        namespaces=("team",),
        locations=locations,
        hudi=HudiSettings(locations=locations),
    )
    look = Timelines(lambda _: LocalStorage(), warehouse, spec, datetime.now(UTC), {})
    state = look.state("a.small", Table("a", "small", table.uri, 0, REALTIME, "", ()), None)
    assert state.problem is None, state.problem
    measures = [one.measure for one in state.partitions]
    assert all(isinstance(one, TimelineMeasure) for one in measures)
    return measures[0] if measures and isinstance(measures[0], TimelineMeasure) else None


@VERSIONS
def test_delta_commits_are_counted_as_hudi_counts_them(
    hudi: HudiSession, make_table: MakeTable, other_client: MakeOtherClient, version: str | None
) -> None:
    """Hudi plans a compaction from so many on, and none below."""
    table = make_table(version=version or NEWEST[hudi.version])
    for _ in range(2):
        found = seen(table)
        assert found
        assert other_client(table, {COMMITS: str(found.delta_commits + 1)}).schedule(COMPACTION) is None
        table.upsert(range(20), 50)
    found = seen(table)
    assert found
    assert found.delta_commits == found.log_blocks == 7
    pending = other_client(table, {COMMITS: "7"}).schedule(COMPACTION)
    assert pending
    assert seen(table) == found


@VERSIONS
def test_log_files_are_those_of_the_newest_slices(
    hudi: HudiSession, make_table: MakeTable, jobs: Jobs, version: str | None
) -> None:
    table = make_table(version=version or NEWEST[hudi.version])
    found, files = seen(table), log_files(table.location)
    assert found
    assert (found.sizes.logs.files, found.sizes.logs.groups) == (len(files), 1)
    assert found.sizes.logs.bytes == sum(file.stat().st_size for file in files)
    jobs.done(table, LOG, options={BLOCKS: "2"})
    merged = seen(table)
    assert merged
    assert (merged.delta_commits, merged.log_blocks) == (5, 0)
    table.upsert(range(20), 60)
    jobs.done(table, FULL, options={COMMITS: "1"})
    assert seen(table) is None
    table.upsert(range(20), 70)
    last = seen(table)
    assert last
    assert (last.delta_commits, last.log_blocks, last.sizes.logs.files) == (1, 1, 1)
