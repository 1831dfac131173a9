"""Storage of table directories: list, publish and delete. Local disks, mounted volumes, HDFS."""

from compaction_operator.storage.base import (
    AlreadyExistsError,
    Entry,
    EntryKind,
    NotFoundError,
    Storage,
    StorageError,
)
from compaction_operator.storage.files import create_file, discard, make_durable, open_file, open_storage
from compaction_operator.storage.local import LocalStorage
from compaction_operator.storage.uri import is_below, join, local_path, normal, resolve_location

__all__ = [
    "AlreadyExistsError",
    "Entry",
    "EntryKind",
    "LocalStorage",
    "NotFoundError",
    "Storage",
    "StorageError",
    "create_file",
    "discard",
    "is_below",
    "join",
    "local_path",
    "make_durable",
    "normal",
    "open_file",
    "open_storage",
    "resolve_location",
]
