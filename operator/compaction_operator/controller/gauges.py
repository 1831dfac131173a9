"""Gauges of what the controller knows, computed on each scrape in the thread that answers it."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from compaction_operator.api.cleanup import OVERDUE
from compaction_operator.api.compaction import CleanupPhase, Phase
from compaction_operator.api.conditions import SUCCEEDED, ConditionStatus, find_condition
from compaction_operator.api.policy import READY
from compaction_operator.controller.kube.cache import Cache
from compaction_operator.controller.kube.cluster import Pools
from compaction_operator.controller.kube.resources import Cleanup, Compaction, Policy, Resource
from compaction_operator.controller.kube.sight import Sight
from compaction_operator.controller.kube.times import Clock, known_time
from compaction_operator.policy.choice import Hold

PREFIX = "compaction_operator"

Values = Iterable[tuple[tuple[str, ...], float]]
"""Label values, and the number that they have."""


class ResourceGauges(Collector):
    """Cleanups and compactions, by phase and by what they wait for.

    There are none before all are known: the numbers of a standby that takes over would look like events.
    """

    def __init__(self, cache: Cache, clock: Clock, *, loaded: Callable[[], bool]) -> None:
        self._cache = cache
        self._clock = clock
        self._loaded = loaded

    def collect(self) -> Iterator[Metric]:
        """Yield the current values."""
        if not self._loaded():
            return
        now, cleanups, compactions = self._clock(), self._cache.cleanups.all(), self._cache.compactions.all()
        yield _phases("cleanups", "CompactionCleanups by phase", cleanups, CleanupPhase)
        yield _phases("compactions", "TableCompactions by phase", compactions, Phase)
        for name, kind, found in (("cleanups", "Cleanups", cleanups), ("compactions", "Compactions", compactions)):
            waiting = [one for one in found if not one.ended]
            yield _gauge(f"{name}_waiting", f"{kind} that have not ended, by what they wait for", ("reason",),
                         _tally(_reason(one) for one in waiting))  # fmt: skip
            yield _gauge(f"{name}_oldest_seconds", f"Age of the oldest of {name}_waiting", ("reason",),
                         _oldest(waiting, now))  # fmt: skip
        overdue = sum(map(_overdue, (one for one in cleanups if not one.ended)))
        yield _gauge("cleanups_overdue", "Cleanups that are past their deadline", (), [((), overdue)])


class PoolGauges(Collector):
    """For how long the oldest call of each pool of threads has been running: a call that hangs shows here."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools

    def collect(self) -> Iterator[Metric]:
        """Yield the current values."""
        text = "For how long the oldest call of a pool of threads has been running; 0 if none runs"
        oldest = (((warehouse, pool), load.oldest) for warehouse, pool, load in self._pools.loads())
        yield _gauge("pool_oldest_call_seconds", text, ("warehouse", "pool"), oldest)


class NamespaceGauges(Collector):
    """Which namespaces are served, where each is watched by itself."""

    def __init__(self, sight: Sight, *, loaded: Callable[[], bool]) -> None:
        self._sight = sight
        self._loaded = loaded

    def collect(self) -> Iterator[Metric]:
        """Yield the current values; none before all namespaces were looked at."""
        if self._loaded():
            text = "1 if a namespace of a warehouse is watched, 0 while it cannot be"
            hidden = self._sight.hidden()
            served = (((name,), float(name not in hidden)) for name in self._sight.namespaces or ())
            yield _gauge("namespace_served", text, ("name",), served)


class PolicyGauges(Collector):
    """What the statuses of policies say; none of suspended ones. `policies` are those of this operator."""

    def __init__(self, policies: Callable[[], Iterable[Policy]], clock: Clock) -> None:
        self._policies = policies
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yield the current values. Nothing is kept back for too long by a policy that only says what it would do."""
        shown = [one for one in self._policies() if not one.spec.suspend]
        acting, now = [one for one in shown if not one.spec.dry_run], self._clock()
        yield _of_policies("policy_ready", "1 if a policy's condition Ready is True, else 0", shown, _ready)
        counts = [((str(one.key), state), number) for one in shown for state, number in _counts(one).items()]
        yield _gauge("policy_tables", "Tables of a policy at its last look, by state", ("policy", "state"), counts)
        text = "For how long the first table that a policy keeps back has been due, 0 if there is none"
        yield _of_policies("policy_oldest_due_seconds", text, acting, lambda one: _due_for(one, now))
        yield _of_policies("policy_max_delay_seconds", "A policy's maxDelay", acting, lambda one: one.spec.max_delay)


def _gauge(name: str, text: str, labels: tuple[str, ...], values: Values) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=labels)
    for label_values, number in values:
        family.add_metric(label_values, number)
    return family


def _of_policies(name: str, text: str, policies: Iterable[Policy], number: Callable[[Policy], float]) -> Metric:
    return _gauge(name, text, ("policy",), [((str(one.key),), number(one)) for one in policies])


def _phases(
    name: str, text: str, found: Iterable[Cleanup | Compaction], phases: Iterable[Phase | CleanupPhase]
) -> Metric:
    """Count by phase. NB: with those that nothing is in: Prometheus sees a change from 0 only if it saw the 0."""
    numbers = Tally(one.status.phase for one in found)
    return _gauge(name, text, ("phase",), [((phase.value,), numbers[phase]) for phase in phases])


def _tally(reasons: Iterable[str]) -> Values:
    return [((reason,), number) for reason, number in Tally(reasons).items()]


def _oldest(waiting: Iterable[Cleanup | Compaction], now: datetime) -> Values:
    oldest: dict[str, datetime] = {}
    for one in waiting:
        reason = _reason(one)
        oldest[reason] = min(oldest.get(reason, one.meta.created), one.meta.created)
    return [((reason,), (now - created).total_seconds()) for reason, created in oldest.items()]


def _reason(one: Cleanup | Compaction) -> str:
    condition = find_condition(one.status.conditions, SUCCEEDED)
    return condition.reason if condition else "Pending"


def _overdue(cleanup: Cleanup) -> bool:
    return _is_true(cleanup, OVERDUE)


def _ready(policy: Policy) -> bool:
    return _is_true(policy, READY)


def _is_true(resource: Resource[Any, Any], type_: str) -> bool:
    condition = find_condition(resource.status.conditions, type_)
    return condition is not None and condition.status is ConditionStatus.TRUE


def _counts(policy: Policy) -> Mapping[str, int]:
    tables = policy.status.tables
    return {} if tables is None else tables.model_dump(by_alias=True)


def _due_for(policy: Policy, now: datetime) -> float:
    """Return the seconds since when the first of `status.next` is due. NB: what is overdue comes first in that list.

    What the last compaction found nothing to do about waits for the next write, however long that takes.
    """
    waiting = (one for one in policy.status.next if one.due and one.kept_back_by != Hold.NOTHING_GAINED)
    due = [since for one in waiting if (since := known_time(one.due_since))]
    return (now - min(due)).total_seconds() if due else 0.0
