"""Locks and transactions as the metastore reports them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class LockKind(StrEnum):
    """The locks this project takes."""

    SHARED_READ = "SHARED_READ"
    EXCLUSIVE = "EXCLUSIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWish:
    """A lock to ask for: on the whole table when `partition` is None; txn 0 is a lock without a transaction."""

    database: str
    table: str
    partition: str | None = None
    kind: LockKind
    agent: str
    txn: int = 0


@dataclass(frozen=True, slots=True)
class LockState:
    """The metastore's answer to a wish: without `acquired` the lock waits in the queue until it is unlocked."""

    lock_id: int
    acquired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LockInfo:
    """A lock that somebody holds or waits for.

    `database` and `table` are in lower case, `partition` is as `partitions.lock_name` spells it: the metastore does not
    keep it as it was. `table` is None for a lock on the whole database, `partition` for one on the whole table. `txn`
    is 0 for a lock without a transaction.
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
        """Whether it is on that table, one of its partitions, or its whole database; case does not matter."""
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
    """The transactions that are open, and the highest transaction id that was ever given out."""

    high_water_mark: int
    open: tuple[TxnInfo, ...]
