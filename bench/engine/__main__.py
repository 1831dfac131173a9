"""The engine against cp, Hive and Spark: `python -m bench.engine [--quick] [--jobs a,c]`.

Hive's own writer makes the tables, all engines compact them in turns within one run, and Hive's reader must see the
same rows in all outputs. The result is a list of records in `bench/out/engine.json`; the exit code is 1 when a target
is missed, with a line for each miss.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from sandbox.cache import cache_folder

from bench.engine.engines import ENGINES
from bench.engine.jobs import Job, make_jobs
from bench.engine.report import plot, put_into, table
from bench.engine.results import Record, judge
from bench.engine.turns import run_job

RESULT = Path(__file__).parents[1] / "out" / "engine.json"
ROUNDS = {False: 3, True: 1}
"""Rounds of a whole run, and of a quick one."""
ALL = tuple(engine.name for engine in ENGINES)
QUICK = ("cp", "ours", "ours-cli", "hive-loop")
"""The engines of a quick run: a metastore or a Spark session for each job would take most of its time."""


def main() -> int:
    """Measure, leave the result, and print it; returns 1 when a target is missed."""
    options = _options()
    jobs = [job for job in make_jobs(quick=options.quick) if not options.jobs or job.name in options.jobs]
    rounds = options.rounds or ROUNDS[options.quick]
    records = measure(
        jobs, rounds=rounds, engines=options.engines or (QUICK if options.quick else ALL), out=options.out
    )
    rows = judge(jobs, records)
    print(table(rows))
    if options.plot:
        options.plot.write_text(plot(rows))
    if options.document:
        put_into(options.document, rows, told=_told(rounds))
    misses = [miss for row in rows for miss in row.misses]
    for miss in misses:
        print(f"bench: MISSED {miss}")
    return 1 if misses else 0


def measure(jobs: Sequence[Job], *, rounds: int, engines: Sequence[str], out: Path) -> list[Record]:
    """Return the records of all jobs; they are in the result's file as soon as their job ends."""
    small = {job.name: job for job in make_jobs(quick=True)}
    records: list[Record] = []
    out.parent.mkdir(parents=True, exist_ok=True)
    for job in jobs:
        turns = 1 if job.is_long else rounds
        for record in run_job(job, small[job.name], rounds=turns, cache=cache_folder(), only=engines):
            print(_line(record), flush=True)
            records.append(record)
        out.write_text(json.dumps([asdict(record) for record in records], indent=1) + "\n")
    return records


def _line(record: Record) -> str:
    rows = "" if record.rows_match else "  OTHER ROWS"
    took = f"{record.cpu_s:8.3f} CPU s {record.wall_s:8.3f} wall s {record.peak_rss_mb:7.0f} MB"
    return f"{record.job:7}{record.engine:11} round {record.round} {took} {record.bytes_out / 1e6:9.2f} MB out{rows}"


def _told(rounds: int) -> str:
    """Return on what the run was, in one paragraph."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = next((line.partition(": ")[2] for line in cpuinfo.splitlines() if line.startswith("model name")), "?")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{os.cpu_count()} cores ({' '.join(model.split())}), {memory:.0f} GB"
    figures = f"CPU seconds, medians of {rounds} rounds" if rounds > 1 else "CPU seconds of one round"
    return f"{figures}. {machine}, Python {platform.python_version()}."


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"smaller tables, one round, only {', '.join(QUICK)}")
    parser.add_argument("--jobs", type=_names, default=(), help="only these, as in a,c")
    parser.add_argument("--engines", type=_names, default=(), help="only these, as in ours,hive-loop")
    parser.add_argument("--rounds", type=int, help="how often each engine does each job")
    parser.add_argument("--out", type=Path, default=RESULT, help="the result's file (default: %(default)s)")
    parser.add_argument("--plot", type=Path, help="where a plot of it goes (SVG; default: none)")
    parser.add_argument("--document", type=Path, help="a document whose marked table is to be replaced")
    return parser.parse_args()


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


if __name__ == "__main__":
    sys.exit(main())
