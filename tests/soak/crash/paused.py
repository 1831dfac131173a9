"""Processes that were paused and lost, while others took their place, and that go on later."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from sandbox.harness.wait import wait_until
from sandbox.plane import Plane
from sandbox.plane.kubelet import Driver
from sandbox.plane.processes import PythonProcess

from tests.soak.crash.plan import Role, Wake

PAUSE_SECONDS = 10.0
CONTROLLER_SECONDS = 2.0
"""So long a resumed controller runs beside the other one. Then it gets SIGTERM, as from a kubelet that is back."""


@dataclass
class PausedProcess:
    """A paused process; `woken` is when it resumed. A controller does not end by itself: it gets SIGTERM, once."""

    process: PythonProcess
    wake: Wake
    is_second_controller: bool
    woken: float | None = None


class PausedProcesses:
    """Those of one run."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._paused: list[PausedProcess] = []

    def lose(self, role: Role, wake: Wake) -> None:
        """Take the node from under a process that is stopping, once it has; a controller has a successor at once."""
        if role is Role.DRIVER:
            driver = wait_until(self._stopped_driver, timeout=PAUSE_SECONDS, what="the driver to stop")
            self._plane.drivers.lose(driver)
            self._paused.append(PausedProcess(driver.process, wake, is_second_controller=False))
            return
        controller = self._plane.controller
        wait_until(lambda: controller.paused, timeout=PAUSE_SECONDS, what="the controller to stop")
        self._paused.append(PausedProcess(controller.lose(), wake, is_second_controller=True))
        controller.start()

    def step(self, is_time: Callable[[Wake], bool]) -> bool:
        """Let those go on whose time has come; return whether none is left."""
        now = time.monotonic()
        for paused in self._paused:
            if paused.woken is None and is_time(paused.wake):
                paused.woken = now
                paused.process.resume()
            elif paused.is_second_controller and paused.woken and now > paused.woken + CONTROLLER_SECONDS:
                paused.is_second_controller = False
                paused.process.terminate()
        return not any(paused.process.running for paused in self._paused)

    def tell(self) -> str:
        """Have those that are left say in their logs what they do, and name them; '' for none."""
        left = [paused.process for paused in self._paused if paused.process.running]
        for process in left:
            os.kill(process.pid, signal.SIGUSR1)
        return "".join(f"; process {process.pid}, which was paused, has not ended: see its log" for process in left)

    def _stopped_driver(self) -> Driver | None:
        return next((driver for driver in self._plane.drivers.current() if driver.process.paused), None)
