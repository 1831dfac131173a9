"""H19: a driver that is paused beyond the metastore's time-out (here two seconds) notices, and publishes nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox.harness.wait import wait_until
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import Hive, MetastoreServer

from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.metastore import QueueState
from tests.integration.metastore.fixture_table import FixtureTable, make_table
from tests.unit.driver.support import Store


@pytest.fixture
def table(hive: Hive, tmp_path: Path) -> Iterator[FixtureTable]:
    """A table of three inserts in a metastore that takes away what is silent for two seconds."""
    with (
        MetastoreServer(tmp_path, hive=hive, txn_timeout_seconds=2) as server,
        MetastoreAdmin(server.settings()) as admin,
    ):
        admin.create_database("db", location=f"file:{server.warehouse}/db.db")
        made = make_table(admin, server, "db", "table_txn_001")
        admin.start_write_ids("db", made.name, highest=3)
        yield made


def test_a_driver_that_was_silent_for_too_long_publishes_nothing(table: FixtureTable) -> None:
    """Its thread's next heartbeat is not due yet when the metastore has already given up on it."""
    before = table.names()

    def paused() -> None:
        assert len(table.locks()) == 1
        wait_until(lambda: not table.locks(), timeout=60, what="the metastore to take the lock away")

    with pytest.raises(JobError) as stopped:
        table.run(store=Store(on_create=paused))
    assert stopped.value.reason is (Reason.TRANSACTION_LOST if table.is_hive4 else Reason.LOCK_LOST)
    assert table.names() == before
    assert table.own_transactions() == []
    assert [entry.state for entry in table.queue()] == [QueueState.FAILED] * table.is_hive4
    assert table.run(attempt=2).reason is Reason.COMPACTED
