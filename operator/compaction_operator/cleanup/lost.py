"""Whether an attempt's driver is alive, by the heartbeats of what the metastore holds for it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from compaction_operator.api.compaction import TableRef
from compaction_operator.cleanup.attempt import Attempt
from compaction_operator.metastore.interface import Metastore
from compaction_operator.metastore.locks import LockInfo, TxnInfo

SILENT_AFTER = timedelta(seconds=90)
"""A driver beats every 20 s. NB: well before hive.txn.timeout (300 s), which takes the EXCLUSIVE lock away behind which
half of a pair may lie, and longer than a look between two nodes whose clocks differ by a few seconds can err."""

NOTHING_HELD = 300.0
"""Seconds. A driver that works holds something at every moment. Before its first lock it only looks the table up."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What an attempt has of a table in the metastore: locks, waiting ones too, and (Hive 4) open transactions.

    An entry of the compaction queue is not counted: nobody takes it from a dead driver.
    """

    locks: tuple[LockInfo, ...] = ()
    txns: tuple[TxnInfo, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.locks or self.txns)

    def __str__(self) -> str:
        return f"lock {self.locks[0].lock_id}" if self.locks else f"transaction {self.txns[0].txn}"

    @property
    def last_heartbeat(self) -> datetime | None:
        """The newest heartbeat of any of them; None where the metastore tells none."""
        # The metastore keeps the heartbeats of a transaction's locks with the transaction.
        beats = (*(lock.last_heartbeat for lock in self.locks), *(txn.last_heartbeat for txn in self.txns))
        return max((beat for beat in beats if beat is not None), default=None)

    def silence(self, now: datetime) -> str | None:
        """Return why their driver is lost, None while it is alive or nobody can tell."""
        beat = self.last_heartbeat
        if beat is None or now - beat <= SILENT_AFTER:
            return None
        return f"{self} of its driver has had no heartbeat since {beat.isoformat(timespec='seconds')}"


def holdings(metastore: Metastore, attempt: Attempt, table: TableRef) -> Holdings:
    """Return what the attempt holds now. Raises the client's errors."""
    locks = metastore.show_locks(table.database, table.name)
    txns = metastore.open_transactions().open
    own_locks = tuple(lock for lock in locks if attempt.holds(lock.agent))
    return Holdings(own_locks, tuple(txn for txn in txns if attempt.holds(txn.agent)))


class Watch:
    """Judges drivers look by look; the clock of what holds nothing is this process's own (seconds, monotonic)."""

    def __init__(self) -> None:
        self._bare_since: dict[Attempt, float] = {}

    def lost(self, attempt: Attempt, held: Holdings, *, now: datetime, ticks: float) -> str | None:
        """Return why the attempt's driver is lost, None while it may be alive."""
        if held:
            self.forget(attempt)
            return held.silence(now)
        bare = ticks - self._bare_since.setdefault(attempt, ticks)
        if bare < NOTHING_HELD:
            return None
        return f"its driver has held nothing in the metastore for {bare:.0f} s"

    def forget(self, attempt: Attempt) -> None:
        """Begin from the start when the attempt is asked for again."""
        self._bare_since.pop(attempt, None)
