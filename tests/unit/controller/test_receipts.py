"""Receipts of what the controller does: each deleted directory is in exactly one, wherever the controller dies."""

import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.compaction import TableCompactionStatus
from compaction_operator.api.config import Receipts, Volume, Warehouse
from compaction_operator.cleanup.quarantine import QUARANTINE, quarantine_name
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.kube.resources import Cleanup, ResourceKind
from compaction_operator.controller.work import Work
from compaction_operator.receipts import Kind, Receipt, ledger, stored, verify
from compaction_operator.storage import LocalStorage, NotFoundError, Storage, StorageError
from tests.support.metastore import FakeMetastore
from tests.support.object_store import ObjectStore
from tests.unit.cleanup.support import DiedError, make_directory, names
from tests.unit.controller.sandbox import (
    CONFIG,
    DELTAS,
    NOON,
    Sandbox,
    cleanup,
    compaction,
    compaction_raw,
    condition,
    runs,
)
from tests.unit.controller.test_controller import job
from tests.unit.controller.test_controller import journal as journal_of_attempt
from tests.unit.controller.test_work import journal, metastore_of, table

MINOR = "delta_0000001_0000003"
SETTLED = {
    "baseline": {"time": "2026-01-01T11:00:00Z", "txnHighWaterMark": 40, "lockIds": [12]},
    "readersGoneTime": "2026-01-01T11:30:00Z",
    "waitedFor": [{"kind": "Lock", "id": 12, "user": "alice", "host": "desk", "since": "2026-01-01T10:59:00Z"}],
    "partitions": [{"partition": "", "state": "Published"}],
}


class Dead:
    """When a process dies: at its n-th change, before it or with it done. From then on nothing of it happens."""

    def __init__(self, *, at: int, after: bool) -> None:
        self.left = at
        self._after = after
        self.dead = False

    def changing(self) -> None:
        self.living()
        self.left -= 1
        self.dead = self.left == 0 and not self._after
        self.living()

    def changed(self) -> None:
        self.dead = self.dead or self.left == 0
        self.living()

    def living(self) -> None:
        if self.dead:
            raise DiedError


def mortal(store: Storage, death: Dead) -> Storage:
    """A store of a process that dies. A deletion is then done by half."""

    def change(name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            death.changing()
            if name == "delete_tree" and death.left == 0 and Path(args[0]).is_dir():
                for child in sorted(Path(args[0]).iterdir())[:1]:
                    store.delete_tree(str(child))
            answer = None if name == "delete_tree" and death.left == 0 and Path(args[0]).is_dir() else do(name)(*args)
            death.changed()
            return answer

        return call

    def look(name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            death.living()
            return do(name)(*args)

        return call

    def do(name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(type(store), name)
        return lambda *args: method(store, *args)

    dying = type(store)()
    for name in ("write", "rename", "delete_tree", "make_directory", "remove_if_empty"):
        setattr(dying, name, change(name))
    for name in ("list", "list_partition", "read", "exists"):
        setattr(dying, name, look(name))
    return dying


class World:
    """A table that was compacted, and a folder for receipts. Each process of the controller has its own `Work`."""

    def __init__(self, folder: Path, store: Callable[[], Storage] = LocalStorage) -> None:
        self.place, self.receipts_folder = folder / "t", folder / "receipts"
        self.store = store
        self.now = NOON
        for name in (*DELTAS, MINOR):
            make_directory(self.place, name)

    def work(self, store: Storage | None = None, **kept: Any) -> Work:
        places = {"receipts": Receipts(location=str(self.receipts_folder)), **kept}
        warehouse = CONFIG.warehouses[0].model_copy(update=places)
        metastore = metastore_of(table(self.place), write_ids="sales.orders:3:9223372036854775807::")
        opened = store or self.store()
        return Work(
            CONFIG.model_copy(update={"warehouses": (warehouse,)}),
            clock=lambda: self.now,
            connect=lambda _: metastore.client(),
            stores=lambda _: lambda _: opened,
        )

    def cleanup(self, uid: str = "one", **changes: Any) -> Cleanup:
        found = journal(self.place, **{"status": SETTLED, **changes})
        return replace(found, meta=replace(found.meta, uid=uid))

    def receipts(self) -> list[Receipt]:
        try:
            lines = list(stored(LocalStorage(), str(self.receipts_folder)))
        except NotFoundError:
            return []
        assert not verify(lines).findings
        return [Receipt.parse(line) for _, line in lines]

    def deleted(self) -> Counter[str]:
        return Counter(name.name for one in self.receipts() for part in one.parts for name in part.deleted)

    def pending(self) -> set[str]:
        folder = self.receipts_folder / "pending"
        return names(folder) if folder.exists() else set()


ONCE = Counter(DELTAS)


def delete(work: Work, cleanup: Cleanup, *, purge: bool = False) -> Any:
    return work.delete(cleanup, cleanup.spec.partitions, purge=purge)


def test_a_deletion_leaves_one_receipt(tmp_path: Path) -> None:
    """It says what, why, how much, after waiting for whom, and what the listing was before and after."""
    world = World(tmp_path)
    work, own = world.work(), world.cleanup()
    assert [result.deleted for result in delete(work, own)] == [DELTAS]
    (receipt,) = world.receipts()
    assert (receipt.kind, receipt.table, receipt.cleanup_uid) == (Kind.DELETION, "sales.orders", "one")
    assert (receipt.directories, receipt.files, receipt.size) == (3, 3, 12)
    (part,) = receipt.parts
    assert [(one.name, one.files, one.size) for one in part.deleted] == [(name, 1, 4) for name in DELTAS]
    assert all(one.reason for one in part.deleted)
    assert part.listing_before != part.listing_after
    assert receipt.waited_for is not None
    assert [str(one) for one in receipt.waited_for.readers] == ["lock 12 of alice@desk since 2026-01-01T10:59:00Z"]
    assert work.close_receipts(own) is None
    assert (len(world.receipts()), world.pending()) == (1, set())


def test_without_receipts_nothing_is_written(tmp_path: Path) -> None:
    world = World(tmp_path)
    work, own = world.work(receipts=None), world.cleanup()
    assert [result.deleted for result in delete(work, own)] == [DELTAS]
    assert work.close_receipts(own) is None
    assert not world.receipts_folder.exists()


def deaths(play: Callable[[Dead], None]) -> Iterator[tuple[int, bool]]:
    """Play once for each change, with a death before it and one after it, until a play ends without one."""
    for after in (False, True):
        for at in range(1, 100):
            death = Dead(at=at, after=after)
            try:
                play(death)
            except DiedError:
                yield at, after
            else:
                assert at > 3
                yield at, after
                break


@pytest.mark.parametrize("store", [LocalStorage, ObjectStore])
@pytest.mark.parametrize("next_one", ["one", "two"])
def test_each_directory_is_in_one_receipt_wherever_the_controller_dies(
    tmp_path: Path, store: Callable[[], Storage], next_one: str
) -> None:
    """No status was written. The next process begins with the same cleanup, or with another that has the same names."""
    worlds: list[World] = []

    def play(death: Dead) -> None:
        worlds.append(World(tmp_path / str(len(worlds)), store))
        work = worlds[-1].work(mortal(store(), death))
        delete(work, worlds[-1].cleanup())
        work.close_receipts(worlds[-1].cleanup())

    for at, after in deaths(play):
        world = worlds[-1]
        work = world.work()
        for uid in dict.fromkeys((next_one, "one", "two")):
            assert isinstance(delete(work, world.cleanup(uid)), tuple)
            assert work.close_receipts(world.cleanup(uid)) is None
        assert names(world.place) == {MINOR}, (at, after)
        assert world.deleted() == ONCE, (at, after)
        assert world.pending() == set(), (at, after)


def test_a_second_death_while_the_first_one_is_made_good_changes_nothing(tmp_path: Path) -> None:
    worlds: list[World] = []

    def first(world: World) -> None:
        with pytest.raises(DiedError):  # both names of the first directories are gone, and no receipt is written
            delete(world.work(mortal(LocalStorage(), Dead(at=9, after=True))), world.cleanup())

    def play(death: Dead) -> None:
        world = World(tmp_path / str(len(worlds)))
        worlds.append(world)
        first(world)
        work = world.work(mortal(LocalStorage(), death))
        delete(work, world.cleanup())
        work.close_receipts(world.cleanup())

    for at, after in deaths(play):
        world = worlds[-1]
        work = world.work()
        delete(work, world.cleanup())
        assert work.close_receipts(world.cleanup()) is None
        assert (world.deleted(), world.pending()) == (ONCE, set()), (at, after)


def test_what_is_only_hidden_is_not_recorded_yet(tmp_path: Path) -> None:
    """The pass died after its renames. The next process first looks what is left."""
    world = World(tmp_path)
    with pytest.raises(DiedError):
        delete(world.work(mortal(LocalStorage(), Dead(at=7, after=False))), world.cleanup())
    assert names(world.place) == {MINOR, *(f"_compaction_trash_{name}" for name in DELTAS)}
    assert world.work().close_receipts(world.cleanup("two")) is None
    assert world.receipts() == []
    delete(world.work(), world.cleanup())
    assert (world.deleted(), world.receipts()[0].size) == (ONCE, 12)


def test_a_quarantine_is_recorded_when_it_is_deleted(tmp_path: Path) -> None:
    world = World(tmp_path)
    work, own = world.work(), world.cleanup(quarantine="1h")
    assert [result.quarantined for result in delete(work, own)] == [DELTAS]
    assert world.receipts() == []
    assert [result.deleted for result in delete(work, own, purge=True)] == [DELTAS]
    (part,) = world.receipts()[0].parts
    assert part.location == f"{world.place}/{QUARANTINE}/{quarantine_name(own.spec.compaction)}"
    assert world.deleted() == ONCE


class Refusing(LocalStorage):
    """A store that does not take files of that folder."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def write(self, path: str, data: bytes) -> None:
        if self.folder in path:
            raise StorageError(f"{path}: no space", passing=True)
        super().write(path, data)


def test_nothing_is_deleted_without_an_notice(tmp_path: Path) -> None:
    world = World(tmp_path)
    before = names(world.place)
    trouble = delete(world.work(Refusing("pending")), world.cleanup())
    assert isinstance(trouble, Trouble)
    assert trouble.reason == "ReceiptNotWritten"
    assert "no space" in trouble.message
    assert names(world.place) == before


def test_a_cleanup_does_not_end_before_its_receipt_is_written(tmp_path: Path) -> None:
    """What was deleted reaches its status all the same."""
    world, store = World(tmp_path), Refusing("00000")
    work, own = world.work(store), world.cleanup()
    assert [result.deleted for result in delete(work, own)] == [DELTAS]
    owed = work.close_receipts(own)
    assert isinstance(owed, Trouble)
    assert (owed.reason, world.receipts()) == ("ReceiptNotWritten", [])
    store.folder = "none"
    assert work.close_receipts(own) is None
    assert (world.deleted(), world.pending()) == (ONCE, set())


def test_a_table_that_was_dropped_holds_up_no_cleanup(tmp_path: Path) -> None:
    """The pass died, then the table went away with what was left. A volume that is missing is waited for."""
    world = World(tmp_path)
    with pytest.raises(DiedError):
        delete(world.work(mortal(LocalStorage(), Dead(at=7, after=False))), world.cleanup())
    shutil.rmtree(world.place)
    owed = world.work().close_receipts(world.cleanup())
    assert isinstance(owed, Trouble)
    assert "is its volume there?" in owed.message
    partition = {"partition": "", "state": "Published", "reason": "TableDropped", "message": "it was dropped"}
    assert world.work().close_receipts(world.cleanup(status={**SETTLED, "partitions": [partition]})) is None
    assert (world.deleted(), world.pending()) == (ONCE, set())


def test_two_controllers_write_each_directory_once(tmp_path: Path) -> None:
    """One is paused with its notice written, and another does all; then the first one goes on."""
    world = World(tmp_path)
    own = world.cleanup()
    paused, played = LocalStorage(), list[object]()
    first = world.work(paused)

    def rename(source: str, target: str) -> None:
        if MINOR not in source and "_compaction_trash_" in target and not played:
            played.append(delete(world.work(), own))
        LocalStorage.rename(paused, source, target)

    paused.rename = rename  # type: ignore[method-assign]
    delete(first, own)
    assert played
    assert first.close_receipts(own) is None
    assert (world.deleted(), world.pending()) == (ONCE, set())


def test_two_cleanups_of_the_same_directories_record_each_once(tmp_path: Path) -> None:
    """The second one has looked at what is there, and the first one deletes it before the second one's notice."""
    world = World(tmp_path)
    slow, played = LocalStorage(), list[object]()

    def listed(path: str) -> Any:
        if path.endswith("/pending") and not played:
            played.append(delete(world.work(), world.cleanup("one")))
        return LocalStorage.list(slow, path)

    slow.list = listed  # type: ignore[method-assign]
    second = world.work(slow)
    delete(second, world.cleanup("two"))
    assert played
    assert second.close_receipts(world.cleanup("two")) is None
    assert (world.deleted(), world.pending()) == (ONCE, set())


class Forbidden(LocalStorage):
    """A store in which nothing can be renamed. It notes which receipts are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_receipts: list[str] = []

    def rename(self, source: str, target: str) -> None:
        raise StorageError(f"{source}: Operation not permitted")

    def read(self, path: str) -> bytes:
        if "/receipts/0" in path:
            self.read_receipts.append(path)
        return super().read(path)


def test_passes_that_cannot_delete_share_a_notice(tmp_path: Path) -> None:
    """They may be tried for days, while others write into the table."""
    world, store = World(tmp_path), Forbidden()
    work, own = world.work(store), world.cleanup()
    for number in (4, 5, 6):
        assert {result.reason for result in delete(work, own)} == {"StorageError"}
        assert len(world.pending()) == 1
        make_directory(world.place, f"delta_{number:07}_{number:07}_0000")
    delete(world.work(), own)
    assert work.close_receipts(own) is None
    assert (world.deleted(), world.pending()) == (ONCE, set())


def test_a_pass_that_deletes_nothing_reads_no_receipts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be thousands since its notice, and all other receipts wait meanwhile."""
    monkeypatch.setattr(ledger, "KEPT", 1)
    world, store = World(tmp_path), Forbidden()
    work, own = world.work(store), world.cleanup()
    for attempt in range(1, 6):
        delete(work, own)
        assert work.record(ENDED, ending=ending(attempt)) is None
    assert store.read_receipts == []


def ending(attempt: int = 1, reason: str = "Compacted") -> TableCompactionStatus:
    return TableCompactionStatus.model_validate(
        {
            "attempt": attempt,
            "attemptStartTime": "2026-01-01T11:00:00Z",
            "totals": {"partitions": 1, "filesIn": 3, "filesOut": 1},
            "forecast": {"filesIn": 3, "cpuMilliseconds": 8},
            "cpuMilliseconds": 7,
            "conditions": [
                {
                    "type": "Succeeded",
                    "status": "True",
                    "reason": reason,
                    "message": "done",
                    "lastTransitionTime": "2026-01-01T12:00:00Z",
                }
            ],
        }
    )


ENDED = compaction(status={"attempt": 1, "attemptStartTime": "2026-01-01T11:00:00Z"})


def test_a_compaction_has_one_receipt_however_often_its_end_is_tried(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(2):
        assert world.work().record(ENDED, ending=ending()) is None
    (receipt,) = world.receipts()
    assert (receipt.kind, receipt.type, receipt.reason, receipt.attempt) == (Kind.COMPACTION, "Minor", "Compacted", 1)
    assert (receipt.totals, receipt.forecast, receipt.cpu_milliseconds) == (ending().totals, ending().forecast, 7)


def test_an_end_is_found_below_the_receipt_of_a_deletion_that_began_before_its_attempt(tmp_path: Path) -> None:
    """A pass may take hours, or its receipt may wait for a restart."""
    world, slow, ended = World(tmp_path), LocalStorage(), list[object]()
    work = world.work(slow)

    def rename(source: str, target: str) -> None:
        if not ended:
            world.now = NOON
            ended.append(work.record(ENDED, ending=ending()))
        LocalStorage.rename(slow, source, target)

    slow.rename = rename  # type: ignore[method-assign]
    world.now = NOON - timedelta(hours=2)
    delete(work, world.cleanup())
    assert [one.kind for one in world.receipts()] == [Kind.COMPACTION, Kind.DELETION]
    assert world.work().record(ENDED, ending=ending()) is None
    assert [one.kind for one in world.receipts()] == [Kind.COMPACTION, Kind.DELETION]
    began, written = world.receipts()[1].started, world.receipts()[1].time
    assert (began, written) == ("2026-01-01T10:00:00Z", "2026-01-01T12:00:00Z")


def test_the_end_of_a_later_attempt_has_a_receipt_of_its_own(tmp_path: Path) -> None:
    """The first end did not reach the status: a person raised maxAttempts, and the compaction went on."""
    world = World(tmp_path)
    for attempt, reason in ((1, "AttemptsExhausted"), (2, "Compacted"), (1, "AttemptsExhausted")):
        assert world.work().record(ENDED, ending=ending(attempt, reason)) is None
    assert [one.reason for one in world.receipts()] == ["AttemptsExhausted", "Compacted"]


def test_a_compaction_ends_after_its_receipt() -> None:
    """Until then it waits, and says why; the end is the same."""

    @runs
    async def scenario() -> None:
        warehouse = CONFIG.warehouses[0].model_copy(update={"receipts": Receipts(location="/warehouse/receipts")})
        box = Sandbox(config=CONFIG.model_copy(update={"warehouses": (warehouse,)}))
        box.work.receipts = Trouble("ReceiptNotWritten", "no space")
        await box.start()
        box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
        await box.run()
        box.kube.end_job(job(), ok=True)
        await box.run()
        assert condition(box.compaction())["reason"] == "ReceiptNotWritten"
        assert "completionTime" not in box.compaction()
        assert box.compaction()["phase"] == "Waiting"
        box.work.receipts = None
        await box.pass_time(10)
        assert box.compaction()["phase"] == "Succeeded"
        assert box.work.count("record nightly") >= 2

    scenario()


def test_a_cleanup_waits_for_its_last_receipt() -> None:
    """All is deleted, and its condition says what is left to do."""

    @runs
    async def scenario() -> None:
        box = Sandbox()
        await box.start()
        box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
        await box.run()
        box.kube.apply(ResourceKind.CLEANUP, journal_of_attempt())
        box.work.receipts = Trouble("ReceiptNotWritten", "no space")
        box.kube.end_job(job(), ok=True)
        await box.run()
        await box.pass_time(5)
        assert condition(box.cleanup())["reason"] == "ReceiptNotWritten"
        assert box.cleanup()["directoriesDeleted"] == 3
        assert "completionTime" not in box.cleanup()
        box.work.receipts = None
        await box.pass_time(30)
        assert box.cleanup()["phase"] == "Succeeded"

    scenario()


def test_receipts_need_a_place_that_the_controller_has() -> None:
    volume = Volume(claim_name="warehouse", mount_path="/warehouse")
    raw = CONFIG.warehouses[0].model_dump() | {"volume": volume}
    model = type(CONFIG.warehouses[0])
    for location, lacks in {
        "/warehouse": "receipts.location: /warehouse must lie below the volume's mountPath",
        "/elsewhere/receipts": "receipts.location: /elsewhere/receipts must lie below",
        "s3a://audit/receipts": "receipts.location: s3a://audit/receipts needs the settings stores.s3",
    }.items():
        with pytest.raises(ValueError, match=lacks):
            model.model_validate(raw | {"receipts": {"location": location}})
    for location in ("/warehouse/receipts", "file:/warehouse/receipts", "file:///warehouse/receipts"):
        assert model.model_validate(raw | {"receipts": {"location": location}}).receipts
    bucket = {"receipts": {"location": "s3a://audit/receipts"}, "stores": {"s3": {}}}
    assert model.model_validate(raw | bucket).receipts


def test_a_store_that_hangs_when_it_is_opened_holds_up_no_other_warehouse(tmp_path: Path) -> None:
    """A login may take its time."""
    kept = {"receipts": Receipts(location=str(tmp_path / "receipts"))}
    lake = CONFIG.warehouses[0].model_copy(update=kept)
    config = CONFIG.model_copy(update={"warehouses": (lake, lake.model_copy(update={"name": "pond"}))})
    opening, over, done = threading.Event(), threading.Event(), threading.Event()

    def stores(warehouse: Warehouse) -> Callable[[str], Storage]:
        def opened(location: str) -> Storage:
            if warehouse.name == "pond":
                opening.set()
                over.wait()
            return LocalStorage()

        return opened

    work = Work(config, clock=lambda: NOON, connect=lambda _: FakeMetastore().client(), stores=stores)

    def close(warehouse: str) -> None:
        work.close_receipts(cleanup(warehouse=warehouse))
        done.set()

    threading.Thread(target=close, args=("pond",), daemon=True).start()
    assert opening.wait(30)
    threading.Thread(target=close, args=("lake",), daemon=True).start()
    answered = done.wait(10)
    over.set()
    assert answered
