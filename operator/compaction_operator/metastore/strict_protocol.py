"""Thrift's binary protocol, strictly: a reply is taken only when it is the one to the call just made."""

from itertools import count
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TMessageType

CONTAINER_LIMIT = 4_000_000
"""Elements of one list or map of a reply, which Thrift makes room for before it reads them."""


class StrictProtocol(TBinaryProtocolAccelerated):  # type: ignore[misc]
    """Numbers the calls, and compares. NB: Thrift's generated client sends 0 each time and never looks at it."""

    def __init__(self, transport: Any) -> None:
        super().__init__(transport, strictRead=True, container_length_limit=CONTAINER_LIMIT)
        self._numbers = count(1)
        self._call = ("", 0)

    def writeMessageBegin(self, name: str, type: int, seqid: int) -> None:  # noqa: ARG002, N802 - Thrift's names
        """Begin a call, under the next number."""
        self._call = (name, next(self._numbers))
        super().writeMessageBegin(name, type, self._call[1])

    def readMessageBegin(self) -> tuple[str, int, int]:  # noqa: N802 - Thrift's name
        """Begin the reply; raises TProtocolException when it is not one to this call."""
        name, type_, number = super().readMessageBegin()
        if (name, number) != self._call or type_ not in (TMessageType.REPLY, TMessageType.EXCEPTION):
            found = f"message {name!r} {number} of type {type_}"
            raise TProtocolException(message=f"{found} is no reply to call {self._call[0]!r} {self._call[1]}")
        return name, type_, number
