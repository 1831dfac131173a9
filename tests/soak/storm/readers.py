"""Readers: each opens a transaction, takes its snapshot, and reads with it until it is done."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum

from hmsclient.genthrift.hive_metastore import ttypes

from tests.soak.storm.reading import PlannedRead, Snapshot, VanishedError
from tests.soak.storm.scene import Scene
from tests.soak.storm.session import Lock, LockMode, Transaction
from tests.soak.storm.tables import DATABASE, StormTable

log = logging.getLogger(__name__)

BETWEEN_QUERIES = 0.5
BEFORE_LOCKS = 15.0
BETWEEN_READS = {"short": 0.3, "long": 6.0}


class Manner(StrEnum):
    """How a reader goes about it."""

    PROMPT = "prompt"
    """Takes its locks right after its snapshot and is gone soon."""
    LATE = "late"
    """Takes its locks long after its snapshot (HIVE-24291), and reads several times."""
    LOCKLESS = "lockless"
    """Takes none at all (HIVE-26165), and reads several times."""


PLANNED_AGAIN = {Manner.PROMPT: 0, Manner.LATE: 0, Manner.LOCKLESS: 3}


def read_locks(table: StormTable, places: Sequence[str]) -> list[Lock]:
    """Return what a query locks: the partitions that it reads, or the unpartitioned table."""
    return [
        Lock(LockMode.SHARED_READ, ttypes.DataOperationType.SELECT, DATABASE, table.name, place or None)
        for place in places
    ]


class Reader:
    """Runs queries, one after the other."""

    def __init__(self, scene: Scene, number: int, manner: Manner) -> None:
        self.name = f"reader-{number}-{manner}"
        self._scene = scene
        self._manner = manner
        self._rng = scene.random(self.name)
        self._hive = scene.hives[number % len(scene.hives)]
        self._tables = [table for table in scene.tables if self._may_read(table)]

    def _may_read(self, table: StormTable) -> bool:
        # NB: on Hive 3.1 nothing but a lock, which all its readers take, hides the moment between a pair's two renames.
        return self._manner is not Manner.LOCKLESS or self._scene.version == 4 or not table.sort.changes

    def step(self) -> None:
        """Run a query; raises StormError."""
        table = self._rng.choice(self._tables)
        places = self._rng.sample(table.places, self._rng.randint(1, len(table.places)))
        with table.crossing.together(), self._scene.sessions.transaction(self.name) as transaction:
            self._query(transaction, table, places)
        self._scene.pause(self._rng, BETWEEN_QUERIES)

    def _query(self, transaction: Transaction, table: StormTable, places: Sequence[str]) -> None:
        if self._manner is Manner.LATE:
            self._scene.pause(self._rng, BEFORE_LOCKS)
        if self._manner is not Manner.LOCKLESS:
            transaction.lock(read_locks(table, places))
        snapshot = Snapshot(transaction.write_ids(DATABASE, table.name), transaction.txns)
        log.info("%s txn %d reads %s %s by %s", self.name, transaction.txn, table.name, places, snapshot.write_ids)
        for _ in range(1 if self._manner is Manner.PROMPT else self._rng.randint(2, 4)):
            self._read(table, places, snapshot)

    def _read(self, table: StormTable, places: Sequence[str], snapshot: Snapshot) -> None:
        """Choose the files of all places, then open them, now and then much later."""
        planned = [self._plan(table, place, snapshot, vectorized=way) for place in places for way in (True, False)]
        length = "short" if self._manner is Manner.PROMPT and self._rng.random() < 0.8 else "long"
        self._scene.pause(self._rng, BETWEEN_READS[length])
        for one in planned:
            one.rows()
            self._scene.tally.add("reads")

    def _plan(self, table: StormTable, place: str, snapshot: Snapshot, *, vectorized: bool) -> PlannedRead:
        """Choose the files of one place.

        NB: Hive looks into every directory that it has listed, the obsolete ones too. A reader without locks
        may find that Hive or the operator has deleted one of them. It then has to plan again.
        """
        for _ in range(PLANNED_AGAIN[self._manner]):
            with suppress(VanishedError):
                return PlannedRead(self._hive, table, place, snapshot, who=self.name, vectorized=vectorized)
            self._scene.tally.add("planned again")
        return PlannedRead(self._hive, table, place, snapshot, who=self.name, vectorized=vectorized)
