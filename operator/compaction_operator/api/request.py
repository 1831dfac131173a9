"""Protocol between controller and driver pod: the request in and the result out, both as JSON."""

import hashlib
import re
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from compaction_operator import logs
from compaction_operator.api.compaction import KIND, CleanupOptions, CompactionType, Format, SparkOptions, TableRef
from compaction_operator.api.config import SparkProfile, Warehouse
from compaction_operator.api.hudi import HudiOptions, HudiStatus
from compaction_operator.api.model import Model, ReadModel
from compaction_operator.logs import LogFormat

REQUEST_VARIABLE = "COMPACTION_REQUEST"
TERMINATION_MESSAGE_PATH = "/dev/termination-log"
TERMINATION_MESSAGE_BYTES = 4096


class JobRequest(Model):
    """A driver's whole input, passed in one environment variable."""

    name: str
    namespace: str
    uid: str
    attempt: int
    job: str
    operator: str | None = None
    warehouse: Warehouse
    profile: SparkProfile
    table: TableRef
    partitions: tuple[str, ...] = ()
    type: CompactionType
    format: Format = Format.AUTO
    hudi: HudiOptions = HudiOptions()
    cleaner_held: bool = False
    cleanup: CleanupOptions = CleanupOptions()
    spark: SparkOptions = SparkOptions()
    allow_auto_compaction: bool = False
    queue_id: int | None = None
    log_format: LogFormat = LogFormat.TEXT

    def subject(self) -> logs.Subject:
        """Return what the driver's log is about."""
        resource = f"{KIND}/{self.name}"
        return logs.subject(
            warehouse=self.warehouse.name,
            namespace=self.namespace,
            resource=resource,
            table=self.table,
            attempt=self.attempt,
        )


class Reason(StrEnum):
    """Why a compaction ended or waits. These are the reasons of its Succeeded condition."""

    COMPACTED = "Compacted"
    NOTHING_TO_COMPACT = "NothingToCompact"
    SCHEDULED = "Scheduled"
    CLEANED = "Cleaned"
    ARCHIVED = "Archived"
    TABLE_NOT_FOUND = "TableNotFound"
    PARTITION_NOT_FOUND = "PartitionNotFound"
    NOT_TRANSACTIONAL = "NotTransactional"
    INSERT_ONLY = "InsertOnlyTable"
    NOT_ORC = "NotOrc"
    UNSUPPORTED_TABLE = "UnsupportedTable"
    ROW_TYPES_DIFFER = "RowTypesDiffer"
    WRONG_FORMAT = "WrongFormat"
    NOT_MERGE_ON_READ = "NotMergeOnRead"
    REFUSED_OPTION = "RefusedOption"
    NO_LOCK_PROVIDER = "NoLockProvider"
    AUTO_COMPACTION_ON = "AutoCompactionOn"
    OVERLAPPED = "OverlappingCompaction"
    UNKNOWN_WAREHOUSE = "UnknownWarehouse"
    UNKNOWN_PROFILE = "UnknownProfile"
    NOT_ALLOWED = "NotAllowed"
    METASTORE_UNAVAILABLE = "MetastoreUnavailable"
    STORAGE_UNAVAILABLE = "StorageUnavailable"
    WAITING_FOR_EXCLUSIVE_LOCK = "WaitingForExclusiveLock"
    WAITING_FOR_LOCK = "WaitingForLock"
    WAITING_FOR_OPEN_TRANSACTIONS = "WaitingForOpenTransactions"
    OPEN_WRITE = "WaitingForOpenWrite"
    IN_COMPACTION_QUEUE = "InCompactionQueue"
    QUEUE_ENTRY_ENDED = "QueueEntryEnded"
    WAITING_FOR_LEASE = "WaitingForLease"
    WAITING_FOR_INSTANT = "WaitingForInstant"
    LOCK_LOST = "LockLost"
    TRANSACTION_LOST = "TransactionLost"
    SUPERSEDED = "Superseded"
    TABLE_CHANGED = "TableChanged"
    VERIFICATION_FAILED = "VerificationFailed"
    UNREADABLE_FILE = "UnreadableFile"
    JOB_NOT_CREATED = "JobNotCreated"
    QUOTA_EXCEEDED = "QuotaExceeded"
    UNSCHEDULABLE = "Unschedulable"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    POD_NOT_STARTED = "PodNotStarted"
    EXECUTORS_NOT_STARTED = "ExecutorsNotStarted"
    SUSPENDED = "Suspended"
    JOB_GONE = "JobGone"
    INTERRUPTED = "Interrupted"
    EVICTED = "Evicted"
    PREEMPTED = "Preempted"
    NODE_GONE = "NodeGone"
    OOM_KILLED = "OOMKilled"
    DRIVER_LOST = "DriverLost"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    DRIVER_FAILED = "DriverFailed"
    PARTIALLY_PUBLISHED = "PartiallyPublished"
    ATTEMPTS_EXHAUSTED = "AttemptsExhausted"


FINAL_REASONS = frozenset(
    {
        Reason.TABLE_NOT_FOUND,
        Reason.PARTITION_NOT_FOUND,
        Reason.NOT_TRANSACTIONAL,
        Reason.INSERT_ONLY,
        Reason.NOT_ORC,
        Reason.UNSUPPORTED_TABLE,
        Reason.ROW_TYPES_DIFFER,
        Reason.WRONG_FORMAT,
        Reason.NOT_MERGE_ON_READ,
        Reason.REFUSED_OPTION,
        Reason.NO_LOCK_PROVIDER,
        Reason.AUTO_COMPACTION_ON,
        Reason.OVERLAPPED,
        Reason.UNKNOWN_WAREHOUSE,
        Reason.UNKNOWN_PROFILE,
        Reason.NOT_ALLOWED,
        Reason.QUEUE_ENTRY_ENDED,
    }
)
"""Final failures. A retry cannot help, so no further attempt is made."""

SUCCESS_REASONS = frozenset(
    {Reason.COMPACTED, Reason.NOTHING_TO_COMPACT, Reason.SCHEDULED, Reason.CLEANED, Reason.ARCHIVED}
)
"""Reasons of a successful attempt."""

UNAVAILABLE_REASONS = frozenset({Reason.METASTORE_UNAVAILABLE, Reason.STORAGE_UNAVAILABLE})
"""Outages, which end by themselves."""

WAITING_REASONS = UNAVAILABLE_REASONS | frozenset(
    {
        Reason.WAITING_FOR_EXCLUSIVE_LOCK,
        Reason.WAITING_FOR_LOCK,
        Reason.WAITING_FOR_OPEN_TRANSACTIONS,
        Reason.OPEN_WRITE,
        Reason.IN_COMPACTION_QUEUE,
        Reason.WAITING_FOR_LEASE,
        Reason.WAITING_FOR_INSTANT,
        Reason.JOB_NOT_CREATED,
        Reason.QUOTA_EXCEEDED,
        Reason.UNSCHEDULABLE,
        Reason.IMAGE_PULL_FAILED,
        Reason.POD_NOT_STARTED,
        Reason.EXECUTORS_NOT_STARTED,
        Reason.SUSPENDED,
        Reason.JOB_GONE,
        Reason.INTERRUPTED,
        Reason.EVICTED,
        Reason.PREEMPTED,
        Reason.NODE_GONE,
        Reason.DRIVER_LOST,
    }
)
"""External causes. The compaction is retried, and the attempt does not count against retry.maxAttempts."""


class Stage(StrEnum):
    """A stage of a driver's work on a Hive table."""

    PREFLIGHT = "preflight"
    PLAN = "plan"
    MERGE = "merge"
    VERIFY = "verify"
    PUBLISH = "publish"


StageTimes = tuple[int, int, int]
"""When a stage first began and last ended, in milliseconds since 1970, and how many of these it took."""


_STAGE_TIMES: TypeAdapter[StageTimes] = TypeAdapter(StageTimes)


def _known_times(stages: Any) -> dict[str, StageTimes]:
    """Return the stages that have such times: an unknown form of them must not hide how the driver ended."""
    found = {}
    for name, times in stages.items() if isinstance(stages, dict) else ():
        with suppress(ValidationError):
            found[name] = _STAGE_TIMES.validate_python(times)
    return found


class DriverResult(ReadModel):
    """How the driver ended. It is the pod's termination message, and the driver's image may be newer or older.

    `apart` says why it did not merge all deltas of a partition of a Hive table, if it did not. `stages` are those of a
    driver of a Hive table.
    """

    reason: Reason
    message: str
    apart: str | None = None
    hudi: HudiStatus | None = None
    stages: Annotated[dict[str, StageTimes], BeforeValidator(_known_times)] = Field(default_factory=dict)

    def shortened(self) -> "DriverResult":
        """Return the result shortened to fit a termination message. If the kubelet truncates it, the JSON is broken."""
        most = TERMINATION_MESSAGE_BYTES // 4
        short = {"message": _beginning(self.message, most), "apart": self.apart and _beginning(self.apart, most // 2)}
        return self.model_copy(update={**short, "hudi": self.hudi and self.hudi.shortened()})


def _beginning(text: str, most: int) -> str:
    """Return as many whole characters as fit in so many bytes of UTF-8."""
    return text.encode()[:most].decode(errors="ignore")


AGENT_PREFIX = "compaction-operator/"


def agent_info(*, uid: str, attempt: int, pod_uid: str) -> str:
    """Return the agentInfo of a driver's metastore locks. The controller recognizes the locks by it."""
    return f"{AGENT_PREFIX}{uid}/{attempt}/{pod_uid}"


def agent_attempt(agent: str | None) -> tuple[str, int] | None:
    """Return the compaction's UID and the attempt from a driver's `agent_info`, or None for any other agent."""
    return _attempt_after(AGENT_PREFIX, agent)


QUEUE_POOL_PREFIX = "compaction/"


def queue_pool(*, uid: str, attempt: int, pod_uid: str) -> str:
    """Return a driver's own pool in the metastore's compaction queue. A pool name has at most 64 characters."""
    return f"{QUEUE_POOL_PREFIX}{uid}/{attempt}/{pod_uid[:8]}"


def pool_owner(pool: str | None) -> tuple[str, int] | None:
    """Return the compaction's UID and the attempt from a driver's `queue_pool`, or None for any other pool."""
    return _attempt_after(QUEUE_POOL_PREFIX, pool)


def queue_worker(warehouse: str) -> str:
    """Return the worker id with which the controller takes entries of a warehouse's pool.

    SHOW COMPACTIONS shows what is before the last hyphen as the worker's host. It does not contain the name of a host:
    a metastore takes the entries of its own host back when it starts (Initiator.recoverFailedCompactions).
    """
    return f"{AGENT_PREFIX}{warehouse}-kubernetes"


QUEUE_NAME_CHARACTERS = 32
"""The size of CQ_HADOOP_JOB_ID, in which SHOW COMPACTIONS shows the name."""
_DIGEST = 6


def queue_compaction_name(warehouse: str, queue_id: int) -> str:
    """Return the name of the TableCompaction for an entry of a warehouse's pool, such as `hive-queue-main-17`.

    It has at most 32 characters for ids below 10^13. The name of a long warehouse is shortened and gets a digest.
    """
    room = QUEUE_NAME_CHARACTERS - len(f"hive-queue--{queue_id}")
    if len(warehouse) > room:
        digest = hashlib.sha256(warehouse.encode()).hexdigest()[:_DIGEST]
        warehouse = f"{warehouse[: room - _DIGEST]}{digest}"
    return f"hive-queue-{warehouse}-{queue_id}"


def _attempt_after(prefix: str, name: str | None) -> tuple[str, int] | None:
    found = re.fullmatch(rf"{prefix}([^/]+)/([0-9]+)/([^/]*)", name or "", re.ASCII)
    return (found[1], int(found[2])) if found else None
