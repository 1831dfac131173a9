"""TCP connection, optionally with TLS, on which every operation respects a deadline."""

import io
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Self, TypeVar

Answer = TypeVar("Answer")

READ_BUFFER = 64 * 1024
"""Maximum bytes of one read. A peer that does not speak Thrift could send any size, which would be allocated."""


@dataclass(frozen=True)
class Deadline:
    """A deadline, as a moment of the monotonic clock."""

    moment: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        """Return the deadline that many seconds from now."""
        return cls(time.monotonic() + seconds)

    def remaining(self) -> float:
        """Return the remaining seconds. Raises TimeoutError if none remain."""
        remaining = self.moment - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("timed out")
        return remaining

    def share(self, parts: int) -> "Deadline":
        """Return the deadline of the first of `parts` attempts that share the remaining time."""
        return Deadline.after(self.remaining() / parts)


def bounded(call: Callable[[], Answer], deadline: Deadline) -> Answer:
    """Return the result of `call`, or raise its exception. Raises TimeoutError if it exceeds the deadline.

    It is for C libraries that know no deadline.
    NB: a late call continues in its own thread, which ends with the process at the latest.
    """
    outcome: Future[Answer] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except Exception as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="bounded-call", daemon=True).start()
    return outcome.result(deadline.remaining())


class Channel:
    """Byte channel to one peer. All methods respect `deadline`, which the caller sets before each call."""

    def __init__(self, connected: socket.socket, deadline: Deadline) -> None:
        self._socket = connected
        self.deadline = deadline

    @classmethod
    def open(cls, host: str, port: int, *, tls: ssl.SSLContext | None, deadline: Deadline) -> Self:
        """Connect, with a TLS handshake if a context is given. Raises OSError."""
        connected = _connect(host, port, deadline)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls:
                connected.settimeout(deadline.remaining())
                connected = tls.wrap_socket(connected, server_hostname=host)
        except BaseException:
            connected.close()
            raise
        return cls(connected, deadline)

    def read(self, size: int) -> bytes:
        """Return at least one byte, or b'' at the end of the stream."""
        return self._ready().recv(min(size, READ_BUFFER))

    def read_all(self, size: int) -> bytes:
        """Return exactly `size` bytes. Raises EOFError if the stream ends first."""
        data = bytearray()
        while len(data) < size:
            piece = self.read(size - len(data))
            if not piece:
                raise EOFError("it closed the connection")
            data += piece
        return bytes(data)

    def write(self, data: bytes) -> None:
        """Send all the data."""
        self._ready().sendall(data)

    def reader(self) -> io.BufferedReader:
        """Return a file object over the bytes that the peer sends."""
        return io.BufferedReader(_Stream(self), READ_BUFFER)

    def is_silent(self) -> bool:
        """Whether the connection is open and no data is pending, as expected between two calls."""
        self._socket.settimeout(0)
        try:
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _ready(self) -> socket.socket:
        self._socket.settimeout(self.deadline.remaining())
        return self._socket


class _Stream(io.RawIOBase):
    """Adapter from a channel to io.BufferedReader."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._channel.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _connect(host: str, port: int, deadline: Deadline) -> socket.socket:
    """Connect to the first of the host's addresses that accepts. Each address gets a share of the time."""
    try:
        found = bounded(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), deadline)
    except UnicodeError as error:
        raise OSError(f"{host!r} is not a valid host name") from error
    for left in range(len(found), 1, -1):
        try:
            return _connect_to(found[-left], deadline.share(left))
        except OSError:
            continue
    return _connect_to(found[-1], deadline)


def _connect_to(found: Any, deadline: Deadline) -> socket.socket:
    family, kind, protocol, _, address = found
    connected = socket.socket(family, kind, protocol)
    try:
        connected.settimeout(deadline.remaining())
        connected.connect(address)
    except BaseException:
        connected.close()
        raise
    return connected
