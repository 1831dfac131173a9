"""Quarantine: hidden for a while, purged from there alone, and what a user moved back stays."""

from pathlib import Path

import pytest

from compaction_operator.api.cleanup import CompactionCleanupSpec, PublishedState
from compaction_operator.cleanup.deletion import JournalPass, PartitionDeletion
from compaction_operator.cleanup.quarantine import purge_quarantined, quarantine_obsolete
from compaction_operator.storage import LocalStorage, Storage
from tests.unit.cleanup.support import (
    DELTAS,
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
)

PUBLISHED = {"": PublishedState.PUBLISHED}
HIDDEN = "_compaction_quarantine"
OWN = "u-1"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three inserts and the published minor compaction of them."""
    place = tmp_path / "t"
    for name in (*DELTAS, MINOR):
        make_directory(place, name)
    return place


def _quarantine(
    place: Path,
    *,
    known: tuple[str, ...] = (),
    storage: Storage | None = None,
    spec: CompactionCleanupSpec | None = None,
) -> PartitionDeletion:
    journaled = spec or journal(place)
    found = quarantine_obsolete(
        JournalPass(lambda _: storage or LocalStorage(), metastore(place), journaled, PUBLISHED), known={"": known}
    )
    return found[0]


def _purge(place: Path, *, storage: Storage | None = None) -> PartitionDeletion:
    return purge_quarantined(
        JournalPass(lambda _: storage or LocalStorage(), metastore(place), journal(place), PUBLISHED)
    )[0]


def test_what_would_be_deleted_is_hidden_instead(table: Path) -> None:
    result = _quarantine(table)
    assert names(table) == {MINOR, HIDDEN}
    assert names(table / HIDDEN / OWN) == set(DELTAS)
    assert (result.quarantined, result.deleted, result.bytes_deleted, result.final) == (DELTAS, (), 0, True)


def test_a_purge_deletes_it_and_the_empty_folders(table: Path) -> None:
    _quarantine(table)
    result = _purge(table)
    assert names(table) == {MINOR}
    assert (result.deleted, result.quarantined, result.bytes_deleted, result.final) == (DELTAS, (), 12, True)


def test_a_purge_leaves_the_folders_of_others(table: Path) -> None:
    _quarantine(table)
    make_directory(table / HIDDEN / "other-1", "delta_0000009_0000009_0000")
    _purge(table)
    assert names(table / HIDDEN) == {"other-1"}


def test_only_recorded_names_are_purged(table: Path) -> None:
    _quarantine(table)
    make_directory(table / HIDDEN / OWN, "delta_0000009_0000009_0000")
    make_directory(table / HIDDEN / OWN, "precious")
    assert _purge(table).deleted == DELTAS
    assert names(table / HIDDEN / OWN) == {"delta_0000009_0000009_0000", "precious"}


def test_what_was_moved_back_by_hand_is_reported_and_never_deleted(table: Path) -> None:
    """The documented undo."""
    _quarantine(table)
    (table / HIDDEN / OWN / DELTAS[0]).rename(table / DELTAS[0])
    again = _quarantine(table, known=DELTAS)
    assert (again.restored, again.quarantined, again.final) == (DELTAS[:1], DELTAS[1:], True)
    purged = _purge(table)
    assert (purged.restored, purged.deleted, purged.final) == (DELTAS[:1], DELTAS[1:], True)
    assert names(table) == {MINOR, DELTAS[0]}


def test_nothing_is_purged_while_an_undo_needs_it(table: Path) -> None:
    """The output was removed, and one of its inputs is back: the others will be needed, too."""
    _quarantine(table)
    (table / HIDDEN / OWN / DELTAS[0]).rename(table / DELTAS[0])
    LocalStorage().delete_tree(str(table / MINOR))
    result = _purge(table)
    assert set(result.needed) == set(DELTAS[1:])
    assert names(table / HIDDEN / OWN) == set(DELTAS[1:])


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 4))
def test_a_quarantine_that_dies_anywhere_is_finished_by_the_next(table: Path, at: int, after: bool) -> None:
    with pytest.raises(DiedError):
        _quarantine(table, storage=DyingStorage(at=at, after=after))
    before = contents(table)
    assert _quarantine(table).quarantined == DELTAS
    assert len(contents(table)) == len(before)
    assert names(table / HIDDEN / OWN) == set(DELTAS)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 7))
def test_a_purge_that_dies_anywhere_is_finished_by_the_next(table: Path, at: int, after: bool) -> None:
    """H14: killed before or after any step, or within one."""
    _quarantine(table)
    with pytest.raises(DiedError):
        _purge(table, storage=DyingStorage(at=at, after=after))
    left = {path.name.removeprefix("_compaction_trash_") for path in (table / HIDDEN).glob("*/*")}
    result = _purge(table)
    assert result.deleted == tuple(name for name in DELTAS if name in left)
    assert result.gone == tuple(name for name in DELTAS if name not in left)
    assert names(table) == {MINOR}


def test_a_directory_is_hidden_whole_before_any_of_it_is_purged(table: Path) -> None:
    """A user who moves directories back finds each one whole or not at all."""
    _quarantine(table)
    with pytest.raises(DiedError):
        _purge(table, storage=DyingStorage(at=2, after=False))
    assert names(table / HIDDEN / OWN) == {f"_compaction_trash_{DELTAS[0]}", *DELTAS[1:]}


def test_a_name_that_is_taken_in_quarantine_stays_where_it_is(table: Path) -> None:
    make_directory(table / HIDDEN / OWN, DELTAS[0])
    (table / HIDDEN / OWN / DELTAS[0] / "bucket_00000").write_bytes(b"older")
    result = _quarantine(table)
    assert "already" in result.remaining[DELTAS[0]]
    assert not result.final
    assert (table / DELTAS[0] / "bucket_00000").read_bytes() == b"rows"
    assert (table / HIDDEN / OWN / DELTAS[0] / "bucket_00000").read_bytes() == b"older"


def test_original_files_are_kept_in_quarantine_too(tmp_path: Path) -> None:
    make_directory(tmp_path, "base_0000003")
    (tmp_path / "000000_0").write_bytes(b"original")
    one = entry(tmp_path, outputs=("base_0000003",), obsolete=obsolete("000000_0"))
    assert _quarantine(tmp_path, spec=journal(tmp_path, one)).quarantined == ("000000_0",)
    assert (tmp_path / HIDDEN / OWN / "000000_0").read_bytes() == b"original"
