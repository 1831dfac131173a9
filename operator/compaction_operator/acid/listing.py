"""What lies in a table or partition directory, as values: the storage layer makes them, the decisions read them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class File:
    """A file by its name, or by its path below the directory that is listed (`sub/000000_0`); size in bytes.

    `content` is what it begins with, of the few files that decide by what they say (`_metadata_acid`).
    """

    name: str
    size: int
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Directory:
    """A direct child directory with all files below it, side files such as `_metadata_acid` included."""

    name: str
    files: tuple[File, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """The direct children of a table's or partition's directory; hidden ones are left out."""

    directories: tuple[Directory, ...]
    files: tuple[File, ...]

    def directory(self, name: str) -> Directory | None:
        """Return the directory of that name, or None."""
        return next((directory for directory in self.directories if directory.name == name), None)
