"""What is compacted: the jobs, and the parts of their tables as Hive's writer is to make them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.oracle.hive import HiveOracle

from compaction_operator.api.compaction import CompactionType

Columns = tuple[tuple[str, str], ...]
"""A table's columns: their names and Hive's types of them."""

SHOP: Columns = (
    ("id", "bigint"),
    ("k", "int"),
    ("s", "string"),
    ("cat", "string"),
    ("d", "double"),
    ("dec", "decimal(18,2)"),
    ("ts", "timestamp"),
)
NESTED: Columns = (
    ("id", "bigint"),
    ("orders", "array<struct<item:string,prices:array<decimal(12,2)>,at:timestamp>>"),
    ("visits", "map<string,struct<page:bigint,seconds:double>>"),
    ("home", "struct<city:string,zips:array<int>>"),
)
WIDE_KINDS = ("bigint", "string", "double", "decimal(18,2)", "timestamp", "int")
WIDE: Columns = tuple((f"c{number:03d}", WIDE_KINDS[number % len(WIDE_KINDS)]) for number in range(300))
VOCABULARIES = {"cat": 10, "city": 2000, "item": 500}

Ranges = tuple[tuple[int, int, int], ...]
"""Rows as (write id, first row id, end)."""


@dataclass(frozen=True)
class Inserts:
    """Deltas of so many rows each, from write id 1 on; with `base_rows` the first is a base of so many instead."""

    columns: Columns
    compress: str
    deltas: int
    rows: int
    base_rows: int = 0

    @property
    def ranges(self) -> Ranges:
        """All their rows."""
        return tuple((write_id, 0, self.rows_of(write_id)) for write_id in self.write_ids)

    @property
    def write_ids(self) -> range:
        """Their write ids."""
        return range(1, self.deltas + 1)

    def rows_of(self, write_id: int) -> int:
        """Return how many rows a delta has."""
        return self.base_rows if write_id == 1 and self.base_rows else self.rows

    def write(self, hive: HiveOracle, folder: Path) -> None:
        """Write them into a folder."""
        first = 0
        for write_id in self.write_ids:
            hive.fill(
                folder,
                row_type=row_type_of(self.columns),
                write_id=write_id,
                rows=self.rows_of(write_id),
                first_id=first,
                vocabularies=VOCABULARIES,
                base=write_id == 1 and self.base_rows > 0,
                settings=writer_settings(self.compress),
            )
            first += self.rows_of(write_id)


@dataclass(frozen=True)
class Deletes:
    """Delete deltas, from `write_id` on, which delete the `share` of the ranges' rows in all, each other rows."""

    columns: Columns
    compress: str
    write_id: int
    deltas: int
    ranges: Ranges
    share: float = 1.0

    def write(self, hive: HiveOracle, folder: Path) -> None:
        """Write them into a folder."""
        for number in range(self.deltas):
            hive.delete_rows(
                folder,
                self.ranges,
                row_type=row_type_of(self.columns),
                write_id=self.write_id + number,
                drawn=(self.share * number / self.deltas, self.share * (number + 1) / self.deltas),
                settings=writer_settings(self.compress),
            )


Part = Inserts | Deletes


@dataclass(frozen=True)
class Target:
    """What the engine must reach: Hive's CPU seconds for each of its own, and its wall seconds for each of cp's."""

    times_hive: float | None = None
    times_cp_wall: float | None = None


@dataclass(frozen=True)
class Job:
    """One compaction of one table. The targets hold for whole and for quick tables; a long job has one round only.

    `unable` names the engines that fail on the table.
    """

    name: str
    title: str
    type: CompactionType
    parts: tuple[Part, ...]
    target: Target = field(default_factory=Target)
    is_long: bool = False
    unable: tuple[str, ...] = ()

    @property
    def is_major(self) -> bool:
        """Whether it writes a base."""
        return self.type is CompactionType.MAJOR

    @property
    def columns(self) -> Columns:
        """The table's columns."""
        return self.parts[0].columns

    @property
    def row_type(self) -> str:
        """The table's row type."""
        return row_type_of(self.columns)

    @property
    def compress(self) -> str:
        """How the table's files are compressed."""
        return self.parts[0].compress

    @property
    def highest(self) -> int:
        """The highest write id."""
        return max(
            part.write_ids[-1] if isinstance(part, Inserts) else part.write_id + part.deltas - 1 for part in self.parts
        )

    @property
    def write_ids(self) -> str:
        """The valid write ids: all are."""
        return f"bench.t:{self.highest}:{2**63 - 1}::"


def row_type_of(columns: Columns) -> str:
    """Return columns as a type of Hive's."""
    return f"struct<{','.join(f'{name}:{kind}' for name, kind in columns)}>"


def writer_settings(compress: str) -> Mapping[str, str]:
    """Return the table properties with which Hive writes tables and compactions."""
    return {"orc.compress": compress}


def make_jobs(*, quick: bool = False) -> tuple[Job, ...]:
    """Return all jobs.

    A quick table has fewer deltas or rows, but each of its files is as large as in the whole one: what a file costs has
    the same share of the whole.
    """
    zlib, snappy = (Inserts(SHOP, codec, deltas=4 if quick else 18, rows=400_000) for codec in ("ZLIB", "SNAPPY"))
    tiny = Inserts(SHOP, "ZLIB", deltas=200, rows=5_000)
    wide = Inserts(WIDE, "ZLIB", deltas=2 if quick else 8, rows=10_000)
    nested = Inserts(NESTED, "ZLIB", deltas=2 if quick else 8, rows=100_000)
    large = Inserts(SHOP, "ZLIB", deltas=3, rows=400_000, base_rows=1_200_000 if quick else 67_000_000)
    minor, major = CompactionType.MINOR, CompactionType.MAJOR
    return (
        Job("a", "minor, zlib", minor, (zlib,), Target(80, times_cp_wall=1.5)),
        Job("b", "minor, snappy", minor, (snappy,), Target(80)),
        Job("c", "major, 6 % spread deletes", major, (zlib, _spread(zlib)), Target(4.5)),
        Job("d", "major, 1 % clustered deletes", major, (zlib, _clustered(zlib)), Target(35)),
        Job("e", "major, no deletes", major, (zlib,), Target(100, times_cp_wall=1.5)),
        Job("f", "minor, 200 tiny deltas", minor, (tiny,), Target(5)),
        Job("g", "minor, delete events", minor, (_events(zlib, 500_000 if quick else 2_000_000),), Target(2)),
        Job("h", "c in snappy", major, (snappy, _spread(snappy)), Target(5.5)),
        Job("wide", "major, 300 columns, 6 % spread deletes", major, (wide, _spread(wide))),
        # Spark 3.5 fails to read maps with a null key.
        Job(
            "nested",
            "major, nested columns, 6 % spread deletes",
            major,
            (nested, _spread(nested)),
            unable=("spark-plan",),
        ),
        Job("large", "major, bucket of 2 GB, 6 % spread deletes", major, (large, _spread(large)), is_long=True),
    )


def _spread(inserts: Inserts) -> Deletes:
    """Two delete deltas that delete 6 % of all rows."""
    first = inserts.deltas + 1
    return Deletes(inserts.columns, inserts.compress, first, deltas=2, ranges=inserts.ranges, share=0.06)


def _clustered(inserts: Inserts) -> Deletes:
    """A delete delta of 1 % of all rows, which lie together in one delta."""
    count = inserts.deltas * inserts.rows // 100
    rows = ((inserts.write_ids[len(inserts.write_ids) // 3], 100_000, 100_000 + count),)
    return Deletes(inserts.columns, inserts.compress, inserts.deltas + 1, deltas=1, ranges=rows)


def _events(inserts: Inserts, events: int) -> Deletes:
    """Ten delete deltas of so many events in all, spread over a table that itself is not there."""
    share = events / (inserts.deltas * inserts.rows)
    first = inserts.deltas + 1
    return Deletes(inserts.columns, inserts.compress, first, deltas=10, ranges=inserts.ranges, share=share)
