"""The flow on Hive 4 over real files: what one partition's trouble, or a dead metastore, does to the others."""

import shutil
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sandbox.harness.places import Place

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import DriverResult, Reason, queue_worker
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive import flow as hive
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.flow import HiveCompaction
from compaction_operator.driver.hive.hive4 import Hive4
from compaction_operator.driver.hive.journal import Journal
from compaction_operator.driver.main import protocol_of
from compaction_operator.driver.merge import partition
from compaction_operator.driver.merge import row_counts as arithmetic
from compaction_operator.driver.merge.runner import LocalRunner
from compaction_operator.metastore import Generation, LockWish, MetastoreUnavailable, QueueState, Target
from compaction_operator.storage import LocalStorage, StorageError
from tests.support.calls import ANY
from tests.support.metastore import ABORTED, COMMITTED, OPEN, FakeMetastore
from tests.unit.driver.support import (
    IDENTITY,
    REQUEST,
    TABLE,
    Reports,
    Store,
    know_partitions,
    metastore_of,
    queue_states,
)

THREE_INSERTS = Path(__file__).parents[2] / "fixtures/hive-4.0.1/table_txn_001/before"
DELTAS = sorted(path.name for path in THREE_INSERTS.iterdir())


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    return [Path(shutil.copytree(THREE_INSERTS, tmp_path / name)) for name in ("p1", "p2", "p3")]


def hive4_metastore(*, highest: int = 3) -> FakeMetastore:
    """A metastore that gives a snapshot only without the driver's own transactions, which must not count as open."""
    metastore = metastore_of(hive=Generation.HIVE4, highest=highest)

    def check(*, without: Collection[int]) -> None:
        assert set(without) == {txn for txn, state in metastore.outcomes().items() if state == OPEN}

    metastore.on("valid_txns", check)
    return metastore


def run(
    metastore: FakeMetastore, places: Sequence[Place], *, store: Store | None = None, queue_id: int | None = None
) -> DriverResult:
    request = REQUEST.model_copy(update={"type": CompactionType.MAJOR, "queue_id": queue_id})
    attempt = DriverContext(metastore.client(), request, "pod1", IDENTITY)
    protocol = protocol_of(attempt)
    assert isinstance(protocol, Hive4)
    journal = Journal(store or Store(), attempt)
    targets = [Target(f"prt={place.name}", str(place), 1) for place in places]
    know_partitions(metastore, targets)
    return HiveCompaction(protocol, runner=LocalRunner(), report=Reports()).run(targets, journal)


def outputs(places: list[Path]) -> list[set[str]]:
    return [{path.name for path in place.iterdir() if path.name not in DELTAS} for place in places]


def test_each_partition_has_a_transaction_and_an_entry_of_its_own(places: list[Path]) -> None:
    metastore, store = hive4_metastore(), Store()
    assert run(metastore, places, store=store).reason is Reason.COMPACTED
    assert outputs(places) == [{f"base_0000003_v{txn:07d}"} for txn in (101, 102, 103)]
    assert metastore.outcomes() == dict.fromkeys((101, 102, 103), COMMITTED)
    (journal,) = store.resources.values()
    held = [(entry["txnId"], entry["queueId"]) for entry in journal["spec"]["partitions"]]
    assert held == [(101, 1), (102, 2), (103, 3)]
    assert journal["spec"]["lockIds"] == [2, 3, 4]  # lock 1 is the driver's own
    assert [entry.highest_write_id for entry in metastore.queue] == [3, 3, 3]


def test_an_entry_that_the_controller_took_is_the_only_one(places: list[Path]) -> None:
    metastore, store = hive4_metastore(), Store()
    metastore.enqueue_compaction(
        database="sales", table="orders", partition="prt=p1", type=CompactionType.MAJOR, pool="k8s"
    )
    metastore.take_any_compaction(pool="k8s", worker=queue_worker("main"))
    assert run(metastore, places[:1], store=store, queue_id=1).reason is Reason.COMPACTED
    (taken,), (journal,) = metastore.queue, store.resources.values()
    assert (taken.state, taken.committed is not None, taken.pool) == (QueueState.READY_FOR_CLEANING, True, "k8s")
    assert [(one["txnId"], one["queueId"]) for one in journal["spec"]["partitions"]] == [(taken.txn, 1)]


def test_what_is_listed_is_registered_as_read_before(places: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """As Hive's Worker does: Hive 4.2's Cleaner waits for registered readers alone."""
    metastore, registered = hive4_metastore(), []
    look = partition.listed

    def listed(targets: Sequence[partition.OpenTarget]) -> Any:
        registered.append(dict(metastore.registered))
        return look(targets)

    monkeypatch.setattr("compaction_operator.driver.hive.hive4.listed", listed)
    run(metastore, places)
    assert registered == [{}, {101: 4, 102: 4, 103: 4}]


def test_a_partition_that_fails_ends_only_what_is_its_own(places: list[Path]) -> None:
    (places[1] / DELTAS[0] / "bucket_00000_0").write_bytes(b"ORC")
    metastore = hive4_metastore()
    with pytest.raises(JobError):
        run(metastore, places)
    assert outputs(places) == [{"base_0000003_v0000101"}, set(), {"base_0000003_v0000103"}]
    assert metastore.outcomes() == {101: COMMITTED, 102: ABORTED, 103: COMMITTED}
    assert queue_states(metastore) == {1: "ready for cleaning", 2: "failed", 3: "ready for cleaning"}
    assert "bucket_00000_0" in str(metastore.queue[1].error)


def test_a_partition_that_another_client_compacts_does_not_hold_up_the_others(places: list[Path]) -> None:
    metastore = hive4_metastore()

    def take_away(**_: object) -> None:
        if metastore.queue[-1].partition == "prt=p2":
            metastore.change_entries(2, state=QueueState.WORKING)

    metastore.on("take_compaction", take_away)
    with pytest.raises(JobError) as waiting:
        run(metastore, places)
    assert waiting.value.reason is Reason.IN_COMPACTION_QUEUE
    assert outputs(places) == [{"base_0000003_v0000101"}, set(), {"base_0000003_v0000102"}]


def test_a_new_table_that_has_taken_the_name_is_not_compacted_by_the_old_ones_files(places: list[Path]) -> None:
    """It has no writes yet. The driver removes its staging: nothing else would find it in the renamed table."""
    metastore = hive4_metastore()
    metastore.on("open_compaction_txn", lambda **_: metastore.set_write_ids(f"{TABLE}:0:{2**63 - 1}::"))
    with pytest.raises(JobError, match="another table has the name") as changed:
        run(metastore, places)
    assert changed.value.reason is Reason.TABLE_CHANGED
    assert outputs(places) == [set(), set(), set()]
    assert set(metastore.outcomes().values()) == {ABORTED}


def test_a_partition_that_cannot_be_planned_never_enters_the_queue(places: list[Path]) -> None:
    (places[1] / "delta_1_2_x").mkdir()
    metastore = hive4_metastore()
    with pytest.raises(JobError, match="delta_1_2_x") as unsupported:
        run(metastore, places)
    assert unsupported.value.reason is Reason.UNSUPPORTED_TABLE
    assert metastore.count("enqueue_compaction") == 2


def test_a_commit_without_an_answer_ends_the_attempt_and_leaves_the_rest_unpublished(places: list[Path]) -> None:
    """The outputs of the first stay: they may be visible to all readers."""
    metastore = hive4_metastore()
    metastore.fail(MetastoreUnavailable("no answer"), "commit_txn")
    with pytest.raises(MetastoreUnavailable):
        run(metastore, places)
    assert "base_0000003_v0000101" in outputs(places)[0]
    assert metastore.outcomes() == {101: OPEN, 102: ABORTED, 103: ABORTED}
    assert {name for place in outputs(places)[1:] for name in place if not name.startswith("_")} == set()


def test_a_metastore_that_is_gone_is_not_waited_for_once_for_each_partition(places: list[Path]) -> None:
    """Its time-out, times two calls, times 32 partitions, would be a quarter of an hour. All heartbeats stop."""
    gone = MetastoreUnavailable("no answer")
    metastore = hive4_metastore()

    def die() -> None:
        metastore.fail(gone, "heartbeat_txn", "mark_failed", "abort_txn")

    with pytest.raises(MetastoreUnavailable):
        run(metastore, places, store=Store(on_create=die))
    assert [metastore.count(call) for call in ("mark_failed", "abort_txn")] == [1, 1]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("heartbeat")]


def test_a_transaction_that_is_lost_ends_its_partition_alone(places: list[Path]) -> None:
    metastore = hive4_metastore()

    def lose() -> None:
        metastore.end_txn(102, ABORTED)

    with pytest.raises(JobError) as lost:
        run(metastore, places, store=Store(on_create=lose))
    assert lost.value.reason is Reason.TRANSACTION_LOST
    assert outputs(places) == [{"base_0000003_v0000101"}, set(), {"base_0000003_v0000103"}]


def test_originals_before_the_first_write_have_no_place_in_the_queue(tmp_path: Path) -> None:
    """A metastore would take write id 0 for all there are: its cleaning would forget which ones were aborted."""
    place = tmp_path / "p1"
    place.mkdir()
    shutil.copy(THREE_INSERTS.parents[1] / "original/before/000000_0", place / "000000_0")
    metastore = hive4_metastore(highest=0)
    with pytest.raises(JobError, match="nothing was written") as unsupported:
        run(metastore, [place])
    assert unsupported.value.reason is Reason.UNSUPPORTED_TABLE
    assert metastore.count("enqueue_compaction") == 0


def test_a_driver_whose_transactions_are_gone_writes_no_journal_of_them(
    places: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H19: a journal of a driver that is late would be settled beside its successor's staging."""
    metastore, store, verify = hive4_metastore(), Store(), arithmetic.verify

    def paused(*arguments: Any) -> None:
        verify(*arguments)
        metastore.end_txn(101, ABORTED)

    monkeypatch.setattr(hive, "verify", paused)
    with pytest.raises(JobError) as lost:
        run(metastore, places, store=store)
    assert lost.value.reason is Reason.TRANSACTION_LOST
    (journal,) = store.resources.values()
    assert [entry["txnId"] for entry in journal["spec"]["partitions"]] == [102, 103]
    assert outputs(places) == [set(), {"base_0000003_v0000102"}, {"base_0000003_v0000103"}]


@pytest.mark.parametrize("when", ["before the claims", "before the journal"])
def test_a_table_that_another_takes_the_name_of_is_not_published(
    when: str, places: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claims go by the name, and so are on the other table: they are given back."""
    metastore, store, verify = hive4_metastore(), Store(), arithmetic.verify

    def swap(*arguments: Any) -> None:
        if arguments:
            verify(*arguments)
        metastore.alter_table(TABLE, create_time=IDENTITY.create_time + 1)

    if when == "before the claims":
        swap()
    monkeypatch.setattr(hive, "verify", swap)
    with pytest.raises(JobError) as changed:
        run(metastore, places, store=store)
    assert changed.value.reason is Reason.TABLE_CHANGED
    assert store.resources == {}
    assert {name for place in outputs(places) for name in place if not name.startswith("_")} == set()
    assert set(metastore.outcomes().values()) <= {ABORTED}
    assert set(queue_states(metastore).values()) <= {"failed"}


@pytest.mark.parametrize("fails", [False, True])
def test_it_holds_something_at_every_moment_from_the_first_batch_to_the_last(
    fails: bool, places: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the metastore's locks and transactions always show that it lives; in the end all is gone."""
    monkeypatch.setattr(Hive4, "batch_partitions", 1)
    metastore, alive = hive4_metastore(), list[bool]()
    metastore.on(ANY, lambda *_, **__: alive.append(bool(metastore.locks) or OPEN in metastore.outcomes().values()))
    if fails:
        (places[1] / DELTAS[0] / "bucket_00000_0").write_bytes(b"ORC")
        with pytest.raises(JobError):
            run(metastore, places)
    else:
        run(metastore, places)
    asked = [call.name for call in metastore.calls]
    begun = asked.index("lock") + 1
    assert begun <= asked.index("enqueue_compaction")
    assert [call for call, held in zip(asked[begun:], alive[begun:], strict=True) if not held] == []
    assert asked[-1] == "unlock"
    assert (metastore.locks, OPEN in metastore.outcomes().values()) == ((), False)


def test_a_claim_does_not_wait_behind_waiters_for_the_drivers_own_lock(places: list[Path]) -> None:
    """For example an INSERT OVERWRITE: the driver releases its lock once its transaction shows that it is alive."""
    metastore = hive4_metastore()
    held: list[bool] = []

    def claimed(wish: LockWish) -> None:
        held.extend([any(not lock.txn for lock in metastore.locks)] if wish.txn else [])

    metastore.on("lock", claimed)
    run(metastore, places)
    assert held == [False, False, False]


def test_two_partitions_in_one_place_leave_no_claim_behind(places: list[Path]) -> None:
    """A claim belongs to its partition, wherever that lies. (A driver refuses such partitions before it begins.)"""
    metastore = hive4_metastore()
    request = REQUEST.model_copy(update={"type": CompactionType.MAJOR})
    attempt = DriverContext(metastore.client(), request, "pod1", IDENTITY)
    targets = [Target(name, str(places[0]), 1) for name in ("prt=p1", "prt=p2")]
    know_partitions(metastore, targets)
    journal = Journal(Store(), attempt)
    flow = HiveCompaction(protocol_of(attempt), runner=LocalRunner(), report=Reports())
    with suppress(JobError):
        flow.run(targets, journal)
    assert len(metastore.outcomes()) == 2
    assert OPEN not in metastore.outcomes().values()
    assert not set(queue_states(metastore).values()) & {"initiated", "working"}


def test_staging_that_cannot_be_removed_after_the_commit_fails_nothing(
    places: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(self: LocalStorage, path: str) -> int:
        raise StorageError(f"{path}: Directory not empty")

    monkeypatch.setattr(LocalStorage, "delete_tree", stuck)
    assert run(hive4_metastore(), places).reason is Reason.COMPACTED
