"""Fixed thresholds: what is due by Hive's defaults, first come, first served, as Hive's Initiator and Workers do it."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from bench.policy.fleet import Fleet, Ints, time_of
from bench.policy.loop import Ledger, Limits, Run, Start, whole
from bench.policy.state import State
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.model import backed_off
from compaction_operator.api.policy import Thresholds
from compaction_operator.policy.thresholds import due

PAUSE, LONGEST = timedelta(hours=1), timedelta(days=1)
"""After a failure a partition is left alone for an hour, which doubles up to a day, as a policy does it.

NB: Hive's own rule is harsher. After two failures in a row the Initiator leaves a partition alone for a week.
"""


class FixedThresholds:
    """A queue of partitions. What does not fit into the rest of the budget lets the next one go first."""

    def __init__(self, fleet: Fleet, state: State, limits: Limits) -> None:
        self._fleet, self._state, self._limits = fleet, state, limits
        self._queue: dict[int, CompactionType] = {}
        self._running: set[int] = set()
        self._failed: dict[int, tuple[int, datetime]] = {}
        self._aborted: dict[int, datetime] = {}
        self._ledger = Ledger()

    def decide(self, tick: int, changed: Ints, ended: Iterable[Run]) -> list[Start]:
        """Return the first of the queue that slots and budget let start."""
        now = time_of(tick)
        for run in ended:
            self._end(int(run.start.partitions[0]), failed=run.fails, now=now)
        self._enqueue(sorted({*changed.tolist(), *self._aborted}), now)
        return self._begin(tick)

    def _end(self, partition: int, *, failed: bool, now: datetime) -> None:
        self._running.discard(partition)
        earlier = self._failed.pop(partition, (0, now))[0]
        if failed:
            self._failed[partition] = earlier + 1, now

    def _enqueue(self, found: list[int], now: datetime) -> None:
        for partition, measure in zip(found, self._state.measures(found), strict=True):
            since = self._aborted.setdefault(partition, now) if measure.aborted else self._aborted.pop(partition, now)
            needed = due(measure, Thresholds(), aborted_for=now - since)
            if needed and self._is_free(partition, now):
                self._queue[partition] = needed.type

    def _is_free(self, partition: int, now: datetime) -> bool:
        known = partition in self._queue or partition in self._running
        return not known and now >= self._retried(partition, now)

    def _retried(self, partition: int, now: datetime) -> datetime:
        if partition not in self._failed:
            return now
        failures, at = self._failed[partition]
        return at + timedelta(seconds=backed_off(PAUSE.total_seconds(), failures, cap=LONGEST.total_seconds()))

    def _begin(self, tick: int) -> list[Start]:
        self._ledger.forget(tick)
        starts = []
        for partition, type_ in list(self._queue.items()):
            if len(self._running) >= self._limits.slots:
                break
            size = whole(self._state, partition, type_)
            if self._ledger.used + size > self._limits.bytes:
                continue
            self._ledger.add(tick, size)
            self._running.add(partition)
            del self._queue[partition]
            starts.append(Start.one(self._fleet, partition, type_))
        return starts
