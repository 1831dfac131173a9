"""Files on HDFS with pathlib's methods, so that tests use the same lines for them as for local files.

It shares no code with the product's storage, which tests hold against it.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Self

from hdfs_native import Client, WriteOptions

OPEN_TO_ALL = 0o777
"""Permissions of directories. Hive's metastore acts as the user of each connection."""

_LOGINS: dict[str, tuple[Path, str, Path]] = {}
"""Hadoop's configuration, principal and keytab by server: a path does not say who reads it."""


class HdfsPath(PurePosixPath):
    """A path of `hdfs://host:port/...`, or relative to one. It is given and printed as a URI."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return the URI. NB: pathlib drops the second slash."""
        scheme, colon, rest = super().__str__().partition(":/")
        return f"{scheme}://{rest}" if colon else scheme

    def iterdir(self) -> Iterator[Self]:
        """Yield the direct children. Raises FileNotFoundError."""
        yield from (self / found.path.rpartition("/")[2] for found in self._client.list_status(self.path))

    def exists(self) -> bool:
        """Whether it exists."""
        with suppress(FileNotFoundError):
            return self._status is not None
        return False

    def is_dir(self) -> bool:
        """Whether it exists and is a directory."""
        with suppress(FileNotFoundError):
            return bool(self._status.isdir)
        return False

    def size(self) -> int:
        """Return the bytes of a file. Raises FileNotFoundError."""
        return int(self._status.length)

    def owner(self) -> str:
        """Return the user who owns it. Raises FileNotFoundError."""
        return str(self._status.owner)

    def read_bytes(self) -> bytes:
        """Return a file's content."""
        return bytes(self._client.read(self.path).read())

    def write_bytes(self, data: bytes) -> int:
        """Create or replace a file."""
        with self._client.create(self.path, WriteOptions(overwrite=True)) as file:
            written: int = file.write(data)
        return written

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Create a directory that all users may change."""
        if not self.exists():
            self._client.mkdirs(self.path, OPEN_TO_ALL, create_parent=parents)
        elif not exist_ok:
            raise FileExistsError(str(self))

    def rename(self, target: str | os.PathLike[str]) -> Self:
        """Rename to a name that must not exist."""
        new = type(self)(target)
        self._client.rename(self.path, new.path, overwrite=False)
        return new

    def remove_tree(self) -> None:
        """Remove it and all below, if it is there."""
        self._client.delete(self.path, recursive=True)

    @property
    def _status(self) -> Any:
        return self._client.get_file_info(self.path)

    @property
    def path(self) -> str:
        """The path on the server."""
        return "/" + "/".join(self.parts[2:])

    @property
    def _client(self) -> Any:
        return _client(self.parts[1])


def log_in(uri: str, *, configuration: Path, principal: str, keytab: Path) -> None:
    """Let this process's paths on a server with Kerberos act as that principal, with tickets of their own."""
    _LOGINS[uri.removeprefix("hdfs://")] = configuration, principal, keytab


@cache
def _client(server: str) -> Any:
    if server not in _LOGINS:
        return Client(f"hdfs://{server}")
    configuration, principal, keytab = _LOGINS[server]
    return Client(
        f"hdfs://{server}",
        None,
        str(configuration),
        kerberos_principal=principal,
        kerberos_keytab=str(keytab),
        kerberos_cache=f"MEMORY:paths on {server}",
    )
