"""The operator's job on real tables: plans, runs, retries and cleans; what is not its own it leaves alone."""

import pytest
from bench.written import By, Commit, commits
from sandbox.hudi.look import actions, base_files, log_files, merged_blocks, timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering, SmallTable

from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from tests.integration.hudi import other_client as by_hand
from tests.integration.hudi.conftest import BOTH_ORDERINGS, MakeOtherClient, MakeTable
from tests.integration.hudi.dying import grow_old, log_compaction_dies
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs

THRESHOLD = "hoodie.log.compaction.blocks.threshold"
TWO = {THRESHOLD: "2"}
EACH_TIME = {"hoodie.compact.inline.max.delta.commits": "1"}

OLDEST = {"1.0.2": "6", "1.2.0": "9"}
"""The oldest version of tables that each takes by itself. NB: in 6 log files are not named by their own instants."""


def begun(table: SmallTable, action: str) -> bool:
    """Whether something of that action is between its plan and its commit."""
    return any(name.endswith(f".{action}.inflight") for name in timeline(table.location))


def amplification(written: list[Commit]) -> str:
    """What the status calls write amplification, of files as they lie there."""
    by_writers = sum(one.bytes for one in written if one.by in (By.LOAD, By.UPSERTS))
    return f"{sum(one.bytes for one in written) / by_writers:.2f}"


@BOTH_ORDERINGS
def test_a_log_compaction_then_a_compaction_with_clean(
    hudi: HudiSession, make_table: MakeTable, jobs: Jobs, ordering: Ordering
) -> None:
    table = make_table(ordering)
    sizes = [path.stat().st_size for path in log_files(table.location)]
    status = jobs.done(table, LOG_COMPACTION, options=TWO)
    (merged,) = merged_blocks(hudi, table.location)
    assert (status.instant, status.state, status.action) == (merged.instant, "Completed", "logcompaction")
    assert (status.file_groups, status.blocks_in, status.blocks_out) == (1, 4, 1)
    assert (status.bytes_in, status.bytes_out) == (sum(sizes), merged.file.stat().st_size)
    assert status.write_amplification == amplification(commits(table.location))
    table.check("after the log compaction")
    table.upsert(range(60, 80), 35)
    written = commits(table.location)
    status = jobs.done(table, COMPACTION, options=EACH_TIME | by_hand.LATEST_ONLY, clean=True)
    assert (status.action, status.file_groups, status.blocks_in, status.blocks_out) == ("compaction", 1, 2, 0)
    assert status.bytes_out == max(base_files(table.location), key=lambda path: path.stat().st_mtime).stat().st_size
    compacted = commits(table.location)[-1]
    assert (compacted.time, compacted.by, compacted.bytes) == (status.instant, By.COMPACTION, status.bytes_out)
    assert status.write_amplification == amplification([*written, compacted])
    assert not log_files(table.location)
    table.check("after the compaction and the clean")
    for ids in (range(20), range(10, 30)):
        table.upsert(ids, 50)
    status = jobs.done(table, LOG_COMPACTION, options=TWO)
    since = [one for one in commits(table.location) if one.time > compacted.time]
    assert [one.by for one in since] == [By.UPSERTS, By.UPSERTS, By.LOG_COMPACTION]
    assert status.write_amplification == amplification(since)


def test_too_few_blocks_are_left_alone_and_counted(table: SmallTable, jobs: Jobs) -> None:
    before = timeline(table.location)
    result = jobs.run(table, LOG_COMPACTION)
    assert (result.reason, result.message) == (Reason.NOTHING_TO_COMPACT, "4 blocks, threshold 5")
    assert timeline(table.location) == before


def test_a_plan_may_be_made_by_one_job_and_run_by_another(hudi: HudiSession, make_table: MakeTable, jobs: Jobs) -> None:
    table = make_table(version=OLDEST[hudi.version])
    nothing = jobs.run(table, LOG_COMPACTION, options=TWO, mode="Execute")
    assert nothing.reason is Reason.NOTHING_TO_COMPACT
    planned = jobs.run(table, LOG_COMPACTION, options=TWO, mode="Schedule")
    assert planned.reason is Reason.SCHEDULED
    assert planned.hudi is not None
    assert planned.hudi.instant is not None
    assert actions(table.location, planned.hudi.instant) == ["logcompaction.requested"]
    done = jobs.done(table, LOG_COMPACTION, uid="another", options=TWO, mode="Execute")
    assert done.instant == planned.hudi.instant
    table.check("after the run")


def test_a_job_that_lost_its_lease_commits_no_log_compaction_and_the_next_plans_again(
    hudi: HudiSession, make_table: MakeTable, jobs: Jobs
) -> None:
    table = make_table(version=OLDEST[hudi.version])
    with pytest.raises(JobError, match="lost"):
        jobs.run(table, LOG_COMPACTION, options=TWO, lost=lambda: begun(table, "logcompaction"))
    assert not [name for name in timeline(table.location) if name.endswith(".rollback")]
    table.upsert(range(55, 65), 35)
    table.check("with a dead log compaction")
    status = jobs.done(table, LOG_COMPACTION, options=TWO)
    (dead,) = status.rolled_back
    assert actions(table.location, dead) == []
    (merged,) = [block for block in merged_blocks(hudi, table.location) if block.instant == status.instant]
    assert len(merged.merged - {dead}) == len(merged.merged) == status.blocks_in == 5
    assert status.pending == ()
    table.check("after the next")


def test_a_compaction_that_was_cut_short_is_run_again_as_it_was_planned(table: SmallTable, jobs: Jobs) -> None:
    with pytest.raises(JobError, match="lost"):
        jobs.run(table, COMPACTION, options=EACH_TIME, lost=lambda: begun(table, "compaction"))
    (begun_one,) = [name for name in timeline(table.location) if name.endswith(".compaction.inflight")]
    table.upsert(range(55, 65), 35)
    status = jobs.done(table, COMPACTION, options=EACH_TIME, mode="Execute")
    assert begun_one.startswith(f"{status.instant}.")
    table.check("after the second try")


def test_a_plan_that_a_later_compaction_made_impossible_is_removed(
    table: SmallTable, jobs: Jobs, other_client: MakeOtherClient
) -> None:
    planned = jobs.run(table, LOG_COMPACTION, options=TWO, mode="Schedule").hudi
    assert planned is not None
    assert planned.instant is not None
    other_client(table).all_of(by_hand.COMPACTION)
    result = jobs.run(table, LOG_COMPACTION, options=TWO)
    assert result.hudi is not None
    assert result.hudi.removed == (planned.instant,)
    assert actions(table.location, planned.instant) == []
    table.check("after the removal")


def test_another_clients_plan_is_named_and_left_alone_unless_the_user_opts_in(
    hudi: HudiSession, table: SmallTable, jobs: Jobs, other_client: MakeOtherClient
) -> None:
    planned = other_client(table, TWO).schedule(by_hand.LOG_COMPACTION)
    assert planned
    before = timeline(table.location)
    result = jobs.run(table, LOG_COMPACTION, options=TWO)
    assert result.reason is Reason.WAITING_FOR_INSTANT
    assert planned in result.message
    assert result.hudi is not None
    assert result.hudi.pending == (f"{planned}.logcompaction.requested",)
    assert timeline(table.location) == before
    done = jobs.done(table, LOG_COMPACTION, options=TWO, all_instants=True)
    # For readers of 1.0 the job makes a new plan: it cannot know which writers were active beside the old one.
    assert (done.removed == (planned,)) is (done.instant != planned) is (hudi.version == "1.0.2")
    table.check("after the run")


def test_another_clients_dead_log_compaction_is_left_alone_unless_the_user_opts_in(
    table: SmallTable, jobs: Jobs, other_client: MakeOtherClient
) -> None:
    dead = log_compaction_dies(other_client(table, TWO))
    before = timeline(table.location)
    assert jobs.run(table, LOG_COMPACTION, options=TWO).reason is Reason.WAITING_FOR_INSTANT
    assert timeline(table.location) == before
    waits = jobs.run(table, LOG_COMPACTION, options=TWO, all_instants=True)
    assert waits.reason is Reason.WAITING_FOR_INSTANT
    assert waits.message.startswith(f"{dead}.logcompaction.inflight of another client shows signs of life")
    assert timeline(table.location) == before
    grow_old(table, dead)
    status = jobs.done(table, LOG_COMPACTION, options=TWO, all_instants=True)
    assert status.rolled_back == (dead,)
    table.check("after the run")


def test_a_compaction_that_another_client_may_be_at_work_on_is_left_alone_whatever_the_user_opts_in(
    table: SmallTable, jobs: Jobs, other_client: MakeOtherClient
) -> None:
    client = other_client(table)
    begun = client.schedule(by_hand.COMPACTION)
    assert begun
    client.execute(by_hand.COMPACTION, begun).getWriteStatuses().count()
    # 1.2 renews a heartbeat as long as its client is there.
    client.close()
    before = timeline(table.location)
    options = TWO | {"hoodie.compact.inline.max.delta.commits": "1"}
    for young in ("heartbeat", "marker", "inflight"):
        grow_old(table, begun, besides=young)
        result = jobs.run(table, COMPACTION, options=options, all_instants=True)
        assert result.reason is Reason.WAITING_FOR_INSTANT
        assert result.message.startswith(f"{begun}.compaction.inflight of another client shows signs of life")
        assert timeline(table.location) == before
    grow_old(table, begun)
    assert jobs.done(table, COMPACTION, options=options, all_instants=True).instant == begun
    table.check("after the run")


def test_only_the_partitions_that_are_named_are_compacted(hudi: HudiSession, jobs: Jobs, table: SmallTable) -> None:
    parts = SmallTable(hudi.spark, table.location.parent / "parts", partitioned=True)
    parts.upsert(range(20), 10, part="a")
    parts.upsert(range(20, 40), 10, part="b")
    for ts in (20, 15):
        parts.upsert(range(10), ts, part="a")
        parts.upsert(range(20, 30), ts, part="b")
    status = jobs.done(parts, LOG_COMPACTION, options=TWO, partitions=("b",))
    assert (status.file_groups, status.blocks_in) == (1, 2)
    (merged,) = merged_blocks(hudi, parts.location)
    assert merged.file.parent.name == "b"
    parts.check("after the log compaction of b")
    status = jobs.done(parts, COMPACTION, options=EACH_TIME, partitions=("a",))
    assert status.file_groups == 1
    parts.check("after the compaction of a")


@BOTH_ORDERINGS
def test_deleted_rows_stay_deleted(hudi: HudiSession, make_table: MakeTable, jobs: Jobs, ordering: Ordering) -> None:
    table = make_table(ordering)
    table.delete(range(45, 55))
    table.upsert(range(60, 70), 50)
    if (hudi.version, ordering) != ("1.0.2", Ordering.EVENT_TIME):
        jobs.done(table, LOG_COMPACTION, options=TWO)
    table.check("after the log compaction")
    table.upsert(range(65, 75), 45)
    jobs.done(table, COMPACTION, options=EACH_TIME)
    table.check("after the compaction")


@pytest.mark.only("1.2.0")
@BOTH_ORDERINGS
def test_deleted_rows_may_come_again(make_table: MakeTable, jobs: Jobs, ordering: Ordering) -> None:
    """NB: Spark with 1.0.2 cannot read a table where one came again by event time, with or without log compaction."""
    table = make_table(ordering)
    table.delete(range(45, 55))
    jobs.done(table, LOG_COMPACTION, options=TWO)
    table.upsert(range(50, 75), 60)
    table.check("with some of them there again")
    jobs.done(table, COMPACTION, options=EACH_TIME)
    table.check("after the compaction")
