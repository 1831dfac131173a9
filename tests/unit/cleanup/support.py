"""A table on disk, a metastore that knows it, and a storage that dies on the way."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandbox.harness.places import Place

from compaction_operator.acid.names import METADATA_ACID, METADATA_ACID_CONTENT
from compaction_operator.acid.write_ids import ValidTxnList
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
    MetastoreError,
    OpenTransactions,
    Partition,
    QueueEntry,
    QueueState,
    Table,
    TxnInfo,
)
from compaction_operator.storage import LocalStorage, join
from tests.support.metastore import FakeMetastore, serving

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


def entry(place: Place, **changes: object) -> PartitionEntry:
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


def journal(place: Place, *entries: PartitionEntry) -> CompactionCleanupSpec:
    return CompactionCleanupSpec(
        warehouse="w",
        table=TableIdentity(database="d", name="t", create_time=100, location=str(place)),
        compaction=CompactionRef(name="c", uid="u", attempt=1, job="j", pod_uid="p"),
        partitions=entries or (entry(place),),
    )


def metastore(place: Place, **state: Any) -> FakeMetastore:
    """A metastore in which the journal's table is as it was recorded. For its state see `metastore_with`."""
    return metastore_with(Table("d", "t", str(place), 100, input_format="", serde="", columns=()), **state)


def metastore_with(
    table: Table,
    *,
    hive: Generation = Generation.HIVE3,
    partitions: Sequence[Partition] = (),
    write_ids: str = "",
    txns: str = f"100:{2**63 - 1}::",
    transactions: OpenTransactions | None = None,
    locks: tuple[LockInfo, ...] = (),
    queue: tuple[QueueEntry, ...] = (),
    broken: Collection[str] = (),
) -> FakeMetastore:
    """A metastore with one table, which has three committed write ids unless others are given.

    Its transactions are those of `transactions`, or else of `txns`. The `broken` calls fail.
    """
    name, source = f"{table.database}.{table.name}", serving(table, hive=hive)
    source.locks, source.queue = locks, queue
    source.partitions[name] = {partition.name: partition for partition in partitions}
    source.set_write_ids(write_ids or f"{name}:3:{2**63 - 1}::")
    if transactions:
        source.set_transactions(transactions.high_water_mark, *transactions.open)
    else:
        snapshot = ValidTxnList.parse(txns)
        source.set_transactions(snapshot.high_watermark, *snapshot.open, aborted=snapshot.aborted)
    for call in broken:
        source.fail(MetastoreError(f"{call} failed"), call)
    return source


def failed(source: FakeMetastore) -> list[int]:
    """Return the queue entries that a client ended as failed."""
    return [job.queue_id for job in source.asked("mark_failed")]


class DiedError(BaseException):
    """The process was killed: nothing catches this."""


class DyingStorage(LocalStorage):
    """Dies at its n-th change, either before it or with it done; a deletion is then done by half."""

    def __init__(self, *, at: int, after: bool) -> None:
        super().__init__()
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
