"""Whether a journal's table and partitions are still the recorded ones: Hive 3.1 has no table id (hazard H11)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from compaction_operator.api.cleanup import CompactionCleanupSpec, PartitionEntry, TableIdentity
from compaction_operator.metastore.errors import TableNotFound
from compaction_operator.metastore.tables import Partition, Table


class TableSource(Protocol):
    """What is asked of the metastore's client."""

    def get_table(self, database: str, name: str, /) -> Table:
        """Return the table; raises TableNotFound."""
        ...

    def get_partitions(self, database: str, name: str, names: Sequence[str], /) -> Iterable[Partition]:
        """Return those of the named partitions that exist."""
        ...


class TableGoneError(Exception):
    """The table is not the recorded one any more; the message says what became of it."""


@dataclass(frozen=True, slots=True)
class Today:
    """The table as the metastore has it now; creation time and location of each partition ('' is the table's own)."""

    location: str
    partitions: Mapping[str, tuple[int, str]]

    def what_changed(self, entry: PartitionEntry) -> str | None:
        """Return what became of an entry's partition, None while it is the recorded one."""
        what = f"partition {entry.partition}" if entry.partition else "the table"
        if entry.partition not in self.partitions:
            return f"{what} was dropped"
        create_time, location = self.partitions[entry.partition]
        if create_time != entry.create_time:
            return f"{what} was dropped and created again"
        if location != entry.location:
            return f"{what} moved from {entry.location} to {location}"
        return None


def resolve_today(metastore: TableSource, spec: CompactionCleanupSpec) -> Today:
    """Return table and partitions of a journal as they are now; raises TableGoneError and what the metastore raises."""
    table = _same_table(metastore, spec.table)
    partitions = {"": (table.create_time, table.location)}
    names = [entry.partition for entry in spec.partitions if entry.partition]
    if names:
        found = metastore.get_partitions(table.database, table.name, names)
        partitions |= {partition.name: (partition.create_time, partition.location) for partition in found}
    return Today(table.location, partitions)


def _same_table(metastore: TableSource, recorded: TableIdentity) -> Table:
    """Return the table if it is still the recorded one (HIVE-24235)."""
    try:
        table = metastore.get_table(recorded.database, recorded.name)
    except TableNotFound as error:
        raise TableGoneError(f"table {recorded.ref()} was dropped") from error
    if table.create_time != recorded.create_time:
        raise TableGoneError(f"table {recorded.ref()} was dropped and created again")
    if table.location != recorded.location:
        raise TableGoneError(f"table {recorded.ref()} moved from {recorded.location} to {table.location}")
    return table
