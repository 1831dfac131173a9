"""A few entries of the pool with nothing broken, and with a process killed at each step of an entry's way."""

from sandbox.harness.wait import wait_until

from compaction_operator.api.request import queue_compaction_name
from compaction_operator.metastore import QueueState
from tests.soak.queue.faults import each_once, place_of
from tests.soak.queue.fleet import POOL, watched_by_initiator
from tests.soak.queue.runner import QueueRunner

SECONDS = 400.0
"""What a run may take: how fast the machine is is not asked."""


def test_each_kind_of_entry_ends_as_hives_worker_ends_it(runner_with_hives_own: QueueRunner) -> None:
    """In SHOW COMPACTIONS and in the table's directory; what the operator cannot do is refused with the reason.

    Hive's own Cleaner is on, and may be first to end an entry.
    """
    problems, _ = runner_with_hives_own.run(20, seconds=SECONDS)
    assert problems == []


def test_an_entry_of_hives_initiator_is_compacted(runner_with_hives_own: QueueRunner) -> None:
    """The table names the pool, and that is all that its owner does."""
    runner = runner_with_hives_own
    table = watched_by_initiator(runner.admin, runner.plane.metastore, "watched")

    def ended() -> bool:
        entries = runner.admin.compactions(table.database, table.name)
        return bool(entries) and all(entry.is_ended for entry in entries)

    wait_until(ended, timeout=SECONDS, what="the Initiator's entry")
    (entry,) = runner.admin.compactions(table.database, table.name)
    name = queue_compaction_name("main", entry.queue_id)
    assert (entry.pool, entry.state, entry.job) == (POOL, QueueState.SUCCEEDED, name)
    assert table.visible() == ["base_0000003"]


def test_each_entry_ends_once_whatever_is_killed(runner: QueueRunner) -> None:
    """Controller and drivers are killed before and after each step, one in each of their lives."""
    faults = each_once(driver_rounds=2)
    problems, broken = runner.run(24, faults, seconds=SECONDS)
    assert problems == []
    assert {place_of(faults[index]) for index in broken} == set(map(place_of, faults))
