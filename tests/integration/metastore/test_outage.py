"""A metastore that stops, hangs and comes back, and one that lets locks time out."""

import threading
import time

import pytest
from sandbox.metastore.server import MetastoreServer

from compaction_operator.metastore import Heartbeat, LockKind, LockLost, LockWish, MetastoreClient, MetastoreUnavailable


@pytest.fixture
def client(server):
    with MetastoreClient(server.settings(timeout=2.0)) as client:
        yield client


def test_a_stopped_metastore_is_unavailable_and_serves_again_after_a_restart(server, client, database, table):
    wish = LockWish(database=database, table=table, kind=LockKind.SHARED_READ, agent="test")
    lock_id = client.lock(wish).lock_id
    heartbeat = Heartbeat(client, lock_id, interval=0.1)
    server.stop()
    try:
        for call in (client.open_transactions, client.valid_txns, lambda: client.lock(wish)):
            started = time.monotonic()
            with pytest.raises(MetastoreUnavailable):
                call()
            assert time.monotonic() - started < 2.5
    finally:
        server.start()
    assert [lock.lock_id for lock in client.show_locks(database, table)] == [lock_id]
    client.heartbeat(lock_id)
    heartbeat.check()
    heartbeat.stop()
    client.unlock(lock_id)


def test_a_metastore_that_hangs_is_unavailable_within_the_timeout(server, client, database, table):
    client.show_locks(database, table)
    server.pause()
    try:
        started = time.monotonic()
        with pytest.raises(MetastoreUnavailable, match="no answer in 2 s"):
            client.show_locks(database, table)
        assert 1.5 < time.monotonic() - started < 3.5
    finally:
        server.resume()
    assert client.show_locks(database, table) == ()


def test_a_lock_without_heartbeats_times_out_and_one_with_them_lives(tmp_path, hive):
    server = MetastoreServer(tmp_path, hive=hive, txn_timeout_seconds=3)
    with server, MetastoreClient(server.settings()) as client:
        silent, beating = (
            client.lock(LockWish(database="default", table="t", kind=LockKind.SHARED_READ, agent=agent)).lock_id
            for agent in ("silent", "beating")
        )
        heartbeat = Heartbeat(client, beating, interval=0.5)
        await_only(client, {beating}, seconds=60)
        heartbeat.check()
        heartbeat.stop()
        with pytest.raises(LockLost):
            client.heartbeat(silent)


def await_only(client: MetastoreClient, lock_ids: set[int], *, seconds: float) -> None:
    """Return when these are the only locks left."""
    pause = threading.Event()
    deadline = time.monotonic() + seconds
    while {lock.lock_id for lock in client.show_locks("default", "t")} != lock_ids:
        assert time.monotonic() < deadline, "the metastore let no lock time out"
        pause.wait(0.5)
