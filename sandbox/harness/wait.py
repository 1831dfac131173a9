"""Waiting: ask again until it is so, but not for ever."""

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

POLL_SECONDS = 0.25


class WaitTimeoutError(AssertionError):
    """What was waited for did not come in time."""


def wait_until(
    predicate: Callable[[], Answer | None], *, timeout: float, what: str, poll: float = POLL_SECONDS
) -> Answer:
    """Return the first answer of `predicate` that is true; it is asked at least once.

    Raises WaitTimeoutError, naming `what` and the last answer, after `timeout` seconds. What `predicate` raises goes
    through: that is how a wait ends early when it has become hopeless.
    """
    deadline = time.monotonic() + timeout
    while not (answer := predicate()):
        if time.monotonic() >= deadline:
            raise WaitTimeoutError(f"waited {timeout:g} s for {what}; last answer: {answer!r}")
        time.sleep(poll)
    return answer
