"""A look at the metastore: an error is never 'no readers'."""

from pathlib import Path

import pytest

from compaction_operator.api.compaction import TableRef
from compaction_operator.cleanup.readers import look
from compaction_operator.metastore.errors import MetastoreError
from compaction_operator.metastore.locks import LockInfo
from tests.unit.cleanup.worlds import lock, metastore, open_txns

TABLE = TableRef(database="d", name="t")


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
