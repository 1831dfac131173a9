"""Runs SQL statements on the warehouse as Hive does: with transactions, locks, write ids, deltas and delete deltas."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from compaction_operator.acid.write_ids import ValidTxnList
from compaction_operator.cli.terminal import Cell, Row, table
from sandbox.harness.orcfile import BUCKET
from sandbox.harness.reader import Reader
from sandbox.harness.stage import Warehouse
from sandbox.harness.tables import HiveTable, files_of
from sandbox.harness.wait import wait_until
from sandbox.metastore.admin import Operation
from sandbox.playground.effects import Change, Content, RowId, StatementError, mentioned, outcome

_WRITES: Mapping[str, Operation] = {"insert": "INSERT", "update": "UPDATE", "delete": "DELETE"}
_ARROW = {"int": pa.int32(), "bigint": pa.int64(), "double": pa.float64(), "string": pa.string()}


class SqlClient:
    """One session of a user. `BEGIN` opens a reader's transaction, which holds its locks until `COMMIT`."""

    def __init__(self, warehouse: Warehouse, user: str) -> None:
        self._warehouse = warehouse
        self._admin = warehouse.admin
        self._user = user
        self._reader: Reader | None = None
        self._snapshot: ValidTxnList | None = None

    def close(self) -> None:
        """End the reader's transaction if one is open."""
        if self._reader is not None:
            self._reader.release()
        self._reader = self._snapshot = None

    def run(self, statement: str) -> Iterator[str]:
        """Run a statement, and yield the lines to print. Raises StatementError."""
        statement = statement.strip().rstrip(";")
        first = statement.partition(" ")[0].lower()
        if first == "begin":
            yield self._begin()
        elif first == "commit":
            yield "the locks are released" if self._reader else "no transaction is open"
            self.close()
        elif first in _WRITES:
            yield from self._write(statement, _WRITES[first])
        else:
            yield from self._read(statement)

    def _begin(self) -> str:
        if self._reader is not None:
            raise StatementError("a transaction is open: COMMIT ends it")
        self._reader = self._warehouse.reader(self._user)
        self._snapshot = self._admin.valid_txns()
        return f"transaction {self._reader.txn} of {self._user}: what SELECT reads stays locked until COMMIT"

    def _read(self, statement: str) -> Iterator[str]:
        """Read under a lock: of the open transaction, or of one that ends with the statement."""
        if self._reader is not None:
            yield from self._select(statement, self._reader)
            return
        with self._warehouse.reader(self._user) as reader:
            yield from self._select(statement, reader)

    def _select(self, statement: str, reader: Reader) -> Iterator[str]:
        tables = self._tables(statement)
        for one in tables.values():
            reader.lock(one)
        found = outcome(statement, {name: self._content(one) for name, one in tables.items()})
        cells = [Row(tuple(Cell("NULL" if value is None else str(value)) for value in row)) for row in found.rows]
        yield from table(found.headings, cells)

    def _write(self, statement: str, operation: Operation) -> Iterator[str]:
        """Run a statement that changes one table, in a transaction of its own."""
        if self._reader is not None:
            raise StatementError("Hive's transactions of several statements only read: COMMIT first")
        tables = self._tables(statement)
        with self._transaction() as txn:
            for one in tables.values():
                self._lock(txn, one, operation)
            found = outcome(statement, {name: self._content(one) for name, one in tables.items()})
            if not found.changes:
                yield "no rows changed"
            for name, change in found.changes.items():
                write_id = self._publish(txn, tables[name], change)
                yield f"{name}: write id {write_id}, {len(change.deleted)} deleted, {len(change.inserted)} inserted"

    @contextmanager
    def _transaction(self) -> Iterator[int]:
        txn = self._admin.open_txn(user=self._user, agent="playground")
        try:
            yield txn
        except BaseException:
            self._admin.abort_txn(txn)
            raise
        self._admin.commit_txn(txn)

    def _lock(self, txn: int, one: HiveTable, operation: Operation) -> None:
        """Lock a table as the statement does; a compaction that publishes now is waited for."""
        lock = self._admin.lock_to_write(txn, one.database, one.name, agent="playground", operation=operation)
        if not lock.acquired:
            what = f"the lock on {one.database}.{one.name}"
            wait_until(lambda: self._admin.check_lock(lock.lock_id), timeout=60, what=what)

    def _publish(self, txn: int, one: HiveTable, change: Change) -> int:
        """Write a delta and a delete delta into each partition that the change concerns; returns the write id."""
        write_id = self._admin.allocate_write_id(txn, one.database, one.name)
        columns, keys = self._columns(one)
        for place, (deleted, inserted) in self._by_place(one, change, len(keys)).items():
            row_type = pa.struct([(name, _ARROW[type_]) for name, type_ in columns])
            rows = [dict(zip((name for name, _ in columns), values, strict=True)) for values in inserted]
            files = files_of(write_id, row_type, deleted=[(row.write_id, row.row_id) for row in deleted], inserted=rows)
            self._warehouse.toolbox.write(place, files)
        return write_id

    def _by_place(
        self, one: HiveTable, change: Change, keys: int
    ) -> dict[str, tuple[list[RowId], list[tuple[Any, ...]]]]:
        """Return what is deleted from and inserted into each directory; a new partition is added."""
        found: dict[str, tuple[list[RowId], list[tuple[Any, ...]]]] = {}
        for row in change.deleted:
            if row.bucket != BUCKET:
                raise StatementError(f"{one.name} has rows in several buckets; this client writes the first one only")
            place = f"{one.location}/{row.partition}" if keys else one.location
            found.setdefault(place, ([], []))[0].append(row)
        for values in change.inserted:
            place = self._partition(one, values[-keys:]) if keys else one.location
            found.setdefault(place, ([], []))[1].append(values[:-keys] if keys else values)
        return found

    def _partition(self, one: HiveTable, values: tuple[Any, ...]) -> str:
        name = "/".join(f"{key}={value}" for key, value in zip(self._columns(one)[1], values, strict=True))
        if name not in self._admin.get_partition_names(one.database, one.name):
            self._admin.add_partitions(one.database, one.name, [tuple(map(str, values))])
        return f"{one.location}/{name}"

    def _tables(self, statement: str) -> dict[str, HiveTable]:
        """Return the tables that a statement mentions, by `database.name`. Raises StatementError when there is none."""
        known = {f"{database}.{name}" for database, name in self._admin.managed_tables()}
        names = mentioned(statement, known)
        if not names:
            raise StatementError(f"it names no table; there are {', '.join(sorted(known)) or 'none'}")
        return {name: self._table(*name.split(".")) for name in names}

    def _table(self, database: str, name: str) -> HiveTable:
        found = self._admin.get_table(database, name)
        if not found.is_acid:
            raise StatementError(f"{database}.{name} is not a full ACID table of Hive")
        if len(found.partition_keys) > 1:
            raise StatementError(f"{database}.{name} has several partition keys; this client knows one")
        return HiveTable(database, name, found.location, tuple(self._admin.get_partition_names(database, name)))

    def _columns(self, one: HiveTable) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
        found = self._admin.get_table(one.database, one.name)
        return found.columns, found.partition_keys

    def _content(self, one: HiveTable) -> Content:
        columns, keys = self._columns(one)
        rows = [_row(json.loads(line), columns, keys) for line in self._warehouse.rows(one, snapshot=self._snapshot)]
        return Content((*columns, *((key, "string") for key in keys)), tuple(rows))


def _row(
    line: Mapping[str, Any], columns: tuple[tuple[str, str], ...], keys: tuple[str, ...]
) -> tuple[RowId, tuple[Any, ...]]:
    """Return a row of rows.py; the values of its partition come from the directory's name."""
    row_id = RowId(line["partition"], line["writeid"], line["bucket"], line["rowid"])
    values = tuple(line["row"][name] for name, _ in columns)
    return row_id, values + (tuple(part.partition("=")[2] for part in row_id.partition.split("/")) if keys else ())
