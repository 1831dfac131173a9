"""What is written to each table of the matrix, and a model of the rows that must be there after each commit."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from sandbox.hudi.table import Ordering


class How(StrEnum):
    """How a commit changes its keys."""

    UPSERT = "upsert"
    DELETE = "delete"
    FLAG = "upsert of _hoodie_is_deleted"
    PARTIAL = "update of some columns"


class Commit(NamedTuple):
    """A commit of some keys with one ordering value."""

    ids: range
    ts: int
    how: How = How.UPSERT


class Row(NamedTuple):
    """A row as a reader shows it: a null in odd rows, a list, a struct with a null in some, lists of both."""

    id: int
    ts: int
    v: str | None
    tags: tuple[str, ...]
    place: tuple[int, str | None]
    grid: tuple[tuple[int, ...], ...]
    places: tuple[tuple[int, str | None], ...]


def by_id(row: Row) -> tuple[bool, int]:
    """Return what rows are sorted by: a reader that is wrong may show one whose key is null."""
    return row.id is not None, row.id


FIRST = (
    Commit(range(100), 10),
    Commit(range(40), 30),
    Commit(range(20, 60), 20),
    Commit(range(50, 55), 0, How.DELETE),
    Commit(range(5), 60, How.FLAG),
    Commit(range(3, 30), 50),
    Commit(range(25, 50), 40),
)
"""A base file and six log files. By event time, keys 20 to 39 of the third commit come late, and so do 3 and 4 of the
sixth: they stay deleted. So do 25 to 29 of the last, which may be merged with the sixth in every version.

NB: none brings a key back that a delete by operation removed. 1.0.2 cannot read that in its tables of version 6 by
event time until a compaction has removed the delete (ClassCastException).
"""

EARLY = 3
DELETES = 4
"""Numbers of commits, from 1: the late one, and the delete, which brings no rows itself."""

AFTER_LOG_COMPACTION = (Commit(range(35, 45), 60), Commit(range(30, 38), 55))
"""The second is late by event time for three keys."""

AFTER_COMPACTION = (Commit(range(3), 70), Commit(range(50, 52), 70))
"""Keys that both kinds of delete had removed come back."""


FIRST_WITH_CHANGES = (
    FIRST[0],
    Commit(range(30, 70), 15, How.PARTIAL),
    FIRST[2],
    FIRST[3],
    Commit(range(56, 60), 18),
    FIRST[5],
    FIRST[6],
)
"""The fifth commit is late by event time.

NB: no flag, because no release reads a partial update of a table that has a column `_hoodie_is_deleted`.
"""


class Writes(StrEnum):
    """What the commits of a table are."""

    WHOLE = "whole rows"
    PARTIAL = "some columns too"

    @property
    def first(self) -> tuple[Commit, ...]:
        """The commits before the log compaction."""
        return FIRST if self is Writes.WHOLE else FIRST_WITH_CHANGES

    @property
    def on_top(self) -> tuple[Commit, ...]:
        """The commits after the log compaction."""
        return AFTER_LOG_COMPACTION if self is Writes.WHOLE else (AFTER_LOG_COMPACTION[0], *CHANGES)


CHANGES = (Commit(range(55, 90), 65, How.PARTIAL), Commit(range(55, 65), 62, How.PARTIAL))
"""Of rows in the base file and in log files. The second is late by event time.

NB: none of a deleted key that the base file still has: a MERGE INTO of Hudi's brings such a row back.
"""


class Model:
    """The rows of a table by its ordering. What a delete left to compare with is forgotten by a full compaction."""

    def __init__(self, ordering: Ordering, commits: Iterable[Commit]) -> None:
        self._ordering = ordering
        self._rows: dict[int, Row | None] = {}
        self._newest: dict[int, int] = {}
        self._changed_by: dict[int, int] = {}
        for number, commit in enumerate(commits, 1):
            self._apply(number, commit)

    def rows(self) -> list[Row]:
        """Return the rows by key."""
        return [row for _, row in sorted(self._rows.items()) if row is not None]

    def since(self, number: int) -> list[Row]:
        """Return the rows that the commit of a number, from 1, or a later one changed, by key."""
        return [row for row in self.rows() if self._changed_by[row.id] >= number]

    def _apply(self, number: int, commit: Commit) -> None:
        for key in commit.ids:
            if commit.how is How.PARTIAL and self._rows.get(key) is None:
                continue
            # A delete by operation has no ordering value: it always wins, and any later record wins over it.
            always = self._ordering is Ordering.COMMIT_TIME or commit.how is How.DELETE
            if always or commit.ts >= self._newest.get(key, 0):
                self._newest[key] = 0 if commit.how is How.DELETE else commit.ts
                self._changed_by[key] = number
                self._rows[key] = _changed(self._rows.get(key), row_of(key, commit.ts), commit.how)


def _changed(old: Row | None, new: Row, how: How) -> Row | None:
    if how is How.PARTIAL and old:
        return old._replace(ts=new.ts, v=new.v)
    return new if how is How.UPSERT else None


def row_of(key: int, ts: int) -> Row:
    """Return the row that an upsert writes."""
    place = (key, f"p{ts}" if key % 3 else None)
    v = None if key % 2 else f"{key}-{ts}"
    return Row(key, ts, v, (f"t{key}", "x"), place, ((key, ts), (ts,)), (place, (ts, "x")))
