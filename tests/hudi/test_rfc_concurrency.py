"""RFC-48, scenario 4 and conflict resolution: log compactions beside delta commits and compactions."""

import pytest
from py4j.protocol import Py4JJavaError
from sandbox.hudi.look import actions, timeline, log_files
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering, SmallTable

from tests.hudi.conftest import MakeSomebody, MakeTable
from tests.hudi.somebody import COMPACTION, LOG_COMPACTION

OPTIONS = {"hoodie.log.compaction.blocks.threshold": "2"}


@pytest.mark.parametrize("ordering", list(Ordering), ids=lambda ordering: ordering.name)
def test_a_compaction_that_begins_before_the_log_compaction_commits_harms_neither(
    make_table: MakeTable, somebody: MakeSomebody, ordering: Ordering
) -> None:
    table = make_table(ordering)
    merging, compacting = somebody(table, OPTIONS), somebody(table)
    instant = merging.schedule(LOG_COMPACTION)
    assert instant
    merged = merging.execute(LOG_COMPACTION, instant)
    compaction = compacting.schedule(COMPACTION)
    assert compaction
    compacted = compacting.execute(COMPACTION, compaction)
    merging.commit(LOG_COMPACTION, instant, merged)
    table.check("with the log compaction committed")
    compacting.commit(COMPACTION, compaction, compacted)
    table.check("with both committed")
    table.upsert(range(60, 80), 50)
    table.check("with a block on top")
    somebody(table).all_of(COMPACTION)
    table.check("after the next compaction")


def test_a_log_compaction_that_a_later_compaction_overtook_never_runs(
    table: SmallTable, somebody: MakeSomebody
) -> None:
    client = somebody(table, OPTIONS)
    instant = client.schedule(LOG_COMPACTION)
    assert instant
    client.all_of(COMPACTION)
    with pytest.raises(Py4JJavaError, match="greater timestamp"):
        client.execute(LOG_COMPACTION, instant)
    table.check("with a stale plan")
