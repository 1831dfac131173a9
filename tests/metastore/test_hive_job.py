"""The job's flow against a real metastore and real files: what it publishes, and when it must not."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.jobs import locks as job_locks
from compaction_operator.jobs.attempt import Attempt
from compaction_operator.jobs.errors import JobError
from compaction_operator.jobs.hive import HiveCompaction, identity_of
from compaction_operator.jobs.journal import Journal
from compaction_operator.jobs.locks import Patience
from compaction_operator.jobs.protocol import protocol_of
from compaction_operator.jobs.runner import LocalRunner
from compaction_operator.metastore.locks import LockKind, LockWish
from compaction_operator.metastore.resolve import Refused, resolve
from compaction_operator.storage import LocalStorage
from tests.unit.jobs.support import REQUEST, Reports, Store

FIXTURES = Path(__file__).parent.parent / "fixtures" / "hive-3.1.3"
COLUMNS = {"table_txn_001": ("id", "name"), "try_it": ("id", "a_val", "b_val")}
GUARD = "base_-9223372036854775808"
DELTAS = [f"delta_000000{n}_000000{n}_0000" for n in (1, 2, 3)]


@dataclass
class Lab:
    """A table of the fixtures, known to the metastore with real write ids."""

    admin: MetastoreAdmin
    database: str
    name: str
    directory: Path
    open: list[int] = field(default_factory=list)

    def write(self, *, commit: bool = True) -> int:
        """Take a write id and end its transaction, or leave it open."""
        txn = self.admin.open_txn(user="writer", agent="test")
        write_id = self.admin.allocate_write_id(txn, self.database, self.name)
        if commit:
            self.admin.commit_txn(txn)
        else:
            self.open.append(txn)
        return write_id

    def run(
        self,
        kind: CompactionType = CompactionType.MINOR,
        *,
        store: Store | None = None,
        pod: str = "pod1",
        partitions: Sequence[str] = (),
        attempt: int = 1,
    ) -> DriverResult:
        """Run a driver's flow in this process; raises JobError as the driver would end with it."""
        table = TableRef(database=self.database, name=self.name)
        request = REQUEST.model_copy(update={"table": table, "type": kind, "attempt": attempt})
        resolved = resolve(self.admin, table, partitions)
        journal = Journal(store or Store(), request, identity=identity_of(resolved.table), pod_uid=pod)
        attempt = Attempt(self.admin, request, pod, resolved.table.row_type)
        compaction = HiveCompaction(attempt, protocol_of(attempt), runner=LocalRunner(), report=Reports())
        return compaction.run(resolved.targets, journal)

    def names(self, partition: str = "") -> list[str]:
        """Return all names in the table's or partition's directory, hidden ones too."""
        return sorted(path.name for path in (self.directory / partition).iterdir())

    def reader(self, partition: str | None = None) -> int:
        """Return a lock that a reader holds."""
        wish = LockWish(
            database=self.database, table=self.name, partition=partition, kind=LockKind.SHARED_READ, agent="reader"
        )
        return self.admin.lock(wish).lock_id

    def locks(self) -> list[int]:
        """Return the ids of all locks on the table."""
        return [lock.lock_id for lock in self.admin.show_locks(self.database, self.name)]


@pytest.fixture
def lab(admin: MetastoreAdmin, server: MetastoreServer, database: str) -> Iterator[Callable[..., Lab]]:
    """Make a table of a fixture: its files, its partitions and its committed write ids.

    What a test leaves open is aborted: no other table's first base shall be guarded against it.
    """
    made: list[Lab] = []

    def make(fixture: str, *, writes: int, partitions: Sequence[str] = ()) -> Lab:
        directory = Path(server.warehouse) / f"{database}.db" / fixture
        keys = (("prt", "string"),) if partitions else ()
        columns = [(name, "int" if name == "id" else "string") for name in COLUMNS[fixture]]
        admin.create_table(database, fixture, location=f"file:{directory}", columns=columns, partition_keys=keys)
        if partitions:
            admin.add_partitions(database, fixture, [[value] for value in partitions])
        shutil.copytree(FIXTURES / fixture / "before", directory, dirs_exist_ok=True)
        table = Lab(admin, database, fixture, directory)
        made.append(table)
        for _ in range(writes):
            table.write()
        return table

    yield make
    for txn in (txn for table in made for txn in table.open):
        admin.abort_txn(txn)


@pytest.fixture
def three_inserts(lab: Callable[..., Lab]) -> Lab:
    return lab("table_txn_001", writes=3)


@pytest.fixture
def try_it(lab: Callable[..., Lab]) -> Lab:
    return lab("try_it", writes=6, partitions=("p1", "p2", "p3"))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for an EXCLUSIVE lock for a moment only."""
    monkeypatch.setattr(job_locks, "EXCLUSIVE_PATIENCE", Patience(wait_seconds=0.2))


def spec_of(store: Store) -> dict[str, Any]:
    (resource,) = store.resources.values()
    spec: dict[str, Any] = resource["spec"]
    return spec


def test_a_minor_publishes_one_delta_and_gives_its_lock_back(three_inserts: Lab) -> None:
    assert three_inserts.run().reason is Reason.COMPACTED
    assert three_inserts.names() == [DELTAS[0], "delta_0000001_0000003", *DELTAS[1:]]
    assert three_inserts.locks() == []


def test_the_journal_is_written_while_nothing_is_published_yet(three_inserts: Lab) -> None:
    seen: list[list[str]] = []
    store = Store(on_create=lambda: seen.append(three_inserts.names()))
    three_inserts.run(CompactionType.MAJOR, store=store)
    assert "base_0000003" not in seen[0]
    (entry,) = spec_of(store)["partitions"]
    assert entry["outputs"] == ["base_0000003"]
    assert sorted(one["name"] for one in entry["obsolete"]) == DELTAS
    assert entry["highestWriteId"] == 3
    assert spec_of(store)["lockIds"] != []


def test_two_partitions_fit_and_the_third_keeps_its_files_when_one_of_them_is_broken(try_it: Lab) -> None:
    broken = try_it.directory / "prt=p2/delta_0000002_0000002_0000/bucket_00000"
    broken.write_bytes(b"ORC" + broken.read_bytes()[:40])
    with pytest.raises(JobError, match="delta_0000002_0000002_0000/bucket_00000") as failed:
        try_it.run(CompactionType.MAJOR)
    assert failed.value.reason is Reason.UNREADABLE_FILE
    assert "base_0000005" in try_it.names("prt=p1")
    assert "base_0000006" in try_it.names("prt=p3")
    assert not [name for name in try_it.names("prt=p2") if name.startswith(("base", "_compaction"))]


def test_a_pair_is_published_under_an_exclusive_lock_once_the_reader_has_left(try_it: Lab, impatient: None) -> None:
    """H3: while somebody reads the partition neither half appears, and the reader is named."""
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


def test_nobody_can_read_between_the_two_renames_of_a_pair(try_it: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """H3: at the moment of the second rename a new reader's lock has to wait."""
    publish, granted = LocalStorage.publish, []

    def watched(self: LocalStorage, source: str, target: str) -> None:
        if target.endswith("/delete_delta_0000001_0000005"):
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


def test_a_driver_whose_lock_is_gone_publishes_nothing(three_inserts: Lab) -> None:
    """H19: paused beyond its time-out, it finds out before the rename."""
    store = Store(on_create=lambda: three_inserts.admin.unlock(spec_of(store)["lockIds"][0]))
    with pytest.raises(JobError) as stopped:
        three_inserts.run(store=store)
    assert stopped.value.reason is Reason.LOCK_LOST
    assert "delta_0000001_0000003" not in three_inserts.names()


def test_of_two_drivers_of_one_attempt_the_second_leaves_without_publishing(three_inserts: Lab) -> None:
    """H4: the second fences the first one, then finds its journal; neither publishes, the next attempt does."""
    store = Store()

    def second() -> None:
        store._on_create = lambda: None
        with pytest.raises(JobError) as refused:
            three_inserts.run(store=store, pod="pod2")
        assert refused.value.reason is Reason.SUPERSEDED

    store._on_create = second
    with pytest.raises(JobError) as stopped:
        three_inserts.run(store=store, pod="pod1")
    assert stopped.value.reason is Reason.TABLE_CHANGED
    assert [name for name in three_inserts.names() if not name.startswith("_")] == DELTAS
    assert three_inserts.run(store=store, attempt=2).reason is Reason.COMPACTED
    assert three_inserts.names() == [DELTAS[0], "delta_0000001_0000003", *DELTAS[1:]]


def test_a_compaction_that_overlaps_one_published_meanwhile_is_not_published(three_inserts: Lab) -> None:
    """H23: a base that appears after planning would double its rows."""
    base = three_inserts.directory / "base_0000002"

    def overtake() -> None:
        base.mkdir()
        (base / "_metadata_acid").write_text("{}")

    with pytest.raises(JobError) as stopped:
        three_inserts.run(store=Store(on_create=overtake))
    assert stopped.value.reason is Reason.TABLE_CHANGED
    assert "delta_0000001_0000003" not in three_inserts.names()


def test_nothing_at_or_above_an_open_write_id_is_compacted(lab: Callable[..., Lab]) -> None:
    """H8: write id 3 is still open, so only 1 and 2 are merged, whatever lies there."""
    table = lab("table_txn_001", writes=2)
    table.write(commit=False)
    table.run(CompactionType.MAJOR)
    assert "base_0000002" in table.names()


def test_a_first_base_is_guarded_while_somebody_has_an_older_snapshot(three_inserts: Lab) -> None:
    """H24: who opened a transaction before may read again; who does so afterwards sees the new base."""
    three_inserts.open.append(three_inserts.admin.open_txn(user="reader", agent="test"))
    store = Store()
    three_inserts.run(CompactionType.MAJOR, store=store)
    assert {GUARD, "base_0000003"} <= set(three_inserts.names())
    (entry,) = spec_of(store)["partitions"]
    assert (entry["outputs"], GUARD in [one["name"] for one in entry["obsolete"]]) == (["base_0000003"], True)


def test_a_first_base_needs_no_guard_when_nobody_is_there(three_inserts: Lab) -> None:
    three_inserts.run(CompactionType.MAJOR)
    assert GUARD not in three_inserts.names()


def test_nothing_to_compact_still_records_what_is_obsolete_already(three_inserts: Lab) -> None:
    three_inserts.run(CompactionType.MAJOR)
    store = Store()
    assert three_inserts.run(CompactionType.MINOR, store=store).reason is Reason.NOTHING_TO_COMPACT
    (entry,) = spec_of(store)["partitions"]
    assert "outputs" not in entry or entry["outputs"] == []
    assert sorted(one["name"] for one in entry["obsolete"]) == DELTAS


def test_staging_of_a_dead_attempt_is_gone_before_the_next_one_lists(three_inserts: Lab) -> None:
    dead = three_inserts.directory / "_compaction_0f8c-1-dead" / "delta_0000001_0000003"
    dead.mkdir(parents=True)
    three_inserts.run(attempt=2)
    assert three_inserts.names() == [DELTAS[0], "delta_0000001_0000003", *DELTAS[1:]]


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
    name = change.pop("name", None) or make_table(**change)
    with pytest.raises(Refused, match=says) as refused:
        resolve(admin, TableRef(database=database, name=name), partitions)
    assert refused.value.reason is reason
