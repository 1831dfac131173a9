"""A table of the storm: how it is written, and read back, with Spark and without a JVM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
from hudi import HudiTableBuilder

from compaction_operator.hudi.merging import PAYLOADS
from tests.soak.hudi_storm.model import MergeMode, Row, Write
from tests.soak.hudi_storm.timeline import pending_services

PARALLELISM = {f"hoodie.{what}.shuffle.parallelism": "1" for what in ("insert", "upsert", "delete")}


OLD_VERSION = 6
"""Of tables that have neither log compaction of the metadata table nor a limit to the size of what is merged."""


class Kind(NamedTuple):
    """How a table merges records, its version, and whether its writer names the payload class of the merge mode.

    NB: before version 9 Hudi's writer names it by itself.
    """

    mode: MergeMode
    version: int
    by_name: bool = False

    @property
    def name(self) -> str:
        """The table's name and folder."""
        return f"{self.mode.name.lower()}_{self.version}{'_by_name' * self.by_name}"

    @property
    def metadata(self) -> dict[str, str]:
        """Whether it has a metadata table. NB: in version 6 the operator then refuses log compactions."""
        return {"hoodie.metadata.enable": str(self.version > 6).lower()}

    @property
    def schema(self) -> str:
        """The columns. NB: 1.0 cannot read a `long` ordering field once a deleted key is written again."""
        return f"id long, ts {'int' if self.version < 9 else 'long'}, v string"

    @property
    def options(self) -> dict[str, str]:
        """Hudi's options for it."""
        payload = {"hoodie.datasource.write.payload.class": PAYLOADS[self.mode.value]} if self.by_name else {}
        # NB: a table of the other mode has no such field, and says so (Config conflict).
        ordering = {"hoodie.datasource.write.precombine.field": "ts"} if self.mode is MergeMode.EVENT_TIME else {}
        version = {"hoodie.write.table.version": str(self.version)}
        return {"hoodie.record.merge.mode": self.mode.value, **version, **self.metadata, **payload, **ordering}


KINDS: Mapping[str, Sequence[Kind]] = {
    "1.0.2": [Kind(mode, version) for version in (6, 8) for mode in MergeMode],
    "1.2.0": [Kind(mode, 9, by_name) for by_name in (False, True) for mode in MergeMode],
}
"""All that the operator admits of what each release writes by default: docs/hudi.md, "Which record wins"."""


def kind_of(location: Path) -> Kind:
    """Return the kind of a table of the storm, which is its folder's name."""
    return next(kind for kinds in KINDS.values() for kind in kinds if kind.name == location.name)


@dataclass(frozen=True)
class StormTable:
    """A merge-on-read table in `location`; `options` are for each write: the locks, and how writers share a table."""

    location: Path
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """The folder's name, which is the table's."""
        return self.location.name

    @property
    def kind(self) -> Kind:
        """How it merges records."""
        return kind_of(self.location)

    def write(self, spark: Any, write: Write) -> None:
        """Commit a write with Hudi's own writer; raises what Spark raises."""
        operation = "delete" if write.deletes else "upsert"
        rows = write.upserts or tuple(Row(key, 0, "") for key in write.deletes)
        options = {**self._options(), **self.options, "hoodie.datasource.write.operation": operation}
        mode = "append" if self.location.exists() else "overwrite"
        spark.createDataFrame(rows, self.kind.schema).write.format("hudi").options(**options).mode(mode).save(
            str(self.location)
        )

    def spark_rows(self, spark: Any) -> list[Row]:
        """Return all rows as Spark reads them now."""
        read = spark.read.format("hudi").options(**self.kind.metadata).load(str(self.location)).select("id", "ts", "v")
        return [Row(*row) for row in read.collect()]

    def is_seen_without_a_jvm(self) -> bool:
        """Return whether the reader without a JVM sees all writes.

        NB: in version 6 it misses those that came after the plan of a pending compaction, of any client.
        """
        pending = {service.action for service in pending_services(self.location)}
        return self.kind.version > OLD_VERSION or "compaction" not in pending

    def native_rows(self) -> list[Row]:
        """Return all rows as the reader without a JVM reads them now."""
        batches: Sequence[Any] = HudiTableBuilder.from_base_uri(str(self.location)).build().read()
        columns = pyarrow.Table.from_batches(batches).select(["id", "ts", "v"]).to_pydict()
        return [Row(*row) for row in zip(*columns.values(), strict=True)]

    def _options(self) -> dict[str, str]:
        return {
            "hoodie.table.name": self.name,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "2",
            "hoodie.write.auto.upgrade": "false",
            "hoodie.embed.timeline.server": "false",
            # Compaction and cleaning are the operator's here.
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            **PARALLELISM,
            **self.kind.options,
        }
