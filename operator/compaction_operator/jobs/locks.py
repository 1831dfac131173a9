"""A driver's metastore locks: on Hive 3.1 without a transaction, heartbeated and given back, on Hive 4 within one."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import Reason
from compaction_operator.jobs.errors import JobError
from compaction_operator.jobs.publish import Guard
from compaction_operator.metastore.client import MetastoreClient
from compaction_operator.metastore.errors import LockLost, MetastoreError
from compaction_operator.metastore.heartbeat import Heartbeat
from compaction_operator.metastore.locks import LockKind, LockWish

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 20.0
"""Well below hive.txn.timeout (300 s), after which the metastore takes a silent client's lock away."""
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Patience:
    """How long to wait for a lock, how often, and how long to leave the readers alone between two tries.

    NB: a waiting EXCLUSIVE lock makes every later reader queue behind it, hence the short bound. A driver has the tries
    after the first for all partitions together: thousands that are being read do not make it wait for days.
    """

    wait_seconds: float
    tries: int = 1
    pause_seconds: float = 0.0


SHARED_PATIENCE = Patience(wait_seconds=30.0)
EXCLUSIVE_PATIENCE = Patience(wait_seconds=10.0, tries=5, pause_seconds=20.0)


@dataclass(frozen=True)
class HeldLock:
    """A lock that is held; `guard` raises JobError (LockLost) once it is not."""

    lock_id: int
    guard: Guard


class Locks:
    """Takes locks on one table under this attempt's name."""

    def __init__(self, client: MetastoreClient, table: TableRef, *, agent: str) -> None:
        self._client = client
        self._table = table
        self._agent = agent
        self._retries: dict[LockKind, int] = {}

    @contextmanager
    def shared(self) -> Iterator[HeldLock]:
        """Hold SHARED_READ on the table; raises JobError (WaitingForLock) naming who is in the way."""
        with self._held(None, LockKind.SHARED_READ, SHARED_PATIENCE, Reason.WAITING_FOR_LOCK) as held:
            yield held

    @contextmanager
    def exclusive(self, partition: str | None) -> Iterator[HeldLock]:
        """Hold EXCLUSIVE on the partition (or table); raises JobError (WaitingForExclusiveLock) naming whom."""
        reason = Reason.WAITING_FOR_EXCLUSIVE_LOCK
        with self._held(partition, LockKind.EXCLUSIVE, EXCLUSIVE_PATIENCE, reason) as held:
            yield held

    def in_transaction(self, partition: str | None, *, txn: int) -> int:
        """Take SHARED_READ on the partition (or table) for a transaction, with whose end it goes; return its id.

        Raises JobError (WaitingForLock) naming who is in the way, and TransactionLost when the transaction is not open.
        """
        return self._take(partition, LockKind.SHARED_READ, SHARED_PATIENCE, Reason.WAITING_FOR_LOCK, txn=txn)

    @contextmanager
    def _held(self, partition: str | None, kind: LockKind, patience: Patience, reason: Reason) -> Iterator[HeldLock]:
        lock_id = self._take(partition, kind, patience, reason)
        heartbeat = Heartbeat(self._client, lock_id, interval=HEARTBEAT_SECONDS)
        try:
            yield HeldLock(lock_id, guard=lambda: self._assert_alive(lock_id, heartbeat))
        finally:
            heartbeat.stop()
            self._give_back(lock_id)

    def _give_back(self, lock_id: int) -> None:
        """Unlock. NB: an error here would hide why the work under the lock failed, or fail work that is done.

        The controller gives back what is left, and without heartbeats the metastore takes it away by itself.
        """
        try:
            self._client.unlock(lock_id)
        except MetastoreError as error:
            log.warning("lock %d was not given back: %s", lock_id, error)

    def _assert_alive(self, lock_id: int, heartbeat: Heartbeat) -> None:
        try:
            heartbeat.check()
            self._client.heartbeat(lock_id)
        except LockLost as error:
            raise JobError(Reason.LOCK_LOST, f"metastore lock {lock_id} is gone: {error}") from error

    def _take(self, partition: str | None, kind: LockKind, patience: Patience, reason: Reason, *, txn: int = 0) -> int:
        where = f"{self._table}/{partition}" if partition else str(self._table)
        self._retries.setdefault(kind, patience.tries - 1)
        while (lock_id := self._try(partition, kind, patience.wait_seconds, txn=txn)) is None:
            message = f"no {kind} lock on {where} in {patience.wait_seconds:g} s: held by {self._holders(partition)}"
            log.info("%s", message)
            if self._retries[kind] <= 0:
                raise JobError(reason, message)
            self._retries[kind] -= 1
            time.sleep(patience.pause_seconds)
        return lock_id

    def _try(self, partition: str | None, kind: LockKind, seconds: float, *, txn: int) -> int | None:
        wish = LockWish(
            database=self._table.database,
            table=self._table.name,
            partition=partition,
            kind=kind,
            agent=self._agent,
            txn=txn,
        )
        state = self._client.lock(wish)
        deadline = time.monotonic() + seconds
        acquired = state.acquired
        try:
            while not acquired and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
                acquired = self._client.check_lock(state.lock_id)
        finally:
            if not acquired:
                self._give_back(state.lock_id)
        return state.lock_id if acquired else None

    def _holders(self, partition: str | None) -> str:
        """Name who is in the way; only words, so an error of the metastore is no reason to stop."""
        try:
            locks = self._client.show_locks(self._table.database, self._table.name)
        except MetastoreError as error:
            return f"nobody knows whom ({error})"
        places = (None, partition.lower()) if partition else None
        others = [
            f"lock {lock.lock_id} of {lock.user}@{lock.host}"
            for lock in locks
            if lock.agent != self._agent and (places is None or lock.partition in places)
        ]
        return ", ".join(others[:5]) or "nobody any more"
