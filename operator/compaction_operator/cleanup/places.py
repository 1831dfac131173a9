"""Placement: whether a table and its partitions lie below allowed locations, and share no directory with another.

A user once wrote the location into the metastore. Where two tables, or two partitions, have files in one directory, the
write ids, locks and queue entries of one say nothing about those of the other.

One HDFS has many names: name services, hosts, and the mount points of viewfs. In doubt, two places are the same for the
question whether they overlap, and different for the question whether one is allowed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from compaction_operator.api.config import Warehouse
from compaction_operator.api.request import Reason
from compaction_operator.api.stores import HDFS_SCHEMES, scheme_of
from compaction_operator.metastore import MetastoreClient, Refused, Resolved, Table
from compaction_operator.storage import Abilities, StorageError, is_below
from compaction_operator.storage.uri import Location

Path = tuple[str, ...]
"""A store, and the names of a path in it. All HDFS are one store here."""

_DATABASE_FOLDER = re.compile(r"([A-Za-z0-9_]+)\.db")

DEFAULT_DATABASE = "default"
"""The database without a directory of its own: its tables lie beside the directories of the others."""


def require_allowed(table: Table, warehouse: Warehouse) -> None:
    """Raise Refused (NotAllowed) for a table outside the locations where the warehouse allows compaction."""
    if why := _outside(table.location, warehouse.allowed_locations):
        raise Refused(Reason.NOT_ALLOWED, f"{_name(table, '')} {why}")


def require_reachable(table: Table, warehouse: Warehouse) -> None:
    """Raise Refused (UnsupportedTable) for a kind of storage that is not supported, or whose settings are missing."""
    name, location = _name(table, ""), table.location
    if why := _unsupported(location):
        raise Refused(Reason.UNSUPPORTED_TABLE, f"{name}: {why}")
    if lacking := warehouse.stores.lacking(location):
        needed = f"it lies at {location}, which needs the settings warehouses[].{lacking} of warehouse {warehouse.name}"
        raise Refused(Reason.UNSUPPORTED_TABLE, f"{name}: {needed}")


def hive3_refusal(abilities: Abilities) -> str | None:
    """Return why a table of Hive 3.1 is not compacted on such a store, None if it is.

    NB: AcidUtils of Hive 3.1 takes a base whose write id is committed from its first file on, even an empty one.
    """
    if abilities.atomic_directory_rename:
        return None
    return (
        "Hive 3.1 reads a directory from its first file on, and this store cannot rename a complete one into place; "
        "Hive 4 can be compacted there"
    )


def misplaced(client: MetastoreClient, resolved: Resolved, warehouse: Warehouse) -> dict[str, Refused]:
    """Return the targeted partitions ('' is the table itself) that must not be touched, with the reasons.

    Checks all partitions of the table: two in one directory share their files, but not their readers' locks. If a
    target lies outside Hive's default location, it also checks all tables of the database, and those of the databases
    whose directories (`sales.db`, none for `default`) lie on the path to it. NB: otherwise it lists no tables, since
    there may be very many. Raises MetastoreError.
    """
    table = resolved.table
    meant = {target.partition: target.location for target in resolved.targets}
    every = meant | dict(_other_partitions(client, table, meant))
    others = {} if _is_usual(table, meant) else dict(_other_tables(client, table, meant.values()))
    found = verdicts(table, every, others=others, allowed=warehouse.allowed_locations)
    return {partition: refused for partition, refused in found.items() if partition in meant}


def verdicts(
    table: Table, partitions: Mapping[str, str], *, others: Mapping[str, str], allowed: Sequence[str]
) -> dict[str, Refused]:
    """Return the partitions that must not be touched, with the reasons.

    `partitions` has all of the table's partitions by name and location, `others` the other tables.
    """
    surroundings = _Surroundings(table, partitions, others)
    found: dict[str, Refused] = {}
    for partition, location in partitions.items():
        if why := _unsupported(location):
            found[partition] = Refused(Reason.UNSUPPORTED_TABLE, f"{_name(table, partition)}: {why}")
        elif why := _outside(location, allowed):
            found[partition] = Refused(Reason.NOT_ALLOWED, f"{_name(table, partition)} {why}")
        elif rival := surroundings.rival(partition):
            message = f"{_name(table, partition)} lies at {location}, and {rival}: their files cannot be told apart"
            found[partition] = Refused(Reason.UNSUPPORTED_TABLE, message)
    return found


class _Surroundings:
    """What shares the place of a table's partitions."""

    def __init__(self, table: Table, partitions: Mapping[str, str], others: Mapping[str, str]) -> None:
        self._table = table
        self._partitions = partitions
        self._others = others
        self._paths = _paths(partitions)
        self._table_path = _path(table.location)
        self._tables = {path: name for name, path in _paths(others).items()}
        self._overlaps = _overlaps(self._paths)
        self._mounts = self._by_mount_table()

    def rival(self, partition: str) -> str | None:
        """Describe what else lies in a partition's directory, above or below it; None if nothing does."""
        path, home = self._paths.get(partition), self._table_path
        if path is None:
            return None
        # NB: if the partition lies below its table's directory, that directory must not lie in another table's.
        above = _upwards(home if home and _is_at_or_below(path, home) else path)
        if other := next((self._tables[place] for place in above if place in self._tables), None):
            return f"table {other} at {self._others[other]}"
        if partition and home and _is_at_or_below(home, path):
            return f"its table's own directory at {self._table.location}"
        if neighbour := self._overlaps.get(partition):
            return f"partition {neighbour} at {self._partitions[neighbour]}"
        return self._elsewhere_mounted(self._partitions[partition])

    def _by_mount_table(self) -> dict[str, str]:
        """Return an example of what lies on HDFS by each mount table, and by none."""
        every = {
            **{f"table {name} at {place}": place for name, place in self._others.items()},
            **{f"partition {name} at {place}": place for name, place in self._partitions.items()},
            f"its table's own directory at {self._table.location}": self._table.location,
        }
        return {mount: what for what, place in every.items() if (mount := _mount_table(place)) is not None}

    def _elsewhere_mounted(self, location: str) -> str | None:
        """Describe what lies on HDFS by another mount table: a path says nothing about a path in there."""
        own = _mount_table(location)
        return None if own is None else next((what for mount, what in self._mounts.items() if mount != own), None)


def _name(table: Table, partition: str) -> str:
    name = f"table {table.database}.{table.name}"
    return f"partition {partition} of {name}" if partition else name


def _other_partitions(client: MetastoreClient, table: Table, known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if table.partition_keys:
        names = [name for name in client.get_partition_names(table.database, table.name) if name not in known]
        yield from ((found.name, found.location) for found in client.get_partitions(table.database, table.name, names))


def _is_usual(table: Table, partitions: Mapping[str, str]) -> bool:
    """Whether all lie in Hive's default location: in the database's directory, named after table and partition."""
    try:
        home = Location.parse(table.location)
        places = {name: Location.parse(location) for name, location in partitions.items()}
    except StorageError:
        return False
    return home.names[-2:] == (f"{table.database}.db", table.name) and all(
        place == replace(home, names=home.names + tuple(filter(None, name.split("/"))))
        for name, place in places.items()
    )


def _other_tables(client: MetastoreClient, table: Table, places: Iterable[str]) -> Iterator[tuple[str, str]]:
    for database in sorted({table.database, *_databases_on_the_way([table.location, *places])}):
        for name, location in client.table_locations(database).items():
            if (database, name) != (table.database, table.name):
                yield f"{database}.{name}", location


def _databases_on_the_way(locations: Iterable[str]) -> set[str]:
    """Return the databases whose tables lie there by default (Hive's Warehouse.getDatabasePath)."""
    return {name for location in locations for name in _database_folders(location) or [DEFAULT_DATABASE]}


def _database_folders(location: str) -> list[str]:
    return [found[1].lower() for name in location.split("/") if (found := _DATABASE_FOLDER.fullmatch(name))]


def _outside(location: str, allowed: Sequence[str]) -> str | None:
    """Describe that a location lies below none of the folders; None if it does, or there are no folders.

    NB: another name of an HDFS is another place here, since it may lead to another cluster. Also None for an unknown
    kind of storage, which is refused for that.
    """
    if not allowed or _unsupported(location) or any(_is_surely_below(location, folder) for folder in allowed):
        return None
    below = ", ".join(allowed)
    return f"may not be compacted: it lies at {location}, and the warehouse allows only locations below: {below}"


def _unsupported(location: str) -> str | None:
    """Return why nothing is done at a location of an unknown kind of storage, or one that could lead elsewhere."""
    try:
        Location.parse(location)
    except StorageError as error:
        return str(error)
    return None


def _is_surely_below(location: str, folder: str) -> bool:
    try:
        return is_below(location, folder)
    except StorageError:
        return False


def _path(location: str) -> Path | None:
    """Return the path of a location, None on an unknown kind of storage, or if it could lead elsewhere."""
    try:
        place = Location.parse(location)
    except StorageError:
        return None
    store = "hdfs:" if place.scheme in HDFS_SCHEMES else f"{place.scheme}://{place.authority}"
    return (store, *place.names)


def _mount_table(location: str) -> str | None:
    """Return the mount table by which a location leads to HDFS, empty for none; None if it does not lead there."""
    scheme, authority = scheme_of(location), location.partition("://")[2].partition("/")[0]
    return None if scheme not in HDFS_SCHEMES else f"viewfs://{authority}" if scheme == "viewfs" else ""


def _paths(locations: Mapping[str, str]) -> dict[str, Path]:
    found = {name: _path(location) for name, location in locations.items()}
    return {name: path for name, path in found.items() if path is not None}


def _overlaps(paths: Mapping[str, Path]) -> dict[str, str]:
    """Map each name whose directory equals, contains or lies in another's to the name of one such other."""
    owners: dict[Path, str] = {}
    found: dict[str, str] = {}
    for name, path in sorted(paths.items(), key=lambda item: len(item[1])):
        for owner in (owners[place] for place in _upwards(path) if place in owners):
            found.setdefault(name, owner)
            found.setdefault(owner, name)
        owners.setdefault(path, name)
    return found


def _upwards(path: Path) -> Iterator[Path]:
    """Yield a path and all its ancestors."""
    return (path[:length] for length in range(len(path), -1, -1))


def _is_at_or_below(path: Path, above: Path) -> bool:
    return path[: len(above)] == above
