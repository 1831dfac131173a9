"""Level-triggered work queue: each key at most once, one reconcile of a key at a time, delayed entries.

Time is an argument.
"""

import heapq
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """First in, first out. A key added while it is being processed is queued again afterwards."""

    def __init__(self) -> None:
        self._ready: OrderedDict[K, None] = OrderedDict()
        self._busy: set[K] = set()
        self._again: set[K] = set()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._entries = 0

    def add(self, key: K) -> None:
        """Request a reconcile of the key as soon as possible."""
        if key in self._busy:
            self._again.add(key)
        else:
            self._ready[key] = None

    def add_at(self, key: K, due: float) -> None:
        """Request a reconcile of the key at that time; the earliest of several requests counts."""
        if due >= self._due.get(key, float("inf")):
            return
        self._due[key] = due
        self._entries += 1
        heapq.heappush(self._heap, (due, self._entries, key))

    def pop(self, now: float) -> K | None:
        """Return the next ready key, or None; the caller must call `done` for it."""
        while (due := self.next_due()) is not None and due <= now:
            _, _, late = heapq.heappop(self._heap)
            del self._due[late]
            self.add(late)
        if not self._ready:
            return None
        key, _ = self._ready.popitem(last=False)
        self._busy.add(key)
        return key

    def done(self, key: K) -> None:
        """Report that the reconcile of a popped key is over."""
        self._busy.discard(key)
        if key in self._again:
            self._again.discard(key)
            self._ready[key] = None

    def next_due(self) -> float | None:
        """Return the time at which the next delayed key becomes ready, None if there is none."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
