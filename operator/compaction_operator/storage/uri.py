"""Locations in Hive's spellings: `file:/a/b`, `file:///a/b` and `/a/b` are the same path, `hdfs://nn:8020/a` another.

`s3a://bucket/a`, `s3://bucket/a` and `s3n://bucket/a` are the same place.

NB: escapes are not decoded. Hive escapes partition values itself: `prt=a%3Ab` is the directory's literal name.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from compaction_operator.api.stores import HDFS_SCHEMES, S3_SCHEMES
from compaction_operator.storage.base import StorageError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")

S3_SCHEME = "s3a"

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed location. `scheme` is `s3a` for each of S3's.

    `authority` is the bucket of S3, or the name service or host of HDFS, empty for its default one and for files.
    """

    scheme: str
    authority: str
    names: tuple[str, ...]

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Parse any spelling; an absolute path is a `file:` location.

        Raises StorageError for another scheme, a host of files, a relative path, a path with `.` or `..`, and for S3
        for a path with an empty name, which is another key there, and for no bucket.
        """
        match = _SCHEME.match(uri)
        scheme = match[1].lower() if match else "file"
        if scheme not in {"file", *HDFS_SCHEMES, *S3_SCHEMES}:
            known = "file:, hdfs:, viewfs:, s3a:, s3: and s3n:"
            raise StorageError(f"{uri}: storage scheme {scheme!r} is not supported; only {known} are")
        path, authority = uri[match.end() :] if match else uri, ""
        if path.startswith("//"):
            authority, _, rest = path[2:].partition("/")
            path = f"/{rest}"
        if scheme in S3_SCHEMES:
            scheme = S3_SCHEME
            _check_bucket(authority, path)
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
    """Return the one spelling of a location: an absolute path for files, `hdfs://authority/path` or `s3a://bucket/path`.

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


def _check_bucket(bucket: str, path: str) -> None:
    """Refuse what is not a bucket, and a key that others could read as another. NB: a wrong URI may hold a secret."""
    if not _BUCKET.fullmatch(bucket):
        raise StorageError("a location on S3 has no bucket, or one whose name is not allowed; it is s3a://bucket/path")
    if "//" in path:
        raise StorageError(f"s3a://{bucket}{path} has an empty name, which is not supported")


def _check_name(name: str, where: str) -> None:
    if name in {"", ".", ".."} or "\0" in name:
        raise StorageError(f"{name!r} in {where!r} is not a plain name")
