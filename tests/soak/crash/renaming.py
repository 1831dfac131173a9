"""Another table takes the name of the one that is compacted, as Hive's RENAME and CREATE TABLE do it.

The renamed table keeps its directory, which is not the one that its name gives. The new one has higher write ids, all
of them committed: by these, a deletion that was rolled back in the old one takes its row away.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from compaction_operator.controller.kube.resources import Cleanup, Compaction
from compaction_operator.metastore.locks import LockKind, LockWish
from tests.integration.oracle.hive import Row
from tests.soak.crash.table import Table, insert
from tests.soak.crash.verify import Before, held, hidden, left_behind, misread, wrongly_gone

AGENT = "rename"
RENAMED = "renamed"
WRITES = 9
"""More than any history has."""


class Renaming:
    """Waits for its turn behind the locks that are held, as Hive does."""

    def __init__(self, table: Table, before: Before) -> None:
        self._table = table
        self._before = before
        self._renamed = replace(table, name=RENAMED)
        self._new = replace(table, location=table.location.with_name("new"))
        self._new_rows: Mapping[str, list[Row]] | None = None
        self._lock = 0

    def begin(self) -> None:
        """Ask for the lock; where it is free the other table is there before the process goes on."""
        wish = LockWish(database=self._table.database, table=self._table.name, kind=LockKind.EXCLUSIVE, agent=AGENT)
        asked = self._table.admin.lock(wish)
        self._lock = asked.lock_id
        if asked.acquired:
            self._swap()

    def step(self, _compaction: Compaction, _cleanups: Sequence[Cleanup]) -> None:
        """Swap the tables once the lock is there."""
        if self._new_rows is None and self._table.admin.check_lock(self._lock):
            self._swap()

    def is_over(self, compaction: Compaction, cleanups: Sequence[Cleanup]) -> bool:
        """Whether the tables are swapped, and what goes by the name has ended."""
        return self._new_rows is not None and compaction.ended and all(cleanup.ended for cleanup in cleanups)

    def differences(self, _compaction: Compaction, cleanups: Sequence[Cleanup]) -> Iterator[str]:
        """Both tables have their rows, and of the renamed one nothing is gone but what a journal names.

        What was published before the renaming leaves its inputs there, and on Hive 4 its entry of the queue, which is
        Hive's Cleaner's then: the table of its journal is no more.
        """
        for table, rows in ((self._renamed, self._before.rows), (self._new, self._new_rows or {})):
            for message in misread(table, table.now(), rows).values():
                yield f"a reader of table {table.name} sees {message}"
            yield from hidden(table)
            yield from held(table)
        yield from left_behind(self._new)
        yield from wrongly_gone(self._renamed, self._before, cleanups)

    def _swap(self) -> None:
        self._table.admin.rename_table(self._table.database, self._table.name, to=RENAMED)
        self._new.create_table()
        self._table.admin.unlock(self._lock)
        for value in range(WRITES):
            self._new.write({"": {0: insert(value)}})
        self._new_rows = self._new.rows(self._new.now())
