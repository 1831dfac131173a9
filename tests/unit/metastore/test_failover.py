"""Several URIs: the next one is tried where nothing was sent yet, and what works is kept to."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from compaction_operator.api.config import Metastore
from compaction_operator.metastore import LockKind, LockWish, MetastoreClient, MetastoreUnavailable
from tests.unit.metastore.stub import StubMetastore

NO_LOCKS = ttypes.ShowLocksResponse(locks=[])
WISH = LockWish(database="db", table="t", kind=LockKind.SHARED_READ, agent="test")


def settings(*uris: str, timeout: float = 5.0, connections: int = 8) -> Metastore:
    return Metastore(uris=uris, timeout=timeout, connections=connections)


def uri_of(metastore: StubMetastore) -> str:
    return metastore.settings().uris[0]


@pytest.fixture
def closed() -> str:
    """A URI without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"thrift://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def deaf() -> Iterator[str]:
    """A URI that takes no connection and says nothing: its queue of connections is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(2):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"thrift://127.0.0.1:{listener.getsockname()[1]}"


def test_the_next_uri_is_tried_if_there_is_no_listener(stub: Callable[..., StubMetastore], closed: str) -> None:
    with MetastoreClient(settings(closed, uri_of(stub(show_locks=NO_LOCKS)))) as client:
        assert client.show_locks("db", "t") == ()


def test_the_next_uri_is_tried_within_the_time_of_the_call(stub: Callable[..., StubMetastore], deaf: str) -> None:
    with MetastoreClient(settings(deaf, uri_of(stub(show_locks=NO_LOCKS)), timeout=2.0)) as client:
        assert client.show_locks("db", "t") == ()


def test_the_uri_that_worked_is_kept_to(stub: Callable[..., StubMetastore], deaf: str) -> None:
    """Also once all connections are closed: only the first call waits for the deaf one."""
    metastore = stub(show_locks=NO_LOCKS)
    with MetastoreClient(settings(deaf, uri_of(metastore), timeout=2.0)) as client:
        for _ in range(6):
            assert client.show_locks("db", "t") == ()
            metastore.connections[-1].shutdown(socket.SHUT_RDWR)
    assert len(metastore.connections) == 6


def test_a_call_that_was_sent_is_not_sent_to_another_uri(stub: Callable[..., StubMetastore]) -> None:
    """The first may have done it; the next call, whatever it is, goes to the other one."""
    first: StubMetastore = stub(lock=lambda _: first.drop_connections())
    second = stub(show_locks=NO_LOCKS, lock=ttypes.LockResponse(lockid=7, state=1))
    with MetastoreClient(settings(uri_of(first), uri_of(second))) as client:
        with pytest.raises(MetastoreUnavailable, match=uri_of(first)):
            client.lock(WISH)
        assert second.handler.calls == []
        assert client.show_locks("db", "t") == ()
    assert first.handler.calls == ["lock"]


def test_when_none_can_be_reached_each_is_named(closed: str, deaf: str) -> None:
    with MetastoreClient(settings(closed, deaf, timeout=0.6)) as client, pytest.raises(MetastoreUnavailable) as caught:
        client.show_locks("db", "t")
    assert f"metastore {closed}: [Errno 111] Connection refused" in str(caught.value)
    assert f"metastore {deaf}: no answer in 0.6 s" in str(caught.value)


def test_a_name_that_is_looked_up_for_too_long_is_given_up(
    stub: Callable[..., StubMetastore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The C library's own time-outs are minutes, and cannot be set."""
    answered = threading.Event()
    original = socket.getaddrinfo

    def look_up(host: str, *arguments: Any, **options: Any) -> Any:
        if host == "slow.example":
            answered.wait(30)
        return original(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    uris = ("thrift://slow.example:9083", uri_of(stub(show_locks=NO_LOCKS)))
    with MetastoreClient(settings(*uris, timeout=1.0)) as client:
        assert client.show_locks("db", "t") == ()
        with MetastoreClient(settings(uris[0], timeout=0.3)) as other, pytest.raises(MetastoreUnavailable):
            other.show_locks("db", "t")
    answered.set()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b"])
def test_a_host_that_does_not_exist_is_unavailable(host: str) -> None:
    with MetastoreClient(settings(f"thrift://{host}:9083")) as client, pytest.raises(MetastoreUnavailable, match=host):
        client.show_locks("db", "t")


def test_no_more_connections_than_are_allowed(stub: Callable[..., StubMetastore]) -> None:
    """The others wait for theirs."""
    both = threading.Barrier(2, timeout=10)
    metastore = stub(show_locks=lambda _: both.wait() + 1 and NO_LOCKS)
    with MetastoreClient(settings(uri_of(metastore), connections=2)) as client, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: client.show_locks("db", "t"), range(8))) == [()] * 8
    assert len(metastore.connections) == 2


def test_waiting_for_a_connection_ends_with_the_timeout(stub: Callable[..., StubMetastore]) -> None:
    busy, release = threading.Event(), threading.Event()

    def answer(_: Any) -> Any:
        busy.set()
        release.wait(30)
        return NO_LOCKS

    metastore = stub(show_locks=answer)
    with (
        MetastoreClient(settings(uri_of(metastore), timeout=1.0, connections=1)) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        first = pool.submit(client.show_locks, "db", "t")
        busy.wait(10)
        with pytest.raises(MetastoreUnavailable):
            client.show_locks("db", "t")
        release.set()
        first.exception(10)
