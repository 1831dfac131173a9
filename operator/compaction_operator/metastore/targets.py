"""Resolution of a compaction's table and partitions, with checks whether this project may compact them.

It runs twice: before a Job is created, so that a mistake costs no pod, and again in the driver.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import Reason
from compaction_operator.errors import OperatorError
from compaction_operator.metastore.client import MetastoreClient
from compaction_operator.metastore.errors import TableNotFound
from compaction_operator.metastore.generation import Generation
from compaction_operator.metastore.initiator import AutoCompaction, auto_compaction
from compaction_operator.metastore.partition_specs import PartitionSpecError, select
from compaction_operator.metastore.tables import Table

REPLICA_INCOMPLETE = "hive.repl.first.inc.pending"
"""Property of a replica's tables and databases between REPL LOAD of the bootstrap and the first incremental one."""


class Refused(OperatorError):  # noqa: N818 - a verdict, with the reason that the condition shows
    """The table or its partitions cannot be compacted, and a retry cannot help."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Target:
    """One directory to compact. `partition` is '' for an unpartitioned table."""

    partition: str
    location: str
    create_time: int


@dataclass(frozen=True)
class Resolved:
    """A table that may be compacted, and its directories to compact."""

    table: Table
    targets: tuple[Target, ...]


def resolve(client: MetastoreClient, ref: TableRef, specs: Sequence[str]) -> Resolved:
    """Return the table and the partitions that match any of the specs, or all partitions without specs.

    Raises Refused, naming the table or spec, and MetastoreError if a metastore call fails.
    """
    table = compactable_table(client, ref)
    names = partition_names(client, table, ref, specs)
    if not table.partition_keys:
        return Resolved(table, (Target("", table.location, table.create_time),))
    partitions = client.get_partitions(ref.database, ref.name, names)
    return Resolved(table, tuple(Target(part.name, part.location, part.create_time) for part in partitions))


def compactable_table(client: MetastoreClient, ref: TableRef) -> Table:
    """Return the table. Raises Refused if it does not exist, is not a full ACID table of ORC, or is half replicated."""
    table = _table(client, ref)
    require_compactable(table)
    require_complete(table, client.get_database(table.database))
    return table


def require_compactable(table: Table) -> None:
    """Raise Refused for a table that is not a full ACID table stored as ORC."""
    ref = f"{table.database}.{table.name}"
    if table.is_hudi:
        types = "LogCompaction, Compaction, Clean and Archive"
        raise Refused(Reason.WRONG_FORMAT, f"table {ref} is a Hudi table: its types are {types}")
    if table.is_iceberg:
        raise Refused(Reason.WRONG_FORMAT, f"table {ref} is an Iceberg table: only full-ACID tables can be compacted")
    if not table.is_transactional:
        raise Refused(Reason.NOT_TRANSACTIONAL, f"table {ref} is not transactional: it has nothing to compact")
    if table.is_insert_only:
        raise Refused(Reason.INSERT_ONLY, f"table {ref} is insert-only: only full-ACID tables can be compacted")
    if not table.is_acid:
        raise Refused(Reason.UNSUPPORTED_TABLE, f"table {ref}: its transactional_properties are not 'default'")
    if not table.is_orc:
        formats = f"its input format is {table.input_format} and its serde {table.serde}"
        raise Refused(Reason.NOT_ORC, f"table {ref} is not stored as ORC: {formats}")


def require_complete(table: Table, of_database: Mapping[str, str]) -> None:
    """Raise Refused (UnsupportedTable) for a replica before its first incremental load, by both's properties.

    That load may still bring writes below those that are there (HIVE-21197). Hive's Initiator leaves out such tables
    (TableOptimizer.replIsCompactionDisabledForTable and -Database).
    """
    ref = f"{table.database}.{table.name}"
    owners = ((f"table {ref}", table.parameters), (f"database {table.database}", of_database))
    for owner, parameters in owners:
        if parameters.get(REPLICA_INCOMPLETE, "").lower() == "true":
            raise Refused(
                Reason.UNSUPPORTED_TABLE,
                f"{owner} is a replica before its first incremental load ({REPLICA_INCOMPLETE}): "
                f"compact table {ref} after the next successful REPL LOAD",
            )


def require_one_compactor(
    client: MetastoreClient, table: Table, *, allowed: bool, found: AutoCompaction | None = None
) -> None:
    """Raise Refused (AutoCompactionOn) for a Hive 3.1 table that Hive may compact automatically, unless `allowed`.

    Hive 3.1's Worker does not check again before it publishes. If it planned before this project published by rename,
    both outputs stand side by side and rows count twice (hazard H23). On Hive 4 the queue entry blocks Hive's Worker.
    `found` is the answer of `auto_compaction`, if the caller has it already.
    """
    if allowed or client.generation() is not Generation.HIVE3:
        return
    found = found or auto_compaction(client, table)
    if found.may_happen:
        name = f"{table.database}.{table.name}"
        whether = "Hive compacts" if found is AutoCompaction.ON else "Hive may compact"
        raise Refused(
            Reason.AUTO_COMPACTION_ON,
            f"{whether} table {name} automatically, and overlapping compactions on Hive 3.1 make rows count twice: "
            f"ALTER TABLE {name} SET TBLPROPERTIES ('NO_AUTO_COMPACTION'='true'), or set spec.allowAutoCompaction",
        )


def hudi_table(client: MetastoreClient, ref: TableRef) -> Table:
    """Return a Hudi table by its name. Raises Refused if it does not exist or is not a Hudi table."""
    table = _table(client, ref)
    if not table.is_hudi:
        format_ = f"its input format is {table.input_format!r}"
        raise Refused(Reason.WRONG_FORMAT, f"table {ref} is not a Hudi table: {format_}")
    return table


def _table(client: MetastoreClient, ref: TableRef) -> Table:
    try:
        return client.get_table(ref.database, ref.name)
    except TableNotFound as error:
        raise Refused(Reason.TABLE_NOT_FOUND, f"table {ref} does not exist") from error


def partition_names(client: MetastoreClient, table: Table, ref: TableRef, specs: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the partitions that match any of the specs. Raises Refused, naming a spec without a match.

    An unpartitioned table has no partitions, so every spec is refused.
    """
    if not table.partition_keys:
        if specs:
            raise Refused(Reason.PARTITION_NOT_FOUND, f"table {ref} is not partitioned: {specs[0]!r} matches nothing")
        return ()
    try:
        selection = select(specs, keys=table.partition_keys, names=client.get_partition_names(ref.database, ref.name))
    except PartitionSpecError as error:
        raise Refused(Reason.PARTITION_NOT_FOUND, f"table {ref}: {error}") from error
    if selection.unmatched:
        raise Refused(Reason.PARTITION_NOT_FOUND, f"no partition of table {ref} matches {selection.unmatched[0]!r}")
    return selection.names
