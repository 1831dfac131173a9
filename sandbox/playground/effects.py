"""What an SQL statement does to small tables: SQLite runs it on a copy of them, and the copy is compared."""

import re
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

Values = tuple[Any, ...]

_ALLOWED = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_UPDATE,
    sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_FUNCTION,
)
_TYPES: Mapping[str, tuple[str, type]] = {
    "int": ("INTEGER", int),
    "bigint": ("INTEGER", int),
    "double": ("REAL", float),
    "string": ("TEXT", str),
}
"""SQLite's and Python's type for each type of Hive that the client knows."""


class StatementError(Exception):
    """A statement that cannot be run, or a table that the client cannot serve; one line."""


class RowId(NamedTuple):
    """A row's place: its partition (the table's directory if it has none) and what its ROW__ID says."""

    partition: str
    write_id: int
    bucket: int
    row_id: int


@dataclass(frozen=True)
class Content:
    """A table as a reader sees it; its columns have Hive's types, and the partition keys come last."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[RowId, Values], ...]


@dataclass(frozen=True)
class Change:
    """What a statement does to one table: an update deletes a row and inserts another, as in Hive."""

    deleted: tuple[RowId, ...]
    inserted: tuple[Values, ...]


@dataclass(frozen=True)
class Outcome:
    """What a statement returned, and what it changed, by the table's name."""

    headings: tuple[str, ...]
    rows: tuple[Values, ...]
    changes: Mapping[str, Change]


def mentioned(statement: str, tables: Collection[str]) -> list[str]:
    """Return which of these tables (`database.name`) a statement may mean; without a database it is `default`."""
    words = set(re.findall(r"\w+\.\w+|\w+", statement.lower()))
    return sorted(table for table in tables if words & {table, table.removeprefix("default.")})


def outcome(statement: str, tables: Mapping[str, Content]) -> Outcome:
    """Return what a statement returns and changes, given each table that it mentions.

    Raises StatementError, with SQLite's words, for what SQLite does not understand, for statements that are not SELECT,
    INSERT, UPDATE or DELETE, and for values that a column cannot hold.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
        _fill(copy, tables)
        copy.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY)
        try:
            found = copy.execute(re.sub(r"\bdefault\.", "", statement, flags=re.IGNORECASE))
            rows = tuple(found.fetchall())
        except sqlite3.Error as error:
            denied = "not authorized" in str(error)
            raise StatementError("use SELECT, INSERT, UPDATE or DELETE" if denied else str(error)) from error
        headings = tuple(column[0] for column in found.description or ())
        copy.set_authorizer(None)
        changes = {name: _change(copy, name, content) for name, content in tables.items()}
    return Outcome(headings, rows, {name: one for name, one in changes.items() if one.deleted or one.inserted})


def _fill(copy: sqlite3.Connection, tables: Mapping[str, Content]) -> None:
    """Make a copy of each table, in which a row's number is its place in the content."""
    for database in sorted({name.partition(".")[0] for name in tables} - {"default"}):
        copy.execute(f"ATTACH ':memory:' AS {_quoted(database)}")
    for name, content in tables.items():
        columns = ", ".join(f"{_quoted(column)} {_type(name, column, type_)[0]}" for column, type_ in content.columns)
        copy.execute(f"CREATE TABLE {_place(name)} ({columns})")
        marks = ", ".join("?" * len(content.columns))
        # NB: names come from the metastore and are quoted.
        insert = f"INSERT INTO {_place(name)} VALUES ({marks})"  # noqa: S608
        copy.executemany(insert, (values for _, values in content.rows))


def _change(copy: sqlite3.Connection, name: str, content: Content) -> Change:
    found = copy.execute(f"SELECT rowid, * FROM {_place(name)}")  # noqa: S608 - as above
    now = {number: tuple(values) for number, *values in found}
    before = dict(enumerate(content.rows, start=1))
    gone = [row_id for number, (row_id, values) in before.items() if now.get(number) != values]
    added = [values for number, values in now.items() if number not in before or before[number][1] != values]
    return Change(tuple(gone), tuple(_fitting(name, content.columns, added)))


def _fitting(name: str, columns: Sequence[tuple[str, str]], rows: Iterable[Values]) -> Iterable[Values]:
    """Yield rows; raises StatementError for a value that its column cannot hold. SQLite itself takes any value."""
    for values in rows:
        for (column, type_), value in zip(columns, values, strict=True):
            if value is not None and not isinstance(value, _type(name, column, type_)[1]):
                raise StatementError(f"{name}.{column} is {type_}, and {value!r} is not")
        yield values


def _type(name: str, column: str, type_: str) -> tuple[str, type]:
    if type_ not in _TYPES:
        raise StatementError(f"{name}.{column} is {type_}; this client knows {', '.join(_TYPES)}")
    return _TYPES[type_]


def _place(name: str) -> str:
    """Return a table as SQLite knows it: those of Hive's database `default` are in its own first one, `main`."""
    database, _, table = name.partition(".")
    return f"{'main' if database == 'default' else _quoted(database)}.{_quoted(table)}"


def _quoted(name: str) -> str:
    return f'"{name}"'
