"""Checks of the rights of the account that asks: has it those that the chart gives to the controller?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compaction_operator.api.config import OperatorConfig
from compaction_operator.api.model import GROUP
from compaction_operator.cli.findings import Finding, Report, Subject

if TYPE_CHECKING:
    from compaction_operator.cli.cluster import Cluster

_KINDS = ("tablecompactions", "compactioncleanups", "compactionpolicies")
_CHANGE = "install the chart's roles (docs/install.md, Rights), or run the upgrade again after you created a namespace"


@dataclass(frozen=True)
class Rule:
    """Verbs on resources of an API group, as a role has them; `name` is that of a single resource."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    name: str = ""

    def rights(self, namespace: str) -> Iterator[dict[str, str]]:
        """Yield each right as the `resourceAttributes` of a review; without a namespace it is meant for all of them."""
        for resource in self.resources:
            plural, _, below = resource.partition("/")
            for verb in self.verbs:
                asked = {"group": self.group, "resource": plural, "subresource": below, "verb": verb}
                yield {**asked, "namespace": namespace, "name": self.name}


WATCHED = (
    Rule(GROUP, _KINDS, ("list", "watch")),
    Rule(GROUP, tuple(f"{kind}/status" for kind in _KINDS), ("update",)),
    Rule(GROUP, ("compactioncleanups",), ("delete",)),
    Rule("batch", ("jobs",), ("get", "list", "watch")),
    Rule("", ("pods",), ("list", "watch")),
    Rule("", ("events",), ("create",)),
)
"""Wherever the controller watches."""
EVERYWHERE = (*WATCHED, Rule("apiextensions.k8s.io", ("customresourcedefinitions",), ("list", "watch")))
IN_EACH_NAMESPACE = (
    Rule("batch", ("jobs",), ("create", "delete")),
    Rule("", ("events",), ("list",)),
    Rule(GROUP, ("tablecompactions",), ("create", "delete")),
)


def of_the_lease(name: str) -> Sequence[Rule]:
    """Return the rights that the election takes in the controller's own namespace."""
    group, leases = "coordination.k8s.io", ("leases",)
    return Rule(group, leases, ("create",)), Rule(group, leases, ("get", "update"), name)


def check_rights(cluster: "Cluster", config: OperatorConfig) -> Iterator[Finding]:
    """Yield a finding for all namespaces together, one for each that a warehouse lists, and one for the election.

    Where each namespace is watched by itself, there is none for all together. Raises KubeError if the API server does
    not answer.
    """
    whole = config.watched() is None
    if whole:
        yield _judged(Report(Subject.RIGHTS), cluster, EVERYWHERE, "")
    if config.leader_election is not None:
        rules = of_the_lease(config.leader_election.lease)
        yield _judged(Report(Subject.RIGHTS), cluster, rules, cluster.namespace)
    for warehouse in config.warehouses:
        for namespace in warehouse.namespaces:
            rules = IN_EACH_NAMESPACE if whole else (*IN_EACH_NAMESPACE, *WATCHED)
            yield _judged(Report(Subject.RIGHTS, warehouse.name), cluster, rules, namespace)


def _judged(report: Report, cluster: "Cluster", rules: Sequence[Rule], namespace: str) -> Finding:
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    asked = [right for rule in rules for right in rule.rights(namespace)]
    lacking = [right for right in asked if not cluster.may(right)]
    if not lacking:
        return report.ok(f"{cluster.account} has the {len(asked)} rights of the controller {where}")
    return report.failed(f"{cluster.account} may not {', '.join(map(_words, lacking))} {where}", _CHANGE)


def _words(right: Mapping[str, str]) -> str:
    below = f"/{right['subresource']}" if right["subresource"] else ""
    return f"{right['verb']} {right['resource']}{below}"
