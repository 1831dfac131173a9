"""`CompactionCleanup`: the journal of what a compaction made obsolete, and of the way to its deletion."""

from enum import StrEnum

from compaction_operator.api.compaction import TableRef, Totals
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
    """What must still be true of a table before anything of it is deleted (Hive 3.1 has no table id)."""

    database: str
    name: str
    create_time: int
    location: str

    def ref(self) -> TableRef:
        """Return the table's name alone."""
        return TableRef(database=self.database, name=self.name)


class ObsoleteEntry(ReadModel):
    """A directory (or original file) that became obsolete, by its bare name, and why."""

    name: str
    reason: str


class PartitionEntry(ReadModel):
    """One partition of a journal; `partition` is '' for an unpartitioned table.

    `outputs` empty means that nothing was written: what is listed was obsolete already.
    """

    partition: str
    location: str
    create_time: int
    outputs: tuple[str, ...] = ()
    highest_write_id: int
    obsolete: tuple[ObsoleteEntry, ...]
    totals: Totals = Totals()


class CompactionCleanupSpec(ReadModel):
    """The journal. Immutable but for `suspend`."""

    warehouse: str
    table: TableIdentity
    compaction: CompactionRef
    partitions: tuple[PartitionEntry, ...]
    lock_ids: tuple[int, ...] = ()
    interval: Duration | None = None
    grace_period: Duration = 0.0
    suspend: bool = False


class CleanupPhase(StrEnum):
    """One word for `kubectl get`: a summary of the conditions, never read by the controller."""

    PENDING = "Pending"
    WAITING = "WaitingForReaders"
    GRACE = "GracePeriod"
    DELETING = "Deleting"
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


class Blocker(ReadModel):
    """One reader from before the baseline that is still there. Times are RFC 3339."""

    kind: BlockerKind
    id: int
    user: str
    host: str
    agent: str | None = None
    since: str | None = None
    last_heartbeat: str | None = None

    def __str__(self) -> str:
        since = f" since {self.since}" if self.since else ""
        return f"{self.kind.lower()} {self.id} of {self.user}@{self.host}{since}"


class PublishedState(StrEnum):
    """Computed by listing, never reported by the driver."""

    PUBLISHED = "Published"
    NOT_PUBLISHED = "NotPublished"
    NOTHING_TO_PUBLISH = "NothingToPublish"


class PartitionStatus(ReadModel):
    """What became of one partition's entry; a message says why what remains stays for good."""

    partition: str
    state: PublishedState
    deleted: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
    message: str | None = None


class CompactionCleanupStatus(ReadModel):
    """How far a cleanup is."""

    observed_generation: int | None = None
    phase: CleanupPhase = CleanupPhase.PENDING
    conditions: tuple[Condition, ...] = ()
    baseline: ReaderBaseline | None = None
    partitions: tuple[PartitionStatus, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    blocker_count: int = 0
    directories_deleted: int = 0
    bytes_deleted: int = 0
    completion_time: str | None = None
