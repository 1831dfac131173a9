"""Stands in for the API server of a driver: HTTPS on the loopback; it accepts everything, and keeps it."""

import json
import ssl
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from sandbox.harness.server import Server


class ApiServer(Server):
    """Its token and authority lie in `folder`, by the names that pods know them by. `seen` has all bodies, in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[dict[str, Any]] = []
        self._server: ThreadingHTTPServer | None = None

    @property
    def port(self) -> int:
        """Its port."""
        assert self._server, "it is not started"
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Make a certificate, and serve."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "token").write_text("anyone")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*_certificate(self.folder))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.seen))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        Thread(target=self._server.serve_forever, name="api-server", daemon=True).start()

    def stop(self) -> None:
        """End it."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()


def _certificate(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "ca.crt", folder / "key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


def _handler(seen: list[dict[str, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Accept an object, as it is."""
            self._accept(201)

        def do_PATCH(self) -> None:
            """Accept a change."""
            self._accept(200)

        def _accept(self, status: int) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append(json.loads(body))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing."""

    return Handler
