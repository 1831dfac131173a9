"""The metastore may forget what was aborted only when nothing of it is left: else its rows come back for everybody."""

from pathlib import Path
from typing import Any

import pytest

from compaction_operator.acid.names import METADATA_ACID, METADATA_ACID_CONTENT
from compaction_operator.api.cleanup import PartitionEntry
from compaction_operator.cleanup.queue_entries import StillThereError, finish
from compaction_operator.metastore import Generation, MetastoreError, Partition, QueueState
from compaction_operator.storage import LocalStorage, StorageError
from tests.support.metastore import FakeMetastore
from tests.unit.cleanup.support import DELTAS, entry, journal, make_directory, metastore, queued

OUTPUT = "delta_0000001_0000003_v0000050"
NO_END = 2**63 - 1


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A compaction's output; nothing of its inputs is left."""
    make_directory(tmp_path, OUTPUT)
    return tmp_path


def _entry(place: Path, **changes: object) -> PartitionEntry:
    return entry(place, **{"outputs": (OUTPUT,), "txn_id": 50, "queue_id": 5, **changes})


def _source(place: Path, **changes: Any) -> FakeMetastore:
    source = metastore(place, **{"hive": Generation.HIVE4, "queue": (queued(5),), **changes})
    source.alter_table("d.t", table_id=8)
    return source


def cleaned(source: FakeMetastore) -> list[tuple[int, int | None]]:
    return [(job.queue_id, job.highest_write_id) for job in source.asked("mark_cleaned")]


def _finish(place: Path, source: FakeMetastore, **changes: object) -> list[tuple[int, int | None]]:
    spec = journal(place, _entry(place, **changes))
    spec = spec.model_copy(update={"table": spec.table.model_copy(update={"table_id": 8})})
    finish(lambda _: LocalStorage(), source, spec, spec.partitions)
    return cleaned(source)


def test_an_entry_is_ended_only_for_what_was_looked_at(tmp_path: Path) -> None:
    """A journal that names one partition with the ids of another: that one has rows of an aborted write."""
    places = {name: tmp_path / name for name in ("prt=1", "prt=2")}
    partitions = tuple(Partition(name, (name[-1],), str(place), 100) for name, place in places.items())
    places["prt=1"].mkdir()
    make_directory(places["prt=2"], "delta_0000002_0000002_0000")
    make_directory(places["prt=2"], "base_0000003_v0000050")
    queue = (queued(7, partition="prt=2"),)
    source = metastore(
        tmp_path, hive=Generation.HIVE4, write_ids=f"d.t:3:{2**63 - 1}::2", queue=queue, partitions=partitions
    )
    forged = entry(places["prt=1"], partition="prt=1", outputs=(), obsolete=(), txn_id=50, queue_id=7)
    finish(lambda _: LocalStorage(), source, journal(tmp_path, forged), [forged])
    assert cleaned(source) == []


def test_an_entry_is_marked_when_nothing_is_left(table: Path) -> None:
    assert _finish(table, _source(table)) == [(5, 3)]


def test_a_second_time_there_is_nothing_to_mark(table: Path) -> None:
    source = _source(table)
    _finish(table, source)
    assert _finish(table, source) == [(5, 3)]


@pytest.mark.parametrize(
    ("left", "write_ids"),
    [
        ("delta_0000002_0000002_0000", "d.t:3:9223372036854775807::2"),
        ("delete_delta_0000002_0000002_0000", "d.t:3:9223372036854775807::2"),
        ("delta_0000002_0000009", "d.t:9:5:5:2"),
        ("base_0000002", "d.t:3:9223372036854775807::2"),
        ("delta_0000003_0000003_0000", "d.t:2:9223372036854775807::2"),
    ],
    ids=["aborted", "aborted delete", "aborted within a batch", "aborted overwrite", "above a mark that went back"],
)
def test_what_was_aborted_and_is_left_is_remembered(table: Path, left: str, write_ids: str) -> None:
    """Forgotten, its write id would count as committed, and its rows would be everybody's."""
    place = make_directory(table, left, side_files=["_orc_acid_version"])
    source = _source(table, write_ids=write_ids)
    with pytest.raises(StillThereError, match=left):
        _finish(table, source, obsolete=())
    assert cleaned(source) == []
    LocalStorage().delete_tree(str(place))
    assert _finish(table, source, obsolete=()) == [(5, 3)]


def test_a_truncation_that_was_rolled_back_and_is_left_is_remembered(table: Path) -> None:
    """Forgotten, it would count as committed: an empty table for everybody."""
    base = table / "base_0000002"
    base.mkdir()
    (base / METADATA_ACID).write_bytes(METADATA_ACID_CONTENT.replace(b"compacted", b"truncated"))
    source = _source(table, write_ids="d.t:3:9223372036854775807::2")
    with pytest.raises(StillThereError, match=base.name):
        _finish(table, source, obsolete=())
    assert cleaned(source) == []


def test_what_an_aborted_compaction_wrote_and_is_left_is_remembered(table: Path) -> None:
    """Its transaction would count as committed."""
    make_directory(table, "delta_0000001_0000002_v0000044")
    with pytest.raises(StillThereError, match="v0000044"):
        _finish(table, _source(table, txns=f"100:{NO_END}::44"))
    assert _finish(table, _source(table)) == [(5, 3)]


def test_nothing_is_forgotten_of_a_place_in_which_there_is_nothing(table: Path) -> None:
    """Perhaps its volume is not there: what was aborted would come to life with it."""
    place = table / OUTPUT
    place.rename(table.parent / OUTPUT)
    with pytest.raises(StillThereError, match=r"is its volume there\?"):
        _finish(table, _source(table))
    (table.parent / OUTPUT).rename(place)
    assert _finish(table, _source(table)) == [(5, 3)]


def test_what_is_recorded_and_left_is_remembered(table: Path) -> None:
    make_directory(table, DELTAS[0])
    with pytest.raises(StillThereError, match=DELTAS[0]):
        _finish(table, _source(table))


@pytest.mark.parametrize("folder", ["u-1", "other-2"])
def test_what_was_aborted_and_lies_in_quarantine_is_remembered(table: Path, folder: str) -> None:
    """Moved back, it would be read: another cleanup's quarantine counts, too."""
    make_directory(table / "_compaction_quarantine" / folder, "delta_0000002_0000002_0000")
    with pytest.raises(StillThereError, match="quarantine"):
        _finish(table, _source(table, write_ids="d.t:3:9223372036854775807::2"), obsolete=())


def test_what_is_obsolete_by_a_later_compaction_does_not_matter(table: Path) -> None:
    """H6: nothing is forgotten about it, and its own cleanup waits for readers of its own."""
    make_directory(table, "base_0000006_v0000060")
    make_directory(table, "delta_0000005_0000005_0000")
    assert _finish(table, _source(table, write_ids="d.t:6:9223372036854775807::5")) == [(5, 3)]


@pytest.mark.parametrize(
    "one",
    [
        queued(5, pool="default"),
        queued(5, pool="compaction/u/2/p"),
        queued(5, pool="k8s", job="another-compaction"),
        queued(5, txn=51),
        queued(5, committed=None),
        queued(5, state=QueueState.WORKING),
        queued(5, state=QueueState.SUCCEEDED),
        queued(6),
    ],
    ids=[
        "Hive's",
        "another attempt's",
        "another compaction's",
        "another transaction",
        "not committed",
        "working",
        "cleaned",
        "gone",
    ],
)
def test_only_the_attempts_own_entry_is_marked(table: Path, one: object) -> None:
    """A journal may name any number; and Hive's own Cleaner may have been faster."""
    assert _finish(table, _source(table, queue=(one,))) == []


def test_the_entry_that_the_controller_took_for_the_compaction_is_marked(table: Path) -> None:
    """It names the compaction as its job, and no worker any more."""
    assert _finish(table, _source(table, queue=(queued(5, pool="k8s", job="c"),))) == [(5, 3)]


def test_no_more_is_forgotten_than_was_looked_at(table: Path) -> None:
    """The metastore forgets up to the write id of the call."""
    assert _finish(table, _source(table, queue=(queued(5, highest_write_id=9),))) == [(5, 3)]
    assert _finish(table, _source(table, queue=(queued(5, highest_write_id=2),))) == [(5, 2)]


def test_a_table_that_is_gone_or_another_has_nothing_to_mark(table: Path) -> None:
    dropped = _source(table)
    dropped.tables.clear()
    assert _finish(table, dropped) == []
    assert _finish(table, _source(table), create_time=99) == []


def test_hive_3_has_nothing_to_mark(table: Path) -> None:
    assert _finish(table, _source(table, hive=Generation.HIVE3, broken=frozenset({"compactions"}))) == []


@pytest.mark.parametrize("call", ["generation", "get_table", "valid_txns", "valid_write_ids", "compactions"])
def test_without_an_answer_nothing_is_marked(table: Path, call: str) -> None:
    source = _source(table, broken=frozenset({call}))
    with pytest.raises(MetastoreError, match=call):
        _finish(table, source)
    assert cleaned(source) == []


def test_a_directory_that_cannot_be_listed_marks_nothing(table: Path) -> None:
    (table / "delta_0000002_0000002_0000").symlink_to(table)
    source = _source(table)
    with pytest.raises(StorageError, match="delta_0000002"):
        _finish(table, source)
    assert cleaned(source) == []
