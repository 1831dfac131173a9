"""Execution of plans: what Hudi writes and commits, and what earlier commits wrote."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from compaction_operator.hudi.comparison import compare
from compaction_operator.hudi.errors import HudiFailedError, WaitingForInstantError
from compaction_operator.hudi.instants import Action
from compaction_operator.hudi.jvm.java import hudi_errors, items
from compaction_operator.hudi.jvm.table import JavaTable
from compaction_operator.hudi.log_format import LogFormatError
from compaction_operator.hudi.plans import Plan, Written
from compaction_operator.storage import StorageError

log = logging.getLogger(__name__)

SERVICES = frozenset({"LOG_COMPACT", "COMPACT", "CLUSTER"})
"""Names in WriteOperationType of the table services. All other operations belong to writers."""


class Writes(JavaTable):
    """Executes plans, and adds up what commits wrote."""

    def run(self, plan: Plan, *, confirm: Callable[[], None]) -> Written:
        """Execute a plan and commit it.

        `confirm` is called under the table's lock, right before the commit, and may raise to prevent it.
        Raises WaitingForInstantError if another client has begun to roll the plan back.
        """
        with hudi_errors(f"running {plan.action} {plan.instant}"):
            client = self._client
            merged = plan.action is Action.LOG_COMPACTION
            run = client.logCompact if merged else client.compact
            commit = client.commitLogCompaction if merged else client.commitCompaction
            try:
                metadata = run(plan.instant)
                files = require_all_written(plan, self._statuses(metadata.getWriteStatuses()))
                compared = self._compared(plan, files) if merged else ""
                # 1.0 takes the HoodieCommitMetadata that the HoodieWriteMetadata holds.
                written = metadata.getCommitMetadata().get() if self._is_1_0 else metadata
                with self.locked_for_client():
                    confirm()
                    self._require_not_rolled_back(plan)
                    commit(plan.instant, written, self._none())
            except BaseException:
                if plan.action is Action.COMPACTION and not self._is_1_0:
                    # 1.2 refuses a compaction whose heartbeat says that it still runs. Let the next attempt run it.
                    # NB: the heartbeat of another process is never in this client's own list, so it stays. The client
                    # for table services has a list of its own.
                    client.getTableServiceClient().getHeartbeatClient().stop(plan.instant)
                raise
            return self._written(plan, compared)

    def _compared(self, plan: Plan, files: Mapping[str, Sequence[str]]) -> str:
        """Compare merged blocks with their originals and return how much was compared. Raises MergedWronglyError."""
        if self._rule is None:
            return "the merged blocks were not compared with the originals"
        try:
            found = str(compare(plan, files, rule=self._rule, open_file=self._logs.open))
        except (LogFormatError, OSError, StorageError) as error:
            raise HudiFailedError(f"comparing {plan.action} {plan.instant} with its originals: {error}") from error
        log.info("%s %s: %s", plan.action, plan.instant, found)
        return found

    def _require_not_rolled_back(self, plan: Plan) -> None:
        """Raise WaitingForInstantError if another client has begun to roll a plan back.

        It deletes the files of the plan, committed or not. NB: writers that run whatever compaction is pending first
        roll one back that is inflight, and it stays inflight until all is deleted (BaseRollbackActionExecutor).
        """
        meta = self._meta()
        read = self._hudi.table.action.rollback.RollbackUtils.getRollbackPlan
        instants = items(meta.getActiveTimeline().getInstants())
        for one in (one for one in instants if str(one.getAction()) == "rollback" and not one.isCompleted()):
            if str(read(meta, one).getInstantToRollback().getCommitTime()) == plan.instant:
                raise WaitingForInstantError(
                    f"{plan.action} {plan.instant} is being rolled back by another client "
                    f"({one.requestedTime()}.rollback); the next attempt finishes that, and the plan is run again"
                )

    @hudi_errors("adding up what was written")
    def written(self, *, besides: str) -> tuple[int, int]:
        """Return the bytes by writers and the total bytes since the last full compaction other than `besides`.

        NB: only as far back as the active timeline goes.
        """
        timeline = self._meta().getActiveTimeline()
        done = sorted(_completed(timeline), key=lambda one: str(one.requestedTime()))
        compactions = [str(one.requestedTime()) for one in done if str(one.getAction()) == "commit"]
        start = max((time for time in compactions if time != besides), default="")
        by_writers = total = 0
        for one in (one for one in done if str(one.requestedTime()) > start):
            metadata = self._commit_metadata(one, timeline)
            size = int(metadata.fetchTotalBytesWritten())
            total += size
            by_writers += 0 if str(metadata.getOperationType()) in SERVICES else size
        return by_writers, total

    def _statuses(self, rdd: Any) -> Iterable[Any]:
        """Write what is not written yet, and return the WriteStatus of each file.

        NB: for a record index it holds every key of the file. So these come one file group after another, as all of
        them together need not fit into the driver's memory.
        """
        if self._table().shouldTrackSuccessRecords() and rdd.getStorageLevel().isValid():
            return one_by_one(rdd)
        return items(rdd.collect())

    def _written(self, plan: Plan, compared: str) -> Written:
        """Return what the commit of a plan wrote, from the commit's own metadata."""
        timeline = self._meta().getActiveTimeline()
        done = next(one for one in _completed(timeline) if str(one.requestedTime()) == plan.instant)
        stats = items(self._commit_metadata(done, timeline).getWriteStats())
        merged = {str(stat.getFileId()) for stat in stats} if plan.action is Action.LOG_COMPACTION else ()
        return Written(sum(int(stat.getTotalWriteBytes()) for stat in stats), len(merged), compared)

    def _commit_metadata(self, java: Any, timeline: Any) -> Any:
        return self._hudi.common.table.timeline.TimelineUtils.getCommitMetadata(java, timeline)


def require_all_written(plan: Plan, statuses: Iterable[Any]) -> dict[str, list[str]]:
    """Return the names of all written files by file id, as their WriteStatuses have them.

    Raises HudiFailedError when a record or a whole file group was not written.

    NB: Hudi itself would commit: its handle for log files does not report a failed record (HoodieAppendHandle).
    """
    errors, written = 0, dict[str, list[str]]()
    for status in statuses:
        errors += int(status.getTotalErrorRecords())
        stat = status.getStat()
        written.setdefault(str(stat.getFileId()), []).append(str(stat.getPath()).rpartition("/")[2])
    missing = [operation.file_id for operation in plan.operations if operation.file_id not in written]
    if errors or (missing and plan.action is Action.LOG_COMPACTION):
        what = f"{errors} records" if errors else f"file group {missing[0]}"
        raise HudiFailedError(f"{what} could not be written: see the errors in Spark's log")
    return written


def one_by_one(rdd: Any) -> Iterator[Any]:
    """Yield the elements of a JavaRDD that Spark keeps, by the partition, after one run side by side."""
    rdd.count()
    java = rdd.toLocalIterator()
    while java.hasNext():
        yield java.next()


def _completed(timeline: Any) -> list[Any]:
    """Return the completed commits of an active timeline as HoodieInstants."""
    return items(timeline.getCommitsTimeline().filterCompletedInstants().getInstants())
