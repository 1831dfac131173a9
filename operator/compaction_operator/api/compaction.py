"""`TableCompaction`: what to compact, how to compact it, and its state."""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, WithJsonSchema

from compaction_operator.api.conditions import Condition, Message
from compaction_operator.api.hudi import HudiOptions, HudiStatus
from compaction_operator.api.model import Duration, ReadModel, counted
from compaction_operator.api.progress import Progress

KIND = "TableCompaction"
PLURAL = "tablecompactions"
ANNOTATION_OPERATOR = "compaction.dev/operator"
"""On what an operator creates: its namespace. Another operator leaves the resource alone."""


class Format(StrEnum):
    """The table format. Auto is detected."""

    AUTO = "Auto"
    HIVE_ACID = "HiveAcid"
    HUDI = "Hudi"


class CompactionType(StrEnum):
    """The compaction type.

    Hive ACID: Minor merges deltas into one, Major merges base and deltas into a new base.
    Hudi: LogCompaction merges log blocks into one (RFC-48), Compaction merges base and log files into new base files,
    Clean runs Hudi's cleaner, and Archive moves old instants of the timeline to the archive.
    """

    MINOR = "Minor"
    MAJOR = "Major"
    LOG_COMPACTION = "LogCompaction"
    COMPACTION = "Compaction"
    CLEAN = "Clean"
    ARCHIVE = "Archive"

    @property
    def table_format(self) -> Format:
        """The table format that this type applies to."""
        return Format.HIVE_ACID if self in HIVE_TYPES else Format.HUDI

    @property
    def noun(self) -> str:
        """The type's name in a sentence."""
        return self.value if self.table_format is Format.HUDI else f"{self.value} compaction"


HIVE_TYPES = (CompactionType.MINOR, CompactionType.MAJOR)
"""The types that apply to Hive ACID tables."""

UPKEEP_TYPES = (CompactionType.CLEAN, CompactionType.ARCHIVE)
"""The types that merge nothing: upkeep of a Hudi table."""


class Phase(StrEnum):
    """One word for `kubectl get`: a summary of the conditions, never read by the controller."""

    PENDING = "Pending"
    QUEUED = "Queued"
    SUSPENDED = "Suspended"
    WAITING = "Waiting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class TableRef(ReadModel):
    """A table's database and name in the metastore, case-insensitive.

    A Hudi table may be named by its `location` instead. Database and name are then empty.
    """

    database: str = ""
    name: str = ""
    location: str | None = None

    @classmethod
    def of(cls, full_name: str) -> "TableRef":
        """Return the table of a full name, `database.name`."""
        database, _, name = full_name.partition(".")
        return cls(database=database, name=name)

    def __str__(self) -> str:
        return self.location or f"{self.database}.{self.name}".lower()


class CleanupMode(StrEnum):
    """Whether a cleanup deletes. Auto deletes, Plan lists and waits for approval, Never keeps all directories.

    NB: with Never on Hive 4, Hive's own Cleaner may still delete the obsolete directories.
    """

    AUTO = "Auto"
    PLAN = "Plan"
    NEVER = "Never"


class Readers(StrEnum):
    """Which locks and transactions count as older readers.

    LocksAndOwnTransactions ignores a transaction that holds locks, but none on the table, its partitions or its
    database. This is safe for clients that lock everything they read in one request.
    NB: Locks alone, the openLooKeng document's rule, is known to be unsafe.
    """

    LOCKS_AND_TRANSACTIONS = "LocksAndTransactions"
    LOCKS_AND_OWN_TRANSACTIONS = "LocksAndOwnTransactions"
    LOCKS = "Locks"


class CleanupOptions(ReadModel):
    """Options for the cleanup of a compaction.

    `deadline` only raises a condition. `quarantine` is how long a directory stays hidden before it is deleted.
    """

    mode: CleanupMode = CleanupMode.AUTO
    readers: Readers = Readers.LOCKS_AND_TRANSACTIONS
    interval: Duration | None = None
    grace_period: Duration = 0.0
    deadline: Duration | None = None
    quarantine: Duration | None = None


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


class DriverResources(ReadModel):
    """The driver pod: cores as Spark counts them, which are also its CPU request, and memory as a Spark size."""

    cores: int = 1
    memory: str = "1g"


AUTO: Final = "Auto"

Instances = Annotated[
    int | Literal["Auto"], WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": f"^{AUTO}$"})
]
"""A number of executors, or Auto."""


class ExecutorResources(ReadModel):
    """The executor pods. With 0 instances the driver does all work itself; with Auto it decides by its plan."""

    instances: Instances = AUTO
    cores: int = 1
    memory: str = "1g"

    @property
    def asked(self) -> int:
        """The number of executors that the compaction asks for; 0 with Auto, which leaves it to the driver."""
        return 0 if self.instances == AUTO else self.instances


class SparkOptions(ReadModel):
    """The administrator's Spark profile to use, and the pod sizes."""

    profile: str = "default"
    driver: DriverResources = DriverResources()
    executors: ExecutorResources = ExecutorResources()


class RetryOptions(ReadModel):
    """Retries of failed attempts: the n-th retry waits backoff * 2^(n-1), at most 10 minutes."""

    max_attempts: int = 3
    backoff: Duration = 10.0


class TableCompactionSpec(ReadModel):
    """The desired compaction. Immutable except for `suspend`.

    `deadline` limits the duration of an attempt. `queue_id` is the entry of Hive 4's compaction queue that it works on;
    only the operator sets it.
    """

    warehouse: str
    table: TableRef
    partitions: tuple[str, ...] = ()
    type: CompactionType
    format: Format = Format.AUTO
    hudi: HudiOptions | None = None
    cleanup: CleanupOptions = CleanupOptions()
    spark: SparkOptions = SparkOptions()
    retry: RetryOptions = RetryOptions()
    allow_auto_compaction: bool = False
    deadline: Duration | None = None
    queue_id: int | None = None
    suspend: bool = False


class Forecast(ReadModel):
    """What the plan of the same partitions says that `Totals` will be, before anything is written. Sizes are in bytes.

    `rows_removed` are the rows that delete events remove. `cpu_milliseconds` are those of all tasks, which merge and
    verify.
    """

    files_in: int = 0
    bytes_in: int = 0
    bytes_copied: int = 0
    bytes_rewritten: int = 0
    rows_removed: int = 0
    cpu_milliseconds: int = 0

    @property
    def bytes_out(self) -> int:
        """The size of all files that are written."""
        return self.bytes_copied + self.bytes_rewritten

    def __add__(self, other: "Forecast") -> "Forecast":
        return Forecast(**{name: getattr(self, name) + getattr(other, name) for name in Forecast.model_fields})


class Totals(ReadModel):
    """Numbers of what was read and written, summed over the published partitions. Sizes are in bytes.

    - `bytes_ingested` is the part of `bytes_in` that no earlier compaction had written.
    - `bytes_copied` and `bytes_rewritten` are the parts of `bytes_out`: stripes that were copied whole, and the rest.
    """

    partitions: int = 0
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_ingested: int = 0
    bytes_out: int = 0
    bytes_copied: int = 0
    bytes_rewritten: int = 0
    rows_in: int = 0
    rows_out: int = 0
    delete_events_in: int = 0
    delete_events_out: int = 0

    @property
    def write_amplification(self) -> str | None:
        """Bytes written, by writers and then by the compaction, for each byte that writers added since the last one.

        It is a decimal number. None if the compaction read nothing new, or if its driver did not report this.
        """
        if not self.bytes_ingested:
            return None
        return f"{Decimal(self.bytes_ingested + self.bytes_out) / Decimal(self.bytes_ingested):.2f}"

    def __str__(self) -> str:
        written = f"{self.bytes_out} bytes: {self.bytes_copied} copied, {self.bytes_rewritten} rewritten"
        amplified = f", write amplification {self.write_amplification}" if self.bytes_ingested else ""
        return (
            f"{counted(self.partitions, 'partition')}: {counted(self.files_in, 'file')} ({self.bytes_in} bytes) became "
            f"{self.files_out} ({written}){amplified}, rows {self.rows_in} -> {self.rows_out}, "
            f"delete events {self.delete_events_in} -> {self.delete_events_out}"
        )

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(**{name: getattr(self, name) + getattr(other, name) for name in Totals.model_fields})


class ProgressStatus(Progress):
    """The progress of the current or last attempt, with a summary for `kubectl get`."""

    summary: str
    last_update_time: str

    @classmethod
    def of(cls, progress: Progress, *, at: str) -> "ProgressStatus":
        """Return the status of a progress, last updated `at` an RFC 3339 time."""
        return cls(**progress.fields(), summary=str(progress), last_update_time=at)

    def shows(self, progress: Progress) -> bool:
        """Whether this status shows that progress."""
        return self.fields() == progress.fields()


class Why(ReadModel):
    """A reason: one word and a sentence."""

    reason: str
    message: Message = ""


class Obstacle(Why):
    """What keeps the pods of an attempt from starting, and since when."""

    since: str | None = None


class BackOff(Why):
    """Why no attempt starts before `nextAttemptTime`.

    `waits` is how many times in a row an obstacle was found before an attempt: others work on the table, or the
    metastore or the storage did not answer. `kept_out` means that the metastore's queue blocked it before these did not
    answer.
    """

    waits: int = 0
    kept_out: bool = False


class TableCompactionStatus(ReadModel):
    """The state of a compaction.

    - `operator` is the namespace of the operator that handles it.
    - `attempt` is written before the Job of that attempt is created.
    - `location` is a Hudi table's location, known before its first attempt, because one table may have several names.
    - `ending` is written before the Job is deleted of an attempt that exceeded its deadline or lost its driver.
    - `oom_killed` means that a driver ran out of memory: those of later attempts get more.
    - `cleanup_phase` is that of the cleanup that needs attention most, and changes after the end, too.
    - `forecast` and `cpu_milliseconds`, the CPU time that the tasks took, are of the same partitions as `totals`.
    """

    observed_generation: int | None = None
    operator: str | None = None
    phase: Phase = Phase.PENDING
    conditions: tuple[Condition, ...] = ()
    location: str | None = None
    attempt: int = 0
    failed_attempts: int = Field(default=0, description="attempts that count against retry.maxAttempts")
    oom_killed: bool = False
    job: str | None = None
    attempt_start_time: str | None = None
    pod_trouble: Obstacle | None = None
    ending: Why | None = None
    progress: ProgressStatus | None = None
    next_attempt_time: str | None = None
    back_off: BackOff | None = None
    start_time: str | None = None
    completion_time: str | None = None
    cleanups: tuple[str, ...] = ()
    cleanup_phase: CleanupPhase | None = None
    totals: Totals | None = None
    forecast: Forecast | None = None
    cpu_milliseconds: int | None = None
    hudi: HudiStatus | None = None
