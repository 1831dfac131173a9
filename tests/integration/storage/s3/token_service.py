"""A token service as AWS has it for web identities: it gives a server's own keys, which it says expire at once."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs

import boto3
from sandbox.s3.server import S3Server

LIFE = timedelta(seconds=1)
"""Less than what the client wants to be left, so it asks again before each request."""


class TokenService:
    """Gives session keys of a MinIO for a token that it accepts; a context manager."""

    def __init__(self, server: S3Server, accepts: str) -> None:
        self.accepts = accepts
        self.seen: list[str] = []
        self._minio = boto3.client(
            "sts",
            endpoint_url=server.endpoint,
            region_name="us-east-1",
            aws_access_key_id=server.access_key,
            aws_secret_access_key=server.secret_key,
        )
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.answer))

    @property
    def endpoint(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def answer(self, token: str) -> tuple[int, str]:
        """Return status and body of the answer to AssumeRoleWithWebIdentity."""
        self.seen.append(token)
        if token != self.accepts:
            return 400, "<ErrorResponse><Error><Code>ExpiredTokenException</Code></Error></ErrorResponse>"
        keys = self._minio.assume_role(RoleArn="arn:aws:iam::1:role/any", RoleSessionName="any")["Credentials"]
        names = ("AccessKeyId", "SecretAccessKey", "SessionToken")
        given = "".join(f"<{name}>{keys[name]}</{name}>" for name in names)
        expiry = f"<Expiration>{(datetime.now(UTC) + LIFE).isoformat()}</Expiration>"
        result = f"<AssumeRoleWithWebIdentityResult><Credentials>{given}{expiry}</Credentials>"
        return 200, f"<R>{result}</AssumeRoleWithWebIdentityResult></R>"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()


def _handler(answer: Callable[[str], tuple[int, str]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            status, body = answer(asked["WebIdentityToken"][0])
            self.send_response(status)
            self.send_header("Content-Type", "text/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
