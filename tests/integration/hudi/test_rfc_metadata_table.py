"""RFC-48's own motive: each commit adds log blocks to the metadata table, and every read of it opens them all."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from sandbox.hudi.look import (
    base_files,
    listed_and_indexed,
    log_files,
    merged_blocks,
    opened_blocks,
    opened_by_the_first_scanner,
    timeline,
)
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import SmallTable

from compaction_operator.driver.errors import JobError
from compaction_operator.hudi import read_table
from compaction_operator.storage import open_storage
from tests.integration.hudi.conftest import Shared
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs
from tests.integration.hudi.other_client import LATEST_ONLY

PARTITIONS = {"files", "record_index", "column_stats"}
WITH_METADATA = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "false",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.metadata.record.index.max.filegroup.count": "1",
    "hoodie.metadata.index.column.stats.file.group.count": "1",
    "hoodie.index.type": "RECORD_INDEX",
    # Else a write with new rows makes a new base file where there would be a log file.
    "hoodie.parquet.small.file.limit": "0",
}
"""An upsert finds the rows that are there by the record index; each partition of it has one file group."""

LET_WRITERS_COMPACT = "hoodie.metadata.compact.max.delta.commits"
"""After how many of its delta commits a writer compacts the metadata table."""

THRESHOLD = {"hoodie.metadata.log.compaction.blocks.threshold": "3"}
READ_BY_METADATA = {
    "hoodie.metadata.enable": "true",
    # Readers of 1.0.2 use the second scanner only with this option.
    "hoodie.metadata.optimized.log.blocks.scan.enable": "true",
}


def opened(
    hudi: HudiSession, table: SmallTable, by: Callable[[HudiSession, Path], int] = opened_blocks
) -> dict[str, int]:
    """Return how many blocks a read of each partition of the metadata table opens."""
    return {name: by(hudi, table.location / ".hoodie/metadata" / name) for name in sorted(PARTITIONS)}


def any_of(location: Path, ending: str) -> bool:
    """Return whether the timeline of a table has a file with that ending."""
    return any(name.endswith(ending) for name in timeline(location))


def partitions(table: SmallTable) -> set[str]:
    """Return the partitions of the metadata table that the table says it has."""
    return set(read_table(open_storage(str(table.location)), str(table.location)).metadata_partitions)


@pytest.fixture
def table(hudi: HudiSession, shared: Shared, tmp_path: Path) -> SmallTable:
    """A table of four commits. Each added blocks to its metadata table."""

    def write(location: Path) -> SmallTable:
        made = SmallTable(hudi.spark, location, options=WITH_METADATA)
        made.upsert(range(60), 10)
        for last, ts in ((70, 20), (80, 30), (90, 15)):
            made.upsert(range(last - 40, last), ts)
        return made

    return shared("with-metadata", write).copy_to(tmp_path / "table")


def test_a_read_of_the_metadata_table_opens_one_block_after_its_log_compaction(
    hudi: HudiSession, table: SmallTable, jobs: Jobs
) -> None:
    """Beside a log compaction and a compaction of the data table, which keep its metadata as it is."""
    jobs.done(table, LOG_COMPACTION, options={"hoodie.log.compaction.blocks.threshold": "2"})
    table.check("after a log compaction of the table itself", **READ_BY_METADATA)
    jobs.done(table, COMPACTION, options={"hoodie.compact.inline.max.delta.commits": "1"})
    table.check("after a compaction of the table itself", **READ_BY_METADATA)
    before = opened(hudi, table)
    assert min(before.values()) >= 4
    status = jobs.done(table, LOG_COMPACTION, options=THRESHOLD, metadata_table=True)
    assert (status.blocks_in, status.blocks_out) == (sum(before.values()), len(PARTITIONS))
    assert opened(hudi, table) == dict.fromkeys(before, 1)
    if hudi.version == "1.0.2":
        # Readers that use the first scanner open the merged block as well.
        assert opened(hudi, table, opened_by_the_first_scanner) == {name: blocks + 1 for name, blocks in before.items()}
    merged = merged_blocks(hudi, table.location / ".hoodie/metadata")
    assert {(block.file.parent.name, block.kind) for block in merged} == {
        (name, "HFILE_DATA_BLOCK") for name in PARTITIONS
    }
    table.check("after the log compaction of the metadata table", **READ_BY_METADATA)
    table.upsert(range(70, 110), 40)
    assert opened(hudi, table)["files"] == 2
    table.check("with a commit on top that the record index took part in", **READ_BY_METADATA)
    assert partitions(table) == PARTITIONS


def test_a_dead_log_compaction_of_the_metadata_table_costs_the_next_writer_one_try(
    table: SmallTable, jobs: Jobs
) -> None:
    """What a driver leaves that dies between the plan and the commit, under the table's lock."""
    metadata = table.location / ".hoodie/metadata"
    begun = partial(any_of, metadata, "logcompaction.inflight")
    with pytest.raises(JobError, match="the lease is lost"):
        jobs.run(table, LOG_COMPACTION, options=THRESHOLD, metadata_table=True, lost=begun)
    assert begun()
    with pytest.raises(Py4JJavaError, match="found an Inflight logcompaction"):
        table.upsert(range(70, 110), 40)
    table.upsert(range(70, 110), 40)
    assert not begun()
    table.check("after the second try", **READ_BY_METADATA)
    jobs.done(table, LOG_COMPACTION, options=THRESHOLD, metadata_table=True)
    table.check("after the next log compaction", **READ_BY_METADATA)


def is_right(hudi: HudiSession, table: SmallTable, when: str) -> None:
    """See that the listing, the record index and the rows are what they must be."""
    files, keys = listed_and_indexed(hudi, table.location, range(100))
    assert files == {path.name for path in (*base_files(table.location), *log_files(table.location))}, when
    assert keys == set(table.expected), when
    table.check(when, **READ_BY_METADATA)


def test_deleted_keys_and_cleaned_files_stay_out_of_the_metadata_table_when_its_blocks_are_merged(
    hudi: HudiSession, table: SmallTable, jobs: Jobs
) -> None:
    """An entry that came back, or was lost, would send a writer to a wrong file. NB: its deletes have no ordering."""
    never = {LET_WRITERS_COMPACT: "100"}
    each_time = {"hoodie.compact.inline.max.delta.commits": "1", **LATEST_ONLY, **never}
    metadata = table.location / ".hoodie/metadata"
    table.options = table.options | never
    table.delete(range(20, 40))
    assert jobs.done(table, COMPACTION, options=each_time, clean=True).files_deleted
    table.delete(range(60, 65))
    table.upsert(range(20, 25), 5)
    is_right(hudi, table, "before")
    jobs.done(table, LOG_COMPACTION, options=THRESHOLD | never, metadata_table=True)
    kinds = {block.kind for block in merged_blocks(hudi, metadata) if block.file.parent.name == "record_index"}
    assert kinds == {"DELETE_BLOCK", "HFILE_DATA_BLOCK"}
    is_right(hudi, table, "after the log compaction of the metadata table")
    table.options = table.options | {LET_WRITERS_COMPACT: "1"}
    table.upsert(range(30, 35), 40)
    table.delete(range(5))
    assert any_of(metadata, ".commit")
    is_right(hudi, table, "after a writer's compaction of the metadata table")
