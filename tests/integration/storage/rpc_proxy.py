"""Stands between a client and a NameNode and, once, spoils the answer to a call that the NameNode carried out."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from types import TracebackType
from typing import Self

CHUNK = 1 << 16


class Fault(StrEnum):
    """What the client gets of the answer."""

    LOST = "nothing, and the connection ends"
    HALF = "a half, and the connection ends"
    HANG = "nothing, and the connection stays"


class RpcProxy:
    """Forwards connections to a NameNode without Kerberos; a context manager."""

    def __init__(self, uri: str) -> None:
        host, _, port = uri.rpartition("/")[2].partition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._armed: tuple[bytes, Fault] | None = None
        self._connections: list[_Connection] = []

    @property
    def authority(self) -> str:
        """Its host and port."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.close()
        for connection in self._connections:
            connection.end()

    def spoil(self, method: str, fault: Fault) -> None:
        """Spoil the answer to the next call of a method."""
        with self._lock:
            # NB: in the request the name follows its length (Protocol Buffers).
            self._armed = bytes([len(method)]) + method.encode(), fault

    @property
    def armed(self) -> bool:
        """Whether the method to spoil was not called yet."""
        with self._lock:
            return self._armed is not None

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()  # as the dead NameNode would
                continue
            self._connections.append(_Connection(client, server, self._fault_for))
            self._connections[-1].start()

    def _fault_for(self, request: bytes) -> Fault | None:
        with self._lock:
            if self._armed is None or self._armed[0] not in request:
                return None
            fault, self._armed = self._armed[1], None
            return fault


class _Connection:
    """One connection, with a thread for each direction."""

    def __init__(
        self, client: socket.socket, server: socket.socket, fault_for: Callable[[bytes], Fault | None]
    ) -> None:
        self._client = client
        self._server = server
        self._fault_for = fault_for
        self._fault: Fault | None = None

    def start(self) -> None:
        for forward in (self._requests, self._answers):
            threading.Thread(target=forward, daemon=True).start()

    def end(self) -> None:
        """End both sides."""
        for side in (self._client, self._server):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def _requests(self) -> None:
        with suppress(OSError):
            while request := self._client.recv(CHUNK):
                self._fault = self._fault_for(request) or self._fault
                self._server.sendall(request)
        self.end()

    def _answers(self) -> None:
        with suppress(OSError):
            while answer := self._server.recv(CHUNK):
                if self._fault is None:
                    self._client.sendall(answer)
                elif self._fault is not Fault.HANG:
                    self._client.sendall(answer[: len(answer) // 2] if self._fault is Fault.HALF else b"")
                    break
        self.end()
