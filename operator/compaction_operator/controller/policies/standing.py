"""What the cluster's compactions mean for a policy: its history, what is unfinished, what the budget has left. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from compaction_operator.api.conditions import SUCCEEDED, ConditionStatus, find_condition
from compaction_operator.api.policy import ANNOTATION_BYTES, ANNOTATION_FAILURES
from compaction_operator.api.request import Reason
from compaction_operator.controller.kube.resources import Compaction, Policy, TableKey
from compaction_operator.controller.kube.times import parse_time
from compaction_operator.policy.choice import Outcome, Past, Usage, database_of


@dataclass(frozen=True)
class Known:
    """All compactions, as one policy sees them. Tables are `database.table` in lower case.

    - `mine` are those that the policy created; `past` those of them that ended, by table, oldest first.
    - `unfinished` are the tables with an unfinished compaction, of this policy or not.
    - `ended` is when the last compaction of a table ended, of this policy or not.
    """

    mine: Sequence[Compaction]
    past: Mapping[str, Sequence[Past]]
    unfinished: frozenset[str]
    ended: Mapping[str, datetime]

    @property
    def running(self) -> int:
        """How many compactions of the policy have not ended."""
        return sum(not one.ended for one in self.mine)

    def used(self, since: datetime) -> int:
        """Return the bytes of the policy's compactions that were created since a time."""
        return sum(bytes_of(one) for one in self.mine if one.meta.created >= since)

    def starts(self) -> Iterable[tuple[datetime, int]]:
        """Return when the policy's compactions were created, and their bytes."""
        return ((one.meta.created, bytes_of(one)) for one in self.mine)

    def of_databases(self, created: Collection[str], since: datetime) -> dict[str, Usage]:
        """Return what each database has of the policy. `created` are tables with a compaction that is not in `mine`."""
        running, size = Counter(map(database_of, created)), Counter[str]()
        for one in self.mine:
            database = database_of(table_of(one))
            running[database] += not one.ended
            size[database] += bytes_of(one) if one.meta.created >= since else 0
        return {database: Usage(running[database], size[database]) for database in running}


def known_of(policy: Policy, compactions: Iterable[Compaction], place: Callable[[TableKey], TableKey]) -> Known:
    """Return what the cluster's compactions mean for a policy; `place` maps the names of one table to one key."""
    warehouse = place(TableKey.of(policy.spec.warehouse, "", "")).warehouse
    of_warehouse = [one for one in compactions if not one.is_hudi and place(one.table).warehouse == warehouse]
    mine = [one for one in of_warehouse if is_of(one, policy)]
    ended: dict[str, datetime] = {}
    for one in of_warehouse:
        if one.ended:
            ended[table_of(one)] = max(ended_at(one), ended.get(table_of(one), ended_at(one)))
    past: defaultdict[str, list[Past]] = defaultdict(list)
    for earlier in sorted((past_of(one) for one in mine if one.ended), key=lambda found: (found.ended, found.name)):
        past[earlier.table].append(earlier)
    return Known(mine, past, frozenset(table_of(one) for one in of_warehouse if not one.ended), ended)


def is_of(compaction: Compaction, policy: Policy) -> bool:
    """Whether a policy created a compaction: it owns it. Owners are of the same namespace."""
    owners = compaction.raw["metadata"].get("ownerReferences") or ()
    mine = any(owner.get("uid") == policy.meta.uid for owner in owners)
    return mine and compaction.meta.namespace == policy.meta.namespace


def table_of(compaction: Compaction) -> str:
    """Return a compaction's table as policies name it."""
    return f"{compaction.spec.table.database}.{compaction.spec.table.name}".lower()


def past_of(compaction: Compaction) -> Past:
    """Return an ended compaction as a policy remembers it."""
    return Past(
        name=compaction.meta.name,
        table=table_of(compaction),
        type=compaction.spec.type,
        started=compaction.meta.created,
        ended=ended_at(compaction),
        outcome=_outcome(compaction),
        bytes=bytes_of(compaction),
        failures=_number(compaction, ANNOTATION_FAILURES),
    )


def ended_at(compaction: Compaction) -> datetime:
    """Return when a compaction ended. A text that cannot be read counts as its creation."""
    try:
        return parse_time(compaction.status.completion_time or "")
    except ValueError:
        return compaction.meta.created


def bytes_of(compaction: Compaction) -> int:
    """Return the bytes that a compaction was expected to read, 0 if nothing says so."""
    return _number(compaction, ANNOTATION_BYTES)


def _number(compaction: Compaction, annotation: str) -> int:
    text = (compaction.raw["metadata"].get("annotations") or {}).get(annotation, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _outcome(compaction: Compaction) -> Outcome:
    condition = find_condition(compaction.status.conditions, SUCCEEDED)
    if condition is None or condition.status is not ConditionStatus.TRUE:
        return Outcome.FAILED
    return Outcome.NOTHING if condition.reason == Reason.NOTHING_TO_COMPACT else Outcome.SUCCEEDED
