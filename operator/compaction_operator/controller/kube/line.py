"""The line: compactions that wait, in lanes, each lane in order. Pure: it knows neither cluster nor time."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from compaction_operator.controller.kube.resources import Compaction, Key, ResourceKind

LaneT = TypeVar("LaneT", bound=Hashable)


class Age(NamedTuple):
    """The order of compactions: by the time since which they could start, then by name. No two have the same.

    NB: not by their creation. Those whose attempts only ever find an obstacle would come first after each pause, and
    the others would wait for ever.
    """

    since: datetime
    namespace: str
    name: str

    @classmethod
    def of(cls, compaction: Compaction) -> "Age":
        """Return a compaction's place in the order."""
        return cls(compaction.since, compaction.meta.namespace, compaction.meta.name)

    @property
    def key(self) -> Key:
        """The compaction's key."""
        return Key(ResourceKind.COMPACTION, self.namespace, self.name)


class _Waiting(NamedTuple, Generic[LaneT]):
    age: Age
    lane: LaneT
    told: str | None


class Line(Generic[LaneT]):
    """Who waits in which lane, and what each was told. To enter, leave or find a place costs the same in any length."""

    def __init__(self) -> None:
        self._waiting: dict[Key, _Waiting[LaneT]] = {}
        self._lanes: defaultdict[LaneT, list[Age]] = defaultdict(list)

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def enter(self, age: Age, lane: LaneT, *, told: str | None = None) -> None:
        """Wait in a lane, and in no other; `told` is what the status says that it waits for."""
        self.leave(age.key)
        self._waiting[age.key] = _Waiting(age, lane, told)
        insort(self._lanes[lane], age)

    def leave(self, key: Key) -> None:
        """Wait no longer."""
        if key not in self._waiting:
            return
        age, lane, _ = self._waiting.pop(key)
        ages = self._lanes[lane]
        del ages[bisect_left(ages, age)]
        if not ages:
            del self._lanes[lane]

    def told(self, key: Key) -> str | None:
        """Return what one that waits was told."""
        return self._waiting[key].told

    def lane(self, key: Key) -> LaneT:
        """Return the lane of one that waits."""
        return self._waiting[key].lane

    def all(self, lane: LaneT) -> Iterator[Key]:
        """Yield those of a lane in order; the lane must not change meanwhile."""
        return (age.key for age in self._lanes.get(lane, ()))

    def first_of(self, rooms: Mapping[LaneT, int], most: int) -> list[Key]:
        """Return the oldest of several lanes, from each at most as many as it has room for."""
        return [age.key for age in self._heads(rooms)[: max(0, most)]]

    def ahead_of(self, age: Age, rooms: Mapping[LaneT, int]) -> int:
        """Return how many of `first_of` these lanes are older."""
        return bisect_left(self._heads(rooms), age)

    def ahead_in(self, lane: LaneT, age: Age) -> int:
        """Return how many of a lane are older."""
        return bisect_left(self._lanes.get(lane, ()), age)

    def lanes(self) -> Collection[LaneT]:
        """Return the lanes in which any compaction waits."""
        return self._lanes.keys()

    def _heads(self, rooms: Mapping[LaneT, int]) -> list[Age]:
        heads = (self._lanes.get(lane, ())[: max(0, room)] for lane, room in rooms.items())
        return sorted(age for head in heads for age in head)
