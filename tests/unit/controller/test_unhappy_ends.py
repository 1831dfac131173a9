"""What the status says, and what the controller retries, if an attempt cannot begin or cannot be finished."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from compaction_operator.api.conditions import find_condition
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.controller.compaction.decide import CompactionDecision, CompactionObservation, End, decide
from compaction_operator.controller.kube.client import KubeError
from compaction_operator.controller.kube.driver_pod import DriverEnd
from compaction_operator.controller.kube.job import JobState, JobView
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.metastore import Partition
from tests.support.metastore import FakeMetastore
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


def test_a_table_on_a_storage_that_is_not_supported_costs_no_pod(tmp_path: Path) -> None:
    verdict = work(metastore_of(table(tmp_path, location="hdfs://nn/warehouse/orders"))).preflight(compaction())
    assert verdict.reason is Reason.UNSUPPORTED_TABLE
    assert "sales.orders: hdfs://nn/warehouse/orders: storage scheme 'hdfs' is not supported" in verdict.message


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
