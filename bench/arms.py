"""The arms of the Hudi benchmark: one stream of upserts, compacted in three ways."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from bench.compacting import compact_small
from bench.written import By, Commit, commits, log_file_sizes

BASE = {
    "hoodie.table.name": "bench",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.metadata.enable": "false",
    # NB: Spark's writer compacts by default once there are five delta commits.
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.embed.timeline.server": "false",
}
FULL_NOW = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
SLACK = 1.6
"""What counts as small: a log file of up to so many times the size of the first upsert's."""
VALUE = "concat(" + ", ".join(f"md5(concat(id, '{block}', {{write}}))" for block in range(4)) + ")"


class Arm(StrEnum):
    """How the table is compacted."""

    FULL = "full compaction only"
    OWN = "Hudi's log compaction"
    SMALL = "log compaction of small blocks"


@dataclass(frozen=True)
class Stream:
    """The upserts: so many rows are loaded, and each commit upserts some of them, the same for every arm."""

    rows: int = 20_000
    upserted: int = 100
    commits: int = 64
    every: int = 4
    """Commits between two compactions, and the threshold of blocks."""

    @property
    def compacted(self) -> int:
        """How often an arm compacts, before the full compaction in the end."""
        return (self.commits - 1) // self.every


@dataclass(frozen=True)
class Outcome:
    """What an arm wrote, and what its table holds in the end: row count and checksum."""

    commits: tuple[Commit, ...]
    check: tuple[int, int]
    seconds: float

    def bytes(self, by: By) -> int:
        """Return the bytes that were written by something."""
        return sum(commit.bytes for commit in self.commits if commit.by is by)

    def count(self, by: By) -> int:
        """Return how often something wrote."""
        return sum(commit.by is by for commit in self.commits)

    @property
    def write_amplification(self) -> float:
        """Bytes written for each byte of the upserts' own log blocks; the load does not count."""
        return sum(self.bytes(by) for by in By if by is not By.LOAD) / self.bytes(By.UPSERTS)

    def cumulative(self) -> list[float]:
        """Return the bytes written after each upsert and what followed it, for each byte that all upserts brought."""
        found: list[float] = []
        total, whole = 0, self.bytes(By.UPSERTS)
        for commit in self.commits:
            if commit.by is By.LOAD:
                continue
            total += commit.bytes
            if commit.by is By.UPSERTS:
                found.append(0.0)
            found[-1] = total / whole
        return found


def run_arm(spark: Any, arm: Arm, stream: Stream, location: Path) -> Outcome:
    """Play the stream into a new table and return what came of it."""
    start = time.monotonic()
    _write(spark, location, stream, 0, {})
    limit = 0
    for number in range(1, stream.commits + 1):
        last, due = number == stream.commits, number % stream.every == 0
        _write(spark, location, stream, number, _inline(arm, stream, due=due, last=last))
        limit = limit or int(max(log_file_sizes(location)) * SLACK)
        if arm is Arm.SMALL and due and not last:
            compact_small(spark, location, threshold=stream.every, limit=limit)
    rows = spark.read.format("hudi").load(str(location)).selectExpr("count(*)", "sum(xxhash64(id, ts, v))")
    count, checksum = rows.collect()[0]
    return Outcome(tuple(commits(location)), (count, checksum), time.monotonic() - start)


def _inline(arm: Arm, stream: Stream, *, due: bool, last: bool) -> Mapping[str, str]:
    """Return the options that make the writer itself compact after its commit."""
    if last or (due and arm is Arm.FULL):
        return FULL_NOW
    if due and arm is Arm.OWN:
        return {"hoodie.log.compaction.inline": "true", "hoodie.log.compaction.blocks.threshold": str(stream.every)}
    return {}


def _write(spark: Any, location: Path, stream: Stream, number: int, more: Mapping[str, str]) -> None:
    """Commit the load (number 0) or an upsert of rows that follow from its number."""
    if number == 0:
        rows = spark.range(0, stream.rows)
    else:
        key = f"cast(pmod(xxhash64(id, {number}), {stream.rows}) as long) id"
        rows = spark.range(0, stream.upserted).selectExpr(key).dropDuplicates(["id"])
    rows = rows.selectExpr("id", f"cast({number} as long) ts", VALUE.format(write=number) + " v")
    mode = "append" if number else "overwrite"
    rows.write.format("hudi").options(**{**BASE, **more}).mode(mode).save(str(location))
