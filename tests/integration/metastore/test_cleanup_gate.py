"""Who is waited for before anything is deleted, asked of real metastores of both generations."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.cleanup import BlockerHealth, PublishedState
from compaction_operator.api.compaction import CompactionType, Readers
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.kube.resources import TableKey
from tests.integration.metastore.controller_steps import (
    ControllerSteps,
    cleanup_of,
    end,
    read_lock,
    read_only_transaction,
    real_work,
)
from tests.integration.metastore.fixture_table import FixtureTable
from tests.unit.driver.support import Store

LOCK, TRANSACTION = "Lock", "Transaction"


def test_a_transaction_from_before_that_locks_and_reads_only_later_is_waited_for(
    three_inserts: FixtureTable, compact: Callable[..., ControllerSteps]
) -> None:
    """H1 (HIVE-24291): its snapshot is from before the publication; its lock is in no baseline."""
    reader = three_inserts.admin.open_txn(user="reader", agent="test")
    steps = compact(three_inserts)
    assert steps.settle() == {"": PublishedState.PUBLISHED}
    assert steps.baseline.lock_ids == ()
    read_lock(three_inserts, txn=reader)
    assert steps.waits_for() == [(TRANSACTION, reader)]
    end(three_inserts, txns=[reader])
    assert steps.waits_for() == []


def test_a_reader_that_takes_no_lock_at_all_is_waited_for(
    three_inserts: FixtureTable, compact: Callable[..., ControllerSteps]
) -> None:
    """H2 (HIVE-26165): all that it has is a transaction, on Hive 4 one that is called read-only."""
    reader = read_only_transaction(three_inserts)
    steps = compact(three_inserts)
    steps.settle()
    assert steps.waits_for() == [(TRANSACTION, reader)]
    steps.readers = Readers.LOCKS
    assert steps.waits_for() == []
    steps.readers = Readers.LOCKS_AND_TRANSACTIONS
    end(three_inserts, txns=[reader])
    assert steps.waits_for() == []


def test_a_transaction_that_has_locked_other_tables_only_is_waited_for_unless_its_clients_lock_all_at_once(
    three_inserts: FixtureTable, server: MetastoreServer, fixture_table: Callable[..., FixtureTable]
) -> None:
    """HIVE-26704: a transaction without a lock may still ask for any, so the cleanup waits for it as well."""
    store = Store()
    three_inserts.run(store=store)
    other = fixture_table("merge", writes=2)
    elsewhere, unlocked, here = (three_inserts.admin.open_txn(user="reader", agent="test") for _ in range(3))
    read_lock(other, txn=elsewhere)
    of_table = read_lock(three_inserts, txn=here)
    work = real_work(three_inserts, server.uri, readers=(Readers.LOCKS_AND_OWN_TRANSACTIONS,))
    steps = ControllerSteps(work, cleanup_of(store, readers=Readers.LOCKS_AND_OWN_TRANSACTIONS))
    steps.settle()
    assert steps.waits_for() == [(LOCK, of_table), (TRANSACTION, elsewhere), (TRANSACTION, unlocked)]
    steps.readers = Readers.LOCKS_AND_OWN_TRANSACTIONS
    assert steps.waits_for() == [(LOCK, of_table), (TRANSACTION, unlocked)]
    end(three_inserts, txns=[unlocked, here])
    assert steps.waits_for() == []
    (result,) = steps.delete()
    assert result.final
    end(three_inserts, txns=[elsewhere])


def test_what_the_warehouse_does_not_allow_is_not_deleted(three_inserts: FixtureTable, server: MetastoreServer) -> None:
    """However it came into the journal: an administrator may take it back."""
    store = Store()
    three_inserts.run(store=store)
    own = Readers.LOCKS_AND_OWN_TRANSACTIONS
    cleanup, allowing = cleanup_of(store, readers=own), real_work(three_inserts, server.uri, readers=(own,))
    refusing, before = real_work(three_inserts, server.uri), three_inserts.names()
    steps = ControllerSteps(allowing, cleanup)
    steps.settle()
    deleted = refusing.delete(steps.cleanup, cleanup.spec.partitions, purge=False)
    assert isinstance(deleted, Trouble)
    assert (deleted.reason, "LocksAndOwnTransactions is not allowed" in deleted.message) == ("NotAllowed", True)
    assert three_inserts.names() == before


@pytest.mark.parametrize("partition", [None, "prt=p2", "PRT=P2"])
def test_a_lock_on_the_table_or_on_a_partition_in_any_case_is_waited_for(
    try_it: FixtureTable, server: MetastoreServer, partition: str | None
) -> None:
    """H5: asked for a partition, the metastore would not tell of a lock on the table."""
    store = Store()
    try_it.run(store=store, partitions=["prt='p2'"])
    reader, elsewhere = read_lock(try_it, partition=partition), read_lock(try_it, partition="prt=p1")
    steps = ControllerSteps(real_work(try_it, server.uri), cleanup_of(store))
    steps.settle()
    assert steps.waits_for() == [(LOCK, reader)]
    end(try_it, locks=[reader])
    assert steps.waits_for() == []
    end(try_it, locks=[elsewhere])


def test_readers_that_come_later_are_not_waited_for(
    three_inserts: FixtureTable, compact: Callable[..., ControllerSteps]
) -> None:
    """However many there are and however long they stay: they begin with the new directories."""
    steps = compact(three_inserts)
    steps.settle()
    txns = [three_inserts.admin.open_txn(user="reader", agent="test") for _ in range(3)]
    locks = [read_lock(three_inserts, txn=txn) for txn in txns] + [read_lock(three_inserts)]
    assert steps.waits_for() == []
    end(three_inserts, txns=txns, locks=locks[-1:])


def test_a_leaked_lock_is_reported_and_still_waited_for(
    three_inserts: FixtureTable, compact: Callable[..., ControllerSteps]
) -> None:
    """H12: it has heartbeats, because a client forgot to release it. Only a person may end it."""
    steps = compact(three_inserts)
    reader = read_lock(three_inserts)
    steps.settle()
    three_inserts.admin.heartbeat(reader)
    assert [(one.id, one.health) for one in steps.blockers()] == [(reader, BlockerHealth.ALIVE)]
    later = steps.blockers(now=datetime.now(UTC) + timedelta(days=2))
    assert [(one.id, one.health) for one in later] == [(reader, BlockerHealth.LIKELY_LEAKED)]
    end(three_inserts, locks=[reader])


def test_a_lock_of_a_transaction_has_its_heartbeats(
    three_inserts: FixtureTable, compact: Callable[..., ControllerSteps]
) -> None:
    """H12: the metastore says none for the lock itself."""
    reader = three_inserts.admin.open_txn(user="reader", agent="test")
    read_lock(three_inserts, txn=reader)
    steps = compact(three_inserts)
    steps.settle()
    three_inserts.admin.heartbeat_txn(reader)
    assert [(one.txn_id, one.health) for one in steps.blockers()] == [(reader, BlockerHealth.ALIVE)]
    end(three_inserts, txns=[reader])


def test_an_unreachable_metastore_does_not_count_as_no_readers(three_inserts: FixtureTable) -> None:
    """H13: the controller settles nothing, deletes nothing and does not report that the readers are gone."""
    store = Store()
    three_inserts.run(store=store)
    before = three_inserts.names()
    work, cleanup = real_work(three_inserts, "thrift://127.0.0.1:1"), cleanup_of(store)
    key = TableKey.of(cleanup.spec.warehouse, three_inserts.database, three_inserts.name)
    assert isinstance(work.settle(cleanup, driver_ended=True), Trouble)
    assert isinstance(work.look(key.warehouse, [key])[key], Trouble)
    assert isinstance(work.delete(cleanup, cleanup.spec.partitions, purge=False), Trouble)
    assert three_inserts.names() == before


def test_a_compaction_of_another_table_is_no_reader(
    three_inserts: FixtureTable, fixture_table: Callable[..., FixtureTable], compact: Callable[..., ControllerSteps]
) -> None:
    """On Hive 4 it has an open transaction, which the queue tells of; on 3.1 it has none."""
    seen: list[list[tuple[str, int]]] = []
    steps = compact(three_inserts)

    def meanwhile() -> None:
        steps.settle()
        seen.append(steps.waits_for())

    other = fixture_table("merge", writes=2)
    other.run(CompactionType.MAJOR, store=Store(on_create=meanwhile))
    assert seen == [[]]
