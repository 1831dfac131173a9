"""What a driver finds out about a Hudi table before it starts Spark, and what it refuses."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.compaction import CompactionType, ExecutorResources, SparkOptions, TableRef
from compaction_operator.api.config import HudiSettings
from compaction_operator.api.hudi import HudiMode, HudiOptions
from compaction_operator.api.request import FINAL_REASONS, DriverResult, JobRequest, Reason
from compaction_operator.driver import main as driver
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hudi import setup as hudi_driver
from compaction_operator.driver.hudi.setup import HudiJob, jars, prepare
from compaction_operator.hudi import HudiError, RefusedOptionError
from compaction_operator.hudi.jvm import HudiClient
from compaction_operator.storage import Storage, StorageError

from .support import REQUEST, Reports
from .test_hudi import Lease

LOCKS = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"}
PROPERTIES = {
    "hoodie.table.name": "orders",
    "hoodie.table.version": "9",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.metadata.partitions": "files",
}


@pytest.fixture
def location(tmp_path: Path) -> str:
    return written(tmp_path)


def written(folder: Path, **changes: str) -> str:
    (folder / ".hoodie").mkdir(parents=True, exist_ok=True)
    lines = PROPERTIES | {f"hoodie.table.{key}": value for key, value in changes.items()}
    text = "".join(f"{key}={value}\n" for key, value in lines.items())
    (folder / ".hoodie/hoodie.properties").write_text(text)
    return str(folder)


def request(type_: CompactionType = CompactionType.LOG_COMPACTION, **own: Any) -> JobRequest:
    warehouse = REQUEST.warehouse.model_copy(update={"hudi": HudiSettings(options=LOCKS)})
    return REQUEST.model_copy(
        update={
            "type": type_,
            "warehouse": warehouse,
            "partitions": own.pop("partitions", ()),
            "table": TableRef(location=own.pop("location", "/t")),
            "hudi": HudiOptions(**own),
        }
    )


def test_a_table_brings_its_bundle_and_its_options(location: str) -> None:
    job = prepare(request(), f"file:{location}/")
    assert (job.table.location, job.bundle) == (location, "1.2.0")
    assert job.options["hoodie.metadata.enable"] == "true"


def test_partitions_are_for_hudis_own_planner_too(location: str) -> None:
    job = prepare(request(partitions=("dt=1",)), location)
    assert job.options["hoodie.compaction.partition.path.regex"].startswith("^(dt=1)")


@pytest.mark.parametrize(
    ("changes", "own", "reason"),
    [
        ({"type": "COPY_ON_WRITE"}, {}, Reason.NOT_MERGE_ON_READ),
        ({"version": "10"}, {}, Reason.UNSUPPORTED_TABLE),
        ({}, {"bundle": "1.0.2"}, Reason.UNSUPPORTED_TABLE),
        ({}, {"options": {"hoodie.table.name": "x"}}, Reason.REFUSED_OPTION),
        ({"metadata.partitions": ""}, {"metadata_table": True}, Reason.REFUSED_OPTION),
        ({"version": "6", "metadata.partitions": "files"}, {}, Reason.UNSUPPORTED_TABLE),
        ({}, {"metadata_table": True, "type_": CompactionType.COMPACTION}, Reason.REFUSED_OPTION),
        ({}, {"metadata_table": True, "mode": HudiMode.SCHEDULE}, Reason.REFUSED_OPTION),
        ({}, {"type_": CompactionType.CLEAN, "mode": HudiMode.EXECUTE}, Reason.REFUSED_OPTION),
    ],
)
def test_what_cannot_be_done_is_refused_before_spark_starts(
    tmp_path: Path, changes: dict[str, str], own: dict[str, Any], reason: Reason
) -> None:
    with pytest.raises(HudiError) as caught:
        prepare(request(**own), written(tmp_path, **changes))
    assert caught.value.reason is reason


def test_before_version_8_a_metadata_table_forbids_log_compactions_alone(tmp_path: Path) -> None:
    location = written(tmp_path, **{"version": "6", "metadata.partitions": "files"})
    assert prepare(request(type_=CompactionType.COMPACTION), location)
    without = written(tmp_path / "without", **{"version": "6", "metadata.partitions": ""})
    assert prepare(request(), without)


def test_the_type_clean_is_held_with_all_deletion(location: str) -> None:
    for kind, held in ((CompactionType.CLEAN, True), (CompactionType.ARCHIVE, False)):
        asked = request(type_=kind).model_copy(update={"cleaner_held": True})
        if not held:
            assert prepare(asked, location)
            continue
        with pytest.raises(JobError, match=r"cleanup\.suspend is set") as waits:
            prepare(asked, location)
        assert waits.value.reason is Reason.SUSPENDED


def test_executors_have_no_part_in_the_metadata_table(location: str) -> None:
    """1.2.0 fails in a JVM that has not loaded the metadata table's classes."""
    spark = SparkOptions(executors=ExecutorResources(instances=2))
    with pytest.raises(RefusedOptionError, match=r"spark.executors.instances: 0"):
        prepare(request(metadata_table=True).model_copy(update={"spark": spark}), location)


@pytest.mark.parametrize("instances", [0, "Auto"])
def test_without_a_number_of_executors_the_driver_works_on_the_metadata_table(location: str, instances: Any) -> None:
    spark = SparkOptions(executors=ExecutorResources(instances=instances))
    assert prepare(request(metadata_table=True).model_copy(update={"spark": spark}), location)


def test_a_kind_of_storage_that_is_not_supported_is_named() -> None:
    with pytest.raises(JobError, match="'gs' is not supported") as caught:
        prepare(request(), "gs://bucket/table")
    assert caught.value.reason is Reason.UNSUPPORTED_TABLE


def test_a_store_that_cannot_be_connected_now_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, a file of keys that is just being replaced."""

    def refuse(location: str) -> Storage:
        raise StorageError(f"{location}: the keys cannot be read")

    monkeypatch.setattr(hudi_driver, "open_storage", refuse)
    with pytest.raises(JobError, match="s3a://bucket/table: the keys cannot be read") as caught:
        prepare(request(), "s3://bucket/table")
    assert caught.value.reason is Reason.STORAGE_UNAVAILABLE


def test_a_table_that_cannot_be_read_now_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / ".hoodie" / "hoodie.properties").mkdir(parents=True)
    with pytest.raises(JobError, match=r"hoodie\.properties") as caught:
        prepare(request(), str(tmp_path))
    assert caught.value.reason is Reason.STORAGE_UNAVAILABLE


def test_a_bundle_that_is_not_there_is_named(location: str, tmp_path: Path) -> None:
    environment = {"HUDI_BUNDLES": str(tmp_path)}
    job = prepare(request(), location)
    with pytest.raises(HudiError, match=r"not in the image op:1: .* no .*hudi-spark3\.5-bundle_2\.12-1\.2\.0\.jar"):
        jars(job, environment, image="op:1")
    bundle = tmp_path / "hudi-spark3.5-bundle_2.12-1.2.0.jar"
    bundle.touch()
    assert jars(job, environment, image="op:1") == [bundle]


def test_only_a_table_on_s3_needs_the_connector(location: str, tmp_path: Path) -> None:
    job = prepare(request(), location)
    on_s3 = HudiJob(replace(job.table, location="s3a://lake/orders"), job.bundle, job.options)
    for name in ("hudi-spark3.5-bundle_2.12-1.2.0.jar", "aws-java-sdk-core-1.jar"):
        (tmp_path / name).touch()
    environment = {"HUDI_BUNDLES": str(tmp_path)}
    assert len(jars(job, environment, image="op:1")) == 1
    with pytest.raises(HudiError, match="connector to S3 is not in the image op:1"):
        jars(on_s3, environment, image="op:1")
    (tmp_path / "hadoop-aws-3.jar").touch()
    assert len(jars(on_s3, environment, image="op:1")) == 3


def test_the_image_without_hudi_ends_the_compaction_and_says_what_to_do(
    location: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before Spark, a lease or a plan. No attempt follows: each would have the same image."""
    log = tmp_path / "termination-log"
    log.touch()
    monkeypatch.setattr(driver, "TERMINATION_MESSAGE_PATH", str(log))
    small = REQUEST.profile.model_copy(update={"image": "registry.example/compaction-operator-hive:1"})
    asked = request(location=location).model_copy(update={"profile": small})
    environment = {"COMPACTION_REQUEST": asked.model_dump_json(by_alias=True), "POD_UID": "pod-1", "POD_NAME": "p"}
    assert driver.main({**environment, "HUDI_BUNDLES": str(tmp_path / "opt" / "hudi")}) == 1
    result = DriverResult.model_validate_json(log.read_text())
    assert result.reason in FINAL_REASONS
    assert result.message.startswith(
        "the bundle of Hudi 1.2.0 is not in the image registry.example/compaction-operator-hive:1: "
    )
    assert "name an image with Hudi's jars in a profile" in result.message


def test_the_driver_takes_hudis_types_to_hudi_and_says_what_hudi_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(driver, "TERMINATION_MESSAGE_PATH", str(tmp_path / "termination-log"))
    (tmp_path / "termination-log").touch()
    asked = request(location=str(tmp_path))
    environment = {"COMPACTION_REQUEST": asked.model_dump_json(by_alias=True), "POD_UID": "pod-1"}
    assert driver.main(environment) == 1
    result = DriverResult.model_validate_json((tmp_path / "termination-log").read_text())
    assert result.reason is Reason.TABLE_NOT_FOUND
    assert "no Hudi table" in result.message


class Client:
    """A client of a table whose last writer had another clock. It implements nothing else."""

    def __init__(self, skew: float = 0.0) -> None:
        self._skew = skew

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def clock_skew(self) -> float:
        return self._skew

    def partitions(self) -> tuple[str, ...]:
        return ("dt=1/hour=2", "dt=3/hour=1")

    def remove_empty_plans(self) -> None:
        raise NotImplementedError("the flow has begun")


def begin(asked: JobRequest, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked.table.location
    monkeypatch.setattr(HudiClient, "open", lambda *_, **__: client)
    hudi_driver.compact(
        prepare(asked, asked.table.location),
        asked,
        lease=lambda: nullcontext(Lease()),
        session=lambda: nullcontext(None),
        report=Reports(),
    )


@pytest.mark.parametrize("wanted", ["dt=2", "dt=1/hour", "hour=2"])
def test_a_partition_that_is_not_there_is_named(location: str, monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    asked = request(location=location, partitions=("dt=1", wanted))
    with pytest.raises(JobError, match=f"'{wanted}'") as caught:
        begin(asked, Client(), monkeypatch)
    assert caught.value.reason is Reason.PARTITION_NOT_FOUND


def test_partitions_may_be_named_by_the_beginning_of_their_path(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotImplementedError, match="has begun"):
        begin(request(location=location, partitions=("dt=1", "/dt=3/hour=1/")), Client(), monkeypatch)


@pytest.mark.parametrize(("skew", "refused"), [(3600, True), (-7 * 3600, True), (5, False), (-30 * 86400, False)])
def test_a_driver_in_another_time_zone_than_the_writers_touches_nothing(
    location: str, monkeypatch: pytest.MonkeyPatch, skew: float, refused: bool
) -> None:
    """A compaction with an instant from the future would hide what is written until then."""
    with pytest.raises(JobError if refused else NotImplementedError) as caught:
        begin(request(location=location), Client(skew), monkeypatch)
    assert ("time zone" in str(caught.value)) is refused


@pytest.mark.parametrize(
    ("version", "skew", "reason"),
    [
        (6, 3600, Reason.WAITING_FOR_INSTANT),
        (6, -3600, Reason.UNSUPPORTED_TABLE),
        (8, 3600, Reason.UNSUPPORTED_TABLE),
        (9, 3600, Reason.UNSUPPORTED_TABLE),
    ],
)
def test_a_driver_waits_where_slow_writers_look_like_writers_in_another_time_zone(
    location: str, monkeypatch: pytest.MonkeyPatch, version: int, skew: float, reason: Reason
) -> None:
    """In version 6 a completed instant does not say when it completed, and an instant is never from the future."""
    written(Path(location), version=str(version), **{"metadata.partitions": "" if version == 6 else "files"})
    with pytest.raises(JobError, match="time zone") as caught:
        begin(request(location=location), Client(skew), monkeypatch)
    assert caught.value.reason is reason
