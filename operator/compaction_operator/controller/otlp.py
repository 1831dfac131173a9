"""Sends spans to a collector by OTLP/HTTP with JSON, from a thread of its own. Nothing waits for it.

Format: https://opentelemetry.io/docs/specs/otlp/#otlphttp. Written by hand, as OpenTelemetry's own packages would add
6 MB to the controller's image.
"""

import json
import logging
import queue
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from urllib3 import PoolManager, Timeout
from urllib3.exceptions import HTTPError

from compaction_operator import __version__

log = logging.getLogger(__name__)

WAITING_SPANS = 1024
"""How many spans wait for the collector. More are dropped."""
BATCH_SPANS = 128
TIMEOUT_SECONDS = 5.0
"""How long connecting and the wait for an answer may take together."""
SERVICE = "compaction-operator"
_JSON = {"Content-Type": "application/json"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Span:
    """A stage with its begin and end. `error` says why it failed; `parent` is a span's id, empty for the root."""

    trace: str
    id: str
    parent: str
    name: str
    start: datetime
    end: datetime
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as OTLP has it."""
        status = {} if self.error is None else {"status": {"code": 2, "message": self.error}}
        return {
            "traceId": self.trace,
            "spanId": self.id,
            "parentSpanId": self.parent,
            "name": self.name,
            "kind": 1,
            "startTimeUnixNano": _nanoseconds(self.start),
            "endTimeUnixNano": _nanoseconds(max(self.start, self.end)),
            "attributes": _attributes(self.attributes),
            **status,
        }


def _nanoseconds(moment: datetime) -> str:
    """Return it as text: numbers of 64 bits are texts in OTLP's JSON."""
    passed = moment - _EPOCH
    return str((passed.days * 86_400 + passed.seconds) * 10**9 + passed.microseconds * 1000)


def _attributes(given: Mapping[str, str | int]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in given.items()
    ]


def request_of(spans: Iterable[Span], *, namespace: str) -> bytes:
    """Return the body of a request with spans of the controller in that namespace."""
    named = {"service.name": SERVICE, "service.version": __version__, "service.namespace": namespace}
    scope = {"name": SERVICE, "version": __version__}
    made = {"scope": scope, "spans": [span.to_json() for span in spans]}
    return json.dumps(
        {"resourceSpans": [{"resource": {"attributes": _attributes(named)}, "scopeSpans": [made]}]}
    ).encode()


class Exporter:
    """Sends spans in batches. A collector that is away, slow or refuses them loses spans, and nothing else."""

    def __init__(self, endpoint: str, *, namespace: str) -> None:
        """Send to `endpoint`/v1/traces."""
        self._url = f"{endpoint.rstrip('/')}/v1/traces"
        self._namespace = namespace
        self._waiting: queue.Queue[Span] = queue.Queue(WAITING_SPANS)
        self._http = PoolManager(retries=False)
        self._healthy = True
        threading.Thread(target=self._run, name="traces", daemon=True).start()

    def send(self, spans: Iterable[Span]) -> None:
        """Let spans be sent. Never waits, and never raises: without room they are dropped."""
        for span in spans:
            try:
                self._waiting.put_nowait(span)
            except queue.Full:
                self._failed(f"more than {WAITING_SPANS} spans wait")
                return

    def _run(self) -> None:
        while True:
            batch = [self._waiting.get()]
            while len(batch) < BATCH_SPANS and not self._waiting.empty():
                batch.append(self._waiting.get())
            try:
                self._post(batch)
            except Exception:  # a last resort: a span that cannot be sent must not end the thread
                log.exception("%d spans are lost", len(batch))

    def _post(self, batch: Sequence[Span]) -> None:
        body = request_of(batch, namespace=self._namespace)
        try:
            status = self._status_of(body)
        except HTTPError as error:
            self._failed(str(error))
            return
        if status >= HTTPStatus.MULTIPLE_CHOICES:
            self._failed(f"HTTP status {status}")
        elif not self._healthy:
            self._healthy = True
            log.info("%s takes spans again", self._url)

    def _status_of(self, body: bytes) -> int:
        """Post a body and return the answer's status. NB: the answer's own body, which may be endless, is not read."""
        limit = Timeout(total=TIMEOUT_SECONDS)
        answer = self._http.request("POST", self._url, body=body, headers=_JSON, timeout=limit, preload_content=False)
        answer.close()
        return answer.status

    def _failed(self, why: str) -> None:
        """Log the first loss since the collector took spans."""
        if self._healthy:
            self._healthy = False
            log.warning("spans are dropped, as %s does not take them: %s", self._url, why)
