"""H3 on Hive 3.1: a driver that stops between the two renames of a pair does not keep it half published."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sandbox.metastore.server import MetastoreServer

from compaction_operator.acid.snapshot import snapshot
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.driver.errors import JobError
from compaction_operator.storage import LocalStorage, Storage
from tests.integration.metastore.controller_steps import real_work
from tests.integration.metastore.fixture_table import FixtureTable, spec_of
from tests.unit.controller.sandbox import CONFIG, Sandbox, cleanup_raw
from tests.unit.driver.support import REQUEST, Store

SERVERS = ("3.1.3",)
HALF, OTHER_HALF = "delta_0000001_0000005", "delete_delta_0000001_0000005"


def controller(table: FixtureTable, store: Store, uri: str) -> Sandbox:
    """A controller, two minutes from now, that works with the real metastore and files, and sees a Job that runs."""
    served = CONFIG.warehouses[0].model_copy(update={"namespaces": (REQUEST.namespace,)})
    config, spec = CONFIG.model_copy(update={"warehouses": (served,)}), spec_of(store)
    box = Sandbox(config=config, identity=REQUEST.operator or "")
    later = timedelta(minutes=2)
    box.time.seconds += (datetime.now(UTC) + later - box.time.now).total_seconds()
    box.work = real_work(table, uri, ahead=later)  # type: ignore[assignment]
    metadata = {"name": spec["compaction"]["job"], "namespace": REQUEST.namespace, "uid": "job"}
    box.kube.apply(ResourceKind.JOB, {"metadata": metadata, "status": {"active": 1}})
    raw: dict[str, Any] = {**cleanup_raw("journal"), "spec": {**spec, "mode": "Never"}}
    raw["metadata"]["namespace"] = REQUEST.namespace
    box.kube.apply(ResourceKind.CLEANUP, raw)
    return box


async def two_minutes(box: Sandbox) -> None:
    await box.start()
    await box.pass_time(120)


@pytest.mark.parametrize("lock", ["silent", "taken away"])
def test_a_pair_whose_driver_stopped_in_between_is_completed_though_its_job_runs(
    try_it: FixtureTable, server: MetastoreServer, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    """The controller completes it behind the driver's silent lock, or at once when that lock is gone.

    When the driver resumes, it publishes nothing more.
    """
    table = try_it
    publish, store, halves = LocalStorage.publish, Store(), list[str]()

    def stopped(self: LocalStorage, source: str, target: str) -> None:
        publish(self, source, target)
        place, _, name = target.rpartition("/")
        if name == HALF and "/_" not in target and not halves:
            halves.append(Path(place).name)
            for held in table.locks() if lock == "taken away" else ():
                table.admin.unlock(held)
            asyncio.run(two_minutes(controller(table, store, server.uri)))
            halves.extend(table.visible(halves[0]))
            assert table.locks() == []

    monkeypatch.setattr(LocalStorage, "publish", stopped)
    with pytest.raises(JobError) as lost:
        table.run(CompactionType.MINOR, store=store)
    assert lost.value.reason in {Reason.LOCK_LOST, Reason.TABLE_CHANGED}
    assert {HALF, OTHER_HALF} <= set(halves)
    assert [part for part in table.directory.iterdir() if HALF in table.names(part.name)] == [
        table.directory / halves[0]
    ]
    listing = LocalStorage().list_partition(str(table.directory / halves[0]))
    seen = snapshot(listing, table.admin.valid_write_ids(table.database, table.name))
    assert OTHER_HALF in [found.name for found in seen.deltas]


@pytest.mark.hdfs
def test_an_orphaned_pair_is_completed_behind_its_lock(
    try_it: FixtureTable, server: MetastoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its compaction and its cleanup were deleted, for example with their namespace. The lock names its attempt."""
    table, work = try_it, real_work(try_it, server.uri, ahead=timedelta(minutes=2))
    publish, halves = table.storage_class.publish, list[str]()

    def stopped(self: Storage, source: str, target: str) -> None:
        publish(self, source, target)
        place, _, name = target.rpartition("/")
        if name == HALF and "/_" not in target and not halves:
            assert work.sweep(REQUEST.warehouse.name, frozenset({REQUEST.uid})) is None
            assert OTHER_HALF not in table.visible(Path(place).name)
            assert real_work(table, server.uri).sweep(REQUEST.warehouse.name, frozenset()) is None
            assert OTHER_HALF not in table.visible(Path(place).name)
            assert work.sweep(REQUEST.warehouse.name, frozenset()) is None
            halves.extend(table.visible(Path(place).name))
            assert table.locks() == []

    monkeypatch.setattr(table.storage_class, "publish", stopped)
    with pytest.raises(JobError):
        table.run(CompactionType.MINOR, store=Store())
    assert {HALF, OTHER_HALF} <= set(halves)
