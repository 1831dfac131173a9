"""Strict Thrift binary protocol: it accepts a reply only if it belongs to the last call."""

from itertools import count
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TMessageType

CONTAINER_LIMIT = 4_000_000
"""Maximum elements of one list or map in a reply. Thrift allocates them before it reads them."""


class StrictProtocol(TBinaryProtocolAccelerated):  # type: ignore[misc]
    """Numbers the calls and checks the replies. NB: Thrift's generated client always sends 0 and never checks."""

    def __init__(self, transport: Any) -> None:
        super().__init__(transport, strictRead=True, container_length_limit=CONTAINER_LIMIT)
        self._numbers = count(1)
        self._call = ("", 0)

    def writeMessageBegin(self, name: str, type: int, seqid: int) -> None:  # noqa: ARG002, N802 - Thrift's names
        """Begin a call with the next number."""
        self._call = (name, next(self._numbers))
        super().writeMessageBegin(name, type, self._call[1])

    def readMessageBegin(self) -> tuple[str, int, int]:  # noqa: N802 - Thrift's name
        """Begin the reply. Raises TProtocolException if it does not belong to this call."""
        name, type_, number = super().readMessageBegin()
        if (name, number) != self._call or type_ not in (TMessageType.REPLY, TMessageType.EXCEPTION):
            found = f"message {name!r} {number} of type {type_}"
            raise TProtocolException(message=f"{found} is not the reply to call {self._call[0]!r} {self._call[1]}")
        return name, type_, number
