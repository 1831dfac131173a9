"""Cleaning: Hudi decides what goes and deletes it, by a plan that names its owner, with a commit that is confirmed.

NB: the write client's own `clean` runs whatever clean is pending, of any client, and commits without asking. So this
does what Hudi's CleanPlanActionExecutor and CleanActionExecutor do, in their order. One thing it leaves out: Hudi
deletes a partition without file groups by its path, with all that lies there by then. A writer may have come back, and
a savepoint may need it (CleanPlanner looks for neither then). So only files are deleted, and an empty directory stays.
"""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from compaction_operator.hudi.errors import HudiError, WaitingForInstantError
from compaction_operator.hudi.instants import OWNER_KEY, Action, Instant, State
from compaction_operator.hudi.jvm.java import call_hidden, hudi_errors, items, java_map, value_of
from compaction_operator.hudi.jvm.repairs import Repairs, empty_commits
from compaction_operator.hudi.jvm.timeline import file_sizes
from compaction_operator.hudi.plans import Cleaned

SAVEPOINTS_KEY = "compaction.dev/savepoints"
HUDIS_SAVEPOINTS_KEY = "savepointed_timestamps"
"""Where a clean's extra metadata has the savepoints at planning: the operator's plans, and those of Hudi's own clients.

NB: Hudi fills its key for partitioned tables only, and with complete savepoints only.
"""


_TURNS = ("restore", "rollback", "savepoint")
"""Actions after which files are needed that were not before."""


class Cleaning(Repairs):
    """Plans cleans and runs them. `confirm` is called under the table's lock and may raise to prevent what follows."""

    @hudi_errors("reading the pending cleans")
    def cleans(self) -> tuple[Instant, ...]:
        """Return the cleans that have not ended, with their owners; a complete one if its commit has no content."""
        meta = self._meta()
        empty = empty_commits(file_sizes(meta))
        found = [one for one in items(meta.getActiveTimeline().getInstants()) if str(one.getAction()) == Action.CLEAN]
        return tuple(
            self._clean(meta, one) for one in found if not one.isCompleted() or str(one.requestedTime()) in empty
        )

    def reopen_clean(self, clean: Instant) -> Instant:
        """Make a clean whose commit has no content inflight again, as its client died writing it under the lock."""
        with hudi_errors(f"reopening {clean}"), self.locked():
            meta = self._meta()
            name = empty_commits(file_sizes(meta)).get(clean.time)
            if name is None or not self._delete_if_empty(meta, name):
                raise WaitingForInstantError(f"{clean} has been repaired by another client")
        return replace(clean, state=State.INFLIGHT)

    @hudi_errors("rolling back dead writes")
    def roll_back_dead_writes(self) -> None:
        """Roll back the writes whose heartbeat is over, as Hudi's cleaner does first (LAZY)."""
        self._client.rollbackFailedWrites(self._meta())

    @hudi_errors("planning a clean")
    def plan_clean(self, *, owner: str, confirm: Callable[[], None]) -> Instant | None:
        """Save a plan of what Hudi's cleaner would delete now; None: nothing to do.

        NB: it is made without the table's lock, as it may list the whole table. New commits do not matter to it.
        """
        table = self._table()
        draft = self._draft_clean(table)
        if draft is None:
            return None
        with self.locked():
            confirm()
            meta = self._meta()
            _require_no_restore(meta)
            if later := _instants(meta, *_TURNS) - _instants(table.getMetaClient(), *_TURNS):
                raise WaitingForInstantError(f"{min(later)} came while the clean was planned: it is planned again")
            instant = str(self._client.createNewInstantTime(False))
            extra = {str(key): str(value) for key, value in (draft.getExtraMetadata() or {}).items()}
            extra |= {OWNER_KEY: owner, SAVEPOINTS_KEY: ",".join(sorted(_instants(meta, "savepoint")))}
            draft.setExtraMetadata(java_map(self._jvm, extra))
            requested = meta.getInstantGenerator().getCleanRequestedInstant(instant)
            meta.getActiveTimeline().saveToCleanRequested(requested, self._hudi.common.util.Option.of(draft))
        return Instant(instant, Action.CLEAN, State.REQUESTED, owner)

    def run_clean(self, clean: Instant, *, confirm: Callable[[], None]) -> Cleaned:
        """Delete what a pending clean's plan says, and commit it. One that has begun is run again.

        Raises HudiError if a savepoint or a restore came after the plan: it may delete what these need.
        """
        with hudi_errors(f"running {clean}"):
            began = time.monotonic()
            plan = self._begin_clean(clean, confirm)
            table = self._table()
            executor = self._hudi.table.action.clean.CleanActionExecutor(self._context, self._config, table, clean.time)
            deleted = call_hidden(self._jvm, executor, "clean", self._context, plan)
            extra, option = plan.getExtraMetadata(), self._hudi.common.util.Option
            metadata = self._hudi.common.util.CleanerUtils.convertCleanMetadata(
                clean.time, option.empty(), deleted, extra
            )
            metadata.setTimeTakenInMillis(int(1000 * (time.monotonic() - began)))
            with self.locked_for_client():
                confirm()
                self._require_state(clean, State.INFLIGHT)
                self._commit_clean(clean, metadata)
            return Cleaned(clean.time, int(metadata.getTotalFilesDeleted()))

    def remove_clean(self, clean: Instant) -> None:
        """Remove the plan of a clean that has not begun."""
        with hudi_errors(f"removing {clean}"), self.locked():
            self._require_state(clean, State.REQUESTED)
            meta = self._meta()
            meta.getActiveTimeline().deletePending(meta.getInstantGenerator().getCleanRequestedInstant(clean.time))

    def _clean(self, meta: Any, java: Any) -> Instant:
        instant = str(java.requestedTime())
        requested = meta.getInstantGenerator().getCleanRequestedInstant(instant)
        owner = None
        if not meta.getActiveTimeline().isEmpty(requested):
            found = self._hudi.common.util.CleanerUtils.getCleanerPlan(meta, requested).getExtraMetadata() or {}
            owner = found.get(OWNER_KEY)
        return Instant(instant, Action.CLEAN, State(str(java.getState())), owner)

    def _draft_clean(self, table: Any) -> Any:
        """Return Hudi's plan of a clean, a HoodieCleanerPlan that is not saved; None when there is nothing to do."""
        make = self._hudi.table.action.clean.CleanPlanActionExecutor
        now = (str(self._client.createNewInstantTime(False)),) if self._is_1_0 else ()
        executor = make(self._context, self._config, table, *now, self._none())
        if not call_hidden(self._jvm, executor, "needsCleaning", self._config.getCleaningTriggerStrategy()):
            return None
        draft = self._of_files_alone(call_hidden(self._jvm, executor, "requestClean", self._context))
        return draft if deletes_anything(str(draft.toString())) else None

    def _of_files_alone(self, plan: Any) -> Any:
        """Return a plan that deletes no directory."""
        plan.setPartitionsToBeDeleted(self._jvm.java.util.ArrayList())
        return plan

    def _begin_clean(self, clean: Instant, confirm: Callable[[], None]) -> Any:
        """Make a clean inflight and return its plan."""
        with self.locked():
            confirm()
            self._require_state(clean, clean.state)
            meta = self._meta()
            _require_no_restore(meta)
            requested = meta.getInstantGenerator().getCleanRequestedInstant(clean.time)
            plan = self._of_files_alone(self._hudi.common.util.CleanerUtils.getCleanerPlan(meta, requested))
            if not deletes_anything(str(plan.toString())):
                raise HudiError(
                    f"{clean} deletes whole partitions and no file: remove the clean from the timeline, or finish it "
                    "with Hudi's own cleaner once no writer uses them"
                )
            restores = {one for one in _instants(meta, "restore") if one > clean.time}
            if later := restores | _new_savepoints(meta, plan):
                raise HudiError(
                    f"{clean} was planned before {min(later)}, and may delete what that needs: nothing is deleted; "
                    "remove the clean from the timeline, or finish it with Hudi's own cleaner"
                )
            if clean.state is State.REQUESTED:
                content = (self._hudi.common.util.Option.of(plan),) if self._is_1_0 else ()
                meta.getActiveTimeline().transitionCleanRequestedToInflight(requested, *content)
            return plan

    def _require_state(self, clean: Instant, state: State) -> None:
        """Raise WaitingForInstantError if another client has begun a clean, committed or removed it meanwhile."""
        if [one.state for one in self.cleans() if one.time == clean.time] != [state]:
            raise WaitingForInstantError(f"clean {clean.time} is not this driver's any more")

    def _commit_clean(self, clean: Instant, metadata: Any) -> None:
        writer = value_of(self._table().getMetadataWriter(clean.time))
        if writer is not None:
            try:
                writer.update(metadata, clean.time)
            finally:
                writer.close()
        meta = self._meta()
        inflight = meta.getInstantGenerator().getCleanInflightInstant(clean.time)
        done = self._hudi.common.util.Option.of(metadata)
        meta.getActiveTimeline().transitionCleanInflightToComplete(False, inflight, done)


def deletes_anything(plan: str) -> bool:
    """Whether a HoodieCleanerPlan, as its text, has a file to delete."""
    return any((json.loads(plan).get("filePathsToBeDeletedPerPartition") or {}).values())


def _require_no_restore(meta: Any) -> None:
    """Raise WaitingForInstantError while a restore is in progress: it makes old files the newest ones again."""
    for one in items(meta.getActiveTimeline().getInstants()):
        if str(one.getAction()) == "restore" and not one.isCompleted():
            raise WaitingForInstantError(f"restore {one.requestedTime()} is in progress")


def _new_savepoints(meta: Any, plan: Any) -> set[str]:
    """Return the savepoints that came after a clean's plan. NB: their instants are those of the saved commits."""
    extra = plan.getExtraMetadata() or {}
    if (own := extra.get(SAVEPOINTS_KEY)) is not None:
        return _instants(meta, "savepoint") - {*str(own).split(",")}
    known = str(extra.get(HUDIS_SAVEPOINTS_KEY) or "").split(",")
    return _instants(meta, "savepoint") - {f"{one}.savepoint" for one in known}


def _instants(meta: Any, *actions: str) -> set[str]:
    """Return the instants of some actions as `<time>.<action>`."""
    found = items(meta.getActiveTimeline().getInstants())
    named = ((str(one.requestedTime()), str(one.getAction())) for one in found)
    return {f"{when}.{action}" for when, action in named if action in actions}
