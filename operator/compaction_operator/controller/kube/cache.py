"""Cache of the cluster's state: filled by the watch and by the controller's own writes; keeps only newer versions."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from compaction_operator.controller.kube.line import Age, Line
from compaction_operator.controller.kube.resources import (
    Cleanup,
    Compaction,
    Key,
    ResourceKind,
    ResourceT,
    TableKey,
    read_cleanup,
    read_compaction,
)

REMEMBERED_DELETIONS = 10_000

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)


class Recent(OrderedDict[K, V]):
    """A dictionary of limited size: the entry set longest ago is evicted first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


class Groups(Generic[K, V]):
    """Sets by a key. An empty one takes no memory."""

    def __init__(self) -> None:
        self._groups: defaultdict[K, set[V]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, key: K, member: V) -> None:
        """Add a member to a set."""
        self._groups[key].add(member)

    def discard(self, key: K, member: V) -> None:
        """Remove a member from a set, if it is there."""
        if key in self._groups:
            self._groups[key].discard(member)
            if not self._groups[key]:
                del self._groups[key]

    def of(self, key: K) -> Collection[V]:
        """Return the members of a set, which changes with it."""
        return self._groups.get(key, ())


class Store(Generic[ResourceT]):
    """Objects of one kind, indexed by key, uid and table. An older version never replaces a newer one, nor a deletion.

    `place` maps table keys that name the same table to one key.
    """

    def __init__(self, place: Callable[[TableKey], TableKey]) -> None:
        self._place = place
        self._objects: dict[Key, ResourceT] = {}
        self._by_uid: dict[str, Key] = {}
        self._by_table: Groups[TableKey, Key] = Groups()
        self._deleted: Recent[str, str] = Recent(REMEMBERED_DELETIONS)

    def put(self, resource: ResourceT) -> bool:
        """Store an object; return False if a newer version of it, or its deletion, is known."""
        old = self._objects.get(resource.key)
        if resource.meta.uid in self._deleted:
            return False
        if old is not None and old.meta.resource_version >= resource.meta.resource_version:
            return False
        if old is not None:
            self._leave(old)
        self._objects[resource.key] = resource
        self._by_uid[resource.meta.uid] = resource.key
        self._by_table.add(self._place(resource.table), resource.key)
        return True

    def drop(self, key: Key, uid: str) -> ResourceT | None:
        """Remove a deleted object and return it. NB: later events with this uid are ignored from then on."""
        self._deleted[uid] = key.namespace
        old = self._objects.get(key)
        if old is None or old.meta.uid != uid:
            return None
        del self._objects[key]
        self._leave(old)
        return old

    def get(self, key: Key) -> ResourceT | None:
        """Return the object of that key, or None."""
        return self._objects.get(key)

    def deleted(self) -> dict[str, str]:
        """Return the uids of objects whose deletion is known, as far as they are remembered, with their namespaces."""
        return dict(self._deleted)

    def of_uid(self, uid: str) -> ResourceT | None:
        """Return the object of that uid, or None."""
        key = self._by_uid.get(uid)
        return None if key is None else self._objects[key]

    def of_table(self, table: TableKey) -> list[ResourceT]:
        """Return the objects of a table, unordered."""
        return [self._objects[key] for key in self._by_table.of(self._place(table))]

    def all(self) -> list[ResourceT]:
        """Return all current objects, unordered. Safe to call from any thread: the copy is a single step."""
        return list(self._objects.values())

    def _leave(self, resource: ResourceT) -> None:
        del self._by_uid[resource.meta.uid]
        self._by_table.discard(self._place(resource.table), resource.key)


class Cache:
    """Compactions and cleanups, with links between them; `running` are the compactions with a running attempt.

    `candidates` are those that may start their next attempt by themselves, now or after a pause, in their order. What
    has ended is in no index of a table: a table may have years of it.
    `freed` collects the tables on which something ended that others may have waited for; the caller that wakes them
    empties it. `metastores` maps each warehouse to the one that keys its tables: several warehouses may share one
    metastore. Compactions that are not `ours` take no slot and never start: they are in neither `running` nor
    `candidates`. While one of them works on a table, it holds the table. `handled` are the namespaces of compactions
    that name an operator.
    """

    def __init__(
        self, metastores: Mapping[str, str] | None = None, *, ours: Callable[[Compaction], bool] = lambda _: True
    ) -> None:
        self._metastores = metastores or {}
        self._ours = ours
        self.compactions: Store[Compaction] = Store(self.place)
        self.cleanups: Store[Cleanup] = Store(self.place)
        self.running: set[Key] = set()
        self.freed: set[TableKey] = set()
        self.handled: set[str] = set()
        self.candidates: Line[TableKey] = Line()
        self._working: Groups[TableKey, Key] = Groups()
        self._unsettled: Groups[TableKey, Key] = Groups()
        self._cleanups_of: Groups[str, Key] = Groups()

    def owner_of(self, cleanup: Cleanup) -> Compaction | None:
        """Return the compaction that a cleanup names, in the cleanup's own namespace.

        A missing one may have been deleted, or belong to another namespace that a forged cleanup names.
        """
        ref = cleanup.spec.compaction
        compaction = self.compactions.get(Key(ResourceKind.COMPACTION, cleanup.meta.namespace, ref.name))
        return compaction if compaction is not None and compaction.meta.uid == ref.uid else None

    def place(self, table: TableKey) -> TableKey:
        """Return the canonical key of a table, whichever warehouse names it."""
        return replace(table, warehouse=self._metastores.get(table.warehouse, table.warehouse))

    def renew(self, namespace: str) -> list[Key]:
        """Count the compactions of a namespace again, as `ours` has changed there; return the keys of all its objects.

        One that is not ours any more takes no slot, but holds its table as long as its attempt is not known to be over.
        """
        mine = [one for one in self.compactions.all() if one.meta.namespace == namespace]
        for compaction in mine:
            self._leave(compaction)
            self._enter(compaction)
            self.freed.add(self.place(compaction.table))
        cleanups = [one.key for one in self.cleanups.all() if one.meta.namespace == namespace]
        return [*(one.key for one in mine), *cleanups]

    def of_kind(self, kind: ResourceKind) -> Store[Compaction] | Store[Cleanup]:
        """Return the objects of one of our kinds."""
        return self.compactions if kind is ResourceKind.COMPACTION else self.cleanups

    def put(self, kind: ResourceKind, raw: Mapping[str, Any]) -> Compaction | Cleanup | None:
        """Store one of our objects and return it, or None if a newer version is known."""
        return self.put_compaction(raw) if kind is ResourceKind.COMPACTION else self.put_cleanup(raw)

    def drop(self, key: Key, uid: str) -> Compaction | Cleanup | None:
        """Remove a deleted object of ours and return it."""
        return self.drop_compaction(key, uid) if key.kind is ResourceKind.COMPACTION else self.drop_cleanup(key, uid)

    def put_compaction(self, raw: Mapping[str, Any]) -> Compaction | None:
        """Store a TableCompaction and return it, or None if a newer version is known."""
        compaction = read_compaction(raw)
        old = self.compactions.get(compaction.key)
        if not self.compactions.put(compaction):
            return None
        if old is not None and old.may_hold_table and not _still_holds(old, compaction):
            self.freed.add(self.place(old.table))
        if old is not None:
            self._leave(old)
        self._enter(compaction)
        return compaction

    def drop_compaction(self, key: Key, uid: str) -> Compaction | None:
        """Remove a deleted TableCompaction and return it."""
        compaction = self.compactions.drop(key, uid)
        if compaction is not None:
            self._leave(compaction)
            self.freed.add(self.place(compaction.table))
        return compaction

    def put_cleanup(self, raw: Mapping[str, Any]) -> Cleanup | None:
        """Store a CompactionCleanup and return it, or None if a newer version is known."""
        cleanup = read_cleanup(raw)
        if not self.cleanups.put(cleanup):
            return None
        self._cleanups_of.add(cleanup.spec.compaction.uid, cleanup.key)
        place = self.place(cleanup.table)
        if cleanup.settled or cleanup.ended:
            self._unsettled.discard(place, cleanup.key)
            self.freed.add(place)
        else:
            self._unsettled.add(place, cleanup.key)
        return cleanup

    def drop_cleanup(self, key: Key, uid: str) -> Cleanup | None:
        """Remove a deleted CompactionCleanup and return it."""
        cleanup = self.cleanups.drop(key, uid)
        if cleanup is not None:
            self._cleanups_of.discard(cleanup.spec.compaction.uid, key)
            self._unsettled.discard(self.place(cleanup.table), key)
            self.freed.add(self.place(cleanup.table))
        return cleanup

    def working(self, table: TableKey) -> Collection[Key]:
        """Return the compactions of a table with a running attempt."""
        return self._working.of(self.place(table))

    def unsettled(self, table: TableKey) -> list[Cleanup]:
        """Return the cleanups of a table that have neither ended nor determined what was published."""
        found = map(self.cleanups.get, self._unsettled.of(self.place(table)))
        return [cleanup for cleanup in found if cleanup is not None]

    def cleanups_of(self, compaction_uid: str) -> list[Cleanup]:
        """Return the cleanups written by a compaction's attempts, sorted by attempt and name."""
        found = (self.cleanups.get(key) for key in self._cleanups_of.of(compaction_uid))
        return sorted(
            (cleanup for cleanup in found if cleanup is not None),
            key=lambda cleanup: (cleanup.spec.compaction.attempt, cleanup.meta.name),
        )

    def _enter(self, compaction: Compaction) -> None:
        place, ours = self.place(compaction.table), self._ours(compaction)
        if compaction.status.operator is not None:
            self.handled.add(compaction.meta.namespace)
        if compaction.attempt_running:
            self._working.add(place, compaction.key)
            if ours:
                self.running.add(compaction.key)
        elif ours and compaction.may_hold_table:
            self.candidates.enter(Age.of(compaction), place)

    def _leave(self, compaction: Compaction) -> None:
        self.candidates.leave(compaction.key)
        self.running.discard(compaction.key)
        self._working.discard(self.place(compaction.table), compaction.key)


def _still_holds(old: Compaction, new: Compaction) -> bool:
    """Whether all that waited for a compaction still waits for it.

    NB: one that begins to back off frees its table. So does one that was made again under its name, which is younger:
    the watch may have missed the deletion.
    """
    backs_off = new.status.next_attempt_time is not None
    return new.may_hold_table and not backs_off and (new.table, new.meta.uid) == (old.table, old.meta.uid)
