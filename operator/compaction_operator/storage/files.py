"""Files of any storage, read at random and written once from the beginning to the end, as ORC needs them."""

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, cast

from compaction_operator.storage.base import AlreadyExistsError, NotFoundError, Storage, StorageError
from compaction_operator.storage.hdfs import HdfsStorage, connect
from compaction_operator.storage.local import LocalStorage
from compaction_operator.storage.uri import Location

READ_AHEAD = 1 << 20
"""Bytes that are read at least, in one request, from a file that is not local."""


def open_storage(uri: str) -> Storage:
    """Return the storage for a location. Raises StorageError, naming the scheme, if it is not supported."""
    location = Location.parse(uri)
    return LocalStorage() if location.scheme == "file" else _hdfs(location.scheme, location.authority)


def open_file(path: str) -> BinaryIO:
    """Open a file to read at random. Raises OSError."""
    location = Location.parse(path)
    if location.scheme == "file":
        return Path(location.path).open("rb")
    return cast(BinaryIO, io.BufferedReader(_RangedFile(_hdfs(location.scheme, location.authority), path), READ_AHEAD))


def create_file(path: str) -> BinaryIO:
    """Create a file that must not exist, to be written from the beginning to the end. Raises OSError."""
    location = Location.parse(path)
    if location.scheme == "file":
        return Path(location.path).open("xb")
    return cast(BinaryIO, io.BufferedWriter(_NewFile(_hdfs(location.scheme, location.authority), path), READ_AHEAD))


def make_durable(file: BinaryIO) -> None:
    """Make what was written to a local file survive a power cut. On HDFS a closed file does as the cluster is set."""
    file.flush()
    try:
        number = file.fileno()
    except io.UnsupportedOperation:
        return
    os.fsync(number)


def discard(path: str) -> None:
    """Remove a file that was not completed; one that is gone is not an error."""
    open_storage(path).delete_tree(path)


@cache
def _hdfs(scheme: str, authority: str) -> HdfsStorage:
    return connect(scheme, authority)


class _RangedFile(io.RawIOBase):
    """A file on HDFS, read by ranges."""

    def __init__(self, storage: HdfsStorage, path: str) -> None:
        self._path = path
        self._position = 0
        with _os_errors(path):
            self._reader = storage.reader(path)

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read at random."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to an offset."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._reader.size}[whence]
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the next bytes; return how many there were."""
        length = max(0, min(len(buffer), self._reader.size - self._position))
        if length:
            with _os_errors(self._path):
                buffer[:length] = self._reader.read(self._position, length)
            self._position += length
        return length


class _NewFile(io.RawIOBase):
    """A file on HDFS that is being written."""

    def __init__(self, storage: HdfsStorage, path: str) -> None:
        self._path = path
        self._position = 0
        with _os_errors(path):
            self._writer = storage.writer(path)

    def writable(self) -> bool:
        """Whether it can be written."""
        return True

    def tell(self) -> int:
        """Return how much was written."""
        return self._position

    def write(self, data: Any) -> int:
        """Append bytes."""
        with _os_errors(self._path):
            self._writer.write(bytes(data))
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        """Complete the file."""
        if not self.closed:
            super().close()
            with _os_errors(self._path):
                self._writer.close()


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Raise storage errors as the OS would, since readers of files expect that."""
    try:
        yield
    except NotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    except AlreadyExistsError as error:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from error
    except StorageError as error:
        raise OSError(errno.EIO, str(error), path) from error
