"""Plans of log compactions: Hudi's own planner proposes, and the plan is narrowed before it is saved."""

from collections.abc import Iterable
from typing import Any

from compaction_operator.hudi.instants import OWNER_KEY, SEEN_KEY, Action, Instant
from compaction_operator.hudi.jvm.handle import TableHandle
from compaction_operator.hudi.jvm.java import items, java_map
from compaction_operator.hudi.jvm.plan_reader import PlanReader
from compaction_operator.hudi.jvm.timeline import Timeline
from compaction_operator.hudi.plans import Choose, Operation, Plan


class Planner:
    """Plans log compactions. `replays_last` is HudiTable.replays_merged_blocks_last."""

    def __init__(self, handle: TableHandle, timeline: Timeline, plans: PlanReader, *, replays_last: bool) -> None:
        self._handle = handle
        self._timeline = timeline
        self._plans = plans
        self._replays_last = replays_last

    def plan(self, *, owner: str, choose: Choose, beside: bool) -> Plan | None:
        """Save a narrowed plan as `HudiClient.plan_log_compaction` describes it.

        NB: the plan is made under the table's lock, and it is narrowed before it is saved: a wide plan is never on the
        timeline. A first draft without the lock only loads the log files' headers, so that writers need not wait
        while they are read.
        """
        if self._draft(self._handle.table(), choose, beside=beside) is None:
            return None
        with self._handle.locked():
            table = self._handle.table()
            draft = self._draft(table, choose, beside=beside)
            if draft is None:
                return None
            plan, java_plan = draft
            extra = {OWNER_KEY: owner, SEEN_KEY: ",".join(sorted(plan.seen))}
            java_plan.setExtraMetadata(java_map(self._handle.jvm, extra))
            requested = table.getMetaClient().getInstantGenerator().getLogCompactionRequestedInstant(plan.instant)
            table.getActiveTimeline().saveToLogCompactionRequested(requested, java_plan)
            return plan

    def _draft(self, table: Any, choose: Choose, *, beside: bool) -> tuple[Plan, Any] | None:
        """Return Hudi's plan of a log compaction, narrowed but not saved; None when there is nothing to do."""
        handle, meta = self._handle, table.getMetaClient()
        if not meta.getCommitsTimeline().filterCompletedInstants().countInstants():
            return None
        time = str(handle.client.createNewInstantTime(False))
        compact = handle.hudi.table.action.compact
        kind = handle.hudi.common.model.WriteOperationType.LOG_COMPACT
        executor = compact.ScheduleCompactionActionExecutor(
            handle.context, handle.config, table, time, handle.none(), kind
        )
        make = compact.plan.generators.HoodieLogCompactionPlanGenerator
        java_plan = make(table, handle.context, handle.config, executor).generateCompactionPlan(time)
        if java_plan is None:
            return None
        instants = self._timeline.instants(meta)
        plan = self._narrow(java_plan, instants, self._instant_of_plan(meta, time), choose, beside=beside)
        return (plan, java_plan) if plan.operations else None

    def _instant_of_plan(self, meta: Any, now: str) -> str:
        """Return the instant of a log compaction that is planned now.

        NB: some readers replay a merged block at its own instant. They would put it over the block of a writer that
        took an earlier instant but becomes visible later (Spark's writer of 1.0 does, for as long as its query takes).
        So the plan comes right after the newest instant on the timeline, not counting pending delta commits.
        """
        if not self._replays_last:
            return now
        found = items(meta.getActiveTimeline().getInstants())
        newest = max(str(one.requestedTime()) for one in found if one.isCompleted() or not _is_delta_commit(one))
        generator = self._handle.hudi.common.table.timeline.HoodieInstantTimeGenerator
        return str(generator.instantTimePlusMillis(newest, 1))

    def _narrow(
        self, java_plan: Any, instants: Iterable[Instant], instant: str, choose: Choose, *, beside: bool
    ) -> Plan:
        """Reduce the Java plan to the chosen blocks, in Hudi's order of the files, and return what remains."""
        commits = [one for one in instants if one.action is Action.DELTA_COMMIT]
        pending = {one.time for one in commits if one.is_pending and not (beside and one.time > instant)}
        kept, operations = self._handle.array_list(), []
        for java in items(java_plan.getOperations()):
            whole = self._plans.log_operation(java)
            chosen = {file.name for block in choose(whole, pending) for file in block.files}
            if chosen:
                files = tuple(file for file in whole.files if file.name in chosen)
                java.setDeltaFilePaths(self._handle.array_list(file.name for file in files))
                kept.add(java)
                operations.append(Operation(whole.partition, whole.file_id, files))
        java_plan.setOperations(kept)
        return Plan(instant, Action.LOG_COMPACTION, tuple(operations), frozenset(one.time for one in commits))


def _is_delta_commit(instant: Any) -> bool:
    return str(instant.getAction()) == Action.DELTA_COMMIT
