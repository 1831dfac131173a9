"""Files of a store without file descriptors, as the file objects that ORC's reader and writer need."""

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol, cast, runtime_checkable

from compaction_operator.storage.base import AlreadyExistsError, NotFoundError, StorageError

READ_AHEAD = 1 << 20
"""Minimum bytes of one request for a range."""


class RangedReader(Protocol):
    """An open file of a store: its size in bytes, and its ranges. Raises StorageError."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """Return a range that lies within the file."""
        ...


class SequentialWriter(Protocol):
    """A new file of a store, which exists whole once it is closed, and never if it is not. Raises StorageError."""

    def write(self, data: bytes) -> None:
        """Append bytes."""
        ...

    def close(self) -> None:
        """Complete the file."""
        ...


@runtime_checkable
class ObjectWriter(SequentialWriter, Protocol):
    """A new file that the store puts together when it is closed, also from ranges of its other files."""

    def copy(self, source: RangedReader, offset: int, length: int) -> bool:
        """Have the store append a range of an open file. Return False, and do nothing, if it cannot."""
        ...

    def abort(self) -> None:
        """Give the file up. There was none before, and there will be none."""
        ...


class FileStorage(Protocol):
    """A storage whose files are read and written by requests."""

    def reader(self, path: str) -> RangedReader:
        """Open a file to read ranges of it. Raises NotFoundError."""
        ...

    def writer(self, path: str) -> SequentialWriter:
        """Create a file that must not exist. Raises AlreadyExistsError."""
        ...


def opened(storage: FileStorage, path: str, *, read_ahead: bool = True) -> BinaryIO:
    """Open a file to read at random, with or without reading on in advance. Raises OSError."""
    file = _RangedFile(storage, path)
    return cast(BinaryIO, io.BufferedReader(file, READ_AHEAD) if read_ahead else file)


def created(storage: FileStorage, path: str) -> BinaryIO:
    """Create a file that must not exist, to be written from the beginning to the end. Raises OSError."""
    return cast(BinaryIO, io.BufferedWriter(_NewFile(storage, path), READ_AHEAD))


def copy_range(source: BinaryIO, target: BinaryIO, *, offset: int, length: int) -> bool:
    """Have the store append a range of an open file to a new one. Return False, and do nothing, if it cannot.

    Raises OSError.
    """
    old, new = getattr(source, "raw", None), getattr(target, "raw", None)
    if not (isinstance(old, _RangedFile) and isinstance(new, _NewFile)):
        return False
    target.flush()
    return new.copy(old.reader, offset, length)


def abandon(target: BinaryIO) -> bool:
    """Give a new file up. Return False if its store has it already, so that it must be closed and deleted."""
    new = getattr(target, "raw", None)
    return isinstance(new, _NewFile) and new.abandon()


class _RangedFile(io.RawIOBase):
    """A file that is read by ranges."""

    def __init__(self, storage: FileStorage, path: str) -> None:
        self._path = path
        self._position = 0
        with _os_errors(path):
            self.reader = storage.reader(path)

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read at random."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to an offset."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.reader.size}[whence]
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the next bytes; return how many there were."""
        length = max(0, min(len(buffer), self.reader.size - self._position))
        if length:
            with _os_errors(self._path):
                buffer[:length] = self.reader.read(self._position, length)
            self._position += length
        return length


class _NewFile(io.RawIOBase):
    """A file that is being written."""

    def __init__(self, storage: FileStorage, path: str) -> None:
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

    def copy(self, source: RangedReader, offset: int, length: int) -> bool:
        """Append a range of another file, if the store can."""
        with _os_errors(self._path):
            copied = isinstance(self._writer, ObjectWriter) and self._writer.copy(source, offset, length)
        self._position += length if copied else 0
        return copied

    def abandon(self) -> bool:
        """Close it without completing the file, if the store has nothing of it."""
        if not isinstance(self._writer, ObjectWriter):
            return False
        super().close()
        self._writer.abort()
        return True

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
