"""Queries that do not wait for locks: HiveServer2 4 with hive.txn.xlock.iow=false or hive.txn.xlock.write=false."""

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from hmsclient.genthrift.hive_metastore import ttypes
from sandbox.metastore.server import MetastoreServer
from thrift.Thrift import TType

from compaction_operator.api.config import HidingLock
from compaction_operator.cleanup import reader_lock as holding
from compaction_operator.metastore import LockKind, LockWish
from compaction_operator.metastore import hive4_calls as hive4
from compaction_operator.storage import LocalStorage
from tests.integration.metastore.controller_steps import ControllerSteps, cleanup_of, end, read_lock, real_work
from tests.integration.metastore.fixture_table import FixtureTable
from tests.unit.driver.support import Store

SERVERS = ("4.0.1", "4.2.0")
DELTAS = [f"delta_000000{number}_000000{number}_0000" for number in (1, 2, 3)]


class ZeroWaitRequest(hive4.Struct):
    """A request for locks that is refused where it would have to wait."""

    thrift_spec = hive4.spec_of({6: ("zeroWaitReadEnabled", (TType.BOOL, None))}, base=ttypes.LockRequest)


lock = hive4.Call("lock", hive4.struct(ZeroWaitRequest), returns=ttypes.LockResponse)


class Query:
    """Queries that begin one after the other, and what the metastore says to each."""

    def __init__(self, table: FixtureTable) -> None:
        self.answers: list[str] = []
        self._table = table

    def begin(self) -> None:
        """Ask for a lock as such a HiveServer2 does, and end."""
        txn = self._table.admin.open_txn(user="reader", agent="query")
        component = ttypes.LockComponent(
            type=ttypes.LockType.SHARED_READ,
            level=ttypes.LockLevel.TABLE,
            dbname=self._table.database,
            tablename=self._table.name,
            operationType=ttypes.DataOperationType.SELECT,
            isTransactional=True,
        )
        request = ZeroWaitRequest(
            component=[component], txnid=txn, user="reader", hostname="desk", zeroWaitReadEnabled=True
        )
        reply = self._table.admin._call(lambda client: lock(client, request))
        self.answers.append(ttypes.LockState._VALUES_TO_NAMES[reply.state])
        end(self._table, txns=[txn])


class Queried(LocalStorage):
    """A query begins before each directory that is taken out of sight."""

    def __init__(self, query: Query) -> None:
        super().__init__()
        self._query = query

    def rename(self, source: str, target: str) -> None:
        self._query.begin()
        super().rename(source, target)


@pytest.mark.parametrize("hiding_lock", HidingLock)
def test_a_query_that_does_not_wait_is_refused_by_an_exclusive_lock_alone(
    three_inserts: FixtureTable, server: MetastoreServer, hiding_lock: HidingLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither while the cleanup waits for readers that may be listing, nor while directories go."""
    store, query = Store(), Query(three_inserts)
    three_inserts.run(store=store)
    work = real_work(three_inserts, server.uri, storage=Queried(query), hiding_lock=hiding_lock)
    steps = ControllerSteps(work, cleanup_of(store))
    steps.settle()
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: query.begin())
    monkeypatch.setattr(holding, "time", clock)
    planning = read_lock(three_inserts)
    (result,) = steps.delete()
    assert (result.reason, len(query.answers) > 0) == ("ReadersBusy", True)
    end(three_inserts, locks=[planning])
    (result,) = steps.delete()
    assert (sorted(result.deleted), three_inserts.locks()) == (DELTAS, [])
    assert set(query.answers) == {"NOT_ACQUIRED" if hiding_lock is HidingLock.EXCLUSIVE else "ACQUIRED"}


def test_a_shared_lock_prevents_a_drop_of_the_table(
    three_inserts: FixtureTable, server: MetastoreServer, compact: Callable[..., ControllerSteps]
) -> None:
    """What the controller judges under it is the compacted table (H11): Hive drops under an EXCLUSIVE lock."""
    spec = compact(three_inserts).cleanup.spec
    held = holding.Holding(three_inserts.admin, spec, holding.LockPolicy(shares=True))
    with held.hold_off(""):
        drop = LockWish(
            database=three_inserts.database, table=three_inserts.name, kind=LockKind.EXCLUSIVE, agent="drop"
        )
        state = three_inserts.admin.lock(drop)
        assert not state.acquired
    assert three_inserts.admin.check_lock(state.lock_id)
    end(three_inserts, locks=[state.lock_id])
