"""Watches file operations: after each one Hive reads the directory for every reader that there is."""

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sandbox.harness.places import Place

from compaction_operator.api.stores import STORES_VARIABLE, StoreSettings
from compaction_operator.storage import Storage, Stores, join, local_path, normal
from compaction_operator.storage.s3 import S3Storage
from tests.integration.oracle.living_table import LivingTable


class Operation(NamedTuple):
    """One change of the file system: what was done, and to which name below the table's directory."""

    verb: str
    path: str

    @property
    def is_published(self) -> bool:
        """Whether Hive looks at that name. Nothing has it before an upload is complete."""
        return self.verb not in {"begin", "part"} and not self.path.startswith(("_", "."))


def watched(root: Place, after: Callable[[Operation], None]) -> Storage:
    """Return a storage that calls `after` right after each change below `root`.

    A rename bears the new name, or the old one if Hive does not look at the new one any more.
    NB: to publish is to sync (on a local disk) and to rename; it calls `after` for each. On S3 these are the requests
    that change something, one after the other, and each deletes a single key.
    """
    storage = Stores(StoreSettings.model_validate_json(os.environ.get(STORES_VARIABLE, "{}"))).open(str(root))

    def operation(verb: str, path: str) -> Operation:
        return Operation(verb, normal(path).removeprefix(f"{normal(str(root))}/"))

    def renamed(source: str, target: str) -> None:
        new = operation("rename", target)
        after(new if new.is_published else operation("rename", source))

    if isinstance(storage, S3Storage):
        _follow_requests(storage, lambda verb, key: after(operation(verb, storage.bucket.uri(key))))
        return storage
    _follow(storage, "write", lambda path, _: after(operation("write", path)))
    _follow(storage, "make_directory", lambda path: after(operation("make", path)))
    _follow(storage, "sync", lambda path: after(operation("sync", path)))
    _follow(storage, "rename", renamed)
    _follow(storage, "delete_tree", lambda path: after(operation("delete", path)))
    if isinstance(root, Path):
        setattr(storage, "delete_tree", partial(_leaf_by_leaf, storage.delete_tree))  # noqa: B010 - for mypy
    return storage


def _follow(storage: Storage, name: str, then: Callable[..., None]) -> None:
    call = getattr(storage, name)

    def followed(*arguments: Any) -> Any:
        result = call(*arguments)
        then(*arguments)
        return result

    setattr(storage, name, followed)


_CHANGES = {
    "PutObject": "write",
    "DeleteObjects": "delete",
    "CreateMultipartUpload": "begin",
    "UploadPart": "part",
    "UploadPartCopy": "part",
    "CompleteMultipartUpload": "complete",
    "AbortMultipartUpload": "abort",
}


def _follow_requests(storage: S3Storage, then: Callable[[str, str], None]) -> None:
    bucket, turn = storage.bucket, threading.RLock()
    delete = bucket.delete

    def one_by_one(keys: Sequence[str]) -> None:
        for key in keys:
            delete([key])

    def begin(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        turn.acquire()
        context["key"] = params.get("Key") or params["Delete"]["Objects"][0]["Key"]

    def end(verb: str, context: dict[str, Any], **_: Any) -> None:
        try:
            then(verb, context["key"])
        finally:
            turn.release()

    setattr(bucket, "delete", one_by_one)  # noqa: B010 - for mypy
    for name, verb in _CHANGES.items():
        bucket.client.meta.events.register(f"before-parameter-build.s3.{name}", begin)
        bucket.client.meta.events.register(f"after-call.s3.{name}", partial(end, verb))


def _leaf_by_leaf(delete: Callable[[str], int], path: str) -> int:
    """Delete a tree in the order in which LocalStorage does. HDFS deletes it at once."""
    place = Path(local_path(path))
    children = sorted(place.iterdir()) if place.is_dir() and not place.is_symlink() else []
    return sum(_leaf_by_leaf(delete, join(path, child.name)) for child in children) + delete(path)


class Watcher:
    """Asks Hive for each of the table's readers after each operation and notes who saw something else than before."""

    def __init__(self, table: LivingTable, *, also: Callable[[Operation], None] = lambda _: None) -> None:
        self.operations: list[Operation] = []
        self.misread: dict[int, list[str]] = {}
        """By the number of the operation: who sees what."""
        self._last: list[str] = []
        self._table = table
        self._also = also

    def __call__(self, operation: Operation) -> None:
        """Ask; row by row only where a name changed that Hive looks at, and not again where nothing has changed."""
        if operation.verb != "sync":
            self._last = self._table.misread(row_reader=operation.is_published)
        if self._last:
            self.misread[len(self.operations)] = self._last
        self.operations.append(operation)
        self._also(operation)

    @property
    def storage(self) -> Storage:
        """The storage that is watched."""
        return watched(self._table.directory, self)

    def window(self, outputs: Sequence[str]) -> list[int]:
        """Return the numbers of the operations from the first output's publication on, without the last one's."""
        renames = [
            number for number, done in enumerate(self.operations) if done.verb == "rename" and done.path in outputs
        ]
        return list(range(renames[0], renames[-1])) if renames else []
