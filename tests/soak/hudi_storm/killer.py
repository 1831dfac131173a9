"""Kills drivers (SIGKILL) at random moments, and says how far they had come by the timeline."""

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from pathlib import Path
from random import Random

from sandbox.plane import Plane
from sandbox.plane.kubelet import Driver

from compaction_operator.api.compaction import PLURAL
from tests.soak.hudi_storm.timeline import COMPLETED, INFLIGHT, REQUESTED, STATES, Service, services

log = logging.getLogger(__name__)

SHARE = 0.75
"""How many of the drivers are to be killed: the others get something done."""
LOOK_SECONDS = 0.05
PREPARATION_SECONDS = 20.0
LATER_SECONDS = 3.0


class Moment(StrEnum):
    """How far a driver that is killed has come, by what it has put onto the timelines.

    NB: one that goes on with the compaction of one that was killed before adds nothing until it has committed.
    """

    BEFORE = "before any plan of theirs"
    PLANNED = "with a plan"
    EXECUTING = "while executing"
    COMMITTED = "after a commit"


REACHED = {Moment.PLANNED: REQUESTED, Moment.EXECUTING: INFLIGHT, Moment.COMMITTED: COMPLETED}
"""The state of a driver's own instant that makes each moment."""


def moment_of(own: Collection[Service]) -> Moment:
    """Return the moment of a driver that has these on the timelines: what has not completed tells more."""
    states = {one.state for one in own}
    order = (Moment.EXECUTING, Moment.PLANNED, Moment.COMMITTED)
    return next((moment for moment in order if REACHED[moment] in states), Moment.BEFORE)


def has_reached(moment: Moment, own: Collection[Service]) -> bool:
    """Return whether a driver that has these on the timelines has come as far as that, or farther."""
    least = STATES.index(REACHED.get(moment, REQUESTED))
    return any(STATES.index(one.state) >= least for one in own)


class Killer:
    """Watches the drivers of a plane and kills up to `most` of them; `locations` are the tables that they work on.

    It chooses for a `share` of the drivers which of `aims` to wait for. An aim that it has not had yet goes first, and
    is killed at once; later ones live on for a random time.
    """

    def __init__(
        self,
        plane: Plane,
        locations: Sequence[Path],
        rng: Random,
        *,
        most: float = math.inf,
        share: float = SHARE,
        aims: Sequence[Moment] = tuple(Moment),
    ) -> None:
        self.kills: Counter[str] = Counter()
        self.left: list[Service] = []
        """What the killed ones had begun themselves and not completed."""
        self._plane = plane
        self._locations = locations
        self._rng = rng
        self._most = most
        self._share = share
        self._aims = aims
        self._seen: set[str] = set()

    def missing(self) -> list[Moment]:
        """Return the moments at which it has killed none yet."""
        return [aim for aim in self._aims if not self.kills[aim]]

    def run(self, calm: threading.Event) -> None:
        """Kill until it is calm."""
        while not calm.wait(LOOK_SECONDS):
            for driver in self._plane.drivers.current():
                if driver.pod_uid not in self._seen:
                    self._seen.add(driver.pod_uid)
                    if self._is_of_a_table(driver):
                        self._visit(driver, calm)

    def _is_of_a_table(self, driver: Driver) -> bool:
        found = (one for one in self._plane.mirror.all(PLURAL) if one["metadata"]["uid"] == driver.compaction_uid)
        return any(Path(one["spec"]["table"]["location"]) in self._locations for one in found)

    def _visit(self, driver: Driver, calm: threading.Event) -> None:
        """Choose how far this driver may come, and kill it there; one that ends earlier has been lucky."""
        if self.kills.total() >= self._most or self._rng.random() >= self._share:
            return
        missing = self.missing()
        aim = self._rng.choice(missing or self._aims)
        before = self._services()
        most = self._rng.uniform(0, PREPARATION_SECONDS) if aim is Moment.BEFORE else math.inf
        self._wait(driver, calm, most, lambda: has_reached(aim, self._services() - before))
        if aim not in missing:
            self._wait(driver, calm, self._rng.expovariate(1) * LATER_SECONDS, lambda: False)
        if driver.process.running and not calm.is_set():
            self._kill(driver, before)

    def _kill(self, driver: Driver, before: Collection[Service]) -> None:
        driver.kill()
        own = self._services().difference(before)
        self.kills[moment_of(own)] += 1
        self.left += (one for one in own if one.state != COMPLETED)
        log.info("killed %s of attempt %d, %s: %s", driver.pod, driver.attempt, moment_of(own), sorted(own))

    def _services(self) -> frozenset[Service]:
        return frozenset(one for location in self._locations for one in services(location))

    def _wait(self, driver: Driver, calm: threading.Event, seconds: float, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while driver.process.running and time.monotonic() < deadline and not reached() and not calm.wait(LOOK_SECONDS):
            pass
