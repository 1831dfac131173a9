"""RFC-48: what a log compaction writes, and what readers make of it."""

from collections.abc import Iterable

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder
from py4j.protocol import Py4JJavaError
from sandbox.hudi.look import LogBlock, Scan, log_blocks, merged_blocks, scan
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering, SmallTable

from tests.hudi.conftest import BOTH_ORDERINGS, MakeSomebody, MakeTable
from tests.hudi.somebody import COMPACTION, LOG_COMPACTION

THRESHOLD = {"hoodie.log.compaction.blocks.threshold": "2"}

ORIGINALS = Scan(blocks=4, records=190)
MERGED_RECORDS = 90
"""The four log files of a seed have 190 records, of 90 keys."""

COUNTS = 8
"""The content of a block of Avro records begins with its version and their number (HoodieAvroDataBlock)."""


def wipe(blocks: Iterable[LogBlock]) -> None:
    """Make the records of blocks unreadable; their headers and how many records there are stay."""
    for block in blocks:
        with block.file.open("r+b") as file:
            file.seek(block.position + COUNTS)
            file.write(b"\xff" * (block.size - COUNTS))
        block.file.with_name(f".{block.file.name}.crc").unlink(missing_ok=True)


def test_the_header_of_the_merged_block_names_the_instants_that_it_replaces(
    hudi: HudiSession, table: SmallTable, somebody: MakeSomebody
) -> None:
    before = {block.instant for block in log_blocks(hudi, table.location)}
    instant = somebody(table, THRESHOLD).all_of(LOG_COMPACTION)
    (merged,) = merged_blocks(hudi, table.location)
    assert merged.instant == instant
    assert merged.merged == before
    assert len(before) == 4


@BOTH_ORDERINGS
def test_rows_are_right_after_a_log_compaction_and_after_the_full_compaction(
    make_table: MakeTable, somebody: MakeSomebody, ordering: Ordering
) -> None:
    table = make_table(ordering)
    client = somebody(table, THRESHOLD)
    client.all_of(LOG_COMPACTION)
    table.check("after the log compaction")
    client.all_of(COMPACTION)
    table.check("after the compaction")


@BOTH_ORDERINGS
def test_a_block_that_a_writer_appends_between_plan_and_run_stays_above_the_merged_one(
    hudi: HudiSession, make_table: MakeTable, somebody: MakeSomebody, ordering: Ordering
) -> None:
    """RFC-48, scenario 1: out of order."""
    table = make_table(ordering)
    client = somebody(table, THRESHOLD)
    instant = client.schedule(LOG_COMPACTION)
    assert instant
    table.upsert(range(30, 65), 35)
    client.run(LOG_COMPACTION, instant)
    (merged,) = merged_blocks(hudi, table.location)
    assert len(merged.merged) == 4
    table.check("after the log compaction")
    client.all_of(COMPACTION)
    table.check("after the compaction")


def test_the_second_scanner_opens_the_merged_block_alone(
    hudi: HudiSession, table: SmallTable, somebody: MakeSomebody
) -> None:
    assert scan(hudi, table.location, optimized=True) == ORIGINALS
    somebody(table, THRESHOLD).all_of(LOG_COMPACTION)
    assert scan(hudi, table.location, optimized=True).records == MERGED_RECORDS


@pytest.mark.only("1.0.2")
def test_the_first_scanner_opens_merged_and_original_blocks(
    hudi: HudiSession, table: SmallTable, somebody: MakeSomebody
) -> None:
    """Other than the RFC says; `test_rows_are_right_...` shows that the rows are right nevertheless."""
    somebody(table, THRESHOLD).all_of(LOG_COMPACTION)
    assert scan(hudi, table.location, optimized=False) == Scan(5, ORIGINALS.records + MERGED_RECORDS)


@pytest.mark.only("1.2.0")
def test_spark_never_opens_what_was_merged(hudi: HudiSession, table: SmallTable, somebody: MakeSomebody) -> None:
    originals = log_blocks(hudi, table.location)
    client = somebody(table, THRESHOLD)
    client.all_of(LOG_COMPACTION)
    wipe(originals)
    table.check("with the original blocks unreadable")
    client.all_of(COMPACTION)
    table.check("after the compaction")


@pytest.mark.only("1.0.2")
def test_spark_opens_what_was_merged_whatever_scanner_it_is_told(
    hudi: HudiSession, table: SmallTable, somebody: MakeSomebody
) -> None:
    """Other than the RFC says: `hoodie.optimized.log.blocks.scan.enable` does not reach the reader of file groups."""
    originals = log_blocks(hudi, table.location)
    somebody(table, THRESHOLD).all_of(LOG_COMPACTION)
    wipe(originals)
    with pytest.raises(Py4JJavaError):
        table.read(**{"hoodie.optimized.log.blocks.scan.enable": "true"})


@BOTH_ORDERINGS
def test_the_reader_without_a_jvm_reads_the_same_rows(
    make_table: MakeTable, somebody: MakeSomebody, ordering: Ordering
) -> None:
    table = make_table(ordering)
    somebody(table, THRESHOLD).all_of(LOG_COMPACTION)
    read = pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(table.location)).build().read()).to_pylist()
    assert sorted((row["id"], (row["ts"], row["v"])) for row in read) == sorted(table.expected.items())


def commit_times(table: SmallTable) -> set[str]:
    """Return what incremental readers go by."""
    found = table.spark.read.format("hudi").load(str(table.location)).select("_hoodie_commit_time").distinct()
    return {str(row[0]) for row in found.collect()}


@pytest.mark.only("1.0.2")
def test_merged_records_keep_their_commit_time(table: SmallTable, somebody: MakeSomebody) -> None:
    before = commit_times(table)
    somebody(table, THRESHOLD).all_of(LOG_COMPACTION)
    assert commit_times(table) == before
    assert len(before) > 2


@pytest.mark.only("1.2.0")
def test_merged_records_get_the_commit_time_of_the_log_compaction(table: SmallTable, somebody: MakeSomebody) -> None:
    """Incremental readers see them twice."""
    oldest = min(commit_times(table))
    instant = somebody(table, THRESHOLD).all_of(LOG_COMPACTION)
    assert commit_times(table) == {oldest, instant}


def test_a_log_compaction_makes_several_blocks_beyond_the_size_of_one(
    hudi: HudiSession, table: SmallTable, somebody: MakeSomebody
) -> None:
    """RFC-48, scenario 3."""
    originals = frozenset(block.instant for block in log_blocks(hudi, table.location))
    client = somebody(table, THRESHOLD | {"hoodie.logfile.data.block.max.size": "2048"})
    client.all_of(LOG_COMPACTION)
    merged = merged_blocks(hudi, table.location)
    assert len(merged) > 1
    assert {block.merged for block in merged} == {originals}
    assert scan(hudi, table.location, optimized=True).records == MERGED_RECORDS
    table.check("after the log compaction")
    client.all_of(COMPACTION)
    table.check("after the compaction")
