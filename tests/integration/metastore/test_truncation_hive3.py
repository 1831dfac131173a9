"""TRUNCATE of Hive 3.1: it deletes the files at once, so that nothing of it is left to be judged."""

from collections.abc import Callable

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from tests.integration.metastore.fixture_table import FixtureTable

SERVERS = ("3.1.3",)


def test_a_truncated_table_holds_nothing(fixture_table: Callable[..., FixtureTable]) -> None:
    table = fixture_table("table_txn_001", writes=3)
    table.admin.truncate(table.database, table.name, write_id=4)
    assert table.names() == []
    assert table.run(CompactionType.MAJOR).reason is Reason.NOTHING_TO_COMPACT
