"""The storm's tables: where they lie, what is written into them, and who must keep away from an INSERT OVERWRITE."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from sandbox.harness.places import Place

from tests.soak.storm.model import History

COLUMNS = (("id", "bigint"), ("payload", "string"))
ROW_TYPE = "struct<id:bigint,payload:string>"
DATABASE = "storm"
KEY = "part"


@dataclass(frozen=True)
class Sort:
    """What a table is like; without `changes` it is only inserted into."""

    name: str
    partitions: tuple[str, ...] = ()
    buckets: int = 1
    changes: bool = True


SORTS = (
    Sort("orders", buckets=2),
    Sort("sales", partitions=("a", "b", "c"), buckets=3),
    Sort("events", partitions=("x", "y"), buckets=2, changes=False),
)


class Crossing:
    """Lets many through at a time, or one alone; who waits to be alone is not starved."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._alone_wanted = False

    @contextmanager
    def together(self) -> Iterator[None]:
        """Be inside with others."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone_wanted)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the only one inside."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone_wanted)
            self._alone_wanted = True
            self._changed.wait_for(lambda: not self._inside)
        try:
            yield
        finally:
            with self._changed:
                self._alone_wanted = False
                self._changed.notify_all()


@dataclass(frozen=True)
class StormTable:
    """A table and all that was ever written into it, by partition name ('' for an unpartitioned one).

    NB: an INSERT OVERWRITE breaks every snapshot from before it by itself ("Not enough history available") where no
    older base is left. With locks that cannot be told from harm of ours, so it goes through `crossing` alone; it meets
    compactions and cleanups all the same.
    """

    sort: Sort
    directory: Place
    histories: Mapping[str, History]
    crossing: Crossing = field(default_factory=Crossing)

    @classmethod
    def of(cls, sort: Sort, warehouse: Place) -> "StormTable":
        """Return the table of a sort in its place in the warehouse."""
        names = [f"{KEY}={value}" for value in sort.partitions] or [""]
        return cls(sort, warehouse / f"{DATABASE}.db" / sort.name, {name: History() for name in names})

    @property
    def name(self) -> str:
        """The table's name."""
        return self.sort.name

    @property
    def places(self) -> tuple[str, ...]:
        """The names of its partitions, or ''."""
        return tuple(self.histories)

    def path(self, place: str) -> Place:
        """Return the directory of a place."""
        return self.directory / place if place else self.directory
