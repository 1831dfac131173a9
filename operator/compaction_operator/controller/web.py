"""The controller's HTTP servers: metrics, at /why the answers to questions about tables, probes, and the web page.

They have threads of their own, so that they answer also while the loop is stuck. They change nothing.
"""

import json
import logging
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import parse_qs, urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app

from compaction_operator.api.why import PATH, Explanation
from compaction_operator.controller.policies import NoPolicyError, Question

log = logging.getLogger(__name__)

Why = Callable[[Question], list[Explanation] | None]
"""Answers a question, in any thread. None: the policies are not known yet. Raises NoPolicyError."""


CONNECTIONS = 32
"""Open connections of one server, each with a thread of its own."""


class _Server(ThreadingMixIn, WSGIServer):
    """One thread for each request: a slow client holds up no scrape.

    There is a limit of connections. A new one then takes the place of the oldest that has sent no request yet, so that
    those who send none keep no probe out. If all are being answered, the new one is closed.
    """

    daemon_threads = True

    def __init__(self, *args: Any, **options: Any) -> None:
        self._lock = threading.Lock()
        self._silent: dict[socket.socket, None] = {}
        self._open: set[socket.socket] = set()
        super().__init__(*args, **options)

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 - the library's
        """Return whether there is room for a connection, and take the room."""
        with self._lock:
            if len(self._open) >= CONNECTIONS:
                if not self._silent:
                    return False
                oldest = next(iter(self._silent))
                self._forget(oldest)
                with suppress(OSError):  # it is closed already
                    oldest.shutdown(socket.SHUT_RDWR)
            self._open.add(request)
            self._silent[request] = None
        return True

    def has_asked(self, request: socket.socket) -> None:
        """Note that a connection has sent its request."""
        with self._lock:
            self._silent.pop(request, None)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and give its room back."""
        with self._lock:
            self._forget(request)
        super().shutdown_request(request)

    def _forget(self, request: socket.socket) -> None:
        self._open.discard(request)
        self._silent.pop(request, None)


class _Handler(WSGIRequestHandler):
    """Does not log each request, and gives up a client that sends none: it would keep a thread."""

    timeout = 10.0
    server: _Server

    def parse_request(self) -> bool:
        """Read a request's head."""
        parsed = super().parse_request()
        self.server.has_asked(self.connection)
        return parsed

    def log_message(self, format: str, *args: Any) -> None:
        pass


Probe = Callable[[], tuple[bool, Sequence[str]]]
"""Answers a probe, in any thread: whether it succeeds, and the lines that say why."""


def serve(port: int, *, registry: CollectorRegistry, why: Why) -> WSGIServer:
    """Serve metrics and answers at that port, in a thread; return the server. Raises OSError, naming the port."""
    return _serve("metrics", port, _application(registry, why))


def serve_probes(port: int, probes: Mapping[str, Probe]) -> WSGIServer:
    """Serve the kubelet's probes by their path, as `serve` does: 200 if one succeeds, 503 if not, with its lines."""
    return _serve("probes", port, _probed(probes))


def serve_page(port: int, site: WSGIApplication, *, hosts: Collection[str] = ()) -> WSGIServer:
    """Serve the web page, as `serve` does, by these names only; empty: by any."""
    return _serve("the web page", port, _by_name(site, hosts) if hosts else site)


def _serve(what: str, port: int, application: WSGIApplication) -> WSGIServer:
    try:
        server = make_server("0.0.0.0", port, application, _Server, _Handler)  # noqa: S104 - a pod's
    except OSError as error:
        raise OSError(f"{what} at port {port}: {error}") from error
    threading.Thread(target=server.serve_forever, daemon=True).start()
    log.info("%s at port %s", what, server.server_port)
    return server


def _by_name(site: WSGIApplication, hosts: Collection[str]) -> WSGIApplication:
    """Refuse other names: a page of another site may lead its name to this address, and read what the browser gets."""
    known = {_name(host) for host in hosts}

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if _host(environ.get("HTTP_HOST", "")) in known:
            return site(environ, start_response)
        status = HTTPStatus.MISDIRECTED_REQUEST
        start_response(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"this name is not one of ui.hosts in the operator's values\n"]

    return application


def _host(header: str) -> str | None:
    """Return the name in a Host header, without the port; None if there is none."""
    try:
        return _name(urlsplit(f"//{header}").hostname or "") or None
    except ValueError:
        return None


def _name(host: str) -> str:
    """Return a host's name as it is compared: in lower case, and without the dot that ends an absolute name."""
    return host.lower().removesuffix(".")


def _probed(probes: Mapping[str, Probe]) -> WSGIApplication:
    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        probe = probes.get(environ["PATH_INFO"])
        good, lines = probe() if probe else (False, sorted(probes))
        status = HTTPStatus.NOT_FOUND if probe is None else HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
        start_response(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
        return ["".join(f"{line}\n" for line in lines).encode()]

    return application


def _application(registry: CollectorRegistry, why: Why) -> WSGIApplication:
    """Return what answers a request. Metrics are at any other path."""
    metrics = make_wsgi_app(registry)

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != PATH:
            answer: Iterable[bytes] = metrics(environ, start_response)
            return answer
        status, body = _reply(environ, why)
        headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
        start_response(f"{status.value} {status.phrase}", headers)
        return [json.dumps(body).encode() + b"\n"]

    return application


def _reply(environ: WSGIEnvironment, why: Why) -> tuple[HTTPStatus, Any]:
    if environ["REQUEST_METHOD"] != "GET":
        return _error(HTTPStatus.METHOD_NOT_ALLOWED, "use GET")
    try:
        question = Question.parse(parse_qs(environ["QUERY_STRING"], keep_blank_values=True, max_num_fields=10))
    except ValueError as error:
        return _error(HTTPStatus.BAD_REQUEST, error)
    try:
        found = why(question)
    except NoPolicyError as error:
        return _error(HTTPStatus.NOT_FOUND, error)
    except Exception:
        log.exception("a question could not be answered: %r", question)
        return _error(HTTPStatus.INTERNAL_SERVER_ERROR, "the controller's log says what failed")
    if found is None:
        return _error(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "this controller has not read the policies: it stands by, or has just started; ask again",
        )
    return HTTPStatus.OK, [one.to_json() for one in found]


def _error(status: HTTPStatus, text: object) -> tuple[HTTPStatus, dict[str, Any]]:
    """Return an error as the API server shapes its own: kubectl shows the message of no other."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status.value, "message": str(text)}
    return status, body
