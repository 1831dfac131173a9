"""Execution of plans: what Hudi writes and commits, and what earlier commits wrote."""

from collections.abc import Callable
from typing import Any

from compaction_operator.hudi.errors import HudiFailedError
from compaction_operator.hudi.instants import Action
from compaction_operator.hudi.jvm.handle import TableHandle
from compaction_operator.hudi.jvm.java import items
from compaction_operator.hudi.jvm.log_files import LogFiles
from compaction_operator.hudi.jvm.timeline import completed_commits
from compaction_operator.hudi.plans import Plan, Written

SERVICES = frozenset({"LOG_COMPACT", "COMPACT", "CLUSTER"})
"""Names in WriteOperationType of the table services. All other operations belong to writers."""


class Writes:
    """Executes plans, and adds up what commits wrote."""

    def __init__(self, handle: TableHandle, logs: LogFiles) -> None:
        self._handle = handle
        self._logs = logs

    def run(self, plan: Plan, *, confirm: Callable[[], None]) -> Written:
        """Execute a plan, call `confirm`, and commit."""
        client, release = self._handle.client, self._handle.release
        merged = plan.action is Action.LOG_COMPACTION
        run = client.logCompact if merged else client.compact
        commit = client.commitLogCompaction if merged else client.commitCompaction
        try:
            metadata = run(plan.instant)
            require_all_written(plan, metadata)
            confirm()
            commit(plan.instant, release.commit_argument(metadata), self._handle.none())
        except BaseException:
            if plan.action is Action.COMPACTION:
                release.end_compaction_heartbeat(client, plan.instant)
            raise
        return self._written(plan)

    def written_since(self, besides: str) -> tuple[int, int]:
        """Return the bytes by writers and the total bytes since the last compaction other than `besides`."""
        timeline = self._handle.meta().getActiveTimeline()
        done = sorted(completed_commits(timeline), key=lambda one: str(one.requestedTime()))
        compactions = [str(one.requestedTime()) for one in done if str(one.getAction()) == "commit"]
        start = max((time for time in compactions if time != besides), default="")
        by_writers = total = 0
        for one in (one for one in done if str(one.requestedTime()) > start):
            metadata = self._commit_metadata(one, timeline)
            size = int(metadata.fetchTotalBytesWritten())
            total += size
            by_writers += 0 if str(metadata.getOperationType()) in SERVICES else size
        return by_writers, total

    def _written(self, plan: Plan) -> Written:
        """Return what the commit of a plan wrote, from the commit's own metadata."""
        timeline = self._handle.meta().getActiveTimeline()
        done = next(one for one in completed_commits(timeline) if str(one.requestedTime()) == plan.instant)
        stats = items(self._commit_metadata(done, timeline).getWriteStats())
        blocks = 0
        if plan.action is Action.LOG_COMPACTION:
            blocks = sum(self._logs.blocks("", str(stat.getPath())) for stat in stats)
        return Written(sum(int(stat.getTotalWriteBytes()) for stat in stats), blocks)

    def _commit_metadata(self, java: Any, timeline: Any) -> Any:
        return self._handle.hudi.common.table.timeline.TimelineUtils.getCommitMetadata(java, timeline)


def require_all_written(plan: Plan, metadata: Any) -> None:
    """Write what is not written yet; raises HudiFailedError when a record or a whole file group was not written.

    NB: Hudi itself would commit: its handle for log files does not report a failed record (HoodieAppendHandle).
    """
    statuses = items(metadata.getWriteStatuses().collect())
    errors = sum(int(status.getTotalErrorRecords()) for status in statuses)
    written = {str(status.getStat().getFileId()) for status in statuses}
    missing = [operation.file_id for operation in plan.operations if operation.file_id not in written]
    if errors or (missing and plan.action is Action.LOG_COMPACTION):
        what = f"{errors} records" if errors else f"file group {missing[0]}"
        raise HudiFailedError(f"{what} could not be written: see the errors in Spark's log")
