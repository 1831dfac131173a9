"""Keys as directories and files: pure functions."""

from collections.abc import Callable, Iterable, Iterator

from compaction_operator.acid.listing import Directory, File, Listing
from compaction_operator.acid.names import METADATA_ACID, is_hidden
from compaction_operator.storage.base import CONTENT_BYTES, Entry, EntryKind, NotFoundError, StorageError
from compaction_operator.storage.s3.objects import Object

Content = Callable[[Object, int, int], bytes]
"""Returns a range of an object, from an offset and with a length."""


def children(path: str, prefix: str, objects: Iterable[Object]) -> list[Entry]:
    """Return the children of a directory, sorted by name, from at least one object of each.

    Raises StorageError for names whose meaning is not certain.
    """
    files, directories = _tree(path, prefix, objects)
    entries = [Entry(name, EntryKind.FILE, found.size) for name, found in files.items() if "/" not in name]
    entries += [Entry(name, EntryKind.DIRECTORY, 0) for name in directories if "/" not in name]
    return sorted(entries, key=lambda entry: entry.name)


def listing(path: str, prefix: str, objects: Iterable[Object], content: Content) -> Listing:
    """Return what Hive would examine, from all objects below a directory. Raises as `children` does."""
    files, directories = _tree(path, prefix, objects)
    inside: dict[str, list[File]] = {
        name: [] for name in sorted(directories) if "/" not in name and not is_hidden(name)
    }
    for name, found in sorted(files.items()):
        top, _, below = name.partition("/")
        if below and top in inside and (file := _file(below, found, content)):
            inside[top].append(file)
    own = (File(name, found.size) for name, found in sorted(files.items()) if "/" not in name and not is_hidden(name))
    return Listing(tuple(Directory(name, tuple(found)) for name, found in inside.items()), tuple(own))


def _tree(path: str, prefix: str, objects: Iterable[Object]) -> tuple[dict[str, Object], set[str]]:
    """Return the files and directories at any depth below `path`, by their relative names."""
    files: dict[str, Object] = {}
    directories: set[str] = set()
    for found in objects:
        key = found.key.removeprefix(prefix)
        if not (name := _name(path, key, found.size)):
            continue
        if key.endswith("/"):
            directories.add(name)
        else:
            files[name] = found
        directories.update(_above(name))
    if both := sorted(files.keys() & directories):
        raise StorageError(f"{path}: {both[0]} is both an object and a directory")
    return files, directories


def _name(path: str, key: str, size: int) -> str:
    """Return the name that a key below `path` stands for: '' for the marker of `path` itself."""
    if key.endswith("/") and size:
        raise StorageError(f"{path}: the key {key!r} below it ends with '/', but is not empty")
    name = key.removesuffix("/")
    if key and any(part in {"", ".", ".."} for part in name.split("/")):
        raise StorageError(f"{path}: the key {key!r} below it has an empty name, '.' or '..'")
    return name


def _above(name: str) -> Iterator[str]:
    """Yield the directories above a name."""
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


def _file(name: str, found: Object, content: Content) -> File | None:
    """Return a file, with its beginning if its content matters, or None if it has vanished."""
    if name.rpartition("/")[2] != METADATA_ACID:
        return File(name, found.size)
    try:
        return File(name, found.size, content(found, 0, min(found.size, CONTENT_BYTES)))
    except NotFoundError:
        return None
