"""What only the job on Hive 3.1 does, against a real metastore: pairs under an EXCLUSIVE lock, guarded first bases."""

from pathlib import Path

import pytest
from sandbox.harness.wait import wait_until
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import AGENT_PREFIX, Reason
from compaction_operator.cleanup.staging import staging_name
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive import driver_locks as job_locks
from compaction_operator.driver.hive.driver_locks import Patience
from compaction_operator.metastore import LockKind, LockWish
from compaction_operator.storage import LocalStorage
from tests.integration.metastore.fixture_table import Failing, FixtureTable, make_table, spec_of
from tests.integration.metastore.test_interrupted_driver import FIRST_HALF, driving, ended, require_nothing_left
from tests.unit.driver.support import REQUEST, Store

SERVERS = ("3.1.3",)
GUARD = "base_-9223372036854775808"
OTHER_HALF = "delete_delta_0000001_0000005"


@pytest.fixture
def three_inserts(admin: MetastoreAdmin, server: MetastoreServer, database: str) -> FixtureTable:
    table = make_table(admin, server, database, "table_txn_001")
    admin.start_write_ids(database, table.name, highest=3)
    return table


@pytest.fixture
def try_it(admin: MetastoreAdmin, server: MetastoreServer, database: str) -> FixtureTable:
    table = make_table(admin, server, database, "try_it")
    admin.start_write_ids(database, table.name, highest=6)
    return table


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for an EXCLUSIVE lock for a moment only."""
    monkeypatch.setattr(job_locks, "EXCLUSIVE_PATIENCE", Patience(wait_seconds=0.2))


def test_a_pair_is_published_under_an_exclusive_lock_once_the_reader_has_left(
    try_it: FixtureTable, impatient: None
) -> None:
    """H3: while a reader holds the partition, neither half appears, and the error names the reader."""
    reader = try_it.reader("prt=p1")
    before = try_it.names("prt=p1")
    with pytest.raises(JobError, match=f"lock {reader} of") as refused:
        try_it.run(partitions=["prt='p1'"])
    assert refused.value.reason is Reason.WAITING_FOR_EXCLUSIVE_LOCK
    assert try_it.names("prt=p1") == before
    try_it.admin.unlock(reader)
    try_it.run(partitions=["prt='p1'"], attempt=2)
    assert {"delta_0000001_0000005", "delete_delta_0000001_0000005"} <= set(try_it.names("prt=p1"))
    assert try_it.locks() == []


def test_no_reader_starts_between_the_two_renames_of_a_pair(
    try_it: FixtureTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3: at the second rename, the lock of a new reader has to wait."""
    publish, granted = LocalStorage.publish, []

    def watched(self: LocalStorage, source: str, target: str) -> None:
        if target.endswith("prt=p1/delete_delta_0000001_0000005"):
            wish = LockWish(
                database=try_it.database,
                table=try_it.name,
                partition="prt=p1",
                kind=LockKind.SHARED_READ,
                agent="reader",
            )
            state = try_it.admin.lock(wish)
            granted.append(state.acquired)
            try_it.admin.unlock(state.lock_id)
        publish(self, source, target)

    monkeypatch.setattr(LocalStorage, "publish", watched)
    try_it.run(partitions=["prt='p1'"])
    assert granted == [False]


def test_a_first_base_is_guarded_while_an_older_snapshot_is_open(three_inserts: FixtureTable) -> None:
    """H24: a transaction opened before may read again; a transaction opened afterwards sees the new base."""
    reader = three_inserts.admin.open_txn(user="reader", agent="test")
    store = Store()
    try:
        three_inserts.run(CompactionType.MAJOR, store=store)
    finally:
        # No other table's first base shall be guarded against it.
        three_inserts.admin.abort_txn(reader)
    assert {GUARD, "base_0000003"} <= set(three_inserts.names())
    (entry,) = spec_of(store)["partitions"]
    assert (entry["outputs"], GUARD in [one["name"] for one in entry["obsolete"]]) == (["base_0000003"], True)


def test_a_first_base_needs_no_guard_without_open_snapshots(three_inserts: FixtureTable) -> None:
    three_inserts.run(CompactionType.MAJOR)
    assert GUARD not in three_inserts.names()


def test_it_finishes_a_pair_that_it_has_begun_to_publish(
    try_it: FixtureTable, server: MetastoreServer, tmp_path: Path
) -> None:
    """H3: half of it would bring deleted rows back."""
    parts = ["prt=p1", "prt=p2", "prt=p3"]
    with driving(try_it, server.uri, tmp_path, "between the renames") as process:
        wait_until((tmp_path / "here").exists, timeout=60, what="the first rename")
        result = ended(process, tmp_path)
    assert result.reason is Reason.INTERRUPTED
    halves = [{FIRST_HALF, OTHER_HALF} & set(try_it.names(part)) for part in parts]
    assert [half for half in halves if half] == [{FIRST_HALF, OTHER_HALF}]
    # Both out of its own staging folder: nothing was rolled forward once the lock was gone.
    own = staging_name(uid=REQUEST.uid, attempt=REQUEST.attempt, pod_uid="pod1")
    sources = [Path(line) for line in (tmp_path / "renamed").read_text().split()]
    assert [(source.parent.name, source.name) for source in sources] == [(own, FIRST_HALF), (own, OTHER_HALF)]
    require_nothing_left(try_it, *parts)


def test_it_does_not_wait_for_readers_any_more(try_it: FixtureTable, server: MetastoreServer, tmp_path: Path) -> None:
    """Its EXCLUSIVE lock, which others would queue behind, goes as well."""
    reader = try_it.reader("prt=p1")
    with driving(try_it, server.uri, tmp_path, "waiting", partitions=("prt='p1'",)) as process:
        wait_until(lambda: waits_for_exclusive(try_it), timeout=60, what="a lock that waits")
        result = ended(process, tmp_path)
    try_it.admin.unlock(reader)
    assert result.reason is Reason.INTERRUPTED
    require_nothing_left(try_it, "prt=p1")


def waits_for_exclusive(table: FixtureTable) -> bool:
    locks = table.admin.show_locks(table.database, table.name)
    return any((lock.type, lock.state) == ("EXCLUSIVE", "WAITING") for lock in locks)


def test_a_driver_that_waits_for_a_reader_has_a_lock_at_every_moment(
    try_it: FixtureTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two tries too: the metastore shows that it lives, and other readers get in."""
    monkeypatch.setattr(job_locks, "EXCLUSIVE_PATIENCE", Patience(wait_seconds=0.2, tries=3))
    client, reader = Failing(try_it.admin, "nothing"), try_it.reader("prt=p1")
    left, before = list[list[str]](), try_it.names("prt=p2")

    def unlock(lock_id: int) -> None:
        try_it.admin.unlock(lock_id)
        locks = try_it.admin.show_locks(try_it.database, try_it.name)
        left.append([lock.type for lock in locks if (lock.agent or "").startswith(AGENT_PREFIX)])

    monkeypatch.setattr(client, "unlock", unlock, raising=False)
    with pytest.raises(JobError) as waiting:
        try_it.run(partitions=["prt='p1'", "prt='p2'"], client=client.client())
    assert waiting.value.reason is Reason.WAITING_FOR_EXCLUSIVE_LOCK
    assert left[-1] == []
    assert {len(own) for own in left[:-1]} == {1}
    assert left.count(["SHARED_READ"]) >= 3
    assert len(set(try_it.names("prt=p2")) - set(before)) == 2
    assert try_it.locks() == [reader]
    try_it.admin.unlock(reader)


def test_a_compaction_requested_after_the_journal_is_not_raced(try_it: FixtureTable) -> None:
    """H23: Hive's Worker takes no notice of ours; the partitions that it leaves alone are published."""
    parts = {part: try_it.names(part) for part in ("prt=p1", "prt=p2")}

    def ask() -> None:
        try_it.admin.compact(try_it.database, try_it.name, partition="prt=p1")

    with pytest.raises(JobError, match=r"of prt=p1 \(initiated\)") as refused:
        try_it.run(CompactionType.MAJOR, store=Store(on_create=ask), partitions=["prt='p1'", "prt='p2'"])
    assert refused.value.reason is Reason.IN_COMPACTION_QUEUE
    assert try_it.names("prt=p1") == parts["prt=p1"]
    assert set(try_it.names("prt=p2")) - set(parts["prt=p2"]) != set()
