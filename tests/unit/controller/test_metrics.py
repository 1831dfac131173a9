"""The metrics for Prometheus: each number once, and the same after a restart for what still exists."""

import threading

from compaction_operator.api.request import Reason
from compaction_operator.controller.answers import Preflight
from compaction_operator.controller.kube.client import KubeError
from compaction_operator.controller.kube.cluster import Pools
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.controller.kube.workers import Workers
from tests.unit.controller.sandbox import (
    NOON,
    Sandbox,
    Time,
    cleanup_raw,
    compaction_raw,
    condition,
    entry_json,
    runs,
)
from tests.unit.controller.test_policies import end, memory, policy_raw, started, state, status


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


@runs
async def test_what_compactions_wait_for_and_since_when() -> None:
    box = Sandbox()
    for name in ("a", "b"):
        box.kube.apply(ResourceKind.COMPACTION, compaction_raw(name))
    await box.start()
    await box.pass_time(60)
    assert (
        value(box, "compactions_waiting", reason="Queued") == value(box, "compactions_waiting", reason="Running") == 1
    )
    assert value(box, "compactions_oldest_seconds", reason="Queued") == 60
    box.kube.end_job(box.kube.jobs()[0], ok=True)
    await box.run()
    assert value(box, "compactions_waiting", reason="NothingToCompact") is None


@runs
async def test_a_standby_has_no_numbers_of_resources() -> None:
    """At a takeover, Prometheus would take the step from 0 to all of them for new ones, such as failed cleanups."""
    box = Sandbox()
    box.create()
    assert value(box, "cleanups", phase="Failed") is None
    await box.start()
    assert value(box, "cleanups", phase="Failed") == 0


@runs
async def test_numbers_begin_at_zero_so_that_the_first_change_is_seen() -> None:
    """Prometheus counts no increase from nothing to 1."""
    box = Sandbox()
    await box.start()
    assert {value(box, "attempts_total", outcome=reason.value) for reason in Reason} == {0}
    assert value(box, "cleanups", phase="Failed") == value(box, "compactions", phase="Failed") == 0
    assert value(box, "reconcile_errors_total", kind="CompactionPolicy") == 0


@runs
async def test_an_idle_controller_looks_for_work_again_and_again() -> None:
    """One that is stuck does not, and its last step gets old; the liveness probe only asks whether the loop runs."""
    box = Sandbox()
    box.create()
    assert value(box, "last_step_timestamp_seconds") == 0
    await box.start()
    await box.pass_time(3600)
    assert value(box, "last_step_timestamp_seconds") == NOON.timestamp() + 3600


@runs
async def test_a_metastore_is_up_or_down_also_without_any_work() -> None:
    box = Sandbox()
    await box.start()
    assert value(box, "metastore_up", warehouse="lake") is None
    await box.pass_time(30)
    assert value(box, "metastore_up", warehouse="lake") == 1
    box.work.metastore_down = True
    await box.pass_time(30)
    assert value(box, "metastore_up", warehouse="lake") == 0
    box.work.metastore_down = False
    await box.pass_time(30)
    assert value(box, "metastore_up", warehouse="lake") == 1


@runs
async def test_a_reconcile_that_fails_is_counted() -> None:
    box = Sandbox()

    def refuse(*_: object) -> None:
        raise KubeError("500")

    box.kube.replace_status = refuse  # type: ignore[assignment]
    box.kube.apply(ResourceKind.COMPACTION, compaction_raw())
    box.kube.apply(ResourceKind.POLICY, policy_raw())
    await box.start()
    assert value(box, "reconcile_errors_total", kind="TableCompaction") == 1
    assert value(box, "reconcile_errors_total", kind="CompactionPolicy") == 1


def test_a_call_that_hangs_shows_its_age_and_an_idle_pool_none() -> None:
    time, began, free = Time(), threading.Event(), threading.Event()
    pool = Workers(1, ticks=time.ticks)

    def hang() -> None:
        began.set()
        free.wait(60)

    hung = pool.submit(hang)
    began.wait(60)
    time.seconds += 100
    behind = pool.submit(lambda: None)
    time.seconds += 200
    assert pool.load().oldest == 300
    free.set()
    hung.result(60)
    behind.result(60)
    pool.shutdown()
    assert pool.load().oldest == 0


@runs
async def test_each_pool_of_a_warehouse_has_its_own_age() -> None:
    pools = Pools.of(["lake"], kube=1, tables=1, preflights=1, polling=1, deletion=1)
    box = Sandbox(pools=pools)
    box.create()
    names = ("tables", "preflights", "polling", "deletion", "surveys")
    assert {value(box, "pool_oldest_call_seconds", warehouse="lake", pool=name) for name in names} == {0}
    assert value(box, "pool_oldest_call_seconds", warehouse="", pool="kube") == 0
    pools.shut_down()


@runs
async def test_a_policy_says_how_many_tables_it_keeps_back_and_since_when() -> None:
    box = await started(memory(state("sales.a"), state("sales.b")), maxConcurrent=1, maxDelay="2h")
    assert value(box, "policy_ready", policy="default/keep") == 1
    assert value(box, "policy_tables", policy="default/keep", state="seen") == 2
    assert value(box, "policy_tables", policy="default/keep", state="keptBack") == 1
    await box.pass_time(600)
    assert value(box, "policy_oldest_due_seconds", policy="default/keep") == 600
    assert value(box, "policy_max_delay_seconds", policy="default/keep") == 7200


@runs
async def test_what_found_nothing_to_merge_is_not_behind() -> None:
    """A Hudi log compaction may find nothing for ever: the alert would never end."""
    box = await started(memory(state("sales.a")))
    await end(box)
    await box.pass_time(600)
    assert [one["keptBackBy"] for one in status(box)["next"]] == ["NothingGained"]
    assert value(box, "policy_oldest_due_seconds", policy="default/keep") == 0


@runs
async def test_a_time_in_a_status_that_cannot_be_read_does_not_stop_the_metrics() -> None:
    box = await started(memory(state("sales.a"), state("sales.b"), state("sales.c")), maxConcurrent=1)
    raw = box.kube.get(ResourceKind.POLICY, "keep")
    raw["status"]["next"][0]["dueSince"] = "soon"
    box.kube.apply(ResourceKind.POLICY, raw)
    await box.run()
    assert value(box, "policy_oldest_due_seconds", policy="default/keep") == 0


@runs
async def test_a_policy_that_only_says_what_it_would_do_keeps_nothing_back() -> None:
    box = await started(memory(state("sales.a")), dryRun=True)
    assert value(box, "policy_tables", policy="default/keep", state="due") == 1
    assert value(box, "policy_oldest_due_seconds", policy="default/keep") is None


@runs
async def test_a_policy_that_cannot_work_is_not_ready_and_a_suspended_one_says_nothing() -> None:
    box = await started(memory(state("sales.a")), partitions={"filters": ["day"]})
    assert value(box, "policy_ready", policy="default/keep") == 0
    box = await started(memory(state("sales.a")), suspend=True)
    assert value(box, "policy_ready", policy="default/keep") is None


@runs
async def test_a_policy_of_another_operator_is_not_shown() -> None:
    box = Sandbox()
    raw = policy_raw()
    raw["metadata"]["namespace"] = "elsewhere"
    box.kube.apply(ResourceKind.POLICY, raw)
    await box.start()
    assert value(box, "policy_ready", policy="elsewhere/keep") is None
