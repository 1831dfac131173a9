"""The client of S3: how a bucket is reached, who asks, and how long it waits for an answer."""

import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import botocore
import botocore.session
from botocore.config import Config
from botocore.credentials import (
    CredentialProvider,
    CredentialResolver,
    Credentials,
    ReadOnlyCredentials,
    SharedCredentialProvider,
)
from botocore.exceptions import CredentialRetrievalError
from botocore.loaders import Loader, create_loader
from botocore.utils import parse_timestamp

from compaction_operator.api.stores import S3Connection
from compaction_operator.permit import Permit, always

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

CONNECTIONS = 32
"""Most calls at the same time."""

USER_AGENT = f"compaction-operator Botocore/{botocore.__version__}"
"""What a request says of its sender. NB: botocore builds its own twice for each request, for a tenth of its CPU."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a call may take: seconds to connect, seconds of silence, and how often it is tried in all.

    A copy of COPY_BYTES is silent until it is done.
    """

    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    attempts: int = 4

    @property
    def pauses(self) -> tuple[float, ...]:
        """Seconds between the attempts."""
        return tuple(0.1 * 4**number for number in range(self.attempts - 1))


def make_client(settings: S3Connection, pace: Pace, *, permit: Permit = always) -> "S3Client":
    """Return a client, which is thread-safe. Raises botocore's errors for settings that cannot be used.

    `permit` is asked before each attempt of each request. Checksums are Content-MD5, which every store checks:
    botocore's own are unknown to some.
    """
    session = botocore.session.Session()
    session.register_component("data_loader", _descriptions())
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_timestamp)
    if settings.credentials_file:
        provider = _FileProvider(settings.credentials_file)
        session.register_component("credential_provider", CredentialResolver([provider]))
    config = Config(
        connect_timeout=pace.connect_seconds,
        read_timeout=pace.read_seconds,
        retries={"mode": "standard", "total_max_attempts": pace.attempts},
        max_pool_connections=CONNECTIONS,
        s3={"addressing_style": "path" if settings.path_style else "auto"},
        user_agent=USER_AGENT,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    client: S3Client = boto3.Session(botocore_session=session).client(
        "s3", region_name=settings.region, endpoint_url=settings.endpoint, verify=settings.ca_file, config=config
    )
    client.meta.events.register("before-send.s3", lambda **_: permit())
    return client


@cache
def _descriptions() -> Loader:
    """Return what reads botocore's descriptions of services, and remembers them: 12 MB and 0.1 s of each client."""
    return create_loader()


def _timestamp(value: str) -> datetime:
    """Return the time of an answer, as botocore does: its own parser takes most of the time of a listing.

    Listings have the form of ISO 8601, headers that of RFC 9110.
    """
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, TypeError, AttributeError):
            found = parse(value)
            if found.tzinfo:
                return found
    return parse_timestamp(value)


class _FileProvider(CredentialProvider):
    """The place of botocore's chain where the credentials of a file come from."""

    METHOD = "mounted-file"

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def load(self) -> Credentials:
        """Return the credentials of the file."""
        return _FileCredentials(self._path)


class _FileCredentials(Credentials):
    """Credentials that are read again when their file has changed: a mounted secret is replaced while we run."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._read_at = _stamp(path)
        found = _read(path)
        super().__init__(found.access_key, found.secret_key, found.token, method=_FileProvider.METHOD)

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """Return those of now. The client asks for them for each attempt of each request."""
        with self._lock:
            stamp = _stamp(self._path)
            if stamp != self._read_at:
                found = _read(self._path)
                self.access_key, self.secret_key, self.token = found.access_key, found.secret_key, found.token
                self._read_at = stamp
            return super().get_frozen_credentials()


def _read(path: str) -> Credentials:
    """Return what a file holds. NB: botocore's errors about a file quote its lines, which are secret."""
    try:
        found = SharedCredentialProvider(path, "default").load()
    except Exception:
        found = None
    if not found:
        raise _unreadable(path, "it has no credentials of a profile [default]")
    return found


def _stamp(path: str) -> tuple[int, int, int]:
    """Return what changes when a file is replaced or written."""
    try:
        status = Path(path).stat()
    except OSError as error:
        raise _unreadable(path, error.strerror or "it cannot be read") from error
    return status.st_ino, status.st_mtime_ns, status.st_size


def _unreadable(path: str, reason: str) -> CredentialRetrievalError:
    return CredentialRetrievalError(provider=path, error_msg=reason)
