"""A table whose writes are Hive's own, under transactions and write ids of a real metastore."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sandbox.harness.places import Place, files_below, location_of, remove_tree
from sandbox.metastore.admin import MetastoreAdmin

from compaction_operator.acid.names import METADATA_ACID, METADATA_ACID_CONTENT, parse_directory
from tests.integration.oracle.hive import HiveOracle, Row, State

ROW_TYPE = "struct<a:int>"
COLUMNS = (("a", "int"),)
WRITER = "writer"
Events = Sequence[tuple[Any, ...]]
Statement = Mapping[str, Mapping[int, Events]]
"""The events of a statement by place ('' or a partition's name) and bucket, without the write id."""

Files = Mapping[str, str]
"""The digest of each file by its path below the table's directory."""


@dataclass(frozen=True)
class Snapshot:
    """What a reader sees who came at one time: the lists that it was given then."""

    txns: str
    write_ids: str


@dataclass
class Table:
    """One table; `places` are the partitions' names, or '' alone."""

    hive: HiveOracle
    admin: MetastoreAdmin
    database: str
    location: Place
    places: tuple[str, ...] = ("",)
    name: str = "t"

    def create(self) -> None:
        """Make the database, and the table in it."""
        self.admin.create_database(self.database, location=location_of(self.location.parent))
        self.create_table()

    def create_table(self) -> None:
        """Make the table and its partitions."""
        keys = (("p", "string"),) if self.partitions else ()
        self.admin.create_table(
            self.database, self.name, location=location_of(self.location), columns=COLUMNS, partition_keys=keys
        )
        self.admin.add_partitions(self.database, self.name, [[place.partition("=")[2]] for place in self.partitions])
        for place in self.places:
            (self.location / place).mkdir(parents=True, exist_ok=True)

    def drop(self) -> None:
        """Drop all of it."""
        self.admin.drop_database(self.database)
        remove_tree(self.location.parent)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The names of the partitions; none for an unpartitioned table."""
        return tuple(place for place in self.places if place)

    @property
    def full_name(self) -> str:
        """`database.name`."""
        return f"{self.database}.{self.name}"

    def write(self, statement: Statement, *, base: bool = False, aborted: bool = False) -> int:
        """Let Hive write a transaction of one statement and return its write id; `base` is an INSERT OVERWRITE."""
        with self._transaction(aborted=aborted) as write_id:
            for place, buckets in statement.items():
                for bucket, events in buckets.items():
                    self._write(place, bucket, events, write_id, base=base)
        return write_id

    def hive_minor(self) -> None:
        """Let Hive compact each place's deltas, all of one bucket, and leave them where they are."""
        for place in self.places:
            state = self.state(place)
            if len(state.current) > 1:
                self._hive_minor(place, state)

    def now(self) -> Snapshot:
        """Return the snapshot of a reader that comes now."""
        txns = self.admin.valid_txns()
        return Snapshot(str(txns), str(self.admin.valid_write_ids(self.database, self.name)))

    def rows(self, snapshot: Snapshot) -> dict[str, list[Row]]:
        """Return what Hive's vectorised reader sees in each place, in the order of ROW__IDs. Raises OracleError."""
        return {place: self._rows(place, snapshot) for place in self.places}

    def state(self, place: str) -> State:
        """Return what Hive makes of a place's directories today."""
        now = self.now()
        return self.hive.state(self.location / place, write_ids=now.write_ids, txns=now.txns)

    def files(self) -> Files:
        """Return every file below the table, hidden ones too."""
        found = {str(path.relative_to(self.location)): path for path in files_below(self.location)}
        return {name: hashlib.sha256(found[name].read_bytes()).hexdigest() for name in sorted(found)}

    def names(self) -> dict[str, frozenset[str]]:
        """Return all names in each place; in a partitioned table's own directory, '', only what is no partition."""
        found = {place: {path.name for path in (self.location / place).iterdir()} for place in {"", *self.places}}
        found[""] -= set(self.partitions)
        return {place: frozenset(names) for place, names in found.items()}

    def _rows(self, place: str, snapshot: Snapshot) -> list[Row]:
        rows = self.hive.read(
            self.location / place,
            write_ids=snapshot.write_ids,
            txns=snapshot.txns,
            row_type=ROW_TYPE,
            vectorized=True,
        )
        return sorted(rows, key=lambda row: row[:3])

    @contextmanager
    def _transaction(self, *, aborted: bool) -> Iterator[int]:
        txn = self.admin.open_txn(user=WRITER, agent=WRITER)
        self.admin.lock_to_write(txn, self.database, self.name, agent=WRITER)
        yield self.admin.allocate_write_id(txn, self.database, self.name)
        if aborted:
            self.admin.abort_txn(txn)
        else:
            self.admin.commit_txn(txn)

    def _write(self, place: str, bucket: int, events: Events, write_id: int, *, base: bool) -> None:
        self.hive.write(
            self.location / place,
            [(kind, write_id, *rest) for kind, *rest in events],
            row_type=ROW_TYPE,
            write_id=write_id,
            bucket=bucket,
            base=base,
        )

    def _hive_minor(self, place: str, state: State) -> None:
        deltas = [found for name in state.current if (found := parse_directory(name))]
        directory = self.location / place
        output = self.location.parent / "compacted"
        self.hive.compact(
            [directory / name for name in state.current],
            output,
            major=False,
            bucket=0,
            row_type=ROW_TYPE,
            min_write_id=min(delta.min_write_id for delta in deltas),
            max_write_id=max(delta.max_write_id for delta in deltas),
            write_ids=self.now().write_ids,
        )
        self._publish(directory, sorted(output.iterdir()))
        remove_tree(output)

    def _publish(self, directory: Place, written: Sequence[Place]) -> None:
        """Name the outputs as the version of Hive does: on Hive 4 after a transaction that is committed."""
        suffix = ""
        if self.hive.version == 4:
            txn = self.admin.open_txn(user=WRITER, agent=WRITER)
            self.admin.commit_txn(txn)
            suffix = f"_v{txn:07}"
        for path in written:
            if path.name.startswith("base_") and not suffix:
                (path / METADATA_ACID).write_bytes(METADATA_ACID_CONTENT)
            path.rename(directory / f"{path.name}{suffix}")


def insert(*values: int) -> Events:
    """New rows."""
    return [("insert", [value]) for value in values]


def delete(*rows: Row) -> Events:
    """Rows that go, in the order of their ROW__IDs."""
    return [("delete", row[:3]) for row in rows]


def update(value: int, *rows: Row) -> Events:
    """Rows that get a new value, in the order of their ROW__IDs."""
    return [("update", row[:3], [value]) for row in rows]
