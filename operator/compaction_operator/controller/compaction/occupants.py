"""What occupies a table: why a compaction of it has to wait for others."""

from collections.abc import Callable
from datetime import datetime
from functools import cached_property

from compaction_operator.api.config import OperatorConfig
from compaction_operator.controller.kube.cache import Cache
from compaction_operator.controller.kube.line import Age
from compaction_operator.controller.kube.resources import Compaction, Key, TableKey
from compaction_operator.controller.permissions import may_use


def eligible(compaction: Compaction, now: datetime) -> bool:
    """Whether it would start if it were its turn.

    A suspended compaction, or one that backs off, lets others go first, and comes after them once its pause is over.
    """
    backs_off = compaction.next_attempt is not None and compaction.next_attempt > now
    return not (compaction.ended or compaction.attempt_running or compaction.spec.suspend or backs_off)


class Occupants:
    """What occupies a table at a moment: found at the same cost, however many of its compactions wait or have
    ended.

    Compactions of a table run in their order. None starts until the result of every earlier attempt is known: the fence
    of that attempt's cleanup would remove the new attempt's staging.
    """

    def __init__(
        self,
        cache: Cache,
        table: TableKey,
        *,
        config: OperatorConfig,
        claimed_by: Key | None,
        now: datetime,
        sees: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._cache = cache
        self._table = table
        self._config = config
        self._sees = sees
        place, claiming = cache.place(table), claimed_by and cache.compactions.get(claimed_by)
        self._working = set(cache.working(table))
        if claiming and cache.place(claiming.table) == place:
            self._working.add(claiming.key)
        # NB: they are in order: if the first one backs off, all of them do.
        first = next(map(cache.compactions.get, cache.candidates.all(place)), None)
        self._oldest = Age.of(first) if first is not None and eligible(first, now) else None

    def before(self, compaction: Compaction) -> str | None:
        """Return what a compaction of the table waits for, None if it is the next one."""
        for key in self._working:
            if key != compaction.key:
                return f"compaction {key}, which works on the same table{self._way_out(key)}"
        if self._oldest is not None and self._oldest < Age.of(compaction):
            return f"compaction {self._oldest.key}, which comes first"
        return self._unsettled

    @cached_property
    def _unsettled(self) -> str | None:
        for cleanup in self._cache.unsettled(self._table):
            # NB: a cleanup without permission is never settled, so it must not block anything.
            if may_use(cleanup, self._config):
                return f"cleanup {cleanup.key}, which determines what was published{self._way_out(cleanup.key)}"
        return None

    def _way_out(self, key: Key) -> str:
        """Say what to do about a namespace that may never be seen again."""
        if self._sees(key.namespace):
            return ""
        return f" (namespace {key.namespace} is not served now: if it is gone for good, restart the controller)"
