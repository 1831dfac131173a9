"""One driver at a time works on a Hudi table, and knows when it is no longer the one."""

import copy
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import kubernetes
import pytest

from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hudi import lease as module
from compaction_operator.driver.hudi.lease import lease_name, table_lease

PLACE = "/warehouse/orders"


class Server:
    """Leases as the API server keeps them: a write at another version than the newest is a conflict."""

    def __init__(self) -> None:
        self.stored: Any = None
        self.down = False
        self.off = timedelta()
        self._version = 0
        self._writes = threading.Semaphore(0)

    def read(self, name: str) -> Any:
        return copy.deepcopy(self.stored)

    def create(self, body: Any) -> Any:
        if self.stored is not None:
            raise kubernetes.client.ApiException(status=409, reason="Conflict")
        return self._write(body)

    def replace(self, body: Any) -> Any:
        self._writes.release()
        if self.down:
            raise kubernetes.client.ApiException(status=503, reason="Unavailable")
        if self.stored is None or body.metadata.resource_version != self.stored.metadata.resource_version:
            raise kubernetes.client.ApiException(status=409, reason="Conflict")
        return self._write(body)

    def await_writes(self, number: int) -> None:
        for _ in range(number):
            assert self._writes.acquire(timeout=10)

    def take(self, holder: str, *, renewed: timedelta = timedelta()) -> None:
        """Let another client write the lease."""
        spec = kubernetes.client.V1LeaseSpec(
            holder_identity=holder, lease_duration_seconds=60, renew_time=datetime.now(UTC) - renewed
        )
        self._write(
            kubernetes.client.V1Lease(metadata=kubernetes.client.V1ObjectMeta(name=lease_name(PLACE)), spec=spec)
        )

    def _write(self, body: Any) -> Any:
        self._version += 1
        self.stored = copy.deepcopy(body)
        self.stored.metadata.resource_version = str(self._version)
        wrote = (datetime.now(UTC) + self.off).replace(microsecond=0)
        self.stored.metadata.managed_fields = [kubernetes.client.V1ManagedFieldsEntry(time=wrote)]
        return copy.deepcopy(self.stored)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(module, "RENEWAL_SECONDS", 0.01)
    return Server()


@pytest.fixture
def held(server: Server) -> Iterator[module.Lease]:
    with table_lease(server, PLACE, holder="pod-1") as lease:
        yield lease


def test_the_name_is_one_that_kubernetes_takes_and_differs_by_place() -> None:
    assert lease_name(PLACE) == "hudi-" + lease_name(PLACE)[5:]
    assert len(lease_name(PLACE)) == 21
    assert lease_name(PLACE) != lease_name("/warehouse/order")


@pytest.mark.parametrize(
    "names",
    [
        ("/lake/orders", "file:/lake/orders/", "file:///lake//orders"),
        (
            "hdfs://nn/lake/orders",
            "hdfs://nn:8020/lake/orders",
            "hdfs://nameservice/lake/orders",
            "hdfs:///lake/orders",
        ),
        ("hdfs://nn/lake/orders", "viewfs://cluster/lake/orders"),
        ("s3a://lake/orders", "s3://lake/orders/", "s3n://lake/orders"),
    ],
)
def test_one_place_has_one_lease_whatever_it_is_called(names: tuple[str, ...]) -> None:
    assert len({lease_name(name) for name in names}) == 1


def test_places_on_different_stores_have_different_leases() -> None:
    assert lease_name("/lake/orders") != lease_name("hdfs://nn/lake/orders") != lease_name("hdfs://nn/lake/order")


def test_a_lease_is_held_renewed_and_given_away(server: Server) -> None:
    with table_lease(server, PLACE, holder="pod-1") as lease:
        assert server.stored.spec.holder_identity == "pod-1"
        assert server.stored.spec.lease_duration_seconds == 60
        server.await_writes(2)
        lease.confirm()
    assert server.stored.spec.holder_identity is None
    with table_lease(server, PLACE, holder="pod-2"):
        assert server.stored.spec.holder_identity == "pod-2"


def test_who_else_holds_it_is_named(server: Server) -> None:
    server.take("pod-7", renewed=timedelta(seconds=50))
    with pytest.raises(JobError, match="held by pod-7") as caught, table_lease(server, PLACE, holder="pod-1"):
        pass
    assert caught.value.reason is Reason.WAITING_FOR_LEASE
    assert server.stored.spec.holder_identity == "pod-7"


def test_a_dead_holders_lease_is_taken_once_it_has_run_out(server: Server) -> None:
    server.take("pod-7", renewed=timedelta(seconds=71))
    with table_lease(server, PLACE, holder="pod-1") as lease:
        lease.confirm()
        assert server.stored.spec.holder_identity == "pod-1"


def test_of_two_that_ask_at_once_one_gets_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "read", lambda name: None)
    with ExitStack() as stack:
        stack.enter_context(table_lease(server, PLACE, holder="pod-1"))
        with pytest.raises(JobError) as caught:
            stack.enter_context(table_lease(server, PLACE, holder="pod-2"))
    assert caught.value.reason is Reason.WAITING_FOR_LEASE


def test_a_lease_that_another_client_took_is_lost(server: Server, held: module.Lease) -> None:
    server.take("pod-7")
    assert held.lost.wait(60)
    with pytest.raises(JobError) as caught:
        held.confirm()
    assert caught.value.reason is Reason.LOCK_LOST
    held.release()
    assert server.stored.spec.holder_identity == "pod-7"


def test_a_lost_answer_to_a_renewal_is_no_loss(server: Server, held: module.Lease) -> None:
    """The server had written it: the next renewal is a conflict with the holder's own."""
    server.take("pod-1")
    server.await_writes(3)
    held.confirm()


@pytest.mark.parametrize("off", [timedelta(minutes=-1), timedelta(minutes=1)], ids=["ahead", "behind"])
def test_a_machine_whose_clock_is_wrong_does_nothing(server: Server, off: timedelta) -> None:
    """Its instants would not be in the order of the writers'; the server tells the time by what it has written."""
    server.off = off
    with pytest.raises(JobError, match=r"clock is [56]. s off") as caught, table_lease(server, PLACE, holder="pod-1"):
        pass
    assert caught.value.reason is Reason.DRIVER_FAILED
    assert server.stored.spec.holder_identity is None


def test_a_server_that_is_away_for_a_while_is_no_loss(server: Server, held: module.Lease) -> None:
    server.down = True
    server.await_writes(3)
    held.confirm()
    server.down = False
    server.await_writes(2)
    held.confirm()


def test_a_lease_that_was_not_renewed_in_time_is_lost(
    server: Server, held: module.Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process was stopped, or its machine asleep: another client may have the lease by now."""
    server.down = True
    server.await_writes(2)
    monkeypatch.setattr(module, "DURATION_SECONDS", 0)
    with pytest.raises(JobError, match="last renewed") as caught:
        held.confirm()
    assert caught.value.reason is Reason.LOCK_LOST


def test_a_server_that_refuses_is_an_error_of_the_driver(server: Server) -> None:
    server.take("")
    server.down = True
    with pytest.raises(JobError, match="503 Unavailable") as caught, table_lease(server, PLACE, holder="pod-1"):
        pass
    assert caught.value.reason is Reason.DRIVER_FAILED
