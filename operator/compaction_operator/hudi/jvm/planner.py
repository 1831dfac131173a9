"""Planning: Hudi's own planner proposes, and a log compaction is narrowed before it is saved on the timeline."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from compaction_operator.hudi.instants import OWNER_KEY, SEEN_KEY, Action, Instant
from compaction_operator.hudi.jvm.java import hudi_errors, items, java_list, java_map
from compaction_operator.hudi.jvm.timeline import Timeline
from compaction_operator.hudi.plans import Choose, Operation, Plan

DRAFTS = 3
"""How often a log compaction is drafted without the table's lock."""

BUFFER_KEY, BUFFER = "hoodie.memory.dfs.buffer.max.size", str(64 << 10)
"""Bytes that Hudi's planner allocates for each log file that it opens: 16 MB by default, for headers of some kB."""


class Planner(Timeline):
    """Plans compactions and log compactions."""

    @hudi_errors("planning a compaction")
    def plan_compaction(self, *, owner: str, alone: bool) -> Plan | None:
        """Save Hudi's own plan of a compaction on the timeline; None: nothing to do.

        With `alone` nothing is planned while a delta commit is pending.
        """
        with self.locked_for_client():
            if alone and any(one.action is Action.DELTA_COMMIT and one.is_pending for one in self.instants()):
                return None
            extra = self._hudi.common.util.Option.of(java_map(self._jvm, {OWNER_KEY: owner}))
            # NB: what makes instants has the lock's provider from before, and must not take the lock.
            time = str(self._client.createNewInstantTime(False))
            planned = self._client.scheduleCompactionAtInstant(time, extra)
        return self._plan(self._meta(), time, Action.COMPACTION) if planned else None

    @hudi_errors("planning a log compaction")
    def plan_log_compaction(self, *, owner: str, choose: Choose, beside: bool) -> Plan | None:
        """Plan a log compaction of the blocks that `choose` takes from Hudi's proposal; None: nothing to do.

        With `beside`, pending delta commits that are newer than the plan do not prevent it: their blocks come after
        the merged one.

        NB: the plan is saved under the table's lock, and it is narrowed before: a wide plan is never on the timeline.
        It is drafted without the lock, so that writers need not wait meanwhile. A draft is worth what the timeline was
        when it was made: under the lock it must still be the same. Beside busy writers the last draft is made under it.
        """
        for _ in range(DRAFTS):
            choose.forget()
            table = self._table()
            draft = self._draft(table, choose, beside=beside)
            if draft is None:
                return None
            with self.locked():
                if self._is_current(table):
                    return self._save(table, *draft, owner=owner)
        with self.locked():
            choose.forget()
            table = self._table()
            draft = self._draft(table, choose, beside=beside)
            return None if draft is None else self._save(table, *draft, owner=owner)

    def _is_current(self, table: Any) -> bool:
        """Whether the timeline is as the table has it, by the instants and their states."""
        now = self._meta().getActiveTimeline().getInstants()
        return bool(table.getMetaClient().getActiveTimeline().getInstants().equals(now))

    def _save(self, table: Any, plan: Plan, java_plan: Any, *, owner: str) -> Plan:
        """Save a draft on the timeline. NB: a new instant is taken under the lock, so that no other client has it.

        One that follows the timeline's newest is still free, as the timeline is that of the draft.
        """
        meta = table.getMetaClient()
        if not self._replays_last:
            # NB: Hudi sleeps for each new instant, 200 ms by default.
            plan = replace(plan, instant=str(self._client.createNewInstantTime(False)))
        extra = {OWNER_KEY: owner, SEEN_KEY: ",".join(sorted(plan.seen))}
        java_plan.setExtraMetadata(java_map(self._jvm, extra))
        requested = meta.getInstantGenerator().getLogCompactionRequestedInstant(plan.instant)
        table.getActiveTimeline().saveToLogCompactionRequested(requested, java_plan)
        return plan

    def _draft(self, table: Any, choose: Choose, *, beside: bool) -> tuple[Plan, Any] | None:
        """Return Hudi's plan of a log compaction, narrowed but not saved; None when there is nothing to do."""
        meta, config, context = table.getMetaClient(), self._config, self._context
        if not meta.getCommitsTimeline().filterCompletedInstants().countInstants():
            return None
        time = str(self._client.createNewInstantTime(False))
        compact = self._hudi.table.action.compact
        kind = self._hudi.common.model.WriteOperationType.LOG_COMPACT
        executor = compact.ScheduleCompactionActionExecutor(context, config, table, time, self._none(), kind)
        make = compact.plan.generators.HoodieLogCompactionPlanGenerator
        with self._setting(BUFFER_KEY, BUFFER):
            java_plan = make(table, context, config, executor).generateCompactionPlan(time)
        if java_plan is None:
            return None
        instants = self._instants(meta)
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
        settled = (one for one in found if one.isCompleted() or str(one.getAction()) != Action.DELTA_COMMIT)
        newest = max(str(one.requestedTime()) for one in settled)
        generator = self._hudi.common.table.timeline.HoodieInstantTimeGenerator
        return str(generator.instantTimePlusMillis(newest, 1))

    def _narrow(
        self, java_plan: Any, instants: Iterable[Instant], instant: str, choose: Choose, *, beside: bool
    ) -> Plan:
        """Reduce the Java plan to the chosen blocks, in Hudi's order of the files, and return what remains."""
        commits = [one for one in instants if one.action is Action.DELTA_COMMIT]
        pending = {one.time for one in commits if one.is_pending and not (beside and one.time > instant)}
        kept, operations = java_list(self._jvm), []
        for java, whole in zip(items(java_plan.getOperations()), self._log_operations(java_plan), strict=True):
            chosen = {file.name for block in choose(whole, pending) for file in block.files}
            if chosen:
                files = tuple(file for file in whole.files if file.name in chosen)
                if files != whole.files:
                    java.setDeltaFilePaths(java_list(self._jvm, (file.name for file in files)))
                kept.add(java)
                operations.append(Operation(whole.partition, whole.file_id, files))
        java_plan.setOperations(kept)
        return Plan(instant, Action.LOG_COMPACTION, tuple(operations), frozenset(one.time for one in commits))
