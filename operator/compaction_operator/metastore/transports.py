"""Thrift transports over a channel: plain TCP, or HTTP requests with an optional bearer token."""

import re
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import IO

from thrift.protocol.TProtocol import TProtocolException
from thrift.transport.TTransport import TTransportException

from compaction_operator.metastore.channel import READ_BUFFER, Channel

_TOKEN = re.compile(r"^[!-~]+$")


class StreamTransport:
    """Plain Thrift bytes, with the interface of Thrift's TTransportBase."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def is_reusable(self) -> bool:
        """Whether another call may use it."""
        return self.channel.is_silent()

    def close(self) -> None:
        """Close the channel."""
        self.channel.close()

    def read(self, size: int) -> bytes:
        """Return at least one byte. Raises TTransportException at the end of the stream."""
        data = self._receive(min(size, READ_BUFFER))
        if not data:
            raise TTransportException(TTransportException.END_OF_FILE, "it closed the connection")
        return data

    def readAll(self, size: int) -> bytes:  # noqa: N802 - Thrift's name
        """Return exactly `size` bytes."""
        data = bytearray()
        while len(data) < size:
            data += self.read(size - len(data))
        return bytes(data)

    def write(self, data: bytes) -> None:
        """Send all the data."""
        self.channel.write(data)

    def flush(self) -> None:
        """Do nothing: `write` does not buffer."""

    def _receive(self, size: int) -> bytes:
        return self.channel.read(size)


class HttpTransport(StreamTransport):
    """One POST request for each call, on one connection (Hive 4, metastore.server.thrift.transport.mode=http).

    The server takes the user from the token. If it requires no token, it takes the user from the header
    x-actor-username (Hive's HmsThriftHttpServlet). The token file is read for each call, because it may be renewed.
    """

    def __init__(self, channel: Channel, *, host: str, port: int, path: str, user: str, token_file: str | None) -> None:
        super().__init__(channel)
        self._path = path
        self._headers = {"Content-Type": "application/x-thrift", "Accept": "application/x-thrift"}
        self._headers["x-actor-username"] = user
        self._token_file = token_file
        self._http = HTTPConnection(host, port)
        self._http.auto_open = 0
        self._http.sock = _Socket(channel)
        self._request = bytearray()
        self._response: HTTPResponse | None = None

    def is_reusable(self) -> bool:
        """Whether the last response was read completely and the server keeps the connection open."""
        ended = self._response is None or self._response.isclosed()
        return ended and self._http.sock is not None and super().is_reusable()

    def write(self, data: bytes) -> None:
        """Add to the next request."""
        self._request += data

    def flush(self) -> None:
        """Send the request and read the response's head. Raises TTransportException, TProtocolException, OSError."""
        body, self._request = bytes(self._request), bytearray()
        self._http.request("POST", self._path, body, self._headers | self._authorization())
        self._response = self._http.getresponse()
        if self._response.status >= 500:
            raise TTransportException(message=f"it answered {self._status_line()}")
        if self._response.status != 200:
            raise TProtocolException(message=self._status_line())

    def _authorization(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        token = Path(self._token_file).read_text().strip()
        if not _TOKEN.match(token):  # otherwise http.client's error would contain it
            raise OSError(f"{self._token_file} contains no valid token")
        return {"Authorization": f"Bearer {token}"}

    def _status_line(self) -> str:
        return f"HTTP {self._response.status} {self._response.reason}" if self._response else ""

    def _receive(self, size: int) -> bytes:
        return self._response.read(size) if self._response else b""


class _Socket:
    """Adapter from a channel to the socket that http.client uses."""

    def __init__(self, channel: Channel) -> None:
        self.sendall = channel.write
        self._channel = channel

    def makefile(self, _mode: str) -> IO[bytes]:
        return self._channel.reader()

    def close(self) -> None:
        """Do nothing: the rest of a response may still be read, and the channel's owner closes it."""
