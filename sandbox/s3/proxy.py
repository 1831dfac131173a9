"""Stands between a client and a real S3 server, counts calls and bytes and, on request, misbehaves."""

import http.client
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

HANG_SECONDS = 60.0
"""After so long even what hangs is closed: no test waits for it."""

_HOP = {"connection", "expect", "transfer-encoding", "content-length"}


@dataclass(frozen=True)
class Call:
    """A call as the server gets it."""

    operation: str
    target: str
    body: bytes

    def upload_id(self, answer: "Answer") -> str:
        """Return the id of the upload that the call is about, or that its answer has begun."""
        asked = parse_qs(urlsplit(self.target).query).get("uploadId", [])
        begun: list[str] = re.findall("<UploadId>([^<]*)</UploadId>", answer.body.decode())
        return (asked + begun)[0]


@dataclass(frozen=True)
class Answer:
    """An answer as the client gets it. `length` is the promised one, if `body` is cut off before it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    length: int | None = None


Forward = Callable[[], Answer]
Fault = Callable[[Call, Forward], Answer | None]
"""What happens to a call: `forward` has the server carry it out. None closes the connection without an answer."""


def refused(status: int, code: str) -> Fault:
    """Return a fault that answers in the server's place."""
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>by the proxy</Message></Error>'.encode()
    return lambda _call, _forward: Answer(status, {"Content-Type": "application/xml"}, body)


def lost(_call: Call, forward: Forward) -> None:
    """Carry the call out, and lose the answer."""
    forward()


def half(_call: Call, forward: Forward) -> Answer:
    """Carry the call out, and send the first half of what the answer holds."""
    whole = forward()
    return Answer(whole.status, whole.headers, whole.body[: len(whole.body) // 2], len(whole.body))


def empty(_call: Call, forward: Forward) -> Answer:
    """Carry the call out, and say no more than that all is well."""
    forward()
    return Answer(200, {"Content-Type": "application/xml"}, b"")


def instead(_call: Call, _forward: Forward) -> Answer:
    """Show a page of something that is not S3."""
    return Answer(200, {"Content-Type": "text/html"}, b"<html><body>Sign in</body></html>")


class MisbehavingProxy:
    """Forwards calls to an S3 server; a context manager. Signatures stay right, as they name the proxy as the host.

    `calls` are the operations that came, and `bytes` those of the bodies in both directions, since `behave`.
    """

    def __init__(self, endpoint: str) -> None:
        self._target = urlsplit(endpoint).netloc
        self._lock = threading.Lock()
        self._faults: dict[str, tuple[Fault, int]] = {}
        self.calls: Counter[str] = Counter()
        self.bytes = 0
        proxy = self

        class Handler(_Handler):
            """Handles the calls of one connection."""

            handle_call = staticmethod(proxy._handle)

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def endpoint(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def behave(self, **faults: Fault) -> None:
        """Let the operations have these faults, each time, and all others none; count from 0 again."""
        self.misbehave(1 << 30, **faults)

    def misbehave(self, times: int, **faults: Fault) -> None:
        """Let the operations have these faults so many times."""
        with self._lock:
            self._faults = {operation: (fault, times) for operation, fault in faults.items()}
            self.calls.clear()
            self.bytes = 0

    def _fault(self, operation: str) -> Fault | None:
        fault, times = self._faults.get(operation, (None, 0))
        if fault and times:
            self._faults[operation] = fault, times - 1
            return fault
        return None

    def _handle(self, call: Call, method: str, target: str, headers: Mapping[str, str]) -> Answer | None:
        with self._lock:
            self.calls[call.operation] += 1
            self.bytes += len(call.body)
            fault = self._fault(call.operation)

        def forward() -> Answer:
            return self._forward(method, target, headers, call.body)

        answer = fault(call, forward) if fault else forward()
        with self._lock:
            self.bytes += len(answer.body) if answer else 0
        return answer

    def _forward(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        connection = http.client.HTTPConnection(self._target, timeout=HANG_SECONDS)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                if name.lower() not in _HOP:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            kept = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP}
            length = int(answer.headers["Content-Length"] or 0) if method == "HEAD" else None
            return Answer(answer.status, kept, answer.read(), length)
        finally:
            connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients break connections off."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    handle_call: Callable[[Call, str, str, Mapping[str, str]], Answer | None]

    def __getattr__(self, name: str) -> Any:
        """Handle any method: http.server looks for do_GET and its like."""
        if name.startswith("do_"):
            return self._do
        raise AttributeError(name)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = None
        with suppress(OSError, http.client.HTTPException):  # the server was killed: so is this connection
            answer = self.handle_call(self._call(body), self.command, self.path, dict(self.headers))
        self.close_connection = answer is None
        if answer is None:
            return
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body) if answer.length is None else answer.length))
        self.end_headers()
        if self.command == "HEAD":
            return
        with suppress(OSError):
            self.wfile.write(answer.body)
        self.close_connection = answer.length is not None

    def _call(self, body: bytes) -> Call:
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        copied = "x-amz-copy-source" in self.headers
        return Call(_operation(self.command, query, copied=copied), self.path, body)


def _operation(method: str, query: Mapping[str, list[str]], *, copied: bool) -> str:
    """Return what a call does: list, get, head, put, delete; of uploads also begin, complete, abort, and of parts."""
    if "partNumber" in query:
        return "copy_part" if copied else "put_part"
    if "uploadId" in query:
        return {"GET": "list_parts", "POST": "complete", "DELETE": "abort"}[method]
    if method == "POST":
        return "begin" if "uploads" in query else "delete"
    if method == "GET" and "list-type" in query:
        return "list"
    return method.lower()
