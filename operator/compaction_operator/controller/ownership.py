"""Whose a resource is. Several operators may run in a cluster, each for the namespaces that its warehouses list."""

from dataclasses import dataclass
from datetime import datetime

from compaction_operator.api.config import OperatorConfig
from compaction_operator.controller.kube.resources import Cleanup, Compaction, Policy

NOTICE = 60.0
"""Seconds after which a resource that no operator has written to gets a note: its namespace is not served."""
BUSY_NOTICE = 1800.0
"""The same for a namespace that another operator handles: it may have thousands of others to look at first."""
NOT_SERVED = "NotServed"


@dataclass(frozen=True)
class Ownership:
    """What this operator handles: resources in namespaces that it serves, and those that it has handled before.

    It has to end what it began in a namespace that was taken off the list. All else may be another operator's: it is
    never written to, except to tell a user of a resource that no operator handles. `identity` is the operator's
    namespace, which it writes into each status; empty outside of a cluster.
    """

    config: OperatorConfig
    identity: str = ""

    def has(self, resource: Compaction | Cleanup | Policy) -> bool:
        """Whether this operator handles a resource."""
        if self.config.serves(resource.meta.namespace):
            return True
        if resource.status.operator is None:
            return _begun_by_an_older_version(resource)
        return resource.status.operator == self.identity

    def silence(self, resource: Compaction | Policy, now: datetime, *, handled: bool) -> float:
        """Return the seconds until a resource that no operator handles gets a note; 0 means now.

        `handled` means that another operator has handled a resource of its namespace.
        """
        notice = BUSY_NOTICE if handled else NOTICE
        return max(0.0, notice - (now - resource.meta.created).total_seconds())

    def not_served(self, namespace: str) -> str:
        """Return the text of the note."""
        served = sorted({name for warehouse in self.config.warehouses for name in warehouse.namespaces})
        names = ", ".join(served) or "none"
        return (
            f"no operator handles namespace {namespace} yet: a warehouse must list it; "
            f"the operator that reports this serves: {names}"
        )


def _begun_by_an_older_version(resource: Compaction | Cleanup | Policy) -> bool:
    """Whether an operator began its work on a resource before operators wrote who they are.

    NB: it must be ended: while one of a pair of directories is published, readers see wrong rows (hazard H3).
    """
    if isinstance(resource, Compaction):
        return resource.status.attempt > 0
    return isinstance(resource, Cleanup) and resource.settled
