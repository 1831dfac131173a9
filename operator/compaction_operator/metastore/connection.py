"""Connection pool of one metastore: fail-over between URIs, a deadline per call, no reuse of broken connections."""

import threading
from collections.abc import Callable
from http.client import HTTPException
from itertools import starmap
from typing import Any, TypeVar

from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TTransport import TTransportException

from compaction_operator.api.config import Metastore
from compaction_operator.metastore.channel import Deadline
from compaction_operator.metastore.endpoint import Connection, Endpoint
from compaction_operator.metastore.errors import HungUp, MetastoreError, MetastoreUnavailable
from compaction_operator.permit import Permit

Answer = TypeVar("Answer")

NO_ANSWER = (TTransportException, OSError, EOFError)
"""Errors that mean that the peer is unreachable or gone."""

HANG_UPS = (TTransportException.END_OF_FILE, TTransportException.UNKNOWN)
"""The TTransportException types that the peer causes itself: end of the stream and HTTP server errors."""

NO_SENSE = (
    TApplicationException,
    TProtocolException,
    HTTPException,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)
"""Errors of parsing bytes that are not a valid reply."""


class ConnectionPool:
    """Thread-safe pool of connections to one metastore. It opens one connection per concurrent call.

    `permit` is asked before each call.
    """

    def __init__(self, settings: Metastore, *, user: str, permit: Permit) -> None:
        self._settings = settings
        self._permit = permit
        self._endpoints = [Endpoint(uri, settings, user=user) for uri in settings.uris]
        self._free = threading.BoundedSemaphore(settings.connections)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False

    def call(self, request: Callable[[Any], Answer]) -> Answer:
        """Return the result of `request` with a generated Thrift client, within the timeout.

        If a URI refuses the connection, the next one is tried. Once a call may have been sent, it is not sent again:
        after an error the caller decides whether to repeat it. Exceptions that Hive's interface declares pass through
        unchanged. Raises MetastoreUnavailable (or its subclass HungUp) if no reply arrives, and MetastoreError if the
        reply is invalid.
        """
        deadline = Deadline.after(self._settings.timeout)
        if not self._free.acquire(timeout=self._settings.timeout):
            busy = f"all {self._settings.connections} connections were busy for {self._settings.timeout:g} s"
            raise MetastoreUnavailable(f"metastore {', '.join(self._settings.uris)}: {busy}")
        try:
            connection = self._reusable() or self._open(deadline)
            connection.allow(deadline)
            self._permit()
            return self._use(connection, request)
        finally:
            self._free.release()

    def close(self) -> None:
        """Close all connections. Connections in use are closed when their call ends."""
        self._closed = True
        self._forget(None)

    def _use(self, connection: Connection, request: Callable[[Any], Answer]) -> Answer:
        try:
            answer = request(connection.client)
        except NO_ANSWER as error:
            self._abandon(connection)
            kind = HungUp if getattr(error, "type", None) in HANG_UPS else MetastoreUnavailable
            raise kind(self._describe(connection.endpoint, error)) from error
        except NO_SENSE as error:
            connection.close()
            raise MetastoreError(f"metastore {connection.endpoint.uri} gave no usable answer: {error}") from error
        except (MetastoreError, TException) as error:
            # Raised while converting a reply, or declared by Hive's interface: the reply was read completely, so the
            # connection is usable.
            self._give_back(connection)
            if type(error) is not MetastoreError:
                raise
            raise MetastoreError(f"metastore {connection.endpoint.uri}: {error}") from error
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        return answer

    def _reusable(self) -> Connection | None:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None or connection.is_reusable():
                return connection
            connection.close()

    def _open(self, deadline: Deadline) -> Connection:
        """Connect to the first reachable URI, with a share of the time for each. This sends no call."""
        failures: list[tuple[Endpoint, Exception]] = []
        endpoints = list(self._endpoints)
        for position, endpoint in enumerate(endpoints):
            try:
                return endpoint.open(deadline.share(len(endpoints) - position))
            except NO_ANSWER as error:
                failures.append((endpoint, error))
                self._put_last(endpoint)
        raise MetastoreUnavailable("; ".join(starmap(self._describe, failures))) from failures[-1][1]

    def _abandon(self, connection: Connection) -> None:
        """Close it and all idle connections to the same endpoint, which are probably broken too."""
        connection.close()
        self._forget(connection.endpoint)
        self._put_last(connection.endpoint)

    def _put_last(self, endpoint: Endpoint) -> None:
        with self._lock:
            self._endpoints.remove(endpoint)
            self._endpoints.append(endpoint)

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _forget(self, endpoint: Endpoint | None) -> None:
        with self._lock:
            gone = [idle for idle in self._idle if endpoint in (None, idle.endpoint)]
            self._idle = [idle for idle in self._idle if idle not in gone]
        for connection in gone:
            connection.close()

    def _describe(self, endpoint: Endpoint, error: Exception) -> str:
        late = isinstance(error, TimeoutError)
        reason = f"no answer in {self._settings.timeout:g} s" if late else str(error) or type(error).__name__
        return f"metastore {endpoint.uri}: {reason}"
