"""`CompactionCleanup`: the journal of what a compaction made obsolete, and of the way to its deletion."""

from enum import StrEnum

from compaction_operator.api.compaction import CleanupMode, Readers, TableRef, Totals
from compaction_operator.api.conditions import Condition
from compaction_operator.api.model import Duration, ReadModel

KIND = "CompactionCleanup"
PLURAL = "compactioncleanups"

MAX_PARTITIONS = 500
MAX_BYTES = 100 * 1024
MAX_BLOCKERS = 20

LABEL_COMPACTION_UID = "compaction.dev/compaction-uid"
LABEL_ATTEMPT = "compaction.dev/attempt"


class CompactionRef(ReadModel):
    """The compaction and attempt that wrote a journal; the pod's UID tells two drivers of one attempt apart."""

    name: str
    uid: str
    attempt: int
    job: str
    pod_uid: str


class TableIdentity(ReadModel):
    """What must still be true of a table before anything of it is deleted (only Hive 4 has a table id)."""

    database: str
    name: str
    create_time: int
    location: str
    table_id: int | None = None

    def ref(self) -> TableRef:
        """Return the table's name alone."""
        return TableRef(database=self.database, name=self.name)


class ObsoleteEntry(ReadModel):
    """A directory (or original file) that became obsolete, by its bare name, and why."""

    name: str
    reason: str


class PartitionEntry(ReadModel):
    """One partition of a journal; `partition` is '' for an unpartitioned table.

    `outputs` empty means that nothing was written: what is listed was obsolete already. On Hive 4 the outputs count
    once transaction `txn_id` is committed, and entry `queue_id` of the metastore's compaction queue is this compaction.
    """

    partition: str
    location: str
    create_time: int
    txn_id: int | None = None
    queue_id: int | None = None
    outputs: tuple[str, ...] = ()
    highest_write_id: int
    obsolete: tuple[ObsoleteEntry, ...]
    totals: Totals = Totals()


class CompactionCleanupSpec(ReadModel):
    """The journal. Immutable but for `suspend` and `approved`."""

    warehouse: str
    table: TableIdentity
    compaction: CompactionRef
    partitions: tuple[PartitionEntry, ...]
    lock_ids: tuple[int, ...] = ()
    mode: CleanupMode = CleanupMode.AUTO
    readers: Readers = Readers.LOCKS_AND_TRANSACTIONS
    interval: Duration | None = None
    grace_period: Duration = 0.0
    deadline: Duration | None = None
    quarantine: Duration | None = None
    suspend: bool = False
    approved: bool = False


class CleanupPhase(StrEnum):
    """One word for `kubectl get`: a summary of the conditions, never read by the controller."""

    PENDING = "Pending"
    WAITING = "WaitingForReaders"
    GRACE = "GracePeriod"
    APPROVAL = "WaitingForApproval"
    DELETING = "Deleting"
    QUARANTINED = "Quarantined"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class ReaderBaseline(ReadModel):
    """The readers from before: stored once, after the listing that found the outputs published."""

    time: str
    txn_high_water_mark: int
    lock_ids: tuple[int, ...]


class BlockerKind(StrEnum):
    """What a reader holds."""

    LOCK = "Lock"
    TRANSACTION = "Transaction"


class BlockerHealth(StrEnum):
    """Whether somebody is still there behind a lock or transaction, by its heartbeats and its age."""

    ALIVE = "Alive"
    LIKELY_LEAKED = "LikelyLeaked"
    UNKNOWN = "Unknown"


class Blocker(ReadModel):
    """One reader from before the baseline that is still there. Times are RFC 3339."""

    kind: BlockerKind
    id: int
    user: str
    host: str
    agent: str | None = None
    since: str | None = None
    last_heartbeat: str | None = None
    health: BlockerHealth | None = None

    def __str__(self) -> str:
        since = f" since {self.since}" if self.since else ""
        leaked = " (likely leaked)" if self.health is BlockerHealth.LIKELY_LEAKED else ""
        return f"{self.kind.lower()} {self.id} of {self.user}@{self.host}{since}{leaked}"


class PublishedState(StrEnum):
    """Computed by listing, never reported by the driver."""

    PUBLISHED = "Published"
    NOT_PUBLISHED = "NotPublished"
    NOTHING_TO_PUBLISH = "NothingToPublish"


class PartitionStatus(ReadModel):
    """What became of one partition's entry; a message says why what remains stays for good, `reason` in one word.

    `planned` is what would be deleted, by the listing before the approval was asked for. `kept` is what was recorded
    and turned out not to be obsolete: this cleanup never deletes it. `gone` was gone when a pass came to it.
    """

    partition: str
    state: PublishedState
    planned: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
    reason: str | None = None
    message: str | None = None


class CompactionCleanupStatus(ReadModel):
    """How far a cleanup is. Times are RFC 3339; one that is not set has not come, or is to be found out again."""

    observed_generation: int | None = None
    phase: CleanupPhase = CleanupPhase.PENDING
    conditions: tuple[Condition, ...] = ()
    driver_lost_time: str | None = None
    baseline: ReaderBaseline | None = None
    readers_gone_time: str | None = None
    listed_time: str | None = None
    deletion_start_time: str | None = None
    partitions: tuple[PartitionStatus, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    blocker_count: int = 0
    directories_deleted: int = 0
    bytes_deleted: int = 0
    quarantined_until: str | None = None
    completion_time: str | None = None
