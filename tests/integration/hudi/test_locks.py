"""The lock of the table: the operator makes and narrows plans under it, and each wait for it is limited."""

from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from sandbox.hudi.look import timeline
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import SmallTable
from sandbox.hudi.zookeeper import LOCK_KEY

from compaction_operator.api.hudi import HudiOptions
from compaction_operator.api.request import Reason
from compaction_operator.hudi import Action, Block, Instant, Operation, Plan, State, read_table, write_options
from compaction_operator.hudi.errors import HudiLockError
from compaction_operator.hudi.jvm import HudiClient
from compaction_operator.hudi.jvm.planner import DRAFTS
from compaction_operator.storage import open_storage
from tests.integration.hudi.job import LOG_COMPACTION, Jobs
from tests.integration.hudi.other_client import SHARED

pytestmark = pytest.mark.metadata_table

OPTIONS = {
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.write.lock.wait_time_ms": "200",
    "hoodie.write.lock.client.num_retries": "1",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
}


def client_of(hudi: HudiSession, table: SmallTable, locks: dict[str, str]) -> AbstractContextManager[HudiClient]:
    found = read_table(open_storage(str(table.location)), str(table.location))
    options = write_options(found, warehouse=locks, own=HudiOptions(options=OPTIONS), partitions=())
    return HudiClient.open(hudi.spark, found, options, bundle=hudi.version, lock_provider=None)


def test_a_job_that_does_not_get_the_lock_plans_nothing_and_may_try_again(
    hudi: HudiSession, table: SmallTable, locks: dict[str, str], jobs: Jobs
) -> None:
    before = timeline(table.location)
    with client_of(hudi, table, locks) as holder, holder.locked(), pytest.raises(HudiLockError) as refused:
        jobs.run(table, LOG_COMPACTION, options=OPTIONS)
    assert refused.value.reason is Reason.WAITING_FOR_LOCK
    assert timeline(table.location) == before
    jobs.done(table, LOG_COMPACTION, options=OPTIONS)
    table.check("after the next attempt")


def test_without_a_lock_key_writers_and_jobs_have_the_same_lock(
    hudi: HudiSession, table: SmallTable, locks: dict[str, str], jobs: Jobs
) -> None:
    """It is then the table's name, as manifests/samples/hudi-schedule.yaml has it."""
    unnamed = {key: value for key, value in locks.items() if key != LOCK_KEY}
    table.options |= SHARED | unnamed | OPTIONS
    with client_of(hudi, table, unnamed) as holder, holder.locked():
        with pytest.raises(Py4JJavaError, match="LockException"):
            table.upsert(range(20), 50)
        # The other tests' jobs have the table's name as their key.
        with pytest.raises(HudiLockError):
            jobs.run(table, LOG_COMPACTION, options=OPTIONS)
    table.upsert(range(20), 50)
    table.check("after the next attempt")


@pytest.mark.parametrize("writes", [1, DRAFTS])
def test_a_plan_is_drafted_without_the_lock_and_saved_narrow_under_it_if_the_timeline_is_the_same(
    hudi: HudiSession, table: SmallTable, locks: dict[str, str], monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """After DRAFTS writes in a row the last draft is made under the lock, too."""
    own = HudiClient._save
    drafted: list[tuple[int, bool]] = []
    saved: list[bool] = []

    def lock_is_free() -> bool:
        try:
            with client_of(hudi, table, locks) as other, other.locked():
                return True
        except HudiLockError:
            return False

    def save(client: HudiClient, *draft: Any, owner: str) -> Plan:
        saved.append(lock_is_free())
        assert not [name for name in timeline(table.location) if "logcompaction" in name]
        return own(client, *draft, owner=owner)

    class NewestTwo:
        def forget(self) -> None:
            """Nothing is remembered."""

        def __call__(self, operation: Operation, pending: Collection[str]) -> tuple[Block, ...]:
            drafted.append((len(operation.blocks), lock_is_free()))
            if len(drafted) <= writes:
                table.upsert(range(20), 50)
            return operation.blocks[-2:]

    monkeypatch.setattr(HudiClient, "_save", save)
    with client_of(hudi, table, locks) as client:
        plan = client.plan_log_compaction(owner="team/uid/1", choose=NewestTwo(), beside=False)
        assert plan is not None
        assert client.plan_of(Instant(plan.instant, Action.LOG_COMPACTION, State.REQUESTED)) == plan
    assert drafted == [(4 + number, number < DRAFTS) for number in range(writes + 1)]
    assert saved == [False]
    assert len(plan.operations[0].files) == 2
