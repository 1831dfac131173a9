"""How a resource stands, for people: does it run, wait or fail, since when, for whom, and what comes next. Pure."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TypedDict

from compaction_operator.api.cleanup import KIND as CLEANUP_KIND
from compaction_operator.api.cleanup import OVERDUE, CompactionCleanupStatus
from compaction_operator.api.compaction import KIND as COMPACTION_KIND
from compaction_operator.api.compaction import CleanupPhase, Phase, TableCompactionStatus
from compaction_operator.api.conditions import SUCCEEDED, Condition, ConditionStatus, find_condition
from compaction_operator.api.model import Model
from compaction_operator.api.policy import ACTIVE, READY
from compaction_operator.api.policy import KIND as POLICY_KIND
from compaction_operator.cli import advice
from compaction_operator.cli.advice import OPERATOR
from compaction_operator.controller.kube.resources import Cleanup, Compaction, Policy
from compaction_operator.controller.kube.times import rfc3339_seconds

SHORT_NAMES = {COMPACTION_KIND: "tcomp", CLEANUP_KIND: "ccl", POLICY_KIND: "tcp"}
_CLEANUP, _POLICY = "cleanup", "policy"
"""What the last two kinds have instead of a compaction's type."""


class State(StrEnum):
    """What a person asks first."""

    RUNNING = "Running"
    WAITING = "Waiting"
    FAILED = "Failed"
    SUCCEEDED = "Succeeded"


class Standing(Model):
    """How one resource stands. Times are RFC 3339.

    - `since` is when it began to run or wait, or ended, where the status says so; otherwise when it was created.
    - `waits_for` names each reader that a cleanup waits for, of `waits_for_count` in all.
    - `operator` is the namespace of the operator that handles it, where the resource names one.
    - `steps` are what a user can do.
    """

    kind: str
    namespace: str
    name: str
    warehouse: str
    table: str = ""
    type: str = ""
    state: State
    reason: str
    message: str = ""
    since: str
    progress: str | None = None
    attempt: int | None = None
    next_attempt: str | None = None
    waits_for: tuple[str, ...] = ()
    waits_for_count: int = 0
    overdue: str | None = None
    cleanups: tuple[str, ...] = ()
    operator: str | None = None
    steps: tuple[str, ...] = ()

    @property
    def resource(self) -> str:
        """Such as `ccl/orders-minor-1a2b3c4d-1-0`."""
        return f"{SHORT_NAMES[self.kind]}/{self.name}"


def standing(
    resource: Compaction | Cleanup | Policy, program: str, *, asked: str | None = None, context: str | None = None
) -> Standing:
    """Return how a resource stands; `program` is this one's name, for the commands that it advises.

    `asked` is the operator that the user means, as NAMESPACE/SERVICE. If another one handles the resource, that comes
    first. Advised commands repeat it, unless it is the default, and the `context` of kubeconfig that the user gave.
    """
    words = {"program": program, "name": resource.meta.name, "namespace": resource.meta.namespace}
    words["context"] = f" --context {shlex.quote(context)}" if context else ""
    words["options"] = words["context"] if asked in (None, OPERATOR) else f" --operator {asked}{words['context']}"
    if isinstance(resource, Compaction):
        found = _of_compaction(resource, words)
    else:
        found = _of_cleanup(resource, words) if isinstance(resource, Cleanup) else _of_policy(resource, words)
    operator = resource.operator or (resource.created_by if isinstance(resource, Compaction) else None)
    steps = found.steps
    if operator and asked and operator != asked.partition("/")[0] and found.state is not State.SUCCEEDED:
        text = advice.HANDLED_BY_ANOTHER if resource.operator else advice.CREATED_BY_ANOTHER
        steps = (text.format(operator=operator, **words), *steps)
    return found.model_copy(update={"operator": operator, "steps": steps})


def _of_compaction(compaction: Compaction, words: Mapping[str, str]) -> Standing:
    status, spec = compaction.status, compaction.spec
    found = find_condition(status.conditions, SUCCEEDED)
    running = status.phase is Phase.RUNNING
    state = _state(found, running=running)
    blocked = status.pod_trouble.since if status.pod_trouble else None
    began = blocked or (status.attempt_start_time if running else None)
    advised = _about_cleanups(status, words)
    if state is not State.SUCCEEDED:
        advised = (_advised(advice.COMPACTION, found, {**words, "job": status.job or ""}),)
    return Standing(
        kind=COMPACTION_KIND,
        namespace=compaction.meta.namespace,
        name=compaction.meta.name,
        warehouse=spec.warehouse,
        table=str(spec.table),
        type=spec.type,
        state=state,
        **_said(found),
        since=status.completion_time or began or _created(compaction),
        progress=status.progress.summary if status.progress else None,
        attempt=status.attempt or None,
        next_attempt=status.next_attempt_time,
        cleanups=status.cleanups,
        steps=advised,
    )


def _of_cleanup(cleanup: Cleanup, words: Mapping[str, str]) -> Standing:
    status, spec = cleanup.status, cleanup.spec
    found, overdue = (find_condition(status.conditions, type_) for type_ in (SUCCEEDED, OVERDUE))
    state = _state(found, running=status.phase is CleanupPhase.DELETING and _said(found)["reason"] == "Deleting")
    waits = status.phase is CleanupPhase.WAITING
    return Standing(
        kind=CLEANUP_KIND,
        namespace=cleanup.meta.namespace,
        name=cleanup.meta.name,
        warehouse=spec.warehouse,
        table=str(spec.table.ref()),
        type=_CLEANUP,
        state=state,
        **_said(found),
        since=status.completion_time or _cleanup_since(status) or _created(cleanup),
        waits_for=tuple(map(str, status.blockers)) if waits else (),
        waits_for_count=status.blocker_count if waits else 0,
        overdue=overdue.message if overdue and overdue.status is ConditionStatus.TRUE else None,
        steps=() if state is State.SUCCEEDED else tuple(_cleanup_steps(cleanup, found, words)),
    )


def _of_policy(policy: Policy, words: Mapping[str, str]) -> Standing:
    found = _policy_condition(policy)
    works = found is not None and found.status is ConditionStatus.TRUE
    fails = found is not None and found.status is ConditionStatus.FALSE and not policy.spec.suspend
    state = State.FAILED if fails else State.RUNNING if works else State.WAITING
    return Standing(
        kind=POLICY_KIND,
        namespace=policy.meta.namespace,
        name=policy.meta.name,
        warehouse=policy.spec.warehouse,
        type=_POLICY,
        state=state,
        **_said(_with_active(found, policy) if works else found),
        since=found.last_transition_time if found else _created(policy),
        steps=() if works else (_advised(advice.POLICY, found, words),),
    )


def _with_active(ready: Condition | None, policy: Policy) -> Condition | None:
    """Return Ready of a policy that works, with the message of why nothing starts now: a dry run, a closed window."""
    active = find_condition(policy.status.conditions, ACTIVE)
    if ready is None or active is None or active.status is not ConditionStatus.FALSE:
        return ready
    return ready.model_copy(update={"message": f"{ready.message}; {active.message}"})


def worth_a_line(found: Iterable[Standing]) -> Iterator[Standing]:
    """Yield what a person wants to see: what has not succeeded, and of policies those that do not work."""
    for one in found:
        idle = one.kind == POLICY_KIND and one.state is State.RUNNING
        if one.state is not State.SUCCEEDED and not idle:
            yield one


def _created(resource: Compaction | Cleanup | Policy) -> str:
    return rfc3339_seconds(resource.meta.created)


class _Said(TypedDict):
    reason: str
    message: str


def _said(condition: Condition | None) -> _Said:
    if condition is None:
        return {"reason": "NotSeenYet", "message": "no operator has written to it yet"}
    return {"reason": condition.reason, "message": condition.message}


def _state(condition: Condition | None, *, running: bool) -> State:
    if condition is None or condition.status is ConditionStatus.UNKNOWN:
        return State.RUNNING if running else State.WAITING
    return State.SUCCEEDED if condition.status is ConditionStatus.TRUE else State.FAILED


def _advised(known: Mapping[str, str], condition: Condition | None, words: Mapping[str, str]) -> str:
    text = advice.UNSEEN if condition is None else known.get(condition.reason, advice.UNKNOWN)
    return text.format(**words)


def _about_cleanups(status: TableCompactionStatus, words: Mapping[str, str]) -> tuple[str, ...]:
    """Return where to ask further when a compaction is done, but its cleanup is not."""
    if status.cleanup_phase in (None, CleanupPhase.SUCCEEDED):
        return ()
    command = "{program} why ccl/{cleanup} -n {namespace}{options}"
    return tuple(command.format(cleanup=one, **words) for one in status.cleanups)


def _cleanup_since(status: CompactionCleanupStatus) -> str | None:
    """Return when a cleanup began to wait for what it waits for, None if its status does not say so."""
    if status.phase is CleanupPhase.APPROVAL:
        return status.listed_time
    if status.phase is CleanupPhase.DELETING:
        return status.deletion_start_time
    return status.baseline.time if status.baseline else None


def _cleanup_steps(cleanup: Cleanup, found: Condition | None, words: Mapping[str, str]) -> Iterator[str]:
    if cleanup.status.phase is CleanupPhase.WAITING and cleanup.status.blockers:
        yield from advice.about_readers(cleanup.status.blockers)
    elif found and found.reason == "Suspended" and not cleanup.spec.suspend:
        yield advice.BY_THE_OPERATOR
    else:
        yield _advised(advice.CLEANUP, found, words)


def _policy_condition(policy: Policy) -> Condition | None:
    """Return Ready, or of a suspended policy what says so; None before the operator has written it."""
    if not policy.spec.suspend:
        return find_condition(policy.status.conditions, READY)
    active = find_condition(policy.status.conditions, ACTIVE)
    return active if active and active.status is ConditionStatus.FALSE else None
