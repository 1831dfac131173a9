"""The engine's benchmark at work: a small table by cp, by the engine and by Hive's own loop, read by Hive."""

from pathlib import Path

import pytest
from bench.engine.engines import HiveLoop
from bench.engine.jobs import SHOP, Deletes, Inserts, Job
from bench.engine.results import IDLE, Record
from bench.engine.tables import link_table, made
from bench.engine.turns import Reader, run_job

from compaction_operator.api.compaction import CompactionType

ENGINES = ("cp", "ours", "hive-loop")
INSERTS = Inserts(SHOP, "ZLIB", deltas=3, rows=1000)
DELETES = Deletes(SHOP, "ZLIB", write_id=4, deltas=2, ranges=INSERTS.ranges, share=0.1)
MAJOR = Job("major", "", CompactionType.MAJOR, (INSERTS, DELETES))
EVENTS = Job("events", "", CompactionType.MINOR, (DELETES,))


@pytest.mark.parametrize("job", [MAJOR, EVENTS], ids=lambda job: job.name)
def test_each_engine_does_the_same_job(job: Job, tmp_path: Path) -> None:
    idle, *records = run_job(job, job, rounds=2, cache=tmp_path, only=ENGINES)
    assert idle.job == IDLE
    assert [(record.round, record.engine) for record in records] == [
        (turn, name) for turn in (1, 2) for name in ENGINES
    ]
    assert all(record.rows_match for record in records)
    assert all(_is_complete(record) for record in records)


def test_hives_reader_notices_what_an_output_lost(tmp_path: Path) -> None:
    with HiveLoop() as hive:
        parts = made(MAJOR, hive.hive, cache=tmp_path)
        reader = Reader(MAJOR, hive, parts, cache=tmp_path)
        output = link_table(parts, tmp_path / "output")
        assert reader.same_rows(output)
        for lost in ("delta_0000002_0000002_0000", "delete_delta_0000005_0000005_0000"):
            (output / lost).rename(tmp_path / lost)
            assert not reader.same_rows(output)
            (tmp_path / lost).rename(output / lost)


def _is_complete(record: Record) -> bool:
    return min(record.wall_s, record.peak_rss_mb, record.bytes_in, record.bytes_out) > 0
