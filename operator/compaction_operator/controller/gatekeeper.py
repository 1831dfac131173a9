"""One look per table and tick, however many cleanups wait for that table's readers. Time and looks are handed in.

Each cleanup is told at its own interval. NB: a look counts only for cleanups that waited before it began: an answer
from before a baseline may lack a lock that the baseline has, and would pass it off as released.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from compaction_operator.api.cleanup import Blocker, ReaderBaseline
from compaction_operator.cleanup.gate import World, blockers
from compaction_operator.controller.resources import Key, TableKey

NEVER = float("inf")
ERROR_PAUSE_CAP = 10.0
"""Seconds at most between two looks while the metastore cannot answer (or the interval, if that is longer)."""


def identities(found: Iterable[Blocker]) -> tuple[tuple[str, int], ...]:
    """Return who the blockers are, without what changes while they stay (their heartbeats)."""
    return tuple((blocker.kind.value, blocker.id) for blocker in found)


@dataclass(frozen=True)
class Look:
    """What one look means for one cleanup: the readers from before that are left, or why nobody knows."""

    blockers: tuple[Blocker, ...] = ()
    error: str | None = None

    def same_as(self, other: "Look | None") -> bool:
        """Whether nothing changed that a person would want to know (heartbeats do all the time)."""
        return (
            other is not None and self.error == other.error and identities(self.blockers) == identities(other.blockers)
        )


@dataclass
class _Waiting:
    """A cleanup that waits for readers."""

    baseline: ReaderBaseline
    interval: float
    since: float
    due: float
    look: Look | None = None


@dataclass
class _Looks:
    """How a table is looked at."""

    started: float | None = None
    due: float = NEVER
    busy: bool = False
    failures: int = 0


class Gatekeeper:
    """Knows who waits, when which table is to be looked at, and what the last look meant for each."""

    def __init__(self) -> None:
        self._waiting: defaultdict[TableKey, dict[Key, _Waiting]] = defaultdict(dict)
        self._looks: defaultdict[TableKey, _Looks] = defaultdict(_Looks)
        self._tables: dict[Key, TableKey] = {}

    def watch(self, key: Key, table: TableKey, baseline: ReaderBaseline, *, interval: float, now: float) -> None:
        """Let a cleanup wait. It joins its table's next tick, at most one interval after the last look."""
        known = self._waiting[table].get(key)
        if known is not None and known.interval == interval:
            return
        looks = self._looks[table]
        due = now if looks.started is None else max(now, looks.started + interval)
        looks.due = min(looks.due, due)
        self._waiting[table][key] = _Waiting(baseline, interval, since=now, due=due)
        self._tables[key] = table

    def forget(self, key: Key) -> None:
        """Let a cleanup wait no longer."""
        table = self._tables.pop(key, None)
        if table is None:
            return
        self._waiting[table].pop(key, None)
        self._plan(table)
        if not self._waiting[table]:
            del self._waiting[table]

    def view(self, key: Key) -> Look | None:
        """Return what the last look meant for a waiting cleanup, None before its first one."""
        table = self._tables.get(key)
        return self._waiting[table][key].look if table is not None else None

    def start_due(self, now: float) -> list[TableKey]:
        """Return the tables to look at now; each is busy until its `finish`."""
        due = [table for table in self._waiting if not self._looks[table].busy and self._looks[table].due <= now]
        for table in due:
            self._looks[table].busy = True
            self._looks[table].started = now
        return due

    def finish(self, table: TableKey, answer: World | str) -> list[Key]:
        """Take a look's answer (or its error); return the cleanups for which something changed."""
        looks = self._looks[table]
        looks.busy = False
        looks.failures = looks.failures + 1 if isinstance(answer, str) else 0
        started = looks.started or 0.0
        served = [
            (key, waiting)
            for key, waiting in self._waiting.get(table, {}).items()
            if waiting.due <= started and waiting.since <= started
        ]
        changed = [key for key, waiting in served if self._tell(waiting, answer, looks, started)]
        self._plan(table)
        return changed

    def next_due(self) -> float | None:
        """Return when the next table is to be looked at, None when nobody waits."""
        idle = (self._looks[table] for table in self._waiting)
        return min((looks.due for looks in idle if not looks.busy), default=None)

    def _plan(self, table: TableKey) -> None:
        waiting = self._waiting.get(table, {}).values()
        self._looks[table].due = min((one.due for one in waiting), default=NEVER)

    def _tell(self, waiting: _Waiting, answer: World | str, looks: _Looks, started: float) -> bool:
        waiting.due = started + _pause(waiting.interval, looks.failures)
        if isinstance(answer, str):
            look = Look(error=answer)
        else:
            look = Look(blockers(waiting.baseline, answer.locks, answer.txns))
        changed = not look.same_as(waiting.look)
        waiting.look = look
        return changed


def _pause(interval: float, failures: int) -> float:
    if not failures:
        return interval
    return max(interval, min(ERROR_PAUSE_CAP, interval * 2.0 ** min(failures, 32)))
