"""Questions about tables: which policies they concern, and the answers from the last looks. Safe in any thread."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from compaction_operator.api.conditions import ConditionStatus, find_condition
from compaction_operator.api.config import OperatorConfig
from compaction_operator.api.policy import KIND, READY
from compaction_operator.api.why import Explanation, PolicyReady, Subject, Unfinished
from compaction_operator.controller.kube.resources import Compaction, Policy, TableKey
from compaction_operator.controller.policies.standing import table_of
from compaction_operator.errors import OperatorError
from compaction_operator.policy.explain import Look, explain

_TABLE = re.compile(r"[^\s./:]+\.[^\s./:]+")
FILTERS = ("namespace", "policy", "warehouse")


class QuestionError(OperatorError, ValueError):
    """A question about a table cannot be understood."""


class NoPolicyError(OperatorError):
    """No policy is what a question asks about."""


@dataclass(frozen=True)
class Question:
    """A table in lower case, and which policies to ask; None means all."""

    table: str
    namespace: str | None = None
    policy: str | None = None
    warehouse: str | None = None

    @classmethod
    def parse(cls, parameters: Mapping[str, Sequence[str]]) -> "Question":
        """Parse the parameters of a URL. Raises QuestionError."""
        if unknown := sorted(parameters.keys() - {"table", *FILTERS}):
            raise QuestionError(f"unknown parameter {unknown[0]!r}; there are: table, {', '.join(FILTERS)}")
        if repeated := sorted(name for name, values in parameters.items() if len(values) > 1):
            raise QuestionError(f"parameter {repeated[0]!r} is given more than once")
        given = {name: values[0] for name, values in parameters.items()}
        table = given.pop("table", "").lower()
        if not _TABLE.fullmatch(table):
            raise QuestionError(f"table={table!r}: write database.name, as in sales.orders")
        return cls(table, **given)

    def is_about(self, policy: Policy) -> bool:
        """Whether the question asks a policy."""
        has = {"namespace": policy.meta.namespace, "policy": policy.meta.name, "warehouse": policy.spec.warehouse}
        return all(getattr(self, name) in (None, value) for name, value in has.items())

    def __str__(self) -> str:
        wanted = {name: getattr(self, name) for name in FILTERS}
        return ", ".join(f"{name} {value}" for name, value in wanted.items() if value is not None)


@dataclass(frozen=True)
class Asked:
    """A policy with its last look, and when the next one is due. None: there was none, or one goes on."""

    policy: Policy
    look: Look | None
    next_look: datetime | None

    @property
    def current(self) -> Look | None:
        """The last look if it was made with the policy's present spec."""
        return self.look if self.look and self.look.generation == self.policy.meta.generation else None


def answers(
    question: Question,
    asked: Iterable[Asked],
    compactions: Iterable[Compaction],
    *,
    config: OperatorConfig,
    place: Callable[[TableKey], TableKey],
) -> list[Explanation]:
    """Return what each policy that the question asks says, in the order of their names.

    `compactions` are all of the cluster's; `place` maps the names of one table to one key. Raises NoPolicyError if
    there is no such policy.
    """
    wanted = [one for one in asked if question.is_about(one.policy)]
    if not wanted:
        raise NoPolicyError(f"there is no CompactionPolicy{f' with {question}' if str(question) else ''}")
    wanted.sort(key=lambda one: (one.policy.meta.namespace, one.policy.meta.name))
    unfinished = [one for one in compactions if not one.ended and table_of(one) == question.table]
    database, _, name = question.table.partition(".")
    found = []
    for one in wanted:
        key = place(TableKey.of(one.policy.spec.warehouse, database, name))
        same = tuple(_unfinished(compaction) for compaction in unfinished if place(_named(compaction)) == key)
        found.append(_answer(question.table, one, config).model_copy(update={"unfinished": same}))
    return found


def _answer(table: str, asked: Asked, config: OperatorConfig) -> Explanation:
    policy, warehouse = asked.policy, config.warehouse(asked.policy.spec.warehouse)
    subject = Subject(
        namespace=policy.meta.namespace, policy=policy.meta.name, warehouse=policy.spec.warehouse, table=table
    )
    allowed = warehouse is None or warehouse.allows_database(table.partition(".")[0])
    ready = _ready(policy)
    found = explain(subject, policy.spec, asked.current, allowed=allowed, waiting=_waiting(policy, ready))
    return found.model_copy(update={"next_look_at": asked.next_look, "policy_ready": ready})


def _waiting(policy: Policy, ready: PolicyReady | None) -> tuple[str, str]:
    """Return why there was no look with a policy's present spec."""
    if policy.spec.suspend:
        return "Suspended", "suspend is set: the policy makes no look"
    if ready is not None and ready.status is not ConditionStatus.TRUE:
        return ready.reason, ready.message
    return "NotLookedYet", "no look has ended since the controller started or the policy changed"


def _ready(policy: Policy) -> PolicyReady | None:
    found = find_condition(policy.status.conditions, READY)
    return PolicyReady(status=found.status, reason=found.reason, message=found.message) if found else None


def _named(one: Compaction) -> TableKey:
    """Return a compaction's table by its name, also that of a Hudi table whose location is known."""
    return TableKey.of(one.spec.warehouse, one.spec.table.database, one.spec.table.name)


def _unfinished(one: Compaction) -> Unfinished:
    owners = one.raw["metadata"].get("ownerReferences") or ()
    owner = next((owner["name"] for owner in owners if owner["kind"] == KIND), None)
    return Unfinished(namespace=one.meta.namespace, name=one.meta.name, phase=one.status.phase, policy=owner)
