"""Tables on HDFS with Kerberos and on S3 with TLS: all of it real, by drivers that are processes, one of them killed.

Executors are JVMs of their own, but no pods: on Kubernetes Spark itself brings them the delegation tokens that they get
here in a file.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import boto3
import pytest
from sandbox.hdfs.server import SERVICE as SUPERUSER
from sandbox.hdfs.server import HdfsServer
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering, SmallTable
from sandbox.kerberos.kdc import Kdc
from sandbox.s3.server import S3Server

from compaction_operator.api.stores import S3, STORES_VARIABLE, Hdfs, KerberosLogin, StoreSettings
from compaction_operator.driver.hadoop import hadoop
from compaction_operator.storage import open_storage
from compaction_operator.storage.stores import _own_stores
from tests.integration.hudi.driver import EXECUTOR, Drivers, begun
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs
from tests.integration.hudi.other_client import LATEST_ONLY, TABLE_VERSION

OPTIONS = {"hoodie.log.compaction.blocks.threshold": "2", "hoodie.compact.inline.max.delta.commits": "1"}
BUCKET = "lake"
SERVICE = "cluster"
FAILOVER = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"


@dataclass(frozen=True)
class Case:
    """A table on a store, such that this version of Hudi takes it by itself."""

    uri: str
    ordering: Ordering
    version: str
    bundle: str
    settings: Callable[[StoreSettings], StoreSettings]


CASES = {
    "hdfs": Case(
        f"hdfs://{SERVICE}/lake/orders",
        Ordering.COMMIT_TIME,
        "8",
        "1.0.2",
        lambda both: StoreSettings(hdfs=both.hdfs),
    ),
    "s3": Case(
        f"s3a://{BUCKET}/lake/orders",
        Ordering.EVENT_TIME,
        "9",
        "1.2.0",
        lambda both: StoreSettings(s3=both.s3),
    ),
}


def configure(server: HdfsServer) -> None:
    """Give HDFS a name, which is known from its configuration only, as that of a cluster with two NameNodes is."""
    path = server.configuration / "hdfs-site.xml"
    properties = {
        "dfs.nameservices": SERVICE,
        f"dfs.ha.namenodes.{SERVICE}": "one",
        f"dfs.namenode.rpc-address.{SERVICE}.one": server.uri.removeprefix("hdfs://"),
        f"dfs.client.failover.proxy.provider.{SERVICE}": FAILOVER,
    }
    lines = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items())
    path.write_text(path.read_text().replace("</configuration>", f"{''.join(lines)}</configuration>"))


def delegation_tokens(session: HudiSession, folder: Path) -> Path:
    """Return a file with the tokens that Spark gets for executors by the session's settings."""
    context = session.spark.sparkContext._jsc.sc()
    settings = context.hadoopConfiguration()
    security = session.jvm.org.apache.spark.deploy.security
    tokens = session.jvm.org.apache.hadoop.security.Credentials()
    security.HadoopDelegationTokenManager(context.conf(), settings, None).obtainDelegationTokens(tokens)
    tokens.writeTokenStorageFile(session.jvm.org.apache.hadoop.fs.Path(f"file:{folder}/tokens"), settings)
    return folder / "tokens"


def make_bucket(server: S3Server) -> None:
    boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        verify=str(server.certificate),
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
    ).create_bucket(Bucket=BUCKET)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreSettings]:
    """HDFS and MinIO, which this process knows as a driver's pod does."""
    folder = tmp_path_factory.mktemp("stores")
    with (
        Kdc(folder / "kdc") as kdc,
        HdfsServer(folder / "hdfs", kdc=kdc) as hdfs,
        S3Server(folder / "s3", tls=True) as s3,
        pytest.MonkeyPatch.context() as patch,
    ):
        configure(hdfs)
        login = KerberosLogin(
            client_principal=kdc.principal(SUPERUSER),
            keytab=str(hdfs.service_keytab),
            config_file=str(kdc.config_file),
        )
        own = Hdfs(config_map="hadoop", mount_path=str(hdfs.configuration), kerberos=login)
        found = StoreSettings(hdfs=own, s3=S3(**s3.settings().model_dump()))
        patch.setenv("HADOOP_CONF_DIR", own.mount_path)
        patch.setenv("KRB5_CONFIG", str(kdc.config_file))
        patch.setenv(STORES_VARIABLE, found.model_dump_json(by_alias=True))
        _own_stores.cache_clear()
        make_bucket(s3)
        yield found
    _own_stores.cache_clear()


@pytest.fixture(scope="module")
def session(stores: StoreSettings) -> Iterator[HudiSession]:
    """The writer and reader, of the newest Hudi. It knows both stores."""
    assert stores.hdfs
    assert stores.hdfs.kerberos
    on_hdfs, on_s3 = (hadoop(CASES[name].uri, stores, {}) for name in ("hdfs", "s3"))
    kerberos = {"spark.driver.extraJavaOptions": f"-Djava.security.krb5.conf={stores.hdfs.kerberos.config_file}"}
    both = replace(on_s3, settings={**on_hdfs.settings, **on_s3.settings, **kerberos})
    with HudiSession("1.2.0", hadoop=both) as session:
        yield session


def names(uri: str) -> list[str]:
    return [entry.name for entry in open_storage(uri).list(uri)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_killed_driver_is_rolled_back_and_the_next_ones_merge_compact_and_clean(
    case: Case, stores: StoreSettings, session: HudiSession, locks: dict[str, str], tmp_path: Path
) -> None:
    table = SmallTable.at(session.spark, case.uri, ordering=case.ordering, options={TABLE_VERSION: case.version})
    for ids, ts in ((range(200), 10), (range(60), 20), (range(20, 80), 30), (range(40, 70), 15)):
        table.upsert(ids, ts)
    own = case.settings(stores)
    tokens = {"spark.executorEnv.HADOOP_TOKEN_FILE_LOCATION": str(delegation_tokens(session, tmp_path))}
    drivers = Drivers(case.uri, own, locks | OPTIONS, tmp_path, tokens)
    dead = drivers.dies(LOG_COMPACTION)
    table.upsert(range(55, 65), 35)
    table.check("with a dead log compaction")
    status = drivers.done(LOG_COMPACTION, spark=EXECUTOR)
    assert (status.bundle, status.rolled_back) == (case.bundle, (dead,))
    assert (status.blocks_in, status.blocks_out) == (4, 1)
    assert begun(case.uri) == []
    table.check("after the next")
    assert len([name for name in names(case.uri) if ".log." in name]) > 4
    full = OPTIONS | LATEST_ONLY
    status = Jobs(session, locks, stores=own).done(table, COMPACTION, clean=True, options=full)
    assert status.cleaned not in (None, "nothing to clean")
    assert not [name for name in names(case.uri) if ".log." in name]
    table.check("after the compaction and the clean")


def test_on_s3_two_clients_may_create_one_file(stores: StoreSettings, session: HudiSession) -> None:
    """So locks by files are refused there. NB: the table's own lock is what keeps two from writing one instant."""
    jvm = session.jvm
    path = jvm.org.apache.hadoop.fs.Path(f"s3a://{BUCKET}/lake/lock")
    files = path.getFileSystem(session.spark.sparkContext._jsc.hadoopConfiguration())
    locks = [files.create(path, False) for _ in range(2)]
    for lock in locks:
        lock.close()
    assert files.exists(path)
