"""A few entries of the pool with nothing broken, and with a process killed at each step of an entry's way."""

from tests.soak.queue.faults import each_once, place_of
from tests.soak.queue.runner import QueueRunner

SECONDS = 400.0
"""What a run may take: how fast the machine is is not asked."""


def test_each_kind_of_entry_ends_as_hives_worker_ends_it(runner_with_cleaner: QueueRunner) -> None:
    """In SHOW COMPACTIONS and in the table's directory; what the operator cannot do is refused with the reason.

    Hive's own Cleaner is on, and may be first to end an entry.
    """
    problems, _ = runner_with_cleaner.run(20, seconds=SECONDS)
    assert problems == []


def test_each_entry_ends_once_whatever_is_killed(runner: QueueRunner) -> None:
    """Controller and drivers are killed before and after each step, one in each of their lives."""
    faults = each_once(driver_rounds=2)
    problems, broken = runner.run(24, faults, seconds=SECONDS)
    assert problems == []
    assert {place_of(faults[index]) for index in broken} == set(map(place_of, faults))
