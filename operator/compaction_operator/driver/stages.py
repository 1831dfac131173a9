"""When a driver was at which stage of its work. The controller makes a trace of it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from compaction_operator.api.request import Stage, StageTimes


class Stages:
    """The stages of one attempt, each with its first begin, its last end and the time in between that it took."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._times: dict[Stage, StageTimes] = {}

    @contextmanager
    def during(self, stage: Stage) -> Iterator[None]:
        """Count the time of the block for a stage, also if it raises. Blocks of one stage add up, as batches do."""
        begin = self._milliseconds()
        try:
            yield
        finally:
            end = self._milliseconds()
            first, _, before = self._times.get(stage, (begin, 0, 0))
            self._times[stage] = first, end, before + end - begin

    def times(self) -> dict[str, StageTimes]:
        """Return the times of each stage that began."""
        return {stage.value: times for stage, times in self._times.items()}

    def _milliseconds(self) -> int:
        """Return the time. NB: rounded before any difference, so that blocks never take more than the whole stage."""
        return round(self._clock() * 1000)
