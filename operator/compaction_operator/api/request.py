"""What controller and driver pod say to each other: a request in, a result out. Both are JSON."""

import re
from enum import StrEnum

from compaction_operator.api.compaction import CleanupOptions, CompactionType, Format, SparkOptions, TableRef
from compaction_operator.api.config import SparkProfile, Warehouse
from compaction_operator.api.hudi import HudiOptions, HudiStatus
from compaction_operator.api.model import Model

REQUEST_VARIABLE = "COMPACTION_REQUEST"
TERMINATION_MESSAGE_PATH = "/dev/termination-log"
TERMINATION_MESSAGE_BYTES = 4096


class JobRequest(Model):
    """All that a driver needs to know, handed over in one environment variable."""

    name: str
    namespace: str
    uid: str
    attempt: int
    job: str
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


class Reason(StrEnum):
    """Why a compaction ended or waits: the reasons of its Succeeded condition."""

    COMPACTED = "Compacted"
    NOTHING_TO_COMPACT = "NothingToCompact"
    SCHEDULED = "Scheduled"
    TABLE_NOT_FOUND = "TableNotFound"
    PARTITION_NOT_FOUND = "PartitionNotFound"
    NOT_TRANSACTIONAL = "NotTransactional"
    INSERT_ONLY = "InsertOnlyTable"
    NOT_ORC = "NotOrc"
    UNSUPPORTED_TABLE = "UnsupportedTable"
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
    WAITING_FOR_LEASE = "WaitingForLease"
    WAITING_FOR_INSTANT = "WaitingForInstant"
    LOCK_LOST = "LockLost"
    TRANSACTION_LOST = "TransactionLost"
    SUPERSEDED = "Superseded"
    TABLE_CHANGED = "TableChanged"
    VERIFICATION_FAILED = "VerificationFailed"
    UNREADABLE_FILE = "UnreadableFile"
    JOB_GONE = "JobGone"
    INTERRUPTED = "Interrupted"
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
        Reason.WRONG_FORMAT,
        Reason.NOT_MERGE_ON_READ,
        Reason.REFUSED_OPTION,
        Reason.NO_LOCK_PROVIDER,
        Reason.AUTO_COMPACTION_ON,
        Reason.OVERLAPPED,
        Reason.UNKNOWN_WAREHOUSE,
        Reason.UNKNOWN_PROFILE,
        Reason.NOT_ALLOWED,
    }
)
"""Trying again cannot help: no further attempt is made."""

SUCCESS_REASONS = frozenset({Reason.COMPACTED, Reason.NOTHING_TO_COMPACT, Reason.SCHEDULED})
"""What was asked for is done."""

WAITING_REASONS = frozenset(
    {
        Reason.METASTORE_UNAVAILABLE,
        Reason.STORAGE_UNAVAILABLE,
        Reason.WAITING_FOR_EXCLUSIVE_LOCK,
        Reason.WAITING_FOR_LOCK,
        Reason.WAITING_FOR_OPEN_TRANSACTIONS,
        Reason.OPEN_WRITE,
        Reason.IN_COMPACTION_QUEUE,
        Reason.WAITING_FOR_LEASE,
        Reason.WAITING_FOR_INSTANT,
        Reason.JOB_GONE,
        Reason.INTERRUPTED,
        Reason.DRIVER_LOST,
    }
)
"""Nobody's fault: tried again without counting against retry.maxAttempts."""


class DriverResult(Model):
    """How the driver ended, in its own words (the pod's termination message)."""

    reason: Reason
    message: str
    hudi: HudiStatus | None = None

    def shortened(self) -> "DriverResult":
        """Return the result as it fits into a termination message: what the kubelet cuts is no JSON any more."""
        message = self.message[: TERMINATION_MESSAGE_BYTES // 4]
        return self.model_copy(update={"message": message, "hudi": self.hudi and self.hudi.shortened()})


AGENT_PREFIX = "compaction-operator/"


def agent_info(*, uid: str, attempt: int, pod_uid: str) -> str:
    """Return the agentInfo under which a driver takes its metastore locks, so that its controller can tell them."""
    return f"{AGENT_PREFIX}{uid}/{attempt}/{pod_uid}"


def agent_attempt(agent: str | None) -> tuple[str, int] | None:
    """Return the compaction's UID and the attempt of a driver's `agent_info`, None for any other agent."""
    return _attempt_after(AGENT_PREFIX, agent)


QUEUE_POOL_PREFIX = "compaction/"


def queue_pool(*, uid: str, attempt: int, pod_uid: str) -> str:
    """Return the pool of the metastore's compaction queue that is one driver's own; at most 64 characters fit there."""
    return f"{QUEUE_POOL_PREFIX}{uid}/{attempt}/{pod_uid[:8]}"


def pool_owner(pool: str | None) -> tuple[str, int] | None:
    """Return the compaction's UID and the attempt of a driver's `queue_pool`, None for any other pool."""
    return _attempt_after(QUEUE_POOL_PREFIX, pool)


def _attempt_after(prefix: str, name: str | None) -> tuple[str, int] | None:
    found = re.fullmatch(rf"{prefix}([^/]+)/([0-9]+)/([^/]*)", name or "", re.ASCII)
    return (found[1], int(found[2])) if found else None
