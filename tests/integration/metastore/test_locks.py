"""Locks of a real metastore: who gets them, who sees them, how they go."""

from datetime import UTC, datetime

import pytest
from hmsclient.genthrift.hive_metastore import ttypes
from sandbox.metastore.admin import MetastoreAdmin, name_of

from compaction_operator.metastore import (
    Generation,
    Heartbeat,
    LockKind,
    LockLost,
    LockWish,
    MetastoreError,
    TransactionLost,
    lock_name,
)

SHARED, EXCLUSIVE = LockKind.SHARED_READ, LockKind.EXCLUSIVE


@pytest.fixture
def take(admin, database, table):
    """Ask for a lock on the test's table; it is given back after the test."""
    taken = []

    def ask(kind=SHARED, *, partition=None, agent="test", txn=0):
        wish = LockWish(database=database, table=table, partition=partition, kind=kind, agent=agent, txn=txn)
        taken.append(admin.lock(wish))
        return taken[-1]

    yield ask
    for state in taken:
        admin.unlock(state.lock_id)


@pytest.fixture
def table(make_table):
    return make_table(keys=("prt",))


def test_readers_share(take):
    assert take().acquired and take(partition="prt=p1").acquired


@pytest.mark.parametrize(
    ("held", "wanted"),
    [("prt=p1", "prt=p1"), (None, "prt=p1"), ("prt=p1", None), (None, None)],
)
def test_an_exclusive_lock_waits_for_a_reader_of_table_or_partition(admin, take, held, wanted):
    reader = take(partition=held)
    writer = take(EXCLUSIVE, partition=wanted)
    assert reader.acquired and not writer.acquired
    assert admin.check_lock(writer.lock_id) is False
    admin.unlock(reader.lock_id)
    assert admin.check_lock(writer.lock_id) is True


def test_hive_3_takes_partitions_whose_names_differ_in_case_for_one_and_hive_4_does_not(admin, take):
    assert take(partition="prt=P1").acquired
    assert take(EXCLUSIVE, partition="prt=p1").acquired == (admin.generation() is Generation.HIVE4)


def test_an_exclusive_lock_leaves_readers_of_other_partitions_alone(take):
    assert take(partition="prt=p1").acquired
    assert take(EXCLUSIVE, partition="prt=p2").acquired


def test_a_reader_queues_behind_an_exclusive_lock_that_waits(admin, take):
    """Why such a lock is waited for with a bound."""
    first, writer, second = take(partition="prt=p1"), take(EXCLUSIVE, partition="prt=p1"), take(partition="prt=p1")
    assert first.acquired and not writer.acquired and not second.acquired
    admin.unlock(writer.lock_id)
    assert admin.check_lock(second.lock_id)


def test_an_exclusive_lock_keeps_readers_out_until_it_is_given_back(admin, take):
    writer = take(EXCLUSIVE, partition="prt=p1")
    reader = take(partition="prt=p1")
    assert writer.acquired and not reader.acquired
    admin.unlock(writer.lock_id)
    assert admin.check_lock(reader.lock_id)


def test_locks_on_partition_table_and_database_are_all_shown(admin, database, table, take):
    """H5: the metastore's own filter would leave out the last one, or the last two."""
    on_partition, on_table = take(partition="prt=p1"), take()
    on_database = lock_database(admin, database)
    found = {lock.lock_id: (lock.database, lock.table, lock.partition) for lock in admin.show_locks(database, table)}
    admin.unlock(on_database)
    assert found == {
        on_partition.lock_id: (database, table, "prt=p1"),
        on_table.lock_id: (database, table, None),
        on_database: (database, None, None),
    }


def lock_database(admin: MetastoreAdmin, database: str) -> int:
    """What Hive takes for DROP DATABASE; this project never does."""
    component = ttypes.LockComponent(
        type=ttypes.LockType.SHARED_READ,
        level=ttypes.LockLevel.DB,
        dbname=database,
        operationType=ttypes.DataOperationType.NO_TXN,
        isTransactional=True,
    )
    request = ttypes.LockRequest(component=[component], user="u", hostname="h", agentInfo="test")
    lock_id: int = admin._call(lambda client: client.lock(request)).lockid
    return lock_id


def test_locks_of_other_tables_and_databases_are_not_shown(admin, database, table, make_table, take):
    make_table("other")
    admin_lock = admin.lock(LockWish(database=database, table="other", kind=SHARED, agent="test"))
    mine = take()
    assert [lock.lock_id for lock in admin.show_locks(database, table)] == [mine.lock_id]
    assert admin.show_locks("nowhere", table) == ()
    admin.unlock(admin_lock.lock_id)


def test_locks_are_shown_for_names_in_any_case_and_shown_in_lower_case(admin, database, table, take):
    wish = LockWish(database=database.upper(), table=table.upper(), partition="PRT=AbC", kind=SHARED, agent="test")
    lock_id = admin.lock(wish).lock_id
    (lock,) = admin.show_locks(database.upper(), table.upper())
    admin.unlock(lock_id)
    assert (lock.lock_id, lock.database, lock.table, lock.partition) == (lock_id, database, table, "prt=abc")


@pytest.mark.parametrize("value", ["a:b", "a b", "x=y", "100%", "a%3Ab", "a/b", "Ü"])
def test_a_lock_on_a_partition_with_special_characters_is_found_by_its_name(admin, database, table, take, value):
    """H5: Hive 4 escapes once more what is escaped already, so its locks do not show the partition's own name."""
    name = name_of(["prt"], [value])
    mine = take(partition=name)
    (lock,) = admin.show_locks(database, table)
    assert (lock.lock_id, lock.partition) == (mine.lock_id, lock_name(name))


def test_a_lock_says_who_holds_it_since_when(admin, database, table, take):
    before = datetime.now(UTC)
    held, waiting = take(agent="attempt-1"), take(EXCLUSIVE, agent="attempt-2")
    first, second = sorted(admin.show_locks(database, table), key=lambda lock: lock.lock_id)
    assert (first.lock_id, first.state, first.type, first.txn) == (held.lock_id, "ACQUIRED", "SHARED_READ", 0)
    assert (first.user, first.agent) == ("compaction-operator", "attempt-1")
    assert abs((first.acquired_at - before).total_seconds()) < 5
    assert first.last_heartbeat is not None
    assert (second.lock_id, second.state, second.type) == (waiting.lock_id, "WAITING", "EXCLUSIVE")
    assert second.acquired_at is None and second.agent == "attempt-2"


def test_a_lock_of_a_transaction_names_it_and_goes_with_it(admin, database, table, take):
    txn = admin.open_txn(user="reader", agent="test")
    lock_id = admin.lock(LockWish(database=database, table=table, kind=SHARED, agent="test", txn=txn)).lock_id
    (lock,) = admin.show_locks(database, table)
    assert (lock.lock_id, lock.txn, lock.last_heartbeat) == (lock_id, txn, None)
    with pytest.raises(MetastoreError, match="TxnOpenException"):
        admin.unlock(lock_id)
    admin.commit_txn(txn)
    assert admin.show_locks(database, table) == ()


def test_a_lock_of_an_aborted_transaction_is_not_given(admin, take):
    txn = admin.open_txn(user="u", agent="a")
    admin.abort_txn(txn)
    with pytest.raises(TransactionLost):
        take(txn=txn)


def test_giving_a_lock_back_twice_is_no_error(admin, database, table, take):
    lock_id = take().lock_id
    admin.unlock(lock_id)
    admin.unlock(lock_id)
    assert admin.show_locks(database, table) == ()


def test_a_lock_that_vanished_is_lost(admin, take):
    lock_id = take().lock_id
    admin.heartbeat(lock_id)
    assert admin.check_lock(lock_id)
    admin.unlock(lock_id)
    with pytest.raises(LockLost):
        admin.heartbeat(lock_id)
    with pytest.raises(LockLost):
        admin.check_lock(lock_id)


def test_the_heartbeat_thread_notices_that_a_lock_vanished(admin, take):
    lock_id = take().lock_id
    heartbeat = Heartbeat(admin, lock_id, interval=0.05)
    heartbeat.check()
    assert not heartbeat.lost.is_set()
    admin.unlock(lock_id)
    assert heartbeat.lost.wait(10)
    heartbeat.stop()
    with pytest.raises(LockLost):
        heartbeat.check()
