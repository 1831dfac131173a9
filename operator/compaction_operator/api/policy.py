"""`CompactionPolicy`: which tables of a warehouse are compacted by themselves, when, and how much at a time."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from compaction_operator.api.compaction import (
    CleanupOptions,
    CompactionType,
    Forecast,
    RetryOptions,
    SparkOptions,
)
from compaction_operator.api.conditions import Condition, Message
from compaction_operator.api.hudi import BUNDLE_PATTERN
from compaction_operator.api.model import Duration, ReadModel, Size

KIND = "CompactionPolicy"
PLURAL = "compactionpolicies"

LABEL_POLICY_UID = "compaction.dev/policy-uid"
"""Label of each TableCompaction that a policy created, for people to select by: the policy's uid."""
ANNOTATION_BYTES = "compaction.dev/policy-bytes"
"""Annotation of such a TableCompaction: the bytes that its files had when it was decided on."""

ANNOTATION_CPU = "compaction.dev/policy-cpu-milliseconds"
"""Annotation of such a TableCompaction: the CPU time that it was expected to take when it was decided on."""

ANNOTATION_FAILURES = "compaction.dev/policy-failures"
"""Annotation of such a TableCompaction: how many of its table and type failed in a row before it."""

ANNOTATION_SEEN = "compaction.dev/policy-seen"
"""Annotation of such a TableCompaction: a hash of all that decided what it would find to merge."""

SMALL_FILE = 16 * 1024**2
"""The size in bytes below which a file is small, unless a policy says otherwise."""

MAX_NEXT = 20
MAX_KEPT_BACK = 30

Pattern = Annotated[str, Field(pattern=r"^[^\s./:]+\.[^\s./:]+$")]
"""A glob for database and table, such as `sales.*`."""


class Tables(ReadModel):
    """Globs `database.table`: what any of `include` and none of `exclude` matches. Case does not matter."""

    include: tuple[Pattern, ...]
    exclude: tuple[Pattern, ...] = ()


class Partitions(ReadModel):
    """Partitions that all filters select, and whose time in the metastore is within the ages."""

    filters: tuple[str, ...] = ()
    min_age: Duration | None = None
    max_age: Duration | None = None


class Thresholds(ReadModel):
    """When a partition is due, as Hive's Initiator decides it, or a Hudi table, as Hudi's scheduler decides it.

    The defaults are theirs. `small_files`, of less than `small_file_size` bytes, and `delete_percent` are this
    project's own and None by default: they do not count.
    """

    deltas: int = 10
    delta_percent: int = 10
    aborted_writes: int = 1000
    aborted_age: Duration = 43200.0
    small_files: int | None = None
    small_file_size: Size = SMALL_FILE
    delete_percent: int | None = None
    delta_commits: int = 5
    log_blocks: int = 5


READY, ACTIVE = "Ready", "Active"
"""The conditions that say whether a policy works, and whether its compactions may start."""


class Day(StrEnum):
    """A day of the week, in the order of datetime.weekday()."""

    MONDAY = "Mon"
    TUESDAY = "Tue"
    WEDNESDAY = "Wed"
    THURSDAY = "Thu"
    FRIDAY = "Fri"
    SATURDAY = "Sat"
    SUNDAY = "Sun"


class Strategy(StrEnum):
    """What a policy compacts: what has reached a threshold, or that from which readers gain most for its cost."""

    THRESHOLDS = "Thresholds"
    GAIN = "Gain"


class Window(ReadModel):
    """A time of day at which compactions may start, on some days of the week, in a time zone."""

    start: Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
    duration: Duration
    days: tuple[Day, ...] = tuple(Day)
    time_zone: str = "UTC"


class History(ReadModel):
    """How many ended compactions of a policy are kept."""

    succeeded: int = 20
    failed: int = 100


class HudiTemplate(ReadModel):
    """What each compaction of a Hudi table has in `spec.hudi`, as HudiOptions has it.

    `max_log_file_size_to_merge` is for log compactions from table version 8 on, `clean` and `archive` for compactions.
    """

    options: dict[str, str] = Field(default_factory=dict)
    max_log_file_size_to_merge: Size | None = None
    single_writer: bool = False
    clean: bool = False
    archive: bool = False
    bundle: Annotated[str, Field(pattern=BUNDLE_PATTERN)] | None = None


class Template(ReadModel):
    """What each created TableCompaction has in its spec beside table, partitions and type."""

    cleanup: CleanupOptions = CleanupOptions()
    spark: SparkOptions = SparkOptions()
    retry: RetryOptions = RetryOptions()
    allow_auto_compaction: bool = False
    deadline: Duration | None = None


class PolicyTemplate(Template):
    """A template for both formats: `cleanup` and `allow_auto_compaction` are for Hive ACID tables."""

    hudi: HudiTemplate = HudiTemplate()


class CompactionPolicySpec(ReadModel):
    """The desired upkeep.

    - `interval` is the pause between two looks at the warehouse.
    - `min_interval` is the least time between the end of a table's compaction and the next one's start.
    - `max_delay` is how long a partition may be due before it may exceed the budget. After 90 percent of it its table
      goes first, whatever its score.
    - `database_share` is the percentage of `max_concurrent` and of both budgets that one database gets at most.
    - `bytes_per_window` limits the bytes to read of all compactions started in a window, `core_hours_per_window` their
      CPU time; without windows, in 24 hours.
    - `strategy` by gain spends that budget on whatever readers gain most from, due or not.
    """

    warehouse: str
    tables: Tables
    partitions: Partitions = Partitions()
    thresholds: Thresholds = Thresholds()
    strategy: Strategy = Strategy.THRESHOLDS
    windows: tuple[Window, ...] = ()
    interval: Duration = 60.0
    min_interval: Duration = 3600.0
    max_delay: Duration = 86400.0
    max_concurrent: int = 5
    bytes_per_window: Size | None = None
    core_hours_per_window: int | None = None
    database_share: int = 100
    history: History = History()
    template: PolicyTemplate = PolicyTemplate()
    dry_run: bool = False
    suspend: bool = False


class TableCounts(ReadModel):
    """Tables by their state at the last look; those done and failed by their last compaction that is still kept."""

    seen: int = 0
    due: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    kept_back: int = 0


class KeptBack(ReadModel):
    """How many tables a reason keeps back, and one of them."""

    reason: str
    tables: int
    example: str
    message: Message = ""


class NextTable(ReadModel):
    """A table that would gain: its score with the terms of the formula, and what keeps it back, if anything.

    `due_longest` is the spec of the partition that has been due for the longest time, '' for an unpartitioned table;
    `due_since` is that time. It is the time of the look for what is not `due`.
    `forecast` is what its compaction will do, by the footers of the files, if that is known of all its partitions.
    `forecast_problem` is why it is not known of one of them.
    """

    table: str
    type: CompactionType
    partitions: int
    score: str
    terms: str = ""
    reason: Message
    due: bool = True
    due_since: str
    due_longest: str = ""
    files_saved: int
    delete_bytes: int
    bytes: int
    forecast: Forecast | None = None
    forecast_problem: Message | None = None
    kept_back_by: str | None = None


class Budget(ReadModel):
    """The bytes and CPU seconds of the compactions that were started since a time."""

    since: str
    bytes_used: int
    cpu_seconds_used: int = 0


class CompactionPolicyStatus(ReadModel):
    """What the last look found. `operator` is the namespace of the operator that handles the policy."""

    observed_generation: int | None = None
    operator: str | None = None
    conditions: tuple[Condition, ...] = ()
    last_look_time: str | None = None
    tables: TableCounts | None = None
    kept_back: tuple[KeptBack, ...] = ()
    next: tuple[NextTable, ...] = ()
    budget: Budget | None = None
