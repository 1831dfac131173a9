"""TRUNCATE and DROP PARTITION as real metastores carry them out, and compactions beside them."""

from pathlib import Path

import pytest

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.orc import count_rows
from tests.integration.metastore.fixture_table import FIXTURES, FixtureTable, spec_of
from tests.unit.driver.support import Store

SERVERS = ("4.0.1",)
MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
KINDS = pytest.mark.parametrize("kind", [MINOR, MAJOR])
INSERTS = {f"delta_000000{number}_000000{number}_0000" for number in (1, 2, 3)}


def begin(table: FixtureTable) -> tuple[int, int]:
    """Return the transaction and write id of a statement that will empty something."""
    txn = table.admin.open_txn(user="writer", agent="test")
    write_id = table.admin.allocate_write_id(txn, table.database, table.name)
    table.admin.lock_to_write(txn, table.database, table.name, agent="test")
    return txn, write_id


def truncate(table: FixtureTable, *, partitions: list[str] | None = None) -> int:
    """Truncate, and return the transaction, which is still open."""
    txn, write_id = begin(table)
    table.admin.truncate(table.database, table.name, write_id=write_id, partitions=partitions)
    table.open.append(txn)
    return txn


def obsolete(store: Store, partition: str = "") -> set[str]:
    """Return what a journal says of a partition."""
    (entry,) = (one for one in spec_of(store)["partitions"] if one["partition"] == partition)
    return {one["name"] for one in entry["obsolete"]}


def rows(table: FixtureTable, output: str) -> int:
    """Return how many rows an output has, by the beginning of its name."""
    (place,) = Path(table.directory).glob(f"{output}*")
    return sum(count_rows(str(file)) for file in place.glob("bucket_*"))


@KINDS
def test_a_truncation_that_is_rolled_back_costs_no_row(three_inserts: FixtureTable, kind: CompactionType) -> None:
    three_inserts.admin.abort_txn(truncate(three_inserts))
    mark = three_inserts.directory / "base_0000004" / "_metadata_acid"
    assert mark.read_bytes() == b'{"thisFileVersion":"0","dataFormat":"truncated"}'
    store = Store()
    three_inserts.run(kind, store=store)
    assert rows(three_inserts, "base_0000003" if kind is MAJOR else "delta_0000001_0000003") == 3
    assert obsolete(store) == {*INSERTS, "base_0000004"}


@KINDS
def test_a_truncation_under_way_costs_no_row(three_inserts: FixtureTable, kind: CompactionType) -> None:
    truncate(three_inserts)
    store = Store()
    three_inserts.run(kind, store=store)
    assert rows(three_inserts, "base_0000003" if kind is MAJOR else "delta_0000001_0000003") == 3
    assert obsolete(store) == INSERTS
    assert "base_0000004" in three_inserts.names()


@KINDS
def test_a_truncation_that_is_committed_leaves_nothing_to_merge(
    three_inserts: FixtureTable, kind: CompactionType
) -> None:
    three_inserts.admin.commit_txn(truncate(three_inserts))
    store = Store()
    assert three_inserts.run(kind, store=store).reason is Reason.NOTHING_TO_COMPACT
    assert obsolete(store) == INSERTS


def test_a_truncation_of_one_partition_is_that_ones(try_it: FixtureTable) -> None:
    try_it.admin.commit_txn(truncate(try_it, partitions=["prt=p2"]))
    store = Store()
    try_it.run(MAJOR, store=store)
    assert "base_0000005" in try_it.visible("prt=p1")
    assert not [name for name in try_it.visible("prt=p2") if name.startswith("base_") and name != "base_0000007"]
    assert "base_0000007" not in obsolete(store, "prt=p2") != set()


@pytest.mark.parametrize("end", ["commit_txn", "abort_txn"])
def test_a_partition_that_was_dropped_and_added_has_the_rows_that_the_drop_left(try_it: FixtureTable, end: str) -> None:
    """The metastore forgets the partition at once, however the transaction ends; what was in it stays at its place."""
    txn, write_id = begin(try_it)
    try_it.admin.drop_partition_by_base(try_it.database, try_it.name, "prt=p3", write_id=write_id)
    getattr(try_it.admin, end)(txn)
    base = try_it.directory / "prt=p3" / f"base_{write_id:07d}"
    assert (base / "_metadata_acid").read_bytes() == b'{"thisFileVersion":"0","dataFormat":"dropped"}'
    try_it.admin.add_partitions(try_it.database, try_it.name, [["p3"]])
    store = Store()
    result = try_it.run(MAJOR, store=store, partitions=["prt='p3'"])
    dropped = end == "commit_txn"
    assert result.reason is (Reason.NOTHING_TO_COMPACT if dropped else Reason.COMPACTED)
    assert (base.name in obsolete(store, "prt=p3")) is not dropped
    if not dropped:
        (expected,) = (FIXTURES / "hive-4.0.1/try_it/after-major/prt=p3").glob("base_0000006_v*/bucket_00000")
        assert rows(try_it, "prt=p3/base_0000006") == count_rows(str(expected)) > 0


@KINDS
def test_a_truncation_above_an_open_write_is_waited_for(three_inserts: FixtureTable, kind: CompactionType) -> None:
    """An INSERT and a TRUNCATE do not exclude each other on Hive 4; the message says which write is open."""
    assert three_inserts.write(commit=False) == 4
    opened = three_inserts.open.pop()
    three_inserts.admin.commit_txn(truncate(three_inserts))
    three_inserts.open.append(opened)
    with pytest.raises(JobError, match="base_0000005 was committed above write id 4, which is still open") as waits:
        three_inserts.run(kind)
    assert waits.value.reason is Reason.OPEN_WRITE
    three_inserts.end()
    store = Store()
    assert three_inserts.run(kind, store=store, attempt=2).reason is Reason.NOTHING_TO_COMPACT
    assert obsolete(store) == INSERTS
