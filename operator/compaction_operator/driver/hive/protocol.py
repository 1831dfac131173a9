"""The interface to the compaction steps that differ between Hive 3.1 and Hive 4."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from compaction_operator.acid.plan import Layout
from compaction_operator.api.cleanup import ObsoleteEntry, PartitionEntry
from compaction_operator.api.compaction import Totals
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.merge.partition import Prepared
from compaction_operator.metastore import Target


@dataclass(frozen=True)
class Staged:
    """A partition that is ready for publication, or that has nothing to compact (`prepared.plan.outputs` is empty).

    `txn_id` and `queue_id` are the transaction and queue entry that the driver holds for it on Hive 4.
    """

    target: Target
    prepared: Prepared
    totals: Totals = field(default_factory=Totals)
    txn_id: int | None = None
    queue_id: int | None = None

    @property
    def matters(self) -> bool:
        """Whether the plan has outputs or obsolete entries. Only then the partition gets a journal entry."""
        return bool(self.prepared.plan.outputs or self.prepared.plan.obsolete)

    def entry(self) -> PartitionEntry:
        """Return the partition's journal entry."""
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
"""Gives a partition up: removes its staging and lets the others continue.

Raises the error when it ends the whole attempt.
"""


class Held(Protocol):
    """The locks and claims that a driver holds for one batch of partitions, and the steps that depend on them.

    A step gives up each partition that fails in it and leaves the partition out of its result.
    """

    @property
    def lock_ids(self) -> Sequence[int]:
        """The lock ids that the journal records as the driver's own."""
        ...

    def prepare(self, opened: Sequence[Target]) -> list[tuple[Target, Prepared]]:
        """List and plan the partitions and cut their work. Each one has its staging folder and is fenced."""
        ...

    def ready(self, staged: Sequence[Staged]) -> list[Staged]:
        """Return the verified and assembled partitions that may be published; runs before the journal is written."""
        ...

    def confirm(self, staged: Sequence[Staged]) -> list[Staged]:
        """Return the partitions that may still be published; runs right before the journal is written.

        The journal names no other partition. Raises JobError when nothing may be published.
        """
        ...

    def publish(self, item: Staged) -> None:
        """Publish a partition's outputs, or close the claim of a partition that has none.

        Raises JobError, StorageError or MetastoreError. NB: the caller publishes partitions with two renames last.
        """
        ...

    def look_again(self, published: Sequence[Staged]) -> None:
        """Give up each published partition that another compaction overlaps; runs after all publications."""
        ...

    def give_up(self, target: Target, error: JobError) -> None:
        """Give up a partition and release everything held for it; raises the error when it ends the attempt."""
        ...


class HiveProtocol(Protocol):
    """The compaction protocol of one Hive generation for one table; an instance lives as long as its driver."""

    @property
    def layout(self) -> Layout:
        """The names and side files of output directories."""
        ...

    @property
    def batch_partitions(self) -> int:
        """The maximum number of partitions in a batch."""
        ...

    def batch(self, give_up: GiveUp) -> AbstractContextManager[Held]:
        """Acquire what a batch needs and release it in every case; raises JobError when it cannot be acquired."""
        ...

    def close(self) -> None:
        """Release what is held from one batch to the next."""
        ...
