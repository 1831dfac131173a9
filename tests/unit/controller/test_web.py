"""The controller's HTTP server: metrics, and answers to questions about tables, as a client gets them."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from compaction_operator.api.config import UiSettings
from compaction_operator.api.why import Explanation
from compaction_operator.controller import web
from compaction_operator.controller.kube.client import KubeError, Raw
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.controller.metrics import Metrics
from compaction_operator.controller.page import Site, Unseen
from compaction_operator.controller.policies import Question
from compaction_operator.controller.web import Why, serve, serve_page
from compaction_operator.policy.memory import Problem
from tests.unit.controller.sandbox import NOON, Sandbox, compaction_raw, runs
from tests.unit.controller.test_policies import CLEAN, change, created, end, memory, policy_raw, started, state

DUE = "sales.orders"


def nothing(question: Question) -> list[Explanation] | None:
    return None


@contextmanager
def served(why: Why, metrics: Metrics | None = None) -> Iterator[str]:
    """A server at a port of its own; yields its address."""
    server = serve(0, registry=(metrics or Metrics()).registry, why=why)
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def ask(why: Why, query: str = "", *, method: str = "GET", **parameters: str) -> tuple[int, Any]:
    """Return the status and the JSON of an answer."""
    with served(why) as address:
        request = Request(f"{address}/why?{query or urlencode(parameters)}", method=method)
        try:
            with urlopen(request, timeout=10) as answer:
                assert answer.headers["Content-Type"] == "application/json"
                return answer.status, json.load(answer)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)


def refused(why: Why, query: str) -> tuple[int, str]:
    """Return the status and the message of an error, whose form is that of the API server's."""
    status, answer = ask(why, query)
    assert (answer["kind"], answer["apiVersion"], answer["status"]) == ("Status", "v1", "Failure")
    assert answer["code"] == status
    message: str = answer["message"]
    return status, message


def one(box: Sandbox, table: str = DUE, **parameters: str) -> dict[str, Any]:
    """Return the answer of the only policy."""
    status, (found,) = ask(box.controller.why, table=table, **parameters)
    assert status == 200
    answer: dict[str, Any] = found
    return answer


def verdict(box: Sandbox, table: str = DUE) -> tuple[str, str]:
    found = one(box, table)
    return found["verdict"], found["reason"]


def test_metrics_are_served() -> None:
    metrics = Metrics()
    metrics.errors.labels("lake", "look").inc()
    with served(nothing, metrics) as address, urlopen(f"{address}/metrics", timeout=10) as answer:
        assert 'compaction_operator_errors_total{operation="look",warehouse="lake"} 1.0' in answer.read().decode()


@contextmanager
def connections(address: str, count: int, *, send: bytes = b"") -> Iterator[list[socket.socket]]:
    """Open connections that the server has accepted, in this order."""
    with ExitStack() as stack:
        host, _, port = address.rpartition("/")[2].partition(":")
        made = [stack.enter_context(socket.create_connection((host, int(port)), timeout=10)) for _ in range(count)]
        for one in made:
            one.sendall(send)
        yield made


def test_connections_without_a_request_keep_no_scrape_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new one takes the place of the oldest, so a kubelet or Prometheus is answered, and threads stay few."""
    monkeypatch.setattr(web, "CONNECTIONS", 3)
    with served(nothing) as address, connections(address, 5) as silent:
        for one in silent[:2]:
            assert one.recv(1) == b""
        with urlopen(f"{address}/metrics", timeout=10) as answer:
            assert answer.status == 200
        assert silent[2].recv(1) == b""
        silent[4].sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert silent[4].recv(15) == b"HTTP/1.0 200 OK"


def test_while_as_many_requests_as_fit_are_answered_another_one_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each that ends gives its room back."""
    monkeypatch.setattr(web, "CONNECTIONS", 2)
    asked, go_on = threading.Semaphore(0), threading.Event()

    def slow(question: Question) -> list[Explanation] | None:
        asked.release()
        assert go_on.wait(60)
        return []

    ask_why = b"GET /why?table=a.b HTTP/1.0\r\n\r\n"
    with served(slow) as address, connections(address, 2, send=ask_why) as busy:
        assert all(asked.acquire(timeout=60) for _ in busy)
        with connections(address, 1) as (refused,):
            assert refused.recv(1) == b""
        go_on.set()
        for one in busy:
            with one.makefile("rb") as answer:
                assert b" 200 " in answer.read()
        with urlopen(f"{address}/why?table=a.b", timeout=60) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    ("host", "hosts", "status"),
    [
        ("localhost", ["localhost"], 200),
        ("LocalHost:8082", ["localhost"], 200),
        ("[::1]:8082", ["::1"], 200),
        ("page.example", ["localhost", "Page.example"], 200),
        ("page.example.:8082", ["page.example"], 200),
        ("page.example", ["page.example."], 200),
        ("evil.example", [], 200),
        ("evil.example", ["localhost"], 421),
        ("localhost.evil.example:8082", ["localhost"], 421),
        ("[", ["localhost"], 421),
        ("", ["localhost"], 421),
    ],
)
def test_the_page_answers_by_its_own_names_only(host: str, hosts: list[str], status: int) -> None:
    """Else a page of another site, whose name leads here, could read what the browser gets (DNS rebinding)."""
    config = UiSettings(hosts=tuple(hosts))
    server = serve_page(0, Site(lambda: Unseen(standby=False), clock=lambda: NOON), hosts=config.hosts)
    try:
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        connection.request("GET", "/ui", headers={"Host": host})
        answer = connection.getresponse()
        assert (answer.status, b"ui.hosts" in answer.read()) == (302 if status == 200 else 421, status == 421)
        connection.close()
    finally:
        server.shutdown()
        server.server_close()


def test_a_port_that_is_taken_is_named() -> None:
    with served(nothing) as address:
        port = address.rpartition(":")[2]
        with pytest.raises(OSError, match=f"metrics at port {port}: "):
            serve(int(port), registry=Metrics().registry, why=nothing)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", "write database.name"),
        ("table=orders", "table='orders'"),
        ("table=a.b.c", "table='a.b.c'"),
        ("table=s3://a.b", "table='s3://a.b'"),
        ("table=a.b&table=c.d", "'table' is given more than once"),
        ("table=a.b&colour=blue", "'colour'"),
        ("table=a.b" + "&x=1" * 10, "fields"),
    ],
)
def test_a_question_that_cannot_be_understood(query: str, says: str) -> None:
    status, message = refused(nothing, query)
    assert status == 400
    assert says in message


def test_only_questions_are_answered() -> None:
    assert ask(nothing, "table=a.b", method="POST")[0] == 405


def test_an_error_of_ours_is_no_error_of_the_client(caplog: pytest.LogCaptureFixture) -> None:
    def broken(question: Question) -> list[Explanation] | None:
        raise ValueError("a bug")

    assert refused(broken, "table=a.b") == (500, "the controller's log says what failed")
    assert "a bug" in caplog.text


@runs
async def test_before_all_policies_are_known_there_is_no_answer() -> None:
    box = Sandbox()
    box.create()
    assert ask(box.controller.why, table=DUE)[0] == 503
    await box.start()
    assert refused(box.controller.why, f"table={DUE}") == (404, "there is no CompactionPolicy")


@runs
async def test_a_due_table_from_its_pick_to_its_compaction() -> None:
    box = await started(memory(state(DUE), state("sales.calm", CLEAN)))
    (made,) = created(box)
    found = one(box, "Sales.ORDERS")
    assert (found["verdict"], found["reason"]) == ("Picked", "Created")
    assert made["metadata"]["name"] in found["message"]
    assert {name: found[name] for name in ("namespace", "policy", "warehouse", "table", "lookedAt", "nextLookAt")} == {
        "namespace": "default",
        "policy": "keep",
        "warehouse": "lake",
        "table": DUE,
        "lookedAt": "2026-01-01T12:00:00Z",
        "nextLookAt": "2026-01-01T12:01:00Z",
    }
    assert found["unfinished"] == [
        {"namespace": "default", "name": made["metadata"]["name"], "phase": "Running", "policy": "keep"}
    ]
    assert found["policyReady"]["reason"] == "Looked"
    assert verdict(box, "sales.calm") == ("NotDue", "BelowThresholds")
    assert verdict(box, "sales.none") == ("NotFound", "TableNotFound")
    await box.pass_time(60)
    assert verdict(box) == ("KeptBack", "UnfinishedCompaction")
    await end(box)
    assert one(box)["unfinished"] == []


@runs
async def test_a_hand_made_compaction_is_named() -> None:
    """Though it came after the look. One of another table is not, nor one of another warehouse's table."""
    box = await started(memory(state(DUE)), dryRun=True)
    assert (verdict(box), one(box).get("unfinished")) == (("KeptBack", "DryRun"), [])
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("by-hand", suspend=True))
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("of-another", table={"database": "sales", "name": "x"}))
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("elsewhere", warehouse="pond", suspend=True))
    assert [unfinished["name"] for unfinished in one(box)["unfinished"]] == ["by-hand"]


@runs
async def test_only_the_policies_that_are_asked_answer() -> None:
    box = Sandbox()
    box.work.memory = memory(state(DUE))
    box.kube.apply(ResourceKind.POLICY, policy_raw("keep"))
    box.kube.apply(ResourceKind.POLICY, policy_raw("hr", tables={"include": ["hr.*"]}))
    await box.start()
    answers = {found["policy"]: found["verdict"] for found in ask(box.controller.why, table=DUE)[1]}
    assert answers == {"hr": "NotSelected", "keep": "Picked"}
    for name, value, wrong in (("policy", "keep", "kept"), ("namespace", "default", "x"), ("warehouse", "lake", "x")):
        found = ask(box.controller.why, table=DUE, policy="keep", **({name: value} if name != "policy" else {}))[1]
        assert [answer["policy"] for answer in found] == ["keep"]
        says = f"there is no CompactionPolicy with {name} {wrong}"
        assert refused(box.controller.why, f"table={DUE}&{name}={wrong}") == (404, says)


@runs
async def test_a_database_that_the_warehouse_does_not_allow() -> None:
    box = await started(memory(), tables={"include": ["*.*"]})
    assert verdict(box, "hr.people") == ("NotSelected", "DatabaseNotAllowed")


@runs
async def test_a_problem_of_the_table_is_said() -> None:
    box = await started(memory(state(DUE, problem=Problem("OptedOut", "its property is off"))))
    assert verdict(box) == ("LeftAlone", "OptedOut")


@runs
async def test_without_a_look_the_policy_says_why() -> None:
    box = Sandbox()
    box.work.metastore_down = True
    box.kube.apply(ResourceKind.POLICY, policy_raw())
    await box.start()
    assert verdict(box) == ("NotLooked", "MetastoreUnavailable")
    assert one(box)["message"] == "connection refused"


@runs
async def test_after_a_look_that_failed_the_one_before_counts() -> None:
    box = await started(memory(state(DUE, CLEAN)))
    box.work.metastore_down = True
    await box.pass_time(60)
    assert verdict(box) == ("NotDue", "BelowThresholds")
    assert (one(box)["policyReady"]["reason"], one(box)["lookedAt"]) == ("MetastoreUnavailable", "2026-01-01T12:00:00Z")


@runs
async def test_a_look_with_an_earlier_spec_does_not_count() -> None:
    box = await started(memory(state(DUE, CLEAN)))
    change(box, suspend=True)
    await box.run()
    assert verdict(box) == ("NotLooked", "Suspended")
    change(box, suspend=False, partitions={"filters": ["day"]})
    await box.run()
    assert verdict(box) == ("NotLooked", "InvalidFilter")


@runs
async def test_after_a_restart_nothing_is_claimed() -> None:
    box = await started(memory(state(DUE, CLEAN)))
    box.work.metastore_down = True
    await box.start()
    assert verdict(box)[0] == "NotLooked"


@runs
async def test_what_the_api_server_refused_is_quoted() -> None:
    box = Sandbox()
    box.work.memory = memory(state(DUE))

    def refuse(manifest: Raw) -> Raw:
        raise KubeError("403 Forbidden: quota")

    box.kube.create_compaction = refuse  # type: ignore[method-assign]
    box.kube.apply(ResourceKind.POLICY, policy_raw())
    await box.start()
    assert verdict(box) == ("KeptBack", "NotCreated")
    assert "403 Forbidden: quota" in one(box)["message"]


@runs
async def test_times_of_a_pause_are_those_of_the_clock() -> None:
    box = await started(memory(state(DUE)), windows=[{"start": "22:00", "duration": "8h"}])
    assert NOON.hour == 12
    assert (verdict(box), one(box)["mayStart"]) == (("KeptBack", "WindowClosed"), "2026-01-01T22:00:00Z")
