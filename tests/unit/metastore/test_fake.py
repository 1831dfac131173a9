"""The fake metastore of the unit tests answers as real ones do: the same tests as in tests/integration/metastore."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from compaction_operator.metastore import ORC_INPUT_FORMAT, ORC_SERDE, Generation, LockKind, LockWish, Table
from tests.support.metastore import FakeMetastore
from tests.support.metastore_contract import LocksContract, QueueContract, TablesContract, TransactionsContract


@pytest.fixture(params=Generation)
def admin(request: pytest.FixtureRequest) -> FakeMetastore:
    return FakeMetastore(hive=request.param)


@pytest.fixture
def database() -> str:
    return "db1"


@pytest.fixture
def make_table(admin: FakeMetastore, database: str) -> Callable[..., str]:
    def make(name: str = "t") -> str:
        table = Table(database, name, f"/w/{name}", 1, ORC_INPUT_FORMAT, ORC_SERDE, ())
        admin.tables[f"{database}.{name}"] = table
        return name

    return make


@pytest.fixture
def table(make_table: Callable[..., str]) -> str:
    return make_table()


class TestTables(TablesContract):
    """On both generations."""


class TestTransactions(TransactionsContract):
    """On both generations."""


class TestLocks(LocksContract):
    """On both generations."""


class TestQueue(QueueContract):
    """On Hive 4."""

    @pytest.fixture
    def admin(self) -> FakeMetastore:
        return FakeMetastore(hive=Generation.HIVE4)


def test_what_hive_4_does_with_the_case_of_partition_names_is_not_modelled() -> None:
    metastore = FakeMetastore(hive=Generation.HIVE4)
    wish = LockWish(database="d", table="t", partition="p=A", kind=LockKind.SHARED_READ, agent="test")
    metastore.lock(wish)
    with pytest.raises(NotImplementedError):
        metastore.lock(replace(wish, partition="p=a"))
