"""Input of a cleanup decision: one observation of the world, and which parts of it still count."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from compaction_operator.cleanup.deletion import Deletions
from compaction_operator.cleanup.settle import Settlement
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.cleanup.partitions import Pass
from compaction_operator.controller.cleanup.reader_watch import Look
from compaction_operator.controller.kube.job import JobView


class CleanupAction(StrEnum):
    """Action to take after the status is written."""

    NONE = "none"
    SETTLE = "settle"
    WATCH = "watch the readers"
    PLAN = "list what would be deleted"
    DELETE = "delete, or move into quarantine"
    PURGE = "delete from the quarantine"
    FINISH = "end the metastore's queue entries"
    RELEASE = "release the cleanup's own locks"
    DISCARD = "delete the ended cleanup's record"


@dataclass(frozen=True)
class CleanupObservation:
    """One observation of the world. `job` None means that the API server was asked and has no such Job.

    `at_work` means that the attempt's driver runs and may be working on what is recorded. `lost` is why the metastore
    shows the driver as lost although its Job runs. `settled`, `planned`, `deletion` and `finished` are the results of
    SETTLE, of PLAN, of DELETE or PURGE, and of FINISH. `left` means that an earlier pass may have left a lock of the
    cleanup's own, or why such a lock could not be released. `needed` means that the compaction still counts with this
    journal. `failures` is the number of consecutive decisions without a result.
    """

    job: JobView | None = None
    at_work: bool = False
    lost: str | None = None
    settled: Settlement | Trouble | None = None
    look: Look | None = None
    planned: Deletions | Trouble | None = None
    deletion: Pass | None = None
    finished: bool | Trouble = False
    left: bool | Trouble = False
    needed: bool = False
    failures: int = 0

    def since_baseline(self) -> "CleanupObservation":
        """Return what counts once the baseline is taken; earlier answers say nothing about the readers in it."""
        return CleanupObservation(job=self.job, left=self.left, failures=self.failures)

    def answered(self, **answer: Any) -> "CleanupObservation":
        """Return the observation with an action's answer, once the status of the decision behind it is written.

        That status holds everything that was new by then. So a settlement, a listing, and each result of a pass count
        once.
        """
        going = replace(self.deletion, latest=()) if self.deletion is not None else None
        return replace(self, **{"settled": None, "planned": None, "deletion": going, **answer})
