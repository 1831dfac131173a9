"""Files of a store without file descriptors, as the file objects that ORC's reader and writer need."""

import errno
import io
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol, cast, runtime_checkable

from compaction_operator.storage.base import AlreadyExistsError, NotFoundError, StorageError

READ_AHEAD = 32 << 10
"""Minimum bytes of one request for a range. NB: stripes are read, and copied, by large requests of their own."""

WRITE_BUFFER = 1 << 20
"""Minimum bytes of one request that appends to a file."""

REMOTE_PIECE, LOCAL_PIECE = 8 << 20, 1 << 20
"""Bytes of a large range that are read at a time: one request of a store, or what stays in a processor's cache.

NB: with 128 kB a local copy takes a fifth more CPU time, with 8 MB half as much again: `make bench JOBS=a`.
"""

_FILES, _PIECES = 64, 8
"""Most files, and most pieces of READ_AHEAD bytes of each, that a process remembers."""


class RangedReader(Protocol):
    """An open file of a store: its size in bytes, and its ranges. Raises StorageError."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """Return a range that lies within the file."""
        ...

    def take_end(self) -> bytes:
        """Return the end of the file, as far as it came when it was opened. It is given once."""
        ...


class SequentialWriter(Protocol):
    """A new file of a store, which exists whole once it is closed, and never if it is not. Raises StorageError."""

    def write(self, data: bytes | memoryview) -> None:
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


class StoredFile(Protocol):
    """A file that is read as often as needed."""

    def open(self, *, read_ahead: bool = True) -> BinaryIO:
        """Open it to read at random; without read-ahead a store moves no more than what is read. Raises OSError."""
        ...


class RemoteFile:
    """A file of a store as it was when it was looked up: opening it makes no request. Raises OSError.

    NB: a task may look up thousands of files, so what was read of them in advance is kept for the last of them only.
    """

    def __init__(self, storage: FileStorage, path: str) -> None:
        self.path = path
        with _os_errors(path):
            self.reader = storage.reader(path)
        if end := self.reader.take_end():
            _lately.keep(self.reader, self.reader.size - len(end), end)

    def open(self, *, read_ahead: bool = True) -> BinaryIO:
        """Open it to read at random."""
        return cast(BinaryIO, _RangedFile(self, least=READ_AHEAD if read_ahead else 0))


def created(storage: FileStorage, path: str) -> BinaryIO:
    """Create a file that must not exist, to be written from the beginning to the end. Raises OSError."""
    return cast(BinaryIO, io.BufferedWriter(_NewFile(storage, path), WRITE_BUFFER))


def copy_range(source: BinaryIO, target: BinaryIO, *, offset: int, length: int) -> bool:
    """Have the store append a range of an open file to a new one. Return False, and do nothing, if it cannot.

    Raises OSError.
    """
    new = getattr(target, "raw", None)
    if not (isinstance(source, _RangedFile) and isinstance(new, _NewFile)):
        return False
    target.flush()
    return new.copy(source.reader, offset, length)


def read_pieces(file: BinaryIO, *, offset: int, length: int) -> Iterator[bytes | memoryview]:
    """Yield a range of an open file in pieces, each valid until the next; fewer if the file ends. Raises OSError."""
    file.seek(offset)
    if isinstance(file, _RangedFile):
        for done in range(0, length, REMOTE_PIECE):
            yield file.read(min(REMOTE_PIECE, length - done))
        return
    buffer = memoryview(bytearray(min(LOCAL_PIECE, length)))
    for done in range(0, length, LOCAL_PIECE):
        piece = buffer[: length - done]
        yield piece[: cast(io.BufferedIOBase, file).readinto(piece)]


def is_checked_by_store(target: BinaryIO) -> bool:
    """Return whether the store of a new file compares what it gets with a checksum, and keeps that.

    HDFS has one for every 512 bytes, which each DataNode checks, S3 one for each part. The kernel has none.
    """
    return isinstance(getattr(target, "raw", None), _NewFile)


def abandon(target: BinaryIO) -> bool:
    """Give a new file up. Return False if its store has it already, so that it must be closed and deleted."""
    new = getattr(target, "raw", None)
    return isinstance(new, _NewFile) and new.abandon()


class _Lately:
    """The last pieces that were read of the last files. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: OrderedDict[RangedReader, deque[tuple[int, bytes]]] = OrderedDict()

    def keep(self, file: RangedReader, start: int, data: bytes) -> None:
        """Remember a piece."""
        with self._lock:
            self._files.setdefault(file, deque(maxlen=_PIECES)).append((start, data))
            self._files.move_to_end(file)
            while len(self._files) > _FILES:
                self._files.popitem(last=False)

    def find(self, file: RangedReader, start: int, end: int) -> bytes | None:
        """Return a range, if it lies in a piece."""
        with self._lock:
            for begin, data in self._files.get(file, ()):
                if begin <= start and end <= begin + len(data):
                    self._files.move_to_end(file)
                    return data[start - begin : end - begin]
        return None


_lately = _Lately()


class _RangedFile(io.BufferedIOBase):
    """A file that is read by ranges, of at least so many bytes."""

    def __init__(self, file: RemoteFile, *, least: int) -> None:
        self._path = file.path
        self.reader = file.reader
        self._least = least
        self._position = 0

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

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes: so many, or all that follow, but none behind the end."""
        start, rest = self._position, max(0, self.reader.size - self._position)
        end = start + (rest if size is None or size < 0 else min(size, rest))
        if end == start:
            return b""
        found = _lately.find(self.reader, start, end)
        if found is None:
            found = self._fetched(start, end)
        self._position = end
        return found

    def _fetched(self, start: int, end: int) -> bytes:
        """Ask for a range. A small one comes with what follows, or stands before it if it is at the end."""
        first, last = start, end
        if end - start < self._least:
            last = min(self.reader.size, start + self._least)
            first = max(0, min(start, last - self._least))
        with _os_errors(self._path):
            data = self.reader.read(first, last - first)
        if (first, last) == (start, end):
            return data
        _lately.keep(self.reader, first, data)
        return data[start - first : end - first]


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
            self._writer.write(data)
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
