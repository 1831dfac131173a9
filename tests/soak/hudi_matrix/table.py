"""A table of the matrix: how a release writes it, and how Spark and the reader without a JVM read it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder
from sandbox.hudi.look import timeline
from sandbox.hudi.table import Ordering

from compaction_operator.hudi.merging import PAYLOADS
from tests.soak.hudi_matrix.history import Commit, How, Row, by_id, row_of

COLUMNS = Row._fields
SCHEMA = (
    "id long, ts long, v string, tags array<string>, place struct<a: long, b: string>, "
    "grid array<array<long>>, places array<struct<a: long, b: string>>"
)
FLAG = ", _hoodie_is_deleted boolean"


@dataclass(frozen=True)
class MatrixTable:
    """A merge-on-read table of a version and an ordering, with or without delete flags.

    `named`: its writer names the payload class of the merge mode, as writers before version 9 do by themselves, and an
    ordering field, which must not matter by commit time. `listed`: its writers make a metadata table.
    """

    location: Path
    version: str
    ordering: Ordering
    has_flags: bool = True
    named: bool = False
    listed: bool = True

    @property
    def uri(self) -> str:
        """The location as Hudi's options name it."""
        return str(self.location)

    def write(self, spark: Any, commits: Iterable[Commit]) -> None:
        """Write commits, one after another."""
        for commit in commits:
            if commit.how is How.PARTIAL:
                self._merge_into(spark, commit)
                continue
            flags = (commit.how is How.FLAG,) if self.has_flags else ()
            rows = [(*row_of(key, commit.ts), *flags) for key in commit.ids]
            operation = "delete" if commit.how is How.DELETE else "upsert"
            options = {**self.options, "hoodie.datasource.write.operation": operation}
            mode = "append" if self.location.exists() else "overwrite"
            schema = SCHEMA + FLAG * self.has_flags
            spark.createDataFrame(rows, schema).write.format("hudi").options(**options).mode(mode).save(self.uri)

    def _merge_into(self, spark: Any, commit: Commit) -> None:
        """Change two columns of what is there. NB: Spark's SQL takes a writer's options from the session."""
        rows = [(key, commit.ts, row_of(key, commit.ts).v) for key in commit.ids]
        spark.createDataFrame(rows, "id long, ts long, v string").createOrReplaceTempView("changed")
        options = {**self.options, "hoodie.spark.sql.merge.into.partial.updates": "true"}
        spark.sql(f"create table matrix using hudi location '{self.uri}'")
        for key, value in options.items():
            spark.conf.set(key, value)
        columns = "t.ts = s.ts, t.v = s.v"
        spark.sql(f"merge into matrix t using changed s on t.id = s.id when matched then update set {columns}")
        for key in options:
            spark.conf.unset(key)
        spark.sql("drop table matrix")

    def read(self, spark: Any, **options: str) -> list[Row]:
        """Return all rows as Spark reads them, by the metadata table if there is one, by key."""
        by_metadata = {"hoodie.metadata.enable": self.metadata_table}
        reader = spark.read.format("hudi").options(**by_metadata, **options)
        found = reader.load(self.uri).select(*COLUMNS).collect()
        return _rows(found)

    def moment(self, number: int) -> str:
        """Return when the delta commit of a number, from 1, was done: its completion, before version 8 its instant."""
        done = [name.removesuffix(".deltacommit") for name in timeline(self.location) if name.endswith(".deltacommit")]
        return done[number - 1].rpartition("_")[2]

    def read_without_a_jvm(self, *, as_of: str | None = None, since: str | None = None) -> list[Row]:
        """Return all rows as the `hudi` package reads them, by key: now, as of a moment, or what changed after it."""
        asked = HudiReadOptions()
        if as_of is not None:
            asked = asked.with_as_of_timestamp(as_of)
        if since is not None:
            asked = asked.with_query_type(HudiQueryType.Incremental).with_start_timestamp(since)
        batches = HudiTableBuilder.from_base_uri(self.uri).build().read(asked)
        found = pyarrow.Table.from_batches(batches).select(list(COLUMNS)).to_pylist()
        return _rows(one.values() for one in found)

    @property
    def metadata_table(self) -> str:
        """Whether writers make a metadata table. NB: in version 6 the operator then refuses log compactions."""
        return str(self.listed and self.version != "6").lower()

    @property
    def options(self) -> dict[str, str]:
        """The options of each write."""
        has_field = self.ordering is Ordering.EVENT_TIME or self.named
        return {
            "hoodie.table.name": "matrix",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.record.merge.mode": self.ordering.value,
            "hoodie.write.table.version": self.version,
            "hoodie.write.auto.upgrade": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.metadata.enable": self.metadata_table,
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.upsert.shuffle.parallelism": "1",
            "hoodie.delete.shuffle.parallelism": "1",
            **({"hoodie.datasource.write.precombine.field": "ts"} if has_field else {}),
            **({"hoodie.datasource.write.payload.class": PAYLOADS[self.ordering.value]} if self.named else {}),
        }


def _rows(found: Iterable[Iterable[Any]]) -> list[Row]:
    """Return rows by key. NB: a reader's answer may hold a key twice, with nulls for what it did not read."""
    return sorted((Row(*map(_plain, one)) for one in found), key=by_id)


def _plain(value: Any) -> Any:
    """Return a value with its lists and structs as tuples."""
    if isinstance(value, dict):
        return tuple(map(_plain, value.values()))
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value
