"""Locations in Hive's spellings: `file:/a/b`, `file:///a/b` and `/a/b` are the same path.

NB: escapes are not decoded. Hive escapes partition values itself: `prt=a%3Ab` is the directory's literal name.
"""

import re
from pathlib import Path

from compaction_operator.storage.base import StorageError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")


def local_path(uri: str) -> str:
    """Return the absolute path of a `file:` URI or plain path, without a trailing slash.

    Raises StorageError for another scheme, a host, a relative path, or a path with `.` or `..`.
    """
    match = _SCHEME.match(uri)
    if match and (scheme := match[1].lower()) != "file":
        raise StorageError(f"{uri}: storage scheme {scheme!r} is not supported; only file: is supported")
    path = uri[match.end() :] if match else uri
    if path.startswith("//"):
        host, _, rest = path[2:].partition("/")
        if host:
            raise StorageError(f"{uri}: has the host {host!r}; only local files are supported")
        path = f"/{rest}"
    if not path.startswith("/"):
        raise StorageError(f"{uri}: is not an absolute path")
    return "/" + "/".join(components(path))


def components(path: str) -> list[str]:
    """Return the names in an absolute path. Raises StorageError for a name that could lead elsewhere."""
    names = [name for name in path.split("/") if name]
    for name in names:
        _check_name(name, path)
    return names


def is_below(uri: str, folder: str) -> bool:
    """Whether a path is the folder or below it, independent of spelling. Raises StorageError as `local_path` does."""
    above = components(local_path(folder))
    return components(local_path(uri))[: len(above)] == above


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
    if _SCHEME.match(text) or not text:
        return str(Path(local_path(text)).resolve())
    return str(Path(text).resolve())


def _check_name(name: str, where: str) -> None:
    if name in {"", ".", ".."} or "\0" in name:
        raise StorageError(f"{name!r} in {where!r} is not a plain name")


def hdfs_path(uri: str) -> str:
    """Return the absolute path in an `hdfs:` or `viewfs:` URI, without a trailing slash.

    Raises StorageError for another scheme, a relative path, or a path with `.` or `..`.
    """
    match = _SCHEME.match(uri)
    if not match or match[1].lower() not in {"hdfs", "viewfs"}:
        raise StorageError(f"{uri}: is not an hdfs: or viewfs: location")
    path = uri[match.end() :]
    if path.startswith("//"):
        path = "/" + path[2:].partition("/")[2]
    if not path.startswith("/"):
        raise StorageError(f"{uri}: is not an absolute path")
    return "/" + "/".join(components(path))
