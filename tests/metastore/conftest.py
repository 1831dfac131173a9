"""A real Hive metastore 3.1.3 on embedded Derby, one for all tests of this folder."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import MetastoreServer

COLUMNS = (("id", "int"), ("name", "varchar(10)"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/metastore/" in item.path.as_posix():
            item.add_marker(pytest.mark.metastore)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreServer]:
    """The metastore's process."""
    with MetastoreServer(tmp_path_factory.mktemp("metastore")) as server:
        yield server


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
    admin.create_database(name, location=f"file:{server.warehouse}/{name}.db")
    return name


@pytest.fixture
def make_table(admin: MetastoreAdmin, server: MetastoreServer, database: str) -> Callable[..., str]:
    """Make a table in the test's database and return its name."""

    def make(name: str = "t", *, keys: tuple[str, ...] = (), parameters: dict[str, str] | None = None) -> str:
        location = f"file:{server.warehouse}/{database}.db/{name}"
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
