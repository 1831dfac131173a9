"""H24: whose snapshot may be older than a plan, and how long they are waited for."""

from itertools import repeat

import pytest

from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive import older_snapshots as older
from compaction_operator.driver.hive.older_snapshots import OlderSnapshots
from compaction_operator.metastore import MetastoreUnavailable
from tests.support.metastore import FakeMetastore, unavailable
from tests.unit.driver.support import script_open_transactions


def metastore_with(*answers: list[int]) -> FakeMetastore:
    """These transactions are open, one answer after another, below the mark 10."""
    metastore = FakeMetastore()
    script_open_transactions(metastore, *answers, marks=repeat(10))
    return metastore


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(older, "POLL_SECONDS", 0.001)


def snapshots(metastore: FakeMetastore) -> OlderSnapshots:
    return OlderSnapshots(metastore.client())


def test_transactions_behind_the_mark_are_not_waited_for() -> None:
    """Later transactions see what the plan rests on: the write ids were settled before."""
    asked = snapshots(metastore_with([9], [9, 10, 11], [11, 12]))
    mark = asked.mark()
    assert [txn.txn for txn in asked.open(mark)] == [9, 10]
    assert asked.open(mark) == []


def test_waiting_ends_with_the_last_of_them() -> None:
    metastore = metastore_with([8, 9], [8, 9], [9, 11], [11])
    asked = snapshots(metastore)
    asked.wait(asked.mark())
    assert metastore.count("open_transactions") == 4


def test_patience_ends_with_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(older, "PATIENCE_SECONDS", 0.01)
    asked = snapshots(metastore_with(list(range(1, 8))))
    with pytest.raises(JobError) as stopped:
        asked.wait(asked.mark())
    assert stopped.value.reason is Reason.WAITING_FOR_OPEN_TRANSACTIONS
    assert "transaction 1 of alice@desk, transaction 2" in str(stopped.value)
    assert str(stopped.value).endswith("and 2 more")


def test_a_drivers_patience_is_for_all_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(older, "PATIENCE_SECONDS", 0.01)
    metastore = metastore_with([5])
    asked = snapshots(metastore)
    mark = asked.mark()
    for _ in range(2):
        before = metastore.count("open_transactions")
        with pytest.raises(JobError):
            asked.wait(mark)
    assert metastore.count("open_transactions") == before + 1


def test_no_answer_does_not_count_as_no_transactions() -> None:
    """H13: an error ends the attempt; nothing is published on a guess."""
    with pytest.raises(MetastoreUnavailable):
        snapshots(unavailable()).mark()
