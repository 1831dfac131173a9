"""Which operator a resource belongs to. Each handles the namespaces that its warehouses list."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from compaction_operator.api.compaction import ANNOTATION_OPERATOR
from compaction_operator.api.config import OperatorConfig
from compaction_operator.controller.kube.resources import Cleanup, Compaction, Policy

NOTICE = 60.0
"""Seconds after which a resource that no operator has written to gets a note: its namespace is not served."""
BUSY_NOTICE = 1800.0
"""The same for a namespace that another operator handles: it may have thousands of others to look at first."""
REMINDER = 3600.0
"""Seconds between two notes about what is left to another operator: the API server keeps an event for an hour."""
NOT_SERVED = "NotServed"
HANDLED_BY_ANOTHER = "HandledByAnother"
UNCLAIM = f"kubectl annotate tcomp {{name}} -n {{namespace}} {ANNOTATION_OPERATOR}-"
"""The command that frees a compaction which an operator has created, and no operator has handled."""


@dataclass(frozen=True)
class Ownership:
    """What this operator handles: resources in namespaces that it serves, and those that it has handled before.

    It has to end what it began in a namespace that was taken off the list. All else may be another operator's: it is
    never written to, except to tell a user of a resource that no operator handles. What names another operator stays
    with that one, even in a namespace that both serve: their warehouses of one name may have different metastores, and
    in the wrong one a table has no readers (hazards H1 and H2). `takeOver` in the configuration is the way around.
    What an operator creates names it in an annotation, which counts until one has written to the resource. NB: users
    can write annotations. So one makes operators leave a resource alone, and never gives one a namespace that it does
    not serve.
    `identity` is the operator's namespace, which it writes into each status; empty outside of a cluster. `owner_of`
    returns the compaction that a cleanup names, if it is known. `sees` is whether a namespace is watched now: what is
    known of others may be out of date, so nothing there is handled meanwhile.
    """

    config: OperatorConfig
    identity: str = ""
    owner_of: Callable[[Cleanup], Compaction | None] = lambda _: None
    sees: Callable[[str], bool] = lambda _: True

    def has(self, resource: Compaction | Cleanup | Policy) -> bool:
        """Whether this operator handles a resource now."""
        if not self.sees(resource.meta.namespace):
            return False
        if self.config.serves(resource.meta.namespace):
            operator = self._operator_of(resource)
            return operator in (None, self.identity, *self.config.take_over)
        return self._handler_of(resource) == self.identity != ""

    def left(self, resource: Compaction | Cleanup | Policy) -> str | None:
        """Return why a resource in a namespace that this operator serves is left to another one; None if it is not."""
        name, namespace = resource.meta.name, resource.meta.namespace
        operator = self._operator_of(resource)
        if operator is None or self.has(resource) or not (self.config.serves(namespace) and self.sees(namespace)):
            return None
        or_free_it = "" if self._handler_of(resource) else f", or: {UNCLAIM.format(name=name, namespace=namespace)}"
        return (
            f"the operator of namespace {operator} handles this, so that of namespace {self.identity} does not: "
            f"take namespace {namespace} off one of their lists; only if the other one was removed, list "
            f"{operator} under takeOver in the Helm values of the one that remains{or_free_it}"
        )

    def _operator_of(self, resource: Compaction | Cleanup | Policy) -> str | None:
        """Return the namespace of the operator that handles a resource, or has created it to handle it."""
        handler = self._handler_of(resource)
        return resource.created_by if handler is None and isinstance(resource, Compaction) else handler

    def _handler_of(self, resource: Compaction | Cleanup | Policy) -> str | None:
        """Return the namespace of the operator that handles a resource: the first that wrote to it.

        If a journal does not say which, as older drivers and CRDs leave that out, it is of that of its compaction.
        """
        if resource.operator is not None or not isinstance(resource, Cleanup):
            return resource.operator
        owner = self.owner_of(resource)
        return None if owner is None else owner.status.operator

    def silence(self, resource: Compaction | Policy, now: datetime, *, handled: bool) -> float:
        """Return the seconds until a resource that no operator handles gets a note; 0 means now.

        `handled` means that another operator has handled a resource of its namespace.
        """
        notice = BUSY_NOTICE if handled else NOTICE
        return max(0.0, notice - (now - resource.meta.created).total_seconds())

    def not_served(self, namespace: str) -> str:
        """Return the text of the note."""
        names = ", ".join(self.config.namespaces()) or "none"
        return (
            f"no operator handles namespace {namespace} yet: a warehouse must list it; "
            f"the operator that reports this serves: {names}"
        )
