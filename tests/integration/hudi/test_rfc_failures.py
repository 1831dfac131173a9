"""RFC-48, scenario 2 and "rollback logic": log compactions and writers that died, and what is rolled back later.

NB: by commit time, as then a block that stays, goes or moves shows in the rows. A rollback itself merges none.
"""

import pytest
from py4j.protocol import Py4JJavaError
from sandbox.hudi.look import actions, log_blocks, merged_blocks, timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering

from tests.integration.hudi.conftest import MakeOtherClient, MakeTable
from tests.integration.hudi.dying import log_compaction_dies, writer_dies
from tests.integration.hudi.other_client import COMPACTION, LOG_COMPACTION, SHARED, OtherClient

OPTIONS = {"hoodie.log.compaction.blocks.threshold": "2"}
BY_LISTING = {"hoodie.rollback.using.markers": "false"}
"""The markers of a dead writer of `writer_dies` are gone."""


def roll_back(client: OtherClient, instant: str) -> None:
    """Hudi never resumes a log compaction: it rolls back what there is of it, and says so by an error."""
    with pytest.raises(Py4JJavaError, match="Inflight logcompaction"):
        client.execute(LOG_COMPACTION, instant)


@pytest.mark.metadata_table
def test_a_dead_log_compaction_is_rolled_back_and_planned_again(
    hudi: HudiSession, make_table: MakeTable, other_client: MakeOtherClient
) -> None:
    """Unlike in the RFC, the rollback is no block: it deletes the log file of the dead one."""
    table = make_table(Ordering.COMMIT_TIME, options=SHARED)
    client = other_client(table, OPTIONS | SHARED)
    dead = log_compaction_dies(client)
    assert [block.instant for block in merged_blocks(hudi, table.location)] == [dead]
    table.upsert(range(55, 65), 35)
    table.check("with a dead log compaction")
    roll_back(client, dead)
    assert actions(table.location, dead) == []
    assert [name for name in timeline(table.location) if name.endswith(".rollback")]
    originals = log_blocks(hudi, table.location)
    assert len(originals) == 5
    assert not any(block.target or block.merged for block in originals)
    table.check("after the rollback")
    client.all_of(LOG_COMPACTION)
    (merged,) = merged_blocks(hudi, table.location)
    assert merged.merged == {block.instant for block in originals}
    table.check("after the next log compaction")
    client.all_of(COMPACTION)
    table.check("after the compaction")


@pytest.mark.only("1.0.2")
@pytest.mark.parametrize("later", [False, True], ids=["next", "later"])
def test_in_a_table_of_version_6_the_rollback_of_a_dead_log_compaction_is_a_block(
    hudi: HudiSession, make_table: MakeTable, other_client: MakeOtherClient, later: bool
) -> None:
    """It comes right after the dead one's block, or later, above another writer's."""
    table = make_table(Ordering.COMMIT_TIME, version="6", options=SHARED)
    originals = [block.instant for block in log_blocks(hudi, table.location)]
    client = other_client(table, OPTIONS | SHARED)
    dead = log_compaction_dies(client)
    if later:
        table.upsert(range(55, 65), 35)
        originals.append(log_blocks(hudi, table.location)[-1].instant)
    table.check("with a dead log compaction")
    roll_back(client, dead)
    *blocks, rollback = log_blocks(hudi, table.location)
    assert (rollback.kind, rollback.target) == ("COMMAND_BLOCK", dead)
    assert [block.instant for block in blocks] == [*originals[:4], dead, *originals[4:]]
    assert actions(table.location, dead) == []
    table.check("after the rollback")
    client.all_of(LOG_COMPACTION)
    *_, merged = merged_blocks(hudi, table.location)
    assert merged.merged == set(originals)
    table.check("after the next log compaction")
    client.all_of(COMPACTION)
    table.check("after the compaction")


@pytest.mark.metadata_table
def test_a_dead_writers_block_below_another_writers_is_never_read_and_rolled_back_later(
    hudi: HudiSession, make_table: MakeTable, other_client: MakeOtherClient
) -> None:
    table = make_table(Ordering.COMMIT_TIME, options=SHARED)
    dead = writer_dies(table, range(70), 90)
    table.upsert(range(55, 75), 35)
    table.check("with a dead writer's block below")
    client = other_client(table, OPTIONS | SHARED | BY_LISTING)
    client.all_of(LOG_COMPACTION)
    (merged,) = merged_blocks(hudi, table.location)
    assert dead not in merged.merged
    assert len(merged.merged) == 5
    table.check("after the log compaction")
    client.roll_back_failed_writes()
    assert dead not in {block.instant for block in log_blocks(hudi, table.location)}
    table.check("after the rollback")
    client.all_of(COMPACTION)
    table.check("after the compaction")


@pytest.mark.only("1.0.2")
def test_in_a_table_of_version_6_a_dead_writers_block_is_rolled_back_by_a_block_that_comes_later(
    hudi: HudiSession, make_table: MakeTable, other_client: MakeOtherClient
) -> None:
    table = make_table(Ordering.COMMIT_TIME, version="6", options=SHARED)
    dead = writer_dies(table, range(70), 90)
    table.upsert(range(55, 75), 35)
    client = other_client(table, OPTIONS | SHARED | BY_LISTING)
    client.roll_back_failed_writes()
    *blocks, rollback = log_blocks(hudi, table.location)
    assert (rollback.kind, rollback.target) == ("COMMAND_BLOCK", dead)
    assert [block.instant for block in blocks].index(dead) == 4
    assert actions(table.location, dead) == []
    table.check("after the rollback")
    client.all_of(LOG_COMPACTION)
    (merged,) = merged_blocks(hudi, table.location)
    assert merged.merged == {block.instant for block in blocks} - {dead}
    table.check("after the log compaction")
    client.all_of(COMPACTION)
    table.check("after the compaction")
