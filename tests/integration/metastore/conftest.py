"""Real Hive metastores, each started when the first test wants it, and kept for all tests of this folder.

A test that uses `server`, and does not say which, runs once for each of its module's SERVERS; without that, on both
generations. With the mark
`hdfs` it also runs with tables on HDFS, on each of these generations, and with the mark `s3` on S3 (Hive 4 alone).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

import pytest
from sandbox.harness.places import Place, location_of
from sandbox.hdfs.path import HdfsPath
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import CLEANER, FORGETTING, Database, Hive, MetastoreServer

from compaction_operator.api.compaction import CompactionType
from tests.integration.conftest import TestBucket
from tests.integration.metastore.controller_steps import ControllerSteps, cleanup_of, real_work
from tests.integration.metastore.fixture_table import FixtureTable
from tests.integration.metastore.fixture_table import make_table as create_fixture_table
from tests.unit.driver.support import Store

SERVERS = ("3.1.3", "4.0.1")


@dataclass(frozen=True)
class Known:
    """A metastore: its version, its database, where its tables lie (`file`, `hdfs` or a bucket), and its settings."""

    hive: Hive
    database: Database = "derby"
    storage: str = "file"
    properties: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)


KINDS: Mapping[str, Mapping[str, Any]] = {
    "": {},
    "postgres": {"database": "postgres"},
    "hdfs": {"storage": "hdfs"},
    "minio": {"storage": "minio", "properties": FORGETTING},
    "minio-versioned": {"storage": "minio-versioned", "properties": FORGETTING, "overrides": CLEANER},
    "versitygw": {"storage": "versitygw", "properties": FORGETTING},
}
COLUMNS = (("id", "int"), ("name", "varchar(10)"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/integration/metastore/" in item.path.as_posix():
            item.add_marker(pytest.mark.metastore)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    asked = metafunc.definition.get_closest_marker("parametrize")
    if "server" in metafunc.fixturenames and not (asked and "server" in asked.args[0]):
        names = getattr(metafunc.module, "SERVERS", SERVERS)
        if metafunc.definition.get_closest_marker("hdfs"):
            names = (*names, *(f"{name}-hdfs" for name in names))
        if metafunc.definition.get_closest_marker("s3"):
            names = (*names, "4.0.1-minio")
        names = [*dict.fromkeys(chosen(name, metafunc.config) for name in names)]
        metafunc.parametrize("server", names, indirect=True, scope="session")
    if "hive" in metafunc.fixturenames:
        metafunc.parametrize("hive", [chosen(name, metafunc.config) for name in SERVERS])


def chosen(name: str, config: pytest.Config) -> str:
    """Return the name of a metastore with the Hive 4 that `--hive4` says in place of 4.0.1."""
    hive4: str = config.getoption("hive4")
    return name.replace("4.0.1", hive4)


def known_by(name: str) -> Known:
    """Return what the name of a metastore says: its version, and what follows a first hyphen (KINDS)."""
    version, _, kind = name.partition("-")
    return Known(cast("Hive", version), **KINDS[kind])


@pytest.fixture(scope="session")
def metastores(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], MetastoreServer]]:
    """Return the metastore of a name such as 4.0.1 or 4.0.1-postgres, started the first time."""
    started: dict[str, MetastoreServer] = {}
    with ExitStack() as stack:

        def metastore(name: str) -> MetastoreServer:
            if name not in started:
                known, folder = known_by(name), tmp_path_factory.mktemp(name)
                warehouse, reached_by = place(name, known.storage)
                server = MetastoreServer(
                    folder,
                    hive=known.hive,
                    database=known.database,
                    warehouse=warehouse,
                    properties={**known.properties, **reached_by},
                    overrides=known.overrides,
                )
                started[name] = stack.enter_context(server)
            return started[name]

        def place(name: str, storage: str) -> tuple[Place | None, Mapping[str, str]]:
            if storage == "file":
                return None, {}
            if storage == "hdfs":
                return HdfsPath(request.getfixturevalue("hdfs").uri) / name, {}
            bucket: TestBucket = request.getfixturevalue("bucket_of")(storage)
            return bucket.root / name, bucket.server.hadoop(bucket.name)

        yield metastore


@pytest.fixture(scope="session")
def server(metastores: Callable[[str], MetastoreServer], request: pytest.FixtureRequest) -> MetastoreServer:
    """The metastore's process."""
    return metastores(request.param)


@pytest.fixture
def hive4(request: pytest.FixtureRequest) -> Hive:
    """The Hive 4 that `--hive4` says, for a test with a metastore of its own."""
    return cast("Hive", chosen("4.0.1", request.config))


@pytest.fixture(scope="session")
def admin(server: MetastoreServer) -> Iterator[MetastoreAdmin]:
    """A client that can also make tables and play writers and readers."""
    with MetastoreAdmin(server.settings()) as admin:
        yield admin


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return count(1)


@pytest.fixture
def database(admin: MetastoreAdmin, server: MetastoreServer, _numbers: Iterator[int]) -> str:
    """A database of the test's own."""
    name = f"db{next(_numbers)}"
    admin.create_database(name, location=location_of(server.warehouse / f"{name}.db"))
    return name


@pytest.fixture
def make_table(admin: MetastoreAdmin, server: MetastoreServer, database: str) -> Callable[..., str]:
    """Make a table in the test's database and return its name."""

    def make(name: str = "t", *, keys: tuple[str, ...] = (), parameters: dict[str, str] | None = None) -> str:
        location = location_of(server.warehouse / f"{database}.db" / name)
        partition_keys = [(key, "string") for key in keys]
        admin.create_table(
            database, name, location=location, columns=COLUMNS, partition_keys=partition_keys, parameters=parameters
        )
        return name

    return make


@pytest.fixture
def table(make_table: Callable[..., str]) -> str:
    """An unpartitioned ACID table in the test's database."""
    return make_table()


@pytest.fixture
def fixture_table(
    admin: MetastoreAdmin, server: MetastoreServer, database: str
) -> Iterator[Callable[..., FixtureTable]]:
    """Make a table of a fixture with so many committed write ids; what a test leaves open is aborted."""
    made: list[FixtureTable] = []

    def make(fixture: str, *, writes: int) -> FixtureTable:
        table = create_fixture_table(admin, server, database, fixture)
        made.append(table)
        for _ in range(writes):
            table.write()
        return table

    yield make
    for table in made:
        table.end()


@pytest.fixture
def three_inserts(fixture_table: Callable[..., FixtureTable]) -> FixtureTable:
    """A table of three inserts."""
    return fixture_table("table_txn_001", writes=3)


@pytest.fixture
def try_it(fixture_table: Callable[..., FixtureTable]) -> FixtureTable:
    """A table of three partitions, with inserts and deletes."""
    return fixture_table("try_it", writes=6)


@pytest.fixture
def compact(server: MetastoreServer) -> Callable[..., ControllerSteps]:
    """Compact a table as a driver does, and take its journal over as the controller does."""

    def make(
        table: FixtureTable, *, kind: CompactionType = CompactionType.MINOR, attempt: int = 1, **spec: Any
    ) -> ControllerSteps:
        store = Store()
        table.run(kind, store=store, attempt=attempt)
        return ControllerSteps(real_work(table, server.uri), cleanup_of(store, **spec))

    return make
