"""Small Hudi tables: written by Hudi's own writer, copied, and read back against what they must hold."""

import copy
import shutil
from collections.abc import Iterable, Mapping
from enum import StrEnum
from hashlib import md5
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

ONE_CLOCK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}
"""An option of clients that are all on one machine: each waits as long as their clocks may differ for each instant."""

METADATA_TABLE = "hoodie.metadata.enable"
"""Whether a client uses the metadata table. Off here, on by default."""


class Ordering(StrEnum):
    """Which of two versions of a row is the newer: the one of the greater `ts`, or the one that was committed later."""

    EVENT_TIME = "EVENT_TIME_ORDERING"
    COMMIT_TIME = "COMMIT_TIME_ORDERING"


class Row(NamedTuple):
    """A row as Spark reads it, without its key and its folder."""

    ts: int
    value: str


class SmallTable:
    """A merge-on-read table of `id`, `ts`, `v` and, if partitioned, `part`, whose rows this object knows.

    `options` are for each of its writes. Hudi's own services are off: a test or demo calls what it wants.
    """

    def __init__(
        self,
        spark: SparkSession,
        location: Path,
        *,
        ordering: Ordering = Ordering.EVENT_TIME,
        partitioned: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.spark = spark
        self.location = location
        self.uri = str(location)
        self.ordering = ordering
        self.expected: dict[int, Row] = {}
        self._written = location.exists()
        self.partitioned = partitioned
        self.options = _options(ordering, partitioned=partitioned) | dict(options or {})

    @classmethod
    def at(cls, spark: SparkSession, uri: str, *, ordering: Ordering, options: Mapping[str, str]) -> "SmallTable":
        """Return a table of its own that is not on this machine's disk, but at a URI of Hadoop's."""
        table = cls(spark, Path(uri), ordering=ordering, options=options)
        table.uri = uri
        return table

    def copy_to(self, location: Path, options: Mapping[str, str] | None = None) -> "SmallTable":
        """Return a table of its own with the same files, written from now on with these options too."""
        twin = copy.copy(self)
        shutil.copytree(self.location, location)
        twin.location = location
        twin.uri = str(location)
        twin.options = self.options | dict(options or {})
        twin.expected = dict(self.expected)
        return twin

    def upsert(self, ids: range, ts: int, *, part: str = "a", width: int = 1) -> None:
        """Commit rows of these ids; `width` makes the values wider (32 bytes for each)."""
        self._write(self.rows(ids, ts, width=width), part, "upsert")
        self.expect(ids, ts, width=width)

    def write(self, rows: DataFrame) -> None:
        """Commit rows like those of `rows`, without a word of what is expected."""
        self._write(rows, "a", "upsert")

    def expect(self, ids: Iterable[int], ts: int, *, width: int = 1) -> None:
        """Take it as committed that these ids were upserted."""
        for number in ids:
            known = self.expected.get(number)
            if known is None or self.ordering is Ordering.COMMIT_TIME or known.ts <= ts:
                self.expected[number] = Row(ts, _value(number, ts, width))

    def delete(self, ids: range, *, part: str = "a") -> None:
        """Commit the deletion of these ids."""
        self._write(self.rows(ids, 0), part, "delete")
        for number in ids:
            self.expected.pop(number, None)

    def rows(self, ids: range, ts: int, *, width: int = 1) -> DataFrame:
        """Return the rows that `upsert` commits."""
        value = f"concat_ws('-', id, {ts}, repeat(md5(cast(id as string)), {width - 1}))"
        return self.spark.range(ids.start, ids.stop).selectExpr("id", f"cast({ts} as long) ts", f"{value} v")

    def _write(self, rows: DataFrame, part: str, operation: str) -> None:
        if self.partitioned:
            rows = rows.selectExpr("*", f"'{part}' part")
        mode = "append" if self._written else "overwrite"
        options = self.options | {"hoodie.datasource.write.operation": operation}
        rows.write.format("hudi").options(**options).mode(mode).save(self.uri)
        self._written = True

    def read(self, **options: str) -> list[tuple[int, Row]]:
        """Return all rows as Spark reads them, by id; one that is there twice comes twice.

        Readers use the metadata table if writers do.
        """
        chosen = {METADATA_TABLE: self.options[METADATA_TABLE]} | options
        found = self.spark.read.format("hudi").options(**chosen).load(self.uri).select("id", "ts", "v")
        return sorted((row.id, Row(row.ts, row.v)) for row in found.collect())

    def check(self, when: str, **options: str) -> None:
        """Raise AssertionError, with the first differences, unless Spark reads exactly the expected rows."""
        found = self.read(**options)
        wanted = sorted(self.expected.items())
        wrong = sorted(set(found) ^ set(wanted))
        assert found == wanted, f"{when}: {len(found)} rows for {len(wanted)}, they differ in {wrong[:4]}"


def _value(number: int, ts: int, width: int) -> str:
    return f"{number}-{ts}-" + md5(str(number).encode()).hexdigest() * (width - 1)  # noqa: S324


def _options(ordering: Ordering, *, partitioned: bool) -> dict[str, Any]:
    options = {
        "hoodie.table.name": "small",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part" if partitioned else "",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen."
        + ("SimpleKeyGenerator" if partitioned else "NonpartitionedKeyGenerator"),
        "hoodie.record.merge.mode": ordering.value,
        METADATA_TABLE: "false",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.write.auto.upgrade": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.upsert.shuffle.parallelism": "1",
        "hoodie.insert.shuffle.parallelism": "1",
        **ONE_CLOCK,
    }
    if ordering is Ordering.EVENT_TIME:
        options["hoodie.datasource.write.precombine.field"] = "ts"
    return options
