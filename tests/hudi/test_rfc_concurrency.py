"""RFC-48, scenario 4 and conflict resolution: log compactions beside delta commits and compactions."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from py4j.protocol import Py4JJavaError
from sandbox.hudi.look import actions
from sandbox.hudi.table import Ordering, SmallTable

from tests.hudi.conftest import BOTH_ORDERINGS, MakeSomebody, MakeTable
from tests.hudi.somebody import COMPACTION, LOG_COMPACTION, SHARED

OPTIONS = {"hoodie.log.compaction.blocks.threshold": "2"}


@BOTH_ORDERINGS
def test_a_compaction_that_begins_before_the_log_compaction_commits_harms_neither(
    make_table: MakeTable, somebody: MakeSomebody, ordering: Ordering
) -> None:
    table = make_table(ordering)
    merging, compacting = somebody(table, OPTIONS), somebody(table)
    instant = merging.schedule(LOG_COMPACTION)
    assert instant
    merged = merging.execute(LOG_COMPACTION, instant)
    compaction = compacting.schedule(COMPACTION)
    assert compaction
    compacted = compacting.execute(COMPACTION, compaction)
    merging.commit(LOG_COMPACTION, instant, merged)
    table.check("with the log compaction committed")
    compacting.commit(COMPACTION, compaction, compacted)
    table.check("with both committed")
    table.upsert(range(60, 80), 50)
    table.check("with a block on top")
    somebody(table).all_of(COMPACTION)
    table.check("after the next compaction")


def test_a_log_compaction_that_a_later_compaction_overtook_never_runs(
    table: SmallTable, somebody: MakeSomebody
) -> None:
    client = somebody(table, OPTIONS)
    instant = client.schedule(LOG_COMPACTION)
    assert instant
    client.all_of(COMPACTION)
    with pytest.raises(Py4JJavaError, match="greater timestamp"):
        client.execute(LOG_COMPACTION, instant)
    table.check("with a stale plan")


class SlowWriter:
    """Upserts, and waits with open commit, in the middle of its rows, for the end of a pipe."""

    def __init__(self, table: SmallTable, pipe: Path, ids: range, ts: int) -> None:
        self.error: Exception | None = None
        self._table, self._pipe, self._ids, self._ts = table, pipe, ids, ts

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Let it write while the body runs, and end it afterwards."""
        os.mkfifo(self._pipe)
        thread = Thread(target=self._write)
        thread.start()
        end = os.open(self._pipe, os.O_WRONLY)
        self._pipe.unlink()
        try:
            yield
        finally:
            os.close(end)
            thread.join()

    def _write(self) -> None:
        from pyspark.sql.functions import udf

        name = str(self._pipe)

        @udf("string")
        def waiting(value: str) -> str:
            if Path(name).exists():
                Path(name).read_bytes()
            return value

        rows = self._table.rows(self._ids, self._ts).withColumn("v", waiting("v"))
        try:
            rows.write.format("hudi").options(**self._table.options).mode("append").save(str(self._table.location))
        except Exception as error:
            self.error = error


def writer_loses(table: SmallTable, writer: SlowWriter, somebody: MakeSomebody, action: str) -> None:
    """Commit something while the writer is at work; see that it fails, harms nothing, and may try again."""
    with writer.at_work():
        instant = somebody(table, OPTIONS | SHARED).all_of(action)
    assert actions(table.location, instant)[0] in ("commit", "deltacommit")
    assert "conflict" in str(writer.error).lower()
    table.check("after the writer failed")
    table.upsert(range(30, 60), 50)
    table.check("after its next try")
    somebody(table, SHARED).all_of(COMPACTION)
    table.check("after a compaction")


def test_a_log_compaction_commits_beside_a_delta_commit_and_the_writer_tries_again(
    make_table: MakeTable, somebody: MakeSomebody, tmp_path: Path
) -> None:
    """Other than the RFC has it: the log compaction always commits, the writer of the same file group does not."""
    table = make_table(options=SHARED)
    writer_loses(table, SlowWriter(table, tmp_path / "pipe", range(30, 60), 50), somebody, LOG_COMPACTION)


@pytest.mark.only("1.0.2")
def test_on_1_0_2_a_writer_loses_against_a_compaction_as_well(
    make_table: MakeTable, somebody: MakeSomebody, tmp_path: Path
) -> None:
    table = make_table(options=SHARED)
    writer_loses(table, SlowWriter(table, tmp_path / "pipe", range(30, 60), 50), somebody, COMPACTION)


@pytest.mark.only("1.2.0")
def test_on_1_2_0_a_compaction_commits_beside_a_delta_commit_and_neither_fails(
    make_table: MakeTable, somebody: MakeSomebody, tmp_path: Path
) -> None:
    table = make_table(options=SHARED)
    writer = SlowWriter(table, tmp_path / "pipe", range(30, 60), 50)
    with writer.at_work():
        somebody(table, SHARED).all_of(COMPACTION)
    assert writer.error is None
    table.expect(range(30, 60), 50)
    table.check("after both")
