"""Tables on HDFS and on S3: all of it on real servers, by drivers that are processes, one of them killed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
from sandbox.hdfs.server import HdfsServer
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering, SmallTable
from sandbox.s3.server import S3Server

from compaction_operator.api.stores import S3, STORES_VARIABLE, StoreSettings
from compaction_operator.driver.hadoop import hadoop
from compaction_operator.storage import open_storage
from compaction_operator.storage.stores import _own_stores
from tests.integration.hudi.driver import Drivers, begun
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs
from tests.integration.hudi.other_client import LATEST_ONLY, TABLE_VERSION

OPTIONS = {"hoodie.log.compaction.blocks.threshold": "2", "hoodie.compact.inline.max.delta.commits": "1"}
BUCKET = "lake"


@dataclass(frozen=True)
class Servers:
    """Both stores, and what a warehouse's settings and a pod's environment have of them."""

    hdfs: HdfsServer
    s3: S3Server

    @property
    def settings(self) -> StoreSettings:
        return StoreSettings(s3=S3(**self.s3.settings().model_dump()))

    @property
    def environment(self) -> dict[str, str]:
        return {"HADOOP_CONF_DIR": str(self.hdfs.configuration)}


@dataclass(frozen=True)
class Case:
    """A table on a store: it is such that this version of Hudi takes it by itself."""

    uri: Callable[[Servers], str]
    ordering: Ordering
    version: str
    bundle: str


CASES = {
    "hdfs": Case(lambda servers: f"{servers.hdfs.uri}/lake/orders", Ordering.COMMIT_TIME, "8", "1.0.2"),
    "s3": Case(lambda servers: f"s3a://{BUCKET}/lake/orders", Ordering.EVENT_TIME, "9", "1.2.0"),
}


def make_bucket(server: S3Server) -> None:
    boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
    ).create_bucket(Bucket=BUCKET)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """HDFS and MinIO, known to this process as they are to a driver's pod."""
    folder = tmp_path_factory.mktemp("stores")
    with HdfsServer(folder / "hdfs") as hdfs, S3Server(folder / "s3") as s3, pytest.MonkeyPatch.context() as patch:
        servers = Servers(hdfs, s3)
        for name, value in servers.environment.items():
            patch.setenv(name, value)
        patch.setenv(STORES_VARIABLE, servers.settings.model_dump_json(by_alias=True))
        _own_stores.cache_clear()
        make_bucket(s3)
        yield servers
    _own_stores.cache_clear()


@pytest.fixture(scope="module")
def session(servers: Servers) -> Iterator[HudiSession]:
    """The writer and reader, of the newest Hudi."""
    with HudiSession("1.2.0", hadoop=hadoop(f"s3a://{BUCKET}/", servers.settings)) as session:
        yield session


def names(uri: str) -> list[str]:
    return [entry.name for entry in open_storage(uri).list(uri)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_killed_driver_is_rolled_back_and_the_next_ones_merge_compact_and_clean(
    case: Case, servers: Servers, session: HudiSession, locks: dict[str, str], tmp_path: Path
) -> None:
    uri = case.uri(servers)
    table = SmallTable.at(session.spark, uri, ordering=case.ordering, options={TABLE_VERSION: case.version})
    for ids, ts in ((range(200), 10), (range(60), 20), (range(20, 80), 30), (range(40, 70), 15)):
        table.upsert(ids, ts)
    drivers = Drivers(uri, servers.settings, locks | OPTIONS, tmp_path)
    dead = drivers.dies(LOG_COMPACTION)
    table.upsert(range(55, 65), 35)
    table.check("with a dead log compaction")
    status = drivers.done(LOG_COMPACTION)
    assert (status.bundle, status.rolled_back) == (case.bundle, (dead,))
    assert (status.blocks_in, status.blocks_out) == (4, 1)
    assert begun(uri) == []
    table.check("after the next")
    assert len([name for name in names(uri) if ".log." in name]) > 4
    full = OPTIONS | LATEST_ONLY
    status = Jobs(session, locks).done(table, COMPACTION, clean=True, bundle=session.version, options=full)
    assert status.cleaned not in (None, "nothing to clean")
    assert not [name for name in names(uri) if ".log." in name]
    table.check("after the compaction and the clean")
