"""Keys in the order of a number that each has: the time at which it is due, or its rank. Pure."""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Schedule(Generic[K]):
    """Keys with a number each: the lowest comes first, of equal ones the one that has it for longest.

    To put, discard or find the first costs the same in any length. NB: an entry that was replaced stays in the heap,
    and is skipped once it comes first.
    """

    def __init__(self) -> None:
        self._known: dict[K, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._entries = 0

    def __contains__(self, key: K) -> bool:
        return key in self._known

    def put(self, key: K, number: float) -> None:
        """Give a key its number, in place of the one that it has."""
        self._entries += 1
        self._known[key] = (number, self._entries)
        heapq.heappush(self._heap, (number, self._entries, key))

    def put_if_lower(self, key: K, number: float) -> None:
        """Give a key its number unless it has that one, or a lower one."""
        known = self._known.get(key)
        if known is None or number < known[0]:
            self.put(key, number)

    def discard(self, key: K) -> None:
        """Remove a key, if it is there."""
        self._known.pop(key, None)

    def take(self, limit: float) -> K | None:
        """Remove and return the first key, None if there is none or its number is above the limit."""
        first = self.first()
        if first is None or first[0] > limit:
            return None
        self.discard(first[1])
        return first[1]

    def first(self) -> tuple[float, K] | None:
        """Return the lowest number and its key, None if there is no key."""
        while self._heap:
            number, entry, key = self._heap[0]
            if self._known.get(key) == (number, entry):
                return number, key
            heapq.heappop(self._heap)
        return None

    def lowest(self) -> float | None:
        """Return the lowest number, None if there is no key."""
        first = self.first()
        return first and first[0]
