"""Whether the operator's configuration lets a compaction run."""

from compaction_operator.api.compaction import Format, Readers, TableCompactionSpec
from compaction_operator.api.config import OperatorConfig, Warehouse
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.controller.kube.resources import Cleanup, Compaction
from compaction_operator.storage import StorageError, is_below


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
    not_allowed = readers_refusal(spec.cleanup.readers, warehouse)
    if not_allowed is not None:
        return _refused(Reason.NOT_ALLOWED, f"cleanup.readers: {not_allowed}")
    return _wrong_format(spec) or _table_refusal(spec, warehouse)


def may_use(resource: Compaction | Cleanup, config: OperatorConfig) -> bool:
    """Whether the namespace of a compaction or cleanup may use its warehouse and database."""
    spec = resource.spec
    return config.allows(spec.warehouse, namespace=resource.meta.namespace, database=spec.table.database)


def readers_refusal(readers: Readers, warehouse: Warehouse) -> str | None:
    """Return why a warehouse's cleanups may not go by that rule of who counts as a reader; the strictest one may."""
    allowed = {Readers.LOCKS_AND_TRANSACTIONS: None, **dict.fromkeys(warehouse.readers)}
    if readers in allowed:
        return None
    return f"{readers} is not allowed for warehouse {warehouse.name}; allowed: {', '.join(allowed)}"


def _wrong_format(spec: TableCompactionSpec) -> DriverResult | None:
    """Return what does not go together in a spec; the API server says so first, where its schema is of this version."""
    fits = spec.type.table_format
    if spec.format not in (Format.AUTO, fits):
        return _refused(Reason.WRONG_FORMAT, f"type {spec.type} is for format {fits}, not for {spec.format}")
    if spec.table.location is not None and fits is not Format.HUDI:
        return _refused(Reason.WRONG_FORMAT, "table.location is for Hudi tables: name database and name")
    return None


def _table_refusal(spec: TableCompactionSpec, warehouse: Warehouse) -> DriverResult | None:
    location, database = spec.table.location, spec.table.database
    if location is None:
        if warehouse.allows_database(database):
            return None
        return _refused(Reason.NOT_ALLOWED, f"database {database} of warehouse {spec.warehouse} may not be compacted")
    try:
        if any(is_below(location, folder) for folder in warehouse.hudi.locations):
            return None
    except StorageError as error:
        return _refused(Reason.NOT_ALLOWED, f"table.location {error}")
    allowed = ", ".join(warehouse.hudi.locations) or "nothing"
    message = f"table.location {location} may not be compacted; of warehouse {spec.warehouse} may, below: {allowed}"
    return _refused(Reason.NOT_ALLOWED, message)


def _refused(reason: Reason, message: str) -> DriverResult:
    return DriverResult(reason=reason, message=message)
