"""Drivers whose commit comes late: lease and plan are confirmed under the table's lock. The metadata table is on."""

from collections.abc import Iterable
from typing import Any

import pytest
from sandbox.hudi.look import timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import SmallTable

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.hudi import Plan
from compaction_operator.hudi.errors import HudiLockError, WaitingForInstantError
from compaction_operator.hudi.jvm import writes
from tests.integration.hudi import other_client as by_hand
from tests.integration.hudi.conftest import MakeOtherClient
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs
from tests.integration.hudi.test_locks import client_of

pytestmark = pytest.mark.metadata_table

EACH_TIME = {"hoodie.log.compaction.blocks.threshold": "2", "hoodie.compact.inline.max.delta.commits": "1"}


@pytest.mark.parametrize("kind", [LOG_COMPACTION, COMPACTION])
def test_the_lease_is_confirmed_under_the_lock_that_the_commit_needs(
    hudi: HudiSession, table: SmallTable, locks: dict[str, str], jobs: Jobs, kind: CompactionType
) -> None:
    """Otherwise a driver that waits for the lock commits what it confirmed long ago."""
    free: list[bool] = []

    def lock_is_free() -> bool:
        try:
            with client_of(hudi, table, locks) as other, other.locked():
                return True
        except HudiLockError:
            return False

    def lost() -> bool:
        if any(name.endswith("compaction.inflight") for name in timeline(table.location)):
            free.append(lock_is_free())
        return False

    jobs.done(table, kind, options=EACH_TIME, lost=lost)
    assert free == [False]
    assert lock_is_free()
    table.check("after it")


def test_a_plan_that_another_client_committed_meanwhile_is_not_committed_twice(
    table: SmallTable, jobs: Jobs, other_client: MakeOtherClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a writer does that runs whatever compaction is pending. A second commit would list files that are gone."""
    other, require_all_written = other_client(table), writes.require_all_written

    def committed_meanwhile(plan: Plan, statuses: Iterable[Any]) -> None:
        require_all_written(plan, statuses)
        other.run(by_hand.COMPACTION, plan.instant)

    monkeypatch.setattr(writes, "require_all_written", committed_meanwhile)
    with pytest.raises(JobError, match="not this driver's any more") as refused:
        jobs.run(table, COMPACTION, options=EACH_TIME)
    assert refused.value.reason is Reason.WAITING_FOR_INSTANT
    table.check("after the other's commit")
    monkeypatch.undo()
    table.upsert(range(8, 12), 40)
    jobs.done(table, COMPACTION, options=EACH_TIME)
    table.check("after the next compaction")


@pytest.mark.parametrize("kind", [LOG_COMPACTION, COMPACTION])
def test_a_plan_that_another_client_rolls_back_is_not_committed(
    table: SmallTable,
    jobs: Jobs,
    other_client: MakeOtherClient,
    monkeypatch: pytest.MonkeyPatch,
    kind: CompactionType,
) -> None:
    """As a writer does that runs whatever compaction is pending: it would delete the files after their commit."""
    other, require_all_written = other_client(table), writes.require_all_written

    def rolled_back_meanwhile(plan: Plan, statuses: Iterable[Any]) -> dict[str, list[str]]:
        written = require_all_written(plan, statuses)
        other.begin_rollback(kind.lower(), plan.instant)
        return written

    monkeypatch.setattr(writes, "require_all_written", rolled_back_meanwhile)
    with pytest.raises(WaitingForInstantError, match="is being rolled back by another client"):
        jobs.run(table, kind, options=EACH_TIME)
    table.check("after the attempt")
    monkeypatch.undo()
    jobs.done(table, kind, options=EACH_TIME)
    table.check("after the next attempt")
