"""Storage on HDFS, by hdfs-native: no JVM and no libhdfs.

HDFS renames a whole directory at once to a name that must not exist (`rename2` without OVERWRITE), so a publication is
the same as on a local disk. A file is complete when it is closed. Its blocks are then on all DataNodes of the pipeline,
in memory at least: whether they are on disk is up to the cluster (`dfs.datanode.synconclose`).
"""

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Generic, Protocol, TypeVar

from hdfs_native import Client, WriteOptions

from compaction_operator.acid.listing import Directory, File, Listing
from compaction_operator.acid.names import METADATA_ACID, is_hidden
from compaction_operator.api.stores import Hdfs
from compaction_operator.storage.base import (
    CONTENT_BYTES,
    Abilities,
    AlreadyExistsError,
    Entries,
    Entry,
    EntryKind,
    NotFoundError,
    StorageError,
)
from compaction_operator.storage.uri import Location

T = TypeVar("T")
NOT_EMPTY = "PathIsNotEmptyDirectoryException"


class Status(Protocol):
    """What HDFS says of a file or directory."""

    path: str
    length: int
    isdir: bool


OPTIONS = {"dfs.client.failover.max.attempts": "4"}
"""NB: hdfs-native's default of 15 keeps on for three minutes when a NameNode is dead."""


def connect(scheme: str, authority: str, settings: Hdfs | None) -> "HdfsStorage":
    """Return the storage of a name service or host; an empty one is `fs.defaultFS` of core-site.xml.

    Without settings, Hadoop's configuration is that of HADOOP_CONF_DIR.
    """
    login = settings.kerberos if settings else None
    client = Client(
        f"{scheme}://{authority}",
        OPTIONS,
        settings.mount_path if settings else None,
        kerberos_principal=login.client_principal if login else None,
        kerberos_keytab=login.keytab if login else None,
        kerberos_cache=f"MEMORY:{login.client_principal}:{login.keytab}" if login else None,
    )
    return HdfsStorage(client)


class HdfsReader:
    """An open file: its size in bytes, and its ranges."""

    def __init__(self, storage: "HdfsStorage", path: str, reader: Any) -> None:
        self._storage = storage
        self._path = path
        self._reader = reader
        self.size: int = len(reader)

    def read(self, offset: int, length: int) -> bytes:
        """Return a range that lies within the file."""
        return self._storage.call(self._path, lambda: bytes(self._reader.read_range(offset, length)))


class HdfsWriter:
    """A new file, which exists whole once it is closed."""

    def __init__(self, storage: "HdfsStorage", path: str, writer: Any) -> None:
        self._storage = storage
        self._path = path
        self._writer = writer

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._storage.call(self._path, lambda: self._writer.write(data))

    def close(self) -> None:
        """Complete the file."""
        self._storage.call(self._path, self._writer.close)


class HdfsStorage:
    """Storage for `hdfs:` and `viewfs:` URIs.

    NB: hdfs-native has no time-out for an answer, so each call runs in a thread of its own that is given up when it
    takes too long. Such a call may still be carried out later: it is an error whose outcome is not known.
    """

    def __init__(self, client: Client, *, timeout: float = 60.0) -> None:
        self._client = client
        self._timeout = timeout

    @property
    def abilities(self) -> Abilities:
        """Directories are renamed at once. Closed files are on several machines."""
        return Abilities(atomic_directory_rename=True, durable_on_close=True)

    @property
    def uploads(self) -> None:
        """Not needed."""
        return None

    def list(self, path: str) -> Entries:
        """Return a directory's direct children sorted by name."""
        return sorted((_entry(status) for status in self._children(path)), key=lambda entry: entry.name)

    def list_partition(self, path: str) -> Listing:
        """Return what Hive would examine."""
        entries = [entry for entry in self.list(path) if not is_hidden(entry.name)]
        return Listing(
            directories=tuple(
                Directory(entry.name, tuple(self._files_below(f"{path.rstrip('/')}/{entry.name}")))
                for entry in entries
                if entry.kind is EntryKind.DIRECTORY
            ),
            files=tuple(File(entry.name, entry.size) for entry in entries if entry.kind is EntryKind.FILE),
        )

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        name = _below_root(path)
        return self.call(path, lambda: bytes(self._client.read(name).read()))

    def write(self, path: str, data: bytes) -> None:
        """Create a file atomically: write it under a hidden name, then rename it."""
        above, _, last = _below_root(path).rpartition("/")
        hidden = f"{above}/.{last}.{uuid.uuid4().hex}"
        try:
            self.call(path, lambda: self._create(hidden, data))
            self.call(path, lambda: self._client.rename(hidden, f"{above}/{last}", False))
        except BaseException:
            with suppress(StorageError):
                self.call(path, lambda: self._client.delete(hidden, False))
            raise

    def make_directory(self, path: str) -> None:
        """Create a directory in an existing one."""
        name = _below_root(path)
        with suppress(AlreadyExistsError):
            self.call(path, lambda: self._client.mkdirs(name, create_parent=False))
        if not self._status(path).isdir:
            raise StorageError(f"{path} is not a directory")

    def rename(self, source: str, target: str) -> None:
        """Rename to a name that must not exist."""
        old, new = _below_root(source), _below_root(target)
        self._status(source)
        try:
            self.call(target, lambda: self._client.rename(old, new, False))
        except NotFoundError as error:
            raise NotFoundError(f"{source} no longer exists, or the directory of {target} does not exist") from error

    def sync(self, path: str) -> None:
        """Do nothing but see that the path exists: its files are closed."""
        self._status(path)

    def publish(self, source: str, target: str) -> None:
        """Rename; closed files need nothing else."""
        self.rename(source, target)

    def delete_tree(self, path: str) -> int:
        """Delete at once and return the bytes that were there."""
        name = _below_root(path)
        try:
            size: int = self.call(path, lambda: self._client.get_content_summary(name).length)
        except NotFoundError:
            return 0
        self.call(path, lambda: self._client.delete(name, True))
        return size

    def remove_if_empty(self, path: str) -> None:
        """Remove an empty directory."""
        name = _below_root(path)
        with suppress(NotFoundError, _NotEmptyError):
            if not self._status(path).isdir:
                raise StorageError(f"{path} is not a directory")
            self.call(path, lambda: self._client.delete(name, False))

    def exists(self, path: str) -> bool:
        """Whether the path exists."""
        try:
            self._status(path)
        except NotFoundError:
            return False
        return True

    def reader(self, path: str) -> HdfsReader:
        """Open a file to read its ranges."""
        name = Location.parse(path).path
        return HdfsReader(self, path, self.call(path, lambda: self._client.read(name)))

    def writer(self, path: str) -> HdfsWriter:
        """Create a file in an existing directory. Raises AlreadyExistsError."""
        name = _below_root(path)
        options = WriteOptions(overwrite=False, create_parent=False)
        return HdfsWriter(self, path, self.call(path, lambda: self._client.create(name, options)))

    def _status(self, path: str) -> Status:
        name = Location.parse(path).path
        status: Status = self.call(path, lambda: self._client.get_file_info(name))
        return status

    def _children(self, path: str) -> "Sequence[Status]":
        """Return a directory's children. NB: of a file HDFS lists the file itself."""
        name = Location.parse(path).path
        found: Sequence[Status] = self.call(path, lambda: list(self._client.list_status(name, False)))
        if [status.path for status in found] == [name] and not found[0].isdir:
            raise StorageError(f"{path} is not a directory")
        return found

    def _files_below(self, path: str) -> Iterator[File]:
        """Yield all files below a directory by their relative path, or none if the directory has vanished."""
        name = Location.parse(path).path
        try:
            found: Sequence[Status] = self.call(path, lambda: list(self._client.list_status(name, True)))
        except NotFoundError:
            return
        for status in sorted(found, key=lambda status: status.path):
            if status.isdir:
                continue
            below = status.path.removeprefix(f"{name}/")
            if below.rpartition("/")[2] != METADATA_ACID:
                yield File(below, status.length)
                continue
            with suppress(NotFoundError):
                yield File(below, status.length, self._beginning(f"{path}/{below}", status))

    def _beginning(self, path: str, status: Status) -> bytes:
        """Return the first bytes of a file. NB: reading past the end is a panic in hdfs-native."""
        return self.call(
            path, lambda: bytes(self._client.read(status.path).read_range(0, min(status.length, CONTENT_BYTES)))
        )

    def _create(self, name: str, data: bytes) -> None:
        with self._client.create(name, WriteOptions(create_parent=False)) as file:
            file.write(data)

    def call(self, path: str, call: Callable[[], T]) -> T:
        """Make a call in a thread and return its answer; raises StorageError when there is none in time."""
        answer = _Answer(call)
        thread = threading.Thread(target=answer.fetch, name=f"hdfs {path}", daemon=True)
        thread.start()
        thread.join(self._timeout)
        if thread.is_alive():
            raise StorageError(f"{path}: HDFS has not answered for {self._timeout:g} s")
        with _errors_name(path):
            return answer.value()


class _NotEmptyError(StorageError):
    """The directory is not empty."""


class _Answer(Generic[T]):
    """The outcome of a call that another thread makes."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._outcome: tuple[T] | BaseException

    def fetch(self) -> None:
        """Make the call. NB: a panic of hdfs-native is a BaseException."""
        try:
            self._outcome = (self._call(),)
        except BaseException as error:
            self._outcome = error

    def value(self) -> T:
        """Return what the call returned, or raise what it raised."""
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome[0]


@contextmanager
def _errors_name(path: str) -> Iterator[None]:
    """Translate hdfs-native's errors into storage errors: one line that names the path, without Java's stack."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"{path} does not exist") from error
    except FileExistsError as error:
        raise AlreadyExistsError(f"{path} exists already") from error
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        kind = _NotEmptyError if NOT_EMPTY in str(error) else StorageError
        raise kind(f"{path}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    """Return the message without the stack of the NameNode that follows it."""
    return str(error).replace("\\n", "\n").partition("\n")[0] or type(error).__name__


def _entry(status: Status) -> Entry:
    name = status.path.rpartition("/")[2]
    if status.isdir:
        return Entry(name, EntryKind.DIRECTORY, 0)
    return Entry(name, EntryKind.FILE, status.length)


def _below_root(path: str) -> str:
    name = Location.parse(path).path
    if name == "/":
        raise StorageError(f"{path}: this operation is not possible on the root directory")
    return name
