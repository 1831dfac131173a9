"""Storage of table directories: list, publish and delete. Local disks, mounted volumes, HDFS."""

from compaction_operator.storage.base import (
    Abilities,
    AlreadyExistsError,
    Entry,
    EntryKind,
    Listed,
    NotFoundError,
    Storage,
    StorageError,
    Uploads,
    is_passing,
)
from compaction_operator.storage.files import StoredFile, copy_range, is_checked_by_store, read_pieces
from compaction_operator.storage.local import LocalStorage
from compaction_operator.storage.probe import probe_renames
from compaction_operator.storage.silence import Silences
from compaction_operator.storage.stores import (
    Stores,
    create_file,
    discard,
    look_up,
    make_durable,
    open_storage,
    write_behind,
)
from compaction_operator.storage.uri import is_below, join, local_path, normal, place_of, resolve_location

__all__ = [
    "Abilities",
    "AlreadyExistsError",
    "Entry",
    "EntryKind",
    "Listed",
    "LocalStorage",
    "NotFoundError",
    "Silences",
    "Storage",
    "StorageError",
    "StoredFile",
    "Stores",
    "Uploads",
    "copy_range",
    "create_file",
    "discard",
    "is_below",
    "is_checked_by_store",
    "is_passing",
    "join",
    "local_path",
    "look_up",
    "make_durable",
    "normal",
    "open_storage",
    "place_of",
    "probe_renames",
    "read_pieces",
    "resolve_location",
    "write_behind",
]
