"""Watches file operations: after each one Hive reads the directory for every reader that there is."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from compaction_operator.storage import LocalStorage, join, local_path
from tests.integration.oracle.living_table import LivingTable


class Operation(NamedTuple):
    """One change of the file system: what was done, and to which name below the table's directory."""

    verb: str
    path: str

    @property
    def is_published(self) -> bool:
        """Whether Hive looks at that name."""
        return not self.path.startswith(("_", "."))


class WatchedStorage(LocalStorage):
    """Local files. It calls `after` right after each change, and for the deletion of a tree after each leaf.

    NB: to publish is to sync and to rename; it calls `after` for both.
    """

    def __init__(self, root: Path, after: Callable[[Operation], None]) -> None:
        self._root = root
        self._after = after

    def write(self, path: str, data: bytes) -> None:
        """Create a file."""
        super().write(path, data)
        self._done("write", path)

    def make_directory(self, path: str) -> None:
        """Create a directory."""
        super().make_directory(path)
        self._done("make", path)

    def rename(self, source: str, target: str) -> None:
        """Rename; the operation bears the new name, or the old one if Hive does not look at the new one any more."""
        super().rename(source, target)
        self._done("rename", target if self._operation("rename", target).is_published else source)

    def sync(self, path: str) -> None:
        """Make durable."""
        super().sync(path)
        self._done("sync", path)

    def delete_tree(self, path: str) -> int:
        """Delete what is below in the order in which LocalStorage does, then the place itself."""
        place = Path(local_path(path))
        children = sorted(place.iterdir()) if place.is_dir() and not place.is_symlink() else []
        freed = sum(self.delete_tree(join(path, child.name)) for child in children)
        freed += super().delete_tree(path)
        self._done("delete", path)
        return freed

    def _done(self, verb: str, path: str) -> None:
        self._after(self._operation(verb, path))

    def _operation(self, verb: str, path: str) -> Operation:
        return Operation(verb, str(Path(local_path(path)).relative_to(self._root)))


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
    def storage(self) -> WatchedStorage:
        """The storage that is watched."""
        return WatchedStorage(self._table.directory, self)

    def window(self, outputs: Sequence[str]) -> list[int]:
        """Return the numbers of the operations from the first output's publication on, without the last one's."""
        renames = [
            number for number, done in enumerate(self.operations) if done.verb == "rename" and done.path in outputs
        ]
        return list(range(renames[0], renames[-1])) if renames else []
