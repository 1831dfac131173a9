"""A short storm on both generations, and what the storm's readers suffer where a protection is missing."""

from pathlib import Path

import pytest
from sandbox.harness.places import StorageKind
from sandbox.metastore.server import Hive
from sandbox.plane import Plane

from compaction_operator.api.compaction import CleanupPhase, CompactionType
from tests.soak.storm.compactor import Compactor
from tests.soak.storm.readers import read_locks
from tests.soak.storm.reading import PlannedRead, Snapshot, StormError
from tests.soak.storm.scene import Scene
from tests.soak.storm.season import Figures, side_by_side, staged
from tests.soak.storm.session import Transaction
from tests.soak.storm.tables import DATABASE, StormTable
from tests.soak.storm.writers import Verb, Writer

SECONDS = 30.0


@pytest.mark.parametrize(
    "kinds", [{"3.1.3": "file", "4.0.1": "file"}, {"3.1.3": "hdfs", "4.0.1": "s3"}], ids=["on disk", "on HDFS and S3"]
)
def test_no_reader_is_hurt_while_tables_change_are_compacted_and_cleaned_up(
    tmp_path: Path, kinds: dict[Hive, StorageKind]
) -> None:
    results = side_by_side(tmp_path, kinds, seed=1, seconds=SECONDS, pace=0.5)
    for result in results.values():
        if isinstance(result, BaseException):
            raise result
        assert isinstance(result, Figures)
        assert min(result.reads, result.writes, result.compactions, result.cleanups, result.directories) > 0


def test_with_locks_alone_a_reader_without_one_is_hurt(tmp_path: Path) -> None:
    """H1, and the risk of `readers: Locks`: the snapshot is older than the compaction, and nothing is locked.

    By default the cleanup waits for its transaction, and it reads right to its end.
    """
    with staged(tmp_path, hive="3.1.3", seed=1) as (plane, scene):
        table = scene.tables[0]
        careful, rash = (
            Compactor(scene, plane, table, cleanup={"readers": readers})
            for readers in ("LocksAndTransactions", "Locks")
        )
        _insert(scene, table)
        with scene.sessions.transaction("reader") as reader:
            _insert(scene, table)
            _require_waiting(plane, careful.compact(CompactionType.MAJOR))
            _read(scene, table, reader)
            _insert(scene, table)
            rash.compact(CompactionType.MAJOR)
            rash.finish()
            with pytest.raises(StormError, match="Not enough history"):
                _read(scene, table, reader)
        careful.finish()


def test_a_reader_that_locks_one_table_after_the_other_is_hurt_where_locks_are_to_be_taken_at_once(
    tmp_path: Path,
) -> None:
    """What `readers: LocksAndOwnTransactions` takes for granted: who has locked another table never reads this one.

    One that holds no lock yet is waited for: it may still ask for any, in one request.
    """
    with staged(tmp_path, hive="3.1.3", seed=1) as (plane, scene):
        table, other = scene.tables[:2]
        compactor = Compactor(scene, plane, table, cleanup={"readers": "LocksAndOwnTransactions"})
        _insert(scene, table)
        with scene.sessions.transaction("reader") as reader:
            _insert(scene, table)
            _require_waiting(plane, compactor.compact(CompactionType.MAJOR))
            _read(scene, table, reader)
            reader.lock(read_locks(other, other.places[:1]))
            compactor.finish()
            _insert(scene, table)
            compactor.compact(CompactionType.MAJOR)
            compactor.finish()
            with pytest.raises(StormError, match="Not enough history"):
                _read(scene, table, reader)


def _insert(scene: Scene, table: StormTable) -> None:
    """Insert and commit; a writer aborts now and then."""
    before = scene.tally["writes"] - scene.tally["aborted"]
    writer = Writer(scene, 0)
    while scene.tally["writes"] - scene.tally["aborted"] == before:
        writer.write(Verb.INSERT, table, table.places)


def _require_waiting(plane: Plane, compaction: str) -> None:
    (cleanup,) = plane.cleanups(compaction)
    plane.wait(
        lambda: plane.cleanups(compaction)[0].status.phase is CleanupPhase.WAITING,
        timeout=60,
        what=f"ccl/{cleanup.meta.name} to wait for readers",
    )


def _read(scene: Scene, table: StormTable, reader: Transaction) -> None:
    snapshot = Snapshot(reader.write_ids(DATABASE, table.name), reader.txns)
    for place in table.places:
        PlannedRead(scene.hives[0], table, place, snapshot, who="reader", vectorized=True).rows()
