"""Reader watch: schedules the looks at tables, however many cleanups wait for readers. Time and results are arguments.

One look serves all due tables of a warehouse, and each table once. Each cleanup receives results at its own interval.
NB: a look counts only for cleanups that waited before it began. An answer from before a baseline may lack a lock that
the baseline has, and would report it as released.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from compaction_operator.api.cleanup import Blocker, ReaderBaseline
from compaction_operator.api.compaction import Readers
from compaction_operator.cleanup.readers import ReaderSnapshot, blockers, distrust
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.kube.resources import Key, TableKey
from compaction_operator.controller.kube.schedule import Schedule

ERROR_PAUSE_CAP = 10.0
"""Maximum seconds between two looks while the metastore fails (or the interval, if that is longer)."""


def identities(found: Iterable[Blocker]) -> tuple[tuple[object, ...], ...]:
    """Return what identifies the blockers, without what changes while they stay (their heartbeats)."""
    return tuple((blocker.kind, blocker.id, blocker.health) for blocker in found)


@dataclass(frozen=True)
class Look:
    """Result of one look for one cleanup: the older readers that are left, or why they are unknown."""

    blockers: tuple[Blocker, ...] = ()
    error: str | None = None

    def same_as(self, other: "Look | None") -> bool:
        """Whether nothing changed that matters to a person (heartbeats change all the time)."""
        return (
            other is not None and self.error == other.error and identities(self.blockers) == identities(other.blockers)
        )


@dataclass
class _Waiting:
    """A cleanup that waits for readers."""

    baseline: ReaderBaseline
    readers: Readers
    interval: float
    since: float
    due: float
    look: Look | None = None


@dataclass
class _Table:
    """A table that cleanups wait for, and the state of its looks."""

    waiting: dict[Key, _Waiting]
    started: float | None = None
    busy: bool = False
    failures: int = 0


class ReaderWatch:
    """Tracks the waiting cleanups, the next look at each table, and the result of the last look for each cleanup."""

    def __init__(self) -> None:
        self._tables: dict[TableKey, _Table] = {}
        self._order: Schedule[TableKey] = Schedule()
        self._table_of: dict[Key, TableKey] = {}

    def watch(
        self, key: Key, table: TableKey, baseline: ReaderBaseline, *, readers: Readers, interval: float, now: float
    ) -> None:
        """Register a waiting cleanup. It joins its table's next tick, at most one interval after the last look."""
        found = self._tables.setdefault(table, _Table({}))
        known = found.waiting.get(key)
        if known is not None and known.interval == interval:
            return
        due = now if found.started is None else max(now, _next(interval, 0, found.started))
        if not found.busy:
            self._order.put_if_lower(table, due)
        found.waiting[key] = _Waiting(baseline, readers, interval, since=now, due=due)
        self._table_of[key] = table

    def forget(self, key: Key) -> None:
        """Unregister a cleanup."""
        table = self._table_of.pop(key, None)
        if table is not None:
            self._tables[table].waiting.pop(key, None)
            self._plan(table)

    def view(self, key: Key) -> Look | None:
        """Return the last look's result for a waiting cleanup, None before its first look."""
        table = self._table_of.get(key)
        return self._tables[table].waiting[key].look if table is not None else None

    def start_due(self, now: float) -> dict[str, list[TableKey]]:
        """Return the tables to look at now, by warehouse; each is busy until its `finish`."""
        due: defaultdict[str, list[TableKey]] = defaultdict(list)
        while (key := self._order.take(now)) is not None:
            table = self._tables[key]
            table.busy, table.started = True, now
            due[key.warehouse].append(key)
        return dict(due)

    def finish(self, answers: Mapping[TableKey, ReaderSnapshot | Trouble], *, now: datetime) -> list[Key]:
        """Take a look's answers (or errors) by table; return the cleanups whose result changed."""
        return [key for table, answer in answers.items() for key in self._finish(table, answer, now)]

    def next_due(self) -> float | None:
        """Return the time of the next look, None if no cleanup waits."""
        return self._order.lowest()

    def _finish(self, key: TableKey, answer: ReaderSnapshot | Trouble, now: datetime) -> list[Key]:
        table = self._tables[key]
        table.busy = False
        table.failures = table.failures + 1 if isinstance(answer, Trouble) else 0
        started = table.started or 0.0
        served = [pair for pair in table.waiting.items() if max(pair[1].due, pair[1].since) <= started]
        changed = [cleanup for cleanup, waiting in served if _update(waiting, answer, table.failures, started, now)]
        self._plan(key)
        return changed

    def _plan(self, key: TableKey) -> None:
        """Schedule a table's next look. Drop a table without waiting cleanups once its look is over."""
        table = self._tables[key]
        if table.busy:
            return
        if table.waiting:
            self._order.put(key, min(waiting.due for waiting in table.waiting.values()))
        else:
            self._order.discard(key)
            del self._tables[key]


def _update(waiting: _Waiting, answer: ReaderSnapshot | Trouble, failures: int, started: float, now: datetime) -> bool:
    """Give a waiting cleanup the answer; return whether its result changed."""
    waiting.due = _next(waiting.interval, failures, started)
    look = _look_of(waiting, answer, now)
    changed = not look.same_as(waiting.look)
    waiting.look = look
    return changed


def _look_of(waiting: _Waiting, answer: ReaderSnapshot | Trouble, now: datetime) -> Look:
    if isinstance(answer, Trouble):
        return Look(error=answer.message)
    strange = distrust(waiting.baseline, answer)
    if strange is not None:
        return Look(error=strange)
    return Look(blockers(waiting.baseline, answer, readers=waiting.readers, now=now))


def _next(interval: float, failures: int, started: float) -> float:
    """Return the time of the next look.

    Ticks of one interval coincide, whenever each cleanup began to wait, so one look serves many tables.
    """
    if not failures:
        return max(math.floor((started + interval) / interval) * interval, math.nextafter(started, math.inf))
    return started + max(interval, min(ERROR_PAUSE_CAP, interval * 2.0 ** min(failures, 32)))
