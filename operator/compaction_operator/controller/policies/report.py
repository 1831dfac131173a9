"""The status of a policy, for people. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from compaction_operator.api.conditions import ConditionStatus
from compaction_operator.api.model import counted
from compaction_operator.api.policy import (
    ACTIVE,
    MAX_KEPT_BACK,
    READY,
    Budget,
    CompactionPolicySpec,
    CompactionPolicyStatus,
    KeptBack,
    NextTable,
    TableCounts,
)
from compaction_operator.controller.kube.draft import Draft
from compaction_operator.controller.kube.resources import Policy
from compaction_operator.controller.kube.times import rfc3339, rfc3339_seconds
from compaction_operator.controller.policies.decide import Hours, Plan
from compaction_operator.controller.policies.standing import Known
from compaction_operator.policy.choice import MEANING, Hold, Outcome, Verdict
from compaction_operator.policy.memory import Memory
from compaction_operator.policy.ranking import score
from compaction_operator.policy.upcoming import upcoming


def not_ready(
    policy: Policy, *, status: ConditionStatus, reason: str, message: str, now: datetime
) -> CompactionPolicyStatus:
    """Return a status that says what is wrong. What the last look found stays."""
    draft = Draft(policy, now)
    draft.set(READY, status, reason, message)
    return draft.status


def suspended(policy: Policy, now: datetime) -> CompactionPolicyStatus:
    """Return the status of a policy that is switched off."""
    draft = Draft(policy, now)
    draft.set(ACTIVE, ConditionStatus.FALSE, "Suspended", "suspend is set: no look is made, and nothing is created")
    return draft.status


def looked(
    policy: Policy, memory: Memory, known: Known, plan: Plan, *, when: Hours, now: datetime
) -> CompactionPolicyStatus:
    """Return the status after a look."""
    draft = Draft(policy, now)
    counts = _counts(memory, known, plan)
    draft.update(
        last_look_time=rfc3339_seconds(now),
        tables=counts,
        kept_back=_kept_back(plan),
        next=tuple(map(_line, upcoming(plan.verdicts))),
        budget=_budget(policy.spec, plan, when),
    )
    draft.set(READY, *_ready(policy.spec, memory, counts, plan))
    draft.set(ACTIVE, *_active(policy.spec, when))
    return draft.status


def _counts(memory: Memory, known: Known, plan: Plan) -> TableCounts:
    due = [one for one in plan.verdicts if one.whole.due]
    held = {one.candidate.table for one in due if one.hold is not None}
    starting = {one.candidate.table for one in plan.starting}
    last = [past[-1].outcome for past in known.past.values()]
    return TableCounts(
        seen=memory.matched,
        due=len({one.candidate.table for one in due}),
        running=known.running + len(starting),
        done=sum(outcome is not Outcome.FAILED for outcome in last),
        failed=sum(outcome is Outcome.FAILED for outcome in last),
        kept_back=len(held - starting),
    )


def _kept_back(plan: Plan) -> tuple[KeptBack, ...]:
    """Return what keeps tables back, the commonest first.

    Of a table with several verdicts the first one counts, but what gains nothing last.
    """
    why: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    starting, tables = {one.candidate.table for one in plan.starting}, dict[str, Hold]()
    for one in sorted(plan.verdicts, key=lambda one: one.hold is Hold.NOTHING_GAINED):
        if one.hold is not None and one.whole.due and one.candidate.table not in starting:
            tables.setdefault(one.candidate.table, one.hold)
    for table, hold in sorted(tables.items()):
        why[hold.value].append((table, MEANING[hold]))
    for table, problem in sorted(plan.problems.items()):
        why[problem.reason].append((table, problem.message))
    ordered = sorted(why.items(), key=lambda item: (-len(item[1]), item[0]))
    found = (
        KeptBack(reason=reason, tables=len(those), example=those[0][0], message=those[0][1])
        for reason, those in ordered
    )
    return tuple(found)[:MAX_KEPT_BACK]


def _line(one: Verdict) -> NextTable:
    found = one.candidate
    return NextTable(
        table=found.table,
        type=found.type,
        partitions=len(found.parts),
        score=f"{one.score:.2f}",
        terms=str(score(one.whole)),
        reason=found.reason,
        due=one.whole.due,
        due_since=rfc3339_seconds(one.due_since),
        due_longest=one.whole.due_longest.spec,
        files_saved=found.files_saved,
        delete_bytes=found.delete_bytes,
        bytes=found.bytes,
        forecast=found.forecast,
        forecast_problem=found.forecast_problem,
        kept_back_by=one.hold,
    )


def _budget(spec: CompactionPolicySpec, plan: Plan, when: Hours) -> Budget | None:
    if spec.bytes_per_window is None and spec.core_hours_per_window is None:
        return None
    standing = plan.standing
    size = standing.used + sum(one.candidate.bytes for one in plan.starting)
    cpu = standing.used_cpu + sum(standing.cpu_of(one.candidate) for one in plan.starting)
    return Budget(since=rfc3339_seconds(when.budget_since), bytes_used=size, cpu_seconds_used=cpu // 1000)


def _ready(
    spec: CompactionPolicySpec, memory: Memory, counts: TableCounts, plan: Plan
) -> tuple[ConditionStatus, str, str]:
    """Return the condition Ready. A policy that can never do anything is not ready."""
    if not memory.matched:
        globs = ", ".join(spec.tables.include)
        message = f"no table matches tables.include ({globs}) in the databases that the warehouse allows"
        return ConditionStatus.FALSE, "NothingMatches", message
    if _too_small(plan.verdicts):
        return (
            ConditionStatus.FALSE,
            "BudgetTooSmall",
            "bytesPerWindow or coreHoursPerWindow is too small for any table that is due",
        )
    unread = f"; {len(memory.unread)} more are read in the next looks" if memory.unread else ""
    if large := memory.large:
        others = f" and {counted(len(large) - 1, 'other table')}" if large[1:] else ""
        unread += f"; the partitions of {large[0].name}{others} are read over several looks"
    message = f"{counted(counts.seen, 'table')}, {counts.due} due, {counts.running} running{unread}"
    return ConditionStatus.TRUE, "Looked", message


def _too_small(verdicts: Sequence[Verdict]) -> bool:
    due = [one.hold for one in verdicts if one.whole.due]
    return bool(due) and all(hold is Hold.BUDGET_TOO_SMALL for hold in due)


def _active(spec: CompactionPolicySpec, when: Hours) -> tuple[ConditionStatus, str, str]:
    if spec.dry_run:
        return ConditionStatus.FALSE, "DryRun", "dryRun is set: the status says what would start"
    if when.open:
        return ConditionStatus.TRUE, "Open", "compactions may start"
    opens = f"the next window opens at {rfc3339(when.opens)}" if when.opens else "no window opens in the next 8 days"
    return ConditionStatus.FALSE, "WindowClosed", opens
