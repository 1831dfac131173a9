"""Prometheus metrics of the controller, updated as things happen. `gauges` has those computed on each scrape."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from compaction_operator import __version__
from compaction_operator.api.compaction import Totals
from compaction_operator.api.conditions import SUCCEEDED, find_condition
from compaction_operator.api.request import Reason
from compaction_operator.cleanup.deletion import PartitionDeletion
from compaction_operator.controller.answers import STILL_NEEDED
from compaction_operator.controller.gauges import PREFIX
from compaction_operator.controller.kube.resources import Cleanup, Compaction, ResourceKind

RATIO_BUCKETS = (0.5, 0.65, 0.85, 0.95, 0.98, 0.99, 1.0, 1.01, 1.02, 1.05, 1.15, 1.35, 2.0)
LOOK_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

disable_created_metrics()  # type: ignore[no-untyped-call] # a second series for each counter, which nothing reads


class Metrics:
    """Counters and gauges, each named after what it counts or says, and the registry of all metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"{PREFIX}_{name}", text, labels, registry=self.registry)

        gauge("build_info", "1, with the version of the operator", "version").labels(__version__).set(1)
        self.last_step = gauge("last_step_timestamp_seconds", "When the controller last looked for work that is due")
        self.metastore_up = gauge("metastore_up", "1 if a warehouse's metastore answers, 0 if not", "warehouse")

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
        for reason in Reason:  # NB: Prometheus sees an increase from 0 only if it saw the 0.
            self.attempts.labels(reason.value)
        self.reconcile_errors = counter("reconcile_errors", "Failed reconciles, which are tried again", "kind")
        for kind in (ResourceKind.COMPACTION, ResourceKind.CLEANUP, ResourceKind.POLICY):
            self.reconcile_errors.labels(kind.value)
        text = "1 if tables in a warehouse's folder cannot be published to safely, 0 if they can"
        self.store_unfit = gauge("store_unfit", text, "warehouse", "location")
        self.leader = gauge("leader", "1 if this replica leads, 0 if it stands by")
        self.look_seconds = Histogram(
            f"{PREFIX}_look_seconds",
            "Duration of a look at a warehouse's readers",
            ["warehouse"],
            registry=self.registry,
            buckets=LOOK_BUCKETS,
        )

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
