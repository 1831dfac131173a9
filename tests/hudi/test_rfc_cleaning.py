"""RFC-48: when merged blocks and replaced log files go, and archival."""

from sandbox.hudi.look import base_files, log_files, timeline
from sandbox.hudi.table import SmallTable

from tests.hudi.conftest import MakeSomebody
from tests.hudi.somebody import COMPACTION, LATEST_ONLY, LOG_COMPACTION

OPTIONS = {"hoodie.log.compaction.blocks.threshold": "2", **LATEST_ONLY}


def test_log_files_go_only_with_the_cleaner_after_a_full_compaction(table: SmallTable, somebody: MakeSomebody) -> None:
    """Replaced ones too: other than the RFC has it, the cleaner does not take them before."""
    client = somebody(table, OPTIONS)
    client.all_of(LOG_COMPACTION)
    assert client.clean() == 0
    assert len(log_files(table.location)) == 5
    client.all_of(COMPACTION)
    assert len(log_files(table.location)) == 5
    assert client.clean() == 6
    assert not log_files(table.location)
    assert len(base_files(table.location)) == 1
    table.check("after the clean")


def test_log_compactions_are_archived(table: SmallTable, somebody: MakeSomebody) -> None:
    instant = somebody(table, OPTIONS).all_of(LOG_COMPACTION)
    client = somebody(table, OPTIONS | {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"})
    client.all_of(COMPACTION)
    client.clean()
    for ts in (50, 60, 70):
        table.upsert(range(20), ts)
    assert [name for name in timeline(table.location) if name.startswith(instant)]
    client.client.archive()
    assert not [name for name in timeline(table.location) if name.startswith(instant)]
    table.check("after archiving")
