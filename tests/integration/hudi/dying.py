"""What processes that died in the middle leave on a Hudi table."""

import os
import time
from pathlib import Path

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


def grow_old(table: SmallTable, instant: str, *, besides: str = "") -> None:
    """Let all that a client changes while it is at work on an instant be an hour old, besides one of them.

    The folder of its markers stays as new as S3 calls each folder.
    """
    own = table.location / ".hoodie"
    heartbeat = own / ".heartbeat" / instant
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.touch()
    signs = {
        "heartbeat": [heartbeat],
        "marker": [path for path in (own / ".temp" / instant).rglob("*") if path.is_file()],
        "inflight": [path for path in own.rglob(f"{instant}.*.inflight") if "metadata" not in path.parts],
    }
    now = time.time()
    for sign, paths in signs.items():
        assert paths
        for path in filter(Path.exists, paths):
            os.utime(path, times=(now, now if sign == besides else now - 3600))
