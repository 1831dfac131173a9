"""Listing of a table or partition directory, as values. The storage layer creates them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class File:
    """A file: its name, or its path below the listed directory (`sub/000000_0`), and its size in bytes.

    `content` is the beginning of a file whose content matters (`_metadata_acid`), and None for all others.
    """

    name: str
    size: int
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Directory:
    """A direct child directory with all files below it, including side files such as `_metadata_acid`."""

    name: str
    files: tuple[File, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """The direct children of a table's or partition's directory, without hidden ones."""

    directories: tuple[Directory, ...]
    files: tuple[File, ...]

    @property
    def names(self) -> set[str]:
        """The names of all children."""
        return {directory.name for directory in self.directories} | {file.name for file in self.files}

    def directory(self, name: str) -> Directory | None:
        """Return the directory of that name, or None."""
        return next((directory for directory in self.directories if directory.name == name), None)
