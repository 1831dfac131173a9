"""The metrics for Prometheus: each number once, and the same after a restart for what still exists."""

from compaction_operator.api.request import Reason
from compaction_operator.controller.answers import Preflight
from compaction_operator.controller.kube.resources import ResourceKind
from tests.unit.controller.sandbox import Sandbox, cleanup_raw, compaction_raw, condition, entry_json, runs


def value(box: Sandbox, name: str, **labels: str) -> float | None:
    return box.metrics.registry.get_sample_value(f"compaction_operator_{name}", labels)


@runs
async def test_a_cleanup_from_waiting_to_deleted() -> None:
    box = Sandbox()
    box.kube.apply(ResourceKind.CLEANUP, cleanup_raw(deadline="1m"))
    box.work.locks = (12,)
    await box.start()
    await box.pass_time(100)
    assert value(box, "cleanups_waiting", reason="ReadersFromBefore") == 1
    assert value(box, "cleanups_oldest_seconds", reason="ReadersFromBefore") == 100
    assert value(box, "cleanups_overdue") == 1
    assert value(box, "lock_queries_total", warehouse="lake") == 51
    assert value(box, "look_seconds_count", warehouse="lake") == 51
    box.work.locks = ()
    await box.pass_time(2)
    assert value(box, "cleanups_waiting", reason="ReadersFromBefore") is None
    assert value(box, "cleanups_overdue") == 0
    assert value(box, "directories_deleted_total", warehouse="lake") == 3
    assert value(box, "bytes_deleted_total", warehouse="lake") == 30


@runs
async def test_a_metastore_that_does_not_answer() -> None:
    box = Sandbox()
    box.work.metastore_down = True
    box.kube.apply(ResourceKind.CLEANUP, cleanup_raw())
    await box.start()
    assert value(box, "errors_total", warehouse="lake", operation="settle") == 1
    box.work.metastore_down = False
    box.work.locks = (12,)
    await box.pass_time(2)
    box.work.metastore_down = True
    await box.pass_time(2)
    assert value(box, "errors_total", warehouse="lake", operation="look") == 1
    assert value(box, "cleanups_waiting", reason="MetastoreUnavailable") == 1


@runs
async def test_what_is_not_deleted_by_its_reason() -> None:
    box = Sandbox()
    box.work.needed = {"prt=p1"}
    box.kube.apply(ResourceKind.CLEANUP, cleanup_raw(entries=[entry_json("prt=p1")]))
    await box.start()
    assert value(box, "deletions_refused_total", reason="StillNeeded") == 3


@runs
async def test_compactions_by_phase_and_attempts_by_outcome() -> None:
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    assert value(box, "compactions", phase="Running") == 1
    box.kube.end_job(box.kube.jobs()[0], ok=False)
    await box.run()
    assert value(box, "attempts_total", outcome="DriverFailed") == 1
    await box.pass_time(10)
    box.kube.end_job(box.kube.jobs()[1], ok=True)
    await box.run()
    assert value(box, "attempts_total", outcome="NothingToCompact") == 1
    assert value(box, "compactions", phase="Succeeded") == 1


@runs
async def test_a_preflight_that_was_not_answered_is_an_error() -> None:
    """By the metastore or by the storage; a refusal is an answer."""
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    box.work.metastore_down = True
    await box.start()
    asked = box.work.calls.count("preflight")
    assert value(box, "errors_total", warehouse="lake", operation="preflight") == asked > 0
    for reason, counts in ((Reason.STORAGE_UNAVAILABLE, True), (Reason.UNSUPPORTED_TABLE, False)):
        box = Sandbox()
        box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
        box.work.verdict = Preflight(reason, "why")
        await box.start()
        counted = value(box, "errors_total", warehouse="lake", operation="preflight")
        assert counted == (box.work.calls.count("preflight") if counts else None)


@runs
async def test_bytes_that_were_published_are_counted_once() -> None:
    box = Sandbox()
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    await box.start()
    (job,) = box.kube.jobs()
    sizes = {"bytesIn": 90, "bytesIngested": 60, "bytesOut": 80, "bytesCopied": 50, "bytesRewritten": 30}
    plan = {"bytesCopied": 50, "bytesRewritten": 31, "cpuMilliseconds": 30}
    raw = cleanup_raw(
        "nightly-1-0",
        entries=[entry_json(totals={"partitions": 1, **sizes}, forecast=plan, cpuMilliseconds=40)],
    )
    raw["spec"]["compaction"]["job"] = job
    box.kube.apply(ResourceKind.CLEANUP, raw)
    box.kube.end_job(job, ok=True)
    await box.run()
    await box.pass_time(60)
    assert "(80 bytes: 50 copied, 30 rewritten), write amplification 2.33," in condition(box.compaction())["message"]
    assert value(box, "bytes_ingested_total", warehouse="lake") == 60
    assert value(box, "bytes_written_total", warehouse="lake", how="Copied") == 50
    assert value(box, "bytes_written_total", warehouse="lake", how="Rewritten") == 30
    assert box.compaction()["forecast"] == {"filesIn": 0, "bytesIn": 0, "rowsRemoved": 0, **plan}
    assert box.compaction()["cpuMilliseconds"] == 40
    assert value(box, "forecast_ratio_count", warehouse="lake", what="Bytes") == 1
    assert value(box, "forecast_ratio_sum", warehouse="lake", what="Bytes") == 81 / 80
    assert value(box, "forecast_ratio_sum", warehouse="lake", what="CPU") == 30 / 40
