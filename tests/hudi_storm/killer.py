"""Kills drivers (SIGKILL) at random moments, and says what they left on the timeline."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from random import Random

from sandbox.plane import Plane
from sandbox.plane.kubelet import Driver

from tests.hudi_storm.timeline import Pending, pending_services

log = logging.getLogger(__name__)

SHARE = 0.75
"""How many of the drivers are to be killed: the others get something done."""
LOOK_SECONDS = 0.05
PREPARATION_SECONDS = 25.0
LATER_SECONDS = 3.0


class Moment(StrEnum):
    """What is on the timelines when a driver is killed, of its own or of one that was killed before."""

    BEFORE = "with nothing pending"
    REQUESTED = "with a plan pending"
    INFLIGHT = "with one executing"


class Killer:
    """Watches the drivers of a plane and kills up to `most` of them; `locations` are the tables that they work on.

    It chooses for a `share` of the drivers which of `aims` to wait for, and some time after that: `later` seconds on
    average.
    """

    def __init__(
        self,
        plane: Plane,
        locations: Sequence[Path],
        rng: Random,
        *,
        most: int,
        share: float = SHARE,
        aims: Sequence[Moment] = tuple(Moment),
        later: float = LATER_SECONDS,
    ) -> None:
        self.kills: Counter[str] = Counter()
        self._plane = plane
        self._locations = locations
        self._rng = rng
        self._most = most
        self._share = share
        self._aims = aims
        self._later = later
        self._seen: set[str] = set()

    def run(self, calm: threading.Event) -> None:
        """Kill until it is calm."""
        while not calm.wait(LOOK_SECONDS):
            for driver in self._plane.drivers.current():
                if driver.pod_uid not in self._seen:
                    self._seen.add(driver.pod_uid)
                    self._visit(driver, calm)

    def _visit(self, driver: Driver, calm: threading.Event) -> None:
        """Choose how far this driver may come, and kill it there; one that ends earlier has been lucky."""
        if self.kills.total() >= self._most or self._rng.random() >= self._share:
            return
        aim = self._rng.choice(self._aims)
        before = self._pending()
        if aim is Moment.BEFORE:
            self._wait(driver, calm, self._rng.uniform(0, PREPARATION_SECONDS), lambda: False)
        else:
            reached = lambda: any(one.state == aim.name.lower() for one in self._pending() - before)  # noqa: E731
            self._wait(driver, calm, float("inf"), reached)
            self._wait(driver, calm, self._rng.expovariate(1) * self._later, lambda: False)
        if driver.process.running and not calm.is_set():
            self._kill(driver)

    def _kill(self, driver: Driver) -> None:
        driver.kill()
        left = sorted(self._pending())
        begun = {one.state for one in left}
        moment = next((one for one in (Moment.INFLIGHT, Moment.REQUESTED) if one.name.lower() in begun), Moment.BEFORE)
        self.kills[moment] += 1
        log.info("killed %s of attempt %d; pending: %s", driver.pod, driver.attempt, left)

    def _pending(self) -> set[Pending]:
        return {one for location in self._locations for one in pending_services(location)}

    def _wait(self, driver: Driver, calm: threading.Event, seconds: float, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while driver.process.running and time.monotonic() < deadline and not reached() and not calm.wait(LOOK_SECONDS):
            pass
