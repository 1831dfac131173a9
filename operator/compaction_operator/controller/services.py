"""Services shared by both reconcilers, and their single way to call the worker threads."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TypeVar

from compaction_operator.api.config import OperatorConfig
from compaction_operator.api.request import UNAVAILABLE_REASONS, Reason
from compaction_operator.controller.answers import Preflight, Trouble
from compaction_operator.controller.forecasting import Forecasts
from compaction_operator.controller.kube.cache import Cache
from compaction_operator.controller.kube.cluster import Cluster, Pools, run_in
from compaction_operator.controller.kube.events import Event, EventType
from compaction_operator.controller.kube.resources import Cleanup, Compaction, Policy, ResourceT
from compaction_operator.controller.kube.times import Clock
from compaction_operator.controller.metrics import Metrics
from compaction_operator.controller.outages import Outages
from compaction_operator.controller.ownership import HANDLED_BY_ANOTHER, REMINDER, Ownership
from compaction_operator.controller.traces import Traces
from compaction_operator.controller.work import Work

A = TypeVar("A")


@dataclass(frozen=True)
class Services:
    """Configuration, caches and adapters that both reconcilers share."""

    config: OperatorConfig
    ownership: Ownership
    cache: Cache
    cluster: Cluster
    work: Work
    pools: Pools
    clock: Clock
    ticks: Callable[[], float]
    metrics: Metrics
    forecasts: Forecasts
    traces: Traces
    outages: Outages = field(default_factory=Outages)

    async def ask(
        self, resource: ResourceT, operation: str, work: Callable[[ResourceT], A], *, pool: Executor | None = None
    ) -> A:
        """Run a blocking call in a worker thread, and report it if it failed."""
        warehouse = resource.spec.warehouse
        answer = await run_in(pool or self.pools.of_warehouse(warehouse).tables, work, resource)
        self.report(warehouse, operation, _trouble(answer))
        return answer

    def leave(self, resource: Compaction | Cleanup | Policy) -> float | None:
        """Leave a resource to another operator; tell its users why if this one would serve its namespace.

        Return the seconds until they are to be reminded, None if never.
        """
        message = self.ownership.left(resource)
        if message is None:
            return None
        event = Event(HANDLED_BY_ANOTHER, message, EventType.WARNING)
        return self.cluster.remind(event, resource, every=REMINDER)

    def report(self, warehouse: str, operation: str, trouble: Trouble | None) -> None:
        """Count a failed call, and log the beginning of an outage of the metastore."""
        if trouble is not None:
            self.metrics.not_answered(warehouse, operation)
            self.outages.note(warehouse, trouble)
            if trouble.reason == Reason.METASTORE_UNAVAILABLE:
                self.metrics.metastore_up.labels(warehouse).set(0)

    def metastore_answered(self, warehouse: str) -> None:
        """Log the end of an outage, if there was one."""
        self.outages.over(warehouse)
        self.metrics.metastore_up.labels(warehouse).set(1)


def _trouble(answer: object) -> Trouble | None:
    if isinstance(answer, Preflight) and answer.reason in UNAVAILABLE_REASONS:
        return Trouble(answer.reason, answer.message)
    return answer if isinstance(answer, Trouble) else None
