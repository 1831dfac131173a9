"""All engines in turns: each round of a job runs each engine once, and Hive's reader reads what came out."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.engine.engines import ENGINES, Engine, HiveLoop, Ours, Work
from bench.engine.jobs import Job
from bench.engine.results import IDLE, Record
from bench.engine.tables import digests, link_table, made, size_of


def run_job(job: Job, warm_up: Job, *, rounds: int, cache: Path, only: Sequence[str]) -> Iterator[Record]:
    """Yield a record for each run of each engine that `only` names, and one for the idle interpreter.

    `warm_up` is a small job of the same kind, which each engine does first. `cache` holds the tables, and the runs' own
    folders too, as files can be linked only within one file system.
    """
    with ExitStack() as stack:
        hive = stack.enter_context(HiveLoop())
        engines: list[Engine] = []
        for kind in ENGINES:
            if kind.name in only and kind.name not in job.unable:
                engines.append(hive if kind is HiveLoop else stack.enter_context(kind()))
        yield from (_idle(engine) for engine in engines if isinstance(engine, Ours))
        small = made(warm_up, hive.hive, cache=cache)
        for engine in engines:
            if engine.is_warm:
                with work_on(warm_up, small, cache) as work:
                    engine.run(work)
        reader = Reader(job, hive, made(job, hive.hive, cache=cache), cache=cache)
        for number in range(1, rounds + 1):
            for engine in engines:
                yield _turn(engine, number, reader)


class Reader:
    """Compares what engines leave with the job's table, by Hive's reader, which reads the same bytes only once."""

    def __init__(self, job: Job, hive: HiveLoop, parts: Sequence[Path], *, cache: Path) -> None:
        self.job, self.parts, self.cache = job, parts, cache
        self._hive = hive
        with work_on(job, parts, cache) as work:
            self.bytes_in = size_of(work.table)
            self._rows = hive.rows(job, work.table)
            self._seen = {frozenset(digests(work.table).items()): True}

    def same_rows(self, output: Path) -> bool:
        """Whether Hive's reader sees the rows of the table."""
        found = frozenset(digests(output).items())
        if found not in self._seen:
            self._seen[found] = self._hive.rows(self.job, output) == self._rows
        return self._seen[found]


def _turn(engine: Engine, number: int, reader: Reader) -> Record:
    with work_on(reader.job, reader.parts, reader.cache) as work:
        took = engine.run(work)
        return Record(
            job=reader.job.name,
            engine=engine.name,
            round=number,
            cpu_s=round(took.cpu_s, 4),
            wall_s=round(took.wall_s, 4),
            peak_rss_mb=round(took.peak_rss_mb, 1),
            bytes_in=reader.bytes_in,
            bytes_out=size_of(work.output),
            rows_match=reader.same_rows(work.output),
        )


def _idle(engine: Ours) -> Record:
    idle = engine.idle
    return Record(IDLE, engine.name, 0, round(idle.cpu_s, 4), idle.wall_s, round(idle.peak_rss_mb, 1), 0, 0, True)


@contextmanager
def work_on(job: Job, parts: Sequence[Path], cache: Path) -> Iterator[Work]:
    """Yield a table that is linked together for one compaction, and an empty folder."""
    with tempfile.TemporaryDirectory(dir=cache, prefix="bench-run-") as folder:
        output = Path(folder) / "output"
        output.mkdir()
        yield Work(job, link_table(parts, Path(folder) / "table"), output)
