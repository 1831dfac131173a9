"""The tables that are compacted, each with what its history leaves to be done, and who reads it meanwhile."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sandbox.harness.places import StorageKind
from sandbox.metastore.server import Hive

from tests.soak.crash.plan import Action
from tests.soak.crash.table import Table, delete, insert, update

PARTITIONS = ("p=1", "p=2", "p=3")


class Presence(StrEnum):
    """What a reader from before the compaction holds."""

    NOBODY = "nobody"
    TRANSACTION = "transaction"
    """A snapshot, and no lock yet (or none at all)."""
    LOCK = "lock"
    """A snapshot and a SHARED_READ lock."""


@dataclass(frozen=True)
class Scenario:
    """A table's history, the compaction that is asked for, the reader, and what `happens` in each run, if anything."""

    type: str
    history: Callable[[Table], None]
    places: tuple[str, ...] = ("",)
    reader: Presence = Presence.NOBODY
    cleanup: Mapping[str, Any] = field(default_factory=dict)
    happens: Action | None = None
    hives: tuple[Hive, ...] = ("3.1.3", "4.0.1")
    storages: tuple[StorageKind, ...] = ("file", "hdfs", "s3")

    def is_for(self, hive: Hive, storage: StorageKind) -> bool:
        """Whether it can be run there."""
        return hive in self.hives and storage in self.storages


def _inserts(table: Table) -> None:
    """Three inserts, one of them into two buckets."""
    table.write({"": {0: insert(1, 2)}})
    table.write({"": {0: insert(3), 1: insert(30)}})
    table.write({"": {0: insert(4, 5)}})


def _deletes(table: Table) -> None:
    """Inserts, an update, a deletion."""
    _inserts(table)
    (first, second, *_) = table.rows(table.now())[""]
    table.write({"": {0: update(20, second)}})
    table.write({"": {0: delete(first)}})


def _compacted_before(table: Table) -> None:
    """Hive's own minor compaction, whose Cleaner has not come yet, and more writes."""
    table.write({"": {0: insert(1, 2)}})
    table.write({"": {0: insert(3)}})
    table.hive_minor()
    table.write({"": {0: insert(4)}})
    table.write({"": {0: delete(table.rows(table.now())[""][0])}})


def _partitions(table: Table) -> None:
    """Inserts into two partitions, with a deletion in the second; a single one, with nothing to do, in the third."""
    table.write({"p=1": {0: insert(1)}, "p=2": {0: insert(10, 11)}})
    table.write({"p=1": {0: insert(2)}, "p=2": {0: insert(12)}, "p=3": {0: insert(100)}})
    table.write({"p=2": {0: delete(table.rows(table.now())["p=2"][0])}})


def _leftovers(table: Table) -> None:
    """What an INSERT OVERWRITE made obsolete, and an aborted write's directory, between writes that count."""
    table.write({"": {0: insert(1)}})
    table.write({"": {0: insert(2)}})
    table.write({"": {0: insert(3, 4)}}, base=True)
    table.write({"": {0: insert(5)}}, aborted=True)
    table.write({"": {0: insert(6)}})
    table.write({"": {0: insert(7)}})


def _rolled_back(table: Table) -> None:
    """Inserts, and a deletion that was rolled back."""
    _inserts(table)
    table.write({"": {0: delete(table.rows(table.now())[""][0])}}, aborted=True)
    table.write({"": {0: insert(6)}})


SCENARIOS: Mapping[str, Scenario] = {
    "minor": Scenario("Minor", _inserts),
    "minor-lock": Scenario("Minor", _inserts, reader=Presence.LOCK),
    "pair": Scenario("Minor", _deletes),
    # NB: with a lock the pair would wait for the reader, as it should, for longer than a run may take.
    "pair-transaction": Scenario("Minor", _deletes, reader=Presence.TRANSACTION),
    "major": Scenario("Major", _deletes),
    "major-lock": Scenario("Major", _deletes, reader=Presence.LOCK),
    "major-after-minor": Scenario("Major", _compacted_before),
    "partitions-minor": Scenario("Minor", _partitions, places=PARTITIONS),
    "partitions-major": Scenario("Major", _partitions, places=PARTITIONS),
    "leftovers": Scenario("Major", _leftovers),
    "leftovers-transaction": Scenario("Major", _leftovers, reader=Presence.TRANSACTION),
    "quarantine": Scenario("Major", _inserts, cleanup={"quarantine": "1s"}),
    "renamed": Scenario("Major", _rolled_back, happens=Action.RENAME),
    "worker": Scenario("Major", _inserts, happens=Action.WORKER, hives=("3.1.3",), storages=("file",)),
}
