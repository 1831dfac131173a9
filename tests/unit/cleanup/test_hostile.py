"""Whatever a CompactionCleanup says, and whatever lies at a table's place: nothing outside is ever touched (H21).

Each test makes real files outside and compares them byte for byte after all that the controller does.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.cleanup import CompactionCleanupSpec, PublishedState
from compaction_operator.cleanup.deletion import JournalPass, PartitionDeletion, delete_obsolete
from compaction_operator.cleanup.quarantine import purge_quarantined, quarantine_obsolete
from compaction_operator.cleanup.queue_entries import finish
from compaction_operator.cleanup.settle import settle
from compaction_operator.metastore import Generation, Partition
from compaction_operator.storage import LocalStorage, StorageError
from tests.support.metastore import FakeMetastore
from tests.unit.cleanup.support import (
    DELTAS,
    MINOR,
    NOON,
    contents,
    entry,
    journal,
    make_directory,
    metastore,
    names,
    obsolete,
    queued,
)

DIRECTORIES = (*DELTAS, MINOR, "_compaction_u-1-p", "_compaction_trash_" + DELTAS[0])
"""What a cleanup would fence, delete, or go on deleting, where it finds it."""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three inserts and the published minor compaction of them."""
    place = tmp_path / "warehouse" / "t"
    for name in (*DELTAS, MINOR):
        make_directory(place, name)
    return place


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """Another table, in another warehouse, that looks just like the first one; it must stay as it is."""
    place = tmp_path / "outside" / "t"
    for name in DIRECTORIES:
        make_directory(place, name)
    (place / "000000_0").write_bytes(b"original")
    quarantine = place / "_compaction_quarantine" / "u-1"
    make_directory(quarantine, DELTAS[0])
    before = contents(tmp_path / "outside")
    yield place
    assert contents(tmp_path / "outside") == before


def everything(spec: CompactionCleanupSpec, source: FakeMetastore) -> list[PartitionDeletion]:
    """Do all that the controller ever does for a cleanup, as if each step had succeeded."""
    storage = LocalStorage()
    states = dict.fromkeys((one.partition for one in spec.partitions), PublishedState.PUBLISHED)
    known = {one.partition: [name.name for name in one.obsolete] for one in spec.partitions}
    results: list[PartitionDeletion] = []
    for step in (
        lambda: settle(lambda _: storage, source, spec, clock=lambda: NOON),
        lambda: results.extend(delete_obsolete(JournalPass(lambda _: storage, source, spec, states))),
        lambda: results.extend(quarantine_obsolete(JournalPass(lambda _: storage, source, spec, states), known={})),
        lambda: results.extend(quarantine_obsolete(JournalPass(lambda _: storage, source, spec, states), known=known)),
        lambda: results.extend(purge_quarantined(JournalPass(lambda _: storage, source, spec, states))),
        lambda: finish(lambda _: storage, source, spec, spec.partitions),
    ):
        try:
            step()
        except (StorageError, ValueError):
            continue
    return results


def hive4(place: Path, **changes: Any) -> FakeMetastore:
    return metastore(place, **{"hive": Generation.HIVE4, "queue": (queued(5),), **changes})


@pytest.mark.parametrize("spelling", ["{0}", "file:{0}", "file://{0}", "{1}/../../outside/t", "{1}/./../../outside/t/"])
def test_an_entry_cannot_name_another_place(table: Path, outside: Path, spelling: str) -> None:
    """Neither plainly nor by way of `..`, nor for a table that is the same in everything else."""
    place = spelling.format(outside, table)
    everything(journal(table, entry(table, location=place)), metastore(table))
    assert names(table) == {MINOR, *DELTAS}


def test_a_partition_cannot_name_the_place_of_another(table: Path, outside: Path) -> None:
    other = Partition("prt=b", ("b",), str(outside), 100)
    own = Partition("prt=a", ("a",), str(table / "prt=a"), 100)
    spec = journal(table, entry(outside, partition="prt=a"))
    results = everything(spec, metastore(table, partitions=(own, other)))
    assert {result.reason for result in results} == {"PartitionMoved"}


@pytest.mark.parametrize("name", ["prt=a/../../../outside/t", "../outside/t", "/", "..", "prt=a\n"])
def test_a_partition_by_a_path_is_none(table: Path, outside: Path, name: str) -> None:
    everything(journal(table, entry(outside, partition=name)), metastore(table))


def test_the_whole_table_cannot_be_another(table: Path, outside: Path) -> None:
    """Name, time and place are held against the metastore's, and the place is one of them."""
    spec = journal(outside, entry(outside))
    results = everything(spec, metastore(table))
    assert {result.reason for result in results} == {"TableMoved"}
    assert names(table) == {MINOR, *DELTAS}


@pytest.mark.parametrize("name", ["../../outside/t/{0}", "{1}/{0}", "./../../outside/t/{0}", "../t/{0}"])
def test_a_recorded_name_cannot_be_a_path(table: Path, outside: Path, name: str) -> None:
    path = name.format(DELTAS[0], outside)
    everything(journal(table, entry(table, obsolete=obsolete(path))), hive4(table))
    assert names(table) == {MINOR, *DELTAS}


@pytest.mark.parametrize(
    "output", ["../../outside/t/delta_0000001_0000003_v0000050", "{0}/delta_0000001_0000003_v0000050"]
)
def test_an_output_cannot_be_a_path(table: Path, outside: Path, output: str) -> None:
    """Outputs of an aborted transaction are removed: by names of the grammar alone."""
    make_directory(table, "delta_0000001_0000003_v0000050")
    aborted = hive4(table, txns=f"100:{2**63 - 1}::50", queue=())
    one = entry(table, outputs=(output.format(outside),), txn_id=50, obsolete=())
    everything(journal(table, one), aborted)
    assert "delta_0000001_0000003_v0000050" in names(table)


ALMOST_RIGHT = [
    "base_3x",
    "base_",
    "base_+3",
    "BASE_3",
    "Delta_0000001_0000001_0000",
    "delta_1_2_3_4_5",
    "delta_0000001",
    "delta_0000003_0000001",
    "delta_0000001_0000001_0000\n",
    "\ndelta_0000001_0000001_0000",
    "delta_0000001_0000001_0000 ",
    "delta_0000001_0000001_0000.bak",
    "delta_\u0660\u0660\u0661_\u0660\u0660\u0661_0000",
    "delta_\uff11_\uff11_0000",
    "delete_delta_1",
    "deltas_0000001_0000001",
    "_delta_0000001_0000001_0000",
    "base_99999999999999999999",
    "000000_0_copy",
    "000000_0.orc",
    "HIVE_UNION_SUBDIR_",
    "HIVE_UNION_SUBDIR_1\n",
    "precious",
]


@pytest.mark.parametrize("name", ALMOST_RIGHT)
def test_what_looks_almost_right_is_not_deleted(table: Path, name: str) -> None:
    """Even where a journal records it, the output covers it, and an earlier pass seems to have hidden it."""
    for place in (table, table / "_compaction_quarantine" / "u-1"):
        make_directory(place, name)
        make_directory(place, f"_compaction_trash_{name}")
    kept = {
        key: value
        for key, value in contents(table).items()
        if Path(key).parts[-2] in {name, f"_compaction_trash_{name}"}
    }
    everything(journal(table, entry(table, obsolete=obsolete(*DELTAS, name))), hive4(table))
    left = contents(table)
    assert {key: left.get(key) for key in kept} == kept


def _relocate(table: Path, outside: Path, *, what: Path) -> None:
    """Put a symbolic link to the other table in the place of a directory."""
    what.rename(table.parent / "aside")
    what.symlink_to(outside, target_is_directory=True)


def test_a_table_that_became_a_link_is_not_followed(table: Path, outside: Path) -> None:
    _relocate(table, outside, what=table)
    results = everything(journal(table), metastore(table))
    assert not any(result.deleted or result.quarantined for result in results)


def test_a_directory_above_that_became_a_link_is_not_followed(table: Path, outside: Path) -> None:
    place = table
    above = place.parent
    above.rename(above.parent / "aside")
    above.symlink_to(outside.parent, target_is_directory=True)
    results = everything(journal(place), metastore(place))
    assert not any(result.deleted or result.quarantined for result in results)


def test_a_partition_that_became_a_link_is_not_followed(table: Path, outside: Path) -> None:
    place = table / "prt=a"
    place.symlink_to(outside, target_is_directory=True)
    there = Partition("prt=a", ("a",), str(place), 100)
    results = everything(journal(table, entry(place, partition="prt=a")), metastore(table, partitions=(there,)))
    assert not any(result.deleted or result.quarantined for result in results)


@pytest.mark.parametrize("name", [DELTAS[0], MINOR, "_compaction_u-1-p", f"_compaction_trash_{DELTAS[0]}"])
def test_a_link_in_the_place_of_a_directory_is_not_followed(table: Path, outside: Path, name: str) -> None:
    if (table / name).exists():
        (table / name).rename(table.parent / "aside")
    (table / name).symlink_to(outside / DELTAS[0], target_is_directory=True)
    everything(journal(table), metastore(table))
    assert (table / name).is_symlink()


@pytest.mark.parametrize("level", ["_compaction_quarantine", "_compaction_quarantine/u-1"])
def test_a_quarantine_that_is_a_link_is_neither_filled_nor_purged(table: Path, outside: Path, level: str) -> None:
    """Nothing is moved out of the table, and nothing is deleted where the link leads."""
    (table / level).parent.mkdir(exist_ok=True)
    (table / level).symlink_to(outside / level, target_is_directory=True)
    source, states = metastore(table), {"": PublishedState.PUBLISHED}
    (put,) = quarantine_obsolete(JournalPass(lambda _: LocalStorage(), source, journal(table), states), known={})
    (purged,) = purge_quarantined(JournalPass(lambda _: LocalStorage(), source, journal(table), states))
    assert "symbolic link" in (put.skipped or "")
    assert "symbolic link" in (purged.skipped or "")
    assert not put.final
    assert names(table) == {MINOR, *DELTAS, "_compaction_quarantine"}


def test_a_link_in_quarantine_is_not_followed(table: Path, outside: Path) -> None:
    folder = table / "_compaction_quarantine" / "u-1"
    folder.mkdir(parents=True)
    (folder / DELTAS[0]).symlink_to(outside / DELTAS[0], target_is_directory=True)
    (purged,) = purge_quarantined(
        JournalPass(lambda _: LocalStorage(), metastore(table), journal(table), {"": PublishedState.PUBLISHED})
    )
    assert not purged.final
    assert (folder / DELTAS[0]).is_symlink()


@pytest.mark.parametrize("uid", ["..", "../../x", "a/b", "", "\n", "ü", ".", "_x"])
def test_a_compaction_with_an_odd_uid_has_no_quarantine(table: Path, outside: Path, uid: str) -> None:
    spec = journal(table)
    odd = spec.model_copy(update={"compaction": spec.compaction.model_copy(update={"uid": uid})})
    with pytest.raises(ValueError, match="quarantine folder"):
        quarantine_obsolete(
            JournalPass(lambda _: LocalStorage(), metastore(table), odd, {"": PublishedState.PUBLISHED}), known={}
        )
    with pytest.raises(ValueError, match="quarantine folder"):
        purge_quarantined(JournalPass(lambda _: LocalStorage(), metastore(table), odd, {"": PublishedState.PUBLISHED}))
    assert names(table) == {MINOR, *DELTAS}


def test_a_table_that_moved_is_left_alone_at_both_places(table: Path, outside: Path) -> None:
    """Its metadata names the other place now, where the same names are."""
    source = metastore(table)
    source.alter_table("d.t", location=str(outside))
    results = everything(journal(table), source)
    assert {result.reason for result in results} == {"TableMoved"}
    assert names(table) == {MINOR, *DELTAS}


def test_a_purge_takes_no_name_from_another_attempts_folder(table: Path) -> None:
    for folder in ("u-2", "v-1"):
        make_directory(table / "_compaction_quarantine" / folder, DELTAS[0])
    before = contents(table / "_compaction_quarantine")
    purge_quarantined(
        JournalPass(lambda _: LocalStorage(), metastore(table), journal(table), {"": PublishedState.PUBLISHED})
    )
    assert contents(table / "_compaction_quarantine") == before


@pytest.mark.parametrize(
    ("uid", "attempt"), [("", 1), ("u/1", 1), ("compaction-operator", 1), ("cleanup", 1), ("other", 7)]
)
def test_foreign_locks_transactions_and_queue_entries_are_never_ended(table: Path, uid: str, attempt: int) -> None:
    """By whatever ids and UID a forged journal names them."""
    source = hive4(table, queue=(queued(5, pool="compaction/other/1/p", committed=None), queued(6, pool="default")))
    spec = journal(table, entry(table, txn_id=50, queue_id=6))
    ref = spec.compaction.model_copy(update={"uid": uid, "attempt": attempt})
    everything(spec.model_copy(update={"compaction": ref, "lock_ids": (7, 8)}), source)
    assert {"abort_txn", "mark_failed", "mark_cleaned"}.isdisjoint(call.name for call in source.calls)
    assert not {7, 8} & set(source.asked("unlock"))
