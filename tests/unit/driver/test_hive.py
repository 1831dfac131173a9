"""The job's flow over real files, with a metastore that says yes: what one partition's trouble does to the others."""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from compaction_operator.acid.write_ids import ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.progress import Progress
from compaction_operator.api.request import WAITING_REASONS, DriverResult, Reason
from compaction_operator.cleanup.fence import fence, retire
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import JobError, Unstopped
from compaction_operator.driver.hive import flow as hive
from compaction_operator.driver.hive import hive3, overlaps, pair
from compaction_operator.driver.hive import older_snapshots as older
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.driver_locks import Locks
from compaction_operator.driver.hive.flow import HiveCompaction, Tally
from compaction_operator.driver.hive.hive3 import Hive3
from compaction_operator.driver.hive.journal import Journal, JournalRefused
from compaction_operator.driver.merge import partition
from compaction_operator.driver.merge import row_counts as arithmetic
from compaction_operator.driver.merge.runner import Done, LocalRunner, Outcome
from compaction_operator.driver.merge.tasks import SizedTask
from compaction_operator.driver.stages import Stages
from compaction_operator.metastore import LockKind, MetastoreUnavailable, QueueEntry, QueueState, Target
from compaction_operator.orc import MergeTask
from compaction_operator.storage import LocalStorage, StorageError
from tests.support.metastore import FakeMetastore
from tests.support.row_types import give_former_name
from tests.unit.driver.support import (
    IDENTITY,
    REQUEST,
    TABLE,
    Reports,
    Store,
    know_partitions,
    metastore_of,
    partition_of,
    script_open_transactions,
)

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hive-3.1.3"
THREE_INSERTS = FIXTURES / "table_txn_001" / "before"
CRDS = Path(__file__).parents[3] / "crds"
UNION = "HIVE_UNION_SUBDIR_1"
OTHERS = "_compaction_0a1b2c3d-9-22222222"
GUARD = "base_-9223372036854775808"
HIGHEST_TXN = 40
ROW = "struct<id:int,name:string>"


def hive3_metastore(*opened: tuple[int, ...]) -> FakeMetastore:
    """Three write ids are committed; `opened` are the transactions that are open, by the number of the question."""
    metastore = metastore_of()
    script_open_transactions(metastore, *(opened or ((),)), marks=count(HIGHEST_TXN))
    return metastore


def converted(*opened: tuple[int, ...]) -> FakeMetastore:
    """A table that was not ACID before: its write ids begin at 10000001."""
    metastore = hive3_metastore(*opened)
    metastore.set_write_ids(f"{TABLE}:10000003:{2**63 - 1}::")
    return metastore


def with_deletes() -> FakeMetastore:
    metastore = hive3_metastore()
    write_ids = ValidWriteIdList.parse((FIXTURES / "types" / "writeids-minor-before.txt").read_text())
    metastore.write_ids[TABLE] = replace(write_ids, table=TABLE)
    return metastore


def snapshots_asked(metastore: FakeMetastore) -> list[str]:
    """Return the calls for write ids and open transactions."""
    return [call.name for call in metastore.calls if call.name in {"valid_write_ids", "open_transactions"}]


class Held:
    """Locks that are always granted; `lost` at publication."""

    def __init__(self, *, lost: bool = False) -> None:
        self.lost = lost
        self.held = 0

    lock_id = 1

    def share(self) -> None:
        self.held += 1

    def release(self) -> None:
        self.held = 0

    @contextmanager
    def exclusive(self, partition: str | None) -> Iterator[None]:
        yield

    def guard(self) -> None:
        if self.lost:
            raise JobError(Reason.LOCK_LOST, "metastore lock 1 is gone")


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("p1", "p2"):
        shutil.copytree(THREE_INSERTS, tmp_path / name)
    return tmp_path / "p1", tmp_path / "p2"


def run(
    *locations: Path | str,
    locks: Held | Locks | None = None,
    store: Store | None = None,
    metastore: FakeMetastore | None = None,
    reports: Reports | None = None,
    runner: LocalRunner | None = None,
    row: str | None = None,
    kind: CompactionType = CompactionType.MAJOR,
    stages: Stages | None = None,
) -> DriverResult:
    request = REQUEST.model_copy(update={"type": kind})
    metastore = metastore or hive3_metastore()
    attempt = DriverContext(metastore.client(), request, "pod1", IDENTITY, row)
    protocol = Hive3(attempt, cast(Locks, locks or Held()))
    compaction = HiveCompaction(protocol, runner=runner or LocalRunner(), report=reports or Reports(), stages=stages)
    targets = [Target(f"prt={number}", str(place), 1) for number, place in enumerate(locations)]
    know_partitions(metastore, targets)
    return compaction.run(targets, Journal(store or Store(), attempt))


def names(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()} - {path.name for path in THREE_INSERTS.iterdir()}


def failed(
    *locations: Path | str,
    locks: Held | Locks | None = None,
    store: Store | None = None,
    metastore: FakeMetastore | None = None,
    kind: CompactionType = CompactionType.MAJOR,
) -> JobError:
    with pytest.raises(JobError) as caught:
        run(*locations, locks=locks, store=store, metastore=metastore, kind=kind)
    return caught.value


def entry(partition: str | None, state: QueueState = QueueState.WORKING) -> QueueEntry:
    return QueueEntry(
        queue_id=7, database="sales", table="orders", partition=partition, state=state, worker="hive-worker-3"
    )


@pytest.mark.parametrize("partition", [None, "PRT=0"])
def test_a_table_that_another_client_compacts_is_left_alone(
    partition: str | None, places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is written, staging too; whose entry it is, is said."""
    monkeypatch.setattr(hive, "make_staging", lambda *_: pytest.fail("it begins"))
    metastore = hive3_metastore()
    metastore.queue = (entry(partition),)
    error = failed(*places, metastore=metastore)
    assert error.reason is Reason.IN_COMPACTION_QUEUE
    assert "entry 7" in str(error)
    assert "(working, worker hive-worker-3)" in str(error)
    assert [names(place) for place in places] == [set(), set()]


def test_entries_of_other_partitions_and_ended_ones_do_not_matter(places: tuple[Path, Path]) -> None:
    metastore = hive3_metastore()
    metastore.queue = (entry("prt=9"), entry("prt=0", QueueState.READY_FOR_CLEANING), entry(None, QueueState.FAILED))
    assert run(*places, metastore=metastore).reason is Reason.COMPACTED


def test_a_compaction_that_hive_began_meanwhile_is_not_raced(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H23: Hive's own Worker, which takes no notice of ours, would publish what it planned before."""
    metastore = hive3_metastore()
    verify = arithmetic.verify

    def begun(*arguments: Any) -> None:
        verify(*arguments)
        metastore.queue = (entry("prt=0"),)

    monkeypatch.setattr(hive, "verify", begun)
    store = Store()
    assert failed(*places, metastore=metastore, store=store).reason is Reason.IN_COMPACTION_QUEUE
    assert {name for place in places for name in names(place) if not name.startswith("_")} == set()
    assert store.resources == {}


def test_the_stages_of_an_attempt_have_their_times(places: tuple[Path, Path]) -> None:
    stages = Stages()
    run(*places, stages=stages)
    assert list(stages.times()) == ["plan", "merge", "verify", "publish"]


def test_all_partitions_are_published(places: tuple[Path, Path]) -> None:
    assert run(*places).reason is Reason.COMPACTED
    assert [names(place) for place in places] == [{"base_0000003"}] * 2


def test_a_partition_on_a_storage_that_is_not_supported_leaves_the_others_alone(places: tuple[Path, Path]) -> None:
    error = failed("gs://bucket/warehouse/p0", *places)
    assert error.reason is Reason.UNREADABLE_FILE
    assert "'gs' is not supported" in str(error)
    assert [names(place) for place in places] == [{"base_0000003"}] * 2


@pytest.mark.parametrize("call", ["assemble", "publish"])
def test_a_disk_that_fails_one_partition_leaves_the_others_alone(
    call: str, places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LocalStorage.publish

    def publish(self: LocalStorage, source: str, target: str) -> None:
        assembling = "/_compaction_" in target
        if target.startswith(str(places[0])) and assembling == (call == "assemble"):
            raise StorageError(f"{target}: No space left on device")
        real(self, source, target)

    monkeypatch.setattr(LocalStorage, "publish", publish)
    assert "No space left" in str(failed(*places))
    assert [names(place) for place in places] == [set(), {"base_0000003"}]


@pytest.fixture
def many(tmp_path: Path) -> list[Path]:
    return [Path(shutil.copytree(THREE_INSERTS, tmp_path / f"p{number}")) for number in range(6)]


def _silent(monkeypatch: pytest.MonkeyPatch, method: str, unanswered: Callable[[str], bool]) -> list[str]:
    """Let calls of a method have no answer, if the last path says so; return those paths as they come."""
    real, asked = getattr(LocalStorage, method), list[str]()

    def call(self: LocalStorage, *paths: str) -> object:
        if not unanswered(paths[-1]):
            return real(self, *paths)
        asked.append(paths[-1])
        raise StorageError(f"{paths[-1]}: no answer for 60 s", passing=True)

    monkeypatch.setattr(LocalStorage, method, call)
    return asked


@pytest.mark.parametrize(
    ("method", "name"), [("make_directory", "_compaction"), ("publish", "bucket_00000"), ("rename", "base_0000003")]
)
def test_a_storage_that_does_not_answer_is_not_asked_for_each_partition(
    method: str, name: str, many: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are 500 in a batch, and each would take the whole time-out while the lock is held."""
    asked = _silent(monkeypatch, method, lambda path: Path(path).name.startswith(name))
    removed = _silent(monkeypatch, "delete_tree", lambda _: bool(asked))
    error = failed(*many)
    assert (error.reason, error.reason in WAITING_REASONS) == (Reason.STORAGE_UNAVAILABLE, True)
    assert {Path(path).relative_to(many[0].parent).parts[0] for path in asked + removed} == {"p0", "p1"}
    assert not any((place / "base_0000003").exists() for place in many)


def test_a_partition_that_alone_gets_no_answer_keeps_no_other_from_being_compacted(
    many: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _silent(monkeypatch, "make_directory", lambda path: path.startswith(f"{many[0]}/"))
    assert failed(*many).reason is Reason.STORAGE_UNAVAILABLE
    assert [bases(place) for place in many] == [[], *[["base_0000003"]] * (len(many) - 1)]


class AsTheCrdSays(Store):
    """Refuses what the names' pattern in the CRD refuses, or in one that was left behind by an older version."""

    def __init__(self, pattern: str | None = None) -> None:
        super().__init__()
        written = yaml.safe_load((CRDS / "compaction.dev_compactioncleanups.yaml").read_text())
        spec = written["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        entry = spec["properties"]["partitions"]["items"]["properties"]
        self._pattern = pattern or entry["obsolete"]["items"]["properties"]["name"]["pattern"]

    def create(self, namespace: str, body: dict[str, Any]) -> bool:
        for name in (one["name"] for part in body["spec"]["partitions"] for one in part["obsolete"]):
            if not re.search(self._pattern, name):
                raise JournalRefused(
                    Reason.DRIVER_FAILED, f"journal not created: 422 Invalid: {name!r} should match {self._pattern!r}"
                )
        return super().create(namespace, body)


@pytest.fixture
def union(tmp_path: Path) -> Path:
    """A table that was filled by a UNION ALL before it was ACID; its write ids begin at 10000001."""
    place = Path(shutil.copytree(FIXTURES / "original" / "before", tmp_path / "union"))
    (place / UNION).mkdir()
    for file in list(place.glob("0*_0")):
        file.rename(place / UNION / file.name)
    return place


def test_what_a_union_all_left_behind_is_recorded_and_compacted(union: Path) -> None:
    store = AsTheCrdSays()
    assert run(union, store=store, metastore=converted()).reason is Reason.COMPACTED
    assert UNION in obsolete_in(store)
    assert bases(union) == ["base_10000003"]


def test_a_partition_that_the_api_server_refuses_leaves_the_others_alone(
    union: Path, places: tuple[Path, Path]
) -> None:
    """Nothing is published of it, and the message says which name it was about."""
    store = AsTheCrdSays(pattern="^((base|delta|delete_delta)_[^/]+|[0-9]+_[0-9]+[^/]*)$")
    error = failed(union, *places, store=store, metastore=converted())
    assert error.reason is Reason.DRIVER_FAILED
    assert str(union) in str(error)
    assert f"'{UNION}' should match" in str(error)
    assert bases(union) == []
    assert [names(place) for place in places] == [{"base_0000003"}] * 2


def test_staging_that_cannot_be_removed_does_not_hide_the_failure(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(*_: object) -> None:
        raise StorageError("Read-only file system")

    monkeypatch.setattr(hive, "retire", stuck)
    store = Store(on_create=lambda: shutil.rmtree(places[0] / "delta_0000002_0000002_0000"))
    error = failed(*places, store=store)
    assert error.reason is Reason.TABLE_CHANGED
    assert names(places[1]) == {"base_0000003"}


def test_a_driver_that_lost_its_lock_leaves_its_successors_staging(places: tuple[Path, Path]) -> None:
    """H19: it was paused; meanwhile the next attempt has begun."""
    locks = Held()

    def superseded() -> None:
        locks.lost = True
        (places[0] / OTHERS).mkdir()

    assert failed(*places, locks=locks, store=Store(on_create=superseded)).reason is Reason.LOCK_LOST
    assert names(places[0]) == {OTHERS}


def test_a_driver_whose_lock_went_while_it_merged_writes_no_journal(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H19: its attempt is settled, perhaps, and the next one has begun."""
    locks, store, verify = Held(), Store(), arithmetic.verify

    def paused(*arguments: Any) -> None:
        verify(*arguments)
        locks.lost = True

    monkeypatch.setattr(hive, "verify", paused)
    assert failed(*places, locks=locks, store=store).reason is Reason.LOCK_LOST
    assert store.resources == {}


@pytest.mark.parametrize(
    ("reasons", "verdict"),
    [
        ([Reason.UNSUPPORTED_TABLE, Reason.WAITING_FOR_EXCLUSIVE_LOCK], Reason.WAITING_FOR_EXCLUSIVE_LOCK),
        ([Reason.UNSUPPORTED_TABLE, Reason.TABLE_CHANGED], Reason.TABLE_CHANGED),
        ([Reason.WAITING_FOR_EXCLUSIVE_LOCK, Reason.VERIFICATION_FAILED], Reason.VERIFICATION_FAILED),
        ([Reason.UNSUPPORTED_TABLE], Reason.UNSUPPORTED_TABLE),
    ],
)
def test_the_attempt_ends_with_the_reason_that_another_attempt_can_mend(reasons: list[Reason], verdict: Reason) -> None:
    tally = Tally()
    for reason in reasons:
        tally.fail(JobError(reason, reason))
    with pytest.raises(JobError) as caught:
        tally.result()
    assert caught.value.reason is verdict


def test_of_two_drivers_at_once_the_later_fence_finds_the_other_one(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H4, H23: a driver paused after its listing already has staging, so the fence of a later driver stops it."""
    place = places[0]
    prepare = partition.prepare

    def paused(*arguments: Any, **options: Any) -> Any:
        prepared = prepare(*arguments, **options)
        fence(LocalStorage(), str(place), keep=None)
        return prepared

    monkeypatch.setattr(hive3, "prepare", paused)
    failed(place)
    assert names(place) == set()


def test_a_fenced_driver_does_not_bring_its_staging_back(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = places[0]
    verify = arithmetic.verify

    def fenced(*arguments: Any) -> None:
        verify(*arguments)
        fence(LocalStorage(), str(place), keep=None)

    monkeypatch.setattr(hive, "verify", fenced)
    failed(place)
    assert names(place) == set()


def test_nothing_to_compact_leaves_no_staging(places: tuple[Path, Path]) -> None:
    run(places[0])
    published = names(places[0])
    again = run(places[0])
    assert again.reason is Reason.NOTHING_TO_COMPACT
    assert again.message == "nothing to compact: prt=0: there is no delta above base_0000003"
    assert names(places[0]) == published == {"base_0000003"}


def test_many_partitions_go_in_batches_each_with_its_own_lock_and_journal(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one batch published is safe whatever becomes of the next."""
    monkeypatch.setattr(Hive3, "batch_partitions", 1)
    store, held = Store(), Held()
    broken = places[1] / "delta_0000001_0000001_0000" / "bucket_00000"
    broken.write_bytes(b"ORC")
    assert failed(*places, locks=held, store=store).reason is Reason.UNREADABLE_FILE
    assert names(places[0]) == {"base_0000003"}
    assert names(places[1]) == set()
    assert len(store.resources) == 1


def obsolete_in(store: Store) -> set[str]:
    (resource,) = store.resources.values()
    return {entry["name"] for part in resource["spec"]["partitions"] for entry in part["obsolete"]}


def test_a_first_base_is_guarded_while_an_older_transaction_is_open(places: tuple[Path, Path]) -> None:
    """H24: its reader may look again; the guard is in the journal, and so goes when the reader has gone."""
    store, metastore = Store(), hive3_metastore((7,))
    run(*places, store=store, metastore=metastore)
    assert [names(place) for place in places] == [{GUARD, "base_0000003"}] * 2
    assert GUARD in obsolete_in(store)
    assert snapshots_asked(metastore)[:2] == ["valid_write_ids", "open_transactions"]


def test_no_guard_for_those_who_came_later_or_have_gone(places: tuple[Path, Path]) -> None:
    """The merging takes its time: most readers from before have gone by then."""
    store = Store()
    run(places[0], store=store, metastore=hive3_metastore((7,), (HIGHEST_TXN + 1,)))
    assert names(places[0]) == {"base_0000003"}
    assert GUARD not in obsolete_in(store)


def test_the_next_major_needs_no_guard(places: tuple[Path, Path]) -> None:
    """Nor does it ask: its base is not the first."""
    run(places[0], metastore=hive3_metastore((7,)))
    again = hive3_metastore((7,))
    assert run(places[0], metastore=again).reason is Reason.NOTHING_TO_COMPACT
    assert snapshots_asked(again) == ["valid_write_ids"]


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """A table with files from before it was ACID; its write ids begin at 10000001."""
    return Path(shutil.copytree(FIXTURES / "original" / "before", tmp_path / "original"))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(older, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(older, "POLL_SECONDS", 0.001)


def bases(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if path.name.startswith(("base", "_compaction")))


def test_with_originals_nothing_is_published_while_an_older_transaction_is_open(
    original: Path, impatient: None
) -> None:
    """H24: a guard would hide them. Whom it waits for is said, and the staging of what waits is given up."""
    error = failed(original, metastore=converted((7,)))
    assert error.reason is Reason.WAITING_FOR_OPEN_TRANSACTIONS
    assert "transaction 7 of alice@desk" in str(error)
    assert bases(original) == []


def test_with_originals_the_base_is_published_once_they_have_gone(original: Path) -> None:
    store = Store()
    run(original, store=store, metastore=converted((7,), ()))
    assert bases(original) == ["base_10000003"]
    assert GUARD not in obsolete_in(store)


def test_a_partition_that_waits_holds_up_no_other(original: Path, places: tuple[Path, Path], impatient: None) -> None:
    """The others are guarded and published."""
    failed(original, places[0], metastore=converted((7,)))
    assert bases(original) == []
    assert names(places[0]) == {GUARD, "base_0000003"}


def test_a_metastore_that_does_not_say_who_is_there_ends_the_attempt(places: tuple[Path, Path]) -> None:
    """H13, H24: an error does not count as no open transactions."""
    metastore = hive3_metastore()
    metastore.fail(MetastoreUnavailable("no answer"), "open_transactions")
    with pytest.raises(MetastoreUnavailable):
        run(places[0], metastore=metastore)
    assert {name for name in names(places[0]) if not name.startswith("_")} == set()


def test_progress_ends_with_everything_and_never_goes_back(places: tuple[Path, Path]) -> None:
    """Bytes advance within a batch; each partition counts, whether it was published or had nothing to do."""
    reports = Reports()
    run(*places, reports=reports)
    size = sum(path.stat().st_size for place in places for path in place.glob("delta_*/bucket_*"))
    last = reports.said[-1]
    assert last == Progress(partitions_done=2, partitions_total=2, bytes_done=size, bytes_total=size)
    steps = [(said.bytes_done, said.partitions_done) for said in reports.said]
    assert steps == sorted(steps)
    assert any(0 < said.bytes_done < size for said in reports.said)
    assert reports.batches == 1


def test_a_partition_with_nothing_to_do_is_done(places: tuple[Path, Path]) -> None:
    """Only the other one's bytes are there to be merged."""
    run(places[0])
    for merged in THREE_INSERTS.iterdir():
        shutil.rmtree(places[0] / merged.name)
    reports = Reports()
    run(*places, reports=reports)
    size = sum(path.stat().st_size for path in places[1].glob("delta_*/bucket_*"))
    assert (reports.said[-1].partitions_done, reports.said[-1].bytes_done) == (2, size)


@pytest.mark.parametrize("location", ["hdfs://nn/warehouse/p0", "/no/such/place"])
def test_partitions_that_fail_are_not_done(location: str, places: tuple[Path, Path]) -> None:
    """A failed compaction never shows 100%."""
    reports = Reports()
    with pytest.raises(JobError):
        run(location, places[0], reports=reports)
    assert reports.said[-1].partitions_done == 1
    assert reports.said[-1].percent < 100


def test_tasks_get_the_tables_row_and_the_profiles_memory(places: tuple[Path, Path]) -> None:
    """From the metastore and from the Helm values."""

    class Listening(LocalRunner):
        def run(self, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
            tasks.extend(piece.task for piece in work if isinstance(piece.task, MergeTask))
            return super().run(work, done)

    tasks: list[MergeTask] = []
    run(places[0], runner=Listening(), row=ROW)
    assert [(task.row_type, task.memory) for task in tasks] == [(ROW, REQUEST.profile.task_memory)]


def test_a_task_that_loses_a_row_publishes_nothing_and_says_where(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H18."""

    class Losing(LocalRunner):
        def run(self, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
            outcomes = super().run(work, done)
            for number, outcome in enumerate(outcomes[:1]):
                assert outcome.result is not None
                outcomes[number] = replace(
                    outcome, result=replace(outcome.result, rows_out=outcome.result.rows_out - 1)
                )
            return outcomes

    with pytest.raises(JobError, match="p1: base_0000003/bucket_00000: 3 rows in, 0 deleted, 2 out") as caught:
        run(*places, runner=Losing())
    assert caught.value.reason is Reason.VERIFICATION_FAILED
    assert [names(place) for place in places] == [set(), {"base_0000003"}]


def swapped(metastore: FakeMetastore) -> None:
    """The table is renamed, and another takes its name: its write ids are others, the old places are not its."""
    metastore.alter_table(TABLE, create_time=IDENTITY.create_time + 1)


def test_a_table_that_another_takes_the_name_of_before_the_lock_is_not_touched(places: tuple[Path, Path]) -> None:
    """Its files would be judged by the other's write ids: rows that were rolled back would come to light."""
    metastore, store = hive3_metastore(), Store()
    swapped(metastore)
    error = failed(*places, metastore=metastore, store=store)
    assert error.reason is Reason.TABLE_CHANGED
    assert "table sales.orders was dropped and created again" in str(error)
    assert [names(place) for place in places] == [set(), set()]
    assert (store.resources, snapshots_asked(metastore)) == ({}, [])


def test_between_two_batches_too(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first one published is right."""
    monkeypatch.setattr(Hive3, "batch_partitions", 1)
    metastore = hive3_metastore()
    store = Store(on_create=lambda: swapped(metastore))
    assert failed(*places, metastore=metastore, store=store).reason is Reason.TABLE_CHANGED
    assert [names(place) for place in places] == [{"base_0000003"}, set()]


def test_a_table_that_is_swapped_while_it_is_merged_gets_no_journal_and_nothing_is_published(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    metastore, store, verify = hive3_metastore(), Store(), arithmetic.verify

    def meanwhile(*arguments: Any) -> None:
        verify(*arguments)
        swapped(metastore)

    monkeypatch.setattr(hive, "verify", meanwhile)
    assert failed(*places, metastore=metastore, store=store).reason is Reason.TABLE_CHANGED
    assert store.resources == {}
    assert [names(place) for place in places] == [set(), set()]  # nothing finds the staging again by the old name


@pytest.mark.parametrize(
    ("become", "says"),
    [({"create_time": 2}, "dropped and created again"), ({"location": "/elsewhere"}, "moved from"), (None, "dropped")],
)
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_partition_that_is_another_one_by_now_is_given_up_alone(
    when: str,
    become: dict[str, Any] | None,
    says: str,
    places: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metastore, store, verify = hive3_metastore(), Store(), arithmetic.verify
    known = [Target(f"prt={number}", str(place), 1) for number, place in enumerate(places)]
    know_partitions(metastore, known)

    def change(*arguments: Any) -> None:
        if arguments:
            verify(*arguments)
        metastore.partitions[TABLE].pop("prt=0", None)
        if become:
            metastore.partitions[TABLE]["prt=0"] = partition_of(replace(known[0], **become))

    if when == "before":
        change()
    monkeypatch.setattr(hive, "verify", change)
    error = failed(*places, metastore=metastore, store=store)
    assert (error.reason, says in str(error)) == (Reason.TABLE_CHANGED, True)
    assert [names(place) for place in places] == [set(), {"base_0000003"}]
    (journal,) = store.resources.values()
    assert [entry["partition"] for entry in journal["spec"]["partitions"]] == ["prt=1"]


WORKERS_FOLDER = "_tmp_0f8fad5b-d9cb-469f-a165-70867728950e"


def test_a_compaction_that_hive_begins_after_the_journal_is_not_raced(places: tuple[Path, Path]) -> None:
    """H23: it is asked for right before each rename; only the partition that Hive works at is given up."""
    metastore = hive3_metastore()

    def begins() -> None:
        metastore.queue = (entry("prt=0"),)

    error = failed(*places, metastore=metastore, store=Store(on_create=begins))
    assert error.reason is Reason.IN_COMPACTION_QUEUE
    assert "entry 7" in str(error)
    assert [names(place) for place in places] == [set(), {"base_0000003"}]


def test_what_the_queue_said_serves_for_a_second(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """H23: a batch may take hours to publish, and Hive may begin at any moment of that."""
    metastore, now = hive3_metastore(), [0.0]

    def begins() -> None:
        now[0] += 1.1
        metastore.queue = (entry("prt=1"),)

    monkeypatch.setattr(overlaps, "time", SimpleNamespace(monotonic=lambda: now[0]))
    publishing(monkeypatch, "base_0000003", begins)
    assert failed(*places, metastore=metastore).reason is Reason.IN_COMPACTION_QUEUE
    assert [names(place) for place in places] == [{"base_0000003"}, set()]


@pytest.mark.parametrize("when", ["before the merging", "after the journal"])
def test_a_partition_that_a_worker_writes_in_is_left_alone(when: str, places: tuple[Path, Path]) -> None:
    """H23: also if the queue has no entry of it any more. A folder with a similar name does not count."""
    (places[1] / "_tmp_space.db").mkdir()
    store = Store(on_create=lambda: (places[0] / WORKERS_FOLDER).mkdir(exist_ok=True))
    if when == "before the merging":
        (places[0] / WORKERS_FOLDER).mkdir()
    error = failed(*places, store=store)
    assert error.reason is Reason.IN_COMPACTION_QUEUE
    assert WORKERS_FOLDER in str(error)
    assert names(places[0]) == {WORKERS_FOLDER}
    (journal,) = store.resources.values()
    assert len(journal["spec"]["partitions"]) == (1 if when == "before the merging" else 2)
    assert "base_0000003" in names(places[1])


def publishing(monkeypatch: pytest.MonkeyPatch, name: str, then: Callable[[], object]) -> None:
    """Have something happen right after an output was renamed into its place."""
    real = LocalStorage.publish

    def publish(self: LocalStorage, source: str, target: str) -> None:
        real(self, source, target)
        if target.endswith(f"p1/{name}"):
            then()

    monkeypatch.setattr(LocalStorage, "publish", publish)


def test_what_hives_worker_publishes_across_ours_is_found_and_named(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H23: it had listed before our rename; from then on rows count twice, and only a person can mend that."""
    worker = places[0] / "delta_0000001_0000005"
    publishing(monkeypatch, "base_0000003", lambda: shutil.copytree(places[0] / "delta_0000001_0000001_0000", worker))
    error = failed("/no/such/place", *places)
    assert error.reason is Reason.OVERLAPPED
    assert "base_0000003 and delta_0000001_0000005 overlap" in str(error)
    assert names(places[1]) == {"base_0000003"}


def test_an_overlap_that_an_earlier_attempt_had_no_time_to_find_is_named(places: tuple[Path, Path]) -> None:
    """H23: that driver was killed right after its rename. No further attempt can help, and nothing is published."""
    run(places[0])
    shutil.copytree(places[0] / "delta_0000001_0000001_0000", places[0] / "delta_0000001_0000005")
    metastore = hive3_metastore()
    metastore.set_write_ids(f"{TABLE}:5:{2**63 - 1}::")
    error = failed(places[0], metastore=metastore)
    assert error.reason is Reason.OVERLAPPED
    assert "base_0000003 and delta_0000001_0000005 overlap" in str(error)
    assert names(places[0]) == {"base_0000003", "delta_0000001_0000005"}


def test_what_else_fails_where_directories_overlap_is_tried_again(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk says nothing of the rows."""

    class Full(LocalRunner):
        def run(self, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
            return [Outcome(piece.task.output, error="No space left on device") for piece in work]

    _overlap(places[0])
    with pytest.raises(JobError, match="No space left on device") as caught:
        run(places[0], runner=Full())
    assert caught.value.reason is Reason.UNREADABLE_FILE


def test_a_delta_that_begins_below_a_base_and_doubles_nothing_is_compacted(places: tuple[Path, Path]) -> None:
    """A streaming client's: Hive's compactor passes it over until its last write id has ended."""
    _overlap(places[0])
    assert run(places[0]).reason is Reason.COMPACTED


def _overlap(place: Path) -> None:
    """Let a delta begin below a base, without a row that both have."""
    (place / "delta_0000001_0000001_0000").rename(place / "base_0000001")
    (place / "delta_0000002_0000002_0000").rename(place / "delta_0000001_0000003")
    shutil.rmtree(place / "delta_0000003_0000003_0000")


@pytest.mark.parametrize("name", ["delta_0000001_0000002", "base_0000005", "delta_0000004_0000005"])
def test_what_holds_all_of_ours_or_none_beyond_it_is_no_overlap(
    name: str, places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    publishing(
        monkeypatch,
        "base_0000003",
        lambda: shutil.copytree(places[0] / "delta_0000001_0000001_0000", places[0] / name),
    )
    assert run(*places).reason is Reason.COMPACTED


def test_a_worker_that_is_at_work_right_after_the_rename_may_have_listed_before(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    metastore = hive3_metastore()

    def begins() -> None:
        metastore.queue = (entry("prt=0"), entry("prt=1", QueueState.INITIATED))

    publishing(monkeypatch, "base_0000003", begins)
    monkeypatch.setattr(overlaps, "FRESH_SECONDS", 1e9)
    error = failed(*places, metastore=metastore)
    assert error.reason is Reason.OVERLAPPED
    assert "Hive was at work when base_0000003 was published" in str(error)
    assert "more partitions" not in str(error)


def test_what_a_worker_has_just_published_is_listed_when_the_queue_says_that_it_has_ended(
    places: tuple[Path, Path],
) -> None:
    """H23: the queue is asked first. What a Worker publishes after a listing is missing from that."""
    metastore = hive3_metastore()

    def end(*_: str) -> None:
        if (places[0] / "base_0000003").exists():
            shutil.copytree(places[0] / "delta_0000001_0000001_0000", places[0] / "delta_0000001_0000005")

    metastore.on("compactions", end)
    assert failed(places[0], metastore=metastore).reason is Reason.OVERLAPPED


TYPES = FIXTURES / "types" / "before"


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[Path, Path]:
    """Two partitions; a minor compaction publishes a delta and a delete_delta in each."""
    one, other = (Path(shutil.copytree(TYPES, tmp_path / name)) for name in ("p1", "p2"))
    return one, other


class Waited(Held):
    """Something happens while the first EXCLUSIVE lock is waited for; `locked` are the partitions that had one."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self.locked: list[str | None] = []
        self._meanwhile = meanwhile

    @contextmanager
    def exclusive(self, partition: str | None) -> Iterator[None]:
        self.locked.append(partition)
        if len(self.locked) == 1:
            self._meanwhile()
        yield


def published(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()} - {path.name for path in TYPES.iterdir()}


def test_a_pair_of_a_table_that_was_renamed_while_its_lock_was_waited_for_is_not_published(
    pairs: tuple[Path, Path],
) -> None:
    """Those who wait for an EXCLUSIVE lock before the driver have their turn first."""
    metastore = with_deletes()
    locks = Waited(lambda: swapped(metastore))
    error = failed(*pairs, metastore=metastore, locks=locks, kind=CompactionType.MINOR)
    assert error.reason is Reason.TABLE_CHANGED
    assert locks.locked == ["prt=0"]  # whose readers would wait next is another table's
    assert published(pairs[0]) == set()


def test_a_pair_of_a_partition_that_was_created_again_meanwhile_is_given_up_alone(pairs: tuple[Path, Path]) -> None:
    metastore = with_deletes()
    again = partition_of(Target("prt=0", str(pairs[0]), 2))
    locks = Waited(lambda: metastore.partitions[TABLE].update({"prt=0": again}))
    error = failed(*pairs, metastore=metastore, locks=locks, kind=CompactionType.MINOR)
    assert (error.reason, "dropped and created again" in str(error)) == (Reason.TABLE_CHANGED, True)
    assert [len(published(place)) for place in pairs] == [0, 2]


@pytest.mark.parametrize("what", ["entry", "folder"])
def test_a_pair_is_not_published_where_hive_began_while_its_lock_was_waited_for(
    what: str, pairs: tuple[Path, Path]
) -> None:
    """H23: minutes may have gone by since the journal; Hive's Worker takes no notice of locks."""
    metastore = with_deletes()

    def begins() -> None:
        if what == "entry":
            metastore.queue = (entry("prt=0"),)
        else:
            (pairs[0] / WORKERS_FOLDER).mkdir()

    error = failed(*pairs, metastore=metastore, locks=Waited(begins), kind=CompactionType.MINOR)
    assert error.reason is Reason.IN_COMPACTION_QUEUE
    assert published(pairs[0]) == (set() if what == "entry" else {WORKERS_FOLDER})
    assert len(published(pairs[1])) == 2


def test_a_pair_whose_second_rename_fails_is_completed_before_a_reader_can_start(
    pairs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3: the disk fails once between the two renames. The driver releases the EXCLUSIVE lock after both halves."""
    place, real = pairs[0], LocalStorage.publish
    failures = ["Input/output error"]
    when_readers_come: list[set[str]] = []

    def publish(self: LocalStorage, source: str, target: str) -> None:
        if failures and Path(target).parent == place and Path(target).name.startswith("delete_delta_"):
            raise StorageError(f"{target}: {failures.pop()}")
        real(self, source, target)

    class Watched(Held):
        @contextmanager
        def exclusive(self, partition: str | None) -> Iterator[None]:
            try:
                yield
            finally:
                when_readers_come.append({name.rpartition("delta_")[0] for name in published(place)})

    monkeypatch.setattr(LocalStorage, "publish", publish)
    error = failed(place, metastore=with_deletes(), locks=Watched(), kind=CompactionType.MINOR)
    assert "Input/output error" in str(error)
    assert when_readers_come == [{"", "delete_"}]


NO_ANSWER = "no answer from the NameNode"


class Outage:
    """A NameNode that does not answer for `calls` calls right after the first rename of a partition's pair."""

    def __init__(
        self, place: Path, monkeypatch: pytest.MonkeyPatch, *, calls: float = float("inf"), passing: bool = True
    ) -> None:
        self.left = calls
        self._place = place
        self.begun = False
        self._passing = passing
        for name in ("publish", "rename", "exists"):
            monkeypatch.setattr(LocalStorage, name, self._failing(getattr(LocalStorage, name)))

    def _failing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def method(storage: LocalStorage, *paths: str) -> Any:
            if self.begun and self.left > 0:
                self.left -= 1
                raise StorageError(f"{paths[-1]}: {NO_ANSWER}", passing=self._passing)
            answer = real(storage, *paths)
            self.begun |= real.__name__ == "publish" and Path(paths[-1]).parent == self._place
            return answer

        return method


@pytest.fixture
def locks_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[FakeMetastore], Locks]]:
    """Makes real locks. Those that are kept end with the test, as they do with the driver's process."""
    made: list[Locks] = []
    monkeypatch.setattr(pair, "RETRY_SECONDS", 0)

    def make(metastore: FakeMetastore) -> Locks:
        made.append(Locks(metastore.client(), REQUEST.table, agent="own"))
        return made[-1]

    yield make
    for locks in made:
        locks._kept = False
        locks.release()


def exclusive_locks(metastore: FakeMetastore) -> list[int]:
    return [lock.lock_id for lock in metastore.locks if lock.type == LockKind.EXCLUSIVE]


def halves(place: Path) -> set[str]:
    return {name.rpartition("delta_")[0] for name in published(place) if "delta_" in name}


def readable_at_unlock(metastore: FakeMetastore, place: Path) -> list[set[str]]:
    """Record what is published each time an EXCLUSIVE lock is given back: readers may start right then."""
    seen: list[set[str]] = []

    def unlock(lock_id: int) -> None:
        if lock_id in exclusive_locks(metastore):
            seen.append(halves(place))

    metastore.on("unlock", unlock)
    return seen


def test_a_pair_in_an_outage_is_completed_under_its_lock_when_the_store_is_back(
    pairs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, locks_of: Callable[[FakeMetastore], Locks]
) -> None:
    """H3: a NameNode fails over between the two renames. To complete the pair takes a rename, too."""
    metastore, outage = with_deletes(), Outage(pairs[0], monkeypatch, calls=5)
    seen = readable_at_unlock(metastore, pairs[0])
    error = failed(pairs[0], metastore=metastore, locks=locks_of(metastore), kind=CompactionType.MINOR)
    assert (error.reason, NO_ANSWER in str(error)) == (Reason.STORAGE_UNAVAILABLE, True)
    assert (outage.left, seen) == (0, [{"", "delete_"}])
    assert metastore.locks == ()


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("time is up", Reason.STORAGE_UNAVAILABLE),
        ("SIGTERM", Reason.INTERRUPTED),
        ("lasting error", Reason.UNREADABLE_FILE),
    ],
)
def test_the_lock_of_a_pair_that_cannot_be_completed_is_kept_and_the_attempt_ends(
    end: str,
    reason: Reason,
    pairs: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    locks_of: Callable[[FakeMetastore], Locks],
) -> None:
    """H3: readers are kept out until the controller has completed it, or the metastore takes the lock away."""

    def retire_then(*where: Any) -> None:
        monkeypatch.setattr(interruption._Asked, "yes", end == "SIGTERM")
        retire(*where)

    metastore = with_deletes()
    Outage(pairs[0], monkeypatch, passing=end != "lasting error")
    monkeypatch.setattr(pair, "COMPLETION_SECONDS", 0.0 if end == "time is up" else 600.0)
    monkeypatch.setattr(pair, "retire", retire_then)
    seen, locks = readable_at_unlock(metastore, pairs[0]), locks_of(metastore)
    error = failed(*pairs, metastore=metastore, locks=locks, kind=CompactionType.MINOR)
    assert (error.reason, "half of a pair may be published" in str(error)) == (reason, True)
    assert (seen, len(exclusive_locks(metastore))) == ([], 1)
    assert [len(halves(place)) for place in pairs] == [1, 0]
    locks.guard()  # its heartbeat goes on until the process ends


def test_a_pair_whose_names_are_taken_keeps_its_lock(
    pairs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, locks_of: Callable[[FakeMetastore], Locks]
) -> None:
    """H3: another client has the name of its other half, so that the rename is refused for good."""
    metastore, real = with_deletes(), LocalStorage.publish

    def publish(self: LocalStorage, source: str, target: str) -> None:
        if Path(target).name.startswith("delete_delta_"):
            Path(target).mkdir(exist_ok=True)
        real(self, source, target)

    monkeypatch.setattr(LocalStorage, "publish", publish)
    error = failed(*pairs, metastore=metastore, locks=locks_of(metastore), kind=CompactionType.MINOR)
    assert "does not belong to the pair" in str(error)
    assert (len(exclusive_locks(metastore)), halves(pairs[1])) == (1, set())


@pytest.mark.parametrize("unknown", [False, True])
def test_a_partition_that_may_not_be_written_to_any_more_holds_up_no_other_pair(
    unknown: bool,
    pairs: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    locks_of: Callable[[FakeMetastore], Locks],
) -> None:
    """Nothing of its pair is published, so its lock hides nothing; unless the store may still carry out the rename."""
    metastore = with_deletes()

    def denied(real: Callable[..., None]) -> Callable[..., None]:
        def method(storage: LocalStorage, source: str, target: str) -> None:
            if Path(target).parent == pairs[0]:
                raise StorageError(f"{target}: Permission denied", passing=unknown and real.__name__ == "publish")
            real(storage, source, target)

        return method

    for name in ("publish", "rename"):
        monkeypatch.setattr(LocalStorage, name, denied(getattr(LocalStorage, name)))
    error = failed(*pairs, metastore=metastore, locks=locks_of(metastore), kind=CompactionType.MINOR)
    assert "Permission denied" in str(error)
    assert [len(halves(place)) for place in pairs] == [0, 0 if unknown else 2]
    assert len(exclusive_locks(metastore)) == len(metastore.locks) == unknown


def test_an_interrupted_driver_begins_no_further_publication_and_leaves_no_staging(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is published by then stays. The driver releases what it holds, and the attempt does not count."""
    locks = Held()
    publishing(monkeypatch, "base_0000003", lambda: monkeypatch.setattr(interruption._Asked, "yes", True))
    error = failed(*places, locks=locks)
    assert (error.reason, error.reason in WAITING_REASONS) == (Reason.INTERRUPTED, True)
    assert [names(place) for place in places] == [{"base_0000003"}, set()]
    assert locks.held == 0


def test_a_driver_whose_task_still_writes_leaves_its_staging_to_the_controller(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store that keeps the task waiting would not answer the removal either. The locks are released at once."""

    class Hanging(LocalRunner):
        def run(self, work: Sequence[SizedTask], done: Done) -> list[Outcome]:
            raise Unstopped(Reason.INTERRUPTED, "bucket_00000 is still being written")

    monkeypatch.setattr(hive, "retire", lambda *_: pytest.fail("the store is asked"))
    locks = Held()
    with pytest.raises(JobError) as caught:
        run(*places, locks=locks, runner=Hanging())
    assert (caught.value.reason, locks.held) == (Reason.INTERRUPTED, 0)
    assert [len([name for name in names(place) if name.startswith("_compaction_")]) for place in places] == [1, 1]


def test_an_interrupted_driver_does_not_assemble_the_rest_of_its_batch(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For 500 partitions, each made durable, that would take longer than Kubernetes waits."""
    verify, verified = arithmetic.verify, list[str]()

    def told(merged: partition.Merged) -> None:
        verify(merged)
        verified.append(merged.prepared.target.location)
        monkeypatch.setattr(interruption._Asked, "yes", True)

    monkeypatch.setattr(hive, "verify", told)
    assert failed(*places).reason is Reason.INTERRUPTED
    assert verified == [str(places[0])]
    assert [names(place) for place in places] == [set(), set()]


def test_staging_that_cannot_be_removed_after_the_publication_fails_nothing(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, a task that was given up as lost still writes there. The next fence removes it."""
    real = LocalStorage.delete_tree

    def delete_tree(self: LocalStorage, path: str) -> int:
        if Path(path).parent == places[0]:
            raise StorageError(f"{path}: Directory not empty")
        return real(self, path)

    monkeypatch.setattr(LocalStorage, "delete_tree", delete_tree)
    assert run(*places).reason is Reason.COMPACTED


def test_runs_of_one_row_type_are_published_together_and_the_result_says_why(tmp_path: Path) -> None:
    table = Path(shutil.copytree(FIXTURES / "types/before", tmp_path / "p1"))
    give_former_name(table / "delta_0000001_0000001_0000", table / "delta_0000002_0000002_0000")
    store = Store()
    result = run(table, metastore=with_deletes(), store=store, kind=CompactionType.MINOR)
    (journal,) = store.resources.values()
    outputs = journal["spec"]["partitions"][0]["outputs"]
    assert outputs == ["delta_0000001_0000002", "delta_0000003_0000005", "delete_delta_0000003_0000005"]
    assert {*outputs} <= {path.name for path in table.iterdir()}
    assert not list(table.glob("_compaction_*"))
    assert result.reason is Reason.COMPACTED
    assert f"{table}: deltas are merged in runs of files with one row type" in (result.apart or "")


def test_where_row_types_take_turns_nothing_is_published_and_nothing_is_left(places: tuple[Path, Path]) -> None:
    give_former_name(places[0] / "delta_0000002_0000002_0000")
    result = run(places[0], kind=CompactionType.MINOR)
    assert result.reason is Reason.NOTHING_TO_COMPACT
    assert "column former" in (result.apart or "")
    assert names(places[0]) == set()


def test_a_major_over_two_row_types_leaves_the_others_alone(places: tuple[Path, Path]) -> None:
    give_former_name(places[0] / "delta_0000001_0000001_0000")
    assert failed(*places).reason is Reason.ROW_TYPES_DIFFER
    assert [names(place) for place in places] == [set(), {"base_0000003"}]
