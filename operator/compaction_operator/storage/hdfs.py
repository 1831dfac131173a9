"""Storage on HDFS, by hdfs-native: no JVM and no libhdfs.

HDFS renames a whole directory at once to a name that must not exist (`rename2` without OVERWRITE), so a publication is
the same as on a local disk. A file is complete when it is closed. Its blocks are then on all DataNodes of the pipeline,
in memory at least: whether they are on disk is up to the cluster (`dfs.datanode.synconclose`).

A rename keeps owner, group, mode and ACLs. So what is made in a directory gets them at once: HDFS gives the group and
the default ACLs of the directory above, and this module its permission bits and, as far as HDFS lets it, its owner.
"""

import logging
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from hdfs_native import Client, WriteOptions

from compaction_operator.acid.listing import Directory, File, Listing
from compaction_operator.acid.names import METADATA_ACID, is_hidden
from compaction_operator.api.stores import Hdfs
from compaction_operator.permit import Permit, always
from compaction_operator.storage.base import (
    CONTENT_BYTES,
    Abilities,
    AlreadyExistsError,
    Entries,
    Entry,
    EntryKind,
    Listed,
    NotFoundError,
    StorageError,
)
from compaction_operator.storage.hdfs_client import HdfsClient
from compaction_operator.storage.silence import list_side_by_side
from compaction_operator.storage.uri import Location

TIMEOUT_SECONDS = 60.0
READ_PIECE = 8 << 20
WRITE_PIECE = 1 << 20
"""Maximum bytes of one read or write, since its time-out does not depend on its size. What is written is copied twice:
more does not fit into a processor's cache."""

_log = logging.getLogger(__name__)


class Status(Protocol):
    """What HDFS says of a file or directory."""

    path: str
    length: int
    isdir: bool
    permission: int
    owner: str


def connect(
    scheme: str, authority: str, settings: Hdfs | None, *, timeout: float = TIMEOUT_SECONDS, permit: Permit = always
) -> "HdfsStorage":
    """Return the storage of a name service or host; an empty one is `fs.defaultFS` of core-site.xml.

    Without settings, Hadoop's configuration is that of HADOOP_CONF_DIR. `timeout` is that of each call, in seconds,
    with its repetitions. The first call connects. `permit` is asked before each call.
    """
    return HdfsStorage(HdfsClient(f"{scheme}://{authority}", settings, timeout=timeout, permit=permit))


class HdfsReader:
    """An open file: its size in bytes, and its ranges. It is opened again after an error."""

    def __init__(self, client: HdfsClient, path: str) -> None:
        self._client = client
        self._path = path
        self._name = Location.parse(path).path
        self._reader: Any = client.ask(path, "open", lambda hdfs: hdfs.read(self._name))
        self.size: int = len(self._reader)

    def read(self, offset: int, length: int) -> bytes:
        """Return a range that lies within the file."""
        pieces = [
            self._client.ask(self._path, "read", partial(self._range, start=start, end=end))
            for start, end in _pieces(offset, offset + length, READ_PIECE)
        ]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def take_end(self) -> bytes:
        """Return nothing: HDFS opens a file without reading it."""
        return b""

    def _range(self, hdfs: Client, *, start: int, end: int) -> bytes:
        reader, self._reader = self._reader or hdfs.read(self._name), None
        if len(reader) != self.size:
            raise StorageError(f"{self._path} was replaced while it was read")
        # NB: `read_range` puts the packets together in memory that is new each time, which takes most of its time.
        data = b"".join(reader.read_range_stream(start, end - start))
        if len(data) != end - start:
            raise StorageError(f"{len(data)} bytes of {self._path} came instead of {end - start}", passing=True)
        self._reader = reader
        return data


class HdfsWriter:
    """A new file. HDFS shows it from the beginning; it is whole once it is closed."""

    def __init__(self, client: HdfsClient, path: str, writer: Any) -> None:
        self._client = client
        self._path = path
        self._writer = writer

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes. After an error the file cannot be completed.

        NB: of a memoryview hdfs-native copies one byte after the other.
        """
        for start, end in _pieces(0, len(data), WRITE_PIECE):
            self._change("write", lambda writer, piece=bytes(data[start:end]): writer.write(piece))

    def close(self) -> None:
        """Complete the file."""
        self._change("close", lambda writer: writer.close())

    def _change(self, operation: str, call: Any) -> None:
        """NB: a call that failed may have written a part; another after it would leave a gap or repeat bytes."""
        if self._writer is None:
            raise StorageError(f"cannot {operation} {self._path}: an earlier write failed")
        writer, self._writer = self._writer, None
        self._client.once(self._path, operation, lambda _: call(writer))
        self._writer = writer


class HdfsStorage:
    """Storage for `hdfs:` and `viewfs:` URIs. Thread-safe.

    After an error other than NotFoundError and AlreadyExistsError, whether a change was carried out is not known.
    """

    def __init__(self, client: HdfsClient) -> None:
        self._client = client
        self._may_give_away = True

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

    def list_partitions(self, paths: Collection[str]) -> dict[str, Listed]:
        """List many directories side by side."""
        return list_side_by_side(self.list_partition, paths)

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        name = _below_root(path)
        return self._client.ask(path, "read", lambda hdfs: bytes(hdfs.read(name).read()))

    def write(self, path: str, data: bytes) -> None:
        """Create a file atomically: write it under a hidden name, then rename it."""
        above, _, last = path.rstrip("/").rpartition("/")
        hidden = f"{above}/.{last}.{uuid.uuid4().hex}"
        try:
            writer = self.writer(hidden)
            writer.write(data)
            writer.close()
            self._move(hidden, path)
        except BaseException:
            with suppress(StorageError):
                self._delete(hidden, recursive=False)
            raise

    def make_directory(self, path: str) -> None:
        """Create a directory in an existing one."""
        name, above = _below_root(path), self._directory_above(path)
        permission = above.permission & 0o777
        try:
            self._client.change(path, "create", lambda hdfs: hdfs.mkdirs(name, permission, create_parent=False))
        except AlreadyExistsError:
            if not self._status(path).isdir:
                raise StorageError(f"{path} is not a directory") from None
        self._give_to(above.owner, path)

    def rename(self, source: str, target: str) -> None:
        """Rename to a name that must not exist."""
        self._status(source)
        try:
            self._move(source, target)
        except NotFoundError as error:
            raise NotFoundError(f"{source} no longer exists, or the directory of {target} does not exist") from error

    def sync(self, path: str) -> None:
        """Do nothing but see that the path exists: its files are closed."""
        self._status(path)

    def publish(self, source: str, target: str) -> None:
        """Rename; closed files need nothing else."""
        self.rename(source, target)

    def delete_tree(self, path: str) -> int:
        """Delete at once and return the bytes that were there. It goes to no trash; snapshots of HDFS keep it."""
        name = _below_root(path)
        try:
            size: int = self._client.ask(path, "size", lambda hdfs: hdfs.get_content_summary(name).length)
        except NotFoundError:
            return 0
        self._delete(path, recursive=True)
        return size

    def remove_if_empty(self, path: str) -> None:
        """Remove an empty directory."""
        with suppress(NotFoundError):
            if not self._status(path).isdir:
                raise StorageError(f"{path} is not a directory")
            self._delete_unless_full(path)

    def exists(self, path: str) -> bool:
        """Whether the path exists."""
        try:
            self._status(path)
        except NotFoundError:
            return False
        return True

    def reader(self, path: str) -> HdfsReader:
        """Open a file to read its ranges."""
        return HdfsReader(self._client, path)

    def writer(self, path: str) -> HdfsWriter:
        """Create a file in an existing directory. Raises AlreadyExistsError.

        NB: `inner`, because hdfs-native's own wrapper completes a file when it is garbage, also after a failed write,
        and waits for the NameNode then, without a time-out and in any thread.
        """
        name, above = _below_root(path), self._directory_above(path)
        options = WriteOptions(permission=above.permission & 0o666, overwrite=False, create_parent=False)
        writer = self._client.change(path, "create", lambda hdfs: hdfs.inner.create(name, options))
        self._give_to(above.owner, path)
        return HdfsWriter(self._client, path, writer)

    def _move(self, source: str, target: str) -> None:
        """Rename at once. NB: of a file and a directory HDFS says only that they differ."""
        old, new = _below_root(source), _below_root(target)
        try:
            self._client.change(target, "rename to", lambda hdfs: hdfs.rename(old, new, False))
        except (AlreadyExistsError, NotFoundError):
            raise
        except StorageError as error:
            if "must both be directories" in str(error) and self.exists(target):
                raise AlreadyExistsError(f"{target} exists already") from error
            raise

    def _delete(self, path: str, *, recursive: bool) -> None:
        name = _below_root(path)
        self._client.change(path, "delete", lambda hdfs: hdfs.delete(name, recursive))

    def _delete_unless_full(self, path: str) -> None:
        try:
            self._delete(path, recursive=False)
        except StorageError as error:
            if "PathIsNotEmptyDirectoryException" not in str(error):
                raise

    def _give_to(self, owner: str, path: str) -> None:
        """Let a new file or directory belong to the owner of the directory above: only a superuser of HDFS can."""
        if not self._may_give_away or self._status(path).owner == owner:
            return
        name = _below_root(path)
        try:
            self._client.change(path, "set the owner of", lambda hdfs: hdfs.set_owner(name, owner))
        except StorageError as error:
            if "AccessControlException" not in str(error):
                raise
            self._may_give_away = False
            _log.debug("what this user creates stays its own: %s", error)

    def _directory_above(self, path: str) -> Status:
        place = Location.parse(path)
        above = self._status(str(replace(place, names=place.names[:-1])))
        if not above.isdir:
            raise StorageError(f"cannot create {path}: {above.path} is not a directory")
        return above

    def _status(self, path: str) -> Status:
        name = Location.parse(path).path
        status: Status = self._client.ask(path, "look at", lambda hdfs: hdfs.get_file_info(name))
        return status

    def _children(self, path: str) -> Sequence[Status]:
        """Return a directory's children. NB: of a file HDFS lists the file itself."""
        name = Location.parse(path).path
        found: Sequence[Status] = self._client.ask(path, "list", lambda hdfs: [*hdfs.list_status(name, False)])
        if [status.path for status in found] == [name] and not found[0].isdir:
            raise StorageError(f"{path} is not a directory")
        return found

    def _files_below(self, path: str) -> Iterator[File]:
        """Yield all files below a directory by their relative path, or none if the directory has vanished."""
        try:
            children = self._children(path)
        except NotFoundError:
            return
        for status in sorted(children, key=lambda status: status.path):
            name = status.path.rpartition("/")[2]
            if status.isdir:
                for file in self._files_below(f"{path}/{name}"):
                    yield File(f"{name}/{file.name}", file.size)
            elif name != METADATA_ACID:
                yield File(name, status.length)
            else:
                with suppress(NotFoundError):
                    yield File(name, status.length, self._beginning(f"{path}/{name}"))

    def _beginning(self, path: str) -> bytes:
        """Return the first bytes of a file."""
        reader = self.reader(path)
        return reader.read(0, min(reader.size, CONTENT_BYTES))


def _pieces(start: int, end: int, size: int) -> list[tuple[int, int]]:
    """Cut a range into pieces; an empty one is one piece. NB: reading past the end is a panic in hdfs-native."""
    return [(begin, min(begin + size, end)) for begin in range(start, max(end, start + 1), size)]


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
