"""A realm, and with a metastore of each generation a plane with the operator, kept for all tests of this folder."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sandbox.harness.places import copy_tree, location_of
from sandbox.harness.rows import Key, every, rows, visible
from sandbox.harness.tables import OURS, TABLE_TXN_001
from sandbox.kerberos.realm import Realm
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import Hive
from sandbox.plane import Plane

from compaction_operator.api.stores import KerberosLogin
from tests.integration.metastore.fixture_table import FixtureTable, make_table

OPERATOR, READER = "compaction", "alice"
LIFE_SECONDS = 8
"""How long the operator's tickets are valid: none lasts from the start of a test's compaction to its deletion."""
RowsOf = Callable[[FixtureTable], dict[Key, Any]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/integration/kerberos/" in item.path.as_posix():
            item.add_marker(pytest.mark.kerberos)


@pytest.fixture(scope="package")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    """The realm of this process, too. NB: it has no tickets but those that a client gets for itself."""
    realm = Realm(tmp_path_factory.mktemp("realm"))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("KRB5CCNAME", raising=False)
        for name, value in realm.kdc.environment.items():
            patch.setitem(os.environ, name, value)
        with realm:
            yield realm


@dataclass
class NextDriver:
    """What happens right before a driver starts."""

    happens: Callable[[], None] = lambda: None

    def __call__(self, arguments: Sequence[str]) -> Mapping[str, str]:
        if "job" in arguments:
            self.happens()
        return {}


@dataclass(frozen=True)
class World:
    """A realm, the operator in it by its principal, and its drivers."""

    realm: Realm
    operator: KerberosLogin
    plane: Plane
    next_driver: NextDriver

    def compact(self, table: FixtureTable, kind: str) -> str:
        """Create a TableCompaction that loses no time, and return its name."""
        cleanup, retry = {"gracePeriod": "1s"}, {"backoff": "1s"}
        return self.plane.compact(f"{table.database}.{table.name}", kind, cleanup=cleanup, retry=retry)


@pytest.fixture(scope="package")
def world(request: pytest.FixtureRequest, realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The operator with a metastore of that version in the realm, whose tables lie on the realm's HDFS."""
    hive: Hive = request.param
    operator, next_driver = realm.login(f"{OPERATOR}/{hive}", max_life=f"{LIFE_SECONDS} sec"), NextDriver()
    values = {"cleanup": {"interval": "500ms", "planningTime": "1s"}}
    store = realm.store(hive, operator)
    folder = tmp_path_factory.mktemp(hive)
    # NB: without Spark, which is slow to start: tests/integration/storage/test_pods.py has its tasks log in.
    with Plane(folder, hive=hive, storage=store, environment=next_driver, values=values, spark=False) as plane:
        yield World(realm, operator, plane, next_driver)


@pytest.fixture
def admin(world: World) -> Iterator[MetastoreAdmin]:
    """A client of the operator's principal."""
    with MetastoreAdmin(world.plane.metastore.settings()) as admin:
        yield admin


@pytest.fixture(scope="package")
def _numbers() -> Iterator[int]:
    return count(1)


@pytest.fixture
def table(world: World, admin: MetastoreAdmin, _numbers: Iterator[int]) -> FixtureTable:
    """A table of three inserts, which Hive leaves to the operator."""
    database, server = f"db{next(_numbers)}", world.plane.metastore
    admin.create_database(database, location=location_of(server.warehouse / f"{database}.db"))
    table = make_table(admin, server, database, TABLE_TXN_001.name, parameters=OURS)
    for _ in range(TABLE_TXN_001.writes):
        table.write()
    return table


@pytest.fixture
def reader(world: World, table: FixtureTable) -> Iterator[FixtureTable]:
    """The same table for another principal, who reads it."""
    kerberos = world.realm.client(world.realm.login(READER))
    settings = world.plane.metastore.settings().model_copy(update={"kerberos": kerberos})
    with MetastoreAdmin(settings, user=READER) as admin:
        yield replace(table, admin=admin)


@pytest.fixture
def rows_of(tmp_path: Path) -> RowsOf:
    """Return a table's rows by ROW__ID. They are read from a copy, without the operator's code."""
    copies = count(1)

    def read(table: FixtureTable) -> dict[Key, Any]:
        sees = visible(str(table.admin.valid_write_ids(table.database, table.name)))
        copy = tmp_path / f"copy-{next(copies)}"
        for name in table.names():
            # The plain reader knows no transactions in names.
            copy_tree(table.directory / name, copy / re.sub(r"_v[0-9]+$", "", name))
        return rows(copy, every, sees)

    return read
