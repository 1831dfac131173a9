"""Tables and partitions as the metastore describes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

ORC_INPUT_FORMAT = "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"
ORC_SERDE = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
HUDI_INPUT_FORMATS = "org.apache.hudi."
SPARK_PROVIDER = "spark.sql.sources.provider"


@dataclass(frozen=True, slots=True)
class Table:
    """A table. Names are in lower case. The location is spelled as in the metastore, '' for a view.

    `table_id` is the metastore's id, which is never reused. Hive 3 does not report it.
    """

    database: str
    name: str
    location: str
    create_time: int
    input_format: str
    serde: str
    columns: tuple[tuple[str, str], ...]
    partition_keys: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    table_id: int | None = None

    @property
    def row_type(self) -> str | None:
        """The row type in Hive's syntax, `struct<a:int,b:string>`.

        None if a column's name contains syntax of types. A backquoted name may contain any character.
        """
        if any(name != name.strip() or set(name) & set("<>:,()") for name, _ in self.columns):
            return None
        return f"struct<{','.join(f'{name}:{type_}' for name, type_ in self.columns)}>"

    @property
    def is_transactional(self) -> bool:
        """Whether it is a full or insert-only ACID table (AcidUtils.isTransactionalTable)."""
        return self._parameter("transactional") == "true"

    @property
    def is_insert_only(self) -> bool:
        """Whether it is an insert-only ACID table, which has no row ids (AcidUtils.isInsertOnlyTable)."""
        return self.is_transactional and self._parameter("transactional_properties") == "insert_only"

    @property
    def is_acid(self) -> bool:
        """Whether it is a full ACID table, whose rows can be updated and deleted.

        NB: AcidUtils.isFullAcidTable treats any unknown value as "default". This property does not: current metastores
        write no other value (TransactionalValidationListener), and its meaning for the files is unknown.
        """
        return self.is_transactional and self._parameter("transactional_properties") in {"", "default"}

    @property
    def is_orc(self) -> bool:
        """Whether its files are ORC. A full ACID table must be ORC, but a table's metadata may claim another format."""
        return self.input_format == ORC_INPUT_FORMAT and self.serde == ORC_SERDE

    @property
    def is_hudi(self) -> bool:
        """Whether it is a Hudi table, as marked by Hudi's Hive sync (HoodieInputFormatUtils) or Spark's catalog."""
        return self.input_format.startswith(HUDI_INPUT_FORMATS) or self._parameter(SPARK_PROVIDER) == "hudi"

    @property
    def is_iceberg(self) -> bool:
        """Whether it is an Iceberg table, as every engine marks one in Hive's metastore."""
        return self._parameter("table_type") == "iceberg"

    @property
    def may_be_auto_compacted(self) -> bool:
        """Whether the table allows Hive's Initiator to compact it (Initiator.noAutoCompactSet)."""
        return self._parameter("no_auto_compaction") != "true"

    def _parameter(self, key: str) -> str:
        """Return a parameter's value in lower case. Hive also accepts the key in upper case."""
        return (self.parameters.get(key) or self.parameters.get(key.upper()) or "").lower()


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition. `name` is Hive's (`prt=p1`, special characters as %XX), and `values` are unescaped."""

    name: str
    values: tuple[str, ...]
    location: str
    create_time: int
