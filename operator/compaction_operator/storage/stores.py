"""The stores of one warehouse: the storage of each location, and the files there.

The controller has one `Stores` for each warehouse. Any other process serves a single warehouse, whose settings are in
its environment; `open_storage` and the other functions of this module use those.
"""

import io
import os
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from compaction_operator.api.stores import STORES_VARIABLE, StoreSettings
from compaction_operator.permit import Permit, always
from compaction_operator.storage import files
from compaction_operator.storage.base import Storage
from compaction_operator.storage.files import StoredFile
from compaction_operator.storage.local import LocalStorage
from compaction_operator.storage.uri import S3_SCHEME, Location

if TYPE_CHECKING:
    from compaction_operator.storage.hdfs import HdfsStorage
    from compaction_operator.storage.s3 import S3Storage

WRITE_BEHIND = 8 << 20
"""Bytes of a new local file that the disk is to write at a time while more of it is made."""


class LocalFile:
    """A file of a mounted volume. Whether it is there is known when it is opened."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self, *, read_ahead: bool = True) -> BinaryIO:  # noqa: ARG002 - the kernel reads ahead
        """Open it to read at random. Raises OSError."""
        return self._path.open("rb")


class Stores:
    """The stores of one warehouse. Thread-safe; each store is connected once.

    `root` is the folder that stands for `/` in the paths of its volume, below whose `folders` its local files lie.
    `permit` is asked before each change.
    """

    def __init__(
        self, settings: StoreSettings, *, root: str = "", folders: Sequence[str] = ("/",), permit: Permit = always
    ) -> None:
        self._settings = settings
        self._permit = permit
        self._lock = threading.Lock()
        self._local = LocalStorage(root, folders=folders, permit=permit)
        self._remote: dict[tuple[str, str], HdfsStorage | S3Storage] = {}

    def open(self, uri: str) -> Storage:
        """Return the storage for a location. Raises StorageError, naming the scheme, if it is not supported."""
        return self._remote_of(Location.parse(uri)) or self._local

    def look_up(self, path: str) -> StoredFile:
        """Return a file to read as often as needed: a remote one as it is now. Raises OSError."""
        location = Location.parse(path)
        storage = self._remote_of(location)
        return files.RemoteFile(storage, path) if storage else LocalFile(Path(self._local.path(path)))

    def create_file(self, path: str) -> BinaryIO:
        """Create a file that must not exist, to be written from the beginning to the end. Raises OSError."""
        location = Location.parse(path)
        storage = self._remote_of(location)
        return files.created(storage, path) if storage else Path(self._local.path(path)).open("xb")

    def _remote_of(self, location: Location) -> "HdfsStorage | S3Storage | None":
        if location.scheme == "file":
            return None
        key = location.scheme, location.authority
        with self._lock:
            if key not in self._remote:
                self._remote[key] = self._connect(*key)
            return self._remote[key]

    def _connect(self, scheme: str, authority: str) -> "HdfsStorage | S3Storage":
        """Return a new client. NB: its library is imported only here: boto3 alone takes 0.2 s and 20 MB."""
        if scheme == S3_SCHEME:
            from compaction_operator.storage import s3  # noqa: PLC0415 - see above

            return s3.connect(authority, self._settings.s3, permit=self._permit)
        from compaction_operator.storage import hdfs  # noqa: PLC0415 - see above

        return hdfs.connect(scheme, authority, self._settings.hdfs, permit=self._permit)


def open_storage(uri: str) -> Storage:
    """Return the storage for a location. Raises StorageError, naming the scheme, if it is not supported."""
    return _own_stores().open(uri)


def look_up(path: str) -> StoredFile:
    """Return a file to read as often as needed: a remote one as it is now. Raises OSError."""
    return _own_stores().look_up(path)


def create_file(path: str) -> BinaryIO:
    """Create a file that must not exist, to be written from the beginning to the end. Raises OSError."""
    return _own_stores().create_file(path)


def write_behind(file: BinaryIO, *, begun: int) -> int:
    """Let the disk begin to write a new local file, so that `make_durable` waits only for its end.

    `begun` is the offset up to which it has begun. Returns the new one, which is the same until there is enough to
    write. Raises OSError. NB: the advice starts the kernel's write-back, and drops only pages that are on the disk
    already. These are not yet, so they stay in memory for the verification.
    """
    end = file.tell()
    if end - begun < WRITE_BEHIND:
        return begun
    number = _descriptor(file)
    if number is not None:
        file.flush()
        os.posix_fadvise(number, begun, end - begun, os.POSIX_FADV_DONTNEED)
    return end


def make_durable(file: BinaryIO) -> None:
    """Make what was written to a local file survive a power cut. On HDFS a closed file does as the cluster is set."""
    file.flush()
    number = _descriptor(file)
    if number is not None:
        os.fsync(number)


def _descriptor(file: BinaryIO) -> int | None:
    """Return the descriptor of a local file; a file of another store has none."""
    try:
        return file.fileno()
    except io.UnsupportedOperation:
        return None


def discard(file: BinaryIO, path: str) -> None:
    """Close and remove a new file that was not completed; one that is gone is not an error.

    NB: where a file appears only when it is complete, another's may have the path.
    """
    if files.abandon(file):
        return
    try:
        file.close()
    finally:  # NB: on a full disk the close fails too, as it writes what is left
        open_storage(path).delete_tree(path)


@cache
def _own_stores() -> Stores:
    return Stores(StoreSettings.model_validate_json(os.environ.get(STORES_VARIABLE, "{}")))
