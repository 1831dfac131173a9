"""One directory through its life: Hive writes into it, readers come and stay, and each knows what it must see."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Self

from sandbox.harness.places import Place, copy_tree

from compaction_operator.acid.write_ids import ValidWriteIdList
from tests.integration.oracle.hive import HiveOracle, OracleError, Row, RowId
from tests.integration.oracle.laws import NO_END, Seen, View

ROW_TYPE = "struct<a:int>"
INSERT_CODE = 536870912
Events = Sequence[tuple[Any, ...]]
Statement = Mapping[int, Events]
"""The events of a statement by bucket, in the order of their ROW__IDs, without the write id."""


def insert(*values: int) -> Events:
    """New rows."""
    return [("insert", [value]) for value in values]


def delete(*row_ids: RowId) -> Events:
    """Rows that go."""
    return [("delete", row_id) for row_id in row_ids]


def update(value: int, *row_ids: RowId) -> Events:
    """Rows that get a new value."""
    return [("update", row_id, [value]) for row_id in row_ids]


def row(write_id: int, bucket: int, number: int, *, statement: int = 0) -> RowId:
    """The ROW__ID of a row that was inserted."""
    return write_id, INSERT_CODE | bucket << 16 | statement, number


class LivingTable:
    """An unpartitioned table. `readers` are the snapshots that readers hold, with the rows that they saw at first.

    Its write ids begin above `first`. `open` and `aborted` are write ids. `txn` is the last transaction that ended.
    `attempt` is the number of the tasks' attempts that Hive 4 may put into the names of files (H9). `written` is the
    row type of what is written from now on: columns after the first are ones that the table has no more.
    """

    def __init__(self, hive: HiveOracle, directory: Place, *, first: int = 0, attempt: int | None = 1) -> None:
        self.hive = hive
        self.directory = directory
        self.last = self.settled = first
        self.open: set[int] = set()
        self.aborted: set[int] = set()
        self.txn = 100
        self.written = ROW_TYPE
        self._attempt = attempt if hive.version == 4 else None
        self.readers: dict[View, Seen] = {}
        directory.mkdir()

    def copy(self, directory: Place) -> Self:
        """Return the same table, and the same readers, in another place."""
        other = copy(self)
        other.directory = copy_tree(self.directory, directory)
        other.readers = dict(self.readers)
        return other

    def now(self, **changes: Any) -> View:
        """Return the snapshot of a reader that comes now, or (`open`, `aborted`, `last`, `txns`) came otherwise."""
        last = changes.get("last", self.last)
        open_ids = frozenset(changes.get("open", self.open))
        aborted = frozenset(changes.get("aborted", self.aborted)) - open_ids
        ids = ValidWriteIdList(last, open_ids, aborted, min(open_ids, default=None), table="d.t")
        return View(str(ids), changes.get("txns", f"{self.txn}:{NO_END}::"))

    def write_ids(self) -> ValidWriteIdList:
        """Return those of a reader that comes now."""
        return ValidWriteIdList.parse(self.now().write_ids)

    def see(self, view: View, *, vectorized: bool = True) -> Seen:
        """Return the rows in the order of their ROW__IDs, or Hive's error."""
        try:
            rows = self.hive.read(
                self.directory, write_ids=view.write_ids, txns=view.txns, row_type=ROW_TYPE, vectorized=vectorized
            )
        except OracleError as error:
            return str(error)
        return sorted(rows, key=lambda found: found[:3])

    def plan(self, view: View) -> int:
        """Let a query choose its files; return the plan's number. Raises OracleError."""
        return self.hive.plan(
            self.directory, write_ids=view.write_ids, txns=view.txns, row_type=ROW_TYPE, vectorized=True
        )

    def rows(self) -> list[Row]:
        """Return what a reader who comes now sees."""
        seen = self.see(self.now())
        assert not isinstance(seen, str), seen
        return seen

    def write(self, *statements: Statement, committed: bool = True, open_: bool = False) -> int:
        """Let Hive write a transaction of some statements; return its write id. Then a reader comes."""
        self.last += 1
        for number, statement in enumerate(statements):
            for bucket, events in statement.items():
                self._write(bucket, events, statement=number)
        (self.open if open_ else set() if committed else self.aborted).add(self.last)
        self.txn += 1
        self.arrive(self.now())
        return self.last

    def stream(self, *values: int, aborted: Iterable[int]) -> None:
        """Let a streaming writer write a value in each of as many transactions into one delta; a reader comes for each.

        `aborted` are the values of transactions that fail.
        """
        first = self.last + 1
        rows = {first + number: value for number, value in enumerate(values)}
        events = [(("insert", write_id, [value]), ("flush",)) for write_id, value in rows.items()]
        self.hive.write(
            self.directory,
            [event for pair in events for event in pair],
            row_type=ROW_TYPE,
            write_id=first,
            max_write_id=max(rows),
            statement=-1,
        )
        for write_id, value in rows.items():
            self.last = write_id
            self.aborted |= {write_id} if value in aborted else set()
            self.txn += 1
            self.arrive(self.now())

    def _write(self, bucket: int, events: Events, *, statement: int) -> None:
        dropped = [0] * self.written.count(",")
        self.hive.write(
            self.directory,
            [
                (kind, self.last, *([*one, *dropped] if isinstance(one, list) else one for one in rest))
                for kind, *rest in events
            ],
            row_type=self.written,
            write_id=self.last,
            statement=statement,
            bucket=bucket,
            attempt=self._attempt,
        )

    def write_file(self, name: str, *values: int) -> None:
        """Let Hive write a file that is not an ACID one."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.hive.write_file(path, [[value] for value in values], row_type=ROW_TYPE)

    def arrive(self, view: View) -> None:
        """A reader comes, and what it sees now it is to see until it goes."""
        self.readers[view] = self.see(view)

    def arrive_while_open(self, write_ids: Iterable[int]) -> None:
        """For each of them, one comes (came) with a snapshot in which just that one was open still."""
        for write_id in write_ids:
            self.arrive(self.now(open={*self.open, write_id}))

    def leave(self) -> None:
        """All readers go and others come. Some of these know of a write in another partition."""
        self.settled = self.write_ids().watermark
        self.readers.clear()
        self.arrive(self.now())
        self.last += 1
        self.arrive(self.now())
        self.arrive(self.now(open={*self.open, self.last}))

    def misread(self, *, row_reader: bool) -> list[str]:
        """Return what readers see that is not what they saw at first, vectorised and, if asked for, row by row."""
        return [
            f"the {'vectorised' if vectorized else 'row'} reader with {view}: {seen} and not {expected}"
            for view, expected in self.readers.items()
            for vectorized in ((True, False) if row_reader else (True,))
            if (seen := self.see(view, vectorized=vectorized)) != expected
        ]


History = Callable[[LivingTable], None]


def inserts(table: LivingTable) -> None:
    """Nothing but rows in uneven buckets (H9); an aborted write between them, one within a delta of others (H8)."""
    table.write({0: insert(10, 11, 12), 1: insert(13, 14)})
    table.write({0: insert(20, 21)})
    table.write({0: insert(90), 1: insert(91)}, committed=False)
    table.write({2: insert(40)})
    table.stream(50, 60, 70, aborted=[60])


def changes(table: LivingTable) -> None:
    """Updates and deletes, also by a write that was aborted (H8), also in a bucket without inserts of its own."""
    table.write({0: insert(10, 11, 12, 13), 1: insert(14, 15)})
    table.write({0: insert(20, 21)})
    table.write({0: [*delete(row(1, 0, 0)), *update(30, row(1, 0, 1))]})
    table.write({0: delete(row(2, 0, 0)), 1: delete(row(1, 1, 0))}, committed=False)
    table.write({1: delete(row(1, 1, 1))})


def statements(table: LivingTable) -> None:
    """Several statements in one write id: a multi-insert and a MERGE (H17)."""
    table.write({0: insert(10, 11, 12)}, {0: insert(13), 1: insert(14)})
    table.write({0: delete(row(1, 0, 0))}, {0: update(20, row(1, 0, 1))}, {0: insert(21, 22)})


def retyped(table: LivingTable) -> None:
    """For some writes the table has a column that is dropped later: today's rows have no room for its values."""
    table.write({0: insert(10, 11, 12), 1: insert(13, 14)})
    table.write({0: [*delete(row(1, 0, 0)), *update(20, row(1, 0, 1))]})
    table.written = "struct<a:int,dropped:int>"
    table.write({0: insert(30, 31)})
    table.write({0: insert(90)}, committed=False)
    table.write({0: delete(row(3, 0, 0)), 1: update(40, row(1, 1, 0))})
    table.written = ROW_TYPE
    table.write({0: insert(50)})


def raw_files(table: LivingTable) -> None:
    """Files from before the table was ACID, some of a UNION ALL, changes to them, and a LOAD DATA (H15).

    The table's write ids begin above 10000000.
    """
    for number, name in enumerate(("000000_0", "000000_0_copy_1", "000001_0", "HIVE_UNION_SUBDIR_1/000000_0")):
        table.write_file(name, 10 * number, 10 * number + 1)
    table.arrive(table.now())
    table.write({0: [*delete(row(0, 0, 0)), *update(50, row(0, 0, 3))], 1: delete(row(0, 1, 1))})
    table.write_file("delta_10000002_10000002_0000/000000_0", 60, 61)
    table.write()
    table.write({0: delete(row(10000002, 0, 1))})
