"""Traces: what a collector gets of an attempt and its cleanup, and that no collector holds anything up."""

import asyncio
import json
import queue
import select
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import ValidationError

from compaction_operator.api.config import TracingSettings
from compaction_operator.api.request import DriverResult, Reason, Stage, StageTimes
from compaction_operator.controller import otlp, traces
from compaction_operator.controller.app import _traces
from compaction_operator.controller.kube.driver_pod import DriverEnd
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.controller.kube.times import rfc3339
from compaction_operator.controller.otlp import WAITING_SPANS, Exporter, Span
from compaction_operator.controller.traces import Traces, nowhere
from tests.unit.controller.sandbox import CONFIG, NOON, Sandbox, compaction, compaction_raw
from tests.unit.controller.test_controller import job, journal

SECONDS = 30.0
"""What a thread may take: how fast the machine is is not asked."""
STAGES = {"plan": (1_767_268_801_000, 1_767_268_802_000, 900), "publish": (1_767_268_803_000, 1_767_268_804_000, 1000)}
MERGE = (1_767_268_802_000, 1_767_268_803_000, 1000)
FINISHED = NOON + timedelta(seconds=4)
SPAN = Span("0" * 32, "1" * 16, "", "attempt", NOON, NOON)


@dataclass
class Collector:
    """A collector on this machine that answers with a status and, if it is `endless`, with a body without an end."""

    status: int = 200
    endless: bool = False
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
            self.wfile.flush()
            while made.endless and not select.select([self.connection], [], [], 0.05)[0]:
                self.wfile.write(b" ")

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
    times = {"startedAt": rfc3339(NOON), "finishedAt": rfc3339(FINISHED)}
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
    """No span, and so no thread and no connection. With an endpoint the same story would make some."""
    monkeypatch.setattr(traces, "_Maker", None)
    taken: list[Span] = []
    whole_story(Traces(taken.extend), COMPACTED)
    assert "a trace is lost" in caplog.text
    caplog.clear()
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


def test_an_outage_and_its_end_are_a_line_each(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    """Also the next outage."""
    caplog.set_level("INFO", otlp.__name__)
    exporter = Exporter(collector.endpoint, namespace="")
    for status in (200, 503, 503, 200, 200, 503, 503, 200):
        collector.status = status
        exporter._post([SPAN])
    said = [record.getMessage().partition(" ")[0] for record in caplog.records if record.name == otlp.__name__]
    assert said == ["spans", f"{collector.endpoint}/v1/traces", "spans", f"{collector.endpoint}/v1/traces"]


def test_an_answer_without_an_end_is_not_read(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    """Its status says enough: the collector takes the next spans."""
    collector.endless = True
    exporter = Exporter(collector.endpoint, namespace="")
    for _ in range(2):
        exporter.send([SPAN])
        collector.spans(1)
    assert "spans are dropped" not in caplog.text


def test_a_span_that_cannot_be_written_is_lost_alone(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    """The thread goes on with the next."""
    asked = threading.Event()

    class Broken(Span):
        def to_json(self) -> dict[str, Any]:
            asked.set()
            raise OverflowError("a mistake")

    exporter = Exporter(collector.endpoint, namespace="")
    exporter.send([Broken("0" * 32, "1" * 16, "", "broken", NOON, NOON)])
    assert asked.wait(SECONDS)
    exporter.send([SPAN])
    assert set(collector.spans(1)) == {"attempt"}
    assert "1 spans are lost" in caplog.text


def spans_of(
    stages: dict[str, StageTimes], *, attempt: int = 1, started: datetime = NOON, message: str = "", **spec: Any
) -> list[Span]:
    """Return the spans of an attempt that begins at noon and whose driver says those stages."""
    verdict = {"type": "Succeeded", "status": "False", "reason": "LockLost", "message": message}
    status = {
        "attempt": attempt,
        "attemptStartTime": rfc3339(NOON),
        "conditions": [{**verdict, "lastTransitionTime": rfc3339(NOON)}],
    }
    judged = compaction(created=NOON - timedelta(seconds=60), status=status, **spec)
    result = DriverResult(reason=Reason.LOCK_LOST, message="", stages=stages)
    end = DriverEnd(result, "", started=started, finished=FINISHED)
    return list(traces.attempt_spans(judged, judged, end, now=FINISHED))


def names(spans: list[Span]) -> list[str]:
    return [span.name for span in spans]


def test_a_second_attempt_is_another_trace_that_begins_with_it() -> None:
    first, second = spans_of({}), spans_of({}, attempt=2)
    assert names(first) == ["attempt", "queue", "launch", "driver"]
    assert names(second) == ["attempt", "launch", "driver"]
    assert (first[0].start, second[0].start) == (NOON - timedelta(seconds=60), NOON)
    assert first[0].trace != second[0].trace
    assert not {span.id for span in first} & {span.id for span in second}


@pytest.mark.parametrize("started", [datetime.fromisoformat("1970-01-01T00:00:00Z"), NOON - timedelta(seconds=2)])
def test_a_container_that_never_started_has_no_span(started: datetime) -> None:
    """Kubernetes may give 1970 as its start. A second is what a start may lack, as its fraction is cut off."""
    assert names(spans_of({"merge": MERGE}, started=started)) == ["attempt", "queue"]
    assert "merge" in names(spans_of({"merge": MERGE}, started=NOON - timedelta(seconds=1)))


@pytest.mark.parametrize(
    "times",
    [
        (-1, 1_767_268_803_000, 1000),
        (1_767_268_802_000, 10**30, 1000),
        (10**30, 10**30, 0),
        (1_767_268_798_999, 1_767_268_803_000, 1000),
        (1_767_268_802_000, 1_767_268_805_001, 1000),
        (1_767_268_803_000, 1_767_268_802_000, 0),
        (1_767_268_802_000, 1_767_268_803_000, -1),
        (1_767_268_802_000, 1_767_268_803_000, 1001),
        (1_767_268_802_000, 1_767_268_803_000, 10**30),
    ],
)
def test_a_stage_with_impossible_times_is_skipped(times: StageTimes) -> None:
    """A pod of a tenant says them, and a collector refuses all spans of a request for one number that is too large."""
    assert names(spans_of({"merge": times, "verify": MERGE})) == ["attempt", "queue", "launch", "driver", "verify"]


def test_a_stage_may_be_as_long_as_its_driver_and_a_second_at_each_end() -> None:
    assert "merge" in names(spans_of({"merge": (1_767_268_799_000, 1_767_268_805_000, 6000)}))


def test_only_known_stages_are_taken() -> None:
    """A stage with another span's name would get that span's id."""
    said = spans_of(dict.fromkeys(["queue", "attempt", "driver", "cleanup a", "other", *Stage], MERGE))
    assert names(said) == ["attempt", "queue", "launch", "driver", *Stage]
    assert len({span.id for span in said}) == len(said)


def test_no_user_of_an_address_and_no_long_message_leaves_the_cluster() -> None:
    location = "hdfs://alice:secret@nn:8020/lake/orders"
    message = f"{location} is away, {'x' * 2000}"
    attempt = spans_of({}, message=message, table={"location": location}, type="Compaction", format="Hudi")[0]
    assert attempt.attributes["db.collection.name"] == "hdfs://nn:8020/lake/orders"
    assert attempt.error is not None
    assert attempt.error.startswith("hdfs://nn:8020/lake/orders is away, ")
    assert len(attempt.error) == 1000


@pytest.mark.parametrize(
    "endpoint",
    ["collector:4318", "file:///etc/passwd", "http://", "http:// a", "http://:4318", "http:///v1", "http://a:",
     "http://a:0", "http://a:65536", "http://a:port", "http://alice@a", "http://alice:secret@a:4318", "http://a?b=c",
     "http://a/?b=c", "http://a/b#c", "http://a#c", "http://a b", "http://a/b c", "http://a\n", "http://-a"],
)  # fmt: skip
def test_an_endpoint_is_an_address_of_the_web(endpoint: str) -> None:
    """Without a login, which would be in the log, and without what would be lost."""
    with pytest.raises(ValidationError):
        TracingSettings(endpoint=endpoint)


@pytest.mark.parametrize(
    "endpoint",
    ["", "http://collector:4318", "https://otlp.example.com/", "http://[fd00::1]:4318", "http://10.0.0.1:65535/otlp",
     "http://collector.observability.svc:4318", "https://a.example/api/@team"],
)  # fmt: skip
def test_an_endpoint_may_have_a_port_and_a_path(endpoint: str) -> None:
    assert TracingSettings(endpoint=endpoint).endpoint == endpoint
