"""What is deleted, and what must not be, with real metastores of both generations and real files."""

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sandbox.harness.wait import wait_until
from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.cleanup import PublishedState
from compaction_operator.api.compaction import CompactionType
from compaction_operator.cleanup.attempt import queue_job
from compaction_operator.controller.answers import Trouble
from compaction_operator.metastore.compaction_queue import QueueState
from tests.integration.metastore.keeper import Keeper, cleanup, cleanup_of, end, read_lock, real_work
from tests.integration.metastore.lab import Lab
from tests.unit.cleanup.support import DiedError, DyingStorage
from tests.unit.driver.support import Store

MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
DELTAS = [f"delta_000000{n}_000000{n}_0000" for n in (1, 2, 3)]
OUTPUT = "delta_0000001_0000003"


def contents(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def states(table: Lab) -> list[QueueState]:
    return [entry.state for entry in table.queue()]


def test_the_whole_way_leaves_nothing_behind(try_it: Lab, keep: Callable[..., Keeper]) -> None:
    """Files, locks, transactions, and on Hive 4 the entries of the queue."""
    keeper = keep(try_it, kind=MAJOR)
    assert set(keeper.settle().values()) == {PublishedState.PUBLISHED}
    assert all(result.final for result in keeper.delete())
    assert keeper.finish() is None
    for partition in ("prt=p1", "prt=p2", "prt=p3"):
        (base,) = try_it.visible(partition)
        assert base.startswith("base_")
        assert len(try_it.names(partition)) == 1
    assert (try_it.locks(), try_it.own_transactions()) == ([], [])
    assert set(states(try_it)) <= {QueueState.SUCCEEDED}
    assert keeper.finish() is None


def test_the_metastore_forgets_nothing_while_rows_that_were_aborted_are_there(
    lab: Callable[..., Lab], keep: Callable[..., Keeper]
) -> None:
    """Its aborted write id would count as committed, and the rows in its directory as everybody's."""
    table = lab("table_txn_001", writes=2)
    table.write(commit=False)
    table.end()
    keeper = keep(table, kind=MAJOR)
    keeper.settle()
    late = table.directory / "delta_0000003_0000003_0001"
    keeper.delete()
    late.mkdir()
    (late / "bucket_00000").write_bytes(b"rows of a writer that did not notice its abort")
    finished = keeper.finish()
    if not table.is_hive4:
        assert finished is None
        return
    assert isinstance(finished, Trouble)
    assert late.name in finished.message
    assert states(table) == [QueueState.READY_FOR_CLEANING]
    assert not table.admin.valid_write_ids(table.database, table.name).is_valid(3)
    shutil.rmtree(late)
    assert keeper.finish() is None
    assert states(table) == [QueueState.SUCCEEDED]


def test_a_compaction_that_comes_in_between_keeps_its_own_obsolete_directories(
    lab: Callable[..., Lab], keep: Callable[..., Keeper]
) -> None:
    """H6: the first cleanup deletes what it recorded, and not what only the second one's readers have left."""
    table = lab("table_txn_001", writes=2)
    third = (table.directory / DELTAS[2]).rename(table.directory.parent / "later")
    first = keep(table)
    first.settle()
    table.write()
    third.rename(table.directory / DELTAS[2])
    second = keep(table, kind=MAJOR, attempt=2)
    second.settle()
    (result,) = first.delete()
    assert sorted(result.deleted) == DELTAS[:2]
    assert table.visible() == ["base_0000003", "delta_0000001_0000002", DELTAS[2]]
    assert first.finish() is None
    (result,) = second.delete()
    assert (sorted(result.gone), result.final) == (DELTAS[:2], True)
    assert second.finish() is None
    assert table.visible() == ["base_0000003"]


def test_an_attempt_that_did_not_publish_deletes_nothing(three_inserts: Lab, keep: Callable[..., Keeper]) -> None:
    """H10: its journal is there, its outputs are not."""
    keeper = keep(three_inserts)
    for name in three_inserts.names():
        if name.startswith(OUTPUT):
            shutil.rmtree(three_inserts.directory / name)
    assert keeper.settle() == {"": PublishedState.NOT_PUBLISHED}
    (result,) = keeper.delete()
    assert result.reason == "NotPublished"
    assert three_inserts.visible() == DELTAS


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_a_table_that_was_dropped_ends_the_cleanup(
    three_inserts: Lab, server: MetastoreServer, keep: Callable[..., Keeper], settled: bool, again: bool
) -> None:
    """H11: also when one of its name, place and directories is there again, and also before it was settled."""
    keeper = keep(three_inserts)
    before = contents(three_inserts.directory)
    if settled:
        keeper.settle()
    three_inserts.admin.drop_table(three_inserts.database, three_inserts.name)
    if again:
        _create_again(three_inserts, before, created=keeper.cleanup.spec.table.create_time)
    reason = "TableRecreated" if again else "TableDropped"
    if not settled:
        found = keeper.work.settle(keeper.cleanup, driver_ended=True)
        assert not isinstance(found, Trouble)
        assert found.gone[""].reason == reason
        return
    (result,) = keeper.delete()
    assert (result.reason, result.final) == (reason, True)
    assert keeper.finish() is None
    assert not again or contents(three_inserts.directory) == before


def _create_again(table: Lab, files: dict[str, bytes], *, created: int) -> None:
    """Make the table anew, but not within the second of its creation: Hive 3 has only that to tell them by."""
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
    try_it: Lab, server: MetastoreServer, keep: Callable[..., Keeper], value: str
) -> None:
    """H11 for one partition: the others go on."""
    keeper = keep(try_it, kind=MAJOR)
    keeper.settle()
    try_it.admin.drop_partition(try_it.database, try_it.name, [value])
    results = {result.partition: result for result in keeper.delete()}
    assert results.pop(f"prt={value}").reason == "PartitionDropped"
    assert all(result.reason is None and result.final for result in results.values())
    assert keeper.finish() is None


@pytest.mark.parametrize("at", [2, 4, 5])
def test_a_deletion_that_died_is_finished_by_the_next(three_inserts: Lab, server: MetastoreServer, at: int) -> None:
    """H14: killed while it hides or deletes, under its lock or after it: nothing half, nobody held off for long."""
    store = Store()
    three_inserts.run(store=store)
    dying = real_work(three_inserts, server.uri, storage=DyingStorage(at=at, after=False))
    keeper = Keeper(real_work(three_inserts, server.uri), cleanup_of(store))
    keeper.settle()
    with pytest.raises(DiedError):
        replace(keeper, work=dying).delete()
    (result,) = keeper.delete()
    assert sorted({*result.deleted, *result.gone}) == DELTAS
    assert three_inserts.visible() == [OUTPUT]
    assert len(three_inserts.names()) == 1
    assert three_inserts.locks() == []


def test_what_vanished_meanwhile_is_told_to_be_gone(three_inserts: Lab, keep: Callable[..., Keeper]) -> None:
    """H14: Hive's own Cleaner was faster, with the directories and with the queue's entry."""
    keeper = keep(three_inserts)
    keeper.settle()
    for name in DELTAS:
        shutil.rmtree(three_inserts.directory / name)
    for entry in three_inserts.queue():
        three_inserts.admin.mark_failed(queue_job(entry), "gone")
    (result,) = keeper.delete()
    assert (result.deleted, sorted(result.gone), result.final) == ((), DELTAS, True)
    assert keeper.finish() is None


def test_a_reader_at_work_is_not_disturbed_by_one_that_waits(three_inserts: Lab, keep: Callable[..., Keeper]) -> None:
    """While somebody reads, nothing is taken out of sight; the lock that was waited for is given back."""
    keeper = keep(three_inserts)
    keeper.settle()
    reader = read_lock(three_inserts)
    (result,) = keeper.delete()
    assert (result.reason, result.final) == ("ReadersBusy", False)
    assert f"lock {reader}" in (result.skipped or "")
    assert three_inserts.locks() == [reader]
    assert three_inserts.visible() == [DELTAS[0], OUTPUT, *DELTAS[1:]]
    end(three_inserts, locks=[reader])
    (result,) = keeper.delete()
    assert result.final


def test_quarantine_and_purge(three_inserts: Lab, keep: Callable[..., Keeper]) -> None:
    """And one directory that somebody moved back: it stays, with its files as they were."""
    before = contents(three_inserts.directory / DELTAS[0])
    keeper = keep(three_inserts, quarantine="1h")
    keeper.settle()
    (result,) = keeper.delete()
    assert sorted(result.quarantined) == DELTAS
    assert three_inserts.visible() == [OUTPUT]
    (held,) = (three_inserts.directory / "_compaction_quarantine").iterdir()
    (held / DELTAS[0]).rename(three_inserts.directory / DELTAS[0])
    (result,) = keeper.delete(purge=True)
    assert (result.restored, sorted(result.deleted), result.final) == ((DELTAS[0],), DELTAS[1:], True)
    assert sorted(name for name in three_inserts.names() if name.startswith("_")) == []
    assert contents(three_inserts.directory / DELTAS[0]) == before


def test_a_journal_that_names_another_tables_directory_deletes_nothing_of_it(
    lab: Callable[..., Lab], keep: Callable[..., Keeper]
) -> None:
    """H21: places are the metastore's word alone."""
    victim, table = lab("merge", writes=2), lab("table_txn_001", writes=3)
    victim.run(MAJOR)
    before = contents(victim.directory)
    keeper = keep(table)
    (entry,) = keeper.cleanup.spec.partitions
    forged = entry.model_copy(update={"location": f"file:{victim.directory}", "highest_write_id": 2})
    spec = keeper.cleanup.spec.model_copy(update={"partitions": (forged,)})
    keeper = Keeper(keeper.work, cleanup(spec))
    assert keeper.settle() == {"": PublishedState.NOT_PUBLISHED}
    keeper.delete()
    assert keeper.finish() is None
    assert contents(victim.directory) == before
