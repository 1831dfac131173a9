"""RFC-48: what a log compaction writes, and what readers make of it.

NB: where the order of blocks matters it is by commit time. By event time rows are right in whatever order.
"""

from collections.abc import Iterable

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder
from py4j.protocol import Py4JJavaError
from sandbox.hudi.look import LogBlock, Scan, log_blocks, log_files, merged_blocks, scan
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Ordering, SmallTable

from tests.integration.hudi.conftest import BOTH_ORDERINGS, MakeOtherClient, MakeTable
from tests.integration.hudi.other_client import COMPACTION, LOG_COMPACTION

THRESHOLD = {"hoodie.log.compaction.blocks.threshold": "2"}

ORIGINAL_RECORDS = 190
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


def scans(hudi: HudiSession, table: SmallTable) -> list[Scan]:
    """Read the log files with the second scanner and, on 1.0.2, with the first; raise unless the rows are right."""
    found = [scan(hudi, table.location, optimized=optimized) for optimized in (True, False)]
    logged = {number: row for number, row in table.expected.items() if number < MERGED_RECORDS}
    assert [one.rows for one in found] == [logged, logged]
    return found[:1] if hudi.version == "1.2.0" else found


def test_the_header_of_the_merged_block_names_the_instants_that_it_replaces(
    hudi: HudiSession, table: SmallTable, other_client: MakeOtherClient
) -> None:
    before = {block.instant for block in log_blocks(hudi, table.location)}
    instant = other_client(table, THRESHOLD).all_of(LOG_COMPACTION)
    (merged,) = merged_blocks(hudi, table.location)
    assert merged.instant == instant
    assert merged.merged == before
    assert len(before) == 4


@BOTH_ORDERINGS
def test_rows_are_right_for_each_reader_after_a_log_compaction_and_after_the_full_compaction(
    hudi: HudiSession, make_table: MakeTable, other_client: MakeOtherClient, ordering: Ordering
) -> None:
    """The second scanner opens the merged block alone. Unlike in the RFC, the first opens the originals as well."""
    table = make_table(ordering)
    assert {(one.blocks, one.records) for one in scans(hudi, table)} == {(4, ORIGINAL_RECORDS)}
    client = other_client(table, THRESHOLD)
    client.all_of(LOG_COMPACTION)
    second, *first = scans(hudi, table)
    assert second.records == MERGED_RECORDS
    assert [(one.blocks, one.records) for one in first] in ([], [(5, ORIGINAL_RECORDS + MERGED_RECORDS)])
    table.check("after the log compaction")
    read = pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(table.location)).build().read()).to_pylist()
    assert sorted((row["id"], (row["ts"], row["v"])) for row in read) == sorted(table.expected.items())
    client.all_of(COMPACTION)
    table.check("after the compaction")


def test_a_block_that_a_writer_appends_between_plan_and_run_stays_above_the_merged_one(
    hudi: HudiSession, make_table: MakeTable, other_client: MakeOtherClient
) -> None:
    """RFC-48, scenario 1: out of order."""
    table = make_table(Ordering.COMMIT_TIME)
    client = other_client(table, THRESHOLD)
    instant = client.schedule(LOG_COMPACTION)
    assert instant
    table.upsert(range(30, 65), 35)
    client.run(LOG_COMPACTION, instant)
    (merged,) = merged_blocks(hudi, table.location)
    assert len(merged.merged) == 4
    assert scans(hudi, table)[0].records == MERGED_RECORDS + 35
    table.check("after the log compaction")
    client.all_of(COMPACTION)
    table.check("after the compaction")


def test_both_scanners_read_the_same_rows_after_a_narrowed_log_compaction(
    hudi: HudiSession, make_table: MakeTable, other_client: MakeOtherClient
) -> None:
    """As the operator narrows them: on 1.0.2 to the newest blocks, on 1.2.0 to any that are consecutive."""
    table = make_table(Ordering.COMMIT_TIME)
    names = [path.name for path in log_files(table.location)]
    client = other_client(table, THRESHOLD)
    instant = client.schedule(LOG_COMPACTION)
    assert instant
    client.narrow(instant, names[2:] if hudi.version == "1.0.2" else names[:2])
    client.run(LOG_COMPACTION, instant)
    # Both runs have 40 keys and 50 or 80 records of their own.
    assert scans(hudi, table)[0].records < ORIGINAL_RECORDS
    table.check("after the log compaction")


@pytest.mark.only("1.2.0")
def test_spark_never_opens_what_was_merged(
    hudi: HudiSession, make_table: MakeTable, other_client: MakeOtherClient
) -> None:
    table = make_table(Ordering.COMMIT_TIME)
    originals = log_blocks(hudi, table.location)
    client = other_client(table, THRESHOLD)
    client.all_of(LOG_COMPACTION)
    wipe(originals)
    table.check("with the original blocks unreadable")
    client.all_of(COMPACTION)
    table.check("after the compaction")


@pytest.mark.only("1.0.2")
def test_spark_opens_merged_blocks_with_either_scanner_option(
    hudi: HudiSession, table: SmallTable, other_client: MakeOtherClient
) -> None:
    """Unlike in the RFC: `hoodie.optimized.log.blocks.scan.enable` does not reach the reader of file groups."""
    originals = log_blocks(hudi, table.location)
    other_client(table, THRESHOLD).all_of(LOG_COMPACTION)
    wipe(originals)
    with pytest.raises(Py4JJavaError):
        table.read(**{"hoodie.optimized.log.blocks.scan.enable": "true"})


def commit_times(table: SmallTable) -> set[str]:
    """Return what incremental readers go by."""
    found = table.spark.read.format("hudi").load(str(table.location)).select("_hoodie_commit_time").distinct()
    return {str(row[0]) for row in found.collect()}


@pytest.mark.only("1.0.2")
def test_merged_records_keep_their_commit_time(table: SmallTable, other_client: MakeOtherClient) -> None:
    before = commit_times(table)
    other_client(table, THRESHOLD).all_of(LOG_COMPACTION)
    assert commit_times(table) == before
    assert len(before) > 2


@pytest.mark.only("1.2.0")
def test_merged_records_get_the_commit_time_of_the_log_compaction(
    table: SmallTable, other_client: MakeOtherClient
) -> None:
    """Incremental readers see them twice."""
    oldest = min(commit_times(table))
    instant = other_client(table, THRESHOLD).all_of(LOG_COMPACTION)
    assert commit_times(table) == {oldest, instant}


def test_a_log_compaction_makes_several_blocks_beyond_the_size_of_one(
    hudi: HudiSession, table: SmallTable, other_client: MakeOtherClient
) -> None:
    """RFC-48, scenario 3."""
    originals = frozenset(block.instant for block in log_blocks(hudi, table.location))
    client = other_client(table, THRESHOLD | {"hoodie.logfile.data.block.max.size": "2048"})
    client.all_of(LOG_COMPACTION)
    merged = merged_blocks(hudi, table.location)
    assert len(merged) > 1
    assert {block.merged for block in merged} == {originals}
    assert scan(hudi, table.location, optimized=True).records == MERGED_RECORDS
    table.check("after the log compaction")
    client.all_of(COMPACTION)
    table.check("after the compaction")
