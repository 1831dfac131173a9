"""Permissions: whether the operator's configuration permits a compaction, cleanup or policy."""

from compaction_operator.api.compaction import Format, Readers, TableCompactionSpec
from compaction_operator.api.config import OperatorConfig, Warehouse
from compaction_operator.api.request import DriverResult, Reason, queue_compaction_name
from compaction_operator.controller.kube.resources import Cleanup, Compaction, Policy
from compaction_operator.storage import StorageError, is_below


def refusal(compaction: Compaction, config: OperatorConfig) -> DriverResult | None:
    """Return why the configuration refuses this compaction, None if it permits it."""
    spec = compaction.spec
    why = _common_refusal(
        config,
        namespace=compaction.meta.namespace,
        warehouse=spec.warehouse,
        profile=spec.spark.profile,
        readers=spec.cleanup.readers,
    )
    warehouse = config.warehouse(spec.warehouse)
    if why or warehouse is None:
        return why
    return _wrong_format(spec) or _table_refusal(spec, warehouse) or _queue_refusal(compaction, warehouse)


def policy_refusal(policy: Policy, config: OperatorConfig) -> DriverResult | None:
    """Return why the configuration refuses every compaction of a policy, None if it does not."""
    template = policy.spec.template
    return _common_refusal(
        config,
        namespace=policy.meta.namespace,
        warehouse=policy.spec.warehouse,
        profile=template.spark.profile,
        readers=template.cleanup.readers,
    )


def _common_refusal(
    config: OperatorConfig, *, namespace: str, warehouse: str, profile: str, readers: Readers
) -> DriverResult | None:
    known = config.warehouse(warehouse)
    if known is None:
        names = ", ".join(one.name for one in config.warehouses) or "none"
        return _refused(Reason.UNKNOWN_WAREHOUSE, f"unknown warehouse {warehouse!r}; configured: {names}")
    if config.profile(profile) is None:
        names = ", ".join(one.name for one in config.profiles) or "none"
        return _refused(Reason.UNKNOWN_PROFILE, f"unknown profile {profile!r}; configured: {names}")
    if not known.allows_namespace(namespace):
        return _refused(Reason.NOT_ALLOWED, f"namespace {namespace} may not use warehouse {warehouse}")
    not_allowed = readers_refusal(readers, known)
    return _refused(Reason.NOT_ALLOWED, f"cleanup.readers: {not_allowed}") if not_allowed else None


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
    return _refused(Reason.NOT_ALLOWED, f"table.location {location} is not allowed{_allowed_below(warehouse)}")


def _allowed_below(warehouse: Warehouse) -> str:
    """Return the rest of a refusal's message: where tables may be named by location, or how else to name them."""
    if warehouse.hudi.locations:
        return f"; warehouse {warehouse.name} allows locations below: {', '.join(warehouse.hudi.locations)}"
    lacking = f": warehouse {warehouse.name} lists no folder in hudi.locations"
    return f"{lacking}; name the table by database and name"


def _queue_refusal(compaction: Compaction, warehouse: Warehouse) -> DriverResult | None:
    """Return why a compaction may not work on the queue's entry that it names: only one name in one namespace may.

    So there is at most one for each entry, whoever creates it.
    """
    queue_id, meta = compaction.spec.queue_id, compaction.meta
    if queue_id is None:
        return None
    if warehouse.queue is None:
        return _refused(Reason.NOT_ALLOWED, f"warehouse {warehouse.name} names no pool of the compaction queue")
    wanted = f"{warehouse.queue.namespace}/{queue_compaction_name(warehouse.name, queue_id)}"
    if wanted == f"{meta.namespace}/{meta.name}":
        return None
    return _refused(Reason.NOT_ALLOWED, f"only {wanted} may work on entry {queue_id} of the compaction queue")


def _refused(reason: Reason, message: str) -> DriverResult:
    return DriverResult(reason=reason, message=message)
