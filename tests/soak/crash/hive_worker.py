"""A Worker of Hive 3.1 that compacts the same table: it lists when it begins, and publishes as late as it can.

It runs in the metastore's own process. It waits at a named pipe, which it takes for the checksums of a file that it
reads (ChecksumFileSystem), until nothing else moves any more.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from sandbox.harness.wait import wait_until

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.conditions import SUCCEEDED, Condition, find_condition
from compaction_operator.api.request import Reason
from compaction_operator.controller.kube.resources import Cleanup, Compaction
from tests.integration.oracle.hive import Row
from tests.soak.crash.table import Table, insert
from tests.soak.crash.verify import Before, hidden, left_behind, misread, wrongly_gone

WORKER_SECONDS = 40.0
"""A Worker looks into the queue every 5 s."""


class HiveWorker:
    """Two writes come in, Hive is asked for a minor compaction, and its Worker begins."""

    def __init__(self, table: Table, before: Before) -> None:
        self._table = table
        self._before = before
        self._rows: Mapping[str, list[Row]] = before.rows
        self._pipe = Path()
        self._writing_end: int | None = None

    def begin(self) -> None:
        """Return when the Worker has listed the table, and reads."""
        for value in (901, 902):
            last = self._table.write({"": {0: insert(value)}})
        self._rows = self._table.rows(self._table.now())
        self._pipe = Path(self._table.location / f"delta_{last:07}_{last:07}_0000" / ".bucket_00000.crc")
        os.mkfifo(self._pipe)
        self._table.admin.compact(self._table.database, self._table.name, type_=CompactionType.MINOR)
        wait_until(self._reads, timeout=WORKER_SECONDS, what="Hive's Worker to read")

    def step(self, compaction: Compaction, cleanups: Sequence[Cleanup]) -> None:
        """Let the Worker go on once all others have ended, or wait for it."""
        back_off = compaction.status.back_off
        waits = back_off is not None and back_off.reason == Reason.IN_COMPACTION_QUEUE
        rest = (cleanup.ended or _why(cleanup).reason == Reason.IN_COMPACTION_QUEUE for cleanup in cleanups)
        if self._writing_end is not None and (compaction.ended or waits) and all(rest):
            os.close(self._writing_end)
            self._writing_end = None

    def is_over(self, compaction: Compaction, cleanups: Sequence[Cleanup]) -> bool:
        """Whether all have ended; a cleanup that finds that two compactions overlap never does."""
        if self._writing_end is not None or not compaction.ended:
            return False
        entries = self._table.admin.compactions(self._table.database, self._table.name)
        at_work = any(entry.is_open for entry in entries)
        return not at_work and all(cleanup.ended or "overlap" in _why(cleanup).message for cleanup in cleanups)

    def differences(self, compaction: Compaction, cleanups: Sequence[Cleanup]) -> Iterator[str]:
        """The table has its rows; or the compaction says that two overlap, and what docs/operate.md says helps."""
        yield from wrongly_gone(self._table, self._before, cleanups)
        yield from hidden(self._table)
        yield from left_behind(self._table)
        if _why(compaction).reason == Reason.OVERLAPPED:
            self._take_out_of_sight(cleanup for cleanup in cleanups if not cleanup.ended)
        for message in misread(self._table, self._table.now(), self._rows).values():
            yield f"a reader sees {message}"

    def _take_out_of_sight(self, cleanups: Iterable[Cleanup]) -> None:
        for output in [output for cleanup in cleanups for entry in cleanup.spec.partitions for output in entry.outputs]:
            (self._table.location / output).rename(self._table.location / f"_overlapping_{output}")

    def _reads(self) -> bool:
        try:
            self._writing_end = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # as long as it has no other end
            return False
        self._pipe.unlink()  # neither a driver nor the Worker itself, which opens it twice, is to find it
        return True


def _why(resource: Compaction | Cleanup) -> Condition:
    found = find_condition(resource.status.conditions, SUCCEEDED)
    assert found is not None
    return found
