"""Planning of a table by its metastore, as a driver would do now. It takes no lock, and changes nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compaction_operator.acid.plan import Layout
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.config import Warehouse
from compaction_operator.api.request import Reason
from compaction_operator.api.stores import scheme_of
from compaction_operator.cleanup.places import hive3_refusal, misplaced, require_allowed, require_reachable
from compaction_operator.driver.errors import PARTITION_ERRORS, JobError
from compaction_operator.driver.hive.hive4 import NO_TXN
from compaction_operator.driver.merge.partition import Basis, OpenTarget, Request
from compaction_operator.driver.offline import Planned, plan_target
from compaction_operator.image import reads_orc
from compaction_operator.metastore import (
    Generation,
    MetastoreClient,
    Refused,
    Table,
    Target,
    require_one_compactor,
    resolve,
    say_queued,
)
from compaction_operator.orc import DEFAULT_TASK_MEMORY
from compaction_operator.storage import local_path

_NO_STAGING = "_compaction_never_made"
_NO_FORECAST = "this image is the controller's small one, which reads no ORC files; the large one forecasts"


@dataclass(frozen=True)
class Question:
    """A table or some of its partitions, and the compaction that is asked about. `task_memory` is in bytes.

    `root` is the folder that stands for `/` in the paths of the warehouse's volume where this process runs.
    """

    warehouse: Warehouse
    table: TableRef
    type: CompactionType
    partitions: tuple[str, ...] = ()
    root: str = ""
    task_memory: int = DEFAULT_TASK_MEMORY


@dataclass(frozen=True)
class Seen:
    """A table with its valid transactions and write ids of one moment: each listing must be newer."""

    table: Table
    generation: Generation
    txns: ValidTxnList
    write_ids: ValidWriteIdList


@dataclass(frozen=True)
class PartitionPlan:
    """The plan of one partition ('' for a table without partitions), or why a driver would refuse it now."""

    partition: str
    planned: Planned | None = None
    problem: str | None = None


def obstacles(client: MetastoreClient, asked: Question, table: Table) -> Iterator[str]:
    """Yield what would keep a compaction of the table from starting now. Raises MetastoreError."""
    try:
        require_one_compactor(client, table, allowed=False)
    except Refused as error:
        yield f"{error.reason}: {error}"
    if busy := [entry for entry in client.compactions(table.database, table.name) if entry.is_open]:
        yield say_queued(asked.table, busy)


def plan_table(client: MetastoreClient, asked: Question) -> tuple[Table, Iterator[PartitionPlan]]:
    """Return the table, and the plans of its partitions, each made when it is asked for.

    Raises Refused for a table or partition that is never compacted, and MetastoreError.
    NB: the write ids come first, so each listing is at least as new.
    """
    resolved = resolve(client, asked.table, asked.partitions)
    seen = look_at(client, resolved.table, asked.warehouse)
    refused = misplaced(client, resolved, asked.warehouse)
    return resolved.table, _plans(resolved.targets, refused, asked, seen)


def look_at(client: MetastoreClient, table: Table, warehouse: Warehouse) -> Seen:
    """Return a table as of now. Raises Refused if the warehouse does not allow it where it lies, and MetastoreError."""
    require_reachable(table, warehouse)
    require_allowed(table, warehouse)
    txns = client.valid_txns()
    write_ids = client.valid_write_ids(table.database, table.name, valid_txns=txns)
    return Seen(table, client.generation(), txns, write_ids)


def _plans(
    targets: Sequence[Target], refused: dict[str, Refused], asked: Question, seen: Seen
) -> Iterator[PartitionPlan]:
    for target in targets:
        if error := refused.get(target.partition):
            yield PartitionPlan(target.partition, problem=str(error))
        else:
            yield plan_partition(target, asked, seen)


def plan_partition(target: Target, asked: Question, seen: Seen) -> PartitionPlan:
    """Return the plan of one partition of a table that was looked at."""
    try:
        return PartitionPlan(target.partition, _planned(target, asked, seen))
    except (JobError, *PARTITION_ERRORS) as failed:
        return PartitionPlan(target.partition, problem=str(failed))


def _request(asked: Question, seen: Seen) -> Request:
    hive4 = seen.generation is Generation.HIVE4
    return Request(
        type=asked.type,
        layout=Layout.HIVE4 if hive4 else Layout.HIVE3,
        visibility_txn=NO_TXN if hive4 else None,
        valid_txns=seen.txns if hive4 else None,
        row_type=seen.table.row_type,
        task_memory=asked.task_memory,
    )


def _planned(target: Target, asked: Question, seen: Seen) -> Planned:
    location, request = target.location, _request(asked, seen)
    if scheme_of(location) == "file":
        location = f"{asked.root}{local_path(location)}"
    opened = OpenTarget(target.partition, location, target.create_time, _NO_STAGING)
    if request.layout is Layout.HIVE3 and (why := hive3_refusal(opened.storage.abilities)):
        raise JobError(Reason.UNSUPPORTED_TABLE, why)
    if reads_orc():
        return plan_target(opened, write_ids=seen.write_ids, request=request)
    plan = Basis(opened.storage.list_partition(location), seen.write_ids, request).plan()
    return Planned(plan, problem=_NO_FORECAST if plan.outputs else None)
