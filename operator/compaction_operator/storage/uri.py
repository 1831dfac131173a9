"""Locations as Hive writes them: `file:/a/b`, `file:///a/b` and `/a/b` are the same place.

NB: nothing is decoded. Hive escapes partition values itself, so `prt=a%3Ab` is the directory's literal name.
"""

import re
from pathlib import Path

from compaction_operator.storage.base import StorageError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")


def scheme(uri: str) -> str:
    """Return the URI's scheme in lower case; a plain path is of `file`."""
    match = _SCHEME.match(uri)
    return match[1].lower() if match else "file"


def local_path(uri: str) -> str:
    """Return the absolute path of a `file:` URI or plain path, without a slash at its end.

    Raises StorageError for another scheme, another host, a relative path or one with `.` or `..` in it.
    """
    if scheme(uri) != "file":
        raise StorageError(f"{uri}: storage scheme {scheme(uri)!r} is not supported, only file: is")
    path = uri[len("file:") :] if _SCHEME.match(uri) else uri
    if path.startswith("//"):
        host, _, rest = path[2:].partition("/")
        if host:
            raise StorageError(f"{uri}: names the host {host!r}: only local files are supported")
        path = f"/{rest}"
    if not path.startswith("/"):
        raise StorageError(f"{uri}: is not an absolute path")
    return "/" + "/".join(components(path))


def components(path: str) -> list[str]:
    """Return the names an absolute path is made of; raises StorageError where one could lead elsewhere."""
    names = [name for name in path.split("/") if name]
    for name in names:
        _check_name(name, path)
    return names


def is_below(uri: str, folder: str) -> bool:
    """Whether a place is a folder or somewhere below it, however both are spelled; raises StorageError as above."""
    above = components(local_path(folder))
    return components(local_path(uri))[: len(above)] == above


def join(uri: str, *names: str) -> str:
    """Return the URI of a name below `uri`, in the spelling of `uri`.

    Raises StorageError unless each name is one plain component: nothing can be joined that leads out again.
    """
    for name in names:
        _check_name(name, uri)
        if "/" in name:
            raise StorageError(f"{name!r} below {uri} is not a plain name")
    return "/".join([uri.rstrip("/"), *names])


def resolve_location(text: str) -> str:
    """Return the absolute path of a place that a person typed: relative or through symbolic links of their own.

    For a location that the metastore names this is not meant: there a symbolic link is refused.
    """
    if _SCHEME.match(text) or not text:
        return str(Path(local_path(text)).resolve())
    return str(Path(text).resolve())


def _check_name(name: str, where: str) -> None:
    if name in {"", ".", ".."} or "\0" in name:
        raise StorageError(f"{name!r} in {where!r} is not a plain name")
