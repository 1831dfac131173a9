"""The storm's compactions: TableCompactions of all kinds, one after the other, by the real controller and drivers."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any

from sandbox.hudi.zookeeper import LOCK_KEY
from sandbox.plane import Plane

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.hudi import HudiMode, HudiStatus
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.controller.kube.resources import Compaction
from tests.soak.hudi_storm.table import OLD_VERSION, kind_of

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
MODES = (*[HudiMode.SCHEDULE_AND_EXECUTE] * 8, HudiMode.SCHEDULE, HudiMode.EXECUTE)


class Work(StrEnum):
    """What the drivers of a storm do. Each of these must happen at least once in a storm."""

    LOG_COMPACTION = "log compactions"
    COMPACTION = "compactions"
    CLEAN = "cleans"
    METADATA = "log compactions of metadata tables"
    ROLLBACK = "dead log compactions rolled back"


REMOVED = "plans removed"
NOTHING_TO_CLEAN = "nothing to clean"
STEPS = (*[Work.LOG_COMPACTION] * 6, *[Work.COMPACTION] * 2, Work.METADATA)
"""How often each is applied, once all of it has happened."""

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
        self._newer = [location for location in locations if kind_of(location).version > OLD_VERSION]
        self._rng = rng
        self._merged: set[Path] = set()

    def missing(self) -> list[Work]:
        """Return what has not happened yet."""
        return [work for work in Work if not self.tally[work]]

    def unmerged(self) -> list[Path]:
        """Return the tables whose log blocks were not merged yet."""
        return [location for location in self._locations if location not in self._merged]

    def step(self) -> None:
        """Compact one of the tables in one of the ways; what has not happened yet goes first."""
        mode = self._rng.choice(MODES)
        work = self._rng.choice(self.missing() or STEPS)
        if work in (Work.COMPACTION, Work.CLEAN):
            self.full(self._rng.choice(self._locations), mode)
        elif work is Work.METADATA:
            self.log(self._rng.choice(self._newer), metadataTable=True)
        else:
            location = self._rng.choice(self.unmerged() or self._locations)
            narrow = {"maxLogFileSizeToMerge": SMALL} if location in self._newer and self._rng.random() < 0.5 else {}
            self.log(location, mode=mode.value, **narrow)

    def full(self, location: Path, mode: HudiMode = HudiMode.SCHEDULE_AND_EXECUTE) -> Compaction:
        """Compact into new base files, clean and archive."""
        return self._compact(
            location, CompactionType.COMPACTION, options=FULL, mode=mode.value, clean=True, archive=True
        )

    def log(self, location: Path, **hudi: Any) -> Compaction:
        """Compact log blocks.

        NB: in version 6 they wait for a failed write of the live writer, which does not clean: the operator must.
        """
        options = dict.fromkeys(THRESHOLDS, "3")
        if location not in self._newer:
            hudi["clean"] = True
        return self._compact(location, CompactionType.LOG_COMPACTION, options=options, **hudi)

    def _compact(self, location: Path, type_: CompactionType, *, options: Mapping[str, str], **hudi: Any) -> Compaction:
        own = {"options": {**options, LOCK_KEY: location.name}, **hudi}
        name = self._plane.compact(str(location), type_.value, hudi=own, **SPEC)
        found = self._plane.wait_ended(name, timeout=END_SECONDS)
        status = found.status
        log.info("%s of %s: %s after %d attempts: %s", name, location.name, hudi, status.attempt, status.hudi)
        if status.hudi is not None:
            done = counted(status.hudi, of_metadata_table="metadataTable" in hudi)
            self.tally += done
            self._merged |= {location} if done[Work.LOG_COMPACTION] else set()
        self._require_no_failures(name)
        self._plane.delete(name)
        return found

    def _require_no_failures(self, name: str) -> None:
        for pod, said in self._plane.drivers.last_words().items():
            if pod.startswith(f"{name}-") and said and (result := DriverResult.model_validate_json(said)):
                self.tally[f"{result.reason} attempts"] += 1
                if result.reason not in ENDS:
                    raise FailedDriverError(f"{pod}: {result.reason}: {result.message}")


def counted(found: HudiStatus, *, of_metadata_table: bool) -> Counter[str]:
    """Return what a compaction has done, by the status of its last attempt, which says nothing of the earlier ones.

    NB: a cleaner that found nothing to delete has not cleaned.
    """
    tally = Counter[str]({Work.ROLLBACK: len(found.rolled_back), REMOVED: len(found.removed)})
    if found.instant is not None and found.state == "Completed":
        merged = Work.METADATA if of_metadata_table else Work.LOG_COMPACTION
        tally[merged if found.action == "logcompaction" else Work.COMPACTION] += 1
    tally[Work.CLEAN] += found.cleaned not in (None, NOTHING_TO_CLEAN)
    return tally
