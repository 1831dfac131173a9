"""Ends what a dead attempt left in the metastore: its locks, and on Hive 4 its transactions and queue entries.

Whose each of them is, the metastore says: a lock and a transaction by its agent, a queue entry by its pool, which the
attempt's drivers gave them. Ids in a journal prove nothing, as whoever can write a cleanup could name a stranger's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from compaction_operator.acid.write_ids import ValidTxnList
from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.request import agent_info, queue_pool
from compaction_operator.metastore.generation import Generation
from compaction_operator.metastore.locks import LockInfo, OpenTransactions
from compaction_operator.metastore.queue import QueueEntry, QueueJob


class AttemptSource(Protocol):
    """What is needed of the metastore's client."""

    def generation(self) -> Generation:
        """Return which protocol the metastore speaks."""
        ...

    def show_locks(self, database: str, table: str, /) -> Sequence[LockInfo]:
        """Return the locks on the table, its partitions and its database."""
        ...

    def unlock(self, lock_id: int, /) -> None:
        """Give a lock back; one that is gone is no error."""
        ...

    def open_transactions(self) -> OpenTransactions:
        """Return the open transactions."""
        ...

    def valid_txns(self) -> ValidTxnList:
        """Return which transactions are open or aborted."""
        ...

    def abort_txn(self, txn: int, /) -> bool:
        """Abort a transaction; one that has ended is no error."""
        ...

    def compactions(self, database: str | None = None, table: str | None = None, /) -> Sequence[QueueEntry]:
        """Return the entries of the compaction queue, ended ones too: a table's, or all."""
        ...

    def mark_failed(self, job: QueueJob, message: str, /) -> None:
        """End an entry as failed; one that has ended is no error."""
        ...


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of one compaction: all of its drivers, whichever pods they ran in."""

    uid: str
    number: int

    def holds(self, lock_or_txn_agent: str | None) -> bool:
        """Whether a lock or transaction of that agent is one of this attempt's."""
        own = agent_info(uid=self.uid, attempt=self.number, pod_uid="")
        return (lock_or_txn_agent or "").startswith(own)

    def queued(self, entry: QueueEntry) -> bool:
        """Whether an entry of the metastore's compaction queue is one of this attempt's."""
        return (entry.pool or "").startswith(queue_pool(uid=self.uid, attempt=self.number, pod_uid=""))


@dataclass(frozen=True, slots=True)
class Ended:
    """What an attempt had: the ids of its locks, its queue entries, and the transactions after its own were ended."""

    locks: frozenset[int]
    queue: tuple[QueueEntry, ...]
    txns: ValidTxnList


def end_attempt(metastore: AttemptSource, attempt: Attempt, table: TableRef) -> Ended:
    """End all that the attempt still holds for a table.

    What it committed stays committed; after this it can commit nothing more. Can be repeated from any point; raises
    the client's errors.
    """
    locks = [lock for lock in metastore.show_locks(table.database, table.name) if attempt.holds(lock.agent)]
    queue: tuple[QueueEntry, ...] = ()
    if metastore.generation() is Generation.HIVE4:
        _abort_transactions(metastore, attempt, table, locks)
        queue = _own_entries(metastore, attempt, table)
        end_entries(metastore, queue)
    for lock in locks:
        if not lock.txn:  # those of a transaction went with it
            metastore.unlock(lock.lock_id)
    return Ended(frozenset(lock.lock_id for lock in locks), queue, metastore.valid_txns())


def _abort_transactions(metastore: AttemptSource, attempt: Attempt, table: TableRef, locks: Iterable[LockInfo]) -> None:
    known = {lock.txn for lock in locks} | {entry.txn for entry in _own_entries(metastore, attempt, table)}
    opened = metastore.open_transactions().open
    by_agent = {txn.txn for txn in opened if attempt.holds(txn.agent)} - known
    for txn in sorted((known & {txn.txn for txn in opened}) | _of_no_other_table(metastore, table, by_agent)):
        metastore.abort_txn(txn)


def _of_no_other_table(metastore: AttemptSource, table: TableRef, txns: set[int]) -> set[int]:
    """Return those of the transactions in which no other table is compacted; only a forged journal names such ones."""
    if not txns:
        return set()
    return txns - {entry.txn for entry in metastore.compactions() if not entry.is_of(table)}


def end_entries(metastore: AttemptSource, entries: Iterable[QueueEntry]) -> None:
    """End the entries that nothing was published for; their transactions have ended before they were asked for.

    NB: a driver marks its entry "ready for cleaning" right before it commits, and may have come just that far: Hive's
    Cleaner must not be left with it. And `mark_failed` would end an entry that was committed, too.
    """
    for entry in entries:
        if not entry.is_ended and entry.committed is None:
            metastore.mark_failed(queue_job(entry), "its driver ended before it was published")


def _own_entries(metastore: AttemptSource, attempt: Attempt, table: TableRef) -> tuple[QueueEntry, ...]:
    entries = metastore.compactions(table.database, table.name)
    return tuple(entry for entry in entries if attempt.queued(entry))


def queue_job(entry: QueueEntry) -> QueueJob:
    """Return an entry of the queue as the compactor calls want it back."""
    return QueueJob(
        queue_id=entry.queue_id,
        database=entry.database,
        table=entry.table,
        partition=entry.partition,
        # Only such entries are ever put into an attempt's pool; the metastore goes by the id.
        type=entry.type or CompactionType.MINOR,
        worker=entry.worker,
        highest_write_id=entry.highest_write_id,
    )
