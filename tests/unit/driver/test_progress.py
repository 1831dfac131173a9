"""The driver reports progress at a limited rate, and a report can never harm the compaction."""

import json
import logging
import threading
from collections.abc import Callable
from queue import Queue
from typing import Any

import kubernetes
import pytest

from compaction_operator.api.progress import Progress
from compaction_operator.driver.kube import OwnPod
from compaction_operator.driver.progress import PAUSE_SECONDS, ProgressReporter, next_step, seconds_left

LOGGER = "compaction_operator"
"""Messages of other libraries, as of a JVM that ends, are none of these tests."""


def progress(partitions: int = 0, *, bytes_done: int = 0) -> Progress:
    return Progress(partitions_done=partitions, partitions_total=12, bytes_done=bytes_done, bytes_total=1000)


class Watch:
    """A clock that goes only when told to, with what is due then, and what was annotated."""

    def __init__(self) -> None:
        self.now = 500.0
        self.said: list[str] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.reporter = ProgressReporter(self.said.append, ticks=lambda: self.now, later=self.later)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append((self.now + seconds, call))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        due = [call for time, call in self.timers if time <= self.now]
        self.timers = [timer for timer in self.timers if timer[0] > self.now]
        for call in due:
            call()

    def partitions(self) -> list[int]:
        return [json.loads(said)["partitionsDone"] for said in self.said]


def test_at_most_one_report_in_ten_seconds() -> None:
    """The first at once, then the newest whenever the pause is over; one timer waits for that."""
    watch = Watch()
    for second in range(25):
        watch.reporter.update(progress(second % 12, bytes_done=second))
        assert len(watch.timers) <= 1
        watch.pass_time(1)
    assert watch.partitions() == [0, 9, 7]
    assert PAUSE_SECONDS == 10.0


def test_what_came_too_soon_is_reported_later() -> None:
    """Without a further call, and only once."""
    watch = Watch()
    watch.reporter.update(progress(0))
    watch.reporter.update(progress(1))
    watch.reporter.update(progress(2))
    watch.pass_time(9.9)
    assert watch.partitions() == [0]
    watch.pass_time(0.1)
    assert watch.partitions() == [0, 2]
    watch.pass_time(100)
    assert (watch.partitions(), watch.timers) == ([0, 2], [])


def test_a_batchs_end_is_reported_at_once() -> None:
    """The pause counts from it, also for a report that was waiting."""
    watch = Watch()
    watch.reporter.update(progress(0))
    watch.pass_time(1)
    watch.reporter.update(progress(4))
    watch.reporter.update(progress(5), at_once=True)
    watch.reporter.update(progress(6))
    watch.pass_time(9.5)
    assert watch.partitions() == [0, 5]
    watch.pass_time(0.5)
    assert watch.partitions() == [0, 5, 6]


def test_the_real_timer_calls_and_keeps_no_driver_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compaction_operator.driver.progress.PAUSE_SECONDS", 0.05)
    told: Queue[bool] = Queue()
    reporter = ProgressReporter(lambda _: told.put(threading.current_thread().daemon))
    reporter.update(progress(0))
    reporter.update(progress(1))
    assert [told.get(timeout=30) for _ in range(2)] == [False, True]


def test_the_same_progress_is_reported_once() -> None:
    watch = Watch()
    for _ in range(3):
        watch.reporter.update(progress(5), at_once=True)
        watch.pass_time(60)
    assert watch.partitions() == [5]


def test_what_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Compact JSON for the controller, a sentence for the log."""
    watch = Watch()
    with caplog.at_level(logging.INFO):
        watch.reporter.update(progress(3, bytes_done=456))
    assert watch.said == ['{"partitionsDone":3,"partitionsTotal":12,"bytesDone":456,"bytesTotal":1000}']
    assert caplog.messages == ["progress: 3/12 partitions, 45% (456 of 1000 bytes); next: merge"]


@pytest.mark.parametrize(
    ("done", "of", "elapsed", "left"),
    [
        (250, 1000, 60.0, 180),
        (50, 1000, 10.0, 190),
        (49, 1000, 600.0, None),  # too little is done
        (500, 1000, 9.9, None),  # too early
        (1000, 1000, 60.0, None),  # what is left is to publish
        (2000, 1000, 60.0, None),
        (0, 0, 60.0, None),
    ],
)
def test_the_pace_of_the_bytes_says_how_long_the_rest_takes(
    done: int, of: int, elapsed: float, left: int | None
) -> None:
    assert seconds_left(Progress(partitions_total=1, bytes_done=done, bytes_total=of), elapsed=elapsed) == left


@pytest.mark.parametrize(
    ("partitions", "done", "of", "step"),
    [(0, 0, 0, "merge"), (3, 999, 1000, "merge"), (3, 1000, 1000, "publish"), (12, 1000, 1000, "the end")],
)
def test_the_next_step(partitions: int, done: int, of: int, step: str) -> None:
    told = Progress(partitions_done=partitions, partitions_total=12, bytes_done=done, bytes_total=of)
    assert next_step(told) == step


def test_the_pace_counts_from_when_there_is_work() -> None:
    """A driver may wait for a lock for minutes before. What is left is no news by itself."""
    watch = Watch()
    watch.reporter.update(Progress(partitions_total=12))
    watch.pass_time(600)
    watch.reporter.update(progress(0))
    watch.pass_time(20)
    watch.reporter.update(progress(0, bytes_done=250))
    watch.pass_time(600)
    assert [json.loads(said).get("secondsLeft") for said in watch.said] == [None, None, 60]


def test_where_the_work_is_done_comes_with_all_further_progress() -> None:
    watch = Watch()
    watch.reporter.update(progress(1))
    watch.reporter.tell("12 MB to copy; done in the driver")
    watch.reporter.update(progress(2), at_once=True)
    watch.reporter.update(progress(3), at_once=True)
    assert [json.loads(said).get("execution") for said in watch.said] == [
        None,
        *["12 MB to copy; done in the driver"] * 2,
    ]


@pytest.mark.parametrize("error", [kubernetes.client.ApiException(status=403), OSError("no network"), ValueError("x")])
def test_a_failure_is_no_trouble(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """One debug line, no exception, and no second try before the pause is over."""
    calls = []

    def refuse(value: str) -> None:
        calls.append(value)
        raise error

    reporter = ProgressReporter(refuse, ticks=lambda: 500.0, later=lambda *_: None)
    with caplog.at_level(logging.DEBUG, logger=LOGGER):
        reporter.update(progress(1))
        reporter.update(progress(2))
    assert len(calls) == 1
    assert [record.levelname for record in caplog.records] == ["INFO", "DEBUG"]


def test_outside_a_cluster_nothing_is_annotated(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger=LOGGER):
        ProgressReporter(OwnPod("team", "driver").annotate).update(progress())
    assert "not annotated" in caplog.messages[-1]


def test_the_own_pod_is_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    """One annotation and nothing else, with a time-out and without retries."""
    patches: list[tuple[Any, ...]] = []

    class Api:
        def __init__(self, api: kubernetes.client.ApiClient) -> None:
            assert api.configuration.retries is False

        def patch_namespaced_pod(self, *arguments: Any, _request_timeout: tuple[float, float]) -> None:
            patches.append((*arguments, sum(_request_timeout)))

    monkeypatch.setattr(kubernetes.config, "load_incluster_config", lambda client_configuration: None)
    monkeypatch.setattr(kubernetes.client, "CoreV1Api", Api)
    OwnPod("team", "driver-1").annotate("{}")
    (patch,) = patches
    assert patch[:3] == ("driver-1", "team", {"metadata": {"annotations": {"compaction.dev/progress": "{}"}}})
    assert patch[3] < PAUSE_SECONDS
