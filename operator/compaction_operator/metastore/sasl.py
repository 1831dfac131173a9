"""Thrift transport with SASL GSSAPI. Kerberos comes from the library gssapi (the extra "kerberos")."""

import os
import re
from enum import IntEnum, IntFlag
from importlib import import_module
from typing import Any

from thrift.transport.TTransport import TTransportException

from compaction_operator.api.config import Kerberos
from compaction_operator.metastore.channel import Channel, bounded
from compaction_operator.metastore.transports import StreamTransport

FRAME_LIMIT = 64 * 1024**2
"""Maximum bytes of one frame. A peer that does not speak SASL must not make this process allocate more."""
LARGEST_FRAME = 2**24 - 1
"""The largest frame size that the negotiation can express."""
MECHANISM = b"GSSAPI"
REFUSAL_LIMIT = 500
"""Maximum bytes of a refusal in an error message."""
_MINOR = re.compile(r"^.*, Minor \(\d+\): ", re.DOTALL)
"""What comes before Kerberos's own message. NB: only the thread in which an error was raised could ask for it alone."""
NO_CACHE = 0x96C73AC3
"""KRB5_FCC_NOFILE. MIT's library says so when it found no key in the keytab and so looked for a ticket."""


class _Status(IntEnum):
    """The first byte of each negotiation message, as in Thrift's TSaslTransport."""

    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


class _Protection(IntFlag):
    """The security layers of RFC 4752, section 3.3. Hadoop calls them authentication, integrity and privacy."""

    NONE = 1
    INTEGRITY = 2
    PRIVACY = 4


class SaslTransport(StreamTransport):
    """Frames over a mutually authenticated channel, with the protection that the server requires."""

    def __init__(self, channel: Channel, settings: Kerberos, *, host: str) -> None:
        """Negotiate. Raises OSError, EOFError, or TTransportException if either end rejects the other."""
        super().__init__(channel)
        self._settings = settings
        self._received = b""
        self._unsent = bytearray()
        try:
            self._gssapi = import_module("gssapi")
        except ImportError as error:
            raise TTransportException(message="Kerberos needs the package gssapi, which is not installed") from error
        try:
            self._context, token = bounded(lambda: self._initiate(host), channel.deadline)
        except TimeoutError as error:
            raise self._failure("the KDC gave no answer in time") from error
        except self._gssapi.exceptions.GSSError as error:
            raise self._translated(error) from error
        try:
            self._negotiate(token)
        except self._gssapi.exceptions.GSSError as error:
            raise self._translated(error) from error

    def is_reusable(self) -> bool:
        """Whether another call may use it."""
        return not self._received and super().is_reusable()

    def write(self, data: bytes) -> None:
        """Add to the next frames."""
        self._unsent += data

    def flush(self) -> None:
        """Send the written data, in frames that the server accepts."""
        data, self._unsent = bytes(self._unsent), bytearray()
        for start in range(0, len(data), self._frame):
            piece = self._protect(data[start : start + self._frame])
            self.channel.write(len(piece).to_bytes(4) + piece)

    def _receive(self, size: int) -> bytes:
        if not self._received:
            frame = self._read_frame()
            try:
                self._received = frame if self._protection == _Protection.NONE else self._context.unwrap(frame).message
            except self._gssapi.exceptions.GSSError as error:
                raise self._translated(error) from error
        data, self._received = self._received[:size], self._received[size:]
        return data

    def _read_frame(self) -> bytes:
        size = int.from_bytes(self.channel.read_all(4))
        if size > FRAME_LIMIT:
            raise TTransportException(message=f"a SASL frame of {size} bytes exceeds the limit")
        return self.channel.read_all(size)

    def _translated(self, error: Any) -> TTransportException:
        """Return an error of the library with Kerberos's own message alone."""
        if not os.access(self._settings.keytab, os.R_OK):
            return self._failure("the keytab cannot be read")
        if error.min_code == NO_CACHE:
            return self._failure("the keytab has no key of the principal")
        return self._failure(_MINOR.sub("", str(error)))

    def _failure(self, reason: str) -> TTransportException:
        """Return an error that says who logs in: that is where most reasons lie."""
        login = self._settings
        return TTransportException(
            message=f"Kerberos: {reason} (as {login.client_principal}, by the keytab {login.keytab})"
        )

    def _initiate(self, host: str) -> tuple[Any, bytes]:
        """Get a ticket for the service; return the context and its first token.

        The library keeps tickets in memory and renews them from the keytab.
        """
        gssapi, kerberos, settings = self._gssapi, self._gssapi.MechType.kerberos, self._settings
        principal = gssapi.NameType.kerberos_principal
        credentials = gssapi.Credentials(
            name=gssapi.Name(settings.client_principal, principal),
            usage="initiate",
            mechs=[kerberos],
            store={"client_keytab": settings.keytab, "ccache": f"MEMORY:{settings.client_principal}:{settings.keytab}"},
        )
        service = gssapi.Name(settings.principal.replace("/_HOST@", f"/{host.lower()}@"), principal)
        context = gssapi.SecurityContext(name=service, creds=credentials, mech=kerberos, usage="initiate")
        return context, context.step() or b""

    def _negotiate(self, token: bytes) -> None:
        """Complete the context, then negotiate the protection. The server confirms last."""
        self._send(_Status.START, MECHANISM)
        self._send(_Status.OK, token)
        while not self._context.complete:
            self._send(_Status.OK, self._context.step(self._answer()) or b"")
        offered = self._context.unwrap(self._answer()).message
        self._protection = max((kind for kind in _Protection if kind & offered[0]), default=_Protection.NONE)
        wanted = bytes([self._protection]) + LARGEST_FRAME.to_bytes(3)
        self._send(_Status.COMPLETE, self._context.wrap(wanted, False).message)
        self._answer()
        most = int.from_bytes(offered[1:4]) or LARGEST_FRAME
        self._frame = self._context.get_wrap_size_limit(most, self._protection == _Protection.PRIVACY)

    def _protect(self, data: bytes) -> bytes:
        if self._protection == _Protection.NONE:
            return data
        wrapped: bytes = self._context.wrap(data, self._protection == _Protection.PRIVACY).message
        return wrapped

    def _send(self, status: _Status, payload: bytes) -> None:
        self.channel.write(bytes([status]) + len(payload).to_bytes(4) + payload)

    def _answer(self) -> bytes:
        """Return the payload of the server's next message. Raises TTransportException if the server refuses."""
        status = self.channel.read_all(1)[0]
        payload = self._read_frame()
        if status not in (_Status.OK, _Status.COMPLETE):
            refusal = payload[:REFUSAL_LIMIT].decode(errors="replace")
            raise TTransportException(message=f"SASL: the server answered {status}: {refusal}")
        return payload
