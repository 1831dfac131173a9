"""When a driver was at which stage of its work. The controller makes a trace of it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from compaction_operator.api.request import StageTimes


class Stages:
    """The stages of one attempt, each with its first begin, its last end and the time in between that it took."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._times: dict[str, StageTimes] = {}

    @contextmanager
    def during(self, name: str) -> Iterator[None]:
        """Count the time of the block for a stage, also if it raises. Blocks of one stage add up, as batches do."""
        begin = self._clock()
        try:
            yield
        finally:
            end = self._clock()
            first, _, before = self._times.get(name, (_milliseconds(begin), 0, 0))
            self._times[name] = first, _milliseconds(end), before + _milliseconds(end - begin)

    def times(self) -> dict[str, StageTimes]:
        """Return the times of each stage that began."""
        return dict(self._times)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
