"""One URI of a metastore, and the connections opened to it."""

import ssl
import time
from typing import Any
from urllib.parse import urlsplit

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.transport.TTransport import TBufferedTransport

from compaction_operator.api.config import Metastore, Tls
from compaction_operator.metastore.channel import READ_BUFFER, Channel, Deadline
from compaction_operator.metastore.sasl import SaslTransport
from compaction_operator.metastore.strict_protocol import StrictProtocol
from compaction_operator.metastore.transports import HttpTransport, StreamTransport

IDLE_SECONDS = 60.0
"""Maximum idle time of a reused connection. Network devices may drop an idle connection silently."""


class Endpoint:
    """One process of a metastore, or a proxy for several."""

    def __init__(self, uri: str, settings: Metastore, *, user: str) -> None:
        self.uri = uri
        parts = urlsplit(uri)
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._path = uri.split("/", 3)[3] if parts.scheme != "thrift" else None
        self._tls = settings.tls or (Tls() if parts.scheme == "https" else None)
        self._settings = settings
        self._user = user

    def open(self, deadline: Deadline) -> "Connection":
        """Connect, without sending a call. Raises OSError, EOFError or TTransportException."""
        tls = _context(self._tls) if self._tls else None
        channel = Channel.open(self._host, self._port, tls=tls, deadline=deadline)
        try:
            return Connection(self, self._transport(channel))
        except BaseException:
            channel.close()
            raise

    def _transport(self, channel: Channel) -> StreamTransport:
        if self._path is not None:
            return HttpTransport(
                channel,
                host=self._host,
                port=self._port,
                path=f"/{self._path}",
                user=self._user,
                token_file=self._settings.token_file,
            )
        if self._settings.kerberos:
            return SaslTransport(channel, self._settings.kerberos, host=self._host)
        return StreamTransport(channel)


class Connection:
    """One open connection with its Thrift client. Only one thread may use it at a time."""

    def __init__(self, endpoint: Endpoint, transport: StreamTransport) -> None:
        self.endpoint = endpoint
        self._transport = transport
        self._used = time.monotonic()
        self.client: Any = ThriftHiveMetastore.Client(StrictProtocol(TBufferedTransport(transport, READ_BUFFER)))

    def allow(self, deadline: Deadline) -> None:
        """Set the deadline of the next call."""
        self._transport.channel.deadline = deadline
        self._used = time.monotonic()

    def is_reusable(self) -> bool:
        """Whether another call may use it: both ends have kept it open, and it was idle for less than IDLE_SECONDS."""
        return time.monotonic() - self._used < IDLE_SECONDS and self._transport.is_reusable()

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


def _context(tls: Tls) -> ssl.SSLContext:
    """Return the TLS context of one connection. It reads the files again, so renewed certificates take effect."""
    context = ssl.create_default_context(cafile=tls.ca_file)
    context.check_hostname = tls.check_hostname
    if tls.certificate_file:
        # Without a password, OpenSSL would prompt for one and block.
        context.load_cert_chain(tls.certificate_file, tls.key_file, password="")
    return context
