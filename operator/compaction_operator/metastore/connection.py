"""Thrift connections to one metastore: each call has a deadline, broken connections are never used again."""

import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from compaction_operator.metastore.errors import MetastoreError, MetastoreUnavailable

Answer = TypeVar("Answer")

READ_BUFFER = 64 * 1024


class SocketTransport:
    """Thrift's lowest layer over TCP. NB: Thrift's own socket bounds each read, this one bounds the whole call."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._socket: socket.socket | None = None
        self._deadline = 0.0

    def allow(self, seconds: float) -> None:
        """Give everything from here on, until the next time, that many seconds in all."""
        self._deadline = time.monotonic() + seconds

    def open(self) -> None:
        """Connect; raises OSError."""
        self._socket = socket.create_connection(self._address, timeout=self._remaining())
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        """Close the socket, if there is one."""
        if self._socket:
            self._socket.close()
            self._socket = None

    def is_reusable(self) -> bool:
        """Whether the peer kept the idle connection open: between calls there is nothing to read but its end."""
        return self._socket is not None and not select.select([self._socket], [], [], 0)[0]

    def read(self, size: int) -> bytes:
        """Return at least one byte; raises TTransportException at the end of the stream."""
        # Not more at once: a size may come from a peer that does not speak Thrift, and would be allocated.
        data = self._ready().recv(min(size, READ_BUFFER))
        if not data:
            raise TTransportException(TTransportException.END_OF_FILE, "it closed the connection")
        return data

    def readAll(self, size: int) -> bytes:  # noqa: N802 - Thrift's name
        """Return exactly that many bytes."""
        data = bytearray()
        while len(data) < size:
            data += self.read(size - len(data))
        return bytes(data)

    def write(self, data: bytes) -> None:
        """Send all of it."""
        self._ready().sendall(data)

    def flush(self) -> None:
        """Nothing is held back here."""

    def _ready(self) -> socket.socket:
        if self._socket is None:
            raise TTransportException(TTransportException.NOT_OPEN, "the connection is closed")
        self._socket.settimeout(self._remaining())
        return self._socket

    def _remaining(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("timed out")
        return remaining


class Connection:
    """One open connection and the client on it; used by one thread at a time."""

    def __init__(self, host: str, port: int, *, seconds: float) -> None:
        self.transport = SocketTransport(host, port)
        self.transport.allow(seconds)
        self.transport.open()
        protocol = TBinaryProtocolAccelerated(TBufferedTransport(self.transport, READ_BUFFER))
        self.client: Any = ThriftHiveMetastore.Client(protocol)


class ConnectionPool:
    """Connections to one metastore, as many as calls are under way at a time. Safe to use from many threads."""

    def __init__(self, uri: str, *, timeout: float) -> None:
        self.uri = uri
        self._timeout = timeout
        host, port = uri.removeprefix("thrift://").rsplit(":", 1)
        self._address = (host, int(port))
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False

    def call(self, request: Callable[[Any], Answer]) -> Answer:
        """Return what `request` gets from a generated Thrift client, within the timeout, connecting included.

        A call is sent once: after an error the caller decides whether to repeat it. Exceptions that Hive's interface
        declares come through as they are; raises MetastoreUnavailable when there is no answer and MetastoreError when
        the answer makes no sense. NB: looking up the host's name is not bounded by the timeout.
        """
        try:
            connection = self._take()
            answer = self._use(connection, request)
        except (TTransportException, OSError, EOFError) as error:
            self._drop_idle()
            raise MetastoreUnavailable(f"metastore {self.uri}: {_reason(error, self._timeout)}") from error
        self._give_back(connection)
        return answer

    def close(self) -> None:
        """Close all connections; those in use are closed when their call ends."""
        self._closed = True
        self._drop_idle()

    def _use(self, connection: Connection, request: Callable[[Any], Answer]) -> Answer:
        try:
            return request(connection.client)
        except (TApplicationException, TProtocolException, UnicodeDecodeError, TypeError) as error:
            connection.transport.close()
            raise MetastoreError(f"metastore {self.uri} gave no usable answer: {error}") from error
        except TTransportException:
            connection.transport.close()
            raise
        except TException:  # declared by Hive's interface: read to its end, so the connection is as good as before
            self._give_back(connection)
            raise
        except BaseException:
            connection.transport.close()
            raise

    def _take(self) -> Connection:
        while connection := self._pop_idle():
            if connection.transport.is_reusable():
                connection.transport.allow(self._timeout)
                return connection
            connection.transport.close()
        return Connection(*self._address, seconds=self._timeout)

    def _pop_idle(self) -> Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.transport.close()

    def _drop_idle(self) -> None:
        while connection := self._pop_idle():
            connection.transport.close()


def _reason(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer in {timeout:g} s"
    return str(error) or type(error).__name__
