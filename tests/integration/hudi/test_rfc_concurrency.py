"""RFC-48, scenario 4 and conflict resolution: log compactions beside delta commits and compactions."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from py4j.protocol import Py4JJavaError
from sandbox.hudi.look import actions, log_blocks, merged_blocks, timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering, SmallTable

from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hudi.flow import HudiCompaction
from compaction_operator.hudi import HudiError, Plan
from tests.integration.hudi import job
from tests.integration.hudi.conftest import MakeOtherClient, MakeTable
from tests.integration.hudi.job import Jobs
from tests.integration.hudi.other_client import COMPACTION, LOG_COMPACTION, SHARED

pytestmark = pytest.mark.metadata_table

OPTIONS = {"hoodie.log.compaction.blocks.threshold": "2"}


def test_a_compaction_that_begins_before_the_log_compaction_commits_harms_neither(
    make_table: MakeTable, other_client: MakeOtherClient
) -> None:
    """NB: by commit time; by event time rows are right in whatever order blocks are read."""
    table = make_table(Ordering.COMMIT_TIME)
    merging, compacting = other_client(table, OPTIONS), other_client(table)
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
    other_client(table).all_of(COMPACTION)
    table.check("after the next compaction")


def test_a_log_compaction_that_a_later_compaction_overtook_never_runs(
    table: SmallTable, other_client: MakeOtherClient
) -> None:
    client = other_client(table, OPTIONS)
    instant = client.schedule(LOG_COMPACTION)
    assert instant
    client.all_of(COMPACTION)
    with pytest.raises(Py4JJavaError, match="greater timestamp"):
        client.execute(LOG_COMPACTION, instant)
    table.check("with a stale plan")


def merge(jobs: Jobs, table: SmallTable, meanwhile: Callable[[str], None]) -> DriverResult:
    """Run the operator's log compaction, and do something with its instant between what it executes and its commit."""
    begun: list[str] = []

    def lost() -> bool:
        found = [name for name in timeline(table.location) if name.endswith(".logcompaction.inflight")]
        if found and not begun:
            begun.append(found[0].partition(".")[0])
            meanwhile(begun[0])
        return False

    result = jobs.run(table, job.LOG_COMPACTION, options=OPTIONS, lost=lost)
    assert begun
    return result


def not_committed(hudi: HudiSession, table: SmallTable, run: Callable[[], DriverResult]) -> None:
    """Run a log compaction that is overtaken. The operator must roll it back, so that the next run plans again."""
    with pytest.raises(JobError, match="overtaken") as refused:
        run()
    assert refused.value.reason is Reason.WAITING_FOR_INSTANT
    assert not merged_blocks(hudi, table.location)
    assert not [name for name in timeline(table.location) if ".logcompaction." in name]
    assert [name for name in timeline(table.location) if name.endswith(".rollback")]


def test_a_compaction_that_begins_before_the_operators_log_compaction_commits(
    hudi: HudiSession, make_table: MakeTable, jobs: Jobs, other_client: MakeOtherClient
) -> None:
    """With 1.0.2 it is not committed, as readers would put it over the compacted rows; with 1.2.0 both are."""
    table, planned = make_table(Ordering.COMMIT_TIME), list[str]()
    client = other_client(table)

    def meanwhile(_: str) -> None:
        table.upsert(range(30, 65), 35)
        planned.append(client.schedule(COMPACTION) or "")

    if hudi.version == "1.0.2":
        not_committed(hudi, table, lambda: merge(jobs, table, meanwhile))
    else:
        assert merge(jobs, table, meanwhile).reason is Reason.COMPACTED
        assert len(merged_blocks(hudi, table.location)) == 1
    table.check("with the compaction pending")
    client.run(COMPACTION, planned[0])
    table.check("after the compaction")


@pytest.mark.only("1.0.2")
def test_hudi_itself_rejects_what_a_compaction_overtakes_after_the_operators_last_check(
    hudi: HudiSession,
    make_table: MakeTable,
    jobs: Jobs,
    other_client: MakeOtherClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Readers would put the merged block over the compacted rows. NB: other strategies for conflicts let it pass."""
    table, planned = make_table(Ordering.COMMIT_TIME), list[str]()
    compacting, confirm = other_client(table), HudiCompaction._confirm

    def confirm_then_overtake(compaction: HudiCompaction, plan: Plan) -> None:
        confirm(compaction, plan)
        table.upsert(range(30, 65), 35)
        planned.append(compacting.schedule(COMPACTION) or "")

    monkeypatch.setattr(HudiCompaction, "_confirm", confirm_then_overtake)
    with pytest.raises(HudiError, match="Cannot resolve conflicts"):
        jobs.run(table, job.LOG_COMPACTION, options=OPTIONS)
    assert not merged_blocks(hudi, table.location)
    compacting.run(COMPACTION, planned[0])
    table.check("after the compaction")


@pytest.mark.only("1.0.2")
def test_a_delta_commit_that_comes_late_with_an_earlier_instant_overtakes_the_operators_log_compaction(
    hudi: HudiSession, make_table: MakeTable, jobs: Jobs, other_client: MakeOtherClient
) -> None:
    """Its writer took the instant before the plan was made, and wrote it down afterwards: its rows are the newer."""
    table = make_table(Ordering.COMMIT_TIME)
    planned = jobs.run(table, job.LOG_COMPACTION, options=OPTIONS, mode="Schedule").hudi
    assert planned is not None
    table.upsert(range(30, 65), 35)
    later = str(other_client(table).client.createNewInstantTime(False))
    folder = table.location / ".hoodie" / "timeline"
    (folder / f"{planned.instant}.logcompaction.requested").rename(folder / f"{later}.logcompaction.requested")
    not_committed(hudi, table, lambda: jobs.run(table, job.LOG_COMPACTION, options=OPTIONS, mode="Execute"))
    table.check("after the rollback")
    assert jobs.done(table, job.LOG_COMPACTION, options=OPTIONS).blocks_in == 5
    table.check("after the next")


def test_a_delta_commit_that_completes_before_the_operators_log_compaction_commits_stays_above_it(
    hudi: HudiSession, make_table: MakeTable, jobs: Jobs, other_client: MakeOtherClient
) -> None:
    """NB: in version 6 such a one overtakes it (test_slow_writers)."""
    table = make_table(Ordering.COMMIT_TIME)
    assert merge(jobs, table, lambda _: table.upsert(range(30, 65), 35)).reason is Reason.COMPACTED
    (merged,) = merged_blocks(hudi, table.location)
    instants = sorted(block.instant for block in log_blocks(hudi, table.location))
    assert merged.merged == set(instants[:4])
    assert (merged.instant, len(instants)) == (instants[4], 6)
    table.check("after the log compaction")
    other_client(table).all_of(COMPACTION)
    table.check("after the compaction")


def test_a_log_compaction_that_another_client_rolled_back_meanwhile_is_not_committed(
    hudi: HudiSession, table: SmallTable, jobs: Jobs, other_client: MakeOtherClient
) -> None:
    """Its driver was taken for dead, and is not."""

    def meanwhile(instant: str) -> None:
        with pytest.raises(Py4JJavaError, match="Inflight logcompaction"):
            other_client(table).execute(LOG_COMPACTION, instant)
        assert actions(table.location, instant) == []

    with pytest.raises(JobError, match="not this driver's any more: it is gone"):
        merge(jobs, table, meanwhile)
    assert not merged_blocks(hudi, table.location)
    assert len([name for name in timeline(table.location) if name.endswith(".deltacommit")]) == 5
    table.check("after it failed")


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


def writer_loses(table: SmallTable, writer: SlowWriter, other_client: MakeOtherClient, action: str) -> None:
    """Commit something while the writer is at work; see that it fails, harms nothing, and may try again."""
    with writer.at_work():
        instant = other_client(table, OPTIONS | SHARED).all_of(action)
    assert actions(table.location, instant)[0] in ("commit", "deltacommit")
    assert "conflict" in str(writer.error).lower()
    table.check("after the writer failed")
    table.upsert(range(30, 60), 50)
    table.check("after its next try")
    other_client(table, SHARED).all_of(COMPACTION)
    table.check("after a compaction")


def test_a_log_compaction_commits_beside_a_delta_commit_and_the_writer_tries_again(
    make_table: MakeTable, other_client: MakeOtherClient, tmp_path: Path
) -> None:
    """Unlike in the RFC, the log compaction always commits, the writer of the same file group does not."""
    table = make_table(options=SHARED)
    writer_loses(table, SlowWriter(table, tmp_path / "pipe", range(30, 60), 50), other_client, LOG_COMPACTION)


@pytest.mark.only("1.0.2")
def test_on_1_0_2_a_writer_loses_against_a_compaction_as_well(
    make_table: MakeTable, other_client: MakeOtherClient, tmp_path: Path
) -> None:
    table = make_table(options=SHARED)
    writer_loses(table, SlowWriter(table, tmp_path / "pipe", range(30, 60), 50), other_client, COMPACTION)


@pytest.mark.only("1.2.0")
def test_on_1_2_0_a_compaction_commits_beside_a_delta_commit_and_neither_fails(
    make_table: MakeTable, other_client: MakeOtherClient, tmp_path: Path
) -> None:
    table = make_table(options=SHARED)
    writer = SlowWriter(table, tmp_path / "pipe", range(30, 60), 50)
    with writer.at_work():
        other_client(table, SHARED).all_of(COMPACTION)
    assert writer.error is None
    table.expect(range(30, 60), 50)
    table.check("after both")
