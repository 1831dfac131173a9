"""Which table and partitions a compaction means, and whether this project may compact them.

Asked twice: before a Job is created, so that a mistake costs no pod, and again by the driver.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import Reason
from compaction_operator.metastore.auto_compaction import AutoCompaction, auto_compaction
from compaction_operator.metastore.client import MetastoreClient
from compaction_operator.metastore.errors import TableNotFound
from compaction_operator.metastore.generation import Generation
from compaction_operator.metastore.partition_names import PartitionSpecError, select
from compaction_operator.metastore.tables import Table


class Refused(Exception):  # noqa: N818 - a verdict, with the reason that the condition shows
    """The table or its partitions cannot be compacted, and trying again will not help."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Target:
    """One directory to compact; `partition` is '' for an unpartitioned table."""

    partition: str
    location: str
    create_time: int


@dataclass(frozen=True)
class Resolved:
    """A table that may be compacted, and which of its directories are meant."""

    table: Table
    targets: tuple[Target, ...]


def resolve(client: MetastoreClient, ref: TableRef, specs: Sequence[str]) -> Resolved:
    """Return the table and the partitions that match any of the specs (all of them without specs).

    Raises Refused, naming the table or spec, and MetastoreError for what the metastore cannot answer.
    """
    table = compactable_table(client, ref)
    names = partition_names(client, table, ref, specs)
    if not table.partition_keys:
        return Resolved(table, (Target("", table.location, table.create_time),))
    partitions = client.get_partitions(ref.database, ref.name, names)
    return Resolved(table, tuple(Target(part.name, part.location, part.create_time) for part in partitions))


def compactable_table(client: MetastoreClient, ref: TableRef) -> Table:
    """Return the table; raises Refused when it is not there or not a full-ACID ORC table."""
    table = _table(client, ref)
    if table.is_hudi:
        raise Refused(Reason.WRONG_FORMAT, f"table {ref} is a Hudi table: its types are LogCompaction and Compaction")
    if not table.is_transactional:
        raise Refused(Reason.NOT_TRANSACTIONAL, f"table {ref} is not transactional: it has nothing to compact")
    if table.is_insert_only:
        raise Refused(Reason.INSERT_ONLY, f"table {ref} is insert-only: only full-ACID tables can be compacted")
    if not table.is_acid:
        raise Refused(Reason.UNSUPPORTED_TABLE, f"table {ref}: its transactional_properties are not 'default'")
    if not table.is_orc:
        raise Refused(Reason.NOT_ORC, f"table {ref} is not stored as ORC but as {table.input_format}")
    return table


def require_one_compactor(
    client: MetastoreClient, table: Table, *, allowed: bool, found: AutoCompaction | None = None
) -> None:
    """Raise Refused (AutoCompactionOn) for a table of Hive 3.1 that Hive may compact by itself, unless that is allowed.

    Its Worker has no second look: what it planned before this project's renames it publishes beside them, and rows
    count twice (hazard H23). On Hive 4 the queue's entry keeps it out. `found` is the metastore's
    answer where it has been asked already.
    """
    if allowed or client.generation() is not Generation.HIVE3:
        return
    found = found or auto_compaction(client, table)
    if found.may_happen:
        name = f"{table.database}.{table.name}"
        whether = "Hive compacts" if found is AutoCompaction.ON else "nobody knows whether Hive compacts"
        raise Refused(
            Reason.AUTO_COMPACTION_ON,
            f"{whether} table {name} by itself, and where two compactions of Hive 3.1 meet, rows count twice: "
            f"ALTER TABLE {name} SET TBLPROPERTIES ('NO_AUTO_COMPACTION'='true'), or set spec.allowAutoCompaction",
        )


def hudi_table(client: MetastoreClient, ref: TableRef) -> Table:
    """Return a Hudi table by its name; raises Refused when it is not there or no Hudi table."""
    table = _table(client, ref)
    if not table.is_hudi:
        raise Refused(Reason.WRONG_FORMAT, f"table {ref} is no Hudi table: its input format is {table.input_format!r}")
    return table


def _table(client: MetastoreClient, ref: TableRef) -> Table:
    try:
        return client.get_table(ref.database, ref.name)
    except TableNotFound as error:
        raise Refused(Reason.TABLE_NOT_FOUND, f"table {ref} does not exist") from error


def partition_names(client: MetastoreClient, table: Table, ref: TableRef, specs: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the partitions that match any of the specs; raises Refused naming one that matches none.

    An unpartitioned table has none, and no spec is right for it.
    """
    if not table.partition_keys:
        if specs:
            raise Refused(Reason.PARTITION_NOT_FOUND, f"table {ref} is not partitioned: {specs[0]!r} names nothing")
        return ()
    try:
        selection = select(specs, keys=table.partition_keys, names=client.get_partition_names(ref.database, ref.name))
    except PartitionSpecError as error:
        raise Refused(Reason.PARTITION_NOT_FOUND, f"table {ref}: {error}") from error
    if selection.unmatched:
        raise Refused(Reason.PARTITION_NOT_FOUND, f"no partition of table {ref} matches {selection.unmatched[0]!r}")
    return selection.names
