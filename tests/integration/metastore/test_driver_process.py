"""A driver's process from its start to its end, as in a pod without a cluster: what it starts to do its work."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox.driver.api_server import ApiServer
from sandbox.driver.process import run_driver
from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.compaction import CompactionType, ExecutorResources, SparkOptions, TableRef
from compaction_operator.api.request import JobRequest, Reason
from tests.integration.metastore.fixture_table import FixtureTable
from tests.unit.driver.support import REQUEST

MAJOR = CompactionType.MAJOR


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("api")) as server:
        yield server


def request_for(table: FixtureTable, server: MetastoreServer, **executors: object) -> JobRequest:
    metastore = REQUEST.warehouse.metastore.model_copy(update={"uris": (server.uri,)})
    warehouse = {"metastore": metastore, "locations": (f"file:{server.warehouse}",)}
    changes = {
        "warehouse": REQUEST.warehouse.model_copy(update=warehouse),
        "table": TableRef(database=table.database, name=table.name),
        "type": MAJOR,
        "spark": SparkOptions(executors=ExecutorResources.model_validate(executors)),
    }
    return REQUEST.model_copy(update=changes)


def test_small_work_starts_no_jvm(
    three_inserts: FixtureTable, server: MetastoreServer, api: ApiServer, tmp_path: Path
) -> None:
    ran = run_driver(request_for(three_inserts, server), api, tmp_path / "driver")
    assert ran.result.reason is Reason.COMPACTED, ran.log
    assert "base_0000003" in three_inserts.visible()
    assert all(program.startswith("python") for program in ran.programs)
    said = ran.progress.execution if ran.progress else None
    assert said is not None
    assert said.endswith("on one core; done in the driver")
    assert said in ran.log


@pytest.mark.parametrize("server", ["3.1.3"], indirect=True, scope="session")
def test_spark_does_larger_work_in_a_jvm(
    try_it: FixtureTable, server: MetastoreServer, api: ApiServer, tmp_path: Path
) -> None:
    """Three partitions with deleted rows. The limit for the driver itself is lowered; nothing else differs."""
    ran = run_driver(request_for(try_it, server, instances=0), api, tmp_path / "driver", spark=True)
    assert ran.result.reason is Reason.COMPACTED, ran.log
    for partition in ("prt=p1", "prt=p2", "prt=p3"):
        assert any(name.startswith("base_") for name in try_it.visible(partition))
    assert "java" in ran.programs
    said = ran.progress.execution if ran.progress else None
    assert said is not None
    assert said.endswith("done by Spark in the driver's pod")
