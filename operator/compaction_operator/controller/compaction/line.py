"""The line: compactions that wait, in lanes, each lane in order. Pure: it knows neither cluster nor time."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from compaction_operator.controller.kube.resources import Compaction, Key, ResourceKind

LaneT = TypeVar("LaneT", bound=Hashable)


class Age(NamedTuple):
    """The order of compactions: the oldest first, those of one second by name. No two have the same."""

    created: datetime
    namespace: str
    name: str

    @classmethod
    def of(cls, compaction: Compaction) -> "Age":
        """Return a compaction's place in the order."""
        return cls(compaction.meta.created, compaction.meta.namespace, compaction.meta.name)

    @property
    def key(self) -> Key:
        """The compaction's key."""
        return Key(ResourceKind.COMPACTION, self.namespace, self.name)


class Place(NamedTuple):
    """A place in a lane: those that failed less often come first, then the older."""

    failures: int
    age: Age


class _Waiting(NamedTuple, Generic[LaneT]):
    place: Place
    lane: LaneT
    told: str | None


class Line(Generic[LaneT]):
    """Who waits in which lane, and what each was told. To enter, leave or find a place costs the same in any length."""

    def __init__(self) -> None:
        self._waiting: dict[Key, _Waiting[LaneT]] = {}
        self._lanes: defaultdict[LaneT, list[Place]] = defaultdict(list)

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def enter(self, age: Age, lane: LaneT, *, told: str | None, failures: int = 0) -> None:
        """Wait in a lane, and in no other; `told` is what the status says that it waits for."""
        self.leave(age.key)
        place = Place(failures, age)
        self._waiting[age.key] = _Waiting(place, lane, told)
        insort(self._lanes[lane], place)

    def leave(self, key: Key) -> None:
        """Wait no longer."""
        if key not in self._waiting:
            return
        place, lane, _ = self._waiting.pop(key)
        places = self._lanes[lane]
        del places[bisect_left(places, place)]
        if not places:
            del self._lanes[lane]

    def told(self, key: Key) -> str | None:
        """Return what one that waits was told."""
        return self._waiting[key].told

    def lane(self, key: Key) -> LaneT:
        """Return the lane of one that waits."""
        return self._waiting[key].lane

    def all(self, lane: LaneT) -> Iterator[Key]:
        """Yield those of a lane in order; the lane must not change meanwhile."""
        return (place.age.key for place in self._lanes.get(lane, ()))

    def first_of(self, rooms: Mapping[LaneT, int], most: int) -> list[Key]:
        """Return the oldest of several lanes, from each at most as many as it has room for."""
        return [age.key for age in self._heads(rooms)[: max(0, most)]]

    def ahead_of(self, age: Age, rooms: Mapping[LaneT, int]) -> int:
        """Return how many of `first_of` these lanes are older."""
        return bisect_left(self._heads(rooms), age)

    def ahead_in(self, lane: LaneT, place: Place) -> int:
        """Return how many of a lane come before that place."""
        return bisect_left(self._lanes.get(lane, ()), place)

    def lanes(self) -> Collection[LaneT]:
        """Return the lanes in which any compaction waits."""
        return self._lanes.keys()

    def _heads(self, rooms: Mapping[LaneT, int]) -> list[Age]:
        heads = (self._lanes.get(lane, ())[: max(0, room)] for lane, room in rooms.items())
        return sorted(place.age for head in heads for place in head)
