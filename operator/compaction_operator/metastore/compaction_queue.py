"""The metastore's compaction queue: its entries, and the entry that a driver works on."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from compaction_operator.api.compaction import CompactionType, TableRef


class QueueState(StrEnum):
    """State of an entry, as SHOW COMPACTIONS spells it (TxnStore's response constants)."""

    INITIATED = "initiated"
    WORKING = "working"
    READY_FOR_CLEANING = "ready for cleaning"
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    DID_NOT_INITIATE = "did not initiate"
    REFUSED = "refused"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


_ENDED = frozenset(
    {QueueState.FAILED, QueueState.SUCCEEDED, QueueState.DID_NOT_INITIATE, QueueState.REFUSED, QueueState.ABORTED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """One line of SHOW COMPACTIONS. Names are in lower case. Values not reported are 0 (`txn`) or None (all others).

    `type` is None for a type that this project does not know: `type_name` says which. `job` is the column HadoopJobId.
    `committed` is when the compaction's transaction was committed, as reported by the metastore (Hive 4).
    """

    queue_id: int
    database: str
    table: str
    partition: str | None = None
    type: CompactionType | None = None
    type_name: str = ""
    state: QueueState
    worker: str | None = None
    pool: str | None = None
    job: str | None = None
    txn: int = 0
    highest_write_id: int | None = None
    enqueued: datetime | None = None
    started: datetime | None = None
    committed: datetime | None = None
    error: str | None = None

    @property
    def is_ended(self) -> bool:
        """Whether the entry has ended and moved from the queue to its history."""
        return self.state in _ENDED

    @property
    def is_open(self) -> bool:
        """Whether a compaction is running or about to run. NB: unknown states count as open."""
        return self.state in (QueueState.INITIATED, QueueState.WORKING, QueueState.UNKNOWN)

    @property
    def awaits_cleaning(self) -> bool:
        """Whether its compaction is committed and only the obsolete directories remain to be deleted (Hive 4)."""
        return self.state is QueueState.READY_FOR_CLEANING and self.committed is not None

    def is_of(self, table: TableRef) -> bool:
        """Whether it is for that table, or a partition of it."""
        return (self.database, self.table) == (table.database.lower(), table.name.lower())

    def concerns(self, partitions: Iterable[str]) -> bool:
        """Whether it is for the whole table, or for one of these partition names (case-insensitive)."""
        return self.partition is None or self.partition.lower() in {name.lower() for name in partitions}

    def __str__(self) -> str:
        where = f" of {self.partition}" if self.partition else ""
        worker = f", worker {self.worker}" if self.worker else ""
        return f"entry {self.queue_id}{where} ({self.state}{worker})"


def say_queued(table: TableRef, entries: Iterable[QueueEntry]) -> str:
    """Return the message for a table whose compaction these queue entries block."""
    named = ", ".join(str(entry) for entry in entries)
    return f"{table} is in the metastore's compaction queue: {named}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueJob:
    """An entry that a driver of this project works on (Hive 4), in the form that the compactor calls take."""

    queue_id: int
    database: str
    table: str
    partition: str | None = None
    type: CompactionType
    worker: str | None = None
    run_as: str | None = None
    highest_write_id: int | None = None
