"""A lock or a transaction is kept alive, and its loss is noticed."""

import threading

import pytest

from compaction_operator.metastore import (
    Heartbeat,
    LockLost,
    MetastoreUnavailable,
    TransactionHeartbeat,
    TransactionLost,
)
from compaction_operator.metastore import heartbeat as module


class ScriptedClient:
    """Ends each heartbeat as the test says; not the fake metastore, because tests wait here for a number of them."""

    def __init__(self, *endings: Exception | None) -> None:
        self._endings = iter(endings)
        self._beats = threading.Semaphore(0)

    def heartbeat(self, lock_id: int) -> None:
        assert lock_id == 5
        self._beat()

    def heartbeat_txn(self, txn: int) -> None:
        assert txn == 7
        self._beat()

    def _beat(self) -> None:
        self._beats.release()
        ending = next(self._endings, None)
        if ending:
            raise ending

    def await_beats(self, number: int) -> None:
        for _ in range(number):
            assert self._beats.acquire(timeout=10)


@pytest.fixture
def beating():
    started: list[Heartbeat] = []

    def start(client: ScriptedClient, *, timeout: float = 300.0, txn: int | None = None) -> Heartbeat:
        if txn:
            started.append(TransactionHeartbeat(client, txn, interval=0.01, timeout=timeout))
        else:
            started.append(Heartbeat(client, 5, interval=0.01, timeout=timeout))
        return started[-1]

    yield start
    for heartbeat in started:
        heartbeat.stop()


def test_a_lock_is_heartbeated_until_it_is_stopped(beating):
    client = ScriptedClient()
    heartbeat = beating(client)
    client.await_beats(3)
    heartbeat.check()
    heartbeat.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "heartbeat-lock-5"]


def test_a_lost_lock_ends_the_heartbeat(beating):
    heartbeat = beating(ScriptedClient(None, LockLost("No such lock")))
    assert heartbeat.lost.wait(60)
    with pytest.raises(LockLost, match="lock 5"):
        heartbeat.check()


def test_a_metastore_that_is_away_for_a_while_is_not_a_loss(beating):
    client = ScriptedClient(MetastoreUnavailable("down"), MetastoreUnavailable("down"))
    heartbeat = beating(client)
    client.await_beats(4)
    heartbeat.check()


def test_a_lock_that_was_not_confirmed_in_time_counts_as_lost(beating):
    """H19: while the metastore is away it may have given the lock to someone else."""
    client = ScriptedClient(*[MetastoreUnavailable("down")] * 1000)
    heartbeat = beating(client, timeout=0.02)
    client.await_beats(5)
    with pytest.raises(LockLost, match="not confirmed"):
        heartbeat.check()
    assert heartbeat.lost.is_set()


def test_a_transaction_is_heartbeated_and_its_loss_noticed(beating):
    client = ScriptedClient(None, None, TransactionLost("Transaction txnid:7 already aborted"))
    heartbeat = beating(client, txn=7)
    assert heartbeat.lost.wait(60)
    with pytest.raises(TransactionLost, match="transaction 7"):
        heartbeat.check()


def test_a_process_that_was_stopped_for_longer_than_the_timeout_notices_before_its_next_heartbeat(monkeypatch):
    """H19: the first thing that a process does when it goes on may be to publish."""
    clock = 1000.0
    monkeypatch.setattr(module, "boot_seconds", lambda: clock)
    heartbeat = TransactionHeartbeat(ScriptedClient(), 7, interval=3600, timeout=300)
    clock = 1299.0
    heartbeat.check()
    clock = 1301.0
    with pytest.raises(TransactionLost, match="not confirmed by the metastore for 301 s"):
        heartbeat.check()
    heartbeat.stop()
