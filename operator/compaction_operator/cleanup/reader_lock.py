"""Reader lock: holds readers off a directory for the moment in which obsolete directories are hidden from them.

Hive does not list atomically: a reader lists a partition and then looks into the directories that it saw, including
obsolete ones (AcidUtils.getHdfsDirSnapshots; on 3.1 MetaDataFile.isRawFormat). It fails if one has gone in between. No
baseline prevents that, because such a reader came later. But a query that has held its lock for a while has listed
everything that it reads, so a stream of long queries does not block a deletion forever.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

from compaction_operator.api.cleanup import CompactionCleanupSpec, CompactionRef
from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import AGENT_PREFIX
from compaction_operator.cleanup.readers import concerns
from compaction_operator.errors import OperatorError
from compaction_operator.metastore import LockInfo, LockKind, LockWish, MetastoreCalls

POLL_SECONDS = 0.1
NAMED = 5


class Sightings:
    """Times since which this process has seen each lock held.

    NB: it uses no other clock; the metastore's may be wrong.
    """

    def __init__(self) -> None:
        self._since: dict[TableRef, dict[int, float]] = {}

    def note(self, table: TableRef, locks: Sequence[LockInfo]) -> None:
        """Record a look at a table's locks: waiting locks do not count yet, and released ones are forgotten."""
        known, now = self._since.get(table, {}), time.monotonic()
        held = (lock.lock_id for lock in locks if lock.acquired_at is not None)
        self._since[table] = {lock_id: known.get(lock_id, now) for lock_id in held}

    def seconds(self, table: TableRef, lock: LockInfo) -> float:
        """Return the minimum seconds for which a lock has been held."""
        now = time.monotonic()
        return now - self._since.get(table, {}).get(lock.lock_id, now)


@dataclass(frozen=True, slots=True)
class LockPolicy:
    """How readers are treated; times in seconds.

    `queue` is how long new readers may have to wait behind the lock. A query that was `seen` to hold a lock for
    `planning` has listed what it reads. `owner` identifies the journal that takes the locks: an attempt may have
    several journals, which are processed at the same time. With `shares` no reader ever waits, nor is refused where
    queries do not wait (hive.txn.xlock.iow, hive.txn.xlock.write): the lock is SHARED_READ, which only keeps others
    from dropping the table.
    """

    owner: str = ""
    queue: float = 3.0
    planning: float = 30.0
    shares: bool = False
    seen: Sightings | None = field(default=None, compare=False)

    def insisting(self) -> "LockPolicy":
        """Return a policy that lets new readers queue for as long as earlier ones may still be listing."""
        return replace(self, queue=self.planning)


DEFAULT_LOCK_POLICY = LockPolicy()


HoldOff = Callable[[str], AbstractContextManager[None]]
"""Holds off readers of one partition ('' for the table); raises ReadersBusyError if that is not possible now."""


class ReadersBusyError(OperatorError):
    """Readers are active all the time: to be retried."""


class Holding:
    """The EXCLUSIVE locks of one cleanup, without a transaction; each is held for some renames or (S3) some seconds."""

    def __init__(self, metastore: MetastoreCalls, spec: CompactionCleanupSpec, policy: LockPolicy) -> None:
        self._metastore = metastore
        self._policy = policy
        self._seen = policy.seen or Sightings()
        self._table = spec.table.ref()
        self._agent = cleanup_agent(spec.compaction, policy.owner)

    def give_back_left(self) -> None:
        """Release locks left by an earlier run of this process: no reader can proceed under them.

        Raises MetastoreError.
        """
        for lock in self._metastore.show_locks(self._table.database, self._table.name):
            if lock.agent == self._agent:
                self._metastore.unlock(lock.lock_id)

    @contextmanager
    def hold_off(self, partition: str) -> Iterator[None]:
        """Let no reader start on a partition ('' for the table) in this context, unless the policy shares it.

        Waits a moment for readers that may be listing. Raises ReadersBusyError, naming them, and MetastoreError. NB:
        also that of the unlock: no reader can start until the next pass releases the leftover lock.
        """
        wish = LockWish(
            database=self._table.database,
            table=self._table.name,
            partition=partition or None,
            kind=LockKind.SHARED_READ if self._policy.shares else LockKind.EXCLUSIVE,
            agent=self._agent,
        )
        state = self._metastore.lock(wish)
        try:
            if self._policy.shares or not state.acquired:
                self._wait(state.lock_id, partition)
            yield
        finally:
            self._metastore.unlock(state.lock_id)

    def _wait(self, lock_id: int, partition: str) -> None:
        deadline = time.monotonic() + self._policy.queue
        while not self._metastore.check_lock(lock_id) or self._policy.shares:
            ahead = self._ahead(lock_id, partition)
            if not ahead:
                return
            if time.monotonic() > deadline:
                raise ReadersBusyError(f"no moment without readers found yet: {_named(ahead)}")
            time.sleep(POLL_SECONDS)

    def _ahead(self, lock_id: int, partition: str) -> list[LockInfo]:
        """Return the locks of readers that may still be listing; later ones wait for the lock, unless it is shared.

        NB: drivers of this project do not count: obsolete directories are not their input, and may vanish under them.
        Otherwise a long compaction would block the cleanup of the previous one.
        """
        locks = self._metastore.show_locks(self._table.database, self._table.name)
        self._seen.note(self._table, locks)
        return [
            lock
            for lock in locks
            if (lock.lock_id < lock_id or self._policy.shares)
            and concerns(lock, [partition])
            and not (lock.agent or "").startswith(AGENT_PREFIX)
            # It has listed if it was held long enough; a waiting query has not started.
            and self._seen.seconds(self._table, lock) <= self._policy.planning
        ]


def cleanup_agent(compaction: CompactionRef, owner: str) -> str:
    """Return the agent of a cleanup's locks. It differs from those of the attempt and of its other journals."""
    return f"{AGENT_PREFIX}cleanup/{compaction.uid}/{compaction.attempt}/{owner}"


def _named(locks: Sequence[LockInfo]) -> str:
    names = ", ".join(f"lock {lock.lock_id} of {lock.user}@{lock.host}" for lock in locks[:NAMED])
    return names if len(locks) <= NAMED else f"{names} and {len(locks) - NAMED} more"
