"""H24: whose snapshot may be older than a plan, and how long they are waited for."""

from typing import cast

import pytest

from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive import older_snapshots as older
from compaction_operator.driver.hive.older_snapshots import OlderSnapshots
from compaction_operator.metastore import MetastoreClient, MetastoreUnavailable, OpenTransactions, TxnInfo


class Metastore:
    """Answers with these open transactions, one answer after another, and then with the last one again."""

    def __init__(self, *answers: list[int], mark: int = 10) -> None:
        self.answers = list(answers)
        self.asked = 0
        self._mark = mark

    def open_transactions(self) -> OpenTransactions:
        txns = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        infos = (TxnInfo(txn=txn, state="OPEN", user="alice", host="desk") for txn in txns)
        return OpenTransactions(self._mark, tuple(infos))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(older, "POLL_SECONDS", 0.001)


def snapshots(metastore: Metastore) -> OlderSnapshots:
    return OlderSnapshots(cast(MetastoreClient, metastore))


def test_whoever_came_behind_the_mark_is_not_waited_for() -> None:
    """They see what the plan rests on: the write ids were settled before."""
    asked = snapshots(Metastore([9], [9, 10, 11], [11, 12], mark=10))
    mark = asked.mark()
    assert [txn.txn for txn in asked.open(mark)] == [9, 10]
    assert asked.open(mark) == []


def test_waiting_ends_with_the_last_of_them() -> None:
    metastore = Metastore([8, 9], [8, 9], [9, 11], [11])
    asked = snapshots(metastore)
    asked.wait(asked.mark())
    assert metastore.asked == 4


def test_patience_ends_with_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(older, "PATIENCE_SECONDS", 0.01)
    asked = snapshots(Metastore(list(range(1, 8))))
    with pytest.raises(JobError) as stopped:
        asked.wait(asked.mark())
    assert stopped.value.reason is Reason.WAITING_FOR_OPEN_TRANSACTIONS
    assert "transaction 1 of alice@desk, transaction 2" in str(stopped.value)
    assert str(stopped.value).endswith("and 2 more")


def test_a_drivers_patience_is_for_all_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(older, "PATIENCE_SECONDS", 0.01)
    metastore = Metastore([5])
    asked = snapshots(metastore)
    mark = asked.mark()
    for _ in range(2):
        before = metastore.asked
        with pytest.raises(JobError):
            asked.wait(mark)
    assert metastore.asked == before + 1


def test_no_answer_is_not_nobody() -> None:
    """H13: an error ends the attempt; nothing is published on a guess."""

    class Silent(Metastore):
        def open_transactions(self) -> OpenTransactions:
            raise MetastoreUnavailable("no answer")

    with pytest.raises(MetastoreUnavailable):
        snapshots(Silent([])).mark()
