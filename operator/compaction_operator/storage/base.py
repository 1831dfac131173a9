"""Storage protocol, and its errors."""

import errno
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from compaction_operator.acid.listing import Listing
from compaction_operator.api.cleanup import Upload
from compaction_operator.errors import OperatorError

CONTENT_BYTES = 4096
"""Maximum bytes read from a file whose content matters. Hive writes about 50 bytes."""


class StorageError(OperatorError):
    """A path cannot be read or changed. The message names the path and the reason.

    `passing` means that a later call may succeed: the store did not answer, or answered that it cannot now, such as
    without space. Whether the call was carried out is not known then. `denied` means that a file system does not let
    this account do so there.
    """

    def __init__(self, message: str, *, passing: bool = False, denied: bool = False) -> None:
        super().__init__(message)
        self.passing = passing
        self.denied = denied


def is_passing(error: BaseException | None) -> bool:
    """Whether an error, or one of those that caused it, is a passing StorageError, or says that a disk is full."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return True
    return error is not None and (getattr(error, "passing", False) is True or is_passing(error.__cause__))


class NotFoundError(StorageError):
    """The path does not exist."""


class AlreadyExistsError(StorageError):
    """The name to create exists already."""


class EntryKind(StrEnum):
    """Kind of a directory entry. Symbolic links and devices are OTHER."""

    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Entry:
    """A direct child of a directory. The size is in bytes, and 0 unless it is a file."""

    name: str
    kind: EntryKind
    size: int


Entries = list[Entry]


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a store can do. The flow asks for these, never for a scheme.

    - `atomic_directory_rename`: a directory appears under its name at once and at most once. Without it, outputs are
      published by `Uploads`, readers must ignore them until the metastore's commit (Hive 4), and nothing can be hidden
      or quarantined.
    - `durable_on_close`: a closed file survives a power cut without `sync`.
    """

    atomic_directory_rename: bool
    durable_on_close: bool


class Storage(Protocol):
    """Protocol to list, read, publish and delete. Paths are URIs as in the metastore, without symbolic links.

    Every method raises StorageError, naming the path, if it fails for any reason.
    """

    @property
    def abilities(self) -> Abilities:
        """What this store can do."""
        ...

    @property
    def uploads(self) -> "Uploads | None":
        """The uploads by which outputs are published where directories cannot be renamed; None where they can."""
        ...

    def list(self, path: str) -> Entries:
        """Return a directory's direct children sorted by name, including hidden ones. Raises NotFoundError."""
        ...

    def list_partition(self, path: str) -> Listing:
        """Return the directories (with all files below) and files that Hive would examine.

        It includes the first CONTENT_BYTES of each `_metadata_acid`. A larger one was not written by Hive.
        Raises StorageError for a symbolic link or device, because its content is unknown.
        """
        ...

    def list_partitions(self, paths: Collection[str]) -> "dict[str, Listed]":
        """Do what `list_partition` does for many directories, side by side; an error is that of its directory alone.

        If the store does not answer, the rest is not asked for (`Silence`).
        """
        ...

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Create a file atomically. Raises AlreadyExistsError if the name exists."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory unless it exists. Raises NotFoundError if its parent does not exist.

        NB: parents are never created. If a fence removed one, a driver that continues to write must not restore it.
        """
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory atomically to a name that must not exist.

        Raises AlreadyExistsError if the target exists (both stay unchanged), and NotFoundError if the source is gone.
        """
        ...

    def sync(self, path: str) -> None:
        """Make a file or directory tree durable, so that it survives a power cut. Raises NotFoundError."""
        ...

    def publish(self, source: str, target: str) -> None:
        """Rename data that readers will depend on: make the data durable first, then rename, then sync the name."""
        ...

    def delete_tree(self, path: str) -> int:
        """Delete a file or directory tree and return the bytes freed. A path that is gone is not an error.

        Symbolic links below are removed, never followed. Raises StorageError if `path` itself is one.
        """
        ...

    def remove_if_empty(self, path: str) -> None:
        """Remove a directory if it is empty. A directory that is not empty, or is gone, is not an error."""
        ...

    def exists(self, path: str) -> bool:
        """Whether the path exists, as an entry of any kind."""
        ...


Listed = Listing | StorageError
"""The listing of a directory, or why there is none."""


class Uploads(Protocol):
    """Protocol of a store that publishes object by object. An upload's id is a token that can be revoked."""

    def begin(self, location: str, sources: Mapping[str, str]) -> tuple[Upload, ...]:
        """Begin an upload for each name below `location`, and have the store copy the file at its source URI into it.

        Nothing is visible before `complete`. If it fails, it aborts what it has begun.
        """
        ...

    def complete(self, location: str, uploads: Iterable[Upload]) -> None:
        """Complete each upload, then check that each object is there with the size that was uploaded.

        Raises AlreadyExistsError if an object of that name exists, NotFoundError if the upload was aborted.
        """
        ...

    def abort(self, location: str, uploads: Iterable[Upload]) -> None:
        """Abort each upload. After it returns, none of them can be completed any more; completed objects stay."""
        ...

    def abort_below(self, location: str, chosen: Callable[[str], bool]) -> int:
        """Abort the uploads below a location whose object's name, relative to it, is chosen; return how many.

        NB: some stores (MinIO) list the uploads of one object only, and none below a prefix.
        """
        ...

    def probe(self, location: str) -> str | None:
        """Return why this store can never publish safely below a location, or None. It tries on hidden files there.

        For example, a store may ignore that a name must not exist, or complete an upload that was aborted.
        """
        ...
