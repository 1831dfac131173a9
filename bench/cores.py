"""One bucket on two cores: `python -m bench.cores [--rounds 5]`.

Job c of `make bench` is compacted in turns by one task on one core, and by two tasks on two: the driver cuts the bucket
into two key ranges, as it does for Spark, and joins the files. Then two processes do the whole job side by side, each
on a table of its own: what two cores do more than one when nothing is cut or joined is the limit of the machine. The
result is `bench/out/cores.json`; the exit code is 1 when two cores are less than 1.8 times as fast. It needs two idle
cores.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from sandbox.cache import cache_folder

from bench.engine.engines import HiveLoop, Work
from bench.engine.jobs import Job, make_jobs
from bench.engine.tables import made, size_of
from bench.engine.turns import work_on
from compaction_operator.acid.plan import Layout
from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.driver.merge.partition import Request
from compaction_operator.driver.merge.runner import Done, LocalRunner, Outcome, TaskRunner
from compaction_operator.driver.merge.tasks import SizedTask
from compaction_operator.driver.offline import compact_directory
from compaction_operator.orc import DEFAULT_TASK_MEMORY

RESULT = Path(__file__).parent / "out" / "cores.json"
JOB = "c"
FASTER = 1.8
"""How many times as fast two cores must be."""


class Processes:
    """A TaskRunner on some cores: each has a process that stays warm."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._pool = ProcessPoolExecutor(cores, mp_context=get_context("spawn"))

    def run(self, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
        """Return the outcome of each task."""
        outcomes = list(self._pool.map(_run, work))
        done(sum(piece.bytes for piece in work))
        return outcomes

    def run_apart(self, works: Sequence[Work]) -> float:
        """Let each process do a whole job by itself; returns the wall seconds until all are done."""
        began = time.perf_counter()
        list(self._pool.map(_run_alone, works))
        return time.perf_counter() - began

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown()


def main() -> int:
    """Measure, leave the result, and print it; returns 1 when the target is missed."""
    rounds = _rounds()
    (job,) = (job for job in make_jobs() if job.name == JOB)
    with HiveLoop() as hive:
        parts = made(job, hive.hive, cache=cache_folder())
    with ExitStack() as stack:
        runners = [Processes(1), Processes(2)]
        for runner in runners:
            stack.callback(runner.close)
        taken = [_round(job, parts, runners) for _ in range(rounds + 1)][1:]
    one, two, apart = (median(column) for column in zip(*taken, strict=True))
    result: dict[str, Any] = {
        "job": JOB,
        "one_core_s": one,
        "two_cores_s": two,
        "ratio": one / two,
        "two_jobs_side_by_side_s": apart,
        "limit": 2 * one / apart,
        "rounds": taken,
    }
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(f"one core {one:.2f} s, two cores {two:.2f} s, ratio {one / two:.2f} (target {FASTER:g})")
    print(f"two such jobs side by side {apart:.2f} s: the machine allows a ratio of {2 * one / apart:.2f}")
    return 0 if one / two >= FASTER else 1


def _round(job: Job, parts: Sequence[Path], runners: Sequence[Processes]) -> list[float]:
    """Return the wall seconds with each runner, and with the last one's processes side by side; the first warms all."""
    return [*(_wall(job, parts, runner) for runner in runners), _wall_apart(job, parts, runners[-1])]


def _wall(job: Job, parts: Sequence[Path], runner: Processes) -> float:
    with work_on(job, parts, cache_folder()) as work:
        # One task may read half of its memory.
        memory = DEFAULT_TASK_MEMORY if runner.cores == 1 else size_of(work.table) + 2**20
        began = time.perf_counter()
        _compact(work, runner, memory=memory)
        return time.perf_counter() - began


def _wall_apart(job: Job, parts: Sequence[Path], runner: Processes) -> float:
    with ExitStack() as stack:
        works = [stack.enter_context(work_on(job, parts, cache_folder())) for _ in range(runner.cores)]
        return runner.run_apart(works)


def _compact(work: Work, runner: TaskRunner, *, memory: int) -> None:
    job = work.job
    request = Request(type=job.type, layout=Layout.HIVE3, row_type=job.row_type, task_memory=memory)
    write_ids = ValidWriteIdList.parse(job.write_ids)
    compact_directory(str(work.table), write_ids=write_ids, request=request, runner=runner)


def _run_alone(work: Work) -> None:
    _compact(work, LocalRunner(), memory=DEFAULT_TASK_MEMORY)


def _run(piece: SizedTask) -> Outcome:
    (outcome,) = LocalRunner().run([piece], lambda _: None)
    return outcome


def _rounds() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each does the job (default: %(default)s)")
    return int(parser.parse_args().rounds)


if __name__ == "__main__":
    sys.exit(main())
