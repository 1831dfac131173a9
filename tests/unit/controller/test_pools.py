"""A pool of Hive 4's compaction queue: which entries are taken, what is created for them, and how each of them ends."""

from typing import Any

import pytest

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.policy import Template
from compaction_operator.api.request import DriverResult, Reason, queue_compaction_name, queue_worker
from compaction_operator.controller.kube.client import KubeError, Raw
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.metastore import Generation, MetastoreUnavailable, QueueEntry, QueueState
from tests.support.metastore import ABORTED, COMMITTED
from tests.unit.controller.sandbox import KilledError, Sandbox, compaction_raw, condition, runs, with_pool

POOL = "k8s"
WORKER = queue_worker("lake")
FIRST = queue_compaction_name("lake", 1)
INTERVAL = 5.0


def sandbox(**queue: Any) -> Sandbox:
    return Sandbox(config=with_pool(**queue))


def enqueue(box: Sandbox, *tables: str, partition: str | None = None) -> None:
    for table in tables:
        assert box.work.pool.enqueue_compaction(
            database="sales", table=table, partition=partition, type=CompactionType.MAJOR, pool=POOL
        )


async def started(*tables: str, partition: str | None = None, **queue: Any) -> Sandbox:
    box = sandbox(**queue)
    enqueue(box, *tables, partition=partition)
    await box.start()
    return box


def entries(box: Sandbox) -> list[tuple[QueueState, str | None]]:
    return [(entry.state, entry.error) for entry in box.work.pool.queue]


def states(box: Sandbox) -> list[QueueState]:
    return [entry.state for entry in box.work.pool.queue]


def created(box: Sandbox) -> list[Raw]:
    return box.kube.all(ResourceKind.COMPACTION)


def end(box: Sandbox, reason: Reason, message: str, *, ok: bool) -> None:
    """Let the driver of each running compaction end."""
    for job in box.kube.jobs():
        box.kube.end_job(job, DriverResult(reason=reason, message=message), ok=ok)


@runs
async def test_without_a_pool_the_queue_is_not_looked_at() -> None:
    box = Sandbox()
    enqueue(box, "orders")
    await box.start()
    await box.pass_time(600)
    assert states(box) == [QueueState.INITIATED]
    assert box.work.pool.asked("pool_compactions") == []


@runs
async def test_an_entry_is_taken_and_names_its_compaction_as_its_job() -> None:
    template = Template.model_validate({"cleanup": {"gracePeriod": "10m"}, "deadline": "2h"})
    box = await started("orders", partition="day=1/place=a,b", template=template)
    (entry,), (made,) = box.work.pool.queue, created(box)
    assert (entry.state, entry.worker, entry.job) == (QueueState.WORKING, WORKER, FIRST)
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == (FIRST, "default")
    assert made["metadata"]["labels"] == {"compaction.dev/queue-pool": POOL}
    assert made["spec"]["table"] == {"database": "sales", "name": "orders"}
    assert made["spec"]["partitions"] == ["day='1',place='a,b'"]
    assert (made["spec"]["type"], made["spec"]["queueId"], made["spec"]["deadline"]) == ("Major", 1, "7200s")
    assert made["spec"]["cleanup"]["gracePeriod"] == "600s"
    assert box.kube.jobs()


@runs
async def test_an_entry_is_taken_only_when_there_is_a_slot() -> None:
    """Until then it is shown as initiated, and ABORT COMPACTIONS can still end it."""
    box = await started("a", "b", "c")
    await box.pass_time(600)
    assert states(box) == [QueueState.WORKING, QueueState.WORKING, QueueState.INITIATED]
    end(box, Reason.NOTHING_TO_COMPACT, "nothing to compact", ok=True)
    await box.pass_time(2 * INTERVAL)
    assert states(box)[2] is QueueState.WORKING


@runs
async def test_an_entry_of_a_table_that_is_busy_keeps_its_slot() -> None:
    box = sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("by-hand", table={"database": "sales", "name": "a"}))
    await box.start()
    enqueue(box, "a", "b", "c")
    await box.pass_time(600)
    assert states(box) == [QueueState.WORKING, QueueState.INITIATED, QueueState.INITIATED]


@pytest.mark.parametrize("die_after", [False, True])
@pytest.mark.parametrize("change", range(1, 5))
def test_a_controller_that_is_killed_takes_up_its_entry_again(change: int, die_after: bool) -> None:
    """Between any two writes there is one TableCompaction at most, and one in the end."""

    @runs
    async def scenario() -> None:
        box = sandbox()
        enqueue(box, "orders")
        box.kube.die_at, box.kube.die_after = change, die_after
        try:
            await box.start()
        except KilledError:
            await box.start()
        assert [raw["metadata"]["name"] for raw in created(box)] == [FIRST]
        assert len(box.kube.jobs()) == 1
        assert [(entry.state, entry.worker, entry.job) for entry in box.work.pool.queue] == [
            (QueueState.WORKING, WORKER, FIRST)
        ]

    scenario()


def lose(*_: object, **__: object) -> None:
    raise MetastoreUnavailable("the answer is lost")


@pytest.mark.parametrize("call", ["take_any_compaction", "set_job"])
def test_an_answer_of_the_metastore_that_is_lost_loses_no_entry(call: str) -> None:
    @runs
    async def scenario() -> None:
        box = sandbox()
        enqueue(box, "orders")
        box.work.pool.on(call, lose, after=True)
        await box.start()
        box.work.pool.recover()
        await box.pass_time(60)
        assert [raw["metadata"]["name"] for raw in created(box)] == [FIRST]
        assert (states(box), box.work.pool.queue[0].job) == ([QueueState.WORKING], FIRST)

    scenario()


@pytest.mark.parametrize(
    ("reason", "ok", "state", "error"),
    [
        (Reason.NOTHING_TO_COMPACT, True, QueueState.REFUSED, "over"),
        (Reason.INSERT_ONLY, False, QueueState.REFUSED, "InsertOnlyTable: over"),
        (Reason.VERIFICATION_FAILED, False, QueueState.FAILED, "VerificationFailed: attempt 3 failed (3 of 3): over"),
    ],
)
def test_an_entry_ends_as_its_compaction_does(reason: Reason, ok: bool, state: QueueState, error: str) -> None:
    @runs
    async def scenario() -> None:
        box = await started("orders")
        box.work.published = False
        for _ in range(3):
            end(box, reason, "over", ok=ok)
            await box.pass_time(60)
        assert entries(box) == [(state, error)]

    scenario()


@runs
async def test_an_entry_of_a_compaction_that_a_person_deleted_has_failed() -> None:
    box = await started("orders")
    box.kube.delete(ResourceKind.COMPACTION, "default", FIRST)
    await box.pass_time(INTERVAL)
    assert entries(box) == [(QueueState.FAILED, f"TableCompaction {FIRST} was deleted")]
    assert created(box) == []


@runs
async def test_a_compaction_that_the_watch_has_not_brought_is_not_taken_for_deleted() -> None:
    box = sandbox()
    box.create()
    box.kube.watchers.clear()
    enqueue(box, "orders")
    await box.run()
    await box.pass_time(60)
    assert states(box) == [QueueState.WORKING]
    assert len(created(box)) == 1


@runs
async def test_an_entry_of_a_type_of_a_later_hive_holds_up_no_other() -> None:
    box = sandbox()
    enqueue(box, "a", "b")
    box.work.pool.change_entries(1, type=None, type_name="type 9")
    await box.start()
    await box.pass_time(INTERVAL)
    (refused, error), (working, _) = entries(box)
    assert (refused, working, len(created(box))) == (QueueState.REFUSED, QueueState.WORKING, 1)
    assert error is not None and error.startswith("type 9 is not supported")


@runs
async def test_a_type_that_is_not_supported_is_refused_without_a_compaction() -> None:
    box = sandbox()
    enqueue(box, "orders")
    box.work.pool.change_entries(1, type=None, type_name="REBALANCE")
    await box.start()
    ((state, error),) = entries(box)
    assert (state, created(box)) == (QueueState.REFUSED, [])
    assert error is not None and error.startswith("REBALANCE is not supported")


@pytest.mark.parametrize(
    ("outcome", "state"),
    [(ABORTED, QueueState.FAILED), (COMMITTED, QueueState.READY_FOR_CLEANING), ("OPEN", QueueState.READY_FOR_CLEANING)],
)
def test_an_entry_that_is_marked_and_will_not_be_committed_has_failed(outcome: str, state: QueueState) -> None:
    """Hive's Cleaner would take it for compacted."""

    @runs
    async def scenario() -> None:
        box = await started("orders")
        pool = box.work.pool
        txn = pool.open_compaction_txn(agent="driver")
        pool.change_entries(1, state=QueueState.READY_FOR_CLEANING, worker=None, txn=txn)
        if outcome == ABORTED:
            pool.end_txn(txn, ABORTED)
        if outcome == COMMITTED:  # right between the two lists
            pool.on("open_transactions", lambda: pool.commit_txn(txn))
        await box.pass_time(INTERVAL)
        assert states(box) == [state]

    scenario()


@pytest.mark.parametrize(
    ("outcome", "state"), [(ABORTED, QueueState.FAILED), (COMMITTED, QueueState.READY_FOR_CLEANING)]
)
def test_the_driver_of_a_compaction_that_was_deleted_may_still_publish(outcome: str, state: QueueState) -> None:
    """Its entry ends when its transaction has ended, and as that did."""

    @runs
    async def scenario() -> None:
        box = await started("orders")
        pool = box.work.pool
        txn = pool.open_compaction_txn(agent="driver")
        pool.change_entries(1, txn=txn)
        box.kube.delete(ResourceKind.COMPACTION, "default", FIRST)
        await box.pass_time(2 * INTERVAL)
        assert states(box) == [QueueState.WORKING]
        pool.commit_txn(txn) if outcome == COMMITTED else pool.abort_txn(txn)
        await box.pass_time(INTERVAL)
        assert states(box) == [state]

    scenario()


@pytest.mark.parametrize("deleted", [False, True])
def test_an_entry_that_was_committed_and_not_marked_is_marked(deleted: bool) -> None:
    """Its driver died in between: it is published, whatever became of its TableCompaction."""

    @runs
    async def scenario() -> None:
        box = await started("orders")
        pool = box.work.pool
        txn = pool.open_compaction_txn(agent="driver")
        pool.change_entries(1, txn=txn)
        await box.pass_time(INTERVAL)
        assert states(box) == [QueueState.WORKING]
        pool.commit_txn(txn)
        if deleted:
            box.kube.delete(ResourceKind.COMPACTION, "default", FIRST)
        await box.pass_time(INTERVAL)
        assert entries(box) == [(QueueState.READY_FOR_CLEANING, None)]

    scenario()


@runs
async def test_an_entry_of_another_worker_in_the_pool_is_left_alone() -> None:
    """One of Hive's own, which may take an entry of any pool after hours, or a client by hand."""
    box = sandbox()
    enqueue(box, "orders")
    box.work.pool.change_entries(1, state=QueueState.WORKING, worker="hive-host-17")
    enqueue(box, "items")
    box.work.pool.change_entries(2, state=QueueState.READY_FOR_CLEANING, txn=4711, committed=None)
    await box.start()
    await box.pass_time(600)
    assert (states(box), created(box)) == ([QueueState.WORKING, QueueState.READY_FOR_CLEANING], [])


def test_hive_3_has_no_pools(caplog: pytest.LogCaptureFixture) -> None:
    """The setting is refused: the log says it once, and the metric goes on counting."""

    @runs
    async def scenario() -> None:
        box = sandbox()
        entry = QueueEntry(queue_id=1, database="sales", table="orders", state=QueueState.INITIATED, pool=POOL)
        box.work.pool.queue, box.work.pool.hive = (entry,), Generation.HIVE3
        await box.start()
        await box.pass_time(60)
        assert (states(box), created(box)) == ([QueueState.INITIATED], [])
        labels = {"warehouse": "lake", "operation": "queue"}
        assert box.metrics.registry.get_sample_value("compaction_operator_errors_total", labels) == 5

    scenario()
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert said.startswith("warehouse lake: its compaction queue: queue.pool k8s is refused: ")


@runs
async def test_while_a_compaction_cannot_be_created_nothing_more_is_taken() -> None:
    box = sandbox()
    enqueue(box, "a", "b")
    create, box.kube.create_compaction = box.kube.create_compaction, forbidden  # type: ignore[method-assign]
    await box.start()
    await box.pass_time(600)
    assert states(box) == [QueueState.WORKING, QueueState.INITIATED]
    box.kube.create_compaction = create  # type: ignore[method-assign]
    await box.pass_time(60)
    assert (states(box), len(created(box))) == ([QueueState.WORKING] * 2, 2)


def forbidden(manifest: Raw) -> Raw:
    raise KubeError("403 Forbidden: exceeded quota")


@runs
async def test_the_metastore_may_be_away_for_a_while() -> None:
    box = sandbox()
    enqueue(box, "orders")
    box.work.pool.fail(MetastoreUnavailable("no answer"), "pool_compactions")
    await box.start()
    assert states(box) == [QueueState.INITIATED]
    box.work.pool.recover()
    await box.pass_time(60)
    assert states(box) == [QueueState.WORKING]


@runs
async def test_an_ended_compaction_is_deleted_after_its_time_and_not_before_its_entry_has_ended() -> None:
    box = await started("orders", ttl=600.0)
    end(box, Reason.NOTHING_TO_COMPACT, "nothing to compact", ok=True)
    box.work.pool.fail(MetastoreUnavailable("no answer"), "mark_refused")
    await box.pass_time(900)
    assert (states(box), len(created(box))) == ([QueueState.WORKING], 1)
    box.work.pool.recover()
    await box.pass_time(60)
    assert (states(box), created(box)) == ([QueueState.REFUSED], [])


@runs
async def test_no_other_compaction_may_work_on_an_entry() -> None:
    """There is one for each entry: its name and namespace follow from the entry."""
    box = sandbox()
    await box.start()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw("mine", queueId=1))
    await box.run()
    verdict = condition(box.compaction("mine"))
    assert (verdict["reason"], verdict["message"]) == (
        "NotAllowed",
        f"only default/{FIRST} may work on entry 1 of the compaction queue",
    )


@runs
async def test_a_compaction_that_has_the_name_and_is_for_something_else_ends_the_entry() -> None:
    box = sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw(FIRST))
    enqueue(box, "items")
    await box.start()
    await box.pass_time(INTERVAL)
    assert entries(box) == [(QueueState.FAILED, f"TableCompaction {FIRST} is not that of entry 1")]


@pytest.mark.parametrize("warehouse", ["main", "a" * 63, "a" * 62 + "b"])
def test_names_are_short_and_differ(warehouse: str) -> None:
    names = {queue_compaction_name(warehouse, number) for number in (1, 17, 10**12)}
    assert len(names) == 3 and all(len(name) <= 32 for name in names)
    assert queue_compaction_name("a" * 63, 1) != queue_compaction_name("a" * 62 + "b", 1)
