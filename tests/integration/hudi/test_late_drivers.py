"""Drivers whose commit comes late: lease and plan are confirmed under the table's lock. The metadata table is on."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from sandbox.hudi.look import timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import METADATA_TABLE, SmallTable

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.hudi import Plan
from compaction_operator.hudi.errors import HudiLockError, WaitingForInstantError
from compaction_operator.hudi.jvm import writes
from tests.integration.hudi import other_client as by_hand
from tests.integration.hudi.conftest import MakeOtherClient, Shared
from tests.integration.hudi.job import COMPACTION, LOG_COMPACTION, Jobs
from tests.integration.hudi.test_locks import client_of

EACH_TIME = {"hoodie.log.compaction.blocks.threshold": "2", "hoodie.compact.inline.max.delta.commits": "1"}


@pytest.fixture
def listed(hudi: HudiSession, shared: Shared, tmp_path: Path) -> SmallTable:
    """A table of a base file and three log files that readers find by its metadata table."""

    def write(location: Path) -> SmallTable:
        table = SmallTable(hudi.spark, location, options={METADATA_TABLE: "true"})
        for ids, ts in ((range(60), 10), (range(20), 20), (range(10, 30), 30), (range(5, 15), 15)):
            table.upsert(ids, ts)
        return table

    return shared("listed", write).copy_to(tmp_path / "listed")


@pytest.mark.parametrize("kind", [LOG_COMPACTION, COMPACTION])
def test_the_lease_is_confirmed_under_the_lock_that_the_commit_needs(
    hudi: HudiSession, listed: SmallTable, locks: dict[str, str], jobs: Jobs, kind: CompactionType
) -> None:
    """Otherwise a driver that waits for the lock commits what it confirmed long ago."""
    free: list[bool] = []

    def lock_is_free() -> bool:
        try:
            with client_of(hudi, listed, locks) as other, other.locked():
                return True
        except HudiLockError:
            return False

    def lost() -> bool:
        if any(name.endswith("compaction.inflight") for name in timeline(listed.location)):
            free.append(lock_is_free())
        return False

    jobs.done(listed, kind, options=EACH_TIME, lost=lost)
    assert free == [False]
    assert lock_is_free()
    listed.check("after it")


def test_a_plan_that_another_client_committed_meanwhile_is_not_committed_twice(
    listed: SmallTable, jobs: Jobs, other_client: MakeOtherClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a writer does that runs whatever compaction is pending. A second commit would list files that are gone."""
    other, require_all_written = other_client(listed), writes.require_all_written

    def committed_meanwhile(plan: Plan, statuses: Iterable[Any]) -> None:
        require_all_written(plan, statuses)
        other.run(by_hand.COMPACTION, plan.instant)

    monkeypatch.setattr(writes, "require_all_written", committed_meanwhile)
    with pytest.raises(JobError, match="not this driver's any more") as refused:
        jobs.run(listed, COMPACTION, options=EACH_TIME)
    assert refused.value.reason is Reason.WAITING_FOR_INSTANT
    listed.check("after the other's commit")
    monkeypatch.undo()
    listed.upsert(range(8, 12), 40)
    jobs.done(listed, COMPACTION, options=EACH_TIME)
    listed.check("after the next compaction")


@pytest.mark.parametrize("kind", [LOG_COMPACTION, COMPACTION])
def test_a_plan_that_another_client_rolls_back_is_not_committed(
    listed: SmallTable,
    jobs: Jobs,
    other_client: MakeOtherClient,
    monkeypatch: pytest.MonkeyPatch,
    kind: CompactionType,
) -> None:
    """As a writer does that runs whatever compaction is pending: it would delete the files after their commit."""
    other, require_all_written = other_client(listed), writes.require_all_written

    def rolled_back_meanwhile(plan: Plan, statuses: Iterable[Any]) -> dict[str, list[str]]:
        written = require_all_written(plan, statuses)
        other.begin_rollback(kind.lower(), plan.instant)
        return written

    monkeypatch.setattr(writes, "require_all_written", rolled_back_meanwhile)
    with pytest.raises(WaitingForInstantError, match="is being rolled back by another client"):
        jobs.run(listed, kind, options=EACH_TIME)
    listed.check("after the attempt")
    monkeypatch.undo()
    jobs.done(listed, kind, options=EACH_TIME)
    listed.check("after the next attempt")
