"""Steps of a compaction that differ between Hive 3.1 and Hive 4, as the flow asks for them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from compaction_operator.acid.plan import Layout
from compaction_operator.api.cleanup import ObsoleteEntry, PartitionEntry
from compaction_operator.api.compaction import Totals
from compaction_operator.driver.errors import JobError
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


GiveUp = Callable[[Target, JobError], None]
"""Gives a partition up: its staging goes, the others go on. Raises the error when it ends the whole attempt."""


class Held(Protocol):
    """What a driver holds in the metastore for one batch of partitions, and the steps that depend on it.

    A partition that fails in a step is given up there and left out of what the step returns.
    """

    @property
    def lock_ids(self) -> Sequence[int]:
        """The locks that the journal names as the driver's own."""
        ...

    def prepare(self, opened: Sequence[Target]) -> list[tuple[Target, Prepared]]:
        """List and plan partitions whose staging is made and which are fenced, and cut their work."""
        ...

    def ready(self, staged: Sequence[Staged]) -> list[Staged]:
        """Return, before the journal is written, what may be published of all that is verified and assembled."""
        ...

    def confirm(self, staged: Sequence[Staged]) -> list[Staged]:
        """Return what may be published still, right before the journal is written: that names nothing else.

        Raises JobError when nothing may be.
        """
        ...

    def publish(self, item: Staged) -> None:
        """Make a partition's outputs count, or end what was begun for one that has none.

        Raises JobError, StorageError or MetastoreError. NB: what needs two renames comes last.
        """
        ...

    def look_again(self, published: Sequence[Staged]) -> None:
        """Give up, when all is published, what another compaction turned out to lie across."""
        ...

    def give_up(self, target: Target, error: JobError) -> None:
        """Give a partition up, with all that is held for it; raises the error when it ends the attempt."""
        ...


class HiveProtocol(Protocol):
    """How a table of one generation of Hive is compacted; an instance lives as long as its driver."""

    @property
    def layout(self) -> Layout:
        """How outputs are named and what is in them."""
        ...

    @property
    def batch_partitions(self) -> int:
        """How many partitions are compacted at a time."""
        ...

    def batch(self, give_up: GiveUp) -> AbstractContextManager[Held]:
        """Hold what a batch needs, and end it whatever happens; raises JobError when it cannot be had."""
        ...

    def close(self) -> None:
        """Give back what is held on from one batch to the next."""
        ...
