"""A table of the storm: how it is written, and read back, with Spark and without a JVM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
from hudi import HudiTableBuilder

from tests.soak.hudi_storm.model import MergeMode, Row, Write

SCHEMA = "id long, ts long, v string"
PARALLELISM = {f"hoodie.{what}.shuffle.parallelism": "1" for what in ("insert", "upsert", "delete")}


@dataclass(frozen=True)
class StormTable:
    """A merge-on-read table in `location`; `options` are for each write: the locks, and how writers share a table."""

    location: Path
    mode: MergeMode
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """The folder's name, which is the table's."""
        return self.location.name

    def write(self, spark: Any, write: Write) -> None:
        """Commit a write with Hudi's own writer; raises what Spark raises."""
        operation = "delete" if write.deletes else "upsert"
        rows = write.upserts or tuple(Row(key, 0, "") for key in write.deletes)
        options = {**self._options(), **self.options, "hoodie.datasource.write.operation": operation}
        mode = "append" if self.location.exists() else "overwrite"
        spark.createDataFrame(rows, SCHEMA).write.format("hudi").options(**options).mode(mode).save(str(self.location))

    def spark_rows(self, spark: Any) -> list[Row]:
        """Return all rows as Spark reads them now."""
        read = spark.read.format("hudi").load(str(self.location)).select("id", "ts", "v")
        return [Row(*row) for row in read.collect()]

    def native_rows(self) -> list[Row]:
        """Return all rows as the reader without a JVM reads them now."""
        batches: Sequence[Any] = HudiTableBuilder.from_base_uri(str(self.location)).build().read()
        columns = pyarrow.Table.from_batches(batches).select(["id", "ts", "v"]).to_pydict()
        return [Row(*row) for row in zip(*columns.values(), strict=True)]

    def _options(self) -> dict[str, str]:
        # NB: a table of the other mode has no such field, and says so (Config conflict).
        ordering = {"hoodie.datasource.write.precombine.field": "ts"} if self.mode is MergeMode.EVENT_TIME else {}
        return {
            "hoodie.table.name": self.name,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.record.merge.mode": self.mode.value,
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "2",
            "hoodie.write.auto.upgrade": "false",
            "hoodie.embed.timeline.server": "false",
            # Compaction and cleaning are the operator's here.
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            **PARALLELISM,
            **ordering,
        }
