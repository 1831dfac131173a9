"""What to do next about a CompactionCleanup: one pure function of its status and of what was seen of the world.

It needs neither its compaction nor its Job to exist. The way: the attempt's Job has ended -> settled (fenced, published
states computed, reader baseline taken, all stored at once and never again) -> readers from before gone -> grace period
over -> deleted. Whatever fails is tried again for ever, and the conditions say why.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from compaction_operator.api.cleanup import (
    MAX_BLOCKERS,
    Blocker,
    CleanupPhase,
    CompactionCleanupStatus,
    PartitionEntry,
    PartitionStatus,
    PublishedState,
    ReaderBaseline,
)
from compaction_operator.api.conditions import Condition, ConditionStatus, find_condition, with_condition
from compaction_operator.api.model import counted
from compaction_operator.cleanup.deletion import PartitionDeletion
from compaction_operator.cleanup.gate import grace_left
from compaction_operator.controller.events import Event, EventType
from compaction_operator.controller.gatekeeper import Look, identities
from compaction_operator.controller.jobs import JobView
from compaction_operator.controller.resources import Cleanup
from compaction_operator.controller.times import backed_off, rfc3339

PUBLISHED = "Published"
READERS_GONE = "ReadersGone"
DELETED = "Deleted"
SUCCEEDED = "Succeeded"

JOB_CHECK = 30.0
RETRY = 1.0
RETRY_CAP = 15.0
CHUNK = 20
"""Partitions between two records of the progress."""

_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
_NOT_ASKED = (_UNKNOWN, "NotAskedYet", "the metastore was not asked yet who reads")


class Action(StrEnum):
    """What is to be done once the status is written."""

    NONE = "none"
    SETTLE = "settle"
    WATCH = "watch the readers"
    DELETE = "delete"


@dataclass(frozen=True)
class Trouble:
    """Why something did not work this time."""

    reason: str
    message: str


@dataclass(frozen=True)
class Settled:
    """What the fence and the listing after it found, and who read then."""

    states: Mapping[str, PublishedState]
    baseline: ReaderBaseline


@dataclass(frozen=True)
class Pass:
    """One pass over the journal while it goes on: who was visited, what came of it last, and the first trouble."""

    visited: frozenset[str] = frozenset()
    latest: tuple[PartitionDeletion, ...] = ()
    trouble: Trouble | None = None
    broken_off: bool = False

    def after(self, chunk: Iterable[PartitionEntry], outcome: tuple[PartitionDeletion, ...] | Trouble) -> "Pass":
        """Return the pass after one more chunk. What the metastore could not answer breaks it off."""
        if isinstance(outcome, Trouble):
            return replace(self, latest=(), trouble=outcome, broken_off=True)
        visited = self.visited | {entry.partition for entry in chunk}
        return Pass(visited, outcome, self.trouble or next(_troubles(outcome), None))


@dataclass(frozen=True)
class Sight:
    """What was seen of the world. `job` None means that the API server has none: it was asked."""

    job: JobView | None = None
    settled: Settled | Trouble | None = None
    look: Look | None = None
    deletion: Pass | None = None
    failures: int = 0


@dataclass(frozen=True)
class Decision:
    """The status to write first, then what to do, and when to look again without being told."""

    status: CompactionCleanupStatus
    action: Action = Action.NONE
    partitions: tuple[PartitionEntry, ...] = ()
    again_in: float | None = None
    events: tuple[Event, ...] = field(default=())
    failed: bool = False


def decide(cleanup: Cleanup, sight: Sight, *, suspended: bool, now: datetime) -> Decision:
    """Return the next step of a cleanup; `suspended` is the operator's switch that holds every deletion.

    An ended cleanup is never touched again but for the observed generation.
    """
    step = _Step(cleanup, sight, suspended or cleanup.spec.suspend, now)
    if cleanup.ended:
        return Decision(step.status)
    return step.after_baseline() if cleanup.settled else step.before_baseline()


def is_done(partition: PartitionStatus) -> bool:
    """Whether nothing of a partition is left to delete, or what is left stays for good (the message says why)."""
    return not partition.remaining or partition.message is not None


class _Step:
    """One decision: the arguments of `decide` and the pieces of its answer."""

    def __init__(self, cleanup: Cleanup, sight: Sight, suspended: bool, now: datetime) -> None:
        self._cleanup = cleanup
        self._spec = cleanup.spec
        self._sight = sight
        self._suspended = suspended
        self._now = now
        self._events: list[Event] = []
        self.status = cleanup.status.model_copy(update={"observed_generation": cleanup.meta.generation})

    def before_baseline(self) -> Decision:
        """Nothing is known yet: wait for the Job's end, then settle."""
        if self._sight.job is not None and not self._sight.job.ended:
            message = f"job {self._spec.compaction.job} still runs"
            self._set(PUBLISHED, _UNKNOWN, "JobRunning", message)
            return self._pending("JobRunning", message, again_in=JOB_CHECK)
        settled = self._sight.settled
        if settled is None:
            return self._decision(Action.SETTLE)
        if isinstance(settled, Trouble):
            self._set(PUBLISHED, _UNKNOWN, settled.reason, settled.message)
            pause = backed_off(RETRY, self._sight.failures + 1, cap=RETRY_CAP)
            return self._pending(settled.reason, settled.message, again_in=pause, failed=True)
        return self._store(settled)

    def after_baseline(self) -> Decision:
        """Wait for readers and grace period, then delete; suspension holds at any point."""
        if all(is_done(partition) for partition in self.status.partitions):
            return self._finish()
        if self._suspended:
            return self._suspend()
        if not self._readers_gone():
            return self._wait_for_readers()
        left = grace_left(self._baseline, grace_period=self._spec.grace_period, now=self._now)
        if left > 0:
            message = f"{left:.0f} s of the grace period are left"
            return self._stay(CleanupPhase.GRACE, "GracePeriod", message, again_in=left)
        return self._delete()

    @property
    def _baseline(self) -> ReaderBaseline:
        assert self.status.baseline is not None
        return self.status.baseline

    def _store(self, settled: Settled) -> Decision:
        """Store states and baseline in one write. NB: before it nothing is deleted, after it nothing is recomputed."""
        partitions = tuple(_initial(entry, settled.states[entry.partition]) for entry in self._spec.partitions)
        self._update(baseline=settled.baseline, partitions=partitions)
        self._set(PUBLISHED, *_published_condition(partitions))
        locks, mark = len(settled.baseline.lock_ids), settled.baseline.txn_high_water_mark
        self._event("BaselineTaken", f"readers from before: {counted(locks, 'lock')}, and transactions up to {mark}")
        return self.after_baseline()

    def _suspend(self) -> Decision:
        message = "nothing is deleted while " + (
            "spec.suspend is set" if self._spec.suspend else "the operator's cleanup.suspend is set"
        )
        return self._stay(CleanupPhase.SUSPENDED, "Suspended", message)

    def _readers_gone(self) -> bool:
        """Whether it was seen once that they are gone: nobody joins the readers from before."""
        known = find_condition(self.status.conditions, READERS_GONE)
        if known is not None and known.status is _TRUE:
            return True
        look = self._sight.look
        if look is None or look.error is not None or look.blockers:
            return False
        self._update(blockers=(), blocker_count=0)
        self._set(READERS_GONE, _TRUE, "ReadersGone", "no reader from before is left")
        return True

    def _wait_for_readers(self) -> Decision:
        outcome, reason, message = self._readers()
        self._set(READERS_GONE, outcome, reason, message)
        return self._stay(CleanupPhase.WAITING, reason, message, action=Action.WATCH)

    def _readers(self) -> tuple[ConditionStatus, str, str]:
        look = self._sight.look
        if look is None:
            known = find_condition(self.status.conditions, READERS_GONE)
            return (known.status, known.reason, known.message) if known is not None else _NOT_ASKED
        if look.error is not None:
            # An error is never "no readers".
            return _UNKNOWN, "MetastoreUnavailable", look.error
        message = _waiting_for(look.blockers)
        self._name(look.blockers, message)
        return _FALSE, "ReadersFromBefore", message

    def _name(self, blockers: tuple[Blocker, ...], message: str) -> None:
        """Keep who is waited for. NB: heartbeats alone are no change, or every tick would write every status."""
        if not self.status.blocker_count:
            self._event("WaitingForReaders", message)
        if identities(self.status.blockers) != identities(blockers[:MAX_BLOCKERS]):
            self._update(blockers=blockers[:MAX_BLOCKERS])
        self._update(blocker_count=len(blockers))

    def _delete(self) -> Decision:
        """Delete chunk by chunk; a pass that left something behind is followed by another after a pause."""
        going = self._sight.deletion or Pass()
        self._record(going.latest)
        left = [part.partition for part in self.status.partitions if not is_done(part)]
        if not left:
            return self._finish()
        chunk = [name for name in left if name not in going.visited][:CHUNK]
        if not chunk or going.broken_off:
            return self._delete_later(going.trouble or Trouble("NotDeletedYet", "what is left is looked at again"))
        message = f"{len(left)} of {len(self.status.partitions)} partitions are left"
        self._set(DELETED, _UNKNOWN, "Deleting", message)
        entries = tuple(entry for entry in self._spec.partitions if entry.partition in chunk)
        return self._stay(CleanupPhase.DELETING, "Deleting", message, action=Action.DELETE, partitions=entries)

    def _delete_later(self, trouble: Trouble) -> Decision:
        self._set(DELETED, _FALSE, trouble.reason, trouble.message)
        pause = backed_off(RETRY, self._sight.failures + 1, cap=RETRY_CAP)
        return self._stay(CleanupPhase.DELETING, trouble.reason, trouble.message, again_in=pause, failed=True)

    def _record(self, results: Iterable[PartitionDeletion]) -> None:
        by_name = {result.partition: result for result in results}
        partitions = tuple(_progressed(old, by_name.get(old.partition)) for old in self.status.partitions)
        before = sum(len(partition.deleted) for partition in self.status.partitions)
        gained = sum(len(partition.deleted) for partition in partitions) - before
        self._update(
            partitions=partitions,
            directories_deleted=self.status.directories_deleted + gained,
            bytes_deleted=self.status.bytes_deleted + sum(result.bytes_deleted for result in by_name.values()),
        )

    def _finish(self) -> Decision:
        """Nothing is left to do: say what came of it, for good."""
        outcome, reason, message = _summary(self.status)
        self._update(completion_time=rfc3339(self._now), blockers=(), blocker_count=0)
        self._set(DELETED, outcome, reason, message)
        self._set(SUCCEEDED, outcome, reason, message)
        self._update(phase=CleanupPhase.SUCCEEDED if outcome is _TRUE else CleanupPhase.FAILED)
        self._event(reason, message, EventType.NORMAL if outcome is _TRUE else EventType.WARNING)
        return self._decision()

    def _pending(self, reason: str, message: str, *, again_in: float, failed: bool = False) -> Decision:
        return self._stay(CleanupPhase.PENDING, reason, message, again_in=again_in, failed=failed)

    def _stay(self, phase: CleanupPhase, reason: str, message: str, **more: Any) -> Decision:
        self._set(SUCCEEDED, _UNKNOWN, reason, message)
        self._update(phase=phase)
        return self._decision(**more)

    def _decision(self, action: Action = Action.NONE, **more: Any) -> Decision:
        return Decision(self.status, action, events=tuple(self._events), **more)

    def _set(self, type_: str, outcome: ConditionStatus, reason: str, message: str) -> None:
        condition = Condition(
            type=type_,
            status=outcome,
            reason=reason,
            message=message,
            observed_generation=self._cleanup.meta.generation,
            last_transition_time=rfc3339(self._now),
        )
        self._update(conditions=with_condition(self.status.conditions, condition))

    def _event(self, reason: str, message: str, type_: EventType = EventType.NORMAL) -> None:
        self._events.append(Event(reason, message, type_))

    def _update(self, **fields: Any) -> None:
        self.status = self.status.model_copy(update=fields)


def _initial(entry: PartitionEntry, state: PublishedState) -> PartitionStatus:
    """Return an entry's first status. What was not published by now is never deleted for this journal.

    NB: a later attempt may publish it and make the same directories obsolete, but for readers this baseline lacks.
    """
    remaining = tuple(obsolete.name for obsolete in entry.obsolete)
    kept = f"{', '.join(entry.outputs)} was not published: nothing is obsolete by it"
    return PartitionStatus(
        partition=entry.partition,
        state=state,
        remaining=remaining,
        message=kept if state is PublishedState.NOT_PUBLISHED else None,
    )


def _progressed(old: PartitionStatus, result: PartitionDeletion | None) -> PartitionStatus:
    if result is None:
        return old
    if result.skipped is not None:
        return old.model_copy(update={"message": result.skipped}) if result.final else old
    deleted = (*old.deleted, *(name for name in result.deleted if name not in old.deleted))
    return old.model_copy(update={"deleted": deleted, "remaining": tuple(result.remaining)})


def _troubles(results: Iterable[PartitionDeletion]) -> Iterator[Trouble]:
    for result in results:
        where = result.partition or "table"
        if result.skipped is not None and not result.final:
            yield Trouble("StorageError", f"{where}: {result.skipped}")
        for name, why in result.remaining.items():
            yield Trouble("StillNeeded", f"{where}: {name}: {why}")


def _published_condition(partitions: Iterable[PartitionStatus]) -> tuple[ConditionStatus, str, str]:
    states = [partition.state for partition in partitions]
    missing, there = states.count(PublishedState.NOT_PUBLISHED), states.count(PublishedState.PUBLISHED)
    if missing:
        reason = "PartiallyPublished" if there else "NotPublished"
        return _FALSE, reason, f"published: {there}, not published: {missing}"
    if there:
        return _TRUE, "Published", f"{counted(there, 'partition')} published"
    return _TRUE, "NothingToPublish", "nothing was written: what is recorded was obsolete already"


def _waiting_for(blockers: tuple[Blocker, ...]) -> str:
    more = len(blockers) - 1
    return f"waiting for {blockers[0]}" + (f" and {more} more" if more else "")


def _summary(status: CompactionCleanupStatus) -> tuple[ConditionStatus, str, str]:
    """Return how a cleanup ended, for good."""
    kept = [partition for partition in status.partitions if partition.message is not None]
    unpublished = [partition for partition in kept if partition.state is PublishedState.NOT_PUBLISHED]
    why = f"{kept[0].partition or 'table'}: {kept[0].message}" if kept else ""
    if status.directories_deleted:
        deleted = f"deleted {status.directories_deleted} (directories and original files), {status.bytes_deleted} bytes"
        return _TRUE, "Deleted", f"{deleted}; kept: {why}" if why else deleted
    if len(kept) > len(unpublished):
        changed = next(partition for partition in kept if partition not in unpublished)
        return _FALSE, "TableChanged", f"nothing is deleted: {changed.message}"
    if unpublished:
        return _TRUE, "NotPublished", f"nothing is deleted: {why}"
    return _TRUE, "NothingToDelete", "nothing recorded is left"
