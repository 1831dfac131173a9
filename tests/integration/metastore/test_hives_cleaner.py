"""Hive's own Cleaner next to this project: what it makes of entries that went through our hands."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sandbox.harness.wait import wait_until
from sandbox.metastore.admin import MetastoreAdmin
from sandbox.metastore.server import CLEANER, Hive, MetastoreServer

from compaction_operator.acid.names import ORC_ACID_VERSION, ORC_ACID_VERSION_CONTENT
from compaction_operator.api.compaction import CompactionType
from compaction_operator.metastore import QueueJob, QueueState

TABLE = {"database": "cleaned", "table": "t"}


@pytest.fixture
def admin(hive4: Hive, tmp_path: Path) -> Iterator[MetastoreAdmin]:
    server = MetastoreServer(tmp_path, hive=hive4, overrides=CLEANER)
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


def write(admin: MetastoreAdmin, directory: Path) -> str:
    """Insert something; returns the name of its directory."""
    txn = admin.open_txn(user="writer", agent="test")
    write_id = admin.allocate_write_id(txn, "cleaned", "t")
    name = fill(directory / f"delta_{write_id:07}_{write_id:07}_0000")
    admin.commit_txn(txn)
    return name


def compact(admin: MetastoreAdmin, directory: Path) -> tuple[QueueJob, str]:
    """Compact as a driver does; returns the entry and the name of the new base."""
    admin.enqueue_compaction(**TABLE, partition=None, type=CompactionType.MAJOR, pool="ours")
    job, txn = admin.take_compaction(pool="ours", worker="w"), admin.open_compaction_txn(agent="test")
    assert job
    job = replace(job, highest_write_id=2)
    admin.update_compaction(job, txn)
    base = fill(directory / f"base_0000002_v{txn:07}")
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
    """Return how far an entry is."""
    (entry,) = (entry for entry in admin.compactions(**TABLE) if entry.queue_id == job.queue_id)
    return entry.state
