"""Threads for blocking calls that know how long each of their calls has been running."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

R = TypeVar("R")


class Load(NamedTuple):
    """How many of the threads run a call, how many there are, and for how many seconds the oldest call has run."""

    busy: int
    size: int
    oldest: float


class Workers(ThreadPoolExecutor):
    """A pool of `size` threads. `ticks` is a clock in seconds."""

    def __init__(self, size: int, *, ticks: Callable[[], float] = time.monotonic) -> None:
        super().__init__(size)
        self._size = size
        self._ticks = ticks
        self._begun: dict[int, float] = {}

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Run a call as soon as a thread is free."""
        return super().submit(self._timed, fn, *args, **kwargs)

    def load(self) -> Load:
        """Return what the threads do now."""
        begun = [*self._begun.values()]
        return Load(len(begun), self._size, self._ticks() - min(begun) if begun else 0.0)

    def _timed(self, call: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        thread = threading.get_ident()
        self._begun[thread] = self._ticks()
        try:
            return call(*args, **kwargs)
        finally:
            del self._begun[thread]
