"""Worker threads that know for how long their oldest call has not ended."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Threads(ThreadPoolExecutor):
    """A pool of threads. A call that hangs, in a mounted file system for example, cannot be ended, only noticed."""

    def __init__(self, size: int, *, ticks: Callable[[], float] = time.monotonic) -> None:
        super().__init__(size)
        self._ticks = ticks
        self._since: dict[Future[Any], float] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call in a thread, once one is free."""
        future = super().submit(fn, *args, **kwargs)
        self._since[future] = self._ticks()
        future.add_done_callback(self._since.pop)
        return future

    def oldest(self) -> float:
        """Return for how many seconds the oldest call has waited or run, 0 if there is none. From any thread."""
        since = list(self._since.values())  # a copy in a single step: calls end meanwhile
        return self._ticks() - since[0] if since else 0.0
