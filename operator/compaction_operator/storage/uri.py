"""Locations in Hive's spellings: `file:/a/b`, `file:///a/b` and `/a/b` are the same path, `hdfs://nn:8020/a` another.

NB: escapes are not decoded. Hive escapes partition values itself: `prt=a%3Ab` is the directory's literal name.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from compaction_operator.storage.base import StorageError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")

HDFS_SCHEMES = frozenset({"hdfs", "viewfs"})


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed location. `authority` is the name service or host of HDFS, empty for its default one and for files."""

    scheme: str
    authority: str
    names: tuple[str, ...]

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Parse any spelling; an absolute path is a `file:` location.

        Raises StorageError for another scheme, a host of files, a relative path, or a path with `.` or `..`.
        """
        match = _SCHEME.match(uri)
        scheme = match[1].lower() if match else "file"
        if scheme not in {"file", *HDFS_SCHEMES}:
            raise StorageError(f"{uri}: storage scheme {scheme!r} is not supported; only file:, hdfs: and viewfs: are")
        path, authority = uri[match.end() :] if match else uri, ""
        if path.startswith("//"):
            authority, _, rest = path[2:].partition("/")
            path = f"/{rest}"
        if scheme == "file" and authority:
            raise StorageError(f"{uri}: has the host {authority!r}; only local files are supported")
        if not path.startswith("/"):
            raise StorageError(f"{uri}: is not an absolute path")
        return cls(scheme, authority, tuple(components(path)))

    @property
    def path(self) -> str:
        """The absolute path without scheme and authority."""
        return "/" + "/".join(self.names)

    @property
    def place(self) -> str:
        """A key that all locations of one place share. On HDFS other places may share it, too.

        NB: an HDFS has many names (its name service, each NameNode with or without a port, those of viewfs), and only a
        cluster's configuration says which are the same.
        """
        return f"hdfs:{self.path}" if self.scheme in HDFS_SCHEMES else str(self)

    def __str__(self) -> str:
        """The one spelling of this place: a plain path for files."""
        return self.path if self.scheme == "file" else f"{self.scheme}://{self.authority}{self.path}"


def normal(uri: str) -> str:
    """Return the one spelling of a location: an absolute path for files, `hdfs://authority/path` for HDFS.

    Raises StorageError as `Location.parse` does.
    """
    return str(Location.parse(uri))


def place_of(uri: str) -> str:
    """Return a key that all spellings and names of one place share. Raises StorageError as `Location.parse` does."""
    return Location.parse(uri).place


def local_path(uri: str) -> str:
    """Return the absolute path of a `file:` URI or plain path. Raises StorageError for any other location."""
    location = Location.parse(uri)
    if location.scheme != "file":
        raise StorageError(f"{uri}: is not a local file")
    return location.path


def components(path: str) -> list[str]:
    """Return the names in an absolute path. Raises StorageError for a name that could lead elsewhere."""
    names = [name for name in path.split("/") if name]
    for name in names:
        _check_name(name, path)
    return names


def is_below(uri: str, folder: str) -> bool:
    """Whether a path is the folder or below it, independent of spelling. Raises StorageError as `normal` does."""
    place, above = Location.parse(uri), Location.parse(folder)
    same = (place.scheme, place.authority) == (above.scheme, above.authority)
    return same and place.names[: len(above.names)] == above.names


def join(uri: str, *names: str) -> str:
    """Return the URI of the joined names below `uri`, in the spelling of `uri`.

    Raises StorageError unless each name is one plain component, so the result is always below `uri`.
    """
    for name in names:
        _check_name(name, uri)
        if "/" in name:
            raise StorageError(f"{name!r} below {uri} is not a plain name")
    return "/".join([uri.rstrip("/"), *names])


def resolve_location(text: str) -> str:
    """Return the absolute path of a location that a user typed. It may be relative or contain symbolic links.

    Do not use it for a location from the metastore, where symbolic links are refused.
    """
    if not _SCHEME.match(text) and text:
        return str(Path(text).resolve())
    location = Location.parse(text)
    return str(Path(location.path).resolve()) if location.scheme == "file" else str(location)


def _check_name(name: str, where: str) -> None:
    if name in {"", ".", ".."} or "\0" in name:
        raise StorageError(f"{name!r} in {where!r} is not a plain name")
