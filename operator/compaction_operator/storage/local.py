"""Storage on local disk or a mounted volume. Every directory is opened from the root, without following links.

The controller has the volumes of several warehouses, which may have equal paths: each lies below a folder of its own.
"""

import errno
import os
import stat
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

from compaction_operator.acid.listing import Directory, File, Listing
from compaction_operator.acid.names import METADATA_ACID, is_hidden
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
from compaction_operator.storage.rename import rename_no_replace
from compaction_operator.storage.silence import list_side_by_side
from compaction_operator.storage.uri import components, is_below, local_path

_NO_LINKS = os.O_NOFOLLOW | os.O_CLOEXEC
_PASS_THROUGH = os.O_PATH | os.O_DIRECTORY | _NO_LINKS
_READ_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | _NO_LINKS


class LocalStorage:
    """Storage for `file:` URIs and absolute paths. `root` is the folder that stands for `/`.

    Only what lies below one of `folders` is there. `permit` is asked before each change, in a tree that is deleted
    before each file.
    """

    def __init__(self, root: str = "", *, folders: Sequence[str] = ("/",), permit: Permit = always) -> None:
        self._root = root
        self._folders = folders
        self._permit = permit

    def path(self, location: str) -> str:
        """Return the path at which this process has a location. Raises StorageError unless it is a `file:` location.

        NB: a location below none of the folders is an error, too. It is not missing: it lies on another volume.
        """
        path = local_path(location)
        if not any(is_below(path, folder) for folder in self._folders):
            folders = ", ".join(self._folders) or "none"
            raise StorageError(f"{location}: is on no volume of this warehouse, whose folders are: {folders}")
        return f"{self._root}{path}"

    @property
    def abilities(self) -> Abilities:
        """Directories are renamed at once. What is written is durable after `sync`."""
        return Abilities(atomic_directory_rename=True, durable_on_close=False)

    @property
    def uploads(self) -> None:
        """Not needed."""
        return None

    def list(self, path: str) -> Entries:
        """Return a directory's direct children sorted by name."""
        with _errors_name(path), _directory(self.path(path)) as directory:
            return _scan(directory)

    def list_partition(self, path: str) -> Listing:
        """Return what Hive would examine. Raises StorageError for a symbolic link."""
        with _errors_name(path), _directory(self.path(path)) as directory:
            entries = [entry for entry in _scan(directory) if not is_hidden(entry.name)]
            _refuse_others(entries, path)
            return Listing(
                directories=tuple(
                    Directory(entry.name, tuple(_files_below(directory, entry.name, f"{path}/{entry.name}")))
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
        with _errors_name(path), _parent(self.path(path)) as (parent, name), _open_file(parent, name) as file:
            return file.read()

    def write(self, path: str, data: bytes) -> None:
        """Create a file atomically: write it under a hidden name, then rename it."""
        with _errors_name(path), _parent(self.path(path)) as (parent, name):
            hidden = f".{name}.{uuid.uuid4().hex}"
            self._permit()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS
            try:
                with os.fdopen(os.open(hidden, flags, 0o666, dir_fd=parent), "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                self._permit()
                rename_no_replace(hidden, name, directory=parent)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(hidden, dir_fd=parent)
                raise

    def make_directory(self, path: str) -> None:
        """Create a directory in an existing one."""
        with _errors_name(path), _parent(self.path(path)) as (parent, name):
            self._permit()
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent)
            os.close(_open_inner(parent, name, path))

    def rename(self, source: str, target: str) -> None:
        """Rename to a name that must not exist.

        NB: it uses absolute paths. A rename relative to an open directory would succeed even after a fence renamed that
        directory. The fence must win over a driver that was paused right here.
        """
        with _errors_name(source), _parent(self.path(source)) as (parent, name):
            os.stat(name, dir_fd=parent, follow_symlinks=False)
        with _errors_name(target), _parent(self.path(target)):
            self._permit()
            try:
                rename_no_replace(self.path(source), self.path(target))
            except FileNotFoundError as error:
                raise NotFoundError(f"{source} no longer exists") from error

    def sync(self, path: str) -> None:
        """Make a file or directory tree durable."""
        with _errors_name(path), _parent(self.path(path)) as (parent, name):
            _sync(parent, name)

    def publish(self, source: str, target: str) -> None:
        """Make the data durable, rename it, then make the name durable."""
        self.sync(source)
        self.rename(source, target)
        with _errors_name(target), _directory(self.path(target).rpartition("/")[0] or "/") as directory:
            os.fsync(directory)

    def delete_tree(self, path: str) -> int:
        """Delete leaf by leaf relative to open directories, so that a link swapped in meanwhile is never followed."""
        with _errors_name(path):
            try:
                with _parent(self.path(path)) as (parent, name):
                    if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                        raise StorageError(f"{path} is a symbolic link and is not deleted")
                    return _delete(parent, name, self._permit)
            except FileNotFoundError:
                return 0

    def remove_if_empty(self, path: str) -> None:
        """Remove an empty directory."""
        with _errors_name(path), suppress(FileNotFoundError, NotFoundError), _parent(self.path(path)) as (parent, name):
            self._permit()
            try:
                os.rmdir(name, dir_fd=parent)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise

    def exists(self, path: str) -> bool:
        """Whether the path exists."""
        with _errors_name(path):
            try:
                with _parent(self.path(path)) as (parent, name):
                    os.stat(name, dir_fd=parent, follow_symlinks=False)
            except FileNotFoundError:
                return False
            return True


@contextmanager
def _errors_name(path: str) -> Iterator[None]:
    """Translate OS errors into storage errors, with the path in the message."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"{path} does not exist") from error
    except FileExistsError as error:
        raise AlreadyExistsError(f"{path} exists already") from error
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", denied=isinstance(error, PermissionError)) from error


def _open_each(path: str) -> int:
    """Open a directory component by component. The caller must close it."""
    directory = os.open("/", _PASS_THROUGH)
    reached = ""
    for name in components(path):
        reached = f"{reached}/{name}"
        try:
            inner = _open_inner(directory, name, reached)
        finally:
            os.close(directory)
        directory = inner
    return directory


def _open_inner(directory: int, name: str, path: str) -> int:
    try:
        return os.open(name, _PASS_THROUGH, dir_fd=directory)
    except NotADirectoryError as error:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        what = "is a symbolic link, which is not followed" if stat.S_ISLNK(mode) else "is not a directory"
        raise StorageError(f"{path} {what}") from error


@contextmanager
def _directory(path: str) -> Iterator[int]:
    """Yield a directory's descriptor, open for reading."""
    passing = _open_each(path)
    try:
        directory = os.open(".", _READ_DIRECTORY, dir_fd=passing)
    finally:
        os.close(passing)
    try:
        yield directory
    finally:
        os.close(directory)


@contextmanager
def _parent(path: str) -> Iterator[tuple[int, str]]:
    """Yield the descriptor of a path's parent directory, and the path's last name."""
    above, _, name = path.rpartition("/")
    if not name:
        raise StorageError(f"{path}: this operation is not possible on the root directory")
    directory = _open_each(above or "/")
    try:
        yield directory, name
    finally:
        os.close(directory)


def _open_file(parent: int, name: str) -> BinaryIO:
    return os.fdopen(os.open(name, os.O_RDONLY | _NO_LINKS, dir_fd=parent), "rb")


def _scan(directory: int) -> Entries:
    with os.scandir(directory) as found:
        return sorted(filter(None, map(_entry, found)), key=lambda entry: entry.name)


def _entry(found: os.DirEntry[str]) -> Entry | None:
    """Return the entry, or None if it vanished after it was listed."""
    if found.is_dir(follow_symlinks=False):
        return Entry(found.name, EntryKind.DIRECTORY, 0)
    if not found.is_file(follow_symlinks=False):
        return Entry(found.name, EntryKind.OTHER, 0)
    try:
        return Entry(found.name, EntryKind.FILE, found.stat(follow_symlinks=False).st_size)
    except FileNotFoundError:
        return None


def _refuse_others(entries: Iterable[Entry], path: str) -> None:
    for entry in entries:
        if entry.kind is EntryKind.OTHER:
            raise StorageError(f"{path}/{entry.name} is neither file nor directory (a symbolic link?): not followed")


def _files_below(parent: int, name: str, path: str) -> Iterator[File]:
    """Yield all files below a directory by their relative path, or none if the directory has vanished."""
    try:
        directory = os.open(name, _READ_DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        return
    try:
        entries = _scan(directory)
        _refuse_others(entries, path)
        for entry in entries:
            if entry.kind is EntryKind.FILE:
                if (file := _file(directory, entry, f"{path}/{entry.name}")) is not None:
                    yield file
            else:
                for file in _files_below(directory, entry.name, f"{path}/{entry.name}"):
                    yield File(f"{entry.name}/{file.name}", file.size)
    finally:
        os.close(directory)


def _file(directory: int, entry: Entry, path: str) -> File | None:
    """Return a file, with its beginning if its content matters, or None if it has vanished."""
    if entry.name != METADATA_ACID:
        return File(entry.name, entry.size)
    try:
        with _errors_name(path), _open_file(directory, entry.name) as file:
            return File(entry.name, entry.size, file.read(CONTENT_BYTES))
    except NotFoundError:
        return None


def _sync(parent: int, name: str) -> None:
    """Make a file or tree durable, so that a published name never loses data in a power cut."""
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        return
    opened = os.open(name, os.O_RDONLY | _NO_LINKS, dir_fd=parent)
    try:
        for child in _scan(opened) if stat.S_ISDIR(mode) else ():
            with suppress(FileNotFoundError):
                _sync(opened, child.name)
        os.fsync(opened)
    finally:
        os.close(opened)


def _delete(parent: int, name: str, permit: Permit) -> int:
    """Delete an entry with everything below it and return the bytes freed. Vanished entries count 0."""
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            return _delete_directory(parent, name, permit)
        permit()
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return 0
    return status.st_size


def _delete_directory(parent: int, name: str, permit: Permit) -> int:
    directory = os.open(name, _READ_DIRECTORY, dir_fd=parent)
    try:
        freed = sum(_delete(directory, child.name, permit) for child in _scan(directory))
    finally:
        os.close(directory)
    permit()
    with suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=parent)
    return freed
