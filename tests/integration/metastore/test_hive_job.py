"""The job's flow against real metastores of both generations: what it publishes, and when it must not."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sandbox.harness.wait import wait_until
from sandbox.metastore.admin import MetastoreAdmin

from compaction_operator import orc
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive import flow as hive
from compaction_operator.driver.merge import partition
from compaction_operator.metastore import LockKind, LockWish, QueueEntry, QueueJob, Refused, resolve
from compaction_operator.orc import MergeResult, MergeTask, merge_bucket
from compaction_operator.storage import LocalStorage, Storage
from tests.integration.metastore.fixture_table import Failing, FixtureTable, spec_of
from tests.support.row_types import give_former_name
from tests.unit.driver.support import Store

MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
DELTAS = [f"delta_000000{n}_000000{n}_0000" for n in (1, 2, 3)]
COMPACTED = [DELTAS[0], "delta_0000001_0000003", *DELTAS[1:]]


def refused(table: FixtureTable, *reasons: Reason, **options: Any) -> str:
    """What a run says that must not publish."""
    with pytest.raises(JobError) as stopped:
        table.run(**options)
    assert stopped.value.reason in reasons
    return str(stopped.value)


def test_a_minor_publishes_one_delta_and_holds_nothing_any_more(three_inserts: FixtureTable) -> None:
    assert three_inserts.run().reason is Reason.COMPACTED
    assert three_inserts.visible() == COMPACTED
    assert len(three_inserts.names()) == len(COMPACTED)
    assert (three_inserts.locks(), three_inserts.own_transactions()) == ([], [])


def test_runs_of_one_row_type_are_published_together(fixture_table: Callable[..., FixtureTable]) -> None:
    """Between the second and the third write a column was renamed: one journal, and on Hive 4 one transaction."""
    table, store = fixture_table("types", writes=5), Store()
    before = table.visible()
    give_former_name(*(Path(table.directory) / delta for delta in DELTAS[:2]))
    result = table.run(store=store)
    assert result.reason is Reason.COMPACTED
    assert "column former is in this file but not in the table" in (result.apart or "")
    outputs = ["delete_delta_0000003_0000005", "delta_0000001_0000002", "delta_0000003_0000005"]
    assert table.visible() == sorted([*before, *outputs])
    (entry,) = spec_of(store)["partitions"]
    assert sorted(one["name"] for one in entry["obsolete"]) == before
    assert (table.locks(), table.own_transactions()) == ([], [])


def test_the_journal_is_written_while_nothing_is_published_yet(three_inserts: FixtureTable) -> None:
    seen: list[list[str]] = []
    store = Store(on_create=lambda: seen.append(three_inserts.visible()))
    three_inserts.run(MAJOR, store=store)
    assert seen == [DELTAS]
    spec = spec_of(store)
    (entry,) = spec["partitions"]
    assert sorted(one["name"] for one in entry["obsolete"]) == DELTAS
    assert entry["highestWriteId"] == 3
    assert len(spec["lockIds"]) == 1
    assert set(entry["outputs"]) <= set(three_inserts.names())
    assert (spec["table"].get("tableId") is not None) == three_inserts.is_hive4


def test_two_partitions_fit_and_the_third_keeps_its_files_when_one_of_them_is_broken(try_it: FixtureTable) -> None:
    (broken,) = Path(try_it.directory).glob("prt=p2/delta_0000002_0000002_0000/bucket_00000*")
    broken.write_bytes(b"ORC" + broken.read_bytes()[:40])
    assert "delta_0000002_0000002_0000/bucket_00000" in refused(try_it, Reason.UNREADABLE_FILE, kind=MAJOR)
    assert "base_0000005" in try_it.visible("prt=p1")
    assert "base_0000006" in try_it.visible("prt=p3")
    assert not [name for name in try_it.names("prt=p2") if name.startswith(("base", "_compaction"))]
    assert (try_it.locks(), try_it.own_transactions()) == ([], [])


def test_rows_that_were_not_read_are_missed_before_anything_is_published(
    three_inserts: FixtureTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H18: what is read is masked, here by a snapshot that hides a row of a valid write id."""

    def masked(task: MergeTask, **_: object) -> MergeResult:
        return merge_bucket(replace(task, write_ids=f"d.t:2:{2**63 - 1}::"))

    monkeypatch.setattr(orc, "merge_bucket", masked)
    before = three_inserts.names()
    message = refused(three_inserts, Reason.UNREADABLE_FILE)
    assert "rows of write id 3 were left out, but it is valid" in message
    assert three_inserts.names() == before
    assert three_inserts.locks() == []


def test_a_compaction_that_overlaps_one_published_meanwhile_is_not_published(three_inserts: FixtureTable) -> None:
    """H23: a base that appears after planning would double its rows."""
    base = three_inserts.directory / "base_0000002"

    def overtake() -> None:
        base.mkdir()
        (base / "_metadata_acid").write_bytes(b"{}")

    refused(three_inserts, Reason.TABLE_CHANGED, store=Store(on_create=overtake))
    assert three_inserts.visible() == ["base_0000002", *DELTAS]
    assert (three_inserts.locks(), three_inserts.own_transactions()) == ([], [])


def take_name(table: FixtureTable, make_table: Callable[..., str]) -> None:
    """Rename a table, whose directory goes with it, and give its name to another."""
    created = table.admin.get_table(table.database, table.name).create_time
    wait_until(lambda: time.time() > created + 1, timeout=5, what="another second")
    table.admin.rename_table(table.database, table.name, to="renamed")
    make_table(table.name)


def test_a_table_that_another_takes_the_name_of_is_not_compacted_by_its_write_ids(
    three_inserts: FixtureTable, make_table: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is renamed after it was looked up: what goes by its name from then on is about the other one."""
    table, client, asked = three_inserts, Failing(three_inserts.admin, "nothing"), []

    def compactions(database: str, name: str) -> tuple[QueueEntry, ...]:
        monkeypatch.setattr(client, "compactions", table.admin.compactions)
        take_name(table, make_table)
        return ()

    def valid_write_ids(*arguments: Any, **options: Any) -> ValidWriteIdList:
        asked.append(arguments)
        return table.admin.valid_write_ids(*arguments, **options)

    monkeypatch.setattr(client, "compactions", compactions, raising=False)
    monkeypatch.setattr(client, "valid_write_ids", valid_write_ids, raising=False)
    store = Store()
    said = refused(table, Reason.TABLE_CHANGED, client=client.client(), store=store)
    assert "dropped and created again" in said
    assert (asked, store.resources) == ([], {})
    assert (table.locks(), table.own_transactions()) == ([], [])
    assert not [path for path in Path(table.directory.parent).rglob("*") if path.name.startswith(("base", "_comp"))]


def test_a_table_that_loses_its_name_while_it_is_merged_gets_no_journal_under_that_name(
    three_inserts: FixtureTable, make_table: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a RENAME without the lock that Hive's asks for. A journal would have the other one cleaned up."""
    table, store, assemble = three_inserts, Store(), partition.assemble

    def meanwhile(*arguments: Any, **options: Any) -> None:
        assemble(*arguments, **options)
        take_name(table, make_table)

    monkeypatch.setattr(hive, "assemble", meanwhile)
    assert "dropped and created again" in refused(table, Reason.TABLE_CHANGED, store=store)
    assert store.resources == {}
    assert (table.locks(), table.own_transactions()) == ([], [])


def test_a_rename_or_drop_by_hive_waits_for_the_tables_driver(three_inserts: FixtureTable) -> None:
    """Both take an EXCLUSIVE lock on it, so what a driver has looked up under its own lock stays valid."""
    table, granted = three_inserts, []

    def rename() -> None:
        wish = LockWish(database=table.database, table=table.name, kind=LockKind.EXCLUSIVE, agent="rename")
        state = table.admin.lock(wish)
        granted.append(state.acquired)
        table.admin.unlock(state.lock_id)

    table.run(store=Store(on_create=rename))
    assert granted == [False]


def test_nothing_at_or_above_an_open_write_id_is_compacted(fixture_table: Callable[..., FixtureTable]) -> None:
    """H8: write id 2 is still open, so 3, which is committed, has to wait: a base above 2 would hide it for ever."""
    table = fixture_table("table_txn_001", writes=1)
    table.write(commit=False)
    table.write()
    table.run(MAJOR)
    assert [name for name in table.visible() if name.startswith("base_0")] == ["base_0000001"]


def test_nothing_to_compact_still_records_what_is_obsolete_already(three_inserts: FixtureTable) -> None:
    """And it never enters the queue."""
    three_inserts.run(MAJOR)
    before, store = three_inserts.queue(), Store()
    assert three_inserts.run(MINOR, store=store).reason is Reason.NOTHING_TO_COMPACT
    (entry,) = spec_of(store)["partitions"]
    assert entry.get("outputs", []) == []
    assert sorted(one["name"] for one in entry["obsolete"]) == DELTAS
    assert three_inserts.queue() == before


@pytest.mark.hdfs
@pytest.mark.s3
def test_staging_of_a_dead_attempt_is_gone_before_the_next_one_lists(three_inserts: FixtureTable) -> None:
    dead = three_inserts.directory / "_compaction_0f8c-1-dead" / "delta_0000001_0000003"
    dead.mkdir(parents=True)
    three_inserts.run(attempt=2)
    assert three_inserts.visible() == COMPACTED
    assert not dead.parent.exists()


def test_a_driver_that_lost_what_it_holds_publishes_nothing(
    three_inserts: FixtureTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H19: it was paused beyond its time-out, and finds out before the rename: nothing is in its place for a moment."""
    publish, moved = LocalStorage.publish, []

    def watched(self: LocalStorage, source: str, target: str) -> None:
        moved.extend([target] if target.rpartition("/")[0].endswith(str(three_inserts.directory)) else [])
        publish(self, source, target)

    def lose() -> None:
        spec = spec_of(store)
        if three_inserts.is_hive4:
            assert three_inserts.admin.abort_txn(spec["partitions"][0]["txnId"])
        else:
            three_inserts.admin.unlock(spec["lockIds"][0])

    monkeypatch.setattr(LocalStorage, "publish", watched)
    store = Store(on_create=lose)
    refused(three_inserts, Reason.LOCK_LOST, Reason.TRANSACTION_LOST, store=store)
    assert moved == []
    assert three_inserts.visible() == DELTAS


def test_of_two_drivers_of_one_attempt_only_one_can_publish(three_inserts: FixtureTable) -> None:
    """H4: the second comes when all is written. It leaves, and on 3.1 neither publishes, but the next attempt."""
    store = Store()

    def second() -> None:
        store._on_create = lambda: None
        refused(three_inserts, Reason.SUPERSEDED, Reason.IN_COMPACTION_QUEUE, store=store, pod="pod2")
        assert three_inserts.visible() == DELTAS

    store._on_create = second
    if three_inserts.is_hive4:
        assert three_inserts.run(store=store).reason is Reason.COMPACTED
    else:
        refused(three_inserts, Reason.TABLE_CHANGED, store=store)
        assert three_inserts.visible() == DELTAS
        assert three_inserts.run(store=store, attempt=2).reason is Reason.COMPACTED
    assert three_inserts.visible() == COMPACTED


@pytest.mark.hdfs
def test_a_rename_that_lands_after_the_last_check_finds_nothing_to_rename(
    fixture_table: Callable[..., FixtureTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H19: its driver was paused right before it; the next attempt, which knows one more write, has published."""
    table = fixture_table("table_txn_001", writes=2)
    publish, store = table.storage_class.publish, Store()

    def paused(self: Storage, source: str, target: str) -> None:
        if Path(target).name.startswith("base_0000002"):
            monkeypatch.setattr(table.storage_class, "publish", publish)
            if table.is_hive4:
                end_of(table, spec_of(store)["partitions"][0])
            table.write()
            assert table.run(MINOR, attempt=2, pod="pod2").reason is Reason.COMPACTED
        publish(self, source, target)

    monkeypatch.setattr(table.storage_class, "publish", paused)
    refused(table, Reason.TABLE_CHANGED, kind=MAJOR, store=store)
    assert table.visible() == COMPACTED
    assert (table.locks(), table.own_transactions()) == ([], [])


def end_of(table: FixtureTable, entry: dict[str, Any]) -> None:
    """End what a dead attempt holds, as its controller does."""
    assert table.admin.abort_txn(entry["txnId"])
    job = QueueJob(queue_id=entry["queueId"], database=table.database, table=table.name, type=MAJOR)
    table.admin.mark_failed(job, "its attempt has ended")


def test_a_table_that_another_compaction_holds_is_left_alone_and_the_holder_is_named(try_it: FixtureTable) -> None:
    """The driver refuses before it writes anything. Partitions that are not selected do not matter."""
    theirs = try_it.admin.compact(try_it.database, try_it.name, partition="prt=p2")
    before = try_it.names("prt=p1")
    said = refused(try_it, Reason.IN_COMPACTION_QUEUE)
    assert f"entry {theirs} of prt=p2 (initiated)" in said
    assert try_it.names("prt=p1") == before
    assert try_it.run(partitions=["prt='p3'"], kind=MAJOR).reason is Reason.COMPACTED


@pytest.mark.parametrize(
    ("change", "partitions", "reason", "says"),
    [
        ({"name": "nowhere"}, (), Reason.TABLE_NOT_FOUND, "nowhere"),
        ({"parameters": {}}, (), Reason.NOT_TRANSACTIONAL, "not transactional"),
        (
            {"parameters": {"transactional": "true", "transactional_properties": "insert_only"}},
            (),
            Reason.INSERT_ONLY,
            "insert-only",
        ),
        ({"keys": ("prt",)}, ("prt='nope'",), Reason.PARTITION_NOT_FOUND, "nope"),
        ({"keys": ("prt",)}, ("prt",), Reason.PARTITION_NOT_FOUND, "prt"),
        ({}, ("prt='p1'",), Reason.PARTITION_NOT_FOUND, "not partitioned"),
    ],
)
def test_what_cannot_be_compacted_is_refused_by_name(  # noqa: PLR0917
    change: dict[str, Any],
    partitions: Sequence[str],
    reason: Reason,
    says: str,
    admin: MetastoreAdmin,
    database: str,
    make_table: Callable[..., str],
) -> None:
    name = dict(change).pop("name", None) or make_table(**change)
    with pytest.raises(Refused, match=says) as refused:
        resolve(admin, TableRef(database=database, name=name), partitions)
    assert refused.value.reason is reason
