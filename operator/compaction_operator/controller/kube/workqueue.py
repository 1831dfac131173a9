"""Level-triggered work queue: each key at most once, one reconcile of a key at a time, delayed entries.

Time is an argument.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from compaction_operator.controller.kube.schedule import Schedule

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """The lowest rank first, then first in, first out. A key added while it is processed is queued again afterwards.

    A ready key that is added again moves up if its rank has fallen.
    """

    def __init__(self, rank: Callable[[K], float] = lambda _: 0.0) -> None:
        self._rank = rank
        self._ready: Schedule[K] = Schedule()
        self._busy: set[K] = set()
        self._again: set[K] = set()
        self._due: Schedule[K] = Schedule()

    def add(self, key: K) -> None:
        """Request a reconcile of the key as soon as possible."""
        if key in self._busy:
            self._again.add(key)
        else:
            self._ready.put_if_lower(key, self._rank(key))

    def add_at(self, key: K, due: float) -> None:
        """Request a reconcile of the key at that time; the earliest of several requests counts."""
        self._due.put_if_lower(key, due)

    def pop(self, now: float, *, below: float = float("inf")) -> K | None:
        """Return the next ready key with a rank below that, or None; the caller must call `done` for it."""
        while (late := self._due.take(now)) is not None:
            self.add(late)
        first = self._ready.first()
        if first is None or first[0] >= below:
            return None
        self._ready.discard(first[1])
        self._busy.add(first[1])
        return first[1]

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
        return self._due.lowest()
