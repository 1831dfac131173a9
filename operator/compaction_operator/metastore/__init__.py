"""The Hive metastore over Thrift: tables, partitions, write ids, locks, transactions and the compaction queue."""

from compaction_operator.metastore.client import MetastoreClient
from compaction_operator.metastore.compaction_queue import QueueEntry, QueueJob, QueueState, say_queued
from compaction_operator.metastore.errors import (
    LockLost,
    MetastoreError,
    MetastoreUnavailable,
    TableNotFound,
    TransactionLost,
)
from compaction_operator.metastore.generation import Generation
from compaction_operator.metastore.heartbeat import Heartbeat, TransactionHeartbeat
from compaction_operator.metastore.initiator import AutoCompaction, auto_compaction, cleaner_runs
from compaction_operator.metastore.interface import MetastoreCalls
from compaction_operator.metastore.locks import LockInfo, LockKind, LockState, LockWish, OpenTransactions, TxnInfo
from compaction_operator.metastore.partition_specs import lock_name
from compaction_operator.metastore.tables import ORC_INPUT_FORMAT, ORC_SERDE, Partition, Table
from compaction_operator.metastore.taken import Taken
from compaction_operator.metastore.targets import (
    Refused,
    Resolved,
    Target,
    compactable_table,
    hudi_table,
    partition_names,
    require_compactable,
    require_complete,
    require_one_compactor,
    resolve,
)

__all__ = [
    "ORC_INPUT_FORMAT",
    "ORC_SERDE",
    "AutoCompaction",
    "Generation",
    "Heartbeat",
    "LockInfo",
    "LockKind",
    "LockLost",
    "LockState",
    "LockWish",
    "MetastoreCalls",
    "MetastoreClient",
    "MetastoreError",
    "MetastoreUnavailable",
    "OpenTransactions",
    "Partition",
    "QueueEntry",
    "QueueJob",
    "QueueState",
    "Refused",
    "Resolved",
    "Table",
    "TableNotFound",
    "Taken",
    "Target",
    "TransactionHeartbeat",
    "TransactionLost",
    "TxnInfo",
    "auto_compaction",
    "cleaner_runs",
    "compactable_table",
    "hudi_table",
    "lock_name",
    "partition_names",
    "require_compactable",
    "require_complete",
    "require_one_compactor",
    "resolve",
    "say_queued",
]
