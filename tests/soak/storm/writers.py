"""Writers: each inserts, updates, deletes or overwrites in a transaction of its own, and aborts it now and then."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from hmsclient.genthrift.hive_metastore import ttypes
from sandbox.harness.places import remove_tree

from tests.integration.oracle.hive import RowId
from tests.soak.storm.model import Rows, Values, Write, bucket_of, row_id
from tests.soak.storm.readers import read_locks
from tests.soak.storm.reading import PlannedRead, Snapshot
from tests.soak.storm.scene import Scene
from tests.soak.storm.session import Aborted, Lock, LockMode, Transaction
from tests.soak.storm.tables import DATABASE, ROW_TYPE, StormTable

log = logging.getLogger(__name__)

BETWEEN_WRITES = 1.0
BEFORE_COMMIT = 1.0
ABORTED_PART = 0.15
MANY_ROWS = 150

Place = tuple[int, int]
"""A statement and a bucket: what one task writes."""
Events = Mapping[Place, Sequence[tuple[Any, ...]]]


class Verb(StrEnum):
    """What a statement does."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    OVERWRITE = "overwrite"


OPERATIONS = {
    Verb.INSERT: ttypes.DataOperationType.INSERT,
    Verb.UPDATE: ttypes.DataOperationType.UPDATE,
    Verb.DELETE: ttypes.DataOperationType.DELETE,
    Verb.OVERWRITE: ttypes.DataOperationType.UPDATE,
}


class RolledBack(Exception):  # noqa: N818 - on purpose
    """The writer has changed its mind."""


class Writer:
    """Runs statements, one after the other."""

    def __init__(self, scene: Scene, number: int) -> None:
        self.name = f"writer-{number}"
        self._scene = scene
        self._rng = scene.random(self.name)
        self._hive = scene.hives[number % len(scene.hives)]

    def step(self) -> None:
        """Run a statement; raises StormError when it reads wrongly what it is to change."""
        table = self._rng.choice(self._scene.tables)
        verb = self._verb(table)
        places = self._rng.sample(table.places, self._rng.randint(1, len(table.places)))
        crossing = table.crossing.alone() if verb is Verb.OVERWRITE else table.crossing.together()
        with crossing:
            self.write(verb, table, places)
        self._scene.pause(self._rng, BETWEEN_WRITES)

    def _verb(self, table: StormTable) -> Verb:
        weights = {Verb.INSERT: 50, Verb.UPDATE: 20, Verb.DELETE: 15, Verb.OVERWRITE: 1}
        if not table.sort.changes:
            weights = {Verb.INSERT: 50, Verb.OVERWRITE: 1}
        return self._rng.choices(list(weights), list(weights.values()))[0]

    def write(self, verb: Verb, table: StormTable, places: Sequence[str]) -> None:
        """Run one statement in a transaction; the writer, or the metastore, may abort it."""
        written: list[tuple[str, int]] = []
        try:
            with self._scene.sessions.transaction(self.name) as transaction:
                self._statement(transaction, verb, table, places, written)
        except (Aborted, RolledBack) as why:
            log.info("%s: %s of %s aborted: %s %s", self.name, verb, table.name, type(why).__name__, written)
            for place, write_id in written:
                table.histories[place].forget(write_id)
            self._scene.tally.add("aborted")
        self._scene.tally.add("writes")

    def _statement(
        self,
        transaction: Transaction,
        verb: Verb,
        table: StormTable,
        places: Sequence[str],
        written: list[tuple[str, int]],
    ) -> None:
        transaction.lock(self._locks(verb, table, places))
        transaction.renew()
        snapshot = Snapshot(transaction.write_ids(DATABASE, table.name), transaction.txns)
        changed = {place: self._victims(verb, table, place, snapshot) for place in places}
        write_id = transaction.write_id(DATABASE, table.name)
        for place, victims in changed.items():
            events = self._events(verb, table, write_id, victims)
            table.histories[place].note(_write_of(write_id, events, overwrites=verb is Verb.OVERWRITE))
            written.append((place, write_id))
            self._put(table, place, write_id, events, base=verb is Verb.OVERWRITE)
        log.info(
            "%s txn %d: %s of %s %s is write id %d", self.name, transaction.txn, verb, table.name, places, write_id
        )
        self._scene.pause(self._rng, BEFORE_COMMIT)
        # NB: an INSERT OVERWRITE that is aborted makes a table without another base unreadable for Hive 3.1 itself.
        if verb is not Verb.OVERWRITE and self._rng.random() < ABORTED_PART:
            raise RolledBack

    def _locks(self, verb: Verb, table: StormTable, places: Sequence[str]) -> list[Lock]:
        changing = LockMode.EXCL_WRITE if self._scene.version == 4 else LockMode.SHARED_WRITE
        mode = {Verb.INSERT: LockMode.SHARED_READ, Verb.OVERWRITE: LockMode.EXCLUSIVE}.get(verb, changing)
        reads = read_locks(table, places) if verb in (Verb.UPDATE, Verb.DELETE) else []
        return [*reads, *(Lock(mode, OPERATIONS[verb], DATABASE, table.name, place or None) for place in places)]

    def _victims(self, verb: Verb, table: StormTable, place: str, snapshot: Snapshot) -> Rows:
        """Return the rows to be changed, by the ROW__IDs that Hive reads."""
        if verb not in (Verb.UPDATE, Verb.DELETE):
            return {}
        vectorized = self._rng.random() < 0.5
        rows = PlannedRead(self._hive, table, place, snapshot, who=self.name, vectorized=vectorized).rows()
        self._scene.tally.add("reads")
        part = len(rows) // 2 if verb is Verb.DELETE and len(rows) > MANY_ROWS else min(len(rows), 4)
        return dict(self._rng.sample(sorted(rows.items()), part))

    def _events(self, verb: Verb, table: StormTable, write_id: int, victims: Rows) -> Events:
        """Return the events of each task, those with ROW__IDs in their order, as a query sorts them."""
        events: dict[Place, list[tuple[Any, ...]]] = {}
        for found, (number, _) in sorted(victims.items()):
            new = ("update", write_id, found, [number, f"updated by {write_id}"])
            events.setdefault((0, bucket_of(found)), []).append(
                ("delete", write_id, found) if verb is Verb.DELETE else new
            )
        statements = {Verb.INSERT: (0, self._rng.randint(0, 2)), Verb.OVERWRITE: (0, 0), Verb.UPDATE: (1, 1)}
        if verb in (Verb.INSERT, Verb.OVERWRITE) or (verb is Verb.UPDATE and self._rng.random() < 0.3):  # or a MERGE
            low, high = statements[verb]
            for statement in range(low, high + 1):
                for bucket in self._buckets(table):
                    events[statement, bucket] = self._inserts(write_id, statement, bucket)
        return events

    def _buckets(self, table: StormTable) -> Iterable[int]:
        return sorted(self._rng.sample(range(table.sort.buckets), self._rng.randint(1, table.sort.buckets)))

    def _inserts(self, write_id: int, statement: int, bucket: int) -> list[tuple[Any, ...]]:
        first = write_id * 1000 + statement * 100 + bucket * 10
        return [
            ("insert", write_id, [first + number, f"inserted by {write_id}"])
            for number in range(self._rng.randint(1, 4))
        ]

    def _put(self, table: StormTable, place: str, write_id: int, events: Events, *, base: bool) -> None:
        """Write the files aside and move them in, as Hive does; Hive 4 may write into the last place at once."""
        target = table.path(place)
        direct = self._scene.version == 4 and self._rng.random() < 0.5
        staging = target / f".hive-staging_{self.name}_{write_id}"
        for (statement, bucket), tasks in sorted(events.items()):
            self._hive.write(
                target if direct else staging,
                tasks,
                row_type=ROW_TYPE,
                write_id=write_id,
                statement=statement,
                bucket=bucket,
                attempt=0 if self._scene.version == 4 else None,
                base=base,
            )
        if not direct and staging.exists():
            for name in sorted(child.name for child in staging.iterdir()):
                (staging / name).rename(target / name)
            remove_tree(staging)


def _write_of(write_id: int, events: Events, *, overwrites: bool) -> Write:
    inserted: dict[RowId, Values] = {}
    for (statement, bucket), tasks in events.items():
        new = [event[-1] for event in tasks if event[0] != "delete"]
        for number, (key, payload) in enumerate(new):
            inserted[row_id(write_id, bucket=bucket, statement=statement, number=number)] = key, payload
    deleted = {event[2] for tasks in events.values() for event in tasks if event[0] != "insert"}
    return Write(write_id, inserted, frozenset(deleted), overwrites=overwrites)
