"""What a decision about a cleanup goes by: what was seen of the world, and which part of that still counts."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from compaction_operator.cleanup.deletion import PartitionDeletion
from compaction_operator.cleanup.settle import Settlement
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.cleanup.partitions import Pass
from compaction_operator.controller.cleanup.reader_watch import Look
from compaction_operator.controller.kube.job import JobView


class CleanupAction(StrEnum):
    """What is to be done once the status is written."""

    NONE = "none"
    SETTLE = "settle"
    WATCH = "watch the readers"
    PLAN = "list what would be deleted"
    DELETE = "delete, or move into quarantine"
    PURGE = "delete from the quarantine"
    FINISH = "end the metastore's queue entries"
    RELEASE = "give back the cleanup's own locks"
    DISCARD = "delete the ended cleanup's record"


@dataclass(frozen=True)
class CleanupObservation:
    """What was seen of the world. `job` None means that the API server has none: it was asked.

    `at_work` says that the attempt's driver runs and may be at work on what is recorded, `lost` why it is lost although
    its Job runs, by the metastore.
    `settled`, `planned`, `deletion` and `finished` are what came of SETTLE, PLAN, DELETE or PURGE, and FINISH. `left`
    says that an earlier pass may have left a lock of the cleanup's own, or why that could not be given back, `needed`
    that the compaction still counts with this journal, `failures` how often in a row nothing came of a decision.
    """

    job: JobView | None = None
    at_work: bool = False
    lost: str | None = None
    settled: Settlement | Trouble | None = None
    look: Look | None = None
    planned: tuple[PartitionDeletion, ...] | Trouble | None = None
    deletion: Pass | None = None
    finished: bool | Trouble = False
    left: bool | Trouble = False
    needed: bool = False
    failures: int = 0

    def since_baseline(self) -> "CleanupObservation":
        """Return what counts once the baseline is taken: nothing from before it tells of the readers that are in it."""
        return CleanupObservation(job=self.job, left=self.left, failures=self.failures)

    def answered(self, **answer: Any) -> "CleanupObservation":
        """Return the observation with an action's answer, once the status of the decision that asked for it is written.

        That status has what was new by then: so a settlement, a listing, and each result of a pass count once.
        """
        going = replace(self.deletion, latest=()) if self.deletion is not None else None
        return replace(self, **{"settled": None, "planned": None, "deletion": going, **answer})
