"""Probe of a store that renames directories: can it do all that publication and deletion need? On hidden files."""

import uuid
from collections.abc import Iterator
from contextlib import suppress

from compaction_operator.storage.base import AlreadyExistsError, Storage, StorageError
from compaction_operator.storage.uri import join

_CONTENT = b"probe"


def probe_renames(storage: Storage, location: str) -> str | None:
    """Return why nothing can be published safely below a location, or None.

    It writes a hidden folder there and removes it, as `Uploads.probe` does on S3. Raises StorageError, naming the
    path, if the location cannot be listed, or the store refuses a step or does not answer.
    """
    storage.list(location)
    place = join(location, f"_compaction_probe_{uuid.uuid4().hex}")
    storage.make_directory(place)
    try:
        reason = next(_reasons(storage, place), None)
    except BaseException:
        with suppress(StorageError):
            storage.delete_tree(place)
        raise
    storage.delete_tree(place)
    return reason


def _reasons(storage: Storage, place: str) -> Iterator[str]:
    """Yield what the store does not do, each step on what those before it have shown."""
    source, target = join(place, "source"), join(place, "target")
    for directory in (source, target):
        storage.make_directory(directory)
        storage.write(join(directory, "file"), _CONTENT)
    if storage.read(join(source, "file")) != _CONTENT:
        yield "a file that was just written has another content"
    with suppress(AlreadyExistsError):
        storage.rename(source, target)
        yield "a rename replaces a directory that exists"
    storage.rename(source, join(place, "published"))
    if [entry.name for entry in storage.list(place)] != ["published", "target"]:
        yield "a listing does not show a directory that was just renamed"
