"""Storage of table directories: list, publish and delete. Supports local disks and mounted volumes."""

from compaction_operator.storage.base import (
    AlreadyExistsError,
    Entry,
    EntryKind,
    NotFoundError,
    Storage,
    StorageError,
)
from compaction_operator.storage.local import LocalStorage
from compaction_operator.storage.uri import is_below, join, local_path, resolve_location

__all__ = [
    "AlreadyExistsError",
    "Entry",
    "EntryKind",
    "LocalStorage",
    "NotFoundError",
    "Storage",
    "StorageError",
    "is_below",
    "join",
    "local_path",
    "open_storage",
    "resolve_location",
]


def open_storage(uri: str) -> Storage:
    """Return the storage for a location. Raises StorageError, naming the scheme, if it is not supported."""
    local_path(uri)
    return LocalStorage()
