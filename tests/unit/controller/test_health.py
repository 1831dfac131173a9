"""What the probes are answered: a stuck loop, a stuck pool of a warehouse and an idle one are three things."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from compaction_operator.controller.health import Vitals, liveness, readiness
from compaction_operator.controller.kube.cluster import Pools
from compaction_operator.controller.kube.workers import Load, Workers
from compaction_operator.controller.web import serve_probes

IDLE = Load(0, 2, 0.0)
WELL = Vitals(leads=True, loaded=True, step=3.0, heard=1.0, kube=Load(1, 8, 0.5), pools={("main", "polling"): IDLE})


def test_an_idle_leader_is_alive_and_ready() -> None:
    assert liveness(WELL).good
    assert "warehouse main: idle" in liveness(WELL).lines
    assert readiness(WELL).good


def test_a_stuck_loop_is_not_alive() -> None:
    """It steps at least every 30 seconds. A standby has none."""
    verdict = liveness(replace(WELL, step=91.0))
    assert not verdict.good
    assert "loop: stuck: 91 s since its last step" in verdict.lines
    assert liveness(replace(WELL, leads=False, step=None)).good


def test_a_stuck_pool_of_a_warehouse_is_said_and_restarts_nothing() -> None:
    """A fresh process would hang in the same place, and the other warehouses with it for a while."""
    pools = {
        ("main", "polling"): Load(2, 2, 301.0),
        ("main", "tables"): IDLE,
        ("other", "deletion"): Load(1, 2, 4000.0),
        ("third", "tables"): IDLE,
    }
    verdict = liveness(replace(WELL, pools=pools))
    assert verdict.good
    assert [line for line in verdict.lines if line.startswith("warehouse")] == [
        "warehouse main: polling stuck: 2 of 2 threads at work, the oldest call for 301 s",
        "warehouse other: deletion 1 of 2 threads at work, the oldest call for 4000 s",
        "warehouse third: idle",
    ]


def test_a_stuck_call_of_the_api_server_is_not_alive() -> None:
    """Each has a time-out of half a minute."""
    assert liveness(replace(WELL, kube=Load(8, 8, 899.0))).good
    assert not liveness(replace(WELL, kube=Load(1, 8, 901.0))).good


def test_a_leader_is_ready_once_its_cache_is_loaded() -> None:
    assert not readiness(replace(WELL, loaded=False)).good


@pytest.mark.parametrize(("heard", "ready"), [(None, False), (1.0, True), (31.0, False)])
def test_a_standby_is_ready_while_it_could_take_over(heard: float | None, ready: bool) -> None:
    """Else a rollout would never end: only one replica leads."""
    assert readiness(replace(WELL, leads=False, loaded=False, heard=heard)).good == ready


@pytest.fixture
def ask() -> Iterator[Callable[[str], tuple[int, str]]]:
    server = serve_probes(0, {"/healthz": lambda: (True, ("all is", "well")), "/readyz": lambda: (False, ("not yet",))})

    def answer(path: str) -> tuple[int, str]:
        try:
            with urlopen(f"http://127.0.0.1:{server.server_port}{path}", timeout=10) as found:
                return found.status, found.read().decode()
        except HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    yield answer
    server.shutdown()
    server.server_close()


def test_probes_are_answered(ask: Callable[[str], tuple[int, str]]) -> None:
    assert ask("/healthz") == (200, "all is\nwell\n")
    assert ask("/readyz") == (503, "not yet\n")
    assert ask("/elsewhere") == (404, "/healthz\n/readyz\n")


def loads(pools: Pools) -> Mapping[tuple[str, str], Load]:
    return {(warehouse, purpose): load for warehouse, purpose, load in pools.loads()}


def test_the_threads_of_a_warehouse_know_what_they_do() -> None:
    """A call that hangs in one warehouse shows there, and in no other; a process that ends does not wait for it."""
    pools = Pools.of(["main", "other"], kube=1, tables=1, preflights=1, polling=1, deletion=1)
    begun, over = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        over.wait()

    pools.of_warehouse("main").polling.submit(hang)
    behind = pools.of_warehouse("main").polling.submit(hang)
    assert begun.wait(30)
    assert loads(pools)["main", "polling"].busy == 1
    assert loads(pools)["main", "polling"].oldest > 0
    assert all(load.busy == 0 for key, load in loads(pools).items() if key != ("main", "polling"))
    assert not pools.end(0.01)
    assert behind.cancelled(), "it has not begun, so it never does"
    over.set()
    assert pools.end(30)
    assert loads(pools)["main", "polling"] == Load(0, 1, 0.0)


def test_the_oldest_call_counts() -> None:
    now = [10.0]
    workers, over = Workers(2, ticks=lambda: now[0]), threading.Event()
    for time in (10.0, 12.0):
        now[0] = time
        begun = threading.Event()
        workers.submit(lambda begun=begun: (begun.set(), over.wait(30)))
        assert begun.wait(30)
    now[0] = 20.0
    assert workers.load() == Load(2, 2, 10.0)
    over.set()
    workers.shutdown()
