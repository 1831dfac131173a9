"""A driver's metastore locks.

Locks without a transaction show other clients that the driver is alive. On Hive 4 the driver also has locks in
transactions. From its first batch to its last publication a driver has a lock on its table, or on Hive 4 a
transaction; a waiting lock counts, too. The driver requests the next lock first, queued behind the one that it holds,
and only then releases the old one.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import Reason
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import JobError
from compaction_operator.metastore import Heartbeat, LockKind, LockLost, LockWish, MetastoreClient, MetastoreError

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 20.0
"""Well below hive.txn.timeout (300 s), after which the metastore removes a silent client's lock."""
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Patience:
    """How long to wait for a lock, how often to try, and how long to pause between two tries.

    NB: every later reader queues behind a waiting EXCLUSIVE lock, so the wait is short. All partitions of a driver
    share the tries after the first. So thousands of partitions with readers do not make it wait for days.
    """

    wait_seconds: float
    tries: int = 1
    pause_seconds: float = 0.0


SHARED_SECONDS = 30.0
EXCLUSIVE_PATIENCE = Patience(wait_seconds=10.0, tries=5, pause_seconds=20.0)


@dataclass
class _Lock:
    """A lock without a transaction, acquired or waiting. The heartbeat keeps it alive in both states."""

    lock_id: int
    acquired: bool
    heartbeat: Heartbeat


class Locks:
    """One driver's locks on one table, with its attempt's agent name; at most one lock without a transaction."""

    def __init__(self, client: MetastoreClient, table: TableRef, *, agent: str) -> None:
        self._client = client
        self._table = table
        self._agent = agent
        self._lock: _Lock | None = None
        self._kept = False
        self._retries: int | None = None

    @property
    def lock_id(self) -> int:
        """The id of the held lock; raises JobError (LockLost) when none is held."""
        return self._held().lock_id

    def guard(self) -> None:
        """Raise JobError (LockLost) unless the metastore confirms that the lock is held."""
        lock = self._held()
        with _unless_lost(lock.lock_id):
            lock.heartbeat.check()
            self._client.heartbeat(lock.lock_id)

    def share(self) -> None:
        """Hold SHARED_READ on the table; raises JobError (WaitingForLock) naming the conflicting locks.

        The lock is a new one, so that clients waiting for an EXCLUSIVE lock have their turn first.
        """
        if self._lock is None or self._lock.acquired:
            self._request(None, LockKind.SHARED_READ)
        if not self._acquire(SHARED_SECONDS):
            raise self._waiting(None, LockKind.SHARED_READ, SHARED_SECONDS)

    def stand_by(self) -> None:
        """Request SHARED_READ on the table if the driver has no lock.

        The lock may stay waiting: it suffices to show other clients that this driver is alive.
        """
        if self._lock is None:
            self._share_again()

    @contextmanager
    def exclusive(self, partition: str | None) -> Iterator[None]:
        """Hold EXCLUSIVE on the partition (or table), and request SHARED_READ on the table again afterwards.

        Raises JobError (WaitingForExclusiveLock) naming the conflicting locks; SHARED_READ is requested then, too.
        After `keep` the lock stays.
        """
        try:
            self._take_exclusive(partition)
            yield
        finally:
            if not self._kept:
                self._share_again()

    def keep(self) -> None:
        """Keep the present lock alive until this process ends: `release` and the end of `exclusive` leave it.

        The caller ends the attempt. Then the controller releases the lock, or the metastore times it out.
        """
        self._kept = True

    def in_transaction(self, partition: str | None, *, txn: int) -> int:
        """Take SHARED_READ on the partition (or table) in a transaction, whose end releases it; return the lock's id.

        A lock without a transaction is released first: else the new lock would wait for clients that wait for the old
        one. Raises JobError (WaitingForLock) naming the conflicting locks, and TransactionLost when the transaction is
        not open.
        """
        self.release()
        state = self._client.lock(self._wish(partition, LockKind.SHARED_READ, txn=txn))
        acquired = state.acquired
        try:
            acquired = acquired or self._poll(state.lock_id, SHARED_SECONDS)
        finally:
            if not acquired:
                self._give_back(state.lock_id)
        if not acquired:
            raise self._waiting(partition, LockKind.SHARED_READ, SHARED_SECONDS)
        return state.lock_id

    def release(self) -> None:
        """Release the lock without a transaction, whether acquired or waiting, unless it is to be kept."""
        if self._kept:
            return
        lock, self._lock = self._lock, None
        if lock:
            lock.heartbeat.stop()
            self._give_back(lock.lock_id)

    def _take_exclusive(self, partition: str | None) -> None:
        patience = EXCLUSIVE_PATIENCE
        if self._retries is None:
            self._retries = patience.tries - 1
        self._request(partition, LockKind.EXCLUSIVE)
        while not self._acquire(patience.wait_seconds):
            refused = self._waiting(partition, LockKind.EXCLUSIVE, patience.wait_seconds)
            log.info("%s", refused)
            if self._retries <= 0:
                raise refused
            self._retries -= 1
            self._request(None, LockKind.SHARED_READ)
            interruption.pause(patience.pause_seconds)
            self._request(partition, LockKind.EXCLUSIVE)

    def _share_again(self) -> None:
        """Request SHARED_READ on the table instead of the present lock, if any.

        NB: an error is only logged, because raising it would hide why the work under the lock failed, or fail finished
        work.
        """
        try:
            self._request(None, LockKind.SHARED_READ)
        except MetastoreError as error:
            log.warning("no shared lock on %s was requested: %s", self._table, error)
            self.release()

    def _request(self, partition: str | None, kind: LockKind) -> None:
        """Request a lock, and only then release the present one, so that other clients always see one."""
        state = self._client.lock(self._wish(partition, kind))
        heartbeat = Heartbeat(self._client, state.lock_id, interval=HEARTBEAT_SECONDS)
        requested = _Lock(state.lock_id, state.acquired, heartbeat)
        self.release()
        self._lock = requested

    def _acquire(self, seconds: float) -> bool:
        """Wait at most `seconds` seconds for the requested lock; return whether it was acquired."""
        lock = self._lock
        if lock and not lock.acquired:
            with _unless_lost(lock.lock_id):
                lock.acquired = self._poll(lock.lock_id, seconds)
        return lock is not None and lock.acquired

    def _held(self) -> _Lock:
        if self._lock is None or not self._lock.acquired:
            raise JobError(Reason.LOCK_LOST, f"no metastore lock on {self._table} is held")
        return self._lock

    def _poll(self, lock_id: int, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self._client.check_lock(lock_id):
            if time.monotonic() >= deadline:
                return False
            interruption.pause(POLL_SECONDS)
        return True

    def _give_back(self, lock_id: int) -> None:
        """Release a lock.

        NB: an error is only logged, because raising it would hide why the work under the lock failed, or fail finished
        work. The controller releases a lock that is left, and without heartbeats the metastore times it out.
        """
        try:
            self._client.unlock(lock_id)
        except MetastoreError as error:
            log.warning("lock %d was not released: %s", lock_id, error)

    def _wish(self, partition: str | None, kind: LockKind, *, txn: int = 0) -> LockWish:
        return LockWish(
            database=self._table.database,
            table=self._table.name,
            partition=partition,
            kind=kind,
            agent=self._agent,
            txn=txn,
        )

    def _waiting(self, partition: str | None, kind: LockKind, seconds: float) -> JobError:
        exclusive = kind is LockKind.EXCLUSIVE
        where = f"{self._table}/{partition}" if partition else str(self._table)
        return JobError(
            Reason.WAITING_FOR_EXCLUSIVE_LOCK if exclusive else Reason.WAITING_FOR_LOCK,
            f"no {kind} lock on {where} in {seconds:g} s: held by {self._holders(partition)}",
        )

    def _holders(self, partition: str | None) -> str:
        """Describe the conflicting locks. It only fills a message, so it never raises MetastoreError."""
        try:
            locks = self._client.show_locks(self._table.database, self._table.name)
        except MetastoreError as error:
            return f"unknown clients ({error})"
        places = (None, partition.lower()) if partition else None
        others = [
            f"lock {lock.lock_id} of {lock.user}@{lock.host}"
            for lock in locks
            if lock.agent != self._agent and (places is None or lock.partition in places)
        ]
        return ", ".join(others[:5]) or "locks released meanwhile"


@contextmanager
def _unless_lost(lock_id: int) -> Iterator[None]:
    try:
        yield
    except LockLost as error:
        raise JobError(Reason.LOCK_LOST, f"metastore lock {lock_id} is gone: {error}") from error
