"""RFC-48's own motive: each commit adds log blocks to the metadata table, and every read of it opens them all."""

from pathlib import Path

from sandbox.hudi.look import opened_blocks, timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import SmallTable

from tests.hudi.job import COMPACTION, LOG_COMPACTION, Jobs

WITH_METADATA = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
THRESHOLD = {"hoodie.metadata.log.compaction.blocks.threshold": "3"}
READ_BY_METADATA = {
    "hoodie.metadata.enable": "true",
    # Readers of 1.0.2 take the second scanner only when they are told to.
    "hoodie.metadata.optimized.log.blocks.scan.enable": "true",
}


def test_a_read_of_the_metadata_table_opens_one_block_after_its_log_compaction(
    hudi: HudiSession, tmp_path: Path, jobs: Jobs
) -> None:
    table = SmallTable(hudi.spark, tmp_path / "table", options=WITH_METADATA)
    table.upsert(range(100), 10)
    for ts in (20, 30, 15):
        table.upsert(range(ts), ts)
    files = table.location / ".hoodie/metadata/files"
    before = opened_blocks(hudi, files)
    assert before >= 4
    status = jobs.done(table, LOG_COMPACTION, options=THRESHOLD, metadata_table=True)
    assert opened_blocks(hudi, files) == 1
    assert (status.blocks_in, status.blocks_out) == (before, 1)
    assert not [name for name in timeline(table.location) if "logcompaction" in name]
    table.check("after the log compaction of the metadata table", **READ_BY_METADATA)
    table.upsert(range(90, 110), 40)
    assert opened_blocks(hudi, files) == 2
    table.check("with a commit on top", **READ_BY_METADATA)
    jobs.done(table, COMPACTION, options={"hoodie.compact.inline.max.delta.commits": "1"})
    table.check("after a compaction of the table itself", **READ_BY_METADATA)
