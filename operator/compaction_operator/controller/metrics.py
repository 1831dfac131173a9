"""Prometheus metrics of the controller: counters updated as things happen, and gauges computed on each scrape."""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from compaction_operator.api.compaction import Totals
from compaction_operator.api.conditions import SUCCEEDED, ConditionStatus, find_condition
from compaction_operator.cleanup.deletion import PartitionDeletion
from compaction_operator.controller.answers import OVERDUE, STILL_NEEDED
from compaction_operator.controller.kube.cache import Cache
from compaction_operator.controller.kube.cluster import Pools
from compaction_operator.controller.kube.resources import Cleanup, Compaction
from compaction_operator.controller.kube.times import Clock

PREFIX = "compaction_operator"
RATIO_BUCKETS = (0.5, 0.65, 0.85, 0.95, 0.98, 0.99, 1.0, 1.01, 1.02, 1.05, 1.15, 1.35, 2.0)
LOOK_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The counters, each named after what it counts, and the registry of all metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)

        self.lock_queries = counter("lock_queries", "Tables whose locks were queried", "warehouse")
        self.errors = counter("errors", "Failed calls to a warehouse's metastore or storage", "warehouse", "operation")
        self.directories_deleted = counter("directories_deleted", "Directories and original files deleted", "warehouse")
        self.bytes_deleted = counter("bytes_deleted", "Bytes freed by deletion", "warehouse")
        self.bytes_ingested = counter("bytes_ingested", "Bytes of writers that compactions read first", "warehouse")
        self.bytes_written = counter("bytes_written", "Bytes that compactions published", "warehouse", "how")
        self.forecast_ratio = Histogram(
            f"{PREFIX}_forecast_ratio",
            "Forecasts of compactions, divided by what there was: bytes written, or CPU time of the tasks",
            ["warehouse", "what"],
            registry=self.registry,
            buckets=RATIO_BUCKETS,
        )
        self.deletions_refused = counter("deletions_refused", "Recorded entries that a pass did not delete", "reason")
        self.attempts = counter("attempts", "Attempts of compactions that have ended", "outcome")
        self.store_unfit = Gauge(
            f"{PREFIX}_store_unfit",
            "1 if tables in a warehouse's folder cannot be published to safely, 0 if they can",
            ["warehouse", "location"],
            registry=self.registry,
        )
        self.leader = Gauge(f"{PREFIX}_leader", "1 if this replica leads, 0 if it stands by", registry=self.registry)
        self.look_seconds = Histogram(
            f"{PREFIX}_look_seconds",
            "Duration of a look at a warehouse's readers",
            ["warehouse"],
            registry=self.registry,
            buckets=LOOK_BUCKETS,
        )

    def watch(self, cache: Cache, clock: Clock) -> None:
        """Register gauges over that cache's cleanups and compactions."""
        self.registry.register(_Known(cache, clock))

    def watch_pools(self, pools: Pools) -> None:
        """Register gauges over the worker threads."""
        self.registry.register(_Pools(pools))

    @contextmanager
    def looking(self, warehouse: str, *, tables: int) -> Iterator[None]:
        """Count a look at a warehouse's tables, and measure its duration."""
        self.lock_queries.labels(warehouse).inc(tables)
        with self.look_seconds.labels(warehouse).time():
            yield

    def not_answered(self, warehouse: str, operation: str) -> None:
        """Count a failed call to a metastore or storage."""
        self.errors.labels(warehouse, operation).inc()

    def deleted(self, before: Cleanup, after: Cleanup) -> None:
        """Count the deletions that a written status adds to the previous one."""
        directories = after.status.directories_deleted - before.status.directories_deleted
        size = after.status.bytes_deleted - before.status.bytes_deleted
        self.directories_deleted.labels(after.spec.warehouse).inc(max(0, directories))
        self.bytes_deleted.labels(after.spec.warehouse).inc(max(0, size))

    def refused(self, results: Iterable[PartitionDeletion]) -> None:
        """Count what a pass did not delete, by reason."""
        for result in results:
            if result.skipped is not None:
                self.deletions_refused.labels(result.reason or "StorageError").inc()
            elif result.needed:
                self.deletions_refused.labels(STILL_NEEDED).inc(len(result.needed))

    def judged(self, before: Compaction, after: Compaction) -> None:
        """Count a judged attempt, by the reason of its compaction's new condition."""
        condition = find_condition(after.status.conditions, SUCCEEDED)
        if before.attempt_running and not after.attempt_running and condition is not None:
            self.attempts.labels(condition.reason).inc()

    def published(self, before: Compaction, after: Compaction) -> None:
        """Count the bytes that a written status adds to the previous one's totals."""
        old, new, warehouse = before.status.totals or Totals(), after.status.totals or Totals(), after.spec.warehouse
        self.bytes_ingested.labels(warehouse).inc(max(0, new.bytes_ingested - old.bytes_ingested))
        for how, more in (
            ("Copied", new.bytes_copied - old.bytes_copied),
            ("Rewritten", new.bytes_rewritten - old.bytes_rewritten),
        ):
            self.bytes_written.labels(warehouse, how).inc(max(0, more))

    def forecast(self, before: Compaction, after: Compaction) -> None:
        """Compare the forecast with what there was, once a compaction has ended."""
        totals, forecast, warehouse = after.status.totals, after.status.forecast, after.spec.warehouse
        if before.ended or not after.ended or totals is None or forecast is None:
            return
        pairs = {
            "Bytes": (forecast.bytes_out, totals.bytes_out),
            "CPU": (forecast.cpu_milliseconds, after.status.cpu_milliseconds),
        }
        for what, (expected, actual) in pairs.items():
            if expected and actual:
                self.forecast_ratio.labels(warehouse, what).observe(expected / actual)


class _Known(Collector):
    """Gauges, computed on each scrape in the thread that answers it."""

    def __init__(self, cache: Cache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yield the current values."""
        waiting = [cleanup for cleanup in self._cache.cleanups.all() if not cleanup.ended]
        yield _gauge(
            "cleanups_waiting", "Cleanups that have not ended, by what they wait for", "reason",
            Tally(map(_reason, waiting)).items(),
        )  # fmt: skip
        yield _gauge(
            "cleanups_oldest_seconds", "Age of the oldest cleanup that has not ended, by what it waits for", "reason",
            _oldest(waiting, self._clock()),
        )  # fmt: skip
        overdue = GaugeMetricFamily(f"{PREFIX}_cleanups_overdue", "Cleanups that are past their deadline")
        overdue.add_metric([], sum(map(_overdue, waiting)))
        yield overdue
        phases = Tally(compaction.status.phase.value for compaction in self._cache.compactions.all())
        yield _gauge("compactions", "Compactions by phase", "phase", phases.items())


class _Pools(Collector):
    """How long the oldest call of each pool has been running, computed on each scrape."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools

    def collect(self) -> Iterator[Metric]:
        """Yield the current values."""
        family = GaugeMetricFamily(
            f"{PREFIX}_pool_oldest_call_seconds",
            "For how long the oldest call of a warehouse's threads has been running, 0 if none runs",
            labels=["warehouse", "pool"],
        )
        for warehouse, purpose, load in self._pools.loads():
            family.add_metric([warehouse, purpose], load.oldest)
        yield family


def _gauge(name: str, text: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=[label])
    for value, number in values:
        family.add_metric([value], number)
    return family


def _oldest(waiting: Iterable[Cleanup], now: datetime) -> Iterator[tuple[str, float]]:
    oldest: dict[str, datetime] = {}
    for cleanup in waiting:
        reason = _reason(cleanup)
        oldest[reason] = min(oldest.get(reason, cleanup.meta.created), cleanup.meta.created)
    return ((reason, (now - created).total_seconds()) for reason, created in oldest.items())


def _reason(cleanup: Cleanup) -> str:
    condition = find_condition(cleanup.status.conditions, SUCCEEDED)
    return condition.reason if condition else "Pending"


def _overdue(cleanup: Cleanup) -> bool:
    condition = find_condition(cleanup.status.conditions, OVERDUE)
    return condition is not None and condition.status is ConditionStatus.TRUE
