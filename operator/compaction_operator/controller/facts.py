"""What receipts say of compactions and cleanups. Pure: resources in, drafts of receipts out."""

from datetime import datetime

from compaction_operator.api.compaction import TableCompactionStatus
from compaction_operator.api.conditions import SUCCEEDED, find_condition
from compaction_operator.controller.kube.resources import Cleanup, Compaction
from compaction_operator.controller.kube.times import rfc3339
from compaction_operator.receipts import Kind, Receipt, WaitedFor


def deletion_facts(cleanup: Cleanup, now: datetime) -> Receipt:
    """Return the receipt of a settled cleanup's pass that begins now, without what it deletes."""
    spec, status, baseline = cleanup.spec, cleanup.status, cleanup.status.baseline
    assert baseline is not None
    return Receipt(
        kind=Kind.DELETION,
        warehouse=spec.warehouse,
        table=str(spec.table.ref()),
        namespace=cleanup.meta.namespace,
        compaction=spec.compaction.name,
        compaction_uid=spec.compaction.uid,
        attempt=spec.compaction.attempt,
        reason="Obsolete",
        message=f"mode {spec.mode}, readers {spec.readers}",
        started=rfc3339(now),
        cleanup=cleanup.meta.name,
        cleanup_uid=cleanup.meta.uid,
        waited_for=WaitedFor(since=baseline.time, until=status.readers_gone_time, readers=status.waited_for),
    )


def compaction_facts(compaction: Compaction, ending: TableCompactionStatus) -> Receipt:
    """Return the receipt of a compaction that ends with that status."""
    spec, outcome = compaction.spec, find_condition(ending.conditions, SUCCEEDED)
    assert outcome is not None
    return Receipt(
        kind=Kind.COMPACTION,
        warehouse=spec.warehouse,
        table=str(spec.table),
        namespace=compaction.meta.namespace,
        compaction=compaction.meta.name,
        compaction_uid=compaction.meta.uid,
        attempt=ending.attempt,
        reason=outcome.reason,
        message=outcome.message,
        type=spec.type,
        started=ending.start_time,
        totals=ending.totals,
        forecast=ending.forecast,
        cpu_milliseconds=ending.cpu_milliseconds,
        hudi=ending.hudi,
    )
