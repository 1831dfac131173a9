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
"""For so long a controller that went on is one of two; then it is told to end, as by a kubelet that is back."""


@dataclass
class Zombie:
    """A paused process; `woken` is when it went on. A controller has no end of its own: it is told to end, once."""

    process: PythonProcess
    wake: Wake
    is_second_controller: bool
    woken: float | None = None


class Zombies:
    """Those of one run."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._zombies: list[Zombie] = []

    def lose(self, role: Role, wake: Wake) -> None:
        """Take the node from under a process that is stopping, once it has; a controller has a successor at once."""
        if role is Role.DRIVER:
            driver = wait_until(self._stopped_driver, timeout=PAUSE_SECONDS, what="the driver to stop")
            self._plane.drivers.lose(driver)
            self._zombies.append(Zombie(driver.process, wake, is_second_controller=False))
            return
        controller = self._plane.controller
        wait_until(lambda: controller.paused, timeout=PAUSE_SECONDS, what="the controller to stop")
        self._zombies.append(Zombie(controller.lose(), wake, is_second_controller=True))
        controller.start()

    def step(self, is_time: Callable[[Wake], bool]) -> bool:
        """Let those go on whose time has come; return whether none is left."""
        now = time.monotonic()
        for zombie in self._zombies:
            if zombie.woken is None and is_time(zombie.wake):
                zombie.woken = now
                zombie.process.resume()
            elif zombie.is_second_controller and zombie.woken and now > zombie.woken + CONTROLLER_SECONDS:
                zombie.is_second_controller = False
                zombie.process.terminate()
        return not any(zombie.process.running for zombie in self._zombies)

    def tell(self) -> str:
        """Have those that are left say in their logs what they do, and name them; '' for none."""
        left = [zombie.process for zombie in self._zombies if zombie.process.running]
        for process in left:
            os.kill(process.pid, signal.SIGUSR1)
        return "".join(f"; process {process.pid}, which was paused, has not ended: see its log" for process in left)

    def _stopped_driver(self) -> Driver | None:
        return next((driver for driver in self._plane.drivers.current() if driver.process.paused), None)
