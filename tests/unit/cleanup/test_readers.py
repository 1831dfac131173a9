"""A look at the metastore: an error is never 'no readers'."""

from pathlib import Path

import pytest

from compaction_operator.api.compaction import TableRef
from compaction_operator.cleanup.readers import ReaderSnapshot, look, look_at_all
from compaction_operator.metastore import Generation, MetastoreError, MetastoreUnavailable
from tests.support.metastore import FakeMetastore
from tests.unit.cleanup.support import lock, metastore, open_txns, queued

TABLE = TableRef(database="d", name="t")
OTHER = TableRef(database="d", name="other")


def test_a_look_has_locks_and_transactions() -> None:
    found = look(metastore(Path("/t"), locks=(lock(1),), transactions=open_txns(9, 4)), TABLE)
    assert found.locks == (lock(1),)
    assert found.txns == open_txns(9, 4)


@pytest.mark.parametrize("call", ["show_locks", "open_transactions"])
def test_an_error_of_either_question_is_raised(call: str) -> None:
    """H13: not ready."""
    with pytest.raises(MetastoreError, match=call):
        look(metastore(Path("/t"), broken=frozenset({call})), TABLE)


def test_locks_are_asked_for_before_transactions() -> None:
    """A reader that locks between the two questions has its transaction open in the second."""
    source = metastore(Path("/t"), transactions=open_txns(8))
    source.on("show_locks", lambda *_: source.set_transactions(9, 9), after=True)
    found = look(source, TABLE)
    assert (found.locks, found.txns.open[0].txn) == ((), 9)


def silent(*tables: str) -> FakeMetastore:
    """A metastore that does not answer for the locks on these tables."""
    source = metastore(Path("/t"))

    def refuse(_: str, table: str) -> None:
        if table in tables:
            raise MetastoreUnavailable(f"{table}: timed out")

    source.on("show_locks", refuse)
    return source


def looks(source: FakeMetastore) -> list[tuple[object, ...]]:
    """Return the calls for locks and transactions."""
    return [
        (call.name, *call.arguments[1:])
        for call in source.calls
        if call.name in {"show_locks", "all_locks", "open_transactions"}
    ]


def test_many_tables_cost_a_call_each_and_one_for_all_transactions() -> None:
    """NB: the locks of the last table come before the transactions, too."""
    source = metastore(Path("/t"), locks=(lock(1),))
    found = look_at_all(source, [TABLE, OTHER])
    assert looks(source) == [("show_locks", "t"), ("show_locks", "other"), ("open_transactions",)]
    assert [isinstance(answer, ReaderSnapshot) for answer in found.values()] == [True, True]


def test_one_table_without_an_answer_does_not_hold_up_the_others() -> None:
    found = look_at_all(silent("t"), [TABLE, OTHER])
    assert isinstance(found[TABLE], MetastoreError)
    assert isinstance(found[OTHER], ReaderSnapshot)


def test_a_silent_metastore_is_not_asked_for_every_table() -> None:
    """Each time may cost the whole timeout."""
    tables = [TableRef(database="d", name=f"t{number}") for number in range(9)]
    source = silent(*(table.name for table in tables))
    found = look_at_all(source, tables)
    assert looks(source) == [("show_locks", "t0"), ("show_locks", "t1"), ("open_transactions",)]
    assert all(isinstance(answer, MetastoreError) for answer in found.values())


def test_transactions_that_compact_other_tables_are_listed() -> None:
    """By the queue, from any pool. A transaction that also compacts this table is not among them."""
    queue = (
        queued(1, table="other", txn=4, pool="default"),
        queued(2, table="other", txn=5),
        queued(3, table="t", txn=5),
        queued(4, table="other", txn=7),
    )
    source = metastore(Path("/t"), transactions=open_txns(9, 4, 5, 6), hive=Generation.HIVE4, queue=queue)
    found = look_at_all(source, [TABLE, OTHER])
    assert [answer.compacting_elsewhere for answer in found.values() if isinstance(answer, ReaderSnapshot)] == [
        {4},
        frozenset(),
    ]


def test_all_locks_take_one_call_and_tell_who_has_locked_other_tables_only() -> None:
    """One that has locked this table or its database too, or nothing, may read it."""
    locks = (
        lock(1, table="other", txn=4),
        lock(2, table="other", txn=5),
        lock(3, txn=5),
        lock(4, table="other", txn=6),
        lock(5, table=None, txn=6),
        lock(6, database="elsewhere", table="t", txn=7),
        lock(7, table="other", txn=0),
    )
    source = metastore(Path("/t"), transactions=open_txns(9, 4, 5, 6, 7, 8), locks=locks)
    found = look_at_all(source, [TABLE, OTHER], all_locks=True)
    assert looks(source) == [("all_locks",), ("open_transactions",)]
    found_here, found_there = (answer for answer in found.values() if isinstance(answer, ReaderSnapshot))
    assert [one.lock_id for one in found_here.locks] == [3, 5]
    assert found_here.locking_elsewhere - {0} == {4, 7}
    assert [one.lock_id for one in found_there.locks] == [1, 2, 4, 5, 7]
    assert found_there.locking_elsewhere == {7}


def test_locks_on_other_tables_are_unknown_unless_all_locks_are_listed() -> None:
    source = metastore(Path("/t"), transactions=open_txns(9, 4), locks=(lock(1, table="other", txn=4),))
    assert look(source, TABLE).locking_elsewhere == frozenset()
    broken = metastore(Path("/t"), broken=frozenset({"all_locks"}))
    assert isinstance(look_at_all(broken, [TABLE], all_locks=True)[TABLE], MetastoreError)


def test_hive_3_is_not_asked_for_its_queue() -> None:
    """It does not say in which transaction something is compacted."""
    source = metastore(Path("/t"), transactions=open_txns(9, 4), broken=frozenset({"compactions"}))
    assert look(source, TABLE).compacting_elsewhere == frozenset()
