"""The engine's benchmark without an engine: its tables, its judgement, and what it leaves."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench.engine import __main__ as bench
from bench.engine.engines import ENGINES
from bench.engine.jobs import Inserts, Job, Target, make_jobs
from bench.engine.processes import Child, cpu_of
from bench.engine.report import markdown, plot, put_into, table
from bench.engine.results import IDLE, Judged, Record, judge
from bench.engine.tables import digests, link_table, size_of

from compaction_operator.api.compaction import CompactionType

INSERTS = Inserts((("a", "int"),), "ZLIB", deltas=2, rows=10)
JOB = Job("x", "a job", CompactionType.MAJOR, (INSERTS,), Target(times_hive=4.0, times_cp_wall=1.5))


def _record(engine: str, number: int = 1, **changed: Any) -> Record:
    usual = Record("x", engine, number, 1.0, 1.0, 500.0, bytes_in=1000, bytes_out=1000, rows_match=True)
    return dataclasses.replace(usual, **changed)


IDLE_RECORD = _record("ours", 0, job=IDLE, peak_rss_mb=100.0)
HIVE, CP = _record("hive-loop", cpu_s=4.0), _record("cp")


def _judged(*records: Record) -> Judged:
    (row,) = judge([JOB], [IDLE_RECORD, *records])
    return row


def test_what_meets_all_targets_misses_none() -> None:
    row = _judged(CP, HIVE, _record("ours", wall_s=1.5, bytes_out=1020))
    assert (row.times_hive, row.misses) == (4.0, ())


@pytest.mark.parametrize(
    ("ours", "missed"),
    [
        ({"cpu_s": 1.01}, "x: Hive takes 4.0 times our CPU, the target is 4"),
        ({"wall_s": 1.51}, "x: takes 1.51 times cp's wall time, the target is 1.5"),
        ({"peak_rss_mb": 501.0}, "x: needs 401 MB more than the idle interpreter, the limit is 400"),
        ({"bytes_out": 1021}, "x: writes 2.1% more bytes than Hive, the limit is 2%"),
        ({"rows_match": False}, "x: Hive's reader sees other rows in the output of ours"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_each_miss_is_said(ours: dict[str, Any], missed: str) -> None:
    assert _judged(CP, HIVE, _record("ours", **ours)).misses == (missed,)


def test_a_minor_compaction_may_need_less_memory() -> None:
    minor = dataclasses.replace(JOB, type=CompactionType.MINOR)
    (row,) = judge([minor], [IDLE_RECORD, _record("ours", peak_rss_mb=165.0)])
    assert row.misses == ("x: needs 65 MB more than the idle interpreter, the limit is 64",)


def test_rounds_count_by_their_median_memory_by_its_most_and_wrong_rows_once() -> None:
    runs = [
        _record("ours", number, cpu_s=cpu_s, peak_rss_mb=300.0 + number, rows_match=number != 2)
        for number, cpu_s in enumerate((3.0, 1.0, 2.0), start=1)
    ]
    ours = _judged(*runs).engines["ours"]
    assert (ours.cpu_s, ours.peak_rss_mb, ours.rows_match) == (2.0, 303.0, False)


def test_a_job_that_did_not_run_is_not_judged() -> None:
    assert judge([JOB], [IDLE_RECORD]) == []


def test_the_table_is_aligned_and_the_document_has_the_same(tmp_path: Path) -> None:
    rows = [_judged(CP, HIVE, _record("ours", cpu_s=2.0))]
    head, line = table(rows).splitlines()
    assert head.split()[:4] == ["job", "what", "cp", "ours"]
    assert line.split() == ["x", "a", "job", "1", "2", "4", "2", "4", "missed"]
    assert len(line) - len("missed") == len(head) + 2
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- make bench: begin -->\nold\n<!-- make bench: end -->\nafter\n")
    put_into(document, rows, told="a machine")
    text = document.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    assert f"a machine\n\n{markdown(rows)}\n" in text


def test_the_plot_has_each_engines_bar() -> None:
    svg = ElementTree.fromstring(plot([_judged(CP, HIVE, _record("ours"))]))
    bars = svg.findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) == 1 + 3


def test_the_result_is_a_list_of_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "run_job", lambda job, *_, **__: iter([_record("cp", job=job.name)]))
    jobs = [job for job in make_jobs() if job.name in "ab"]
    bench.measure(jobs, rounds=1, engines=(), out=tmp_path / "out" / "engine.json")
    first, second = json.loads((tmp_path / "out" / "engine.json").read_text())
    assert (first["job"], second["job"]) == ("a", "b")
    assert list(first) == [
        "job",
        "engine",
        "round",
        "cpu_s",
        "wall_s",
        "peak_rss_mb",
        "bytes_in",
        "bytes_out",
        "rows_match",
    ]


def test_a_quick_run_has_the_same_jobs_with_files_as_large() -> None:
    whole, quick = ({job.name: job for job in make_jobs(quick=quick)} for quick in (False, True))
    assert list(whole) == list(quick)
    for name in "abcdeh":
        large, small = whole[name].parts[0], quick[name].parts[0]
        assert isinstance(large, Inserts) and isinstance(small, Inserts)
        assert (large.rows, large.deltas > small.deltas) == (small.rows, True)
        assert whole[name].target == quick[name].target


def test_a_table_is_linked_of_its_parts_and_known_by_the_bytes_of_its_files(tmp_path: Path) -> None:
    for part in ("one", "two"):
        (tmp_path / part / f"delta_{part}").mkdir(parents=True)
        (tmp_path / part / f"delta_{part}" / "bucket_00000").write_text(part)
    made = link_table([tmp_path / "one", tmp_path / "two"], tmp_path / "table")
    assert size_of(made) == 6
    assert (made / "delta_one" / "bucket_00000").stat().st_nlink == 2
    before = digests(made)
    (made / "delta_two" / "bucket_00000").unlink()
    assert {name for name, _ in before.items() - digests(made).items()} == {"delta_two/bucket_00000"}


def test_the_launcher_says_what_a_command_used_and_why_it_failed() -> None:
    with Child("bench.engine.launcher") as launcher:
        used = launcher.ask(command=["sh", "-c", "head -c 30000000 /dev/zero | sha256sum"])
        assert used["cpu_s"] > 0
        assert 0 < used["peak_rss_mb"] < 40
        with pytest.raises(RuntimeError, match="no such table"):
            launcher.ask(command=["sh", "-c", "echo no such table >&2; exit 3"])


def test_the_cpu_time_of_a_process_is_the_kernels() -> None:
    before, times = cpu_of(os.getpid()), os.times()
    assert before == pytest.approx(times.user + times.system, abs=0.1)


def test_each_engine_has_a_name_of_its_own() -> None:
    assert [engine.name for engine in ENGINES] == ["cp", "ours", "ours-cli", "hive-loop", "hive-worker", "spark-plan"]
