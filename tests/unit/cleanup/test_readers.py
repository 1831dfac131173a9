"""A look at the metastore: an error is never 'no readers'."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from compaction_operator.api.compaction import TableRef
from compaction_operator.cleanup.readers import ReaderSnapshot, look, look_at_all
from compaction_operator.metastore import Generation, LockInfo, MetastoreError, MetastoreUnavailable, OpenTransactions
from tests.unit.cleanup.worlds import FakeMetastore, lock, metastore, open_txns, queued

TABLE = TableRef(database="d", name="t")
OTHER = TableRef(database="d", name="other")


def test_a_look_has_locks_and_transactions() -> None:
    world = look(metastore(Path("/t"), locks=(lock(1),), transactions=open_txns(9, 4)), TABLE)
    assert world.locks == (lock(1),)
    assert world.txns == open_txns(9, 4)


@pytest.mark.parametrize("call", ["show_locks", "open_transactions"])
def test_an_error_of_either_question_is_raised(call: str) -> None:
    """H13: not ready."""
    with pytest.raises(MetastoreError, match=call):
        look(metastore(Path("/t"), broken=frozenset({call})), TABLE)


def test_locks_are_asked_for_before_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that locks between the two questions has its transaction open in the second."""
    source = metastore(Path("/t"), transactions=open_txns(8))
    plain = source.show_locks

    def show_locks_then_a_reader_comes(database: str, table: str, /) -> object:
        answer = plain(database, table)
        source.transactions = open_txns(9, 9)
        return answer

    monkeypatch.setattr(source, "show_locks", show_locks_then_a_reader_comes)
    locks: tuple[LockInfo, ...] = ()
    world = look(source, TABLE)
    assert (world.locks, world.txns.open[0].txn) == (locks, 9)


class Counted(FakeMetastore):
    """Notes the calls, and is silent for some tables."""

    silent: frozenset[str] = frozenset()

    def __init__(self, plain: FakeMetastore, *, silent: frozenset[str] = frozenset()) -> None:
        super().__init__(**vars(plain))
        self.silent = silent
        self.calls: list[str] = []

    def show_locks(self, database: str, table: str, /) -> Sequence[LockInfo]:
        self.calls.append(table)
        if table in self.silent:
            raise MetastoreUnavailable(f"{table}: timed out")
        return super().show_locks(database, table)

    def all_locks(self) -> Sequence[LockInfo]:
        self.calls.append("all")
        return super().all_locks()

    def open_transactions(self) -> OpenTransactions:
        self.calls.append("transactions")
        return super().open_transactions()


def test_many_tables_cost_a_call_each_and_one_for_all_transactions() -> None:
    """NB: the locks of the last table come before the transactions, too."""
    source = Counted(metastore(Path("/t"), locks=(lock(1),)))
    found = look_at_all(source, [TABLE, OTHER])
    assert source.calls == ["t", "other", "transactions"]
    assert [isinstance(world, ReaderSnapshot) for world in found.values()] == [True, True]


def test_one_table_without_an_answer_does_not_hold_up_the_others() -> None:
    found = look_at_all(Counted(metastore(Path("/t")), silent=frozenset({"t"})), [TABLE, OTHER])
    assert isinstance(found[TABLE], MetastoreError)
    assert isinstance(found[OTHER], ReaderSnapshot)


def test_a_silent_metastore_is_not_asked_for_every_table() -> None:
    """Each time may cost the whole timeout."""
    tables = [TableRef(database="d", name=f"t{number}") for number in range(9)]
    source = Counted(metastore(Path("/t")), silent=frozenset(table.name for table in tables))
    found = look_at_all(source, tables)
    assert source.calls == ["t0", "t1", "transactions"]
    assert all(isinstance(answer, MetastoreError) for answer in found.values())


def test_transactions_that_compact_other_tables_are_told() -> None:
    """By the queue, whoever's they are; one that compacts this table, too, is none of them."""
    queue = (
        queued(1, table="other", txn=4, pool="default"),
        queued(2, table="other", txn=5),
        queued(3, table="t", txn=5),
        queued(4, table="other", txn=7),
    )
    source = metastore(Path("/t"), transactions=open_txns(9, 4, 5, 6), hive=Generation.HIVE4, queue=queue)
    found = look_at_all(source, [TABLE, OTHER])
    assert [world.compacting_elsewhere for world in found.values() if isinstance(world, ReaderSnapshot)] == [
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
    source = Counted(metastore(Path("/t"), transactions=open_txns(9, 4, 5, 6, 7, 8), locks=locks))
    found = look_at_all(source, [TABLE, OTHER], all_locks=True)
    assert source.calls == ["all", "transactions"]
    found_here, found_there = (world for world in found.values() if isinstance(world, ReaderSnapshot))
    assert [one.lock_id for one in found_here.locks] == [3, 5]
    assert found_here.locking_elsewhere - {0} == {4, 7}
    assert [one.lock_id for one in found_there.locks] == [1, 2, 4, 5, 7]
    assert found_there.locking_elsewhere == {7}


def test_without_all_locks_nobody_knows_who_has_locked_other_tables() -> None:
    source = metastore(Path("/t"), transactions=open_txns(9, 4), locks=(lock(1, table="other", txn=4),))
    assert look(source, TABLE).locking_elsewhere == frozenset()
    broken = metastore(Path("/t"), broken=frozenset({"all_locks"}))
    assert isinstance(look_at_all(broken, [TABLE], all_locks=True)[TABLE], MetastoreError)


def test_hive_3_is_not_asked_for_its_queue() -> None:
    """It does not say in which transaction something is compacted."""
    source = metastore(Path("/t"), transactions=open_txns(9, 4), broken=frozenset({"compactions"}))
    assert look(source, TABLE).compacting_elsewhere == frozenset()
