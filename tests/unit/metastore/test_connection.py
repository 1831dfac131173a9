"""Deadlines, broken connections and calls that must not be sent twice."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from compaction_operator.api.config import Metastore
from compaction_operator.metastore import (
    LockKind,
    LockWish,
    MetastoreClient,
    MetastoreError,
    MetastoreUnavailable,
    TableNotFound,
)
from tests.unit.metastore.stub import StubMetastore

NO_LOCKS = ttypes.ShowLocksResponse(locks=[])
WISH = LockWish(database="db", table="t", kind=LockKind.SHARED_READ, agent="test")


def test_a_metastore_that_hangs_is_unavailable_after_the_timeout(stub):
    release = threading.Event()
    metastore = stub(show_locks=lambda _: release.wait(30) and NO_LOCKS)
    started = time.monotonic()
    with MetastoreClient(metastore.settings(timeout=0.3)) as client, pytest.raises(MetastoreUnavailable) as caught:
        client.show_locks("db", "t")
    release.set()
    assert time.monotonic() - started < 2
    assert "no answer in 0.3 s" in str(caught.value)


def test_the_timeout_is_for_the_whole_call_not_for_each_byte():
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        trickle = threading.Thread(target=send_a_byte_now_and_then, args=[listener, stop])
        trickle.start()
        settings = Metastore(uris=(f"thrift://127.0.0.1:{listener.getsockname()[1]}",), timeout=0.5)
        started = time.monotonic()
        with MetastoreClient(settings) as client, pytest.raises(MetastoreUnavailable):
            client.show_locks("db", "t")
        stop.set()
        trickle.join()
    assert time.monotonic() - started < 2


def send_a_byte_now_and_then(listener: socket.socket, stop: threading.Event) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(bytes.fromhex("80010002 00001000"))  # a reply, whose method's name has 4096 bytes
        for _ in range(50):
            if stop.wait(0.1):
                break
            connection.sendall(b"x")


def test_an_address_without_a_listener_is_unavailable_and_named():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        uri = f"thrift://127.0.0.1:{probe.getsockname()[1]}"
    with MetastoreClient(Metastore(uris=(uri,), timeout=5.0)) as client, pytest.raises(MetastoreUnavailable, match=uri):
        client.open_transactions()


def test_a_connection_that_was_closed_while_idle_is_replaced_before_it_is_used(stub):
    metastore = stub(show_locks=NO_LOCKS, lock=ttypes.LockResponse(lockid=7, state=1))
    with MetastoreClient(metastore.settings()) as client:
        client.show_locks("db", "t")
        metastore.drop_connections()
        assert client.lock(WISH).lock_id == 7
    assert metastore.handler.calls == ["show_locks", "lock"]


def test_a_lock_call_whose_answer_is_lost_is_not_sent_again(stub):
    metastore: StubMetastore = stub(lock=lambda _: metastore.drop_connections())
    with MetastoreClient(metastore.settings()) as client, pytest.raises(MetastoreUnavailable):
        client.lock(WISH)
    assert metastore.handler.calls == ["lock"]


def test_after_an_error_the_next_call_reconnects(stub):
    answers = iter(["lost", NO_LOCKS])
    metastore: StubMetastore = stub(show_locks=lambda _: lose(metastore, next(answers)))
    with MetastoreClient(metastore.settings()) as client:
        with pytest.raises(MetastoreUnavailable):
            client.show_locks("db", "t")
        assert client.show_locks("db", "t") == ()
    assert len(metastore.connections) == 2


def lose(metastore: StubMetastore, answer: Any) -> Any:
    if answer == "lost":
        metastore.drop_connections()
        return None
    return answer


def test_one_connection_serves_calls_that_follow_each_other_even_after_a_refusal(stub):
    refusal = ttypes.NoSuchObjectException(message="no")
    metastore = stub(show_locks=NO_LOCKS, get_table_req=lambda _: raise_(refusal))
    with MetastoreClient(metastore.settings()) as client:
        client.show_locks("db", "t")
        with pytest.raises(TableNotFound, match=r"db\.t"):
            client.get_table("db", "t")
        client.show_locks("db", "t")
    assert len(metastore.connections) == 1


def raise_(error: Exception) -> Any:
    raise error


def test_calls_of_many_threads_do_not_mix_their_answers(stub):
    def answer(request):
        locks = [ttypes.ShowLocksResponseElement(1, request.dbname, "t", None, 1, 1, user="u", hostname="h")]
        return ttypes.ShowLocksResponse(locks=locks)

    with MetastoreClient(stub(show_locks=answer).settings()) as client, ThreadPoolExecutor(8) as pool:
        names = [f"db{number}" for number in range(200)]
        databases = pool.map(lambda name: client.show_locks(name, "t")[0].database, names)
        assert list(databases) == names


def test_a_refusal_keeps_the_metastores_own_words(stub):
    refusal = ttypes.MetaException(message="the database is down")
    metastore = stub(get_table_req=lambda _: raise_(refusal))
    with MetastoreClient(metastore.settings()) as client:
        with pytest.raises(MetastoreError, match="the database is down") as caught:
            client.get_table("db", "t")
        assert not isinstance(caught.value, MetastoreUnavailable)


def test_something_else_than_a_metastore_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer_in_http, args=[listener], daemon=True).start()
        settings = Metastore(uris=(f"thrift://127.0.0.1:{listener.getsockname()[1]}",), timeout=5.0)
        with MetastoreClient(settings) as client, pytest.raises(MetastoreError):
            client.show_locks("db", "t")


def answer_in_http(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_a_closed_client_keeps_no_connection_open(stub):
    metastore = stub(show_locks=NO_LOCKS)
    client = MetastoreClient(metastore.settings())
    client.show_locks("db", "t")
    client.close()
    client.show_locks("db", "t")
    assert len(metastore.connections) == 2
    assert metastore.await_clients_gone(5)
