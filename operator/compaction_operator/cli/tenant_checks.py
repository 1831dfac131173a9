"""Checks of the namespaces of warehouses: is there what drivers mount, and the account that they run as?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compaction_operator.api.config import OperatorConfig, SparkProfile, Warehouse
from compaction_operator.cli.findings import Finding, Level, Report, Subject

if TYPE_CHECKING:
    from compaction_operator.cli.cluster import Cluster

_MAKE = "create it there, or correct its name in the values: it has the same name in each namespace of the warehouse"
_ACCOUNT = "run the upgrade again after you created the namespace (docs/install.md, Rights), or create the account"
_REBIND = "no driver can start: kubectl describe pvc {name} -n {namespace} says what became of its volume"
_UNBOUND = "nothing if its storage class binds at the first pod, otherwise: kubectl describe pvc {name} -n {namespace}"
_ELSEWHERE = "run doctor with --config and a kubeconfig that may read these, or look at them yourself"


@dataclass(frozen=True)
class Need:
    """A core/v1 object that each namespace of a warehouse must have, and what to do where it is missing."""

    what: str
    plural: str
    name: str
    change: str = _MAKE

    def __str__(self) -> str:
        return f"{self.what} {self.name}"

    def right(self, namespace: str) -> Mapping[str, str]:
        """Return the right to read it, as the `resourceAttributes` of a review."""
        asked = {"group": "", "resource": self.plural, "subresource": "", "verb": "get"}
        return {**asked, "namespace": namespace, "name": self.name}


def needs_of(warehouse: Warehouse, profiles: Sequence[SparkProfile]) -> Iterator[Need]:
    """Yield what drivers of a warehouse need in their namespace, each once."""
    if warehouse.volume:
        yield Need("claim", "persistentvolumeclaims", warehouse.volume.claim_name)
    for name in dict.fromkeys(profile.service_account for profile in profiles):
        yield Need("service account", "serviceaccounts", name, _ACCOUNT)
    if warehouse.stores.hdfs:
        yield Need("ConfigMap", "configmaps", warehouse.stores.hdfs.config_map)
    secrets = filter(None, (warehouse.metastore.secret, *warehouse.stores.secrets().values()))
    for name in dict.fromkeys(secret.name for secret in secrets):
        yield Need("secret", "secrets", name)


def check_tenants(cluster: "Cluster", config: OperatorConfig) -> Iterator[Finding]:
    """Yield a finding for each need in each namespace, and one for all that the account may not read.

    Raises KubeError if the API server does not answer.
    """
    unread: dict[str, None] = {}
    for warehouse in config.warehouses:
        report, needs = Report(Subject.NAMESPACE, warehouse.name), tuple(needs_of(warehouse, config.profiles))
        for namespace in warehouse.namespaces:
            for need in needs:
                if cluster.may(need.right(namespace)):
                    found = cluster.look_up(need.plural, namespace, need.name)
                    yield _judged(report, need, namespace, found)
                else:
                    unread[f"{need} in namespace {namespace}"] = None
    if unread:
        message = f"{cluster.account} may not read, so not checked: {', '.join(unread)}"
        # The controller's account needs no such right, so in its pod this is no fault.
        level = Level.INFO if cluster.in_pod else Level.WARNING
        yield Report(Subject.NAMESPACE).found(level, message, _ELSEWHERE)


def _judged(report: Report, need: Need, namespace: str, found: Mapping[str, Any] | None) -> Finding:
    if found is None:
        return report.failed(f"{need} is missing in namespace {namespace}", need.change)
    phase = found.get("status", {}).get("phase", "Bound") if need.plural == "persistentvolumeclaims" else "Bound"
    if phase == "Bound":
        return report.ok(f"{need} is in namespace {namespace}")
    level, change = (Level.WARNING, _UNBOUND) if phase == "Pending" else (Level.FAILED, _REBIND)
    words = {"name": need.name, "namespace": namespace}
    return report.found(level, f"{need} in namespace {namespace} is {phase}", change.format(**words))
