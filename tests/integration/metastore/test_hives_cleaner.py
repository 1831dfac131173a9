"""Hive's own Cleaner next to this project: what it makes of entries that went through our hands."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sandbox.harness.wait import wait_until
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import CLEANER, Hive, MetastoreServer

from compaction_operator.acid.names import ORC_ACID_VERSION, ORC_ACID_VERSION_CONTENT
from compaction_operator.api.compaction import CompactionType
from compaction_operator.metastore import QueueJob, QueueState
from compaction_operator.metastore import hive4_calls as hive4

TABLE = {"database": "cleaned", "table": "t"}
WAITING = {"metastore.txn.use.minhistorywriteid": "false"}
"""With this, which is the default before 4.2, the Cleaner waits for every open transaction."""


@pytest.fixture
def admin(hive4: Hive, tmp_path: Path) -> Iterator[MetastoreAdmin]:
    with _cleaned(hive4, tmp_path, {**CLEANER, **WAITING}) as admin:
        yield admin


@pytest.fixture
def admin_of_4_2(tmp_path: Path) -> Iterator[MetastoreAdmin]:
    """With the Cleaner as 4.2 has it by default. What was aborted is not forgotten during a test."""
    with _cleaned("4.2.0", tmp_path, {**CLEANER, "metastore.acid.txn.cleaner.interval": "1h"}) as admin:
        yield admin


@contextmanager
def _cleaned(hive: Hive, folder: Path, overrides: Mapping[str, str]) -> Iterator[MetastoreAdmin]:
    server = MetastoreServer(folder, hive=hive, overrides=overrides)
    with server, MetastoreAdmin(server.settings()) as admin:
        location = f"file:{server.warehouse}/cleaned.db"
        admin.create_database("cleaned", location=location)
        admin.create_table("cleaned", "t", location=f"{location}/t", columns=[("id", "int")])
        yield admin


def test_hives_cleaner_and_ours_may_both_end_an_entry(admin: MetastoreAdmin) -> None:
    """It cleans after a third party as after Hive's own Worker; our mark comes second then, and changes nothing."""
    directory = Path(admin.get_table("cleaned", "t").location.removeprefix("file:"))
    deltas = [write(admin, directory) for _ in range(2)]
    reader = admin.open_txn(user="reader", agent="test")
    job, base = compact(admin, directory)
    assert {path.name for path in directory.iterdir()} == {*deltas, base}
    admin.commit_txn(reader)
    wait_until(lambda: state(admin, job) is QueueState.SUCCEEDED, timeout=60, what="Hive's Cleaner", poll=0.5)
    assert [path.name for path in directory.iterdir()] == [base]
    admin.mark_cleaned(job)
    admin.mark_failed(job, "too late")
    assert state(admin, job) is QueueState.SUCCEEDED


@pytest.mark.parametrize("registered", [False, True])
def test_the_cleaner_of_4_2_fails_while_a_transaction_of_before_the_commit_is_open(
    admin_of_4_2: MetastoreAdmin, registered: bool
) -> None:
    """It writes such a transaction down as number 0, in a form that it cannot read. Our mark ends the entry."""
    admin = admin_of_4_2
    directory = Path(admin.get_table("cleaned", "t").location.removeprefix("file:"))
    deltas = [write(admin, directory) for _ in range(2)]
    reader = read(admin, registered=registered)
    job, base = compact(admin, directory)
    wait_until(lambda: error(admin, job), timeout=60, what="Hive's Cleaner", poll=0.5)
    assert error(admin, job) == 'java.lang.NumberFormatException: For input string: ""'
    assert state(admin, job) is QueueState.READY_FOR_CLEANING
    assert {path.name for path in directory.iterdir()} == {*deltas, base}
    admin.commit_txn(reader)
    admin.mark_cleaned(job)
    assert state(admin, job) is QueueState.SUCCEEDED


@pytest.mark.parametrize("registered", [False, True])
def test_the_cleaner_of_4_2_waits_for_no_such_transaction_where_an_older_one_is_aborted(
    admin_of_4_2: MetastoreAdmin, registered: bool
) -> None:
    """The reader's snapshot has the compaction open, so it reads the deltas. docs/safety.md names the remedies."""
    admin = admin_of_4_2
    directory = Path(admin.get_table("cleaned", "t").location.removeprefix("file:"))
    aborted = admin.open_txn(user="writer", agent="test")
    admin.allocate_write_id(aborted, "cleaned", "t")
    admin.abort_txn(aborted)
    for _ in range(2):
        write(admin, directory)
    reader = read(admin, registered=registered)
    job, base = compact(admin, directory, highest=3)
    wait_until(lambda: state(admin, job) is QueueState.SUCCEEDED, timeout=60, what="Hive's Cleaner", poll=0.5)
    assert [path.name for path in directory.iterdir()] == [base]
    assert reader in {txn.txn for txn in admin.open_transactions().open}


def read(admin: MetastoreAdmin, *, registered: bool) -> int:
    """Open a reader's transaction; with `registered` as HiveServer2 4.2 does it, by the next write id."""
    txn = admin.open_txn(user="reader", agent="test")
    if registered:
        next_one = admin.valid_write_ids("cleaned", "t").high_watermark + 1
        admin._call(lambda client: hive4.add_write_ids_to_min_history(client, txn, {"cleaned.t": next_one}))
    return txn


def error(admin: MetastoreAdmin, job: QueueJob) -> str | None:
    """Return the error message of an entry."""
    (entry,) = (entry for entry in admin.compactions(**TABLE) if entry.queue_id == job.queue_id)
    return entry.error


def write(admin: MetastoreAdmin, directory: Path) -> str:
    """Insert something; returns the name of its directory."""
    txn = admin.open_txn(user="writer", agent="test")
    write_id = admin.allocate_write_id(txn, "cleaned", "t")
    name = fill(directory / f"delta_{write_id:07}_{write_id:07}_0000")
    admin.commit_txn(txn)
    return name


def compact(admin: MetastoreAdmin, directory: Path, *, highest: int = 2) -> tuple[QueueJob, str]:
    """Compact as a driver does; returns the entry and the name of the new base."""
    admin.enqueue_compaction(**TABLE, partition=None, type=CompactionType.MAJOR, pool="ours")
    job, txn = admin.take_compaction(pool="ours", worker="w"), admin.open_compaction_txn(agent="test")
    assert job
    job = replace(job, highest_write_id=highest)
    admin.register_reader(job, txn)
    admin.update_compaction(job, txn)
    base = fill(directory / f"base_{highest:07}_v{txn:07}")
    admin.commit_txn(txn)
    admin.mark_compacted(job)
    return job, base


def fill(directory: Path) -> str:
    """Make a directory with what the Cleaner looks at: names."""
    directory.mkdir()
    (directory / ORC_ACID_VERSION).write_bytes(ORC_ACID_VERSION_CONTENT)
    (directory / "bucket_00000").write_bytes(b"rows")
    return directory.name


def state(admin: MetastoreAdmin, job: QueueJob) -> QueueState:
    """Return how far an entry is. NB: while it moves into the history, SHOW COMPACTIONS may list it twice."""
    return [entry.state for entry in admin.compactions(**TABLE) if entry.queue_id == job.queue_id][-1]
