"""Cleaning: Hudi decides what goes and deletes it, by a plan that names its owner, with a commit that is confirmed.

NB: the write client's own `clean` runs whatever clean is pending, of any client, and commits without asking. So this
does what Hudi's CleanPlanActionExecutor and CleanActionExecutor do, in their order. One thing it leaves out: Hudi
deletes a partition without file groups by its path, with all that lies there by then. A writer may have come back, and
a savepoint may need it (CleanPlanner looks for neither then). So only files are deleted, and an empty directory stays.
"""

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compaction_operator.hudi.errors import HudiError, WaitingForInstantError
from compaction_operator.hudi.instants import OWNER_KEY, Action, Instant, State
from compaction_operator.hudi.jvm.java import call_hidden, hudi_errors, items, java_map, streamed, value_of
from compaction_operator.hudi.jvm.repairs import WRITING_SECONDS, Repairs, empty_commits
from compaction_operator.hudi.jvm.timeline import file_sizes
from compaction_operator.hudi.plans import Cleaned

_TURNS = ("restore", "rollback", "savepoint")
"""Actions after which files are needed that were not before."""

_LISTED = 20
"""How many files a message names at most."""


class Cleaning(Repairs):
    """Plans cleans and runs them. `confirm` is called right before each change, and may raise to prevent it."""

    @hudi_errors("reading the pending cleans")
    def cleans(self) -> tuple[Instant, ...]:
        """Return the cleans that have not ended, with their owners; a complete one if its commit has no content."""
        meta = self._meta()
        empty = empty_commits(file_sizes(meta))
        found = [one for one in items(meta.getActiveTimeline().getInstants()) if str(one.getAction()) == Action.CLEAN]
        return tuple(
            self._clean(meta, one) for one in found if not one.isCompleted() or str(one.requestedTime()) in empty
        )

    def require_plan(self, clean: Instant) -> None:
        """Raise WaitingForInstantError for a clean whose plan has no content, which `remove_empty_plans` has left."""
        with hudi_errors(f"looking at {clean}"):
            meta = self._meta()
            requested = meta.getInstantGenerator().getCleanRequestedInstant(clean.time)
            if meta.getActiveTimeline().isEmpty(requested):
                raise WaitingForInstantError(
                    f"{clean} has no content: its client is writing it, or has died, and then it is removed once it is "
                    f"{WRITING_SECONDS // 60} minutes old"
                )

    def reopen_clean(self, clean: Instant, *, confirm: Callable[[], None]) -> Instant:
        """Make a clean whose commit has no content inflight again, as its client died writing it under the lock."""
        with hudi_errors(f"reopening {clean}"), self.locked():
            confirm()
            meta = self._meta()
            name = empty_commits(file_sizes(meta)).get(clean.time)
            if name is None or not self._delete_if_empty(meta, name):
                raise WaitingForInstantError(f"{clean} has been repaired by another client")
        return replace(clean, state=State.INFLIGHT)

    @hudi_errors("rolling back dead writes")
    def roll_back_dead_writes(self, *, confirm: Callable[[], None]) -> None:
        """Roll back the writes whose heartbeat is over, newest first, as Hudi's cleaner does first (LAZY).

        NB: Hudi's own call rolls back all of them at once. Here `confirm` is called before each, and each is still
        dead by then: another client may have rolled it back meanwhile, or finished it.
        """
        done = set[str]()
        while dead := {one: begun for one, begun in self._dead_writes().items() if one not in done}:
            newest = max(dead)
            confirm()
            one = self._jvm.java.util.HashMap()
            one.put(newest, dead[newest])
            call_hidden(self._jvm, self._client.getTableServiceClient(), "rollbackFailedWrites", one)
            done.add(newest)

    def _dead_writes(self) -> dict[str, Any]:
        """Return the writes whose heartbeat is over, each with an Option of the rollback that has begun."""
        service, meta, nothing = self._client.getTableServiceClient(), self._meta(), self._none()
        policy = self._config.getFailedWritesCleanPolicy()
        begun = dict(call_hidden(self._jvm, service, "getPendingRollbackInfos", meta).items())
        dead = items(call_hidden(self._jvm, service, "getInstantsToRollback", meta, policy, nothing))
        return {str(one): nothing for one in dead} | {str(one): info for one, info in begun.items()}

    @hudi_errors("planning a clean")
    def plan_clean(self, *, owner: str, confirm: Callable[[], None]) -> Instant | None:
        """Save a plan of what Hudi's cleaner would delete now; None: nothing to do.

        NB: it is made without the table's lock, as it may list the whole table. New commits do not matter to it.
        """
        table = self._table()
        kept = self._kept_by_savepoints(table.getMetaClient())
        draft = self._draft_clean(table)
        if draft is None:
            return None
        _require_unneeded("Hudi's plan of a clean", _file_names(draft), kept)
        with self.locked():
            confirm()
            meta = self._meta()
            _require_no_turn(meta)
            if later := _instants(meta, *_TURNS) - _instants(table.getMetaClient(), *_TURNS):
                raise WaitingForInstantError(f"{min(later)} came while the clean was planned: it is planned again")
            instant = str(self._client.createNewInstantTime(False))
            extra = {str(key): str(value) for key, value in (draft.getExtraMetadata() or {}).items()}
            extra |= {OWNER_KEY: owner}
            draft.setExtraMetadata(java_map(self._jvm, extra))
            requested = meta.getInstantGenerator().getCleanRequestedInstant(instant)
            meta.getActiveTimeline().saveToCleanRequested(requested, self._hudi.common.util.Option.of(draft))
        return Instant(instant, Action.CLEAN, State.REQUESTED, owner)

    def run_clean(self, clean: Instant, *, confirm: Callable[[], None]) -> Cleaned:
        """Delete what a pending clean's plan says, and commit it. One that has begun is run again.

        Raises HudiError if its plan deletes what a savepoint keeps, or what a rollback or a restore that came after the
        plan made the newest again. The message says how a person ends that.
        """
        with hudi_errors(f"running {clean}"):
            began = time.monotonic()
            plan = self._begin_clean(clean, confirm)
            table = self._table()
            executor = self._hudi.table.action.clean.CleanActionExecutor(self._context, self._config, table, clean.time)
            confirm()
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

    def remove_clean(self, clean: Instant, *, confirm: Callable[[], None]) -> None:
        """Remove the plan of a clean that has not begun."""
        with hudi_errors(f"removing {clean}"), self.locked():
            confirm()
            self._require_state(clean, State.REQUESTED)
            meta = self._meta()
            meta.getActiveTimeline().deletePending(meta.getInstantGenerator().getCleanRequestedInstant(clean.time))

    def _clean(self, meta: Any, java: Any) -> Instant:
        instant = str(java.requestedTime())
        requested = meta.getInstantGenerator().getCleanRequestedInstant(instant)
        clean = Instant(instant, Action.CLEAN, State(str(java.getState())))
        if not meta.getActiveTimeline().isEmpty(requested):
            found = self._hudi.common.util.CleanerUtils.getCleanerPlan(meta, requested).getExtraMetadata() or {}
            return replace(clean, owner=found.get(OWNER_KEY))
        if clean.state is State.INFLIGHT:
            raise HudiError(f"{clean} has no plan any more, as its file is empty: {_give_up(clean)}")
        return clean

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
        # NB: a savepoint names every file that it keeps, which takes too long to read under the lock.
        kept = self._kept_by_savepoints(self._meta())
        with self.locked():
            confirm()
            self._require_state(clean, clean.state)
            meta = self._meta()
            _require_no_turn(meta)
            if new := _instants(meta, "savepoint") - kept.keys():
                raise WaitingForInstantError(f"{min(new)} came while {clean} was looked at")
            requested = meta.getInstantGenerator().getCleanRequestedInstant(clean.time)
            plan = self._of_files_alone(self._hudi.common.util.CleanerUtils.getCleanerPlan(meta, requested))
            names = _file_names(plan)
            if not names:
                raise HudiError(
                    f"{clean} deletes whole partitions and no file: {_give_up(clean)}; "
                    "or finish it with Hudi's own cleaner once no writer uses them"
                )
            gone = self._gone(plan, names.intersection(frozenset().union(*kept.values())))
            _require_unneeded(str(clean), names, kept, f", or to keep it {_give_up(clean)}", gone)
            self._require_as_planned(clean, plan, meta)
            if clean.state is State.REQUESTED:
                content = (self._hudi.common.util.Option.of(plan),) if self._is_1_0 else ()
                meta.getActiveTimeline().transitionCleanRequestedToInflight(requested, *content)
            return plan

    def _kept_by_savepoints(self, meta: Any) -> dict[str, frozenset[str]]:
        """Return the names of the files that each savepoint keeps; raises WaitingForInstantError for a pending one."""
        timeline, found = meta.getActiveTimeline(), {}
        for java in items(timeline.getInstants()):
            if str(java.getAction()) != "savepoint":
                continue
            name = f"{java.requestedTime()}.savepoint"
            if not java.isCompleted():
                raise WaitingForInstantError(
                    f"{name} is being made, and may keep what a clean deletes; if its client is gone, "
                    f"remove {name}.inflight from the timeline"
                )
            if timeline.isEmpty(java):
                raise WaitingForInstantError(
                    f"{name} has no content, so what it keeps is not known; if its client is gone, remove it from the "
                    "timeline, and make it again"
                )
            with hudi_errors(f"reading {name}"):
                found[name] = _names_in_savepoint(str(timeline.readSavepointMetadata(java).toString()))
        return found

    def _gone(self, plan: Any, names: Collection[str]) -> frozenset[str]:
        """Return those of some files of a plan that do not exist any more: its client deleted them before it died."""
        return frozenset(
            name
            for partition, found in _by_partition(str(plan.toString())).items()
            for name in map(_name_of, found or ())
            if name in names and not self._logs.exists(partition, name)
        )

    def _require_as_planned(self, clean: Instant, plan: Any, meta: Any) -> None:
        """Raise HudiError if a rollback or a restore made a file that the plan deletes the newest again.

        NB: 1.0 takes the instant of a rollback long before it shows it, so an older one may be newer than the plan.
        """
        turns = _instants(meta, "restore", "rollback")
        later = {one for one in turns if one > clean.time}
        if later and clean.state is State.REQUESTED:
            raise WaitingForInstantError(f"{min(later)} came after {clean} was planned: it is planned again")
        if restores := {one for one in later if one.endswith("restore")}:
            raise HudiError(
                f"{clean} was planned before {min(restores)}, and may delete what that needs: no more is deleted; "
                f"{_give_up(clean)}"
            )
        if needed := turns and _file_names(plan) & self._newest_files(_partitions(plan)):
            raise HudiError(
                f"{clean} deletes {min(needed)}, which is in use again since a rollback or restore: no more is "
                f"deleted; {_give_up(clean)}"
            )

    def _newest_files(self, partitions: Iterable[str]) -> set[str]:
        """Return the names of the files that a reader of some partitions opens now."""
        view, now = self._table().getSliceView(), str(self._client.createNewInstantTime(False))
        found = set()
        for partition in partitions:
            for java in streamed(self._jvm, view.getLatestMergedFileSlicesBeforeOrOn(partition, now)):
                base = value_of(java.getBaseFile())
                found |= {str(base.getFileName())} if base is not None else set()
                found |= {str(one.getFileName()) for one in streamed(self._jvm, java.getLogFiles())}
        return found

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
    return any(_by_partition(plan).values())


def _file_names(plan: Any) -> frozenset[str]:
    """Return the names of the files that a HoodieCleanerPlan deletes."""
    return frozenset(_name_of(one) for found in _by_partition(str(plan.toString())).values() for one in found or ())


def _name_of(file: Mapping[str, Any]) -> str:
    return str(file["filePath"]).rpartition("/")[2]


def _partitions(plan: Any) -> tuple[str, ...]:
    return tuple(_by_partition(str(plan.toString())))


def _by_partition(plan: str) -> Mapping[str, Any]:
    return json.loads(plan).get("filePathsToBeDeletedPerPartition") or {}


def _names_in_savepoint(savepoint: str) -> frozenset[str]:
    """Return the names of the files that a HoodieSavepointMetadata, as its text, keeps."""
    parts = json.loads(savepoint)["partitionMetadata"].values()
    return frozenset(name for part in parts for name in part["savepointDataFile"])


def _require_unneeded(
    clean: str,
    names: frozenset[str],
    kept: Mapping[str, frozenset[str]],
    remedy: str = "",
    gone: frozenset[str] = frozenset(),
) -> None:
    """Raise HudiError if a savepoint keeps a file that a clean deletes. NB: file names are unique in a table.

    Those that are `gone` are all named, as the savepoint cannot be restored as it was.
    """
    for savepoint, its in sorted(kept.items()):
        if needed := names & its:
            lost = sorted(needed & gone)
            what = f"has deleted {_listed(lost)}" if lost else f"deletes {min(needed)}"
            raise HudiError(
                f"{clean} {what}, which {savepoint} keeps: no more is deleted; delete the savepoint "
                f"(CALL delete_savepoint(table => ..., instant_time => '{savepoint.partition('.')[0]}')){remedy}"
            )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _give_up(clean: Instant) -> str:
    """Return what a person does with a clean that must not run. NB: in this order, so that no client begins it."""
    return (
        f"remove {clean.time}.clean.requested and then {clean.time}.clean.inflight from the timeline while no client "
        "cleans the table; the next clean plans again what is left"
    )


def _require_no_turn(meta: Any) -> None:
    """Raise WaitingForInstantError beside a restore or rollback in progress: it makes old files the newest ones again.

    NB: until it ends, the commits that it takes back may still look complete.
    """
    for one in items(meta.getActiveTimeline().getInstants()):
        if (action := str(one.getAction())) in ("restore", "rollback") and not one.isCompleted():
            raise WaitingForInstantError(
                f"{action} {one.requestedTime()} is in progress; its client ends it, or if that is gone the next run "
                "of the compaction or clustering that it takes back"
            )


def _instants(meta: Any, *actions: str) -> set[str]:
    """Return the instants of some actions as `<time>.<action>`."""
    found = items(meta.getActiveTimeline().getInstants())
    named = ((str(one.requestedTime()), str(one.getAction())) for one in found)
    return {f"{when}.{action}" for when, action in named if action in actions}
