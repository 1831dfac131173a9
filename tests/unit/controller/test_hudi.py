"""Compactions of Hudi tables in the controller: who may, one attempt per place, what is asked, how an end is judged."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.compaction import Format
from compaction_operator.api.conditions import find_condition
from compaction_operator.api.config import HudiSettings, OperatorConfig
from compaction_operator.api.hudi import HudiMode, HudiOptions, HudiStatus
from compaction_operator.api.request import REQUEST_VARIABLE, SUCCESS_REASONS, DriverResult, JobRequest, Reason
from compaction_operator.controller.answers import Preflight
from compaction_operator.controller.compaction.decide import (
    CompactionAction,
    CompactionDecision,
    CompactionObservation,
    End,
    decide,
)
from compaction_operator.controller.kube.cache import Cache
from compaction_operator.controller.kube.driver_pod import DriverEnd
from compaction_operator.controller.kube.job import JobState, JobView, job_manifest, job_name, job_request
from compaction_operator.controller.kube.resources import ResourceKind, TableKey
from compaction_operator.controller.permissions import refusal
from compaction_operator.controller.work import Work
from compaction_operator.metastore import Table
from tests.support.metastore import FakeMetastore, serving, unavailable
from tests.unit.controller.sandbox import (
    CONFIG,
    NOON,
    Sandbox,
    cleanup_raw,
    compaction,
    compaction_raw,
    condition,
    runs,
)

PLACE = "/warehouse/lake/orders"
BY_LOCATION: dict[str, Any] = {"table": {"location": PLACE}, "type": "LogCompaction"}
BY_NAME: dict[str, Any] = {"table": {"database": "Sales", "name": "Orders_rt"}, "type": "LogCompaction"}
JOB = job_name(compaction="nightly", uid="uid-default-nightly", attempt=1)
RUNNING = {"attempt": 1, "job": JOB, "location": PLACE}
DONE = HudiStatus(instant="20260101120000000", action="logcompaction", state="Completed", blocks_in=8, blocks_out=1)


# --- Who may


@pytest.mark.parametrize(
    ("fields", "reason", "named"),
    [
        (BY_LOCATION, None, ""),
        (BY_NAME, None, ""),
        ({**BY_LOCATION, "format": "Hudi"}, None, ""),
        ({"format": "HiveAcid"}, None, ""),
        ({"table": {"location": "file:///warehouse//lake/"}, "type": "Compaction"}, None, ""),
        ({**BY_LOCATION, "format": "HiveAcid"}, "WrongFormat", "type LogCompaction requires format Hudi"),
        ({"format": "Hudi"}, "WrongFormat", "type Minor requires format HiveAcid"),
        ({"table": {"location": PLACE}, "type": "Major"}, "WrongFormat", "table.location is for Hudi tables"),
        ({"table": {"location": "/warehouse/lakes/t"}, "type": "Compaction"}, "NotAllowed", "/warehouse/lakes/t"),
        ({"table": {"location": "/warehouse"}, "type": "Compaction"}, "NotAllowed", "below: /warehouse/lake"),
        ({"table": {"location": "/warehouse/lake/../hr/t"}, "type": "Compaction"}, "NotAllowed", "'..'"),
        ({"table": {"location": "gs://lake/t"}, "type": "Compaction"}, "NotAllowed", "'gs' is not supported"),
        ({"table": {"database": "hr", "name": "t"}, "type": "Compaction"}, "NotAllowed", "database hr"),
    ],
)
def test_what_the_configuration_lets_be_compacted(fields: dict[str, Any], reason: str | None, named: str) -> None:
    """By name what its databases are, by location only what lies below a folder that is listed, by whole names."""
    refused = refusal(compaction(**fields), CONFIG)
    assert (refused.reason if refused else None) == reason
    assert refused is None or named in refused.message


def test_without_listed_locations_no_table_goes_by_location() -> None:
    refused = refusal(compaction(**BY_LOCATION), with_hudi(HudiSettings()))
    assert refused is not None
    assert refused.reason is Reason.NOT_ALLOWED
    assert refused.message == (
        f"table.location {PLACE} is not allowed: warehouse lake lists no folder in hudi.locations; "
        "name the table by database and name"
    )


@pytest.mark.parametrize(
    ("location", "allowed"),
    [
        ("s3a://lake/hudi/orders", True),
        ("s3://lake/hudi/orders", True),
        ("s3a://lake/hudi2/orders", False),
        ("s3a://other/hudi/orders", False),
        ("/lake/hudi/orders", False),
        ("hdfs://ns/hudi/orders", True),
        ("hdfs://other/hudi/orders", False),
    ],
)
def test_a_folder_on_a_store_allows_what_is_below_it_there_only(location: str, allowed: bool) -> None:
    config = with_hudi(HudiSettings(locations=("s3://lake/hudi", "hdfs://ns/hudi/")))
    refused = refusal(compaction(table={"location": location}, type="Compaction"), config)
    assert (refused is None) is allowed


def with_hudi(settings: HudiSettings) -> OperatorConfig:
    warehouse = CONFIG.warehouses[0].model_copy(update={"hudi": settings})
    return CONFIG.model_copy(update={"warehouses": (warehouse,)})


# --- One attempt per place


def test_a_table_is_its_location_as_soon_as_that_is_known() -> None:
    """In any spelling; until then it goes by its name. Case counts in a path."""
    key = TableKey("", "", PLACE)
    assert compaction(**BY_NAME).table == TableKey("lake", "sales", "orders_rt")
    assert compaction(**BY_NAME, status={"location": PLACE}).table == key
    assert compaction(table={"location": f"file://{PLACE}/"}, type="Compaction").table == key
    assert compaction(table={"location": PLACE.upper()}, type="Compaction").table != key
    on_hdfs = {compaction(table={"location": f"hdfs://{one}/t"}, type="Compaction").table for one in ("nn:8020", "ha")}
    on_s3 = {compaction(table={"location": f"{one}://ha/t"}, type="Compaction").table for one in ("s3", "s3a", "s3n")}
    assert len(on_hdfs | on_s3 | {key}) == 3
    assert str(key) == PLACE
    strange = compaction(table={"location": "gs://lake/t"}, type="Compaction").table
    assert strange == TableKey("", "", "gs://lake/t")


@runs
async def test_one_attempt_per_place_whatever_it_is_called() -> None:
    """Two names of the metastore and the location itself, in two namespaces: one after the other."""
    box = Sandbox()
    box.work.verdict = Preflight(location=PLACE)
    named = {**BY_NAME, "table": {"database": "sales", "name": "orders_ro"}}
    for minute, (name, namespace, spec) in enumerate(
        [("nightly", "default", BY_NAME), ("a", "other", named), ("b", "default", BY_LOCATION)]
    ):
        created = box.time.now.replace(minute=minute)
        box.kube.apply(ResourceKind.COMPACTION, compaction_raw(name, namespace=namespace, created=created, **spec))
    await box.start()
    assert box.kube.jobs() == [JOB]
    assert box.compaction()["location"] == PLACE
    for name, namespace in (("a", "other"), ("b", "default")):
        status = box.kube.status(ResourceKind.COMPACTION, name, namespace)
        assert condition(status)["message"] == "waiting for compaction default/nightly, which works on the same table"
    box.kube.end_job(JOB, DriverResult(reason=Reason.COMPACTED, message="done", hudi=DONE), ok=True)
    await box.run()
    assert len(box.kube.jobs()) == 2
    assert box.kube.status(ResourceKind.COMPACTION, "a", "other")["phase"] == "Running"


def test_who_waits_for_a_name_is_woken_when_it_becomes_a_place() -> None:
    """It goes on by the place itself, as soon as it has asked for it."""
    cache, raw = Cache(), compaction_raw(**BY_NAME)
    cache.put_compaction(raw)
    known = {**raw, "metadata": {**raw["metadata"], "resourceVersion": "2"}, "status": {"location": PLACE}}
    cache.put_compaction(known)
    assert cache.freed == {TableKey("lake", "sales", "orders_rt")}
    cache.put_compaction({**known, "metadata": {**raw["metadata"], "resourceVersion": "3"}})
    assert cache.freed == {TableKey("lake", "sales", "orders_rt")}


def test_the_place_is_written_down_before_an_attempt_is_recorded() -> None:
    """Only then is it known whom it waits for."""
    first = step({}, CompactionObservation(verdict=Preflight(location=PLACE)))
    assert (first.status.location, first.status.attempt, first.action) == (PLACE, 0, CompactionAction.NONE)
    assert first.requeue_after == 0
    second = step(first.status.to_json(), CompactionObservation(verdict=Preflight(location=PLACE)))
    assert (second.status.attempt, second.action) == (1, CompactionAction.CREATE_JOB)
    moved = step(first.status.to_json(), CompactionObservation(verdict=Preflight(location="/warehouse/lake/moved")))
    assert (moved.status.location, moved.status.attempt) == ("/warehouse/lake/moved", 0)


# --- What is asked before a pod is started


def hudi_table(place: Path, **properties: str) -> Path:
    """Make a merge-on-read table of version 8. The properties override its own (dots as underscores)."""
    plain = {"table_name": "orders", "table_type": "MERGE_ON_READ", "table_version": "8"} | properties
    folder = place / "orders"
    (folder / ".hoodie").mkdir(parents=True)
    lines = [f"hoodie.{key.replace('_', '.')}={value}" for key, value in plain.items()]
    (folder / ".hoodie" / "hoodie.properties").write_text("\n".join(lines))
    return folder


def preflight(
    place: Path | str,
    *,
    hudi: dict[str, Any] | None = None,
    config: OperatorConfig = CONFIG,
    metastore: FakeMetastore | None = None,
    **fields: Any,
) -> Preflight:
    work = Work(config, clock=lambda: NOON, connect=lambda _: (metastore or unavailable()).client())
    table = BY_NAME["table"] if metastore else {"location": str(place)}
    given = {"type": "LogCompaction"} | fields | ({"hudi": hudi} if hudi else {})
    return work.preflight(compaction(table=table, **given))


def test_a_table_by_location_is_asked_itself(tmp_path: Path) -> None:
    """This needs no metastore, which may be down."""
    place = hudi_table(tmp_path)
    assert preflight(f"file://{place}") == Preflight(location=str(place))


def test_a_table_by_name_is_found_by_the_metastore(tmp_path: Path) -> None:
    place = hudi_table(tmp_path)
    table = Table(
        database="sales", name="orders_rt", location=f"file:{place}", create_time=1, columns=(), serde="",
        input_format="org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat",
    )  # fmt: skip
    assert preflight(place, metastore=serving(table)) == Preflight(location=str(place))
    plain = replace(table, input_format="org.apache.hadoop.mapred.TextInputFormat")
    assert preflight(place, metastore=serving(plain)).reason is Reason.WRONG_FORMAT
    assert preflight(place, metastore=unavailable()).reason is Reason.METASTORE_UNAVAILABLE
    narrow = CONFIG.warehouses[0].model_copy(update={"locations": ("/other",)})
    config = CONFIG.model_copy(update={"warehouses": (narrow,)})
    assert preflight(place, metastore=serving(table), config=config).reason is Reason.NOT_ALLOWED
    elsewhere = replace(table, location="gs://lake/orders")
    assert preflight(place, metastore=serving(elsewhere)).reason is Reason.UNSUPPORTED_TABLE


def test_a_table_that_cannot_be_read_now_is_asked_again(tmp_path: Path) -> None:
    (tmp_path / ".hoodie" / "hoodie.properties").mkdir(parents=True)
    verdict = preflight(tmp_path)
    assert verdict.reason is Reason.STORAGE_UNAVAILABLE
    assert "hoodie.properties" in verdict.message


@pytest.mark.parametrize(
    ("properties", "hudi", "reason", "named"),
    [
        ({"table_type": "COPY_ON_WRITE"}, {}, Reason.NOT_MERGE_ON_READ, "copy-on-write"),
        ({"table_version": "10"}, {}, Reason.UNSUPPORTED_TABLE, "version 10"),
        ({"table_version": "9"}, {"bundle": "1.0.2"}, Reason.UNSUPPORTED_TABLE, "1.0.2"),
        (
            {"table_version": "6", "table_metadata_partitions": "files"},
            {},
            Reason.UNSUPPORTED_TABLE,
            "version 6 and a metadata table",
        ),
        ({}, {"options": {"hoodie.base.path": "/etc"}}, Reason.REFUSED_OPTION, "hoodie.base.path"),
    ],
)
def test_what_can_never_be_done_costs_no_pod(
    tmp_path: Path, properties: dict[str, str], hudi: dict[str, Any], reason: Reason, named: str
) -> None:
    verdict = preflight(hudi_table(tmp_path, **properties), hudi=hudi)
    assert verdict.reason is reason
    assert named in verdict.message


def test_a_clean_waits_without_a_pod_while_all_deletion_is_held(tmp_path: Path) -> None:
    held = CONFIG.model_copy(update={"cleanup": CONFIG.cleanup.model_copy(update={"suspend": True})})
    place = hudi_table(tmp_path)
    verdict = preflight(place, config=held, type="Clean")
    assert (verdict.reason, verdict.location) == (Reason.SUSPENDED, None)
    assert "cleanup.suspend is set" in verdict.message
    assert preflight(place, type="Clean").reason is None
    assert preflight(place, config=held, type="Archive").reason is None


def test_what_does_not_apply_to_a_clean_costs_no_pod(tmp_path: Path) -> None:
    verdict = preflight(hudi_table(tmp_path), type="Clean", partitions=["2024"])
    assert (verdict.reason, verdict.message) == (
        Reason.REFUSED_OPTION,
        "partitions does not apply to type Clean: remove it",
    )


def test_where_no_table_lies_is_said(tmp_path: Path) -> None:
    verdict = preflight(tmp_path)
    assert verdict.reason is Reason.TABLE_NOT_FOUND
    assert f"{tmp_path} is no Hudi table" in verdict.message


def test_a_lock_provider_is_needed_unless_there_is_a_single_writer(tmp_path: Path) -> None:
    """The provider of the warehouse counts for all of its tables."""
    place, without = hudi_table(tmp_path), with_hudi(HudiSettings())
    assert preflight(place).reason is None
    assert preflight(place, config=without).reason is Reason.NO_LOCK_PROVIDER
    assert preflight(place, config=without, hudi={"singleWriter": True}).reason is None


# --- The job


def test_the_driver_gets_the_format_and_hudis_options() -> None:
    """The controller has resolved Auto by then. An option that is not given has Hudi's default."""
    scheduled = compaction(**BY_LOCATION, hudi={"mode": "Schedule", "maxLogFileSizeToMerge": "40KiB"})
    request = job_request(scheduled, CONFIG)
    (container,) = job_manifest(request, ttl=600.0)["spec"]["template"]["spec"]["containers"]
    (text,) = [one["value"] for one in container["env"] if one["name"] == REQUEST_VARIABLE]
    told = JobRequest.model_validate_json(text)
    assert told == request
    assert (told.format, told.table.location) == (Format.HUDI, PLACE)
    assert told.hudi == HudiOptions(mode=HudiMode.SCHEDULE, max_log_file_size_to_merge=40 * 1024)
    assert told.warehouse.hudi == CONFIG.warehouses[0].hudi
    hive = job_request(compaction(), CONFIG)
    assert (hive.format, hive.hudi) == (Format.HIVE_ACID, HudiOptions())


def test_the_driver_learns_that_all_deletion_is_held() -> None:
    held = CONFIG.model_copy(update={"cleanup": CONFIG.cleanup.model_copy(update={"suspend": True})})
    for config, told in ((CONFIG, False), (held, True)):
        assert job_request(compaction(**BY_LOCATION), config).cleaner_held is told


# --- How an attempt's end is judged


def view(state: JobState) -> JobView:
    return JobView(namespace="default", name=JOB, resource_version=5, compaction="nightly", state=state)


def step(status: dict[str, Any], observed: CompactionObservation, **fields: Any) -> CompactionDecision:
    return decide(compaction(status=status, **{**BY_LOCATION, **fields}), observed, config=CONFIG, now=NOON)


def ended(result: DriverResult | None, *, ok: bool = True, attempt_ended: bool = False) -> CompactionObservation:
    end = End(DriverEnd(result, "the driver exited with code 1"), ())
    return CompactionObservation(
        job=view(JobState.SUCCEEDED if ok else JobState.FAILED), end=end, attempt_ended=attempt_ended
    )


def said(decision: CompactionDecision) -> tuple[str, str, str]:
    found = find_condition(decision.status.conditions, "Succeeded")
    assert found is not None
    return found.status.value, found.reason, found.message


@pytest.mark.parametrize("reason", sorted(SUCCESS_REASONS))
def test_a_good_end_is_what_the_driver_says(reason: Reason) -> None:
    decision = step(RUNNING, ended(DriverResult(reason=reason, message="as it was", hudi=DONE)))
    assert said(decision) == ("True", reason, "as it was")
    assert decision.status.hudi == DONE
    assert decision.status.completion_time
    assert (decision.status.totals, decision.status.cleanups) == (None, ())


def test_a_good_end_without_a_word_is_one_all_the_same() -> None:
    """The pod may be gone with its message: that its Job succeeded is known."""
    decision = step(RUNNING, ended(None))
    assert said(decision)[:2] == ("True", "Compacted")
    assert "its report is lost" in said(decision)[2]


def test_a_bad_end_keeps_what_was_seen_of_the_table() -> None:
    """So a user sees which instants stand in the way; it is not counted."""
    waits = HudiStatus(pending=("20260101120000000",))
    result = DriverResult(reason=Reason.WAITING_FOR_INSTANT, message="20260101120000000 is not ours", hudi=waits)
    decision = step({**RUNNING, "failedAttempts": 2}, ended(result, ok=False, attempt_ended=True))
    assert said(decision) == ("Unknown", "WaitingForInstant", "20260101120000000 is not ours")
    assert (decision.status.hudi, decision.status.failed_attempts) == (waits, 2)
    assert decision.status.next_attempt_time


def test_what_an_earlier_attempt_saw_stays_until_there_is_news() -> None:
    decision = step({**RUNNING, "hudi": DONE.to_json()}, ended(None, ok=False, attempt_ended=True))
    assert said(decision)[:2] == ("Unknown", "DriverFailed")
    assert decision.status.hudi == DONE


def test_a_failed_attempt_leaves_nothing_to_bury(tmp_path: Path) -> None:
    """Its dead instants are the next attempt's to deal with: nothing in the table's folder is touched."""
    place = hudi_table(tmp_path)
    (place / "_compaction_uid-default-nightly-1-pod").mkdir()
    work = Work(CONFIG, clock=lambda: NOON, connect=lambda _: unavailable().client())
    assert work.end_attempt(compaction(table={"location": str(place)}, type="Compaction", status=RUNNING)) is None
    assert work.end_attempt(compaction(**BY_NAME, status=RUNNING)) is None
    assert (place / "_compaction_uid-default-nightly-1-pod").exists()


@runs
async def test_a_cleanup_that_claims_to_be_of_a_hudi_compaction_says_nothing_of_it() -> None:
    """None is ever made for one; anybody who may write resources may name any UID."""
    box = Sandbox()
    box.work.verdict = Preflight(location=PLACE)
    box.work.published = False
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw(**BY_LOCATION))
    await box.start()
    box.kube.apply(ResourceKind.CLEANUP, cleanup_raw())
    box.kube.end_job(JOB, DriverResult(reason=Reason.COMPACTED, message="done", hudi=DONE), ok=True)
    await box.run()
    assert condition(box.compaction())["reason"] == "Compacted"
    assert "cleanups" not in {name for name, value in box.compaction().items() if value}
    assert "started" in next(event["message"] for event in box.kube.events if event["reason"] == "Started")
