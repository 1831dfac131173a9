"""A table on disk, a metastore that says what a test wants, and a storage that dies on the way."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from compaction_operator.acid.names import METADATA_ACID, METADATA_ACID_CONTENT
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.cleanup import (
    CompactionCleanupSpec,
    CompactionRef,
    ObsoleteEntry,
    PartitionEntry,
    TableIdentity,
)
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import agent_info, queue_pool
from compaction_operator.metastore import (
    Generation,
    LockInfo,
    LockState,
    LockWish,
    MetastoreError,
    OpenTransactions,
    Partition,
    QueueEntry,
    QueueJob,
    QueueState,
    Table,
    TableNotFound,
    TxnInfo,
)
from compaction_operator.storage import LocalStorage, join

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

DELTAS = ("delta_0000001_0000001_0000", "delta_0000002_0000002_0000", "delta_0000003_0000003_0000")
MINOR = "delta_0000001_0000003"
MAJOR = "base_0000003"


def make_directory(place: Path, name: str, *, side_files: Sequence[str] = ()) -> Path:
    """Make an ACID directory with one bucket; a compacted base gets its side file."""
    directory = place / name
    directory.mkdir(parents=True)
    (directory / "bucket_00000").write_bytes(b"rows")
    extra = [METADATA_ACID] if name.startswith("base_") and not side_files else list(side_files)
    for side_file in extra:
        (directory / side_file).write_bytes(METADATA_ACID_CONTENT if side_file == METADATA_ACID else b"2")
    return directory


def names(place: Path) -> set[str]:
    return {child.name for child in place.iterdir()}


def contents(place: Path) -> dict[str, bytes]:
    """Return all files below a place: the final state that two ways to it must share."""
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def lock(lock_id: int, **changes: object) -> LockInfo:
    plain = LockInfo(
        lock_id=lock_id,
        database="d",
        table="t",
        state="ACQUIRED",
        type="SHARED_READ",
        user="ann",
        host="desk",
        acquired_at=NOON,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def open_txns(high_water_mark: int, *open_ones: int) -> OpenTransactions:
    return OpenTransactions(
        high_water_mark, tuple(TxnInfo(txn=txn, state="OPEN", user="ann", host="desk") for txn in open_ones)
    )


OWN_AGENT = agent_info(uid="u", attempt=1, pod_uid="p")
OWN_POOL = queue_pool(uid="u", attempt=1, pod_uid="p")


def queued(queue_id: int, **changes: object) -> QueueEntry:
    """An entry of the journal's attempt in the metastore's queue: committed and ready for cleaning."""
    plain = QueueEntry(
        queue_id=queue_id,
        database="d",
        table="t",
        type=CompactionType.MINOR,
        state=QueueState.READY_FOR_CLEANING,
        pool=OWN_POOL,
        txn=50,
        highest_write_id=3,
        committed=NOON,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def entry(place: Path, **changes: object) -> PartitionEntry:
    """An entry for a minor compaction of the three deltas of an unpartitioned table."""
    plain = PartitionEntry(
        partition="",
        location=str(place),
        create_time=100,
        outputs=(MINOR,),
        highest_write_id=3,
        obsolete=obsolete(*DELTAS),
    )
    return plain.model_copy(update=changes)


def obsolete(*listed: str) -> tuple[ObsoleteEntry, ...]:
    return tuple(ObsoleteEntry(name=name, reason="recorded") for name in listed)


def journal(place: Path, *entries: PartitionEntry) -> CompactionCleanupSpec:
    return CompactionCleanupSpec(
        warehouse="w",
        table=TableIdentity(database="d", name="t", create_time=100, location=str(place)),
        compaction=CompactionRef(name="c", uid="u", attempt=1, job="j", pod_uid="p"),
        partitions=entries or (entry(place),),
    )


@dataclass
class FakeMetastore:
    """Answers with its fields; `table` None is a table that was dropped, `broken` an error for every call.

    What ends a lock, a transaction or a queue entry is noted, and ends it.
    """

    table: Table | None
    partitions: tuple[Partition, ...] = ()
    write_ids: str = "d.t:3:9223372036854775807::"
    txns: str = "100:9223372036854775807::"
    locks: tuple[LockInfo, ...] = ()
    transactions: OpenTransactions = field(default_factory=lambda: open_txns(0))
    hive: Generation = Generation.HIVE3
    queue: tuple[QueueEntry, ...] = ()
    broken: frozenset[str] = frozenset()
    wishes: list[LockWish] = field(default_factory=list)
    unlocked: list[int] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    cleaned: list[tuple[int, int | None]] = field(default_factory=list)

    def generation(self) -> Generation:
        self._answer("generation")
        return self.hive

    def get_table(self, database: str, name: str, /) -> Table:
        self._answer("get_table")
        if self.table is None:
            raise TableNotFound(f"{database}.{name}")
        return self.table

    def get_partitions(self, database: str, name: str, names: Sequence[str], /) -> Iterable[Partition]:
        self._answer("get_partitions")
        return [partition for partition in self.partitions if partition.name in names]

    def valid_write_ids(
        self, database: str, name: str, /, *, valid_txns: ValidTxnList | None = None
    ) -> ValidWriteIdList:
        self._answer("valid_write_ids")
        return ValidWriteIdList.parse(self.write_ids)

    def valid_txns(self) -> ValidTxnList:
        self._answer("valid_txns")
        return ValidTxnList.parse(self.txns)

    def show_locks(self, database: str, table: str, /) -> Sequence[LockInfo]:
        self._answer("show_locks")
        return self.locks

    def all_locks(self) -> Sequence[LockInfo]:
        self._answer("all_locks")
        return self.locks

    def lock(self, wish: LockWish, /) -> LockState:
        self._answer("lock")
        self.wishes.append(wish)
        taken = lock(1000 + len(self.wishes), partition=wish.partition, type=str(wish.kind), agent=wish.agent)
        self.locks = (*self.locks, taken)
        return LockState(taken.lock_id, acquired=self.check_lock(taken.lock_id))

    def check_lock(self, lock_id: int, /) -> bool:
        return all(one.lock_id >= lock_id for one in self.locks)

    def unlock(self, lock_id: int, /) -> None:
        self._answer("unlock")
        self.unlocked.append(lock_id)
        self.locks = tuple(lock for lock in self.locks if lock.lock_id != lock_id)

    def open_transactions(self) -> OpenTransactions:
        self._answer("open_transactions")
        return self.transactions

    def abort_txn(self, txn: int, /) -> bool:
        self._answer("abort_txn")
        self.aborted.append(txn)
        left = tuple(one for one in self.transactions.open if one.txn != txn)
        self.transactions = OpenTransactions(self.transactions.high_water_mark, left)
        self.locks = tuple(lock for lock in self.locks if lock.txn != txn)
        txns = self.valid_txns()
        self.txns = str(replace(txns, open=txns.open - {txn}, aborted=txns.aborted | {txn}, min_open=None))
        return True

    def compactions(self, database: str | None = None, table: str | None = None, /) -> Sequence[QueueEntry]:
        self._answer("compactions")
        wanted = (database or "d", table or "t")
        return [one for one in self.queue if database is None or (one.database, one.table) == wanted]

    def mark_failed(self, job: QueueJob, message: str, /) -> None:
        self._answer("mark_failed")
        self.failed.append(job.queue_id)
        self._end(job, QueueState.FAILED)

    def mark_cleaned(self, job: QueueJob, /) -> None:
        self._answer("mark_cleaned")
        self.cleaned.append((job.queue_id, job.highest_write_id))
        self._end(job, QueueState.SUCCEEDED)

    def _end(self, job: QueueJob, state: QueueState) -> None:
        self.queue = tuple(replace(one, state=state) if one.queue_id == job.queue_id else one for one in self.queue)

    def _answer(self, call: str) -> None:
        if call in self.broken:
            raise MetastoreError(f"{call} failed")


def metastore(place: Path, **changes: object) -> FakeMetastore:
    """A metastore in which the journal's table is as it was recorded."""
    table = Table(database="d", name="t", location=str(place), create_time=100, input_format="", serde="", columns=())
    return replace(FakeMetastore(table), **changes)  # type: ignore[arg-type]


class DiedError(BaseException):
    """The process was killed: nothing catches this."""


class DyingStorage(LocalStorage):
    """Dies at its n-th change, either before it or with it done; a deletion is then done by half."""

    def __init__(self, *, at: int, after: bool) -> None:
        self._left = at
        self._after = after

    def write(self, path: str, data: bytes) -> None:
        self._before()
        super().write(path, data)
        self._then()

    def rename(self, source: str, target: str) -> None:
        self._before()
        super().rename(source, target)
        self._then()

    def delete_tree(self, path: str) -> int:
        self._before()
        if self._left == 0 and Path(path).is_dir():
            for child in sorted(Path(path).iterdir())[:1]:
                super().delete_tree(join(path, child.name))
            raise DiedError
        freed = super().delete_tree(path)
        self._then()
        return freed

    def _before(self) -> None:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise DiedError

    def _then(self) -> None:
        if self._left == 0:
            raise DiedError
