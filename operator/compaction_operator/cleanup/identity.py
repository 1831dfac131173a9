"""Whether a table and its partitions are still the recorded ones: only Hive 4 has a table id (hazard H11)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from compaction_operator.api.cleanup import TableIdentity
from compaction_operator.errors import OperatorError
from compaction_operator.metastore import MetastoreCalls, Table, TableNotFound
from compaction_operator.storage import is_below


class Place(Protocol):
    """A partition as of a lookup: a journal's entry, or a driver's target."""

    @property
    def partition(self) -> str:
        """Its name, '' for the table's own directory."""
        ...

    @property
    def location(self) -> str:
        """Its location then."""
        ...

    @property
    def create_time(self) -> int:
        """Its creation time."""
        ...


def volume_of(location: str, table_location: str) -> str:
    """Return the directory without which what a partition holds is unknown: the table's, or its own if outside."""
    return table_location if is_below(location, table_location) else location


@dataclass(frozen=True, slots=True)
class Change:
    """Why a table or partition is no longer the recorded one: a reason in one word, and a sentence."""

    reason: str
    message: str


class TableGoneError(OperatorError):
    """The table is no longer the recorded one."""

    def __init__(self, change: Change) -> None:
        super().__init__(change.message)
        self.change = change


@dataclass(frozen=True, slots=True)
class Today:
    """The metastore's current view of the table: creation time and location of each partition ('' is the table's own).

    `table_id` is None if the metastore gives none, or none was recorded for comparison.
    """

    location: str
    partitions: Mapping[str, tuple[int, str]]
    table_id: int | None = None

    def what_changed(self, entry: Place) -> Change | None:
        """Return what happened to an entry's partition, None while it is the recorded one."""
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
    """Look up the recorded table and partitions now. Raises TableGoneError and the metastore's errors."""
    table = _same_table(metastore, recorded)
    partitions = {"": (table.create_time, table.location)}
    names = [entry.partition for entry in places if entry.partition]
    if names:
        found = metastore.get_partitions(table.database, table.name, names)
        partitions |= {partition.name: (partition.create_time, partition.location) for partition in found}
    known_id = None if recorded.table_id is None else table.table_id
    return Today(table.location, partitions, known_id)


def what_changed(metastore: MetastoreCalls, recorded: TableIdentity, places: Sequence[Place]) -> dict[str, Change]:
    """Return the changes of those partitions that are no longer the recorded ones.

    NB: a place counts only if the metastore names it. Nothing is fenced, published or deleted for changed partitions.
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
