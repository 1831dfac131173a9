"""A Hive 4 metastore in memory, as far as a driver asks it; any of its calls can fail."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, cast

from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.metastore import (
    Generation,
    LockState,
    LockWish,
    MetastoreClient,
    QueueEntry,
    QueueJob,
    QueueState,
    TransactionLost,
)
from tests.unit.driver.support import SameTable

NOTHING_OPEN = f"{2**63 - 1}::"


@dataclass
class Hive4Metastore(SameTable):
    """Write ids up to `highest` are committed. `failures` are raised by the calls of that name, and nothing is done.

    `alive` has, for each call, whether the driver held a lock or a transaction then.
    """

    failures: dict[str, Exception] = field(default_factory=dict)
    states: dict[int, str] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    txns: dict[int, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    handed_out: Callable[[QueueJob], QueueJob | None] = lambda job: job
    accepts: bool = True
    highest: int = 3
    locks: list[int] = field(default_factory=list)
    alive: list[tuple[str, bool]] = field(default_factory=list)
    _jobs: list[QueueJob] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def client(self) -> MetastoreClient:
        """Return itself as what it stands for."""
        return cast(MetastoreClient, self)

    def generation(self) -> Generation:
        return Generation.HIVE4

    def compactions(self, database: str, table: str) -> tuple[QueueEntry, ...]:
        self._answer("compactions")
        return ()

    def valid_txns(self, *, without: Collection[int] = ()) -> ValidTxnList:
        self._answer("valid_txns")
        assert set(without) == {txn for txn, state in self.txns.items() if state == "open"}
        return ValidTxnList.parse(f"{100 + len(self.txns)}:{NOTHING_OPEN}")

    def valid_write_ids(self, database: str, name: str, *, valid_txns: ValidTxnList) -> ValidWriteIdList:
        self._answer("valid_write_ids")
        return ValidWriteIdList.parse(f"{database}.{name}:{self.highest}:{NOTHING_OPEN}")

    def enqueue_compaction(
        self, *, database: str, table: str, partition: str | None, type: CompactionType, pool: str
    ) -> QueueEntry | None:
        self._answer("enqueue_compaction")
        if not self.accepts:
            return None
        number = len(self._jobs) + 1
        self.states[number] = "initiated"
        names = {"database": database.lower(), "table": table.lower(), "partition": partition}
        self._jobs.append(QueueJob(queue_id=number, type=type, **cast(Any, names)))
        return QueueEntry(queue_id=number, type=type, state=QueueState.INITIATED, pool=pool, **cast(Any, names))

    def take_compaction(self, *, pool: str, worker: str) -> QueueJob | None:
        self._answer("take_compaction")
        job = self.handed_out(self._jobs[-1])
        if job:
            self.states[job.queue_id] = "working"
        return job

    def open_compaction_txn(self, *, agent: str) -> int:
        self._answer("open_compaction_txn")
        txn = 101 + len(self.txns)
        self.txns[txn] = "open"
        return txn

    def lock(self, wish: LockWish) -> LockState:
        self._answer("lock")
        if wish.txn:
            return LockState(wish.txn, acquired=True)
        self.locks.append(1000 + len(self.alive))
        return LockState(self.locks[-1], acquired=True)

    def heartbeat(self, lock_id: int) -> None:
        self._answer("heartbeat")

    def unlock(self, lock_id: int) -> None:
        self._answer("unlock")
        self.locks.remove(lock_id)

    def heartbeat_txn(self, txn: int) -> None:
        self._answer("heartbeat_txn")
        self._require_open(txn)

    def update_compaction(self, job: QueueJob, txn: int) -> None:
        self._answer("update_compaction")
        assert job.highest_write_id == 3

    def mark_compacted(self, job: QueueJob) -> None:
        self._end("mark_compacted", job, "ready for cleaning")

    def mark_refused(self, job: QueueJob, message: str) -> None:
        self._end("mark_refused", job, "refused", message)

    def mark_failed(self, job: QueueJob, message: str) -> None:
        self._end("mark_failed", job, "failed", message)

    def commit_txn(self, txn: int) -> None:
        self._answer("commit_txn")
        self._require_open(txn)
        self.txns[txn] = "committed"

    def abort_txn(self, txn: int) -> bool:
        self._answer("abort_txn")
        if self.txns[txn] == "open":
            self.txns[txn] = "aborted"
        return self.txns[txn] == "aborted"

    def _end(self, call: str, job: QueueJob, state: str, message: str = "") -> None:
        self._answer(call)
        self.states[job.queue_id] = state
        self.reasons[job.queue_id] = message

    def _require_open(self, txn: int) -> None:
        if self.txns[txn] != "open":
            raise TransactionLost(f"transaction {txn} is {self.txns[txn]}")

    def _answer(self, call: str) -> None:
        self.asked.append(call)
        self.alive.append((call, bool(self.locks) or "open" in self.txns.values()))
        if error := self.failures.get(call):
            raise error
