"""What a dead attempt left in a real Hive 4 metastore is ended, and nothing of anybody else's."""

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from sandbox.harness.places import copy_tree
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.cleanup import CompactionCleanupSpec, PublishedState
from compaction_operator.api.compaction import BackOff, CompactionType, TableCompactionStatus
from compaction_operator.api.request import Reason, agent_info, queue_pool
from compaction_operator.cleanup.staging import staging_name
from compaction_operator.controller.answers import Automatic, Trouble
from compaction_operator.controller.kube.resources import Compaction
from compaction_operator.driver.errors import JobError
from compaction_operator.metastore import AutoCompaction, LockKind, LockWish, QueueState
from tests.integration.metastore.controller_steps import ControllerSteps, attempt_of, cleanup, read_lock, real_work
from tests.integration.metastore.fixture_table import FixtureTable
from tests.unit.driver.support import REQUEST, Store

SERVERS = ("4.0.1",)

OUTPUT = "delta_0000001_0000003"
DELTAS = [f"delta_000000{n}_000000{n}_0000" for n in (1, 2, 3)]


@dataclass
class Holder:
    """A driver of one attempt, by what it holds; it may die with any of it."""

    table: FixtureTable
    attempt: int
    uid: str = REQUEST.uid
    txn: int = 0
    queue_id: int = 0

    @property
    def agent(self) -> str:
        """The name under which it holds things."""
        return agent_info(uid=self.uid, attempt=self.attempt, pod_uid="pod1")

    def hold(self, *, up_to: str) -> "Holder":
        """Take what a driver takes, one after the other, up to that step."""
        for step in ("enqueue", "take", "open", "lock", "update", "compacted", "commit"):
            getattr(self, f"_{step}")()
            if step == up_to:
                return self
        raise ValueError(up_to)

    @property
    def _admin(self) -> MetastoreAdmin:
        return self.table.admin

    @property
    def _pool(self) -> str:
        return queue_pool(uid=self.uid, attempt=self.attempt, pod_uid="pod1")

    def _enqueue(self) -> None:
        entry = self._admin.enqueue_compaction(
            database=self.table.database,
            table=self.table.name,
            partition=None,
            type=CompactionType.MINOR,
            pool=self._pool,
        )
        assert entry is not None
        self.queue_id = entry.queue_id

    def _take(self) -> None:
        job = self._admin.take_compaction(pool=self._pool, worker=self.agent)
        assert job is not None
        self._job = replace(job, highest_write_id=3)

    def _open(self) -> None:
        self.txn = self._admin.open_compaction_txn(agent=self.agent)

    def _lock(self) -> None:
        self.lock(txn=self.txn)

    def lock(self, *, txn: int = 0) -> int:
        """Take a SHARED_READ lock on the table."""
        wish = LockWish(
            database=self.table.database, table=self.table.name, kind=LockKind.SHARED_READ, agent=self.agent, txn=txn
        )
        return self._admin.lock(wish).lock_id

    def _update(self) -> None:
        self._admin.update_compaction(self._job, self.txn)

    def _compacted(self) -> None:
        self._admin.mark_compacted(self._job)

    def _commit(self) -> None:
        self._admin.commit_txn(self.txn)


def journal_of(table: FixtureTable, holder: Holder, output: str) -> CompactionCleanupSpec:
    """The journal that the holder would have written."""
    found = table.admin.get_table(table.database, table.name)
    return CompactionCleanupSpec.model_validate(
        {
            "warehouse": REQUEST.warehouse.name,
            "table": {
                "database": table.database,
                "name": table.name,
                "createTime": found.create_time,
                "location": found.location,
                "tableId": found.table_id,
            },
            "compaction": {"name": "c", "uid": REQUEST.uid, "attempt": holder.attempt, "job": "j", "podUid": "pod1"},
            "partitions": [
                {
                    "partition": "",
                    "location": found.location,
                    "createTime": found.create_time,
                    "txnId": holder.txn,
                    "queueId": holder.queue_id,
                    "outputs": [output],
                    "highestWriteId": 3,
                    "obsolete": [{"name": name, "reason": "merged"} for name in DELTAS],
                }
            ],
        }
    )


@pytest.mark.parametrize("up_to", ["enqueue", "take", "open", "lock", "update", "compacted"])
def test_an_attempt_that_died_before_its_journal_holds_nothing_any_more(
    three_inserts: FixtureTable, server: MetastoreServer, up_to: str
) -> None:
    """At each step; else its entry would keep everybody out of the table for ever."""
    Holder(three_inserts, 1).hold(up_to=up_to)
    stranger = Holder(three_inserts, 11).lock()
    reader = read_lock(three_inserts)
    assert real_work(three_inserts, server.uri).end_attempt(attempt_of(three_inserts, 1)) is None
    assert sorted(three_inserts.locks()) == sorted([stranger, reader])
    assert three_inserts.own_transactions() == []
    assert {entry.state for entry in three_inserts.queue()} <= {QueueState.FAILED}
    for lock in (stranger, reader):
        three_inserts.admin.unlock(lock)


def _renamed(table: FixtureTable, holder: Holder) -> str:
    """Put an output in its place, as right before the commit."""
    name = f"{OUTPUT}_v{holder.txn:07d}"
    copy_tree(table.directory / DELTAS[0], table.directory / name)
    return name


@pytest.mark.hdfs
@pytest.mark.s3
@pytest.mark.parametrize("up_to", ["update", "compacted"])
def test_outputs_that_were_renamed_but_never_committed_are_removed(
    three_inserts: FixtureTable, server: MetastoreServer, up_to: str
) -> None:
    """H10: no snapshot ever includes them."""
    holder = Holder(three_inserts, 1).hold(up_to=up_to)
    output = _renamed(three_inserts, holder)
    steps = ControllerSteps(real_work(three_inserts, server.uri), cleanup(journal_of(three_inserts, holder, output)))
    assert steps.settle() == {"": PublishedState.NOT_PUBLISHED}
    assert three_inserts.names() == DELTAS
    assert steps.settle() == {"": PublishedState.NOT_PUBLISHED}
    assert [entry.state for entry in three_inserts.queue()] == [QueueState.FAILED]
    (result,) = steps.delete()
    assert result.reason == "NotPublished"
    assert three_inserts.names() == DELTAS


@pytest.mark.parametrize("marked", [False, True])
def test_what_was_committed_stays_published_whatever_came_of_the_driver(
    three_inserts: FixtureTable, server: MetastoreServer, marked: bool
) -> None:
    """Also if it died before it marked its entry: the controller does so, and the cleanup ends the entry."""
    holder = Holder(three_inserts, 1).hold(up_to="update")
    output = _renamed(three_inserts, holder)
    holder._commit()
    if marked:
        holder._compacted()
    steps = ControllerSteps(real_work(three_inserts, server.uri), cleanup(journal_of(three_inserts, holder, output)))
    assert steps.settle() == {"": PublishedState.PUBLISHED}
    assert [entry.state for entry in three_inserts.queue()] == [QueueState.READY_FOR_CLEANING]
    steps.delete()
    steps.finish()
    assert [entry.state for entry in three_inserts.queue()] == [QueueState.SUCCEEDED]


def test_a_journal_cannot_end_anybody_elses_work(three_inserts: FixtureTable, server: MetastoreServer) -> None:
    """It names a stranger's transaction, lock and queue entry by id: the controller ends none and decides nothing."""
    stranger = Holder(three_inserts, 7, uid="somebody-else").hold(up_to="update")
    output = _renamed(three_inserts, stranger)
    forged = replace(stranger, attempt=1)
    spec = journal_of(three_inserts, forged, output)
    settled = real_work(three_inserts, server.uri).settle(cleanup(spec), driver_ended=True)
    assert isinstance(settled, Trouble)
    assert f"transaction {stranger.txn} is neither committed nor aborted" in settled.message
    assert stranger.txn in three_inserts.own_transactions()
    assert [entry.state for entry in three_inserts.queue()] == [QueueState.WORKING]
    assert output in three_inserts.names()
    three_inserts.admin.abort_txn(stranger.txn)


def test_a_journal_from_elsewhere_cannot_end_a_live_attempt(
    three_inserts: FixtureTable, server: MetastoreServer
) -> None:
    """It names the attempt itself, as SHOW LOCKS tells it: only its own namespace's controller may end it at once."""
    victim = Holder(three_inserts, 1).hold(up_to="update")
    output = _renamed(three_inserts, victim)
    staging = three_inserts.directory / staging_name(uid=REQUEST.uid, attempt=1, pod_uid="pod1")
    staging.mkdir()
    forged = cleanup(journal_of(three_inserts, victim, output))
    work = real_work(three_inserts, server.uri)
    settled = work.settle(forged, driver_ended=False)
    assert isinstance(settled, Trouble)
    assert "is alive" in settled.message
    assert victim.txn in three_inserts.own_transactions()
    assert staging.exists()
    work.settle(forged, driver_ended=True)
    assert victim.txn not in three_inserts.own_transactions()


def test_a_table_with_a_foreign_queue_entry_is_not_begun_and_the_entry_is_named(
    three_inserts: FixtureTable, server: MetastoreServer
) -> None:
    """And whether Hive may compact it by itself."""
    work = real_work(three_inserts, server.uri)
    free = work.preflight(attempt_of(three_inserts, 1))
    assert (free.reason, free.automatic) == (None, Automatic(AutoCompaction.INITIATOR_OFF, cleaner=False))
    entry = three_inserts.admin.enqueue_compaction(
        database=three_inserts.database,
        table=three_inserts.name,
        partition=None,
        type=CompactionType.MAJOR,
        pool="theirs",
    )
    assert entry is not None
    busy = work.preflight(attempt_of(three_inserts, 1))
    assert busy.reason is Reason.IN_COMPACTION_QUEUE
    assert f"entry {entry.queue_id} (initiated)" in busy.message


def _states(table: FixtureTable) -> list[QueueState]:
    return [entry.state for entry in table.queue()]


@pytest.mark.parametrize("up_to", ["enqueue", "take", "lock", "update"])
def test_what_an_earlier_attempt_got_after_its_burial_is_ended_before_the_next_begins(
    three_inserts: FixtureTable, server: MetastoreServer, up_to: str
) -> None:
    """Its call took effect late: no burial of a later attempt leads to it, and its driver would refuse for ever."""
    work = real_work(three_inserts, server.uri)
    assert work.end_attempt(attempt_of(three_inserts, 1)) is None
    Holder(three_inserts, 1).hold(up_to=up_to)
    assert work.end_attempt(attempt_of(three_inserts, 2)) is None
    assert work.preflight(attempt_of(three_inserts, 2)).reason is None
    assert three_inserts.own_transactions() == []
    assert three_inserts.run(attempt=3).reason is Reason.COMPACTED
    assert _states(three_inserts) == [QueueState.FAILED, QueueState.READY_FOR_CLEANING]


def test_the_work_of_a_compaction_that_was_deleted_ends_with_its_transaction(
    three_inserts: FixtureTable, server: MetastoreServer
) -> None:
    """Its driver was killed before the journal, so no cleanup settles it. The preflight names it while it may live."""
    holder = Holder(three_inserts, 1, uid="deleted").hold(up_to="update")
    work = real_work(three_inserts, server.uri, ahead=timedelta(hours=1))
    busy = work.preflight(attempt_of(three_inserts, 0))
    assert busy.reason is Reason.IN_COMPACTION_QUEUE
    assert f"entry {holder.queue_id} (working" in busy.message
    assert holder.txn in three_inserts.own_transactions()
    three_inserts.admin.abort_txn(holder.txn)  # as the metastore does when its heartbeat has stopped
    assert work.preflight(attempt_of(three_inserts, 0)).reason is None
    assert three_inserts.run().reason is Reason.COMPACTED
    assert _states(three_inserts) == [QueueState.FAILED, QueueState.READY_FOR_CLEANING]


@pytest.mark.parametrize("up_to", ["enqueue", "take"])
def test_an_entry_without_a_transaction_counts_as_live_for_some_minutes(
    three_inserts: FixtureTable, server: MetastoreServer, up_to: str
) -> None:
    Holder(three_inserts, 1, uid="deleted").hold(up_to=up_to)
    soon = real_work(three_inserts, server.uri, ahead=timedelta(minutes=8))
    assert soon.preflight(attempt_of(three_inserts, 0)).reason is Reason.IN_COMPACTION_QUEUE
    later = real_work(three_inserts, server.uri, ahead=timedelta(minutes=12))
    assert later.preflight(attempt_of(three_inserts, 0)).reason is None
    assert _states(three_inserts) == [QueueState.FAILED]


def test_a_driver_that_waits_for_its_lock_is_alive_though_its_entry_names_no_transaction(
    three_inserts: FixtureTable, server: MetastoreServer
) -> None:
    """It may be of another cluster. While its transaction lives, the controller touches nothing of it."""
    holder = Holder(three_inserts, 1, uid="elsewhere").hold(up_to="lock")
    work = real_work(three_inserts, server.uri, ahead=timedelta(hours=1))
    assert work.preflight(attempt_of(three_inserts, 0)).reason is Reason.IN_COMPACTION_QUEUE
    assert holder.txn in three_inserts.own_transactions()
    three_inserts.admin.abort_txn(holder.txn)
    assert work.preflight(attempt_of(three_inserts, 0)).reason is None
    assert _states(three_inserts) == [QueueState.FAILED]


def test_a_compaction_that_was_kept_out_makes_no_more_jobs_until_the_queue_would_let_it_in(
    three_inserts: FixtureTable, server: MetastoreServer
) -> None:
    """What is compacted waits for its cleanup, which may take days; Hive 4 takes no other entry until then."""
    assert three_inserts.run(store=Store()).reason is Reason.COMPACTED
    (entry,) = three_inserts.queue()
    work = real_work(three_inserts, server.uri)
    first = attempt_of(three_inserts, 0)
    assert work.preflight(first).reason is None
    with pytest.raises(JobError) as kept_out:
        three_inserts.run(CompactionType.MAJOR, attempt=1)
    assert kept_out.value.reason is Reason.IN_COMPACTION_QUEUE
    waits = work.preflight(after(first, kept_out.value))
    assert waits.reason is Reason.IN_COMPACTION_QUEUE
    assert f"entry {entry.queue_id} (ready for cleaning" in waits.message
    assert waits.message.endswith("; wait until it is cleaned up, or something is written")
    three_inserts.write()
    assert work.preflight(after(first, kept_out.value)).reason is None
    assert three_inserts.run(CompactionType.MAJOR, attempt=2).reason is Reason.COMPACTED


def after(compaction: Compaction, error: JobError) -> Compaction:
    """The compaction after an attempt that ended with that error."""
    told = BackOff(reason=error.reason, message=str(error))
    status = TableCompactionStatus(attempt=compaction.status.attempt + 1, back_off=told)
    return Compaction(compaction.meta, compaction.spec, status, compaction.raw)
