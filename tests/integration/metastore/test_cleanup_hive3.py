"""What a dead attempt left in a real Hive 3.1 metastore: locks without a transaction, known by their agent."""

from sandbox.metastore.server import MetastoreServer

from compaction_operator.api.cleanup import PublishedState
from compaction_operator.api.request import Reason, agent_info
from compaction_operator.controller.answers import Automatic
from compaction_operator.metastore import AutoCompaction, LockKind, LockWish
from tests.integration.metastore.controller_steps import (
    ControllerSteps,
    attempt_of,
    cleanup_of,
    end,
    read_lock,
    real_work,
)
from tests.integration.metastore.fixture_table import FixtureTable
from tests.unit.driver.support import REQUEST, Store

SERVERS = ("3.1.3",)


def own_lock(table: FixtureTable, *, attempt: int) -> int:
    """Take a lock as a driver of that attempt does."""
    agent = agent_info(uid=REQUEST.uid, attempt=attempt, pod_uid="pod1")
    wish = LockWish(database=table.database, table=table.name, kind=LockKind.SHARED_READ, agent=agent)
    return table.admin.lock(wish).lock_id


def test_an_attempts_locks_are_given_back_and_no_other_ones(
    three_inserts: FixtureTable, server: MetastoreServer
) -> None:
    own_lock(three_inserts, attempt=1)
    others = [own_lock(three_inserts, attempt=11), read_lock(three_inserts)]
    assert real_work(three_inserts, server.uri).end_attempt(attempt_of(three_inserts, 1)) is None
    assert sorted(three_inserts.locks()) == others
    end(three_inserts, locks=others)


def test_a_readers_lock_that_a_journal_names_as_its_own_stays_and_is_waited_for(
    three_inserts: FixtureTable, server: MetastoreServer
) -> None:
    store = Store()
    three_inserts.run(store=store)
    reader = read_lock(three_inserts)
    steps = ControllerSteps(real_work(three_inserts, server.uri), cleanup_of(store, lockIds=[reader]))
    assert steps.settle() == {"": PublishedState.PUBLISHED}
    assert steps.waits_for() == [("Lock", reader)]
    end(three_inserts, locks=[reader])


def test_a_table_in_hives_queue_is_not_begun(three_inserts: FixtureTable, server: MetastoreServer) -> None:
    """Its Worker would not notice us, nor we it (H23)."""
    work = real_work(three_inserts, server.uri)
    assert work.preflight(attempt_of(three_inserts, 1)).reason is None
    three_inserts.admin.compact(three_inserts.database, three_inserts.name)
    busy = work.preflight(attempt_of(three_inserts, 1))
    assert (busy.reason, busy.automatic) == (Reason.IN_COMPACTION_QUEUE, Automatic(AutoCompaction.INITIATOR_OFF))
    assert "(initiated)" in busy.message
