"""Permissions: whether the operator's configuration permits a compaction or cleanup."""

from compaction_operator.api.compaction import Format, Readers, TableCompactionSpec
from compaction_operator.api.config import OperatorConfig, Warehouse
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.controller.kube.resources import Cleanup, Compaction
from compaction_operator.storage import StorageError, is_below


def refusal(compaction: Compaction, config: OperatorConfig) -> DriverResult | None:
    """Return why the configuration refuses this compaction, None if it permits it."""
    spec, namespace = compaction.spec, compaction.meta.namespace
    warehouse = config.warehouse(spec.warehouse)
    if warehouse is None:
        names = ", ".join(known.name for known in config.warehouses) or "none"
        return _refused(Reason.UNKNOWN_WAREHOUSE, f"unknown warehouse {spec.warehouse!r}; configured: {names}")
    if config.profile(spec.spark.profile) is None:
        names = ", ".join(known.name for known in config.profiles) or "none"
        return _refused(Reason.UNKNOWN_PROFILE, f"unknown profile {spec.spark.profile!r}; configured: {names}")
    if not warehouse.allows_namespace(namespace):
        return _refused(Reason.NOT_ALLOWED, f"namespace {namespace} may not use warehouse {spec.warehouse}")
    not_allowed = readers_refusal(spec.cleanup.readers, warehouse)
    if not_allowed is not None:
        return _refused(Reason.NOT_ALLOWED, f"cleanup.readers: {not_allowed}")
    return _wrong_format(spec) or _table_refusal(spec, warehouse)


def may_use(resource: Compaction | Cleanup, config: OperatorConfig) -> bool:
    """Whether the namespace of a compaction or cleanup may use the warehouse and database that it names."""
    spec = resource.spec
    return config.allows(spec.warehouse, namespace=resource.meta.namespace, database=spec.table.database)


def readers_refusal(readers: Readers, warehouse: Warehouse) -> str | None:
    """Return why a warehouse does not allow this rule for counting readers, None if it does.

    The strictest is always allowed.
    """
    allowed = {Readers.LOCKS_AND_TRANSACTIONS: None, **dict.fromkeys(warehouse.readers)}
    if readers in allowed:
        return None
    return f"{readers} is not allowed for warehouse {warehouse.name}; allowed: {', '.join(allowed)}"


def _wrong_format(spec: TableCompactionSpec) -> DriverResult | None:
    """Return the contradiction in a spec, if any; the API server reports it first if its schema is of this version."""
    fits = spec.type.table_format
    if spec.format not in (Format.AUTO, fits):
        return _refused(Reason.WRONG_FORMAT, f"type {spec.type} requires format {fits}, not {spec.format}")
    if spec.table.location is not None and fits is not Format.HUDI:
        return _refused(Reason.WRONG_FORMAT, "table.location is for Hudi tables only; use database and name")
    return None


def _table_refusal(spec: TableCompactionSpec, warehouse: Warehouse) -> DriverResult | None:
    location, database = spec.table.location, spec.table.database
    if location is None:
        if warehouse.allows_database(database):
            return None
        return _refused(Reason.NOT_ALLOWED, f"database {database} of warehouse {spec.warehouse} is not allowed")
    try:
        if any(is_below(location, folder) for folder in warehouse.hudi.locations):
            return None
    except StorageError as error:
        return _refused(Reason.NOT_ALLOWED, f"table.location {error}")
    allowed = ", ".join(warehouse.hudi.locations) or "nothing"
    message = f"table.location {location} is not allowed; warehouse {spec.warehouse} allows locations below: {allowed}"
    return _refused(Reason.NOT_ALLOWED, message)


def _refused(reason: Reason, message: str) -> DriverResult:
    return DriverResult(reason=reason, message=message)
