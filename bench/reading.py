"""How fast a compacted file reads: `python -m bench.reading [--rounds 7]`.

The engine and Hive's own loop each make a base of the tables of `make bench QUICK=1`. Hive, Spark and pyarrow then read
both in turns. The result is `bench/out/reading.json`; the exit code is 1 when a reader takes more than 5 % longer for
the engine's base than for Hive's.

NB: Hive's minor compactions write without compression and without indexes. They are larger, and no measure of reading.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from sandbox.cache import cache_folder

from bench.engine.engines import HiveLoop, Ours
from bench.engine.jobs import Job, make_jobs
from bench.engine.processes import Child, cpu_of
from bench.engine.tables import made
from bench.engine.turns import work_on
from compaction_operator.api.compaction import CompactionType

RESULT = Path(__file__).parent / "out" / "reading.json"
JOBS = ("c", "e", "f", "h", "wide", "nested")
UNREADABLE = {("nested", "spark")}
"""What Spark 3.5 fails to read, by Hive or by the engine: maps with a null key."""
SLOWER = 1.05
"""How many times the CPU seconds for Hive's output a reader may take for the engine's."""

Read = Callable[[Job, Path], float]
"""Reads all rows of a directory; returns the CPU seconds that it took."""


@dataclass(frozen=True)
class Compared:
    """One reader of one job's two outputs: the medians of its CPU seconds."""

    job: str
    reader: str
    ours: float
    hive: float

    @property
    def ratio(self) -> float:
        """How many times as long the engine's output takes."""
        return self.ours / self.hive


def main() -> int:
    """Measure, leave the result, and print it; returns 1 when a reader takes too long."""
    options = _options()
    jobs = [replace(job, type=CompactionType.MAJOR) for job in make_jobs(quick=True) if job.name in options.jobs]
    found: list[Compared] = []
    with ExitStack() as stack:
        hive, ours = stack.enter_context(HiveLoop()), stack.enter_context(Ours())
        readers = _readers(hive, stack.enter_context(Child("bench.readers")))
        for job in jobs:
            for compared in compare(job, hive, ours, readers, rounds=options.rounds):
                print(_line(compared), flush=True)
                found.append(compared)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps([asdict(one) | {"ratio": one.ratio} for one in found], indent=1) + "\n")
    missed = misses(found)
    for miss in missed:
        print(f"bench: MISSED {miss}")
    return 1 if missed else 0


def compare(job: Job, hive: HiveLoop, ours: Ours, readers: dict[str, Read], *, rounds: int) -> list[Compared]:
    """Compact the job's table with both engines, and read what they leave; returns one comparison for each reader."""
    cache = cache_folder()
    parts = made(job, hive.hive, cache=cache)
    with work_on(job, parts, cache) as mine, work_on(job, parts, cache) as theirs:
        ours.run(mine)
        hive.run(theirs)
        return [
            Compared(job.name, name, *_in_turns(job, read, mine.output, theirs.output, rounds=rounds))
            for name, read in readers.items()
            if (job.name, name) not in UNREADABLE
        ]


def misses(found: Sequence[Compared]) -> list[str]:
    """Return a line for each reader that takes too long for the engine's output."""
    return [
        f"{one.job}: {one.reader} takes {one.ratio:.2f} times as long as for Hive's output, the limit is {SLOWER:g}"
        for one in found
        if one.ratio > SLOWER
    ]


def _readers(hive: HiveLoop, child: Child) -> dict[str, Read]:
    def read_with_hive(job: Job, directory: Path) -> float:
        began = cpu_of(hive.hive.pid)
        hive.rows(job, directory)
        return cpu_of(hive.hive.pid) - began

    def reader(name: str) -> Read:
        return lambda _, directory: float(child.ask(reader=name, files=_files(directory))["cpu_s"])

    return {"hive": read_with_hive, "spark": reader("spark"), "pyarrow": reader("pyarrow")}


def _files(directory: Path) -> list[Path]:
    return sorted(directory.rglob("bucket_*"))


def _in_turns(job: Job, read: Read, mine: Path, theirs: Path, *, rounds: int) -> tuple[float, float]:
    """Return the medians of both; the first round warms the reader and does not count."""
    taken: dict[Path, list[float]] = {mine: [], theirs: []}
    for number in range(rounds + 1):
        for directory in sorted(taken, reverse=number % 2 == 0):
            taken[directory].append(read(job, directory))
    return median(taken[mine][1:]), median(taken[theirs][1:])


def _line(one: Compared) -> str:
    return f"{one.job:7}{one.reader:8} ours {one.ours:7.3f}  Hive's {one.hive:7.3f} CPU s  ratio {one.ratio:.3f}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="how often each reader reads (default: %(default)s)")
    parser.add_argument("--jobs", type=lambda text: text.split(","), default=JOBS, help="only these, as in a,c")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
