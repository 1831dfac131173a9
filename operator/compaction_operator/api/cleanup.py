"""`CompactionCleanup`: the journal of the directories that a compaction made obsolete, and of their deletion."""

from enum import StrEnum

from compaction_operator.api.compaction import CleanupOptions, CleanupPhase, Forecast, TableRef, Totals
from compaction_operator.api.conditions import Condition
from compaction_operator.api.model import ReadModel

KIND = "CompactionCleanup"
PLURAL = "compactioncleanups"

MAX_PARTITIONS = 500
MAX_OUTPUTS = 100
MAX_BYTES = 100 * 1024
MAX_BLOCKERS = 20

OVERDUE = "Overdue"
"""The condition of a cleanup that has exceeded its deadline."""

LABEL_COMPACTION_UID = "compaction.dev/compaction-uid"
LABEL_ATTEMPT = "compaction.dev/attempt"


class CompactionRef(ReadModel):
    """The compaction and attempt that wrote a journal. The pod's UID distinguishes two drivers of one attempt."""

    name: str
    uid: str
    attempt: int
    job: str
    pod_uid: str


class TableIdentity(ReadModel):
    """A table's identity, which must still match before any deletion. Only Hive 4 has a table id."""

    database: str
    name: str
    create_time: int
    location: str
    table_id: int | None = None

    def ref(self) -> TableRef:
        """Return the table's database and name."""
        return TableRef(database=self.database, name=self.name)


class ObsoleteEntry(ReadModel):
    """An obsolete directory or original file: its bare name and the reason."""

    name: str
    reason: str


class Upload(ReadModel):
    """An upload to S3 that only its publisher completes: the object's name below the partition, and the upload's id.

    Aborting the id revokes the publication: no later call can complete it.
    """

    name: str
    upload_id: str


class PartitionEntry(ReadModel):
    """One partition of a journal; `partition` is '' for an unpartitioned table.

    Empty `outputs` mean that the attempt wrote nothing because the listed directories were already obsolete.
    On Hive 4, readers see the outputs once transaction `txn_id` is committed, and `queue_id` is this compaction's entry
    in the metastore's compaction queue. `uploads` are those of the outputs' files, where the store cannot rename.
    `totals`, `forecast` and `cpu_milliseconds` say what was written, what the plan said of it, and what it took.
    """

    partition: str
    location: str
    create_time: int
    txn_id: int | None = None
    queue_id: int | None = None
    outputs: tuple[str, ...] = ()
    uploads: tuple[Upload, ...] = ()
    highest_write_id: int
    obsolete: tuple[ObsoleteEntry, ...]
    totals: Totals = Totals()
    forecast: Forecast = Forecast()
    cpu_milliseconds: int = 0

    @property
    def recorded(self) -> tuple[str, ...]:
        """The names recorded as obsolete."""
        return tuple(one.name for one in self.obsolete)


class CompactionCleanupSpec(CleanupOptions):
    """The journal, with the options of its compaction. Immutable except for `suspend` and `approved`.

    `operator` is the namespace of the operator whose driver wrote it, if it is known.
    """

    warehouse: str
    operator: str | None = None
    table: TableIdentity
    compaction: CompactionRef
    partitions: tuple[PartitionEntry, ...]
    lock_ids: tuple[int, ...] = ()
    suspend: bool = False
    approved: bool = False


class ReaderBaseline(ReadModel):
    """The older readers: stored once, after a listing showed that the outputs are published."""

    time: str
    txn_high_water_mark: int
    lock_ids: tuple[int, ...]


class BlockerKind(StrEnum):
    """What a reader holds."""

    LOCK = "Lock"
    TRANSACTION = "Transaction"


class BlockerHealth(StrEnum):
    """Whether the client of a lock or transaction appears alive, judged by its heartbeats and its age."""

    ALIVE = "Alive"
    LIKELY_LEAKED = "LikelyLeaked"
    UNKNOWN = "Unknown"


class Blocker(ReadModel):
    """One reader of the baseline that is still active. Times are RFC 3339. `txn_id` is the transaction of a lock."""

    kind: BlockerKind
    id: int
    txn_id: int | None = None
    user: str
    host: str
    agent: str | None = None
    since: str | None = None
    last_heartbeat: str | None = None
    health: BlockerHealth | None = None

    def __str__(self) -> str:
        of_txn = f" (transaction {self.txn_id})" if self.txn_id else ""
        since = f" since {self.since}" if self.since else ""
        leaked = " (likely leaked)" if self.health is BlockerHealth.LIKELY_LEAKED else ""
        return f"{self.kind.lower()} {self.id}{of_txn} of {self.user}@{self.host}{since}{leaked}"


class PublishedState(StrEnum):
    """Whether a partition's outputs are published: determined by listing, never reported by the driver."""

    PUBLISHED = "Published"
    NOT_PUBLISHED = "NotPublished"
    NOTHING_TO_PUBLISH = "NothingToPublish"


class PartitionStatus(ReadModel):
    """The result for one partition.

    - `planned`: names that would be deleted, according to the listing made before approval was requested.
    - `kept`: names that are recorded but turned out not to be obsolete. This cleanup never deletes them.
    - `gone`: names that had already disappeared when a pass reached them.
    - `reason` and `message`: why the names in `remaining` stay for good, in one word and in a sentence.
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
    """The state of a cleanup. Times are RFC 3339. An unset time has not occurred yet, or must be determined again.

    `operator` is the namespace of the operator that handles it. `waited_for` are the blockers that were seen at any
    time, at most MAX_BLOCKERS; they stay when they are gone.
    """

    observed_generation: int | None = None
    operator: str | None = None
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
    waited_for: tuple[Blocker, ...] = ()
    directories_deleted: int = 0
    bytes_deleted: int = 0
    quarantined_until: str | None = None
    completion_time: str | None = None
