"""The TableCompaction for an entry of the compaction queue. Pure."""

from typing import Any

from compaction_operator.api import compaction as compaction_api
from compaction_operator.api.compaction import TableCompactionSpec, TableRef
from compaction_operator.api.config import QueuePool
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.metastore import QueueEntry
from compaction_operator.policy.candidates import spec_of

LABEL_POOL = "compaction.dev/queue-pool"
"""Label of each TableCompaction for an entry of the queue, for people to select by."""


def compaction_manifest(entry: QueueEntry, queue: QueuePool, *, warehouse: str, name: str) -> dict[str, Any]:
    """Return the TableCompaction for an entry, whose type must be known."""
    template = queue.template
    spec = TableCompactionSpec(
        warehouse=warehouse,
        table=TableRef(database=entry.database, name=entry.table),
        partitions=_partitions(entry),
        type=entry.type,
        cleanup=template.cleanup,
        spark=template.spark,
        retry=template.retry,
        allow_auto_compaction=template.allow_auto_compaction,
        deadline=template.deadline,
        queue_id=entry.queue_id,
    )
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": compaction_api.KIND,
        "metadata": {"name": name, "namespace": queue.namespace, "labels": {LABEL_POOL: queue.pool}},
        "spec": spec.to_json(),
    }


def _partitions(entry: QueueEntry) -> tuple[str, ...]:
    if entry.partition is None:
        return ()
    keys = tuple(pair.partition("=")[0] for pair in entry.partition.split("/"))
    return (spec_of(entry.partition, keys),)
