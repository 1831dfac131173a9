"""A lock is kept alive, and its loss is noticed."""

import threading

import pytest

from compaction_operator.metastore.errors import LockLost, MetastoreUnavailable
from compaction_operator.metastore.heartbeat import Heartbeat


class Keeper:
    """Lets a test say how each heartbeat ends, and wait for their number."""

    def __init__(self, *endings: Exception | None) -> None:
        self._endings = iter(endings)
        self._beats = threading.Semaphore(0)

    def heartbeat(self, lock_id: int) -> None:
        assert lock_id == 5
        self._beats.release()
        ending = next(self._endings, None)
        if ending:
            raise ending

    def await_beats(self, number: int) -> None:
        for _ in range(number):
            assert self._beats.acquire(timeout=10)


@pytest.fixture
def beating():
    started: list[Heartbeat] = []

    def start(keeper: Keeper, *, timeout: float = 300.0) -> Heartbeat:
        started.append(Heartbeat(keeper, 5, interval=0.01, timeout=timeout))
        return started[-1]

    yield start
    for heartbeat in started:
        heartbeat.stop()


def test_a_lock_is_heartbeated_until_it_is_stopped(beating):
    keeper = Keeper()
    heartbeat = beating(keeper)
    keeper.await_beats(3)
    heartbeat.check()
    heartbeat.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "heartbeat-5"]


def test_a_lost_lock_ends_the_heartbeat(beating):
    heartbeat = beating(Keeper(None, LockLost("No such lock")))
    assert heartbeat.lost.wait(10)
    with pytest.raises(LockLost, match="lock 5"):
        heartbeat.check()


def test_a_metastore_that_is_away_for_a_while_is_not_a_loss(beating):
    keeper = Keeper(MetastoreUnavailable("down"), MetastoreUnavailable("down"))
    heartbeat = beating(keeper)
    keeper.await_beats(4)
    heartbeat.check()


def test_a_lock_that_was_not_confirmed_in_time_counts_as_lost(beating):
    """H19: while the metastore is away it may have given the lock to someone else."""
    keeper = Keeper(*[MetastoreUnavailable("down")] * 1000)
    heartbeat = beating(keeper, timeout=0.02)
    keeper.await_beats(5)
    with pytest.raises(LockLost, match="not confirmed"):
        heartbeat.check()
    assert heartbeat.lost.is_set()
