"""Settling and deleting where the store cannot rename: uploads are revoked, and nothing is hidden or moved."""

from pathlib import Path

import pytest

from compaction_operator.api.cleanup import CompactionCleanupSpec, PublishedState, Upload
from compaction_operator.cleanup import recorded
from compaction_operator.cleanup.attempt import revoke_uploads
from compaction_operator.cleanup.deletion import JournalPass, PartitionDeletion, delete_obsolete
from compaction_operator.cleanup.quarantine import purge_quarantined, quarantine_obsolete
from compaction_operator.cleanup.settle import Settlement, settle
from compaction_operator.metastore import Generation
from compaction_operator.storage import NotFoundError, StorageError
from tests.support.metastore import FakeMetastore
from tests.support.object_store import ObjectStore
from tests.unit.cleanup.support import (
    DELTAS,
    MAJOR,
    NOON,
    entry,
    journal,
    make_directory,
    metastore,
    names,
    queued,
)

OUTPUT = f"{MAJOR}_v0000050"
ABORTED = f"100:{2**63 - 1}::50"
FILES = ("bucket_00000", "_orc_acid_version")


@pytest.fixture
def objects() -> ObjectStore:
    return ObjectStore()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three inserts."""
    for name in DELTAS:
        make_directory(tmp_path, name)
    return tmp_path


def begun(objects: ObjectStore, table: Path) -> CompactionCleanupSpec:
    """A journal whose uploads wait to be completed."""
    (table / "_staged").write_bytes(b"rows")
    uploads = objects.uploads.begin(str(table), {f"{OUTPUT}/{name}": str(table / "_staged") for name in FILES})
    return journal(table, entry(table, outputs=(OUTPUT,), txn_id=50, queue_id=5, uploads=uploads))


def on_hive_4(table: Path, *, txns: str | None = None) -> FakeMetastore:
    changes = {"txns": txns} if txns else {"queue": (queued(5),)}
    return metastore(table, hive=Generation.HIVE4, **changes)


def settled(objects: ObjectStore, source: FakeMetastore, spec: CompactionCleanupSpec) -> Settlement:
    return settle(lambda _: objects, source, spec, clock=lambda: NOON)


def complete(objects: ObjectStore, spec: CompactionCleanupSpec, *, files: int = 2) -> tuple[Upload, ...]:
    (entry,) = spec.partitions
    objects.uploads.complete(entry.location, entry.uploads[:files])
    return entry.uploads


def test_a_driver_that_wakes_after_the_end_of_its_attempt_can_complete_nothing(
    objects: ObjectStore, table: Path
) -> None:
    """H4, H19: without the abort its output would be valid once the metastore forgets the transaction."""
    spec = begun(objects, table)
    assert settled(objects, on_hive_4(table, txns=ABORTED), spec).states == {"": PublishedState.NOT_PUBLISHED}
    with pytest.raises(NotFoundError):
        complete(objects, spec)
    assert OUTPUT not in names(table)


def test_uploads_of_a_partition_that_was_created_again_are_aborted_too(objects: ObjectStore, table: Path) -> None:
    """H11: its driver would otherwise complete them into the new partition."""
    spec = begun(objects, table)
    source = on_hive_4(table, txns=ABORTED)
    source.alter_table("d.t", create_time=101)
    assert settle(lambda _: objects, source, spec, whole=False, clock=lambda: NOON).gone.keys() == {""}
    with pytest.raises(NotFoundError):
        complete(objects, spec)


def test_one_place_that_refuses_leaves_no_other_unrevoked(
    objects: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, entries = [tmp_path / "p=a", tmp_path / "p=b"], []
    for place in places:
        make_directory(place, DELTAS[0])
        (made,) = begun(objects, place).partitions
        entries.append(made.model_copy(update={"partition": place.name}))
    abort = objects.own_uploads.abort

    def refuse(location: str, uploads: tuple[Upload, ...]) -> None:
        if location == str(places[0]):
            raise StorageError("AbortMultipartUpload: access denied")
        abort(location, uploads)

    monkeypatch.setattr(objects.own_uploads, "abort", refuse)
    with pytest.raises(StorageError, match="access denied"):
        revoke_uploads(lambda _: objects, entries)
    assert {name for name, _ in objects.uploads.pending.values()} == {f"{places[0]}/{OUTPUT}/{name}" for name in FILES}


def test_what_it_had_completed_before_is_removed(objects: ObjectStore, table: Path) -> None:
    spec = begun(objects, table)
    complete(objects, spec, files=1)
    assert settled(objects, on_hive_4(table, txns=ABORTED), spec).states == {"": PublishedState.NOT_PUBLISHED}
    assert names(table) >= set(DELTAS)
    assert OUTPUT not in names(table)


def test_uploads_are_aborted_before_the_transaction(objects: ObjectStore, table: Path) -> None:
    """From the abort on, any client may make the metastore forget the transaction."""
    spec, source = begun(objects, table), on_hive_4(table, txns=ABORTED)
    aborted: list[int] = []
    source.on("valid_txns", lambda **_: aborted.append(objects.uploads.steps.count("abort")))
    settled(objects, source, spec)
    assert aborted
    assert set(aborted) == {len(FILES)}


def test_an_output_that_lacks_a_file_is_not_published(objects: ObjectStore, table: Path) -> None:
    """Nothing is deleted for it, even where the transaction counts as committed: here the queue has forgotten it."""
    spec = begun(objects, table)
    complete(objects, spec, files=1)
    source = metastore(table, hive=Generation.HIVE4)
    assert settled(objects, source, spec).states == {"": PublishedState.NOT_PUBLISHED}


def test_a_complete_output_of_a_committed_transaction_is_published(objects: ObjectStore, table: Path) -> None:
    spec = begun(objects, table)
    complete(objects, spec)
    assert settled(objects, on_hive_4(table), spec).states == {"": PublishedState.PUBLISHED}


def test_while_uploads_cannot_be_aborted_nothing_is_settled(
    objects: ObjectStore, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No later attempt knows their ids."""
    spec, source = begun(objects, table), on_hive_4(table, txns=ABORTED)

    def refuse(*_: object) -> None:
        raise StorageError("AbortMultipartUpload: access denied")

    monkeypatch.setattr(objects.own_uploads, "abort", refuse)
    with pytest.raises(StorageError, match="access denied"):
        settled(objects, source, spec)
    assert source.count("show_locks") == 0


def published(objects: ObjectStore, table: Path) -> tuple[FakeMetastore, CompactionCleanupSpec]:
    spec = begun(objects, table)
    complete(objects, spec)
    return on_hive_4(table), spec


def given(objects: ObjectStore, source: FakeMetastore, spec: CompactionCleanupSpec) -> JournalPass:
    return JournalPass(lambda _: objects, source, spec, {"": PublishedState.PUBLISHED})


def test_obsolete_directories_are_deleted_while_readers_are_held_off(
    objects: ObjectStore, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that is listing must not see half of a directory."""
    source, spec = published(objects, table)
    held: list[set[str]] = []
    delete_tree = objects.delete_tree

    def watched(path: str) -> int:
        held.append({one.type for one in source.locks})
        return delete_tree(path)

    monkeypatch.setattr(objects, "delete_tree", watched)
    (done,) = delete_obsolete(given(objects, source, spec))
    assert sorted(done.deleted) == sorted(DELTAS)
    assert done.bytes_deleted == 4 * len(DELTAS)
    assert held == [{"EXCLUSIVE"}] * len(DELTAS)
    assert {name for name in names(table) if not name.startswith("_")} == {OUTPUT}


def test_readers_are_held_off_again_and_again_rather_than_for_long(
    objects: ObjectStore, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it may take minutes: queries would wait, and the metastore would drop the lock."""
    monkeypatch.setattr(recorded, "DELETING_SECONDS", 0.0)
    source, spec = published(objects, table)
    (done,) = delete_obsolete(given(objects, source, spec))
    assert sorted(done.deleted) == sorted(DELTAS)
    assert source.count("lock") == source.count("unlock") == len(DELTAS)


def test_a_quarantine_waits_in_place_and_then_deletes(objects: ObjectStore, table: Path) -> None:
    source, spec = published(objects, table)

    def quarantined(known: tuple[str, ...]) -> PartitionDeletion:
        return quarantine_obsolete(given(objects, source, spec), known={"": known})[0]

    first = quarantined(())
    assert sorted(first.quarantined) == sorted(DELTAS)
    assert (first.remaining, first.deleted, first.final) == ({}, (), True)
    assert names(table) >= set(DELTAS)
    assert quarantined(first.quarantined).restored == ()
    (purged,) = purge_quarantined(given(objects, source, spec))
    assert sorted(purged.deleted) == sorted(DELTAS)
    assert names(table).isdisjoint(DELTAS)
