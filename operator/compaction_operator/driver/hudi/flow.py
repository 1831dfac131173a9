"""The flow of one compaction of a Hudi table: read and repair the timeline, plan, run, clean, report."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from decimal import Decimal

from compaction_operator.api.compaction import UPKEEP_TYPES, CompactionType
from compaction_operator.api.hudi import HudiMode, HudiStatus
from compaction_operator.api.model import counted
from compaction_operator.api.progress import Progress
from compaction_operator.api.request import DriverResult, JobRequest, Reason
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hudi.lease import HeldLease
from compaction_operator.driver.hudi.upkeep import Upkeep
from compaction_operator.driver.progress import Report
from compaction_operator.hudi import (
    Action,
    Choice,
    FileGroup,
    HudiError,
    Instant,
    Plan,
    State,
    Todo,
    Written,
    decide,
    is_own,
    late,
    stale,
)
from compaction_operator.hudi.jvm import HudiClient

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.2
LOOKS = 100
"""How often to poll the timeline for a moment without a pending delta commit. A busy writer leaves short ones."""


class HudiCompaction:
    """Compacts one table, or its metadata table; one instance per driver.

    `status` holds what the driver knows about the table beforehand. `numbered` is HudiTable.numbers_log_files. Without
    `may_merge` plans of log compactions are removed. With `whole_records` the bundle cannot compact records of changed
    columns only.
    """

    def __init__(
        self,
        client: HudiClient,
        request: JobRequest,
        *,
        choice: Choice,
        lease: HeldLease,
        report: Report,
        status: HudiStatus,
        numbered: bool = False,
        may_merge: bool = True,
        whole_records: bool = False,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._request = request
        self._choice = choice
        self._lease = lease
        self._report = report
        self._status = status
        # The metadata table's record index depends on the order of its services: no other one may be pending.
        self._exclusive = request.hudi.metadata_table
        self._numbered = numbered
        self._may_merge = may_merge
        self._whole_records = whole_records
        self._pause = pause
        self._compared = ""
        self._upkeep = Upkeep(client, request, lease=lease)
        merges_logs = request.type is CompactionType.LOG_COMPACTION
        self._action = Action.LOG_COMPACTION if merges_logs else Action.COMPACTION

    def run(self) -> DriverResult:
        """Compact and return the result; raises JobError or HudiError when the compaction fails."""
        self._lease.confirm()
        self._update(removed=self._client.remove_empty_plans())
        for instant in self._client.cut_short():
            self._reopen(instant)
        return self._keep_up() if self._request.type in UPKEEP_TYPES else self._compact()

    def _keep_up(self) -> DriverResult:
        """Clean or archive, without a compaction."""
        before = Progress(partitions_total=1)
        self._report.update(before, at_once=True)
        cleans = self._request.type is CompactionType.CLEAN
        said = [self._clean()] if cleans else []
        if self._request.hudi.archive or not cleans:
            said.append(self._archive())
        self._report.update(before.model_copy(update={"partitions_done": 1}), at_once=True)
        return self._end(Reason.CLEANED if cleans else Reason.ARCHIVED, "; ".join(said))

    def _compact(self) -> DriverResult:
        mode, mine = self._request.hudi.mode, f"{self._request.namespace}/{self._request.uid}"
        todo = decide(
            self._client.instants(),
            action=self._action,
            namespace=self._request.namespace,
            all_instants=self._request.hudi.all_instants,
            newest_only=self._choice.newest_only,
            may_merge=self._may_merge,
        )
        if busy := self._at_work(todo):
            return self._end(
                Reason.WAITING_FOR_INSTANT,
                f"{busy} of another client shows signs of life: a heartbeat, a marker or its begin is recent",
            )
        if self._whole_records and self._action is Action.COMPACTION:
            self._require_whole_records()
        self._put_in_order(todo)
        if self._exclusive and todo.left:
            return self._end(Reason.WAITING_FOR_INSTANT, f"{_listed(todo.left)} is pending, owned by another client")
        if mode is not HudiMode.SCHEDULE:
            for instant in todo.run:
                self._execute(self._client.plan_of(instant))
        elif earlier := next((one for one in todo.run if is_own(one, mine)), None):
            self._tell(self._client.plan_of(earlier), "Requested")
        if mode is not HudiMode.EXECUTE and not (mode is HudiMode.SCHEDULE and self._status.instant):
            self._plan(execute=mode is HudiMode.SCHEDULE_AND_EXECUTE)
        try:
            self._tidy_up()
        except HudiError as error:
            # NB: the compaction stays committed, and the status says so.
            return self._end(error.reason, f"{self._status}; then {error}")
        return self._result(todo)

    def _at_work(self, todo: Todo) -> Instant | None:
        """Return the first instant of another client, of those to run or roll back, that its client may be at work on.

        NB: to run or roll back such an instant deletes what its client has written.
        """
        theirs = (one for one in (*todo.roll_back, *todo.run) if not is_own(one, self._request.namespace))
        inflight = (one for one in theirs if one.state is State.INFLIGHT)
        return next((one for one in inflight if self._client.shows_life(one)), None)

    def _require_whole_records(self) -> None:
        """Raise HudiError if there are records that the bundle cannot merge: nothing is planned, nor run that was."""
        if name := self._client.partial_file():
            raise HudiError(
                f"records of log file {name} contain changed columns only (MERGE INTO), which Hudi 1.0 cannot merge by "
                "commit time: set hudi.bundle to 1.2.0, which also finishes what 1.0 has left"
            )

    def _reopen(self, instant: Instant) -> None:
        """Reopen a commit whose driver died while writing it, so that it is rolled back or run again."""
        if is_own(instant, self._request.namespace) or self._request.hudi.all_instants:
            done = self._client.reopen(instant, confirm=self._lease.confirm)
            log.info("%s was committed without content: %s", instant, "reopened" if done else "left unchanged")

    def _put_in_order(self, todo: Todo) -> None:
        for instant in todo.roll_back:
            self._lease.confirm()
            log.info("rolling back %s: an inflight log compaction is never resumed", instant)
            self._client.roll_back(instant)
        for instant in todo.remove:
            log.info("removing %s: it cannot or must not run", instant)
            self._client.remove(instant, confirm=self._lease.confirm)
        rolled_back = tuple(instant.time for instant in todo.roll_back)
        removed = (*self._status.removed, *(instant.time for instant in todo.remove))
        self._update(rolled_back=rolled_back, removed=removed)

    def _plan(self, *, execute: bool) -> None:
        self._lease.confirm()
        owner = f"{self._request.namespace}/{self._request.uid}/{self._request.attempt}"
        if self._action is Action.LOG_COMPACTION:
            plan = self._plan_log_compaction(owner)
        else:
            plan = self._plan_compaction(owner)
        if plan is None:
            return
        log.info("planned %s %s: %d file groups", plan.action, plan.instant, len(plan.operations))
        if execute:
            self._execute(plan)
        else:
            self._tell(plan, "Requested")

    def _plan_compaction(self, owner: str) -> Plan | None:
        """Plan now or, before table version 8, in a moment without pending delta commits.

        NB: there a pending delta commit writes to the slice that is compacted, where readers no longer look once the
        compaction is complete. Only writers that check for conflicts find out.
        """
        looks = iter(range(LOOKS))
        while True:
            plan = self._client.plan_compaction(owner=owner, alone=self._numbered)
            if plan is not None or not self._numbered or not (pending := self._pending_commits()):
                return plan
            if not self._quiet(looks):
                self._choice.held_up_by = f"delta commit {', '.join(pending)} is pending"
                return None

    def _pending_commits(self) -> list[str]:
        return [one.time for one in self._client.instants() if one.action is Action.DELTA_COMMIT and one.is_pending]

    def _plan_log_compaction(self, owner: str) -> Plan | None:
        """Plan now or, if a pending delta commit prevents it, between that commit and the writer's next.

        Without such a moment, plan beside pending delta commits whose blocks come after the merged one. Their writers
        may have to retry then. NB: before table version 8 the order of the blocks is unknown.
        """
        # NB: no commit of the metadata table can complete while this driver holds its lock.
        looks = iter(range(0 if self._exclusive else LOOKS))
        while True:
            plan = self._client.plan_log_compaction(owner=owner, choose=self._choice, beside=False)
            if plan is not None or not self._choice.held_up_by:
                return plan
            if not self._quiet(looks):
                break
        if self._numbered or self._exclusive or not self._choice.newest_only:
            return None
        return self._client.plan_log_compaction(owner=owner, choose=self._choice, beside=True)

    def _quiet(self, looks: Iterator[int]) -> bool:
        """Wait until no delta commit is pending; False when `looks` is exhausted."""
        for _ in looks:
            self._pause(PAUSE_SECONDS)
            self._lease.confirm()
            if not self._pending_commits():
                return True
        return False

    def _execute(self, plan: Plan) -> None:
        """Run a plan. If writers overtook it, roll it back, so that the next attempt makes a new plan."""
        self._lease.confirm()
        size = sum(operation.size for operation in plan.operations)
        before = Progress(partitions_total=1, bytes_total=size)
        self._report.update(before, at_once=True)
        if plan.action is Action.LOG_COMPACTION:
            self._require_mergeable(plan)
        try:
            written = self._client.run(plan, confirm=lambda: self._confirm(plan))
        except (HudiError, OvertakenError):
            self._undo(plan)
            raise
        log.info("%s %s is committed: %d bytes", plan.action, plan.instant, written.bytes)
        self._compared = written.compared
        self._tell(plan, "Completed", written)
        self._report.update(before.model_copy(update={"partitions_done": 1, "bytes_done": size}), at_once=True)

    def _require_mergeable(self, plan: Plan) -> None:
        """Raise HudiError for a plan that Hudi runs wrong: other clients and earlier operators make such plans."""
        for operation in plan.operations:
            if why := self._choice.obstacle(operation.files):
                raise HudiError(f"{plan.action} {plan.instant} must not run: {why}")

    def _undo(self, plan: Plan) -> None:
        """Roll back a failed log compaction. NB: not without the lease, as another driver may be rolling it back."""
        found = [one for one in self._client.instants() if one.time == plan.instant and one.is_dead]
        for instant in found:
            try:
                self._lease.confirm()
                self._client.roll_back(instant)
            except (HudiError, JobError) as error:
                log.warning("%s is left to the next attempt: %s", instant, error)

    def _confirm(self, plan: Plan) -> None:
        """Raise JobError if the lease is lost, if the plan is another client's by now, or if it was overtaken.

        Another client may have committed or rolled back the plan. Other instants overtake a log compaction where the
        order of blocks matters.
        """
        self._lease.confirm()
        found = self._client.instants()
        if not any(one.time == plan.instant and one.state is State.INFLIGHT for one in found):
            now = _listed(one for one in found if one.time == plan.instant) or "gone"
            message = f"{plan.action} {plan.instant} is not this driver's any more: it is {now}"
            raise OvertakenError(Reason.WAITING_FOR_INSTANT, message)
        if plan.action is not Action.LOG_COMPACTION or not self._choice.newest_only:
            return
        late_ones = late(found, before=None if self._numbered else plan.instant, seen=plan.seen)
        compactions = [one for one in found if one.action is Action.COMPACTION and one.time > plan.instant]
        if overtaken := (*late_ones, *compactions):
            message = f"log compaction {plan.instant} was overtaken by {_listed(overtaken)}"
            raise OvertakenError(Reason.WAITING_FOR_INSTANT, message)

    def _tell(self, plan: Plan, state: str, written: Written | None = None) -> None:
        known = self._status
        self._update(
            instant=plan.instant,
            action=str(plan.action),
            state=state,
            file_groups=known.file_groups + len(plan.operations),
            blocks_in=known.blocks_in + sum(len(operation.blocks) for operation in plan.operations),
            bytes_in=known.bytes_in + sum(operation.size for operation in plan.operations),
            blocks_out=known.blocks_out + (written.blocks if written else 0),
            bytes_out=known.bytes_out + (written.bytes if written else 0),
        )

    def _tidy_up(self) -> None:
        if self._request.hudi.clean and self._request.cleaner_held:
            self._update(cleaned="not cleaned: the operator's cleanup.suspend is set")
        elif self._request.hudi.clean:
            self._clean()
        if self._request.hudi.archive:
            self._archive()

    def _clean(self) -> str:
        """Run the cleaner and return what it did."""
        found = self._upkeep.clean()
        if found is None:
            self._update(cleaned="nothing to clean")
            return "nothing to clean"
        self._update(cleaned=f"{found.instant}: {found.files} files", files_deleted=found.files)
        return f"clean {found.instant} Completed: {counted(found.files, 'file')} deleted"

    def _archive(self) -> str:
        """Run the archival and return what it did."""
        found = self._upkeep.archive()
        self._update(archived=found)
        return f"{counted(found, 'instant')} archived" if found else "nothing to archive"

    def _result(self, todo: Todo) -> DriverResult:
        besides = self._status.instant if self._action is Action.COMPACTION else None
        by_writers, total = self._client.written(besides=besides or "")
        if by_writers:
            self._update(write_amplification=f"{Decimal(total) / Decimal(by_writers):.2f}")
        if self._status.instant is None:
            reason, why = self._why_nothing(todo)
            self._update(nothing_planned=why)
            return self._end(reason, why)
        done = self._status.state == "Completed"
        message = "; ".join(filter(None, (str(self._status), self._compared)))
        return self._end(Reason.COMPACTED if done else Reason.SCHEDULED, message)

    def _why_nothing(self, todo: Todo) -> tuple[Reason, str]:
        if self._request.hudi.mode is HudiMode.EXECUTE:
            return Reason.NOTHING_TO_COMPACT, f"no {self._action} of this operator is pending"
        if why := self._choice.held_up_by:
            return Reason.WAITING_FOR_INSTANT, why
        groups = [group for group in self._client.file_groups() if self._choice.covers(group.partition)]
        busy: dict[str, int] = {}
        for group in groups:
            if group.busy:
                busy[group.busy] = max(group.blocks, busy.get(group.busy, 0))
        # The plan of a pending compaction contains all earlier blocks. Later blocks alone are too few.
        enough = self._choice.threshold if self._action is Action.LOG_COMPACTION else 0
        pending = [one for one in self._client.instants() if one.time in busy]
        for instant in pending:
            if busy[instant.time] >= enough and (whose := self._waits_for(instant, todo)):
                return Reason.WAITING_FOR_INSTANT, f"file group in pending {instant} of {whose}"
        if pending:
            return Reason.NOTHING_TO_COMPACT, f"file group in pending {_listed(pending)}"
        if self._action is Action.LOG_COMPACTION:
            return Reason.NOTHING_TO_COMPACT, self._choice.why_nothing(group.blocks for group in groups)
        return Reason.NOTHING_TO_COMPACT, _why_no_compaction(groups)

    def _waits_for(self, instant: Instant, todo: Todo) -> str | None:
        """Return the owner of a pending instant that keeps a file group from being planned; None: its plan will do.

        A log compaction of this operator does less than a compaction, whose plan leaves out its file groups.
        """
        if any(one.time == instant.time for one in todo.left):
            return "another client"
        less = self._action is Action.COMPACTION and instant.action is Action.LOG_COMPACTION
        return "this operator" if less else None

    def _end(self, reason: Reason, message: str) -> DriverResult:
        found = self._client.instants()
        services = (one for one in found if one.action is not Action.DELTA_COMMIT)
        pending = tuple(str(one) for one in services if one.is_pending)
        self._update(pending=pending, stale=tuple(str(one) for one in stale(found)))
        return DriverResult(reason=reason, message=message, hudi=self._status)

    def _update(self, **fields: object) -> None:
        self._status = self._status.model_copy(update=fields)


class OvertakenError(JobError):
    """Writers overtook the plan: its merged blocks must not be committed."""


def _why_no_compaction(groups: Collection[FileGroup]) -> str:
    if not any(group.blocks for group in groups):
        return "no file group has log files"
    return "Hudi planned no compaction: see hoodie.compact.inline.max.delta.commits and hoodie.compaction.strategy"


def _listed(instants: Iterable[Instant]) -> str:
    return ", ".join(str(instant) for instant in instants)
