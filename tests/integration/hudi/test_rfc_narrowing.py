"""RFC-48, "Disadvantages": only the small consecutive blocks are merged, a large one is left alone."""

from pathlib import Path

import pytest
from sandbox.hudi.look import log_blocks, log_files, merged_blocks, timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering, SmallTable

from compaction_operator.api.request import Reason
from compaction_operator.driver.hudi import flow
from compaction_operator.hudi import HudiError
from tests.integration.hudi import other_client as by_hand
from tests.integration.hudi.conftest import NEWEST, MakeOtherClient, MakeTable, Shared
from tests.integration.hudi.dying import writer_dies
from tests.integration.hudi.headers import read_alike
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs

THRESHOLD = "hoodie.log.compaction.blocks.threshold"
TWO = {THRESHOLD: "2"}
EACH_TIME = {"hoodie.compact.inline.max.delta.commits": "1"}

SMALL = 20_000
"""More than a log file of a seed has, less than the large one has."""


@pytest.fixture
def with_a_large_block(seeds: MakeTable, shared: Shared, hudi: HudiSession, tmp_path: Path) -> MakeTable:
    """Make a table of four small log files, a large one over all their rows, and two small ones over that.

    By commit time: by event time rows are right in whatever order their blocks are read.
    """

    def make(version: str) -> SmallTable:
        def write(location: Path) -> SmallTable:
            table = seeds(Ordering.COMMIT_TIME, version).copy_to(location)
            table.upsert(range(120), 25, width=30)
            table.upsert(range(40, 60), 50)
            table.upsert(range(50, 70), 22)
            return table

        table = shared(f"large-block-{version}", write).copy_to(tmp_path / "large-block")
        assert [path.stat().st_size > SMALL for path in log_files(table.location)] == [*[False] * 4, True, False, False]
        return table

    return lambda version=NEWEST[hudi.version]: make(version)


def narrowed(hudi: HudiSession, table: SmallTable, jobs: Jobs, *, newest: bool) -> None:
    """Merge small blocks: see that it is the two newest, else the four oldest, and that rows stay right."""
    instants = [block.instant for block in log_blocks(hudi, table.location)]
    status = jobs.done(table, LOG_COMPACTION, options=TWO, max_log_file_size_to_merge=SMALL)
    (merged,) = merged_blocks(hudi, table.location)
    wanted = instants[5:] if newest else instants[:4]
    assert merged.merged == frozenset(wanted)
    assert status.blocks_in == len(wanted)
    table.check("after the log compaction")
    table.upsert(range(45, 65), 45)
    table.check("with a block on top")
    jobs.done(table, COMPACTION, options=EACH_TIME)
    table.check("after the compaction")


def test_a_run_of_small_blocks_is_merged_and_a_large_block_left_alone(
    hudi: HudiSession, with_a_large_block: MakeTable, jobs: Jobs
) -> None:
    """1.2.0 merges the longer run, below the large block; on 1.0.2 only the newest blocks may be merged."""
    narrowed(hudi, with_a_large_block(), jobs, newest=hudi.version == "1.0.2")


@pytest.mark.only("1.2.0")
def test_with_1_2_0_only_the_newest_blocks_are_merged_of_tables_that_1_0_reads(
    hudi: HudiSession, with_a_large_block: MakeTable, jobs: Jobs
) -> None:
    narrowed(hudi, with_a_large_block("8"), jobs, newest=True)


def test_a_merged_block_is_not_written_again_while_it_is_large(
    hudi: HudiSession, make_table: MakeTable, jobs: Jobs
) -> None:
    table = make_table(Ordering.COMMIT_TIME)
    jobs.done(table, LOG_COMPACTION, options=TWO)
    (first,) = merged_blocks(hudi, table.location)
    limit = first.file.stat().st_size - 1
    table.upsert(range(10), 50)
    result = jobs.run(table, LOG_COMPACTION, options=TWO, max_log_file_size_to_merge=limit)
    assert result.reason is Reason.NOTHING_TO_COMPACT
    assert result.message == f"1 consecutive block of at most {limit} bytes, threshold 2"
    table.upsert(range(5, 15), 45)
    status = jobs.done(table, LOG_COMPACTION, options=TWO, max_log_file_size_to_merge=limit)
    assert status.blocks_in == 2
    second = merged_blocks(hudi, table.location)[-1]
    assert not second.merged & {first.instant, *first.merged}
    table.check("after the second log compaction")
    jobs.done(table, COMPACTION, options=EACH_TIME)
    table.check("after the compaction")


@pytest.mark.parametrize(
    ("ordering", "version"), [(Ordering.COMMIT_TIME, None), (Ordering.EVENT_TIME, "6")], ids=["newest", "6"]
)
def test_merged_blocks_are_merged_again_with_their_originals(
    make_table: MakeTable, jobs: Jobs, ordering: Ordering, version: str | None
) -> None:
    """In version 6 a log file says nothing of its instants by its name."""
    table = make_table(ordering, version=version)
    jobs.done(table, LOG_COMPACTION, options=TWO)
    table.upsert(range(10), 50)
    table.upsert(range(5, 95), 12)
    status = jobs.done(table, LOG_COMPACTION, options=TWO)
    assert (status.blocks_in, status.blocks_out) == (3, 1)
    table.check("after the second log compaction")
    jobs.done(table, COMPACTION, options=EACH_TIME)
    table.check("after the compaction")


def test_a_run_never_goes_across_a_pending_delta_commit(
    hudi: HudiSession, make_table: MakeTable, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On 1.0.2 it is newer than all that is pending, as its readers put the merged block there."""
    monkeypatch.setattr(flow, "LOOKS", 1)
    table = make_table(Ordering.COMMIT_TIME, options=by_hand.SHARED)
    older = [block.instant for block in log_blocks(hudi, table.location)]
    pending = writer_dies(table, range(70), 90)
    for ids, ts in ((range(55, 75), 35), (range(60, 80), 36), (range(65, 85), 37)):
        table.upsert(ids, ts)
    result = jobs.run(table, LOG_COMPACTION, options={THRESHOLD: "5"})
    assert result.reason is Reason.WAITING_FOR_INSTANT
    assert f"delta commit {pending} is pending" in result.message
    assert not merged_blocks(hudi, table.location)
    newer = {block.instant for block in log_blocks(hudi, table.location)} - {pending, *older}
    assert jobs.done(table, LOG_COMPACTION, options=TWO).blocks_in == (3 if hudi.version == "1.0.2" else 4)
    (merged,) = merged_blocks(hudi, table.location)
    assert merged.merged == (newer if hudi.version == "1.0.2" else set(older))
    table.check("after the log compaction")


@pytest.mark.only("1.2.0")
def test_why_a_run_has_no_gaps(with_a_large_block: MakeTable, other_client: MakeOtherClient) -> None:
    """Merged across a large block that is left out, old rows come to lie above its own."""
    wrong = merged_by_hand(with_a_large_block(), other_client, [0, 1, 5, 6])
    with pytest.raises(AssertionError, match="they differ"):
        wrong.check("after a log compaction with a gap")


@pytest.mark.only("1.0.2")
def test_why_a_run_on_1_0_2_ends_with_the_newest_block(
    with_a_large_block: MakeTable, other_client: MakeOtherClient
) -> None:
    """The first scanner replays a merged block after all that was there when it was made."""
    wrong = merged_by_hand(with_a_large_block(), other_client, [0, 1, 2, 3])
    with pytest.raises(AssertionError, match="they differ"):
        wrong.check("after a log compaction below a large block")


def merged_by_hand(table: SmallTable, other_client: MakeOtherClient, places: list[int]) -> SmallTable:
    """Merge just the log files at these places, which the operator would not do."""
    client = other_client(table, TWO)
    instant = client.schedule(by_hand.LOG_COMPACTION)
    assert instant
    names = [path.name for path in log_files(table.location)]
    client.narrow(instant, [names[place] for place in places])
    client.run(by_hand.LOG_COMPACTION, instant)
    return table


def change_columns(hudi: HudiSession, table: SmallTable) -> None:
    """Change one column of some rows, twice of others."""
    hudi.spark.sql(f"create table partial using hudi location '{table.location}'")
    hudi.spark.conf.set("hoodie.compact.inline", "false")
    for ids, ts in ((range(20), 60), (range(10, 30), 70)):
        changed = f"select id, cast({ts} as long) ts from range({ids.start}, {ids.stop})"
        hudi.spark.sql(
            f"merge into partial t using ({changed}) s on t.id = s.id when matched then update set t.ts = s.ts"
        )
        table.expected |= {number: table.expected[number]._replace(ts=ts) for number in ids}
    hudi.spark.conf.unset("hoodie.compact.inline")
    hudi.spark.sql("drop table partial")


def test_blocks_of_changed_columns_only_are_left_alone(hudi: HudiSession, table: SmallTable, jobs: Jobs) -> None:
    """MERGE INTO writes them; Hudi would merge them among themselves and lose the columns that did not change."""
    change_columns(hudi, table)
    table.check("before")
    instants = [block.instant for block in log_blocks(hudi, table.location)]
    assert len(instants) == 6
    assert [file.partial for file in read_alike(hudi, table.location)] == [False] * 4 + [True] * 2
    result = jobs.run(table, LOG_COMPACTION, options=TWO)
    wanted = [] if hudi.version == "1.0.2" else instants[:4]
    assert [block.merged for block in merged_blocks(hudi, table.location)] == [frozenset(wanted)] * bool(wanted), result
    table.check("after the log compaction")
    jobs.done(table, COMPACTION, options=EACH_TIME)
    table.check("after the compaction")


def test_changed_columns_are_not_compacted_by_a_release_that_cannot_merge_them(
    hudi: HudiSession, seeds: MakeTable, jobs: Jobs, other_client: MakeOtherClient, tmp_path: Path
) -> None:
    """By commit time 1.0 fails after its compaction has begun, and the file group stays blocked.

    Another client's plan is not run either; beside it the newest file slice has none of them.
    """
    table = seeds(Ordering.COMMIT_TIME, NEWEST[hudi.version]).copy_to(tmp_path / "changed")
    change_columns(hudi, table)
    before = timeline(table.location)
    if hudi.version == "1.0.2":
        with pytest.raises(HudiError, match=r"contain changed columns only .* set hudi.bundle to 1.2.0"):
            jobs.run(table, COMPACTION, options=EACH_TIME)
        assert timeline(table.location) == before
        assert other_client(table).schedule(by_hand.COMPACTION)
        before = timeline(table.location)
        with pytest.raises(HudiError, match="contain changed columns only"):
            jobs.run(table, COMPACTION, options=EACH_TIME, all_instants=True)
        assert timeline(table.location) == before
        return
    jobs.done(table, COMPACTION, options=EACH_TIME)
    table.check("after the compaction")
