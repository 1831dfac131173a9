"""Locks and transactions as the metastore reports them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class LockKind(StrEnum):
    """The kinds of locks that this project takes."""

    SHARED_READ = "SHARED_READ"
    EXCLUSIVE = "EXCLUSIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWish:
    """A lock request. `partition` None means the whole table, `txn` 0 a lock without a transaction."""

    database: str
    table: str
    partition: str | None = None
    kind: LockKind
    agent: str
    txn: int = 0


@dataclass(frozen=True, slots=True)
class LockState:
    """The metastore's answer to a lock request. A lock that is not `acquired` waits in the queue until `unlock`."""

    lock_id: int
    acquired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LockInfo:
    """A lock that a client holds or waits for.

    `database` and `table` are in lower case. `partition` is spelled as by `partition_specs.lock_name`, because the
    metastore does not keep the original spelling. `table` is None for a lock on the whole database, `partition` is None
    for a lock on the whole table, and `txn` is 0 for a lock without a transaction.
    """

    lock_id: int
    database: str
    table: str | None = None
    partition: str | None = None
    state: str
    type: str
    txn: int = 0
    user: str
    host: str
    agent: str | None = None
    acquired_at: datetime | None = None
    last_heartbeat: datetime | None = None

    def is_on(self, database: str, table: str) -> bool:
        """Whether it is on that table, one of its partitions, or its whole database, case-insensitive."""
        return self.database == database.lower() and self.table in (None, table.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnInfo:
    """An open transaction."""

    txn: int
    state: str
    user: str
    host: str
    agent: str | None = None
    started: datetime | None = None
    last_heartbeat: datetime | None = None


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """The open transactions, and the highest transaction id ever allocated."""

    high_water_mark: int
    open: tuple[TxnInfo, ...]
