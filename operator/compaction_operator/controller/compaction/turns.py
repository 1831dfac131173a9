"""Turns: one running attempt per table over all namespaces, and a limit on all running attempts.

Pure except for claims.
"""

from collections.abc import Iterable
from datetime import datetime

from compaction_operator.api.config import OperatorConfig
from compaction_operator.controller.kube.cache import Cache
from compaction_operator.controller.kube.resources import Compaction, Key, TableKey
from compaction_operator.controller.kube.times import parse_time
from compaction_operator.controller.policy import may_use


class Turns:
    """Determines what each compaction waits for.

    A claim holds a table between the decision and the recorded attempt.
    """

    def __init__(self, cache: Cache, config: OperatorConfig) -> None:
        self._cache = cache
        self._config = config
        self._claims: dict[TableKey, Key] = {}
        self._waiting: dict[Key, bool] = {}

    def waits_for(self, compaction: Compaction, now: datetime) -> str | None:
        """Return what a compaction waits for before its next attempt, None if it is its turn."""
        blocked = self._table_blocked(compaction, now)
        full = None if blocked else self._full(compaction.key)
        if blocked or full:
            self._waiting[compaction.key] = full is not None
        else:
            self._waiting.pop(compaction.key, None)
        return blocked or full

    def forget(self, key: Key) -> None:
        """Stop treating a compaction as waiting: it has ended or is gone."""
        self._waiting.pop(key, None)

    def woken_by(self, freed: Iterable[TableKey]) -> list[Compaction]:
        """Return the compactions that may proceed now that these tables were freed, oldest first."""
        tables = set(freed)
        waiting = ((self._cache.compactions.get(key), capped) for key, capped in self._waiting.items())
        return sorted((one for one, capped in waiting if one and (capped or self._place(one) in tables)), key=age)

    def _table_blocked(self, compaction: Compaction, now: datetime) -> str | None:
        """Return what occupies the table.

        Compactions of a table run by age. None starts until the result of every earlier attempt is known: the fence of
        that attempt's cleanup would remove the new attempt's staging.
        """
        mates = [mate for mate in self._cache.compactions.of_table(compaction.table) if mate.key != compaction.key]
        claimed = self._claims.get(self._place(compaction))
        for mate in mates:
            if mate.attempt_running or mate.key == claimed:
                return f"compaction {mate.key}, which works on the same table"
        older = min((mate for mate in mates if _eligible(mate, now)), key=age, default=None)
        if older is not None and age(older) < age(compaction):
            return f"compaction {older.key}, which is older"
        for cleanup in self._cache.cleanups.of_table(compaction.table):
            # NB: a cleanup without permission is never settled, so it must not block anything.
            if not (cleanup.settled or cleanup.ended) and may_use(cleanup, self._config):
                return f"cleanup {cleanup.key}, which determines what was published"
        return None

    def claim(self, compaction: Compaction) -> None:
        """Hold the compaction's table for it until `release`."""
        self._claims[self._place(compaction)] = compaction.key

    def release(self, compaction: Compaction) -> None:
        """Release the claim: an attempt recorded meanwhile holds the table by itself.

        NB: earlier writes may have woken other compactions that still found the claim.
        """
        place = self._place(compaction)
        if self._claims.get(place) == compaction.key:
            del self._claims[place]
            self._cache.freed.add(place)

    def _place(self, compaction: Compaction) -> TableKey:
        return self._cache.place(compaction.table)

    def _full(self, key: Key) -> str | None:
        running = self._cache.running | set(self._claims.values())
        most = self._config.max_concurrent_jobs
        if len(running - {key}) < most:
            return None
        return f"one of {most} running compactions to end (maxConcurrentJobs)"


def age(compaction: Compaction) -> tuple[datetime, str, str]:
    """Return the sort key of compactions, oldest first."""
    return (compaction.meta.created, compaction.meta.namespace, compaction.meta.name)


def _eligible(compaction: Compaction, now: datetime) -> bool:
    """Whether it would start if it were its turn.

    A suspended compaction, or one that backs off, lets younger ones go first.
    """
    due = compaction.status.next_attempt_time
    backs_off = due is not None and parse_time(due) > now
    return not (compaction.ended or compaction.attempt_running or compaction.spec.suspend or backs_off)
