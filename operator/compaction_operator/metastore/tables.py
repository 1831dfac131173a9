"""Tables and partitions as the metastore describes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

ORC_INPUT_FORMAT = "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"
ORC_OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat"
ORC_SERDE = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
HUDI_INPUT_FORMATS = "org.apache.hudi."
SPARK_PROVIDER = "spark.sql.sources.provider"


@dataclass(frozen=True, slots=True)
class Table:
    """A table: names in lower case, the location spelled as the metastore has it ('' for a view).

    `table_id` is the metastore's own, which no other table ever gets; Hive 3 does not hand it out.
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
        """The type of a row as Hive writes it, `struct<a:int,b:string>`.

        None where a column's name could be taken for a part of the type: backquoted ones may hold anything.
        """
        if any(name != name.strip() or set(name) & set("<>:,()") for name, _ in self.columns):
            return None
        return f"struct<{','.join(f'{name}:{type_}' for name, type_ in self.columns)}>"

    @property
    def is_transactional(self) -> bool:
        """Whether it is an ACID table of either sort (AcidUtils.isTransactionalTable)."""
        return self._parameter("transactional") == "true"

    @property
    def is_insert_only(self) -> bool:
        """Whether it is an insert-only ACID table, which has no row ids (AcidUtils.isInsertOnlyTable)."""
        return self.is_transactional and self._parameter("transactional_properties") == "insert_only"

    @property
    def is_acid(self) -> bool:
        """Whether it is a full ACID table: one whose rows can be updated and deleted.

        NB: AcidUtils.isFullAcidTable takes any other word for "default"; metastores of today write none
        (TransactionalValidationListener), and what it would mean for the files is not known.
        """
        return self.is_transactional and self._parameter("transactional_properties") in {"", "default"}

    @property
    def is_orc(self) -> bool:
        """Whether its files are ORC: a full ACID table can hold nothing else, but a table may claim so."""
        return self.input_format == ORC_INPUT_FORMAT and self.serde == ORC_SERDE

    @property
    def is_hudi(self) -> bool:
        """Whether Hudi keeps it, as its sync with Hive (HoodieInputFormatUtils) or Spark's catalog writes it down."""
        return self.input_format.startswith(HUDI_INPUT_FORMATS) or self._parameter(SPARK_PROVIDER) == "hudi"

    @property
    def may_be_auto_compacted(self) -> bool:
        """Whether Hive's Initiator compacts it by itself (Initiator.noAutoCompactSet)."""
        return self._parameter("no_auto_compaction") != "true"

    def _parameter(self, key: str) -> str:
        """Return a parameter's value in lower case; Hive takes the key in upper case, too."""
        return (self.parameters.get(key) or self.parameters.get(key.upper()) or "").lower()


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition: `name` as Hive writes it (`prt=p1`, special characters as %XX), `values` unescaped."""

    name: str
    values: tuple[str, ...]
    location: str
    create_time: int
