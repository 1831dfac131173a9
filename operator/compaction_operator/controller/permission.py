"""Whether the operator's configuration lets a compaction run."""

from compaction_operator.api.config import OperatorConfig
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.controller.resources import Compaction


def refusal(compaction: Compaction, config: OperatorConfig) -> DriverResult | None:
    """Return why the configuration does not let this compaction run, None when it does."""
    spec, namespace = compaction.spec, compaction.meta.namespace
    warehouse = config.warehouse(spec.warehouse)
    if warehouse is None:
        names = ", ".join(known.name for known in config.warehouses) or "none"
        return _refused(Reason.UNKNOWN_WAREHOUSE, f"no warehouse is called {spec.warehouse!r}; there is: {names}")
    if config.profile(spec.spark.profile) is None:
        names = ", ".join(known.name for known in config.profiles) or "none"
        return _refused(Reason.UNKNOWN_PROFILE, f"no profile is called {spec.spark.profile!r}; there is: {names}")
    if not warehouse.allows_namespace(namespace):
        return _refused(Reason.NOT_ALLOWED, f"namespace {namespace} may not use warehouse {spec.warehouse}")
    if not warehouse.allows_database(spec.table.database):
        database = spec.table.database
        return _refused(Reason.NOT_ALLOWED, f"database {database} of warehouse {spec.warehouse} may not be compacted")
    return None


def _refused(reason: Reason, message: str) -> DriverResult:
    return DriverResult(reason=reason, message=message)
