"""A metastore stand-in that speaks Thrift over a socket and answers what a test wants it to."""

import socket
import threading
from collections.abc import Callable
from typing import Any

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from compaction_operator.api.config import Metastore


class Handler:
    """Answers each call with what `answers` holds for it: a value, or a function of the arguments."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def method(*arguments: Any) -> Any:
            self.calls.append(name)
            answer = self._answers[name]
            return answer(*arguments) if callable(answer) else answer

        return method


class StubMetastore:
    """Serves a handler on a free port; `drop_connections` closes those that are open."""

    def __init__(self, **answers: Any) -> None:
        self.handler = Handler(answers)
        self.connections: list[socket.socket] = []
        self._serving: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def settings(self, *, timeout: float = 10.0) -> Metastore:
        return Metastore(uris=(f"thrift://127.0.0.1:{self._listener.getsockname()[1]}",), timeout=timeout)

    def drop_connections(self) -> None:
        for connection in tuple(self.connections):  # NB: a client that has lost one may connect again meanwhile
            connection.shutdown(socket.SHUT_RDWR)

    def await_clients_gone(self, seconds: float) -> bool:
        """Whether every connection ends within that many seconds each."""
        for thread in self._serving:
            thread.join(seconds)
        return not any(thread.is_alive() for thread in self._serving)

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            self._serving.append(threading.Thread(target=self._serve, args=[connection], daemon=True))
            self._serving[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        transport = TSocket()
        transport.setHandle(connection)
        protocol = TBinaryProtocol(TBufferedTransport(transport))
        processor = ThriftHiveMetastore.Processor(self.handler)
        try:
            while True:
                processor.process(protocol, protocol)
        except (TTransportException, OSError):
            transport.close()
