"""What every storage can do, as one small protocol, and how it fails."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from compaction_operator.acid.listing import Listing

CONTENT_BYTES = 4096
"""How much is read of a file whose content decides; Hive writes about 50 bytes."""


class StorageError(Exception):
    """A place cannot be read or changed; the message names it and says why."""


class NotFoundError(StorageError):
    """The named place does not exist."""


class AlreadyExistsError(StorageError):
    """The name that was to be created is taken."""


class EntryKind(StrEnum):
    """What a name stands for; symbolic links and devices are OTHER."""

    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Entry:
    """A direct child of a directory; the size is in bytes and 0 for anything but a file."""

    name: str
    kind: EntryKind
    size: int


Entries = list[Entry]


class Storage(Protocol):
    """List, read, publish and delete. Paths are URIs as the metastore has them; none may lead through a symlink.

    Every method raises StorageError, naming the place, for whatever keeps it from being done.
    """

    def list(self, path: str) -> Entries:
        """Return a directory's direct children by name, hidden ones too; NotFoundError when it is not there."""
        ...

    def list_partition(self, path: str) -> Listing:
        """Return the directories (with all files below) and files that Hive would look at.

        Of each `_metadata_acid` it has the first CONTENT_BYTES: one that holds more is no file of Hive's.
        Raises StorageError where a symbolic link or device lies among them: what it holds is not known.
        """
        ...

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Create a file whole or not at all; AlreadyExistsError when the name is taken."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory in one that exists (else NotFoundError); if it exists itself, that is fine.

        NB: those above are never made: what a fence took away must not come back by a driver that goes on writing.
        """
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory at once into a name that must not exist.

        Raises AlreadyExistsError when the target exists (both stay as they are), NotFoundError when the source is gone.
        """
        ...

    def sync(self, path: str) -> None:
        """Make a file, or a directory with all below it, survive a power cut; NotFoundError when it is not there."""
        ...

    def publish(self, source: str, target: str) -> None:
        """Do what `rename` does for data that readers will rely on: all of it is durable first, the name at the end."""
        ...

    def delete_tree(self, path: str) -> int:
        """Delete a file or a directory with all below it and return the bytes freed; what is gone already is fine.

        Symbolic links below are removed, never followed; StorageError when `path` itself is one.
        """
        ...

    def remove_if_empty(self, path: str) -> None:
        """Remove a directory that holds nothing; one that holds something, or is gone already, is left as it is."""
        ...

    def exists(self, path: str) -> bool:
        """Whether the name is taken, by anything."""
        ...
