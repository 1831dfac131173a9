"""The job on Hive 4 against a real metastore: what its commit publishes, and what its failures leave behind."""

import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from sandbox.harness.places import Place, files_below
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import MetastoreServer

from compaction_operator.acid.snapshot import Snapshot, snapshot
from compaction_operator.acid.write_ids import ValidTxnList
from compaction_operator.api.cleanup import PublishedState
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive import flow as hive
from compaction_operator.driver.hive import hive4
from compaction_operator.metastore import MetastoreError, MetastoreUnavailable, QueueEntry, QueueState
from compaction_operator.storage import LocalStorage, StorageError
from tests.integration.metastore.controller_steps import ControllerSteps, cleanup_of, real_work
from tests.integration.metastore.fixture_table import FIXTURES, Failing, FixtureTable, make_table, pool_of, spec_of
from tests.unit.driver.support import Store

SERVERS = ("4.0.1",)
MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
CASES = sorted(path.name for path in (FIXTURES / "hive-4.0.1").iterdir())
STORAGE = LocalStorage()


@pytest.fixture
def fixture_table(admin: MetastoreAdmin, server: MetastoreServer, database: str) -> Callable[..., FixtureTable]:
    """Make a table of a fixture with the write ids that it had before a compaction."""

    def make(fixture: str, kind: CompactionType = MINOR) -> FixtureTable:
        table = make_table(admin, server, database, fixture)
        table.take_write_ids(kind, hive=server.hive)
        return table

    return make


@pytest.fixture
def three_inserts(fixture_table: Callable[..., FixtureTable]) -> FixtureTable:
    return fixture_table("table_txn_001")


@pytest.fixture
def try_it(fixture_table: Callable[..., FixtureTable]) -> FixtureTable:
    return fixture_table("try_it")


def files(table: Place) -> list[str]:
    """All files that readers look at, without the transactions in the names of their directories."""
    paths = [path.relative_to(table) for path in files_below(table)]
    shown = [str(path) for path in paths if not any(part.startswith((".", "_")) for part in path.parts)]
    return sorted(re.sub(r"_v[0-9]+", "_v*", path) for path in shown)


@pytest.mark.parametrize("kind", [MINOR, MAJOR])
@pytest.mark.parametrize("case", CASES)
def test_a_table_ends_with_the_directories_that_hive_itself_makes_of_it(
    case: str, kind: CompactionType, fixture_table: Callable[..., FixtureTable]
) -> None:
    require_as_after_hive(fixture_table(case, kind), kind)


@pytest.mark.hdfs
@pytest.mark.s3
def test_partitions_with_deletes_end_with_the_pairs_that_hive_itself_makes(try_it: FixtureTable) -> None:
    require_as_after_hive(try_it, MINOR)


def require_as_after_hive(table: FixtureTable, kind: CompactionType) -> None:
    """And with the same files in them; the transaction is the one that the journal names."""
    store = Store()
    table.run(kind, store=store)
    assert files(table.directory) == files(FIXTURES / "hive-4.0.1" / table.name / f"after-{kind.lower()}")
    for entry in spec_of(store)["partitions"]:
        for output in entry.get("outputs", ()):
            assert output.endswith(f"_v{entry['txnId']:07d}")
            assert output in table.names(entry["partition"])


def seen(table: FixtureTable, txns: ValidTxnList) -> Snapshot:
    write_ids = table.admin.valid_write_ids(table.database, table.name)
    return snapshot(STORAGE.list_partition(str(table.directory)), write_ids, valid_txns=txns)


def test_the_output_appears_at_the_commit_and_not_before(
    three_inserts: FixtureTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot in which the transaction is open never shows it; a snapshot from after the commit does."""
    before: list[ValidTxnList] = []
    client = Failing(three_inserts.admin, "nothing")

    def commit_txn(txn: int) -> None:
        assert any(name.startswith("base") for name in three_inserts.names())
        before.append(three_inserts.admin.valid_txns())
        assert seen(three_inserts, before[0]).base is None
        three_inserts.admin.commit_txn(txn)

    monkeypatch.setattr(client, "commit_txn", commit_txn, raising=False)
    three_inserts.run(MAJOR, client=client.client())
    assert seen(three_inserts, before[0]).base is None
    base = seen(three_inserts, three_inserts.admin.valid_txns()).base
    assert base is not None
    assert base.max_write_id == 3


def test_show_compactions_tells_the_truth_at_every_step(
    three_inserts: FixtureTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[QueueEntry] = []
    client = Failing(three_inserts.admin, "nothing")

    def watch(call: str) -> None:
        def watched(*arguments: Any, **options: Any) -> Any:
            answer = getattr(three_inserts.admin, call)(*arguments, **options)
            steps.extend(three_inserts.queue())
            return answer

        monkeypatch.setattr(client, call, watched, raising=False)

    for call in ("enqueue_compaction", "take_compaction", "update_compaction", "commit_txn", "mark_compacted"):
        watch(call)
    store = Store()
    three_inserts.run(MAJOR, store=store, client=client.client())
    assert [entry.state for entry in steps] == [
        QueueState.INITIATED,
        QueueState.WORKING,
        QueueState.WORKING,
        QueueState.WORKING,
        QueueState.READY_FOR_CLEANING,
    ]
    (entry,) = spec_of(store)["partitions"]
    assert {step.queue_id for step in steps} == {entry["queueId"]}
    assert {(step.type, step.pool) for step in steps} == {(MAJOR, pool_of())}
    assert steps[1].worker == "compaction-operator/0f8c/1/pod1"
    assert (steps[2].txn, steps[2].highest_write_id) == (entry["txnId"], 3)
    assert steps[1].started is not None
    assert [step.committed is not None for step in steps] == [False] * 3 + [True] * 2


def nothing_is_left(table: FixtureTable) -> None:
    """No transaction, lock, open entry or visible output is left. Settling the attempt removes the rest."""
    assert (table.own_transactions(), table.locks()) == ([], [])
    assert [entry for entry in table.queue() if not entry.is_ended] == []
    deltas = [found.name for found in seen(table, table.admin.valid_txns()).deltas]
    assert deltas == ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000", "delta_0000003_0000003_0000"]


@pytest.mark.parametrize(
    ("call", "number"),
    [
        ("compactions", 1),
        ("valid_txns", 1),
        ("valid_write_ids", 1),
        ("enqueue_compaction", 1),
        ("take_compaction", 1),
        ("open_compaction_txn", 1),
        ("lock", 1),
        ("valid_txns", 2),
        ("valid_write_ids", 2),
        ("update_compaction", 1),
        ("heartbeat_txn", 1),
        ("compactions", 2),
    ],
)
def test_a_call_that_fails_leaves_nothing_behind_but_why(call: str, number: int, three_inserts: FixtureTable) -> None:
    client = Failing(three_inserts.admin, call, number=number).client()
    with pytest.raises((MetastoreError, JobError), match=f"{call} is refused"):
        three_inserts.run(client=client)
    nothing_is_left(three_inserts)
    entries = three_inserts.queue()
    assert [entry.state for entry in entries] == [QueueState.FAILED] * len(entries)
    assert all(f"{call} is refused" in (entry.error or "") for entry in entries)
    assert three_inserts.run(attempt=2).reason is Reason.COMPACTED


@pytest.mark.parametrize("step", ["list_partition", "verify", "assemble", "journal", "publish"])
def test_a_step_that_fails_leaves_nothing_behind_but_why(
    step: str, three_inserts: FixtureTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`list_partition` fails for the second plan, `publish` at the rename."""

    def fail(*_: object, **__: object) -> None:
        raise StorageError(f"{step}: No space left on device")

    def broken() -> None:
        raise JobError(Reason.DRIVER_FAILED, f"{step}: No space left on device")

    store = Store()
    with monkeypatch.context() as patch:
        if step in {"verify", "assemble"}:
            patch.setattr(hive, step, fail)
        elif step == "list_partition":
            patch.setattr(hive4, "prepare", fail)
        elif step == "publish":
            store = Store(on_create=lambda: patch.setattr(LocalStorage, step, fail))
        else:
            store = Store(on_create=broken)
        with pytest.raises(JobError, match="No space left"):
            three_inserts.run(store=store)
    nothing_is_left(three_inserts)
    (entry,) = three_inserts.queue()
    assert (entry.state, "No space left" in (entry.error or "")) == (QueueState.FAILED, True)
    assert three_inserts.run(attempt=2).reason is Reason.COMPACTED


def test_a_pair_whose_second_rename_fails_is_left_to_the_settlement(
    try_it: FixtureTable, server: MetastoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No snapshot includes its first half. But a reader that has just listed it would fail if it vanished."""
    publish, half = LocalStorage.publish, []

    def second_fails(self: LocalStorage, source: str, target: str) -> None:
        if re.search(r"prt=p1/delete_delta_0000001_0000005_v[0-9]+$", target):
            half.extend(try_it.visible("prt=p1"))
            raise StorageError("No space left on device")
        publish(self, source, target)

    monkeypatch.setattr(LocalStorage, "publish", second_fails)
    before, store = try_it.names("prt=p1"), Store()
    with pytest.raises(JobError, match="No space left"):
        try_it.run(partitions=["prt='p1'"], store=store)
    assert "delta_0000001_0000005" in half
    assert try_it.visible("prt=p1") == half
    steps = ControllerSteps(real_work(try_it, server.uri), cleanup_of(store))
    assert steps.settle() == {"prt=p1": PublishedState.NOT_PUBLISHED}
    assert try_it.names("prt=p1") == before


def test_a_commit_that_is_aborted_under_its_feet_publishes_nothing(
    three_inserts: FixtureTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H19: the renames are done, but after the time-out. No snapshot includes the outputs."""
    client = Failing(three_inserts.admin, "nothing")

    def commit_txn(txn: int) -> None:
        three_inserts.admin.abort_txn(txn)
        three_inserts.admin.commit_txn(txn)

    monkeypatch.setattr(client, "commit_txn", commit_txn, raising=False)
    with pytest.raises(JobError) as stopped:
        three_inserts.run(MAJOR, client=client.client())
    assert stopped.value.reason is Reason.TRANSACTION_LOST
    assert "base_0000003" in three_inserts.visible()
    assert seen(three_inserts, three_inserts.admin.valid_txns()).base is None
    assert [entry.state for entry in three_inserts.queue()] == [QueueState.FAILED]


def test_a_commit_whose_answer_is_lost_is_left_to_the_controller(three_inserts: FixtureTable) -> None:
    """It took effect: the outputs stay, and the metastore's own word says so."""
    with pytest.raises(MetastoreUnavailable):
        three_inserts.run(MAJOR, client=Failing(three_inserts.admin, "commit_txn", lost=True).client())
    assert "base_0000003" in three_inserts.visible()
    (entry,) = three_inserts.queue()
    assert (entry.state, entry.committed is not None) == (QueueState.WORKING, True)
    assert three_inserts.own_transactions() == []


@pytest.mark.parametrize("lost", [False, True])
def test_what_is_committed_and_cannot_be_marked_is_left_to_the_controller(
    three_inserts: FixtureTable, server: MetastoreServer, lost: bool
) -> None:
    """It is published: the driver says so, and settling its journal marks the entry."""
    store, client = Store(), Failing(three_inserts.admin, "mark_compacted", lost=lost).client()
    assert three_inserts.run(MAJOR, store=store, client=client).reason is Reason.COMPACTED
    (entry,) = three_inserts.queue()
    assert entry.committed is not None
    assert entry.state is (QueueState.READY_FOR_CLEANING if lost else QueueState.WORKING)
    steps = ControllerSteps(real_work(three_inserts, server.uri), cleanup_of(store))
    assert steps.settle() == {"": PublishedState.PUBLISHED}
    assert [one.state for one in three_inserts.queue()] == [QueueState.READY_FOR_CLEANING]


def test_a_commit_that_may_not_have_happened_is_left_to_the_controller(three_inserts: FixtureTable) -> None:
    """It did not: the outputs exist, no snapshot includes them, and the transaction can still be aborted."""
    with pytest.raises(MetastoreError):
        three_inserts.run(MAJOR, client=Failing(three_inserts.admin, "commit_txn").client())
    assert "base_0000003" in three_inserts.visible()
    assert seen(three_inserts, three_inserts.admin.valid_txns()).base is None
    (txn,) = three_inserts.own_transactions()
    assert three_inserts.admin.abort_txn(txn)
    assert seen(three_inserts, three_inserts.admin.valid_txns()).base is None


@pytest.mark.parametrize("call", ["enqueue_compaction", "take_compaction", "open_compaction_txn", "update_compaction"])
def test_what_a_lost_answer_leaves_bears_the_attempts_name(call: str, three_inserts: FixtureTable) -> None:
    """So the settlement finds it: by the pool of the queue entry and by the agent of the transaction."""
    with pytest.raises(MetastoreUnavailable):
        three_inserts.run(client=Failing(three_inserts.admin, call, lost=True).client())
    assert {entry.pool for entry in three_inserts.queue()} == {pool_of()}
    assert len(three_inserts.own_transactions()) == (call == "open_compaction_txn")
    for txn in three_inserts.own_transactions():
        three_inserts.admin.abort_txn(txn)


def test_of_two_drivers_the_queue_lets_one_in(three_inserts: FixtureTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """H4: the first one finds the table free. Before it claims the table, the second one runs to its end."""
    client = Failing(three_inserts.admin, "nothing")

    def enqueue_compaction(**options: Any) -> QueueEntry | None:
        assert three_inserts.run(pod="pod2").reason is Reason.COMPACTED
        return three_inserts.admin.enqueue_compaction(**options)

    monkeypatch.setattr(client, "enqueue_compaction", enqueue_compaction, raising=False)
    with pytest.raises(JobError, match=r"entry [0-9]+ \(ready for cleaning\)") as stopped:
        three_inserts.run(pod="pod1", client=client.client())
    assert stopped.value.reason is Reason.IN_COMPACTION_QUEUE
    assert three_inserts.visible().count("delta_0000001_0000003") == 1
    assert len(three_inserts.names()) == 4


def test_what_has_nothing_to_do_by_the_second_plan_ends_its_entry_as_hive_does(
    three_inserts: FixtureTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of the deltas vanish between the plans: what is left is no work, and nothing is obsolete."""
    client = Failing(three_inserts.admin, "nothing")

    def take_compaction(**options: Any) -> Any:
        for number in (2, 3):
            path = three_inserts.directory / f"delta_000000{number}_000000{number}_0000"
            path.rename(three_inserts.directory / f"_{path.name}")
        return three_inserts.admin.take_compaction(**options)

    monkeypatch.setattr(client, "take_compaction", take_compaction, raising=False)
    assert three_inserts.run(client=client.client()).reason is Reason.NOTHING_TO_COMPACT
    (entry,) = three_inserts.queue()
    assert (entry.state, entry.error) == (QueueState.REFUSED, "nothing to compact")
    assert (three_inserts.own_transactions(), three_inserts.locks()) == ([], [])


def test_what_only_needs_cleaning_by_the_second_plan_ends_as_compacted(
    three_inserts: FixtureTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An INSERT OVERWRITE came between the plans: its leftovers are in the journal, with the entry they belong to."""
    client = Failing(three_inserts.admin, "nothing")

    def take_compaction(**options: Any) -> Any:
        shutil.copytree(
            three_inserts.directory / "delta_0000003_0000003_0000", three_inserts.directory / "base_0000003"
        )
        return three_inserts.admin.take_compaction(**options)

    monkeypatch.setattr(client, "take_compaction", take_compaction, raising=False)
    store = Store()
    assert three_inserts.run(store=store, client=client.client()).reason is Reason.NOTHING_TO_COMPACT
    (journal,), (entry,) = spec_of(store)["partitions"], three_inserts.queue()
    assert (journal["queueId"], journal["txnId"], len(journal["obsolete"])) == (entry.queue_id, entry.txn, 3)
    assert (entry.state, entry.committed is not None) == (QueueState.READY_FOR_CLEANING, True)


def test_no_more_than_a_batch_of_transactions_is_open_at_a_time(
    try_it: FixtureTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hive4.Hive4, "batch_partitions", 2)
    opened: list[int] = []
    store = Store(on_create=lambda: opened.append(len(try_it.own_transactions())))
    try_it.run(MAJOR, store=store)
    assert opened == [2, 1]
    assert try_it.own_transactions() == []
