"""A partition that is ready to be published, and its entry in the journal."""

from dataclasses import dataclass, field

from compaction_operator.api.cleanup import ObsoleteEntry, PartitionEntry
from compaction_operator.api.compaction import Totals
from compaction_operator.driver.merge.partition import Prepared
from compaction_operator.metastore.resolve import Target


@dataclass(frozen=True)
class Staged:
    """A partition that is ready to be published, or that had nothing to do (`prepared.plan.outputs` is empty).

    `txn_id` and `queue_id` are what its driver holds for it on Hive 4.
    """

    target: Target
    prepared: Prepared
    totals: Totals = field(default_factory=Totals)
    txn_id: int | None = None
    queue_id: int | None = None

    @property
    def matters(self) -> bool:
        """Whether there is anything to be published or obsolete, and so an entry in the journal."""
        return bool(self.prepared.plan.outputs or self.prepared.plan.obsolete)

    def entry(self) -> PartitionEntry:
        """Return what the journal says of it."""
        plan = self.prepared.plan
        return PartitionEntry(
            partition=self.target.partition,
            location=self.target.location,
            create_time=self.target.create_time,
            txn_id=self.txn_id,
            queue_id=self.queue_id,
            outputs=tuple(output.name for output in plan.outputs),
            highest_write_id=plan.highest_write_id,
            obsolete=tuple(ObsoleteEntry(name=entry.name, reason=entry.reason) for entry in plan.obsolete),
            totals=self.totals,
        )
