"""What a run leaves: a record for each compaction, as JSON, and what its figures say of the targets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from bench.engine.jobs import Job

IDLE = "idle"
"""The job of a record that says what a warm interpreter has used before its first compaction."""
MEMORY_MB = {False: 64.0, True: 400.0}
"""How much more than the idle interpreter the engine may have resident, by whether the job is a major compaction."""
LARGER = 1.02
"""How much larger than Hive's own the engine's output may be."""


@dataclass(frozen=True)
class Record:
    """One compaction by one engine."""

    job: str
    engine: str
    round: int
    cpu_s: float
    wall_s: float
    peak_rss_mb: float
    bytes_in: int
    bytes_out: int
    rows_match: bool


@dataclass(frozen=True)
class Summary:
    """The medians of one engine's rounds of one job; the memory is the most of all."""

    cpu_s: float
    wall_s: float
    peak_rss_mb: float
    bytes_out: float
    rows_match: bool


@dataclass(frozen=True)
class Judged:
    """One job's row of the table: its engines, how many times less than Hive's loop ours takes, and its misses."""

    job: Job
    engines: dict[str, Summary]
    misses: tuple[str, ...]

    @property
    def times_hive(self) -> float | None:
        """The CPU seconds of Hive's loop for each of the engine's; None without either."""
        hive, ours = self.engines.get("hive-loop"), self.engines.get("ours")
        return hive.cpu_s / ours.cpu_s if hive and ours else None


def judge(jobs: Sequence[Job], records: Sequence[Record]) -> list[Judged]:
    """Return the judgement of each job that has records."""
    idle = [record.peak_rss_mb for record in records if record.job == IDLE]
    found = []
    for job in jobs:
        own = [record for record in records if record.job == job.name]
        if own:
            found.append(_judged(job, _summaries(own), idle=max(idle, default=0.0)))
    return found


def _judged(job: Job, engines: dict[str, Summary], *, idle: float) -> Judged:
    row = Judged(job, engines, ())
    misses = [*_wrong_rows(row), *_slow(row), *_large(row, idle=idle)]
    return Judged(job, engines, tuple(f"{job.name}: {miss}" for miss in misses))


def _wrong_rows(row: Judged) -> Iterator[str]:
    for engine, summary in row.engines.items():
        if not summary.rows_match:
            yield f"Hive's reader sees other rows in the output of {engine}"


def _slow(row: Judged) -> Iterator[str]:
    target, times = row.job.target, row.times_hive
    if target.times_hive is not None and times is not None and times < target.times_hive:
        yield f"Hive takes {times:.1f} times our CPU, the target is {target.times_hive:g}"
    if target.times_cp_wall is not None and {"cp", "ours"} <= row.engines.keys():
        wall = row.engines["ours"].wall_s / row.engines["cp"].wall_s
        if wall > target.times_cp_wall:
            yield f"takes {wall:.2f} times cp's wall time, the target is {target.times_cp_wall:g}"


def _large(row: Judged, *, idle: float) -> Iterator[str]:
    ours, hive = row.engines.get("ours"), row.engines.get("hive-loop")
    if ours is None:
        return
    more, limit = ours.peak_rss_mb - idle, MEMORY_MB[row.job.is_major]
    if more > limit:
        yield f"needs {more:.0f} MB more than the idle interpreter, the limit is {limit:g}"
    if hive is not None and ours.bytes_out > LARGER * hive.bytes_out:
        larger = ours.bytes_out / hive.bytes_out - 1
        yield f"writes {larger:.1%} more bytes than Hive, the limit is {LARGER - 1:.0%}"


def _summaries(records: Sequence[Record]) -> dict[str, Summary]:
    by_engine: dict[str, list[Record]] = {}
    for record in records:
        by_engine.setdefault(record.engine, []).append(record)
    return {engine: _summary(runs) for engine, runs in by_engine.items()}


def _summary(runs: Sequence[Record]) -> Summary:
    return Summary(
        cpu_s=median(run.cpu_s for run in runs),
        wall_s=median(run.wall_s for run in runs),
        peak_rss_mb=max(run.peak_rss_mb for run in runs),
        bytes_out=median(run.bytes_out for run in runs),
        rows_match=all(run.rows_match for run in runs),
    )
