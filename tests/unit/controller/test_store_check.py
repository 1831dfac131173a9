"""At its start the controller checks that warehouses on HDFS and S3 can be published to."""

from pathlib import Path

import pytest

from compaction_operator.api.stores import S3, Hdfs, StoreSettings
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.work import Work
from compaction_operator.storage import StorageError
from tests.support.object_store import ObjectStore
from tests.unit.controller.sandbox import CONFIG, NOON, Sandbox, runs
from tests.unit.controller.test_metrics import value

FOLDER = "s3a://lake/warehouse"
STORES = StoreSettings(s3=S3(), hdfs=Hdfs(config_map="hadoop"))
LAKE = CONFIG.warehouses[0].model_copy(update={"stores": STORES, "locations": ("/", FOLDER, "hdfs://nn/warehouse")})
ON_STORES = CONFIG.model_copy(update={"warehouses": (LAKE,)})


def unfit(box: Sandbox, location: str = FOLDER) -> float | None:
    return value(box, "store_unfit", warehouse="lake", location=location)


@runs
async def test_each_folder_but_those_of_volumes_is_checked_once() -> None:
    box = Sandbox(config=ON_STORES)
    await box.start()
    await box.pass_time(120)
    assert [call for call in box.work.calls if call.startswith("check")] == [
        f"check {FOLDER}",
        "check hdfs://nn/warehouse",
    ]
    assert (unfit(box), unfit(box, "hdfs://nn/warehouse"), unfit(box, "/")) == (0, 0, None)


@runs
async def test_a_store_that_lacks_something_shows_before_the_first_compaction() -> None:
    box = Sandbox(config=ON_STORES)
    box.work.store = "this store cannot be published to safely: an upload that was aborted is completed"
    await box.start()
    assert unfit(box) == 1
    assert value(box, "errors_total", warehouse="lake", operation="store") is None


@runs
async def test_a_store_that_does_not_answer_is_asked_again_until_it_does() -> None:
    """Until then nothing is known of it: neither fit nor unfit."""
    box = Sandbox(config=ON_STORES)
    box.work.store = Trouble("StorageError", "no NameNode has answered")
    await box.start()
    await box.pass_time(30)
    assert value(box, "errors_total", warehouse="lake", operation="store") == 4
    assert unfit(box) is None
    box.work.store = None
    await box.pass_time(30)
    assert unfit(box) == 0


def work(objects: ObjectStore) -> Work:
    return Work(CONFIG, clock=lambda: NOON, stores=lambda _: lambda _: objects)


def test_a_check_is_the_probe_that_a_compaction_asks_for(tmp_path: Path) -> None:
    objects = ObjectStore()
    objects.uploads.shortcoming = "an upload that was aborted is completed"
    found = work(objects).check_store("lake", str(tmp_path))
    assert found == f"this store cannot be published to safely: {objects.uploads.shortcoming}"
    objects.uploads.shortcoming = None
    assert work(objects).check_store("lake", str(tmp_path)) is None


def test_a_check_without_an_answer_is_not_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_: ObjectStore, path: str) -> bool:
        raise StorageError(f"{path}: no answer in 5 s", passing=True)

    monkeypatch.setattr(ObjectStore, "exists", silent)
    assert isinstance(work(ObjectStore()).check_store("lake", str(tmp_path)), Trouble)
