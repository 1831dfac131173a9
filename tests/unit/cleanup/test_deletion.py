"""Deletion: only what is recorded and obsolete today, of the table that was recorded, from any point again."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from compaction_operator.api.cleanup import CompactionCleanupSpec, PublishedState
from compaction_operator.cleanup.deletion import JournalPass, PartitionDeletion, delete_obsolete
from compaction_operator.cleanup.quarantine import quarantine_obsolete
from compaction_operator.metastore import Generation, LockWish, MetastoreError, Partition, QueueState
from compaction_operator.storage import LocalStorage, Storage
from tests.support.metastore import FakeMetastore
from tests.unit.cleanup.support import (
    DELTAS,
    MAJOR,
    MINOR,
    DiedError,
    DyingStorage,
    contents,
    entry,
    journal,
    make_directory,
    metastore,
    names,
    obsolete,
    queued,
)

PUBLISHED = {"": PublishedState.PUBLISHED}
Pass = Callable[..., tuple[PartitionDeletion, ...]]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three inserts and the published minor compaction of them."""
    place = tmp_path / "t"
    for name in (*DELTAS, MINOR):
        make_directory(place, name)
    return place


def _delete(
    spec: CompactionCleanupSpec,
    source: FakeMetastore,
    *,
    storage: Storage | None = None,
    states: dict[str, PublishedState] | None = None,
) -> PartitionDeletion:
    (result,) = delete_obsolete(JournalPass(lambda _: storage or LocalStorage(), source, spec, states or PUBLISHED))
    return result


def test_what_is_recorded_and_obsolete_is_deleted(table: Path) -> None:
    result = _delete(journal(table), metastore(table))
    assert names(table) == {MINOR}
    assert (result.deleted, result.bytes_deleted, result.final) == (DELTAS, 12, True)


def test_a_major_deletes_deltas_and_original_files(tmp_path: Path) -> None:
    for name in (*DELTAS, MAJOR):
        make_directory(tmp_path, name)
    (tmp_path / "000000_0").write_bytes(b"original")
    spec = journal(tmp_path, entry(tmp_path, outputs=(MAJOR,), obsolete=obsolete(*DELTAS, "000000_0")))
    assert _delete(spec, metastore(tmp_path)).final
    assert names(tmp_path) == {MAJOR}


def test_a_union_directory_goes_with_the_original_files_in_it(tmp_path: Path) -> None:
    inner = "HIVE_UNION_SUBDIR_1/HIVE_UNION_SUBDIR_2/000000_0"
    assert _union_after_deletion(tmp_path, "HIVE_UNION_SUBDIR_1/000000_0_copy_1", inner) == {MAJOR}


@pytest.mark.parametrize("stranger", ["data.csv", "sub/000000_0", "bucket_00000", "base_0000009/bucket_00000"])
def test_a_union_directory_is_kept_for_anything_in_it_that_is_no_original_file(tmp_path: Path, stranger: str) -> None:
    """H15: also for what came after it was recorded: no compaction ever folded it in."""
    kept = _union_after_deletion(tmp_path, "HIVE_UNION_SUBDIR_1/000000_0", f"HIVE_UNION_SUBDIR_1/{stranger}")
    assert kept == {MAJOR, "HIVE_UNION_SUBDIR_1"}
    assert (tmp_path / "HIVE_UNION_SUBDIR_1" / "000000_0").exists()


def _union_after_deletion(place: Path, *files: str) -> set[str]:
    """What is left of a major's output and a recorded union directory with these files."""
    make_directory(place, MAJOR)
    for file in files:
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_bytes(b"rows")
    _delete(journal(place, entry(place, outputs=(MAJOR,), obsolete=obsolete("HIVE_UNION_SUBDIR_1"))), metastore(place))
    return names(place)


def test_what_is_obsolete_but_not_recorded_is_kept(table: Path) -> None:
    """Its readers were never waited for."""
    result = _delete(journal(table, entry(table, obsolete=obsolete(DELTAS[0]))), metastore(table))
    assert names(table) == {MINOR, *DELTAS[1:]}
    assert result.final


def test_without_the_output_nothing_of_the_inputs_is_deleted(tmp_path: Path) -> None:
    """H10: even if a state says that it was published, what lies there decides."""
    for name in DELTAS:
        make_directory(tmp_path, name)
    result = _delete(journal(tmp_path), metastore(tmp_path))
    assert names(tmp_path) == set(DELTAS)
    assert (result.deleted, result.needed, result.final) == ((), DELTAS, True)


def test_an_entry_that_was_not_published_is_not_touched(table: Path) -> None:
    """H10: here the output's name is another compaction's, whose readers are waited for elsewhere."""
    result = _delete(journal(table), metastore(table), states={"": PublishedState.NOT_PUBLISHED})
    assert names(table) == {MINOR, *DELTAS}
    assert result.skipped is not None
    assert "was not published" in result.skipped
    assert result.final


def test_a_table_that_is_recreated_during_a_pass_is_left_alone(tmp_path: Path) -> None:
    """H11: a write id that was aborted in the old table holds the only row of the new one."""
    places = [tmp_path / name for name in ("prt=1", "prt=2")]
    for place in places:
        for name in (*DELTAS, MAJOR):
            make_directory(place, name)
    ids = "d.t:{}:9223372036854775807::{}"
    source = metastore(tmp_path, write_ids=ids.format(3, 2), partitions=_partitions(tmp_path, created=100))
    entries = (entry(place, partition=place.name, outputs=(MAJOR,)) for place in places)
    spec = journal(tmp_path, *entries)

    class Recreated(LocalStorage):
        def delete_tree(self, path: str) -> int:
            freed = super().delete_tree(path)
            if source.tables["d.t"].create_time == 100:
                shutil.rmtree(places[1])
                make_directory(places[1], DELTAS[1])
                source.alter_table("d.t", create_time=999)
                source.partitions["d.t"] = {one.name: one for one in _partitions(tmp_path, created=999)}
                source.set_write_ids(ids.format(2, ""))
            return freed

    states = dict.fromkeys(("prt=1", "prt=2"), PublishedState.PUBLISHED)
    recreated = Recreated()
    _, second = delete_obsolete(JournalPass(lambda _: recreated, source, spec, states))
    assert second.deleted == ()
    assert names(places[1]) == {DELTAS[1]}


@pytest.mark.parametrize("take", [delete_obsolete, partial(quarantine_obsolete, known={})])
@pytest.mark.parametrize("dropped", [False, True], ids=["output removed", "partition dropped"])
def test_what_changes_before_readers_are_held_off_is_seen(table: Path, take: Pass, dropped: bool) -> None:
    """The table is looked up and listed again behind the lock: only there it is sure what is obsolete."""
    spec = journal(table, entry(table, partition="prt=p1", create_time=7))

    source = metastore(table, partitions=(Partition("prt=p1", ("p1",), str(table), 7),))

    def change(_: LockWish) -> None:
        if dropped:
            source.partitions.clear()
        else:
            shutil.rmtree(table / MINOR)

    source.on("lock", change)
    (result,) = take(JournalPass(lambda _: LocalStorage(), source, spec, {"prt=p1": PublishedState.PUBLISHED}))
    assert result.reason == ("PartitionDropped" if dropped else None)
    assert names(table) >= set(DELTAS)


def _partitions(table: Path, *, created: int) -> tuple[Partition, ...]:
    return tuple(Partition(f"prt={one}", (str(one),), str(table / f"prt={one}"), created) for one in (1, 2))


def test_an_entry_with_nothing_to_publish_deletes_what_was_obsolete_before(table: Path) -> None:
    spec = journal(table, entry(table, outputs=()))
    assert _delete(spec, metastore(table), states={"": PublishedState.NOTHING_TO_PUBLISH}).final
    assert names(table) == {MINOR}


def test_nothing_above_the_own_highest_write_id_is_deleted(table: Path) -> None:
    """H6: a later compaction made more obsolete; its own cleanup waits for readers of its own."""
    later = "delta_0000004_0000004_0000"
    for name in (later, "base_0000006"):
        make_directory(table, name)
    spec = journal(table, entry(table, obsolete=obsolete(*DELTAS, later)))
    result = _delete(spec, metastore(table, write_ids="d.t:6:9223372036854775807::"))
    assert names(table) == {MINOR, later, "base_0000006"}
    assert (result.needed, result.final) == ((later,), True)


def test_write_ids_of_today_decide(table: Path) -> None:
    """H8: an output over an id that is open again is no output (a false base must not cost the deltas)."""
    make_directory(table, MAJOR)
    spec = journal(table, entry(table, outputs=(MAJOR,), obsolete=obsolete(MINOR)))
    _delete(spec, metastore(table, write_ids="d.t:3:2:2:"))
    assert MINOR in names(table)


@pytest.mark.parametrize(
    ("txns", "deleted"),
    [("100:9223372036854775807::", True), ("100:50:50:", False), ("100:9223372036854775807::50", False)],
)
def test_a_directory_of_an_uncommitted_transaction_makes_nothing_obsolete(
    tmp_path: Path, txns: str, deleted: bool
) -> None:
    """Hive 4: a reader does not see `_v50` while transaction 50 is open, and never when it was aborted."""
    output = "base_0000003_v0000050"
    for name in (*DELTAS, output):
        make_directory(tmp_path, name)
    _delete(journal(tmp_path, entry(tmp_path, outputs=(output,))), metastore(tmp_path, txns=txns))
    assert names(tmp_path) == ({output} if deleted else {output, *DELTAS})


@pytest.mark.parametrize("call", ["get_table", "valid_write_ids", "valid_txns", "generation", "compactions"])
def test_an_error_of_the_metastore_deletes_nothing(table: Path, call: str) -> None:
    """H13."""
    with pytest.raises(MetastoreError, match=call):
        _delete(journal(table), metastore(table, broken=frozenset({call})))
    assert names(table) == {MINOR, *DELTAS}


@pytest.mark.parametrize(
    ("spec_change", "why"),
    [
        ({"create_time": 99}, "created again"),
        ({"location": "/elsewhere"}, "moved from /elsewhere"),
    ],
)
def test_a_table_that_is_not_the_recorded_one_is_not_touched(
    table: Path, spec_change: dict[str, object], why: str
) -> None:
    """H11 (HIVE-24235): dropped and created again, its directories may have the same names."""
    spec = journal(table)
    spec = spec.model_copy(update={"table": spec.table.model_copy(update=spec_change)})
    result = _delete(spec, metastore(table))
    assert names(table) == {MINOR, *DELTAS}
    assert result.final
    assert why in (result.skipped or "")


def test_a_dropped_table_is_done_with(table: Path) -> None:
    """H11: the controller does not touch what lies at its location now."""
    source = metastore(table)
    source.tables.clear()
    result = _delete(journal(table), source)
    assert names(table) == {MINOR, *DELTAS}
    assert (result.skipped, result.final) == ("table d.t was dropped", True)


def test_write_ids_that_went_back_are_another_table(table: Path) -> None:
    """H11: recreated within the same second at the same place, only its write ids tell."""
    result = _delete(journal(table), metastore(table, write_ids="d.t:2:9223372036854775807::"))
    assert names(table) == {MINOR, *DELTAS}
    assert result.final
    assert "write ids went back to 2" in (result.skipped or "")


def test_a_table_id_tells_a_table_that_was_created_again_at_once(table: Path) -> None:
    """H11 on Hive 4: same name, place and second; and there write ids may go back for another reason."""
    source = metastore(table, write_ids="d.t:2:9223372036854775807::")
    source.alter_table("d.t", table_id=8)
    spec = journal(table)
    other = spec.model_copy(update={"table": spec.table.model_copy(update={"table_id": 7})})
    result = _delete(other, source)
    assert (result.reason, result.final) == ("TableRecreated", True)
    same = spec.model_copy(update={"table": spec.table.model_copy(update={"table_id": 8})})
    assert names(table) == {MINOR, *DELTAS}
    assert _delete(same, source).reason is None


@pytest.mark.parametrize(
    ("create_time", "moved", "why"),
    [(7, False, None), (8, False, "created again"), (7, True, "moved from"), (None, False, "was dropped")],
)
def test_a_partition_is_identified_as_well(table: Path, create_time: int | None, moved: bool, why: str | None) -> None:
    """H11 for one partition of a table that is still there."""
    location = "/elsewhere" if moved else str(table)
    there = () if create_time is None else (Partition("prt=p1", ("p1",), location, create_time),)
    spec = journal(table, entry(table, partition="prt=p1", create_time=7))
    result = _delete(spec, metastore(table, partitions=there), states={"prt=p1": PublishedState.PUBLISHED})
    assert result.final
    if why is None:
        assert names(table) == {MINOR}
    else:
        assert why in (result.skipped or "")
        assert names(table) == {MINOR, *DELTAS}


def test_the_location_of_an_unpartitioned_entry_is_the_tables(table: Path, tmp_path: Path) -> None:
    """H21: an entry cannot name another place."""
    other = tmp_path / "other"
    for name in (*DELTAS, MINOR):
        make_directory(other, name)
    result = _delete(journal(table, entry(other)), metastore(table))
    assert names(other) == {MINOR, *DELTAS}
    assert "moved" in (result.skipped or "")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 7))
def test_a_deletion_that_dies_anywhere_is_finished_by_the_next(table: Path, at: int, after: bool) -> None:
    """H14: killed before or after any step, or within one; the next one deletes what is left, hidden or not."""
    with pytest.raises(DiedError):
        _delete(journal(table), metastore(table), storage=DyingStorage(at=at, after=after))
    left = {name.removeprefix("_compaction_trash_") for name in names(table)}
    result = _delete(journal(table), metastore(table))
    assert result.deleted == tuple(name for name in DELTAS if name in left)
    assert result.gone == tuple(name for name in DELTAS if name not in left)
    assert names(table) == {MINOR}
    before = contents(table)
    assert _delete(journal(table), metastore(table)) == PartitionDeletion("", gone=DELTAS, final=True)
    assert contents(table) == before


def test_where_two_cleanups_of_a_table_meet_each_tells_what_it_deleted_itself(table: Path) -> None:
    first = journal(table, entry(table, obsolete=obsolete(*DELTAS[:2])))
    result = _delete(first, metastore(table))
    assert (result.deleted, result.gone, result.bytes_deleted) == (DELTAS[:2], (), 8)
    second = _delete(journal(table), metastore(table))
    assert (second.deleted, second.gone, second.bytes_deleted) == (DELTAS[2:], DELTAS[:2], 4)


def test_a_directory_is_hidden_whole_before_any_of_it_goes(table: Path) -> None:
    """A listing in between shows all of it or none of it."""
    with pytest.raises(DiedError):
        _delete(journal(table), metastore(table), storage=DyingStorage(at=2, after=False))
    assert names(table) == {MINOR, *DELTAS[1:], f"_compaction_trash_{DELTAS[0]}"}


class _Vanishing(LocalStorage):
    """Another process deletes what is about to be deleted, right before the rename or right after."""

    def __init__(self, *, after: bool) -> None:
        super().__init__()
        self._after = after

    def rename(self, source: str, target: str) -> None:
        if not self._after:
            super().delete_tree(source)
        super().rename(source, target)
        super().delete_tree(target)


@pytest.mark.parametrize("after", [False, True])
def test_directories_that_vanish_meanwhile_are_fine(table: Path, after: bool) -> None:
    """H14: a second cleanup, or Hive's own cleaner, is at work."""
    result = _delete(journal(table), metastore(table), storage=_Vanishing(after=after))
    assert (result.deleted, result.gone, result.final) == ((), DELTAS, True)
    assert names(table) == {MINOR}


def test_trash_of_names_that_are_not_recorded_is_left_to_its_own_cleanup(table: Path) -> None:
    make_directory(table, "_compaction_trash_delta_0000009_0000009")
    _delete(journal(table), metastore(table))
    assert "_compaction_trash_delta_0000009_0000009" in names(table)


@pytest.mark.parametrize("spelled", ["{}/prt=p1", "file:{}/prt=p1", "file://{}/prt=p1"])
def test_a_partition_directory_that_is_gone_has_nothing_left(table: Path, spelled: str) -> None:
    """However the metastore spells the two places."""
    location = spelled.format(table)
    gone = Partition("prt=p1", ("p1",), location, 100)
    entry_of_it = entry(table / "prt=p1", partition="prt=p1").model_copy(update={"location": location})
    spec = journal(table, entry_of_it)
    result = _delete(spec, metastore(table, partitions=(gone,)), states={"prt=p1": PublishedState.PUBLISHED})
    assert (result.deleted, result.gone, result.final) == ((), DELTAS, True)


def test_a_table_directory_that_is_gone_may_be_a_volume_that_is_not_there(table: Path, tmp_path: Path) -> None:
    """The metastore still has the table: to call everything deleted would forget it for ever."""
    table.rename(tmp_path / "unmounted")
    result = _delete(journal(table), metastore(table))
    assert (result.deleted, result.final) == ((), False)
    assert "is its volume there?" in (result.skipped or "")
    (tmp_path / "unmounted").rename(table)
    assert _delete(journal(table), metastore(table)).deleted == DELTAS


def test_a_partition_elsewhere_that_is_gone_may_be_a_volume_that_is_not_there(table: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    partition = Partition("prt=p1", ("p1",), str(elsewhere), 100)
    spec = journal(table, entry(elsewhere, partition="prt=p1"))
    result = _delete(spec, metastore(table, partitions=(partition,)), states={"prt=p1": PublishedState.PUBLISHED})
    assert (result.deleted, result.final) == ((), False)
    assert result.skipped == f"{elsewhere} does not exist: is its volume there?"


@pytest.mark.parametrize(
    "name",
    [
        "..",
        ".",
        "",
        "../other",
        "../other/delta_0000001_0000001_0000",
        "delta_0000001_0000001_0000/../../other",
        "delta_0000001_0000001_0000/bucket_00000",
        "/",
        "*",
        "delta_*",
        "delta_0000001_0000001_000?",
        "precious",
        "_compaction_trash_delta_0000001_0000001_0000",
        "delta_0000001_0000001_0000\0",
        "delta_0000001_0000001_0000\n",
        ".hive-staging",
        "_orc_acid_version",
    ],
)
def test_a_recorded_name_outside_the_grammar_deletes_nothing(table: Path, tmp_path: Path, name: str) -> None:
    """H21: a resource cannot name a directory into deletion; the name stays in the report with the reason."""
    make_directory(tmp_path, "other")
    make_directory(table, "precious")
    make_directory(table, "_compaction_trash_precious")
    before = contents(tmp_path)
    result = _delete(journal(table, entry(table, obsolete=obsolete(name))), metastore(table))
    assert contents(tmp_path) == before
    assert (result.deleted, result.needed) == ((), (name,))


def test_a_link_in_the_place_of_an_obsolete_directory_is_not_followed(table: Path, tmp_path: Path) -> None:
    """H21: nothing of the partition is deleted until a user has looked at it."""
    outside = make_directory(tmp_path, "outside")
    (outside / "bucket_00000").rename(outside / "precious")
    for child in (table / DELTAS[0]).iterdir():
        child.unlink()
    (table / DELTAS[0]).rmdir()
    (table / DELTAS[0]).symlink_to(outside)
    result = _delete(journal(table), metastore(table))
    assert names(outside) == {"precious"}
    assert DELTAS[1] in names(table)
    assert not result.final
    assert DELTAS[0] in (result.skipped or "")


def test_a_partition_directory_that_became_a_link_is_not_followed(table: Path, tmp_path: Path) -> None:
    """H21."""
    outside = tmp_path / "outside"
    table.rename(outside)
    table.symlink_to(outside)
    result = _delete(journal(table), metastore(table))
    assert names(outside) == {MINOR, *DELTAS}
    assert "symbolic link" in (result.skipped or "")
    assert not result.final


def test_one_partition_in_trouble_does_not_hold_up_the_others(tmp_path: Path) -> None:
    places = [tmp_path / "prt=a", tmp_path / "prt=b"]
    for place in places:
        for name in (*DELTAS, MINOR):
            make_directory(place, name)
    (places[0] / "delta_0000009_0000009").symlink_to(places[1])
    entries = [entry(place, partition=place.name) for place in places]
    there = tuple(Partition(place.name, (place.name[-1],), str(place), 100) for place in places)
    first, second = delete_obsolete(
        JournalPass(
            lambda _: LocalStorage(),
            metastore(tmp_path, partitions=there),
            journal(tmp_path, *entries),
            {place.name: PublishedState.PUBLISHED for place in places},
        )
    )
    assert "delta_0000009_0000009" in (first.skipped or "")
    assert (first.final, second.final) == (False, True)
    assert names(places[1]) == {MINOR}


@pytest.mark.parametrize("state", [QueueState.WORKING, QueueState.UNKNOWN])
def test_nothing_is_deleted_while_hives_worker_is_at_work(table: Path, state: QueueState) -> None:
    """H23: it may have listed before our output was there; what it lays across that, only our inputs can mend."""
    result = _delete(journal(table), metastore(table, queue=(queued(5, state=state, committed=None),)))
    assert (result.reason, result.final) == ("InCompactionQueue", False)
    assert "entry 5" in str(result.skipped)
    assert names(table) == {*DELTAS, MINOR}


@pytest.mark.parametrize(
    ("generation", "state"),
    [
        (Generation.HIVE3, QueueState.INITIATED),
        (Generation.HIVE3, QueueState.READY_FOR_CLEANING),
        (Generation.HIVE4, QueueState.WORKING),
    ],
)
def test_who_begins_later_or_has_ended_holds_nothing_up(table: Path, generation: Generation, state: QueueState) -> None:
    """It lists what is there by then. On Hive 4, no Worker of Hive is active beside an entry of ours."""
    _delete(journal(table), metastore(table, hive=generation, queue=(queued(5, state=state),)))
    assert names(table) == {MINOR}


def test_a_worker_holds_up_its_own_partition_alone(tmp_path: Path) -> None:
    places = [tmp_path / f"p={number}" for number in (1, 2)]
    for place in places:
        for name in (*DELTAS, MINOR):
            make_directory(place, name)
    there = tuple(Partition(place.name, (place.name[-1],), str(place), 100) for place in places)
    at_work = queued(5, partition="p=1", state=QueueState.WORKING, committed=None)
    held_up, done = delete_obsolete(
        JournalPass(
            lambda _: LocalStorage(),
            metastore(tmp_path, partitions=there, queue=(at_work,)),
            journal(tmp_path, *(entry(place, partition=place.name) for place in places)),
            {place.name: PublishedState.PUBLISHED for place in places},
        )
    )
    assert (held_up.reason, done.final) == ("InCompactionQueue", True)
    assert [names(place) for place in places] == [{*DELTAS, MINOR}, {MINOR}]


@pytest.mark.parametrize("across", ["delta_0000002_0000005", "base_0000002"])
def test_nothing_is_deleted_where_rows_count_twice(table: Path, across: str) -> None:
    """H23: Hive's Worker ended after our rename. The readers' snapshot takes both, and what both were made from."""
    make_directory(table, across, side_files=("_metadata_acid",) if across.startswith("base") else ())
    result = _delete(journal(table), metastore(table))
    assert f"{MINOR} and {across} overlap" in str(result.skipped)
    assert result.reason == "UnsupportedLayout"
    assert not result.final
    assert names(table) == {*DELTAS, MINOR, across}


@pytest.mark.parametrize(
    ("txns", "deleted"), [("100:9223372036854775807::50", True), ("100:9223372036854775807::", False)]
)
def test_what_no_snapshot_has_overlaps_nothing(table: Path, txns: str, deleted: bool) -> None:
    """Hive 4: of an aborted compaction, whose directory bears its transaction."""
    across = "delta_0000002_0000005_v0000050"
    make_directory(table, across)
    result = _delete(journal(table), metastore(table, hive=Generation.HIVE4, txns=txns))
    assert result.final is deleted
    assert names(table) == ({MINOR, across} if deleted else {*DELTAS, MINOR, across})
