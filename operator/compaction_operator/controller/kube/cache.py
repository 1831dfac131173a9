"""What the controller knows of the cluster: filled by the watch and by its own writes, newer versions only."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from compaction_operator.controller.kube.resources import (
    Cleanup,
    Compaction,
    Key,
    ResourceKind,
    TableKey,
    read_cleanup,
    read_compaction,
)

REMEMBERED_DELETIONS = 10_000

T = TypeVar("T", Compaction, Cleanup)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(OrderedDict[K, V]):
    """A dictionary of so many entries at most: the one that was set longest ago goes first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


class Store(Generic[T]):
    """Objects of one kind by key and by table. An older version never replaces a newer one, nor a deletion.

    `place` tells which tables are one.
    """

    def __init__(self, place: Callable[[TableKey], TableKey]) -> None:
        self._place = place
        self._objects: dict[Key, T] = {}
        self._by_table: defaultdict[TableKey, set[Key]] = defaultdict(set)
        self._deleted: Recent[str, None] = Recent(REMEMBERED_DELETIONS)

    def put(self, resource: T) -> bool:
        """Keep an object; return False when a newer version of it is known, or its deletion."""
        old = self._objects.get(resource.key)
        if resource.meta.uid in self._deleted:
            return False
        if old is not None and old.meta.resource_version >= resource.meta.resource_version:
            return False
        if old is not None:
            self._leave_table(old)
        self._objects[resource.key] = resource
        self._by_table[self._place(resource.table)].add(resource.key)
        return True

    def drop(self, key: Key, uid: str) -> T | None:
        """Forget a deleted object and return it; NB: its late versions, told by the uid, are refused from now on."""
        self._deleted[uid] = None
        old = self._objects.get(key)
        if old is None or old.meta.uid != uid:
            return None
        del self._objects[key]
        self._leave_table(old)
        return old

    def get(self, key: Key) -> T | None:
        """Return the object of that key, or None."""
        return self._objects.get(key)

    def of_table(self, table: TableKey) -> list[T]:
        """Return the objects about a table, in no order."""
        return [self._objects[key] for key in self._by_table.get(self._place(table), ())]

    def all(self) -> list[T]:
        """Return every object as of now, in no order. May be called from any thread: the copy is made in one step."""
        return list(self._objects.values())

    def _leave_table(self, resource: T) -> None:
        table = self._place(resource.table)
        self._by_table[table].discard(resource.key)
        if not self._by_table[table]:
            del self._by_table[table]


class Cache:
    """Compactions and cleanups, with the ways from one to the other; `running` are those with an attempt running.

    `freed` collects the tables on which something others may have waited for is over; whoever wakes them empties it.
    `metastores` has for each warehouse the one by which its tables go: several may be of one metastore.
    """

    def __init__(self, metastores: Mapping[str, str] | None = None) -> None:
        self._metastores = metastores or {}
        self.compactions: Store[Compaction] = Store(self.place)
        self.cleanups: Store[Cleanup] = Store(self.place)
        self.running: set[Key] = set()
        self.freed: set[TableKey] = set()
        self._cleanups_of: defaultdict[Hashable, set[Key]] = defaultdict(set)

    def place(self, table: TableKey) -> TableKey:
        """Return the one key that a table has in whichever warehouse it is named."""
        return replace(table, warehouse=self._metastores.get(table.warehouse, table.warehouse))

    def put(self, kind: ResourceKind, raw: Mapping[str, Any]) -> Compaction | Cleanup | None:
        """Keep an object of ours and return it, or None when a newer version is known already."""
        return self.put_compaction(raw) if kind is ResourceKind.COMPACTION else self.put_cleanup(raw)

    def drop(self, key: Key, uid: str) -> Compaction | Cleanup | None:
        """Forget a deleted object of ours and return it."""
        return self.drop_compaction(key, uid) if key.kind is ResourceKind.COMPACTION else self.drop_cleanup(key, uid)

    def put_compaction(self, raw: Mapping[str, Any]) -> Compaction | None:
        """Keep a TableCompaction and return it, or None when a newer version is known already."""
        compaction = read_compaction(raw)
        old = self.compactions.get(compaction.key)
        if not self.compactions.put(compaction):
            return None
        if old is not None and old.holds_table and not (compaction.holds_table and compaction.table == old.table):
            self.freed.add(self.place(old.table))
        if compaction.attempt_running:
            self.running.add(compaction.key)
        else:
            self.running.discard(compaction.key)
        return compaction

    def drop_compaction(self, key: Key, uid: str) -> Compaction | None:
        """Forget a deleted TableCompaction and return it."""
        compaction = self.compactions.drop(key, uid)
        if compaction is not None:
            self.running.discard(key)
            self.freed.add(self.place(compaction.table))
        return compaction

    def put_cleanup(self, raw: Mapping[str, Any]) -> Cleanup | None:
        """Keep a CompactionCleanup and return it, or None when a newer version is known already."""
        cleanup = read_cleanup(raw)
        if not self.cleanups.put(cleanup):
            return None
        self._cleanups_of[cleanup.spec.compaction.uid].add(cleanup.key)
        if cleanup.settled:
            self.freed.add(self.place(cleanup.table))
        return cleanup

    def drop_cleanup(self, key: Key, uid: str) -> Cleanup | None:
        """Forget a deleted CompactionCleanup and return it."""
        cleanup = self.cleanups.drop(key, uid)
        if cleanup is not None:
            mates = self._cleanups_of[cleanup.spec.compaction.uid]
            mates.discard(key)
            if not mates:
                del self._cleanups_of[cleanup.spec.compaction.uid]
            self.freed.add(self.place(cleanup.table))
        return cleanup

    def cleanups_of(self, compaction_uid: str) -> list[Cleanup]:
        """Return the cleanups that the attempts of a compaction wrote, by attempt and name."""
        found = (self.cleanups.get(key) for key in self._cleanups_of.get(compaction_uid, ()))
        return sorted(
            (cleanup for cleanup in found if cleanup is not None),
            key=lambda cleanup: (cleanup.spec.compaction.attempt, cleanup.meta.name),
        )
