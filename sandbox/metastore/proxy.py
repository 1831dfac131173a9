"""Stands between a client and a real metastore and, on request, misbehaves in the middle of a call."""

import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Self

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

HANG_SECONDS = 60.0
"""After so long even what hangs is closed: no test waits for it."""
GARBAGE = bytes.fromhex("80010002ffffffff") + b"\xff" * 64


class Fault(StrEnum):
    """What the client gets instead of the metastore's reply. All but BLACK_HOLE let the call happen."""

    BLACK_HOLE = "the call is swallowed"
    DELAY = "the reply comes too late"
    RESET = "the connection is reset"
    CLOSE = "the connection is closed"
    HALF_AND_CLOSE = "half of the reply, then the end"
    HALF_AND_HANG = "half of the reply, then nothing"
    GARBAGE = "something else than Thrift"
    APPLICATION_ERROR = "an error of Thrift's own"
    OTHER_CALL = "the reply to another method"
    OTHER_NUMBER = "a reply under another sequence number"
    STALE = "the reply to the call before"
    NO_RESULT = "a reply with nothing in it"
    EMPTY_RESULT = "a reply whose result has no field"


@dataclass(frozen=True)
class Message:
    """One Thrift message, with the bytes it came in."""

    name: str
    type: int
    number: int
    data: bytes


class MisbehavingProxy:
    """Forwards calls to a metastore; a context manager. `calls` are the names of those that came since `behave`."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._fault: Callable[[int], Fault | None] = lambda _: None
        self.calls: list[str] = []

    @property
    def uri(self) -> str:
        """Its address, as a metastore's."""
        return f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._listener.close()

    def behave(self) -> None:
        """Forward everything from now on, and count calls from 0 again."""
        self._set(lambda _: None)

    def misbehave(self, fault: Fault, *, at: int, lasting: bool = False) -> None:
        """Count calls from 0 again, and answer call number `at` (and if it is lasting, all later ones) with a fault."""
        self._set(lambda number: fault if number == at or (lasting and number > at) else None)

    def _set(self, fault: Callable[[int], Fault | None]) -> None:
        with self._lock:
            self._fault = fault
            self.calls = []

    def _count(self, call: Message) -> Fault | None:
        with self._lock:
            self.calls.append(call.name)
            return self._fault(len(self.calls) - 1)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Forward the calls of one connection until either end closes it or a fault does."""
        last: Message | None = None
        try:
            with client, socket.create_connection(self._target) as server:
                while True:
                    call = _read(client)
                    fault = self._count(call)
                    if fault is Fault.BLACK_HOLE:
                        self._ended.wait(HANG_SECONDS)
                        return
                    server.sendall(call.data)
                    reply = _read(server)
                    if fault is None:
                        client.sendall(reply.data)
                    elif not self._answer(client, fault, reply, last):
                        return
                    last = reply
        except (OSError, EOFError):
            return

    def _answer(self, client: socket.socket, fault: Fault, reply: Message, last: Message | None) -> bool:
        """Answer wrongly; return whether the connection goes on."""
        half = reply.data[: len(reply.data) // 2]
        if fault is Fault.DELAY:
            self._await_end_of(client)
        elif fault is Fault.RESET:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif fault is Fault.HALF_AND_CLOSE:
            client.sendall(half)
        elif fault is Fault.HALF_AND_HANG:
            client.sendall(half)
            self._await_end_of(client)
        elif fault is not Fault.CLOSE:
            client.sendall(_wrong(fault, reply, last))
            return True
        return False

    def _await_end_of(self, client: socket.socket) -> None:
        """Return when the client has given up."""
        client.settimeout(HANG_SECONDS)
        client.recv(1)


def _wrong(fault: Fault, reply: Message, last: Message | None) -> bytes:
    """Return what is sent instead of a reply."""
    if fault is Fault.GARBAGE:
        return GARBAGE
    if fault is Fault.STALE and last:
        return last.data
    name, type_, number = reply.name, reply.type, reply.number
    body = reply.data[len(_header(name, type_, number)) :]
    if fault is Fault.OTHER_CALL:
        name = "get_all_databases"
    elif fault is Fault.APPLICATION_ERROR:
        type_, body = TMessageType.EXCEPTION, _application_error()
    elif fault is Fault.NO_RESULT:
        body = bytes([TType.STOP])
    elif fault is Fault.EMPTY_RESULT:
        body = bytes([TType.STRUCT, 0, 0, TType.STOP, TType.STOP])
    else:
        number += 1
    return _header(name, type_, number) + body


def _header(name: str, type_: int, number: int) -> bytes:
    buffer = TMemoryBuffer()
    TBinaryProtocol(buffer).writeMessageBegin(name, type_, number)
    header: bytes = buffer.getvalue()
    return header


def _application_error() -> bytes:
    buffer = TMemoryBuffer()
    error = TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error processing the call")
    error.write(TBinaryProtocol(buffer))
    body: bytes = buffer.getvalue()
    return body


class _Recorder:
    """What Thrift reads from: a socket, whose bytes are kept."""

    def __init__(self, source: socket.socket) -> None:
        self._source = source
        self.data = bytearray()

    def readAll(self, size: int) -> bytes:  # noqa: N802 - Thrift's name
        piece = bytearray()
        while len(piece) < size:
            got = self._source.recv(size - len(piece))
            if not got:
                raise EOFError
            piece += got
        self.data += piece
        return bytes(piece)


class _Bytes(TBinaryProtocol):  # type: ignore[misc]
    """Takes strings as bytes: `abortedBits` is no UTF-8 once eight transactions in a row were aborted."""

    def readString(self) -> bytes:  # noqa: N802 - Thrift's name
        return bytes(self.readBinary())


def _read(source: socket.socket) -> Message:
    """Read one message to its end; raises EOFError, OSError."""
    recorder = _Recorder(source)
    name, type_, number = TBinaryProtocol(recorder).readMessageBegin()
    _Bytes(recorder).skip(TType.STRUCT)
    return Message(name, type_, number, bytes(recorder.data))
