"""What the cluster's compactions mean for a policy: its history, what is unfinished, what the budget has left. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from types import MappingProxyType

from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.conditions import SUCCEEDED, ConditionStatus, find_condition
from compaction_operator.api.policy import ANNOTATION_BYTES, ANNOTATION_CPU, ANNOTATION_FAILURES, ANNOTATION_SEEN
from compaction_operator.api.request import Reason
from compaction_operator.controller.kube.resources import Cleanup, Compaction, Policy, ResourceT, TableKey
from compaction_operator.controller.kube.times import parse_time
from compaction_operator.policy.choice import Outcome, Past, Usage, database_of


@dataclass(frozen=True, slots=True)
class Created:
    """A compaction that a policy has created and the watch has not brought yet: its table, when, and what it takes."""

    table: str
    at: datetime
    bytes: int
    cpu: int


@dataclass(frozen=True)
class Known:
    """All compactions, as one policy sees them. Tables are `database.table` in lower case.

    - `mine` are those that the policy created; `past` those of them that ended, by table, oldest first.
    - `unfinished` are the tables with an unfinished compaction, of this policy or not.
    """

    mine: Sequence[Compaction]
    past: Mapping[str, Sequence[Past]]
    unfinished: frozenset[str]

    @property
    def running(self) -> int:
        """How many compactions of the policy have not ended."""
        return sum(not one.ended for one in self.mine)

    def starts(self) -> Iterable[tuple[datetime, int]]:
        """Return when the policy's compactions were created, and their bytes."""
        return ((one.meta.created, bytes_of(one)) for one in self.mine)

    def of_databases(self, created: Collection[Created], since: datetime) -> dict[str, Usage]:
        """Return what each database has of the policy: what runs, and what was created since a time.

        `created` are compactions that are not in `mine`.
        """
        running, size, cpu = Counter[str](), Counter[str](), Counter[str]()
        for new in created:
            database = database_of(new.table)
            running[database] += 1
            size[database] += new.bytes
            cpu[database] += new.cpu
        for one in self.mine:
            database = database_of(table_of(one))
            running[database] += not one.ended
            size[database] += bytes_of(one) if one.meta.created >= since else 0
            cpu[database] += cpu_of(one) if one.meta.created >= since else 0
        return {database: Usage(running[database], size[database], cpu[database]) for database in running}

    @property
    def rates(self) -> dict[CompactionType, float]:
        """The CPU milliseconds for each byte that was to be read, by type, of the policy's compactions that say so."""
        size, cpu = Counter[CompactionType](), Counter[CompactionType]()
        for one in self.mine:
            if one.status.cpu_milliseconds and bytes_of(one):
                size[one.spec.type] += bytes_of(one)
                cpu[one.spec.type] += one.status.cpu_milliseconds
        return {type_: cpu[type_] / size[type_] for type_ in cpu}


def known_of(
    policy: Policy,
    compactions: Iterable[Compaction],
    place: Callable[[TableKey], TableKey],
    hudi: Mapping[str, str] = MappingProxyType({}),
) -> Known:
    """Return what the cluster's compactions mean for a policy.

    `place` maps the names of one table to one key. `hudi` has the Hudi table that stands for each place.
    """
    everything = list(compactions)
    of_warehouse = list(_of_warehouse(policy.spec.warehouse, everything, place))
    mine = [one for one in of_warehouse if is_of(one, policy)]
    past: defaultdict[str, list[Past]] = defaultdict(list)
    for earlier in sorted((past_of(one) for one in mine if one.ended), key=lambda found: (found.ended, found.name)):
        past[earlier.table].append(earlier)
    unfinished = {table_of(one) for one in of_warehouse if not one.ended}
    # A Hudi table has one key in all warehouses, and may have several names, or none.
    unfinished.update(hudi[one.table.table] for one in everything if not one.ended and one.table.table in hudi)
    return Known(mine, past, frozenset(unfinished))


def last_ended(
    warehouse: str,
    compactions: Iterable[Compaction],
    cleanups: Iterable[Cleanup],
    place: Callable[[TableKey], TableKey],
) -> dict[str, datetime]:
    """Return when the last compaction or cleanup of each table ended: its directories are others since then.

    `place` is as for `known_of`.
    """
    resources: list[Compaction | Cleanup] = [*_of_warehouse(warehouse, compactions, place)]
    resources += _of_warehouse(warehouse, cleanups, place)
    found: dict[str, datetime] = {}
    for one in resources:
        if one.ended:
            found[table_of(one)] = max(ended_at(one), found.get(table_of(one), ended_at(one)))
    return found


def _of_warehouse(
    warehouse: str, resources: Iterable[ResourceT], place: Callable[[TableKey], TableKey]
) -> Iterator[ResourceT]:
    """Yield the resources that name their table in a warehouse, or in one with the same metastore."""

    @cache
    def key(name: str) -> TableKey:
        return place(TableKey.of(name, "", ""))

    return (one for one in resources if key(one.spec.warehouse) == key(warehouse))


def is_of(compaction: Compaction, policy: Policy) -> bool:
    """Whether a policy created a compaction: it owns it. Owners are of the same namespace."""
    owners = compaction.raw["metadata"].get("ownerReferences") or ()
    mine = any(owner.get("uid") == policy.meta.uid for owner in owners)
    return mine and compaction.meta.namespace == policy.meta.namespace


def table_of(one: Compaction | Cleanup) -> str:
    """Return the table of a compaction or cleanup as policies name it."""
    return f"{one.spec.table.database}.{one.spec.table.name}".lower()


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
        partitions=frozenset(compaction.spec.partitions),
        seen=_annotation(compaction, ANNOTATION_SEEN),
    )


def ended_at(one: Compaction | Cleanup) -> datetime:
    """Return when a compaction or cleanup ended. A text that cannot be read counts as its creation."""
    try:
        return parse_time(one.status.completion_time or "")
    except ValueError:
        return one.meta.created


def bytes_of(compaction: Compaction) -> int:
    """Return the bytes that a compaction was expected to read, 0 if nothing says so."""
    return _number(compaction, ANNOTATION_BYTES)


def cpu_of(compaction: Compaction) -> int:
    """Return the CPU milliseconds that a compaction's tasks took, or were expected to take if that is not known.

    NB: what a failed attempt took is not known, and the status has 0 for it.
    """
    taken = compaction.status.cpu_milliseconds if compaction.ended else None
    return taken or _number(compaction, ANNOTATION_CPU)


def _number(compaction: Compaction, annotation: str) -> int:
    text = _annotation(compaction, annotation)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _annotation(compaction: Compaction, annotation: str) -> str:
    found: str = (compaction.raw["metadata"].get("annotations") or {}).get(annotation, "")
    return found


def _outcome(compaction: Compaction) -> Outcome:
    condition = find_condition(compaction.status.conditions, SUCCEEDED)
    if condition is None or condition.status is not ConditionStatus.TRUE:
        return Outcome.FAILED
    return Outcome.NOTHING if condition.reason == Reason.NOTHING_TO_COMPACT else Outcome.SUCCEEDED
