"""Whether a table and its partitions are still the recorded ones: only Hive 4 has a table id (hazard H11)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from compaction_operator.api.cleanup import TableIdentity
from compaction_operator.metastore.errors import TableNotFound
from compaction_operator.metastore.interface import MetastoreCalls
from compaction_operator.metastore.tables import Table


class Place(Protocol):
    """A partition as it was when it was looked up: a journal's entry, or a driver's target."""

    @property
    def partition(self) -> str:
        """Its name, '' for the table's own directory."""
        ...

    @property
    def location(self) -> str:
        """Where it lay."""
        ...

    @property
    def create_time(self) -> int:
        """When it was created."""
        ...


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a table or partition that is not the recorded one any more: in one word, and in a sentence."""

    reason: str
    message: str


class TableGoneError(Exception):
    """The table is not the recorded one any more."""

    def __init__(self, change: Change) -> None:
        super().__init__(change.message)
        self.change = change


@dataclass(frozen=True, slots=True)
class Today:
    """The table as the metastore has it now; creation time and location of each partition ('' is the table's own).

    `table_id` is None where the metastore gives none, or none was recorded to hold against it.
    """

    location: str
    partitions: Mapping[str, tuple[int, str]]
    table_id: int | None = None

    def what_changed(self, entry: Place) -> Change | None:
        """Return what became of an entry's partition, None while it is the recorded one."""
        kind, what = ("Partition", f"partition {entry.partition}") if entry.partition else ("Table", "the table")
        if entry.partition not in self.partitions:
            return Change(f"{kind}Dropped", f"{what} was dropped")
        create_time, location = self.partitions[entry.partition]
        if create_time != entry.create_time:
            return Change(f"{kind}Recreated", f"{what} was dropped and created again")
        if location != entry.location:
            return Change(f"{kind}Moved", f"{what} moved from {entry.location} to {location}")
        return None


def resolve_today(metastore: MetastoreCalls, recorded: TableIdentity, places: Iterable[Place]) -> Today:
    """Return recorded table and partitions as they are now; raises TableGoneError and what the metastore raises."""
    table = _same_table(metastore, recorded)
    partitions = {"": (table.create_time, table.location)}
    names = [entry.partition for entry in places if entry.partition]
    if names:
        found = metastore.get_partitions(table.database, table.name, names)
        partitions |= {partition.name: (partition.create_time, partition.location) for partition in found}
    known_id = None if recorded.table_id is None else table.table_id
    return Today(table.location, partitions, known_id)


def what_changed(metastore: MetastoreCalls, recorded: TableIdentity, places: Sequence[Place]) -> dict[str, Change]:
    """Return what became of the recorded partitions that are not the recorded ones any more.

    NB: only where the metastore names a place it is one. Nothing is fenced, published or deleted for these.
    """
    try:
        today = resolve_today(metastore, recorded, places)
    except TableGoneError as gone:
        return {entry.partition: gone.change for entry in places}
    changes = {entry.partition: today.what_changed(entry) for entry in places}
    return {partition: change for partition, change in changes.items() if change is not None}


def _same_table(metastore: MetastoreCalls, recorded: TableIdentity) -> Table:
    """Return the table if it is still the recorded one (HIVE-24235)."""
    what = f"table {recorded.ref()}"
    try:
        table = metastore.get_table(recorded.database, recorded.name)
    except TableNotFound as error:
        raise TableGoneError(Change("TableDropped", f"{what} was dropped")) from error
    same_id = recorded.table_id is None or table.table_id == recorded.table_id
    if table.create_time != recorded.create_time or not same_id:
        raise TableGoneError(Change("TableRecreated", f"{what} was dropped and created again"))
    if table.location != recorded.location:
        raise TableGoneError(Change("TableMoved", f"{what} moved from {recorded.location} to {table.location}"))
    return table
