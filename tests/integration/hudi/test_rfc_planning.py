"""RFC-48: when a log compaction is planned, what is left out of the plan, and what the timeline shows of it."""

from pathlib import Path

import pytest
from sandbox.hudi.look import actions, merged_blocks, timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import SmallTable

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from tests.integration.hudi.conftest import MakeOtherClient, MakeTable, Shared
from tests.integration.hudi.job import Jobs
from tests.integration.hudi.other_client import CLUSTERING, COMPACTION, LOG_COMPACTION

THRESHOLD = "hoodie.log.compaction.blocks.threshold"
TWO = {THRESHOLD: "2"}


def test_fewer_blocks_than_the_threshold_are_not_planned(table: SmallTable, other_client: MakeOtherClient) -> None:
    """A seed has four; the threshold of Hudi is five."""
    before = timeline(table.location)
    assert other_client(table).schedule(LOG_COMPACTION) is None
    assert other_client(table, {THRESHOLD: "5"}).schedule(LOG_COMPACTION) is None
    assert timeline(table.location) == before
    assert other_client(table, {THRESHOLD: "4"}).schedule(LOG_COMPACTION)


@pytest.mark.only("1.2.0")
def test_hudi_wants_as_many_delta_commits_since_the_last_log_compaction_and_the_operator_does_not(
    table: SmallTable, other_client: MakeOtherClient, jobs: Jobs
) -> None:
    client = other_client(table, TWO)
    client.all_of(LOG_COMPACTION)
    table.upsert(range(20), 50)
    assert client.schedule(LOG_COMPACTION) is None
    assert jobs.done(table, CompactionType.LOG_COMPACTION, options=TWO).blocks_in == 2
    table.check("after the second log compaction")


def test_the_timeline_shows_requested_then_inflight_then_a_delta_commit(
    table: SmallTable, other_client: MakeOtherClient
) -> None:
    client = other_client(table, TWO)
    instant = client.schedule(LOG_COMPACTION)
    assert instant
    assert actions(table.location, instant) == ["logcompaction.requested"]
    done = client.execute(LOG_COMPACTION, instant)
    assert actions(table.location, instant) == ["logcompaction.inflight", "logcompaction.requested"]
    client.commit(LOG_COMPACTION, instant, done)
    assert actions(table.location, instant) == ["deltacommit", "logcompaction.inflight", "logcompaction.requested"]


def test_writers_make_log_compactions_only_if_configured(make_table: MakeTable) -> None:
    """With more blocks than Hudi's threshold, and with its full compaction switched on."""
    table = make_table(options={"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "20"})
    for ts in (50, 60, 70):
        table.upsert(range(10), ts)
    assert not [name for name in timeline(table.location) if "logcompaction" in name]
    table.options |= {"hoodie.log.compaction.inline": "true", "hoodie.log.compaction.enable": "true"}
    table.upsert(range(10), 80)
    assert [name for name in timeline(table.location) if "logcompaction" in name]


@pytest.fixture
def groups(hudi: HudiSession, shared: Shared, tmp_path: Path) -> SmallTable:
    """A table whose file group of folder `a` has two log files and that of `b` none."""

    def write(location: Path) -> SmallTable:
        made = SmallTable(hudi.spark, location, partitioned=True)
        made.upsert(range(100), 10, part="a")
        made.upsert(range(100, 200), 10, part="b")
        made.upsert(range(30), 20, part="a")
        made.upsert(range(20, 50), 15, part="a")
        return made

    return shared("two-groups", write).copy_to(tmp_path / "groups")


@pytest.mark.parametrize("action", [LOG_COMPACTION, COMPACTION, CLUSTERING])
def test_file_groups_of_a_pending_plan_are_left_out(
    hudi: HudiSession, groups: SmallTable, other_client: MakeOtherClient, jobs: Jobs, action: str
) -> None:
    """By the operator's job: 1.2.0 itself plans nothing on the whole table while a log compaction is pending."""
    pending = other_client(groups, TWO | {"hoodie.clustering.plan.strategy.partition.regex.pattern": "a"}).schedule(
        action
    )
    assert pending
    result = jobs.run(groups, CompactionType.LOG_COMPACTION, options=TWO)
    # Of what a pending compaction has in its plan, nothing is left to wait for.
    waits = Reason.NOTHING_TO_COMPACT if action == COMPACTION else Reason.WAITING_FOR_INSTANT
    assert result.reason is waits
    assert result.message.startswith(f"file group in pending {pending}.{action}.requested")
    for ts in (30, 20):
        groups.upsert(range(100, 100 + ts), ts, part="b")
    if action == LOG_COMPACTION and hudi.version == "1.2.0":
        assert other_client(groups, TWO).schedule(LOG_COMPACTION) is None
    status = jobs.done(groups, CompactionType.LOG_COMPACTION, options=TWO)
    assert (status.file_groups, status.blocks_in) == (1, 2)
    assert {block.file.parent.name for block in merged_blocks(hudi, groups.location)} == {"b"}
    groups.check("after the log compaction of b")


def test_what_comes_after_a_pending_compaction_is_not_planned(table: SmallTable, other_client: MakeOtherClient) -> None:
    """Unlike in the RFC's note, a plan leaves out the new slice of a pending compaction as well."""
    client = other_client(table, TWO)
    pending = client.schedule(COMPACTION)
    assert pending
    for ts in (50, 60):
        table.upsert(range(20), ts)
    assert client.schedule(LOG_COMPACTION) is None
    client.run(COMPACTION, pending)
    assert client.schedule(LOG_COMPACTION)
    table.check("after the compaction")
