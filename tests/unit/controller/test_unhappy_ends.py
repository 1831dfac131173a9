"""What the status says, and what the controller retries, if an attempt cannot begin or cannot be finished."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.conditions import find_condition
from compaction_operator.api.config import Warehouse
from compaction_operator.api.request import FINAL_REASONS, DriverResult, Reason
from compaction_operator.api.stores import Hdfs, StoreSettings
from compaction_operator.controller.answers import Preflight
from compaction_operator.controller.compaction.decide import CompactionDecision, CompactionObservation, End, decide
from compaction_operator.controller.kube.client import KubeError
from compaction_operator.controller.kube.driver_pod import DriverEnd
from compaction_operator.controller.kube.job import JobState, JobView
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.controller.work import Work
from compaction_operator.metastore import Generation, Partition
from compaction_operator.storage import LocalStorage, Storage, StorageError
from tests.support.metastore import FakeMetastore
from tests.support.object_store import ObjectStore
from tests.unit.cleanup.support import make_directory, names
from tests.unit.controller.sandbox import (
    CONFIG,
    DELTAS,
    NOON,
    Sandbox,
    baseline,
    cleanup,
    compaction,
    compaction_raw,
    condition,
    entry_json,
    runs,
)
from tests.unit.controller.test_work import STAGING, attempt, metastore_of, own_lock, table, work


@runs
async def test_a_job_that_the_api_server_refuses_is_said_and_tried_again() -> None:
    sandbox = Sandbox()
    create, full = sandbox.kube.create_job, [True]

    def refuse(manifest: dict[str, Any]) -> dict[str, Any]:
        if full:
            raise KubeError("403 Forbidden: exceeded quota: jobs")
        return create(manifest)

    sandbox.kube.create_job = refuse  # type: ignore[method-assign]
    sandbox.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await sandbox.start()
    said = condition(sandbox.compaction())
    assert (said["status"], said["reason"]) == ("Unknown", "JobNotCreated")
    assert said["message"] == "attempt 1: the job cannot be created: 403 Forbidden: exceeded quota: jobs"
    full.clear()
    await sandbox.pass_time(6)
    assert condition(sandbox.compaction())["reason"] == "Running"
    assert len(sandbox.kube.jobs()) == 1
    assert sandbox.compaction()["attempt"] == 1


QUOTA = 'pods "nightly-x" is forbidden: exceeded quota: compute'


@pytest.mark.parametrize("allowed", [True, False])
def test_a_quota_that_refuses_the_pod_of_a_job_is_quoted_and_limited_in_time(allowed: bool) -> None:
    """Without the right to read events it is still reported, when it takes too long for a start."""

    @runs
    async def scenario() -> None:
        box = Sandbox()
        box.kube.refusals = [{"metadata": {}, "lastTimestamp": "2026-01-01T12:00:00Z", "message": QUOTA}]
        if not allowed:
            box.kube.list_refusals = refuse  # type: ignore[method-assign]
        box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
        await box.start()
        (job,) = box.kube.jobs()
        box.kube.apply(ResourceKind.JOB, {**box.kube.get(ResourceKind.JOB, job), "status": {"active": 1}})
        await box.pass_time(10 if allowed else 310)
        said = condition(box.compaction())
        waits = f"QuotaExceeded: {QUOTA}" if allowed else "PodNotCreated: the job has not created a pod yet"
        assert (box.compaction()["phase"], said["reason"]) == ("Waiting", waits.partition(":")[0])
        assert said["message"] == f"attempt 1: job {job} is waiting: {waits}"
        assert box.kube.reasons().count(said["reason"]) == 1
        await box.pass_time(1800)
        assert ("QuotaExceeded" if allowed else "PodNotStarted") in box.kube.reasons()
        assert job not in box.kube.jobs()

    def refuse(namespace: str, job: str) -> list[dict[str, Any]]:
        raise KubeError("403 Forbidden: events is forbidden")

    scenario()


def ended(reason: Reason, *states: str) -> CompactionDecision:
    """Judge an attempt whose driver ended with that reason, and whose partitions are in these states."""
    partitions = [{"partition": f"prt=p{number}", "state": state} for number, state in enumerate(states)]
    settled = {"baseline": baseline().to_json(), "partitions": partitions}
    entries = [entry_json(one["partition"]) for one in partitions]
    journal = cleanup(name="nightly-1-0", entries=entries, status=settled)
    end = End(DriverEnd(DriverResult(reason=reason, message="/w/p9: a/b is not a bucket file"), ""), (journal,))
    job = JobView(namespace="default", name="j", resource_version=5, compaction="nightly", state=JobState.FAILED)
    running = compaction(status={"attempt": 1, "job": "j"})
    return decide(running, CompactionObservation(job=job, end=end, attempt_ended=True), config=CONFIG, now=NOON)


def test_what_can_never_be_compacted_beside_what_was_is_partly_published() -> None:
    decision = ended(Reason.UNSUPPORTED_TABLE, "Published", "Published")
    told = find_condition(decision.status.conditions, "Succeeded")
    assert told is not None
    assert told.reason == "PartiallyPublished"
    assert "2 partitions" in told.message
    assert "the rest is not published: /w/p9: a/b is not a bucket file" in told.message


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("gs://bucket/orders", "gs://bucket/orders: storage scheme 'gs' is not supported"),
        ("abfs://c@account/orders", "abfs://c@account/orders: storage scheme 'abfs' is not supported"),
        (
            "hdfs://nn/orders",
            "it lies at hdfs://nn/orders, which needs the settings warehouses[].stores.hdfs of warehouse",
        ),
    ],
)
def test_a_table_on_a_storage_that_is_not_supported_costs_no_pod(tmp_path: Path, location: str, why: str) -> None:
    """It ends the compaction for good, and the message says what to do."""
    verdict = work(metastore_of(table(tmp_path, location=location))).preflight(compaction())
    assert verdict.reason is Reason.UNSUPPORTED_TABLE
    assert verdict.reason in FINAL_REASONS
    assert verdict.message.startswith(f"table sales.orders: {why}")


def preflight_with(stores: Callable[[str], Storage], place: Path, hive: Generation = Generation.HIVE4) -> Preflight:
    metastore = metastore_of(table(place), hive=hive)
    one = Work(CONFIG, clock=lambda: NOON, connect=lambda _: metastore.client(), stores=lambda _: stores)
    return one.preflight(compaction())


def test_on_a_store_without_renames_hive_3_is_refused_before_a_pod_is_made(tmp_path: Path) -> None:
    """H14: a directory counts for its readers from its first object on."""
    refused = preflight_with(lambda _: ObjectStore(), tmp_path, Generation.HIVE3)
    assert refused.reason is Reason.UNSUPPORTED_TABLE
    assert "Hive 3.1 reads a directory from its first file on" in refused.message
    assert preflight_with(lambda _: ObjectStore(), tmp_path).reason is None
    assert preflight_with(lambda _: LocalStorage(), tmp_path, Generation.HIVE3).reason is None


def test_a_store_that_lacks_what_publication_needs_costs_no_pod(tmp_path: Path) -> None:
    """Once for each bucket: whatever is wrong is said at the first compaction, not in the middle of one."""
    objects = ObjectStore()
    metastore = metastore_of(table(tmp_path), hive=Generation.HIVE4)
    one = Work(CONFIG, clock=lambda: NOON, connect=lambda _: metastore.client(), stores=lambda _: lambda _: objects)
    objects.uploads.shortcoming = "an upload that was aborted is completed"
    refused = one.preflight(compaction())
    assert refused.reason is Reason.UNSUPPORTED_TABLE
    where = f"table sales.orders at {tmp_path}"
    assert refused.message == f"{where}: this store cannot be published to safely: {objects.uploads.shortcoming}"
    objects.uploads.shortcoming = None
    assert one.preflight(compaction()).reason is None
    assert one.preflight(compaction()).reason is None
    assert objects.uploads.steps == [f"probe {tmp_path}"] * 2


def test_a_store_that_cannot_be_reached_now_is_tried_again(tmp_path: Path) -> None:
    """A name service that is not known, or a KDC that does not answer, is no fault of the table."""

    def broken(uri: str) -> Storage:
        raise StorageError(f"{uri}: no NameNode has answered")

    verdict = preflight_with(broken, tmp_path)
    assert verdict.reason is Reason.STORAGE_UNAVAILABLE
    assert verdict.message == f"table sales.orders: {tmp_path}: no NameNode has answered"


def test_each_warehouse_has_stores_of_its_own(tmp_path: Path) -> None:
    """Connected once, with its own settings: another warehouse's identity must not touch its files."""
    opened: list[StoreSettings] = []

    def stores(warehouse: Warehouse) -> Callable[[str], Storage]:
        opened.append(warehouse.stores)
        return lambda _: LocalStorage()

    settings = {name: StoreSettings(hdfs=Hdfs(config_map=name)) for name in ("one", "two")}
    plain = CONFIG.warehouses[0]
    warehouses = tuple(plain.model_copy(update={"name": name, "stores": own}) for name, own in settings.items())
    metastore = metastore_of(table(tmp_path))
    config = CONFIG.model_copy(update={"warehouses": warehouses})
    one = Work(config, clock=lambda: NOON, connect=lambda _: metastore.client(), stores=stores)
    for name in ("two", "one", "two"):
        assert one.preflight(compaction(warehouse=name)).reason is None
        assert one.end_attempt(compaction(warehouse=name, status={"attempt": 1})) is None
    assert opened == [settings["two"], settings["one"]]


def partitioned(tmp_path: Path, *locations: str) -> FakeMetastore:
    partitions = tuple(Partition(f"prt=p{n}", (f"p{n}",), place, 100) for n, place in enumerate(locations))
    return metastore_of(table(tmp_path, partition_keys=("prt",)), partitions=partitions, locks=(own_lock(7),))


def test_a_burial_ends_although_one_partition_is_out_of_reach(tmp_path: Path) -> None:
    """Otherwise a compaction would wait for ever, and hold its table, for a place that was never written to."""
    here = tmp_path / "prt=p1"
    make_directory(here, STAGING)
    make_directory(here, DELTAS[0])
    metastore = partitioned(tmp_path, "gs://bucket/prt=p0", str(here))
    assert work(metastore).end_attempt(attempt(1)) is None
    assert names(here) == {DELTAS[0]}
    assert metastore.asked("unlock") == [7]


def test_a_partition_that_cannot_be_reached_holds_up_neither_the_others_nor_the_judgement(tmp_path: Path) -> None:
    here, link = tmp_path / "prt=p1", tmp_path / "prt=p0"
    make_directory(here, STAGING)
    link.symlink_to(tmp_path / "elsewhere")
    locks = (replace(own_lock(7), partition="prt=p0"), replace(own_lock(8), partition="prt=p1"), own_lock(9))
    metastore = partitioned(tmp_path, str(link), str(here))
    metastore.locks = locks
    assert work(metastore).end_attempt(attempt(1)) is None
    assert names(here) == set()
    # H3: while a dead driver has its EXCLUSIVE lock, no reader sees the half of a pair.
    assert metastore.asked("unlock") == [8, 9]
