"""The storm's compactions: TableCompactions of all kinds, one after the other, by the real controller and drivers."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from sandbox.hudi.zookeeper import LOCK_KEY
from sandbox.plane import Plane

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.hudi import HudiMode
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.controller.resources import Compaction

log = logging.getLogger(__name__)

END_SECONDS = 1200.0
SPEC: dict[str, Any] = {
    "spark": {"driver": {"cores": 1, "memory": "1g"}},
    "retry": {"maxAttempts": 1000, "backoff": "1s"},
}
THRESHOLDS = ("hoodie.log.compaction.blocks.threshold", "hoodie.metadata.log.compaction.blocks.threshold")
SMALL = "16KiB"
"""Larger than what one write brings to a file group, smaller than some of them merged."""
FULL = {
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clean.commits.retained": "3",
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "8",
}
FULL_SHARE = 0.25
METADATA_SHARE = 0.1
MODES = (*[HudiMode.SCHEDULE_AND_EXECUTE] * 8, HudiMode.SCHEDULE, HudiMode.EXECUTE)


ENDS = frozenset(
    {
        Reason.COMPACTED,
        Reason.NOTHING_TO_COMPACT,
        Reason.SCHEDULED,
        Reason.WAITING_FOR_LEASE,
        Reason.WAITING_FOR_LOCK,
        Reason.WAITING_FOR_INSTANT,
    }
)
"""How a driver that is not killed may end."""


class FailedDriverError(AssertionError):
    """A driver that failed by itself. NB: the next attempt would hide it."""


class Compactor:
    """Compacts the tables in turn; each compaction must succeed, however often its driver is killed."""

    def __init__(self, plane: Plane, locations: Sequence[Path], rng: Random) -> None:
        self.tally: Counter[str] = Counter()
        self._plane = plane
        self._locations = locations
        self._rng = rng

    def step(self) -> None:
        """Compact one of the tables in one of the ways."""
        location = self._rng.choice(self._locations)
        mode = self._rng.choice(MODES)
        if self._rng.random() < FULL_SHARE:
            self.full(location, mode)
        elif self._rng.random() < METADATA_SHARE:
            self.log(location, metadataTable=True)
        else:
            narrow = {"maxLogFileSizeToMerge": SMALL} if self._rng.random() < 0.5 else {}
            self.log(location, mode=mode.value, **narrow)

    def full(self, location: Path, mode: HudiMode = HudiMode.SCHEDULE_AND_EXECUTE) -> Compaction:
        """Compact into new base files, clean and archive."""
        return self._compact(
            location, CompactionType.COMPACTION, options=FULL, mode=mode.value, clean=True, archive=True
        )

    def log(self, location: Path, **hudi: Any) -> Compaction:
        """Compact log blocks."""
        options = dict.fromkeys(THRESHOLDS, "3")
        return self._compact(location, CompactionType.LOG_COMPACTION, options=options, **hudi)

    def _compact(self, location: Path, type_: CompactionType, *, options: Mapping[str, str], **hudi: Any) -> Compaction:
        own = {"options": {**options, LOCK_KEY: location.name}, **hudi}
        name = self._plane.compact(str(location), type_.value, hudi=own, **SPEC)
        found = self._plane.wait_ended(name, timeout=END_SECONDS)
        status = found.status
        log.info("%s of %s: %s after %d attempts: %s", name, location.name, hudi, status.attempt, status.hudi)
        self._count(found)
        self._require_no_failures(name)
        self._plane.delete(name)
        return found

    def _require_no_failures(self, name: str) -> None:
        for pod, said in self._plane.drivers.last_words().items():
            if pod.startswith(f"{name}-") and said and (result := DriverResult.model_validate_json(said)):
                self.tally[f"{result.reason} attempts"] += 1
                if result.reason not in ENDS:
                    raise FailedDriverError(f"{pod}: {result.reason}: {result.message}")

    def _count(self, compaction: Compaction) -> None:
        found = compaction.status.hudi
        if found is None:
            return
        if found.instant is not None and found.state == "Completed":
            self.tally[found.action or ""] += 1
        self.tally["cleans"] += found.cleaned is not None
        self.tally["rolled back"] += len(found.rolled_back)
        self.tally["removed"] += len(found.removed)
