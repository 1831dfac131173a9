"""`plan DATABASE.TABLE` on real metastores: it says what a driver then does, and leaves no trace."""

from collections.abc import Callable

import pytest
from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.config import Volume, Warehouse
from compaction_operator.driver.live import PartitionPlan, Question, obstacles, plan_table
from compaction_operator.metastore import MetastoreClient
from tests.integration.metastore.controller_steps import ControllerSteps
from tests.integration.metastore.fixture_table import FixtureTable


def plans(server: MetastoreServer, table: FixtureTable, kind: CompactionType) -> list[PartitionPlan]:
    volume = Volume(claim_name="warehouse", mount_path=str(server.warehouse))
    warehouse = Warehouse(name="main", metastore=server.settings(), namespaces=("etl",), volume=volume)
    asked = Question(warehouse, TableRef(database=table.database, name=table.name), kind)
    with MetastoreClient(server.settings()) as client:
        found, planned = plan_table(client, asked)
        assert list(obstacles(client, asked, found)) == []
        return list(planned)


@pytest.mark.parametrize("kind", [CompactionType.MINOR, CompactionType.MAJOR])
def test_a_plan_is_what_the_driver_then_does(
    server: MetastoreServer,
    three_inserts: FixtureTable,
    compact: Callable[..., ControllerSteps],
    kind: CompactionType,
) -> None:
    before, locks = frozenset(three_inserts.names()), three_inserts.admin.all_locks()
    (one,) = plans(server, three_inserts, kind)
    assert one.planned is not None, one.problem
    assert frozenset(three_inserts.names()) == before
    assert three_inserts.admin.all_locks() == locks
    assert three_inserts.admin.compactions(three_inserts.database, three_inserts.name) == ()
    written = {output.name.partition("_v")[0] for output in one.planned.plan.outputs}
    compact(three_inserts, kind=kind)
    new = frozenset(three_inserts.names()) - before
    assert {name.partition("_v")[0] for name in new} == written
    assert {entry.name for entry in one.planned.plan.obsolete} == before


def test_each_partition_is_planned(server: MetastoreServer, try_it: FixtureTable) -> None:
    found = plans(server, try_it, CompactionType.MAJOR)
    assert [one.partition for one in found] == ["prt=p1", "prt=p2", "prt=p3"]
    assert [one.problem for one in found] == [None] * 3
