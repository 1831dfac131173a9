"""The interface to the compaction steps that differ between Hive 3.1 and Hive 4."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from typing import Self, TypeVar

from compaction_operator.api.cleanup import ObsoleteEntry, PartitionEntry, Upload
from compaction_operator.api.compaction import Forecast, Totals
from compaction_operator.driver.errors import PARTITION_ERRORS, JobError, at_location
from compaction_operator.driver.hive.context import DriverContext
from compaction_operator.driver.hive.driver_locks import Locks
from compaction_operator.driver.merge.calibration import stored_factor
from compaction_operator.driver.merge.forecast import cpu_of, forecast_of
from compaction_operator.driver.merge.partition import Merged, OpenTarget, Prepared, totals_of
from compaction_operator.storage import Silences

T = TypeVar("T")


@dataclass(frozen=True)
class Failed:
    """A partition that cannot be compacted now; the others continue."""

    target: OpenTarget
    error: JobError


def failed_at(target: OpenTarget, error: Exception) -> Failed:
    """Return the failed partition with an error whose message starts with its location."""
    return Failed(target, at_location(error, target.location))


def each(targets: Iterable[OpenTarget], step: Callable[[OpenTarget], T]) -> Generator[Failed, None, list[T]]:
    """Do a step for each target; yield those for which it fails and return the results of the others.

    NB: a target fails without its step once its storage has stopped answering: each call would take its time-out.
    """
    done, silences = [], Silences()
    for target in targets:
        try:
            with silences.asked(target.storage, target.location):
                done.append(step(target))
        except (JobError, *PARTITION_ERRORS) as error:
            yield failed_at(target, error)
    return done


@dataclass(frozen=True)
class Staged(Prepared):
    """A partition that is ready for publication, or that has nothing to compact (`plan.outputs` is empty).

    `uploads` are those of its outputs, where the store cannot rename. `txn_id` and `queue_id` are the transaction and
    queue entry that the driver holds for it on Hive 4.
    """

    totals: Totals = field(default_factory=Totals)
    forecast: Forecast = field(default_factory=Forecast)
    cpu_milliseconds: int = 0
    uploads: tuple[Upload, ...] = ()
    txn_id: int | None = None
    queue_id: int | None = None

    @classmethod
    def of(cls, prepared: Prepared) -> Self:
        """Return what was prepared; without more it has no outputs."""
        return cls(**{one.name: getattr(prepared, one.name) for one in fields(Prepared)})

    @classmethod
    def merged(cls, merged: Merged, uploads: tuple[Upload, ...]) -> Self:
        """Return what was merged, with the numbers and uploads of its outputs."""
        return replace(
            cls.of(merged.prepared),
            totals=totals_of(merged),
            forecast=forecast_of(merged, factor=stored_factor()),
            cpu_milliseconds=cpu_of(merged),
            uploads=uploads,
        )

    @property
    def matters(self) -> bool:
        """Whether the plan has outputs or obsolete entries. Only then the partition gets a journal entry."""
        return bool(self.plan.outputs or self.plan.obsolete)

    def entry(self) -> PartitionEntry:
        """Return the partition's journal entry."""
        return PartitionEntry(
            partition=self.target.partition,
            location=self.target.location,
            create_time=self.target.create_time,
            txn_id=self.txn_id,
            queue_id=self.queue_id,
            outputs=tuple(output.name for output in self.plan.outputs),
            uploads=self.uploads,
            highest_write_id=self.plan.highest_write_id,
            obsolete=tuple(ObsoleteEntry(name=entry.name, reason=entry.reason) for entry in self.plan.obsolete),
            totals=self.totals,
            forecast=self.forecast,
            cpu_milliseconds=self.cpu_milliseconds,
        )


class Held(ABC):
    """The locks and claims that a driver holds for one batch of partitions, and the steps that depend on them.

    A step yields each partition that fails in it as soon as it fails. The caller gives it up before the step goes on:
    it calls `release`, removes the staging, and ends the step and the attempt if the error is fatal.
    """

    @property
    @abstractmethod
    def lock_ids(self) -> Sequence[int]:
        """The lock ids that the journal records as the driver's own."""

    @abstractmethod
    def prepare(self, targets: Sequence[OpenTarget]) -> Iterator[Prepared | Failed]:
        """List and plan the partitions and cut their work. Each one has its staging folder and is fenced."""

    def ready(self, staged: Sequence[Staged]) -> Iterator[Staged | Failed]:
        """Yield the verified and assembled partitions that may be published; runs before the journal is written.

        All of them on Hive 4, because existing snapshots do not see what a later commit publishes.
        """
        yield from staged

    @abstractmethod
    def confirm(self, staged: Sequence[Staged]) -> Iterator[Staged | Failed]:
        """Yield the partitions that may still be published; runs right before the journal is written.

        The journal names no other partition. Raises JobError when nothing may be published.
        """

    @abstractmethod
    def publish(self, item: Staged) -> None:
        """Publish a partition's outputs, or close the claim of a partition that has none.

        Raises JobError, StorageError or MetastoreError. NB: the caller publishes partitions with two renames last.
        """

    def look_again(self, published: Sequence[Staged]) -> Iterator[Failed]:  # noqa: ARG002 - for Hive 3.1
        """Yield each published partition that another compaction overlaps; runs after all publications.

        None on Hive 4: while the queue entry is open, no other client compacts the partition.
        """
        return iter(())

    def release(self, failed: Failed) -> None:  # noqa: B027 - on Hive 3.1 the batch has one lock for all
        """Release everything held for a partition that is given up."""


class HiveProtocol(ABC):
    """The compaction protocol of one Hive generation for one table; an instance lives as long as its driver."""

    batch_partitions: int
    """The maximum number of partitions in a batch."""

    def __init__(self, attempt: DriverContext, locks: Locks) -> None:
        self.attempt = attempt
        self.locks = locks

    @abstractmethod
    def batch(self) -> AbstractContextManager[Held]:
        """Acquire what a batch needs and release it in every case; raises JobError when it cannot be acquired."""

    def close(self) -> None:
        """Release the lock that is held from one batch to the next."""
        self.locks.release()
