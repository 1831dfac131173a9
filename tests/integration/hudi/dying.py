"""What processes that died in the middle leave on a Hudi table."""

from sandbox.hudi.look import timeline
from sandbox.hudi.table import SmallTable

from tests.integration.hudi.other_client import LOG_COMPACTION, OtherClient


def log_compaction_dies(client: OtherClient) -> str:
    """Plan a log compaction and write its blocks, but never commit; return the instant."""
    instant = client.schedule(LOG_COMPACTION)
    assert instant
    # Hudi 1.2.0 writes when the result is looked at.
    client.execute(LOG_COMPACTION, instant).getWriteStatuses().count()
    return instant


def writer_dies(table: SmallTable, ids: range, ts: int) -> str:
    """Upsert as a writer does that dies just before its commit is there; return the instant."""
    rows = dict(table.expected)
    table.upsert(ids, ts)
    table.expected = rows
    (committed,) = [name for name in timeline(table.location) if name.endswith(".deltacommit")][-1:]
    folder = table.location / ".hoodie" / "timeline"
    ((folder if folder.is_dir() else folder.parent) / committed).unlink()
    return committed.partition(".")[0].partition("_")[0]
