"""Publication where the store cannot rename: uploads that the journal names, completed only behind the guard."""

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from compaction_operator.api.cleanup import CompactionCleanupSpec, Upload
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hive import publish
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.flow import HiveCompaction
from compaction_operator.driver.hive.journal import Journal
from compaction_operator.driver.main import protocol_of
from compaction_operator.driver.merge import partition
from compaction_operator.driver.merge.runner import LocalRunner
from compaction_operator.metastore import Generation, MetastoreError, MetastoreUnavailable, Target, TransactionLost
from tests.support.metastore import ABORTED, COMMITTED, FakeMetastore
from tests.support.object_store import ObjectStore
from tests.unit.driver.support import IDENTITY, REQUEST, Reports, Store, know_partitions, metastore_of, queue_states

THREE_INSERTS = Path(__file__).parents[2] / "fixtures/hive-4.0.1/table_txn_001/before"
DELTAS = {path.name for path in THREE_INSERTS.iterdir()}
OUTPUT = "base_0000003_v0000101"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return Path(shutil.copytree(THREE_INSERTS, tmp_path / "p1"))


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    store = ObjectStore()
    monkeypatch.setattr(partition, "open_storage", lambda _: store)
    return store


def run(metastore: FakeMetastore, place: Path, store: Store) -> Reason:
    request = REQUEST.model_copy(update={"type": CompactionType.MAJOR})
    attempt = DriverContext(metastore.client(), request, "pod1", IDENTITY)
    targets = [Target("prt=p1", str(place), 1)]
    know_partitions(metastore, targets)
    compaction = HiveCompaction(protocol_of(attempt), runner=LocalRunner(), report=Reports())
    return compaction.run(targets, Journal(store, attempt)).reason


def _abort(metastore: FakeMetastore) -> None:
    metastore.client().abort_txn(101)


def visible(place: Path) -> set[str]:
    return {path.name for path in place.iterdir() if not path.name.startswith("_")} - DELTAS


def journaled(store: Store) -> tuple[Upload, ...]:
    (resource,) = store.resources.values()
    (entry,) = CompactionCleanupSpec.model_validate(resource["spec"]).partitions
    return entry.uploads


def test_every_file_of_the_output_is_in_the_journal_before_one_is_visible(place: Path, objects: ObjectStore) -> None:
    metastore = metastore_of(hive=Generation.HIVE4, highest=3)
    at_the_journal: list[set[str]] = []
    store = Store(on_create=lambda: at_the_journal.append(visible(place)))
    assert run(metastore, place, store) is Reason.COMPACTED
    assert at_the_journal == [set()]
    files = {f"{OUTPUT}/{path.name}" for path in (place / OUTPUT).iterdir()}
    assert (
        {upload.name for upload in journaled(store)}
        == files
        == {f"{OUTPUT}/bucket_00000", f"{OUTPUT}/_orc_acid_version"}
    )
    assert metastore.outcomes() == {101: COMMITTED}
    assert {path.name for path in place.iterdir()} == {*DELTAS, OUTPUT}


def test_a_transaction_that_is_lost_before_the_guard_completes_nothing(place: Path, objects: ObjectStore) -> None:
    metastore = metastore_of(hive=Generation.HIVE4, highest=3)
    store = Store(on_create=partial(_abort, metastore))
    with pytest.raises(JobError) as lost:
        run(metastore, place, store)
    assert lost.value.reason is Reason.TRANSACTION_LOST
    assert (visible(place), objects.own_uploads.pending) == (set(), {})
    assert "complete" not in objects.own_uploads.steps


def test_a_transaction_that_is_lost_between_uploads_completes_no_more(
    place: Path, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "UPLOADS_PER_CHECK", 1)
    metastore, complete = metastore_of(hive=Generation.HIVE4, highest=3), objects.own_uploads.complete

    def lose(location: str, uploads: Sequence[Upload]) -> None:
        complete(location, uploads)
        _abort(metastore)

    monkeypatch.setattr(objects.own_uploads, "complete", lose)
    with pytest.raises(JobError) as lost:
        run(metastore, place, Store())
    assert lost.value.reason is Reason.TRANSACTION_LOST
    assert objects.own_uploads.steps.count("complete") == 1


def test_a_metastore_that_fails_before_the_journal_leaves_no_uploads(place: Path, objects: ObjectStore) -> None:
    """No other process knows their ids."""
    metastore, store = metastore_of(hive=Generation.HIVE4, highest=3), Store()

    def fail(*_: object) -> None:
        raise MetastoreUnavailable("connection refused")

    metastore.on("heartbeat_txn", fail)
    with pytest.raises(MetastoreError):
        run(metastore, place, store)
    assert (objects.own_uploads.begun, objects.own_uploads.pending, store.resources) == (2, {}, {})


def test_an_upload_that_was_aborted_meanwhile_ends_the_attempt_before_the_commit(
    place: Path, objects: ObjectStore
) -> None:
    """A driver that wakes up after the controller has ended its attempt."""
    metastore = metastore_of(hive=Generation.HIVE4, highest=3)

    with pytest.raises(JobError) as changed:
        run(metastore, place, Store(on_create=objects.own_uploads.pending.clear))
    assert changed.value.reason is Reason.TABLE_CHANGED
    assert metastore.outcomes() == {101: ABORTED}
    assert queue_states(metastore) == {1: "failed"}


def test_uploads_of_dead_compactions_are_aborted_and_those_of_writers_are_not(
    place: Path, objects: ObjectStore
) -> None:
    """A driver that died before its journal was written leaves uploads that no resource names."""
    source, base = str(place / sorted(DELTAS)[0] / "bucket_00000_0"), "base_0000002_v0000007/bucket_00000"
    written, staged = "delta_0000009_0000009_0000/bucket_00000", "_compaction_0f8c-1-dead/tasks/bucket_00000"
    objects.uploads.begin(str(place), {base: source, written: source, staged: source})
    assert run(metastore_of(hive=Generation.HIVE4, highest=3), place, Store()) is Reason.COMPACTED
    assert [name for name, _ in objects.uploads.pending.values()] == [f"{place}/{written}"]


def test_a_failed_commit_leaves_completed_files_to_the_controller(place: Path, objects: ObjectStore) -> None:
    """A reader may be listing them. What was begun and not completed is aborted."""
    metastore = metastore_of(hive=Generation.HIVE4, highest=3)

    def lose(*_: object) -> None:
        raise TransactionLost("gone")

    metastore.on("commit_txn", lose)
    with pytest.raises(JobError):
        run(metastore, place, Store())
    assert visible(place) == {OUTPUT}
    assert objects.own_uploads.pending == {}


def test_a_store_that_lacks_what_uploads_need_is_refused_by_the_driver_too(place: Path, objects: ObjectStore) -> None:
    """A partition may be in another bucket than its table, which the preflight does not look at."""
    objects.own_uploads.shortcoming = "an upload that was aborted is completed"
    store = Store()
    with pytest.raises(JobError, match="an upload that was aborted is completed") as refused:
        run(metastore_of(hive=Generation.HIVE4, highest=3), place, store)
    assert refused.value.reason is Reason.UNSUPPORTED_TABLE
    assert (visible(place), objects.own_uploads.begun, store.resources) == (set(), 0, {})


def test_hive_3_publishes_nothing_without_renames(place: Path, objects: ObjectStore) -> None:
    """Its readers count a directory from its first file on."""
    store = Store()
    with pytest.raises(JobError, match="first file on") as refused:
        run(metastore_of(hive=Generation.HIVE3, highest=3), place, store)
    assert refused.value.reason is Reason.UNSUPPORTED_TABLE
    assert (visible(place), objects.own_uploads.begun, store.resources) == (set(), 0, {})
