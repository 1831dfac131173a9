"""Graceful termination on SIGTERM: Kubernetes drains the driver's node, or preempts or deletes its pod.

The signal handler only sets a flag. The driver stops at points where no step is half done: never between the two
renames of a pair, and never between a rename and its commit. NB: the handler may run within any step of Python, so it
must do nothing else.
"""

import signal
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from types import FrameType
from typing import TypeVar

from compaction_operator import orc
from compaction_operator.api.request import Reason
from compaction_operator.driver.errors import JobError

STEP_SECONDS = 0.5
"""The interval at which what waits checks for SIGTERM."""


T = TypeVar("T")


class _Asked:
    """Whether SIGTERM was received. Process-wide state, since signals are process-wide."""

    yes = False


def listen() -> None:
    """Handle SIGTERM from now on. Without a handler the first process of a container ignores it."""
    signal.signal(signal.SIGTERM, _note)


def _note(_number: int, _frame: FrameType | None) -> None:
    _Asked.yes = True


def check() -> None:
    """Raise JobError (Interrupted) if SIGTERM was received."""
    if _Asked.yes:
        raise JobError(Reason.INTERRUPTED, "the driver received SIGTERM; the next attempt continues")


def checked(items: Iterable[T]) -> Iterator[T]:
    """Yield the items; raises JobError (Interrupted) before the next one after SIGTERM."""
    return orc.checked(items, check)


def awaited(future: Future[T]) -> T:
    """Return the result of a future, or raise its error; raises JobError (Interrupted) soon after SIGTERM instead."""
    check()
    while wait([future], timeout=STEP_SECONDS).not_done:
        check()
    return future.result()


def pause(seconds: float) -> None:
    """Sleep for `seconds` seconds; raises JobError (Interrupted) soon after SIGTERM."""
    deadline = time.monotonic() + seconds
    check()
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, STEP_SECONDS))
        check()
