"""Compactions of one table, one after the other, by the real controller and real drivers, and what follows of them."""

import logging
from collections.abc import Sequence
from typing import Any

from sandbox.plane import Plane

from compaction_operator.api.compaction import HIVE_TYPES, CleanupPhase, CompactionType
from compaction_operator.api.conditions import Condition, ConditionStatus, find_condition
from compaction_operator.api.request import Reason
from compaction_operator.controller.kube.resources import Cleanup, Compaction
from tests.soak.storm.reading import StormError
from tests.soak.storm.scene import Scene
from tests.soak.storm.tables import DATABASE, StormTable

log = logging.getLogger(__name__)

BETWEEN_COMPACTIONS = 3.0
END_SECONDS = 300.0
CLEANED_SECONDS = 120.0

EXPECTED_FAILURES = frozenset(
    {
        Reason.WAITING_FOR_EXCLUSIVE_LOCK,
        Reason.WAITING_FOR_LOCK,
        Reason.WAITING_FOR_OPEN_TRANSACTIONS,
        Reason.TABLE_CHANGED,
    }
)
"""How a compaction may end while readers and writers are in its way."""


class Compactor:
    """One table's compactions, of one type or the other, of all partitions or one."""

    def __init__(self, scene: Scene, plane: Plane, table: StormTable, **spec: Any) -> None:
        self.name = f"compactor-{table.name}"
        self._scene = scene
        self._plane = plane
        self._table = table
        self._spec = spec
        self._rng = scene.random(self.name)
        self._uncleaned: list[str] = []

    def step(self) -> None:
        """Compact, and see which earlier compactions are cleaned up by now."""
        type_ = self._rng.choice(HIVE_TYPES)
        one = self._rng.random() < 0.3 and self._table.sort.partitions
        self.compact(type_, partitions=[self._rng.choice(self._table.places)] if one else [])
        self._sweep()
        self._scene.pause(self._rng, BETWEEN_COMPACTIONS)

    def compact(self, type_: CompactionType, *, partitions: Sequence[str] = ()) -> str:
        """Compact these partitions, or all, and wait for the end; return the compaction's name. Raises StormError."""
        name = self._plane.compact(f"{DATABASE}.{self._table.name}", type_, partitions=list(partitions), **self._spec)
        found = self._wait_ended(name)
        self._uncleaned.append(name)
        verdict = find_condition(found.status.conditions, "Succeeded")
        log.info("%s of %s %s: %s", name, self._table.name, partitions, _said(verdict))
        if verdict is not None and verdict.status is ConditionStatus.TRUE:
            self._scene.tally.add("compactions")
        elif verdict is None or verdict.reason not in EXPECTED_FAILURES:
            raise StormError(f"tcomp/{name} of {self._table.name}: {_said(verdict)}")
        else:
            self._scene.tally.add("given up")
        return name

    def _wait_ended(self, name: str) -> Compaction:
        def ended() -> Compaction | None:
            if not self._plane.controller.running:
                raise StormError(f"the controller has ended; see {self._plane.controller.log}")
            found = self._plane.compaction(name)
            return found if found.ended else None

        return self._plane.wait(ended, timeout=END_SECONDS, what=f"tcomp/{name} to end")

    def finish(self) -> None:
        """Wait until everything is cleaned up; raises StormError or WaitTimeoutError naming what is not."""
        for name in tuple(self._uncleaned):
            if self._plane.cleanups(name):
                self._plane.wait_cleaned(name, timeout=CLEANED_SECONDS)
        self._sweep()

    def _sweep(self) -> None:
        """Count the cleanups that have ended, and forget their compactions."""
        for name in tuple(self._uncleaned):
            cleanups = self._plane.cleanups(name)
            if all(cleanup.ended for cleanup in cleanups):
                for cleanup in cleanups:
                    self._count(cleanup)
                self._uncleaned.remove(name)
                self._plane.delete(name)

    def _count(self, cleanup: Cleanup) -> None:
        status = cleanup.status
        log.info("ccl/%s: %s, %d directories", cleanup.meta.name, status.phase, status.directories_deleted)
        if status.phase is CleanupPhase.FAILED:
            said = _said(find_condition(status.conditions, "Succeeded"))
            raise StormError(f"ccl/{cleanup.meta.name} of {self._table.name}: {said}: {status.partitions}")
        self._scene.tally.add("cleanups")
        self._scene.tally.add("directories", status.directories_deleted)


def _said(verdict: Condition | None) -> str:
    return f"{verdict.status} {verdict.reason}: {verdict.message}" if verdict else "no Succeeded condition"
