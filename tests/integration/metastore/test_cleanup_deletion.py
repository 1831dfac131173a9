"""What is deleted, and what must not be, with real metastores of both generations and real files."""

import shutil
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from sandbox.harness.places import Place, files_below
from sandbox.harness.wait import wait_until
from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.cleanup import PublishedState
from compaction_operator.api.compaction import CompactionType
from compaction_operator.cleanup.attempt import queue_job
from compaction_operator.controller.answers import Trouble
from compaction_operator.metastore import QueueState
from tests.integration.metastore.controller_steps import ControllerSteps, cleanup, cleanup_of, end, read_lock, real_work
from tests.integration.metastore.fixture_table import FixtureTable
from tests.unit.cleanup.support import DiedError, DyingStorage
from tests.unit.driver.support import Store

MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
DELTAS = [f"delta_000000{n}_000000{n}_0000" for n in (1, 2, 3)]
OUTPUT = "delta_0000001_0000003"


def contents(place: Place) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in files_below(place)}


def states(table: FixtureTable) -> list[QueueState]:
    return [entry.state for entry in table.queue()]


@pytest.mark.hdfs
@pytest.mark.s3
def test_the_whole_way_leaves_nothing_behind(try_it: FixtureTable, compact: Callable[..., ControllerSteps]) -> None:
    """Files, locks, transactions, and on Hive 4 the entries of the queue."""
    steps = compact(try_it, kind=MAJOR)
    assert set(steps.settle().values()) == {PublishedState.PUBLISHED}
    assert all(result.final for result in steps.delete())
    assert steps.finish() is None
    for partition in ("prt=p1", "prt=p2", "prt=p3"):
        (base,) = try_it.visible(partition)
        assert base.startswith("base_")
        assert len(try_it.names(partition)) == 1
    assert (try_it.locks(), try_it.own_transactions()) == ([], [])
    assert set(states(try_it)) <= {QueueState.SUCCEEDED}
    assert steps.finish() is None


def test_the_metastore_forgets_nothing_while_rows_that_were_aborted_are_there(
    fixture_table: Callable[..., FixtureTable], compact: Callable[..., ControllerSteps]
) -> None:
    """Its aborted write id would count as committed, and the rows in its directory as everybody's."""
    table = fixture_table("table_txn_001", writes=2)
    table.write(commit=False)
    table.end()
    steps = compact(table, kind=MAJOR)
    steps.settle()
    late = table.directory / "delta_0000003_0000003_0001"
    steps.delete()
    late.mkdir()
    (late / "bucket_00000").write_bytes(b"rows of a writer that did not notice its abort")
    finished = steps.finish()
    if not table.is_hive4:
        assert finished is None
        return
    assert isinstance(finished, Trouble)
    assert late.name in finished.message
    assert states(table) == [QueueState.READY_FOR_CLEANING]
    assert not table.admin.valid_write_ids(table.database, table.name).is_valid(3)
    shutil.rmtree(late)
    assert steps.finish() is None
    assert states(table) == [QueueState.SUCCEEDED]


def test_a_compaction_that_comes_in_between_keeps_its_own_obsolete_directories(
    fixture_table: Callable[..., FixtureTable], compact: Callable[..., ControllerSteps]
) -> None:
    """H6: the first cleanup deletes what it recorded, and not what only the second one's readers have left."""
    table = fixture_table("table_txn_001", writes=2)
    third = (table.directory / DELTAS[2]).rename(table.directory.parent / "later")
    first = compact(table)
    first.settle()
    table.write()
    third.rename(table.directory / DELTAS[2])
    second = compact(table, kind=MAJOR, attempt=2)
    second.settle()
    (result,) = first.delete()
    assert sorted(result.deleted) == DELTAS[:2]
    assert table.visible() == ["base_0000003", "delta_0000001_0000002", DELTAS[2]]
    assert first.finish() is None
    (result,) = second.delete()
    assert (sorted(result.gone), result.final) == (DELTAS[:2], True)
    assert second.finish() is None
    assert table.visible() == ["base_0000003"]


def test_an_attempt_that_did_not_publish_deletes_nothing(
    three_inserts: FixtureTable, compact: Callable[..., ControllerSteps]
) -> None:
    """H10: its journal is there, its outputs are not."""
    steps = compact(three_inserts)
    for name in three_inserts.names():
        if name.startswith(OUTPUT):
            shutil.rmtree(three_inserts.directory / name)
    assert steps.settle() == {"": PublishedState.NOT_PUBLISHED}
    (result,) = steps.delete()
    assert result.reason == "NotPublished"
    assert three_inserts.visible() == DELTAS


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_a_table_that_was_dropped_ends_the_cleanup(
    three_inserts: FixtureTable,
    server: MetastoreServer,
    compact: Callable[..., ControllerSteps],
    settled: bool,
    again: bool,
) -> None:
    """H11: also when one of its name, place and directories is there again, and also before it was settled."""
    steps = compact(three_inserts)
    before = contents(three_inserts.directory)
    if settled:
        steps.settle()
    three_inserts.admin.drop_table(three_inserts.database, three_inserts.name)
    if again:
        _create_again(three_inserts, before, created=steps.cleanup.spec.table.create_time)
    reason = "TableRecreated" if again else "TableDropped"
    if not settled:
        found = steps.work.settle(steps.cleanup, driver_ended=True)
        assert not isinstance(found, Trouble)
        assert found.gone[""].reason == reason
        return
    (result,) = steps.delete()
    assert (result.reason, result.final) == (reason, True)
    assert steps.finish() is None
    assert not again or contents(three_inserts.directory) == before


def _create_again(table: FixtureTable, files: dict[str, bytes], *, created: int) -> None:
    """Create the table again, at least a second later: Hive 3 tells the two apart by their creation time only."""
    wait_until(lambda: time.time() >= created + 1, timeout=5, what="another second", poll=0.05)
    columns = (("id", "int"), ("name", "string"))
    table.admin.create_table(table.database, table.name, location=f"file:{table.directory}", columns=columns)
    for _ in range(3):
        table.write()
    for name, content in files.items():
        (table.directory / name).parent.mkdir(parents=True, exist_ok=True)
        (table.directory / name).write_bytes(content)


@pytest.mark.parametrize("value", ["p2", "p3"])
def test_a_dropped_partition_ends_its_part_alone(
    try_it: FixtureTable, server: MetastoreServer, compact: Callable[..., ControllerSteps], value: str
) -> None:
    """H11 for one partition: the others go on."""
    steps = compact(try_it, kind=MAJOR)
    steps.settle()
    try_it.admin.drop_partition(try_it.database, try_it.name, [value])
    results = {result.partition: result for result in steps.delete()}
    assert results.pop(f"prt={value}").reason == "PartitionDropped"
    assert all(result.reason is None and result.final for result in results.values())
    assert steps.finish() is None


@pytest.mark.parametrize("at", [2, 4, 5])
def test_a_deletion_that_died_is_finished_by_the_next(
    three_inserts: FixtureTable, server: MetastoreServer, at: int
) -> None:
    """H14: killed while it hides or deletes, with or without its lock: no half directory, no long wait for readers."""
    store = Store()
    three_inserts.run(store=store)
    dying = real_work(three_inserts, server.uri, storage=DyingStorage(at=at, after=False))
    steps = ControllerSteps(real_work(three_inserts, server.uri), cleanup_of(store))
    steps.settle()
    with pytest.raises(DiedError):
        replace(steps, work=dying).delete()
    (result,) = steps.delete()
    assert sorted({*result.deleted, *result.gone}) == DELTAS
    assert three_inserts.visible() == [OUTPUT]
    assert len(three_inserts.names()) == 1
    assert three_inserts.locks() == []


def test_what_vanished_meanwhile_is_reported_as_gone(
    three_inserts: FixtureTable, compact: Callable[..., ControllerSteps]
) -> None:
    """H14: Hive's own Cleaner was faster, with the directories and with the queue's entry."""
    steps = compact(three_inserts)
    steps.settle()
    for name in DELTAS:
        shutil.rmtree(three_inserts.directory / name)
    for entry in three_inserts.queue():
        three_inserts.admin.mark_failed(queue_job(entry), "gone")
    (result,) = steps.delete()
    assert (result.deleted, sorted(result.gone), result.final) == ((), DELTAS, True)
    assert steps.finish() is None


@pytest.mark.hdfs
@pytest.mark.s3
def test_a_reader_at_work_is_not_disturbed_by_one_that_waits(
    three_inserts: FixtureTable, compact: Callable[..., ControllerSteps]
) -> None:
    """While a reader is active, the deletion hides nothing. It releases the lock that it waited for."""
    steps = compact(three_inserts)
    steps.settle()
    reader = read_lock(three_inserts)
    (result,) = steps.delete()
    assert (result.reason, result.final) == ("ReadersBusy", False)
    assert f"lock {reader}" in (result.skipped or "")
    assert three_inserts.locks() == [reader]
    assert three_inserts.visible() == [DELTAS[0], OUTPUT, *DELTAS[1:]]
    end(three_inserts, locks=[reader])
    (result,) = steps.delete()
    assert result.final


@pytest.mark.hdfs
def test_quarantine_and_purge(three_inserts: FixtureTable, compact: Callable[..., ControllerSteps]) -> None:
    """A directory that a user moves back stays, with its files unchanged."""
    before = contents(three_inserts.directory / DELTAS[0])
    steps = compact(three_inserts, quarantine="1h")
    steps.settle()
    (result,) = steps.delete()
    assert sorted(result.quarantined) == DELTAS
    assert three_inserts.visible() == [OUTPUT]
    (held,) = (three_inserts.directory / "_compaction_quarantine").iterdir()
    (held / DELTAS[0]).rename(three_inserts.directory / DELTAS[0])
    (result,) = steps.delete(purge=True)
    assert (result.restored, sorted(result.deleted), result.final) == ((DELTAS[0],), DELTAS[1:], True)
    assert sorted(name for name in three_inserts.names() if name.startswith("_")) == []
    assert contents(three_inserts.directory / DELTAS[0]) == before


def test_a_journal_that_names_another_tables_directory_deletes_nothing_of_it(
    fixture_table: Callable[..., FixtureTable], compact: Callable[..., ControllerSteps]
) -> None:
    """H21: places are the metastore's word alone."""
    victim, table = fixture_table("merge", writes=2), fixture_table("table_txn_001", writes=3)
    victim.run(MAJOR)
    before = contents(victim.directory)
    steps = compact(table)
    (entry,) = steps.cleanup.spec.partitions
    forged = entry.model_copy(update={"location": f"file:{victim.directory}", "highest_write_id": 2})
    spec = steps.cleanup.spec.model_copy(update={"partitions": (forged,)})
    steps = ControllerSteps(steps.work, cleanup(spec))
    assert steps.settle() == {"": PublishedState.NOT_PUBLISHED}
    steps.delete()
    assert steps.finish() is None
    assert contents(victim.directory) == before
