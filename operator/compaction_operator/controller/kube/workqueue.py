"""Level-triggered work queue: each key at most once, one reconcile of a key at a time, delayed entries.

Time is an argument.
"""

import heapq
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """The lowest rank first, then first in, first out. A key added while it is processed is queued again afterwards.

    A ready key that is added again moves up if its rank has fallen.
    """

    def __init__(self, rank: Callable[[K], float] = lambda _: 0.0) -> None:
        self._rank = rank
        self._ready: dict[K, tuple[float, int]] = {}
        self._order: list[tuple[float, int, K]] = []
        self._busy: set[K] = set()
        self._again: set[K] = set()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._entries = 0

    def add(self, key: K) -> None:
        """Request a reconcile of the key as soon as possible."""
        if key in self._busy:
            self._again.add(key)
            return
        rank, known = self._rank(key), self._ready.get(key)
        if known is None or rank < known[0]:
            self._entries += 1
            self._ready[key] = (rank, self._entries)
            heapq.heappush(self._order, (rank, self._entries, key))

    def add_at(self, key: K, due: float) -> None:
        """Request a reconcile of the key at that time; the earliest of several requests counts."""
        if due >= self._due.get(key, float("inf")):
            return
        self._due[key] = due
        self._entries += 1
        heapq.heappush(self._heap, (due, self._entries, key))

    def pop(self, now: float, *, below: float = float("inf")) -> K | None:
        """Return the next ready key with a rank below that, or None; the caller must call `done` for it."""
        while (due := self.next_due()) is not None and due <= now:
            _, _, late = heapq.heappop(self._heap)
            del self._due[late]
            self.add(late)
        while self._order:
            rank, entry, key = self._order[0]
            if self._ready.get(key) == (rank, entry):
                return self._take(key) if rank < below else None
            heapq.heappop(self._order)
        return None

    def done(self, key: K) -> None:
        """Report that the reconcile of a popped key is over."""
        self._busy.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def knows(self, key: K) -> bool:
        """Whether a reconcile of the key goes on or will come."""
        return key in self._ready or key in self._busy or key in self._due

    def next_due(self) -> float | None:
        """Return the time at which the next delayed key becomes ready, None if there is none."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _take(self, key: K) -> K:
        heapq.heappop(self._order)
        del self._ready[key]
        self._busy.add(key)
        return key
