"""The end that Kubernetes asks a driver for (SIGTERM): its node is drained, or the pod is preempted or deleted.

It is only taken note of, and the driver ends where nothing is done by half: never between the two renames of a pair, or
between a rename and its commit. NB: as the handler may run within any step of Python, it does nothing but that.
"""

import signal
import time
from types import FrameType

from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError

STEP_SECONDS = 0.5
"""How long a pause goes on before it looks whether the end was asked for."""


class _Asked:
    """Whether the end was asked for; of the process, as signals are."""

    yes = False


def listen() -> None:
    """Take note of SIGTERM from now on. Without a handler the first process of a container ignores it."""
    signal.signal(signal.SIGTERM, _note)


def _note(_number: int, _frame: FrameType | None) -> None:
    _Asked.yes = True


def check() -> None:
    """Raise JobError (Interrupted) once the end was asked for."""
    if _Asked.yes:
        raise JobError(Reason.INTERRUPTED, "the driver got SIGTERM; the next attempt goes on")


def pause(seconds: float) -> None:
    """Sleep; raises JobError (Interrupted) soon after the end was asked for."""
    deadline = time.monotonic() + seconds
    check()
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, STEP_SECONDS))
        check()
