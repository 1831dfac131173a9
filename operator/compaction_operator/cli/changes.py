"""The verbs `approve`, `suspend` and `resume`: the changes of a spec that docs/operate.md describes."""

from collections.abc import Iterator

import click

from compaction_operator.api.cleanup import KIND as CLEANUP_KIND
from compaction_operator.api.cleanup import CompactionCleanupSpec
from compaction_operator.api.compaction import KIND as COMPACTION_KIND
from compaction_operator.api.compaction import CleanupMode
from compaction_operator.api.model import counted
from compaction_operator.api.policy import KIND as POLICY_KIND
from compaction_operator.cli.options import Named, ResourceName, context_option, namespace_option
from compaction_operator.controller.kube.resources import Cleanup, Compaction, Policy
from compaction_operator.errors import OperatorError

_HELD = {
    COMPACTION_KIND: "no attempt is started, and a running one ends between two publications",
    CLEANUP_KIND: "nothing is deleted",
    POLICY_KIND: "no look is made and nothing is created; compactions that it has created go on",
}


class NoEffectError(OperatorError):
    """A change would have no effect; the message says why."""


@click.command()
@click.argument("cleanup", metavar="ccl/NAME", type=ResourceName(CLEANUP_KIND))
@namespace_option
@context_option
def approve(cleanup: Named, *, namespace: str | None, context: str | None) -> None:
    """Let a cleanup with mode Plan delete what it lists."""
    _change(cleanup, namespace=namespace, context=context, field="approved", value=True)


@click.command()
@click.argument("resource", metavar="KIND/NAME", type=ResourceName(COMPACTION_KIND, POLICY_KIND, CLEANUP_KIND))
@namespace_option
@context_option
def suspend(resource: Named, *, namespace: str | None, context: str | None) -> None:
    """Hold a compaction (tcomp), a policy (tcp) or the deletion of a cleanup (ccl)."""
    _change(resource, namespace=namespace, context=context, field="suspend", value=True)


@click.command()
@click.argument("resource", metavar="KIND/NAME", type=ResourceName(COMPACTION_KIND, POLICY_KIND, CLEANUP_KIND))
@namespace_option
@context_option
def resume(resource: Named, *, namespace: str | None, context: str | None) -> None:
    """Let a suspended compaction, policy or cleanup go on."""
    _change(resource, namespace=namespace, context=context, field="suspend", value=False)


def _change(resource: Named, *, namespace: str | None, context: str | None, field: str, value: bool) -> None:
    from compaction_operator.cli.cluster import Cluster, read_one  # noqa: PLC0415 - Kubernetes

    cluster = Cluster(context)
    known, raw = read_one(cluster, resource.kind, namespace=namespace, name=resource.name)
    if why := no_effect(known, field=field, value=value):
        raise NoEffectError(f"{known.meta.namespace}/{known.meta.name}: {why}")
    cluster.change(resource.kind, raw, {field: value})
    for line in outcome(known, field=field, value=value):
        click.echo(line)


def no_effect(known: Compaction | Cleanup | Policy, *, field: str, value: bool) -> str | None:
    """Return why a change of the spec would have no effect, None if it has one."""
    if not isinstance(known, Policy) and known.ended:
        return f"it has ended ({known.status.phase}): nothing of it changes any more"
    if field == "approved" and isinstance(known.spec, CompactionCleanupSpec):
        if known.spec.mode is not CleanupMode.PLAN:
            return f"its mode is {known.spec.mode}: only a cleanup with mode Plan waits for approval"
        return "it is approved already" if known.spec.approved else None
    if known.spec.suspend is value:
        return "it is suspended already" if value else "it is not suspended"
    return None


def outcome(known: Compaction | Cleanup | Policy, *, field: str, value: bool) -> Iterator[str]:
    """Yield what a change has done, and what it leads to."""
    where = f"{known.meta.namespace}/{known.meta.name}"
    if field == "approved" and isinstance(known, Cleanup):
        yield f"{where} approved"
        yield from _planned(known)
    elif value:
        yield f"{where} suspended: {_HELD[known.kind]}"
    else:
        yield f"{where} goes on"


def _planned(cleanup: Cleanup) -> Iterator[str]:
    """Yield what a cleanup listed. NB: it computes again what it deletes."""
    for part in cleanup.status.partitions:
        for name in part.planned:
            yield f"  {part.partition or 'table'}: {name}"
    count = sum(len(part.planned) for part in cleanup.status.partitions)
    if cleanup.status.listed_time is None:
        yield "it has listed nothing yet: it deletes what is obsolete once its older readers are gone"
    else:
        yield f"of {counted(count, 'name')} it deletes those that are obsolete at that moment"
