"""Writers that always have a delta commit in progress, as Flink's have, and check no conflicts when it ends."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sandbox.hudi.look import merged_blocks, timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering, SmallTable

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.driver.hudi import flow
from tests.integration.hudi.conftest import MakeTable, Shared
from tests.integration.hudi.dying import writer_dies
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs
from tests.integration.hudi.test_slow_writers import writing

pytestmark = pytest.mark.metadata_table

EACH_TIME = {"hoodie.log.compaction.blocks.threshold": "2", "hoodie.compact.inline.max.delta.commits": "1"}
KINDS = pytest.mark.parametrize("kind", [LOG_COMPACTION, COMPACTION])

NON_BLOCKING = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.num.buckets": "1",
}
"""Several such writers may commit to one file group: their delta commits overlap, and none checks conflicts."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "LOOKS", 1)


@KINDS
def test_it_compacts_beside_a_delta_commit_and_hides_none_of_its_rows(
    make_table: MakeTable, jobs: Jobs, tmp_path: Path, kind: CompactionType
) -> None:
    """By commit time: by event time the writer's rows would lose, hidden or not."""
    table = make_table(Ordering.COMMIT_TIME)
    with writing(table, tmp_path, shown=True):
        assert jobs.done(table, kind, options=EACH_TIME).blocks_in == 4
        table.check("while the writer is at work")
    table.check("after the writer's commit")
    jobs.done(table, COMPACTION, options=EACH_TIME)
    table.check("after the next compaction")


@pytest.fixture
def make_non_blocking(hudi: HudiSession, shared: Shared, tmp_path: Path) -> Callable[[Ordering], SmallTable]:
    """Make a table whose log files of the bucket index may lie in file groups without a base file."""

    def make(ordering: Ordering) -> SmallTable:
        def write(location: Path) -> SmallTable:
            table = SmallTable(hudi.spark, location, ordering=ordering, options=NON_BLOCKING)
            for ids, ts in ((range(100), 10), (range(60), 20), (range(20, 80), 30)):
                table.upsert(ids, ts)
            return table

        return shared(f"non-blocking-{ordering}", write).copy_to(tmp_path / "table")

    return make


@pytest.mark.parametrize(
    ("kind", "ordering"),
    [(LOG_COMPACTION, Ordering.COMMIT_TIME), (COMPACTION, Ordering.COMMIT_TIME), (COMPACTION, Ordering.EVENT_TIME)],
)
def test_it_compacts_beside_non_blocking_writers(
    make_non_blocking: Callable[[Ordering], SmallTable],
    jobs: Jobs,
    tmp_path: Path,
    kind: CompactionType,
    ordering: Ordering,
) -> None:
    """NB: by event time the writer's rows lose, hidden or not, so that case is there for the merge alone."""
    table = make_non_blocking(ordering)
    with writing(table, tmp_path, shown=True):
        jobs.done(table, kind, options=EACH_TIME)
        table.check("while the writer is at work")
    table.check("after the writer's commit")
    jobs.done(table, COMPACTION, options=EACH_TIME)
    table.check("after the next compaction")


@pytest.mark.only("1.0.2")
@pytest.mark.metadata_table(False)
@KINDS
def test_in_version_6_a_delta_commit_that_never_ends_is_waited_for_and_named(
    hudi: HudiSession, make_table: MakeTable, jobs: Jobs, kind: CompactionType
) -> None:
    """Its log files would belong to the compacted slice, where no reader looks at them any more."""
    table = make_table(Ordering.COMMIT_TIME, version="6")
    pending = writer_dies(table, range(30), 50)
    before = timeline(table.location)
    result = jobs.run(table, kind, options=EACH_TIME)
    assert result.reason is Reason.WAITING_FOR_INSTANT
    assert f"delta commit {pending} is pending" in result.message
    assert timeline(table.location) == before


@pytest.mark.only("1.0.2")
def test_in_version_6_the_delta_commit_of_a_dead_writer_is_waited_for_until_the_cleaner_rolls_it_back(
    make_table: MakeTable, jobs: Jobs
) -> None:
    table = make_table(Ordering.COMMIT_TIME, version="6")
    pending = writer_dies(table, range(30), 50)
    options = EACH_TIME | {"hoodie.rollback.using.markers": "false"}
    assert jobs.run(table, COMPACTION, options=options, clean=True).reason is Reason.WAITING_FOR_INSTANT
    assert not [name for name in timeline(table.location) if name.startswith(pending)]
    jobs.done(table, COMPACTION, options=options)
    table.check("after the compaction")


def test_beside_a_delta_commit_that_never_ends_all_that_is_older_is_merged(
    hudi: HudiSession, make_table: MakeTable, jobs: Jobs
) -> None:
    table = make_table(Ordering.COMMIT_TIME)
    writer_dies(table, range(30), 50)
    for _ in range(2):
        jobs.run(table, LOG_COMPACTION, options=EACH_TIME)
    (merged,) = merged_blocks(hudi, table.location)
    assert len(merged.merged) == 4
    table.check("after it")
