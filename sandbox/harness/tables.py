"""Tables in the warehouse: Hive's as a writer leaves them, with the metastore's write ids and their files; Hudi's."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from compaction_operator.acid.names import (
    ORC_ACID_VERSION,
    ORC_ACID_VERSION_CONTENT,
    AcidDirectory,
    parse_directory,
)
from compaction_operator.metastore import TableNotFound
from sandbox.harness.orcfile import Key, delete_file, insert_file
from sandbox.harness.settings import Settings
from sandbox.harness.toolbox import Toolbox
from sandbox.metastore.admin import FULL_ACID, MetastoreAdmin
from sandbox.metastore.server import Hive

FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures"
WRITER = "demo-writer"
OURS = {**FULL_ACID, "NO_AUTO_COMPACTION": "true"}
"""A full ACID table that Hive leaves to the operator."""
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Fixture:
    """A table that real Hive wrote: its files before any compaction, and how many writes they came from."""

    name: str
    columns: tuple[tuple[str, str], ...]
    writes: int
    partition_keys: tuple[tuple[str, str], ...] = ()
    partitions: tuple[tuple[str, ...], ...] = ()

    def files(self, hive: Hive) -> dict[str, bytes]:
        """Return all files that this version of Hive wrote by their path below the table's directory."""
        root = FIXTURES / f"hive-{hive}" / self.name / "before"
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


TABLE_TXN_001 = Fixture("table_txn_001", columns=(("id", "int"), ("name", "string")), writes=3)
"""Three inserts of one row each."""

TRY_IT = Fixture(
    "try_it",
    columns=(("id", "int"), ("a_val", "string"), ("b_val", "string")),
    writes=6,
    partition_keys=(("prt", "string"),),
    partitions=(("p1",), ("p2",), ("p3",)),
)
"""Insert, insert, update of all, update of one, delete and insert, over three partitions."""

_TXN_ROW = pa.struct([("id", pa.int32()), ("name", pa.string())])


def fourth_write(write_id: int = 4) -> dict[str, bytes]:
    """Return the files of `UPDATE table_txn_001 SET name = 'zwei' WHERE id = 2`: a delete event and an insert event."""
    return files_of(write_id, _TXN_ROW, deleted=[(2, 0)], inserted=[{"id": 2, "name": "zwei"}])


def files_of(
    write_id: int, row_type: pa.StructType, *, deleted: Sequence[Key] = (), inserted: Sequence[dict[str, Any]] = ()
) -> dict[str, bytes]:
    """Return the files of a statement that deletes the rows of these keys and inserts those rows, all in bucket 0."""
    files: dict[str, bytes] = {}
    if deleted:
        events = delete_file(write_id, row_type, deleted)
        files |= _directory(AcidDirectory.delete_delta(write_id, write_id, 0), events)
    if inserted:
        files |= _directory(AcidDirectory.delta(write_id, write_id, 0), insert_file(write_id, row_type, inserted))
    return files


def write_id_of(path: str) -> int:
    """Return the write id of a file below a table's directory; ValueError when it lies in no delta or base."""
    for name in path.split("/"):
        if directory := parse_directory(name):
            return directory.min_write_id
    raise ValueError(f"{path} lies in no ACID directory")


def _directory(directory: AcidDirectory, bucket: bytes) -> dict[str, bytes]:
    name = directory.name
    return {f"{name}/{ORC_ACID_VERSION}": ORC_ACID_VERSION_CONTENT, f"{name}/bucket_00000": bucket}


@dataclass(frozen=True)
class HiveTable:
    """A table in the metastore and in the warehouse; `partitions` are names such as prt=p1."""

    database: str
    name: str
    location: str
    partitions: tuple[str, ...] = ()

    @property
    def reference(self) -> dict[str, str]:
        """The table as a TableCompaction names it."""
        return {"database": self.database, "name": self.name}

    @property
    def places(self) -> tuple[str, ...]:
        """The directories that hold the table's data: its partitions', or its own."""
        return tuple(f"{self.location}/{name}" for name in self.partitions) or (self.location,)


@dataclass(frozen=True)
class HudiTable:
    """A Hudi table in the warehouse; with database and name where the metastore knows it."""

    location: str
    database: str = ""
    name: str = ""

    @property
    def reference(self) -> dict[str, str]:
        """The table as a TableCompaction names it."""
        return {"database": self.database, "name": self.name} if self.name else {"location": self.location}


class Writer:
    """Makes databases and tables, and writes to them as Hive does."""

    def __init__(self, admin: MetastoreAdmin, toolbox: Toolbox, settings: Settings) -> None:
        self._admin = admin
        self._settings = settings
        self._toolbox = toolbox

    def create(self, fixture: Fixture, *, database: str, name: str | None = None) -> HiveTable:
        """Return a new table of the fixture's columns, partitions and writes; its database is made when missing.

        The files come all at once, while all writes are open, as each call of the toolbox takes long.
        """
        table = self._create_empty(fixture, database=database, name=name)
        with ExitStack() as writes:
            given = [writes.enter_context(self._write_id(table)) for _ in range(fixture.writes)]
            files = fixture.files(self._settings.hive)
            _check(table, files, given)
            self._toolbox.write(table.location, files)
        return table

    def _create_empty(self, fixture: Fixture, *, database: str, name: str | None = None) -> HiveTable:
        """Return a new table of the fixture's columns and partitions."""
        self.ensure_database(database)
        table_name = name or fixture.name
        location = f"{self._settings.database_location(database)}/{table_name}"
        self._admin.create_table(
            database,
            table_name,
            location=location,
            columns=fixture.columns,
            partition_keys=fixture.partition_keys,
            parameters=OURS,
        )
        names = self._admin.add_partitions(database, table_name, fixture.partitions)
        return HiveTable(database, table_name, location, names)

    def ensure_database(self, database: str) -> None:
        """Create the database unless there is one of that name."""
        if database not in self._admin.database_names():
            self._admin.create_database(database, location=self._settings.database_location(database))

    def drop(self, table: HiveTable) -> None:
        """Drop the table with its files; there may be none."""
        with suppress(TableNotFound):
            self._admin.drop_table(table.database, table.name)
        self._toolbox.remove(table.location)

    def write(self, table: HiveTable, files: Files) -> int:
        """Put files into the table's directory under a new write id, commit, and return the write id.

        Raises ValueError, aborting the write, when a directory's name says another write id than the metastore.
        """
        with self._write_id(table) as write_id:
            _check(table, files, [write_id])
            self._toolbox.write(table.location, files)
        return write_id

    @contextmanager
    def _write_id(self, table: HiveTable) -> Iterator[int]:
        txn = self._admin.open_txn(user=WRITER, agent=WRITER)
        try:
            yield self._admin.allocate_write_id(txn, table.database, table.name)
        except BaseException:
            self._admin.abort_txn(txn)
            raise
        self._admin.commit_txn(txn)


def _check(table: HiveTable, files: Files, write_ids: Collection[int]) -> None:
    """Raise ValueError if a directory's name says another write id than the metastore gave."""
    if wrong := sorted(path for path in files if write_id_of(path) not in write_ids):
        raise ValueError(f"{table.name}: the metastore gave write ids {write_ids}, but a file is {wrong[0]}")
