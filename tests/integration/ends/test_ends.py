"""Kubernetes ends a driver, or refuses its pod: what the status says, and what the next attempt gets."""

from typing import Any

import pytest
from sandbox.harness.expected import AFTER_INSERTS_MINOR, INSERTS

from compaction_operator.api.cleanup import LABEL_ATTEMPT, LABEL_COMPACTION_UID
from compaction_operator.api.compaction import Phase, TableCompactionStatus
from compaction_operator.api.conditions import SUCCEEDED, find_condition
from compaction_operator.api.model import parse_size
from compaction_operator.controller.kube.job import LABEL_QUEUE
from tests.integration.ends.conftest import SECONDS, Attempts
from tests.integration.metastore.fixture_table import FixtureTable

LOW = "The node was low on resource: memory."
EVICTED = {"reason": "Evicted", "message": LOW}
TARGET = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "a higher one"}


def message(status: TableCompactionStatus) -> str:
    verdict = find_condition(status.conditions, SUCCEEDED)
    assert verdict
    return verdict.message


def require_done(attempts: Attempts, table: FixtureTable, *, attempt: int, failed: int) -> None:
    """The compaction has succeeded and is cleaned up, in this many attempts; the table has its one delta."""
    status = attempts.plane.wait_ended(attempts.name, timeout=SECONDS).status
    attempts.plane.wait_cleaned(attempts.name, timeout=SECONDS)
    assert (status.attempt, status.failed_attempts) == (attempt, failed)
    assert frozenset(table.names()) == AFTER_INSERTS_MINOR
    assert (table.locks(), table.own_transactions()) == ([], [])


def memory(attempts: Attempts) -> list[int]:
    """Return the bytes that the driver of each attempt asked for."""
    uid = attempts.plane.compaction(attempts.name).meta.uid
    jobs = attempts.plane.mirror.all("jobs", **{LABEL_COMPACTION_UID: uid})
    ordered = sorted(jobs, key=lambda job: int(job["metadata"]["labels"][LABEL_ATTEMPT]))
    containers = [job["spec"]["template"]["spec"]["containers"][0] for job in ordered]
    return [parse_size(one["resources"]["requests"]["memory"]) for one in containers]


def test_a_driver_without_enough_memory_is_followed_by_larger_ones(attempts: Attempts, table: FixtureTable) -> None:
    """Larger once, however often drivers die of something else afterwards."""
    attempts.plane.drivers.end(attempts.driver(1), why="OOMKilled")
    status = attempts.says("OOMKilled")
    assert (status.phase, status.failed_attempts) == (Phase.WAITING, 1)
    assert "the driver exited with code 137 (OOMKilled)" in message(status)
    assert frozenset(table.names()) == INSERTS
    attempts.plane.drivers.end(attempts.driver(2))
    attempts.go_on()
    require_done(attempts, table, attempt=3, failed=2)
    first, *larger = memory(attempts)
    assert larger == [first * 3 // 2] * 2


@pytest.mark.parametrize(
    ("reason", "pod", "says"),
    [("Evicted", EVICTED, LOW), ("Preempted", {"conditions": [TARGET]}, "a higher one")],
)
def test_a_driver_that_has_to_make_room_does_not_count(
    attempts: Attempts, table: FixtureTable, reason: str, pod: dict[str, Any], says: str
) -> None:
    """It did nothing wrong. The next one gets no more memory."""
    attempts.plane.drivers.end(attempts.driver(1), **pod)
    status = attempts.says(reason)
    assert (status.phase, status.failed_attempts) == (Phase.WAITING, 0)
    assert says in message(status)
    attempts.go_on()
    require_done(attempts, table, attempt=2, failed=0)
    first, second = memory(attempts)
    assert first == second


def test_a_quota_that_is_used_up_is_quoted_until_there_is_room(attempts: Attempts, table: FixtureTable) -> None:
    """The API server itself refuses the pod of the second attempt. The attempt goes on once there is room."""
    first = attempts.driver(1)
    with attempts.plane.without_room():
        attempts.plane.drivers.end(first, **EVICTED)
        attempts.go_on()
        status = attempts.says("QuotaExceeded")
        assert (status.phase, status.attempt) == (Phase.WAITING, 2)
        assert "exceeded quota: full, requested: pods=1, used: pods=0, limited: pods=0" in message(status)
        assert attempts.plane.drivers.current() == ()
    require_done(attempts, table, attempt=2, failed=0)


def test_a_job_in_a_queue_waits_and_goes_on_in_the_same_attempt(attempts: Attempts, table: FixtureTable) -> None:
    """A queue suspends it as Kueue does, before its driver has begun, and lets it go."""
    attempts.driver(1)
    attempts.plane.patch_job(attempts.name, labels={LABEL_QUEUE: "nightly"}, suspend=True)
    status = attempts.says("Queued")
    assert (status.phase, status.attempt) == (Phase.QUEUED, 1)
    assert message(status).endswith("is suspended: it waits for queue nightly")
    attempts.plane.wait(lambda: not attempts.plane.drivers.current(), timeout=SECONDS, what="the driver to end")
    assert frozenset(table.names()) == INSERTS
    attempts.plane.patch_job(attempts.name, suspend=False)
    attempts.go_on()
    require_done(attempts, table, attempt=1, failed=0)
