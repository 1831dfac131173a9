"""Traces: what a collector gets of an attempt and its cleanup, and that no collector holds anything up."""

import asyncio
import json
import queue
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import ValidationError

from compaction_operator.api.config import TracingSettings
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.controller import otlp, traces
from compaction_operator.controller.app import _traces
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.controller.kube.times import rfc3339
from compaction_operator.controller.otlp import WAITING_SPANS, Exporter, Span
from compaction_operator.controller.traces import Traces, nowhere
from tests.unit.controller.sandbox import CONFIG, NOON, Sandbox, compaction_raw
from tests.unit.controller.test_controller import job, journal

SECONDS = 30.0
"""What a thread may take: how fast the machine is is not asked."""
STAGES = {"plan": (1_767_268_801_000, 1_767_268_802_000, 900), "publish": (1_767_268_803_000, 1_767_268_804_000, 1000)}
SPAN = Span("0" * 32, "1" * 16, "", "attempt", NOON, NOON)


@dataclass
class Collector:
    """A collector on this machine that answers with a status."""

    status: int = 200
    bodies: "queue.Queue[Any]" = field(default_factory=queue.Queue)
    paths: list[str] = field(default_factory=list)
    endpoint: str = ""

    def spans(self, count: int) -> dict[str, Any]:
        """Return the first spans that come, by their names."""
        found: dict[str, Any] = {}
        while len(found) < count:
            (resource,) = self.bodies.get(timeout=SECONDS)["resourceSpans"]
            (scope,) = resource["scopeSpans"]
            found |= {span["name"]: {**span, "resource": named(resource["resource"])} for span in scope["spans"]}
        return found


def named(holder: Any) -> dict[str, str]:
    """Return attributes by their keys."""
    return {one["key"]: next(iter(one["value"].values())) for one in holder["attributes"]}


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.paths.append(self.path)
            made.bodies.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(made.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.endpoint = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield made
        server.shutdown()


def whole_story(sender: Traces, result: DriverResult, *, ok: bool = True) -> Sandbox:
    """Let the cleanup of a compaction wait for a reader, which leaves."""
    return asyncio.run(_story(sender, result, ok=ok))


async def _story(sender: Traces, result: DriverResult, *, ok: bool) -> Sandbox:
    box = Sandbox(traces=sender)
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    box.work.locks = (12,)
    box.kube.apply(ResourceKind.CLEANUP, journal())
    box.kube.end_job(job(), result, ok=ok)
    (pod,) = box.kube.pods[job()]
    (container,) = pod["status"]["containerStatuses"]
    times = {"startedAt": rfc3339(NOON), "finishedAt": rfc3339(NOON)}
    container["state"]["terminated"] |= times
    await box.run()
    box.work.locks = ()
    await box.pass_time(60)
    return box


COMPACTED = DriverResult(reason=Reason.COMPACTED, message="done", stages=STAGES)


def test_a_collector_gets_one_trace_of_an_attempt_and_its_cleanup(collector: Collector) -> None:
    exporter = Exporter(collector.endpoint + "/", namespace="compaction-system")
    whole_story(Traces(exporter.send), COMPACTED)
    found = collector.spans(9)
    parents = {
        "queue": "attempt",
        "launch": "attempt",
        "driver": "attempt",
        "cleanup": "attempt",
        "plan": "driver",
        "publish": "driver",
        "wait for readers": "cleanup",
        "deletion": "cleanup",
    }
    assert {name: found[parent]["spanId"] for name, parent in parents.items()} == {
        name: found[name]["parentSpanId"] for name in parents
    }
    assert found["attempt"]["parentSpanId"] == ""
    assert len({span["traceId"] for span in found.values()}) == 1
    assert len({span["spanId"] for span in found.values()}) == len(found)
    assert {len(span["traceId"]) for span in found.values()} | {len(found["plan"]["spanId"])} == {32, 16}
    plan = found["plan"]
    assert (plan["startTimeUnixNano"], plan["endTimeUnixNano"]) == ("1767268801000000000", "1767268802000000000")
    assert named(plan) == {"compaction.busy_ms": "900"}
    about = named(found["attempt"])
    assert (about["db.namespace"], about["db.collection.name"], about["k8s.job.name"]) == ("Sales", "Orders", job())
    assert about["compaction.attempt"] == "1"
    assert "status" not in found["attempt"]
    assert found["attempt"]["resource"]["service.name"] == "compaction-operator"
    assert found["attempt"]["resource"]["service.namespace"] == "compaction-system"
    assert set(collector.paths) == {"/v1/traces"}
    wait = found["wait for readers"]
    assert int(wait["endTimeUnixNano"]) >= int(wait["startTimeUnixNano"])


def test_a_failed_attempt_has_its_reason(collector: Collector) -> None:
    exporter = Exporter(collector.endpoint, namespace="")
    whole_story(Traces(exporter.send), DriverResult(reason=Reason.LOCK_LOST, message="lock 7 is gone"), ok=False)
    attempt = collector.spans(4)["attempt"]
    assert named(attempt)["error.type"] == "LockLost"
    assert attempt["status"]["code"] == 2
    assert "lock 7 is gone" in attempt["status"]["message"]


def test_without_an_endpoint_nothing_is_made(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """No span, and so no thread and no connection."""
    monkeypatch.setattr(traces, "_Maker", None)
    made = _traces(CONFIG)
    assert made.send is nowhere
    assert whole_story(made, COMPACTED).cleanup()["phase"] == "Succeeded"
    assert "a trace is lost" not in caplog.text


def test_a_trace_that_cannot_be_made_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The same end as without a trace, in the status and in the directories."""

    def broken(_: object) -> None:
        raise RuntimeError("a mistake")

    with_fault, without = whole_story(Traces(broken), COMPACTED), whole_story(Traces(), COMPACTED)
    assert (with_fault.compaction(), with_fault.cleanup()) == (without.compaction(), without.cleanup())
    assert with_fault.cleanup()["phase"] == "Succeeded"
    assert "a trace is lost" in caplog.text


def test_a_collector_that_never_answers_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    """More spans than may wait are dropped, and one line says so."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        exporter = Exporter(f"http://127.0.0.1:{silent.getsockname()[1]}", namespace="")
        for _ in range(3):
            exporter.send([SPAN] * WAITING_SPANS)
        assert exporter._waiting.qsize() <= WAITING_SPANS
    assert caplog.text.count(f"more than {WAITING_SPANS} spans wait") == 1


@pytest.mark.parametrize("status", [404, 503])
def test_a_collector_that_refuses_is_asked_again_for_the_next(
    collector: Collector, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = status
    exporter = Exporter(collector.endpoint, namespace="")
    for _ in range(2):
        exporter.send([SPAN])
        collector.spans(1)
    collector.status = 200
    exporter.send([SPAN])
    collector.spans(1)
    assert caplog.text.count("spans are dropped, as") == 1
    assert f"HTTP status {status}" in caplog.text


def test_a_collector_that_is_away_is_one_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
    posted = threading.Semaphore(0)
    post = Exporter._post

    def counted(self: Exporter, batch: list[Span]) -> None:
        post(self, batch)
        posted.release()

    monkeypatch.setattr(otlp.Exporter, "_post", counted)
    exporter = Exporter(endpoint, namespace="")
    for _ in range(2):
        exporter.send([SPAN])
        assert posted.acquire(timeout=SECONDS)
    assert caplog.text.count("spans are dropped, as") == 1


@pytest.mark.parametrize("endpoint", ["collector:4318", "file:///etc/passwd", "http://", "http:// a"])
def test_an_endpoint_is_an_address_of_the_web(endpoint: str) -> None:
    with pytest.raises(ValidationError):
        TracingSettings(endpoint=endpoint)
