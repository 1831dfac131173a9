"""The second half of a cleanup's way, which nothing holds any more: delete, or quarantine and purge, then finish."""

from collections.abc import Iterable
from datetime import timedelta

from compaction_operator.api.cleanup import CleanupPhase, PartitionStatus, PublishedState
from compaction_operator.api.conditions import ConditionStatus
from compaction_operator.cleanup.deletion import PartitionDeletion
from compaction_operator.controller.cleanup_step import DELETED, INSIST_AFTER, Action, Decision, Step
from compaction_operator.controller.events import EventType
from compaction_operator.controller.outcomes import NOT_DELETED_YET, Pass, Trouble, ending, is_done, progressed
from compaction_operator.controller.times import parse_time, rfc3339, seconds_until

CHUNK = 20
"""Partitions between two records of the progress."""

_FALSE, _UNKNOWN = ConditionStatus.FALSE, ConditionStatus.UNKNOWN


class DeletingStep(Step):
    """The decisions of this half; each can be taken again from the status and a new listing."""

    def _delete(self) -> Decision:
        """Delete, or move into quarantine, what is recorded and obsolete."""
        going = self._begin_pass(Action.DELETE)
        left = [part.partition for part in self.status.partitions if part.remaining and part.message is None]
        if left:
            return self._go_on(Action.DELETE, going, left)
        if self._spec.quarantine is None or all(is_done(partition) for partition in self.status.partitions):
            return self._finish()
        until = self._now + timedelta(seconds=self._spec.quarantine)
        self._draft.update(quarantined_until=rfc3339(until))
        self._overdue_no_more()
        names = sum(len(partition.quarantined) for partition in self.status.partitions)
        self._draft.event("Quarantined", f"{names} (directories and original files) until {rfc3339(until)}")
        return self._purge(rfc3339(until))

    def _purge(self, until: str) -> Decision:
        """Delete what lies in the quarantine when its time is over."""
        left = seconds_until(parse_time(until), self._now)
        if left > 0:
            message = f"what is obsolete lies in the quarantine until {until}"
            self._draft.set(DELETED, _UNKNOWN, "Quarantined", message)
            return self._stay(CleanupPhase.QUARANTINED, "Quarantined", message, again_in=left)
        going = self._begin_pass(Action.PURGE)
        names = [part.partition for part in self.status.partitions if not is_done(part)]
        return self._go_on(Action.PURGE, going, names) if names else self._finish()

    def _begin_pass(self, action: Action) -> Pass:
        """Return the pass that goes on, after what came of it is recorded; tell once that deletion begins."""
        if self._sight.deletion is not None:
            self._record(self._sight.deletion.latest)
            return self._sight.deletion
        known = self._draft.find(DELETED)
        if known is None or known.reason == "Quarantined":
            self._draft.event("Deleting", self._intention(action))
        return Pass()

    def _intention(self, action: Action) -> str:
        names = sum(len(part.remaining) + len(part.quarantined) for part in self.status.partitions)
        what = f"{names} (directories and original files)"
        if action is Action.PURGE:
            return f"deletes {what} from the quarantine"
        return f"deletes {what}" if self._spec.quarantine is None else f"moves {what} into the quarantine"

    def _go_on(self, action: Action, going: Pass, left: list[str]) -> Decision:
        """Take the next chunk; a pass that left something behind is followed by another after a pause.

        NB: the status that is written before each chunk is new, so that a suspension nobody saw yet is a conflict.
        """
        chunk = [name for name in left if name not in going.visited][:CHUNK]
        if not chunk or going.broken_off:
            return self._refused(going.trouble or Trouble(NOT_DELETED_YET, "what is left is looked at again"))
        message = f"{len(left)} of {len(self.status.partitions)} partitions are left, from {chunk[0] or 'the table'} on"
        known = self._draft.find(DELETED)
        if known is None or known.status is not _FALSE:
            self._draft.set(DELETED, _UNKNOWN, "Deleting", message)
        entries = tuple(entry for entry in self._spec.partitions if entry.partition in chunk)
        insist = self._sight.failures >= INSIST_AFTER
        return self._stay(CleanupPhase.DELETING, "Deleting", message, action=action, partitions=entries, insist=insist)

    def _refused(self, trouble: Trouble) -> Decision:
        self._tell_once(DELETED, trouble)
        return self._try_later(CleanupPhase.DELETING, trouble)

    def _tell_once(self, type_: str, trouble: Trouble) -> None:
        """Post an event about what is in the way, and another only when something else is."""
        known = self._draft.find(type_)
        if known is None or (known.status, known.reason, known.message) != (_FALSE, trouble.reason, trouble.message):
            self._draft.event("DeletionRefused", f"{trouble.reason}: {trouble.message}", EventType.WARNING)
        self._draft.set(type_, _FALSE, trouble.reason, trouble.message)

    def _record(self, results: Iterable[PartitionDeletion]) -> None:
        by_name = {result.partition: result for result in results}
        old = self.status.partitions
        partitions = tuple(progressed(part, by_name.get(part.partition)) for part in old)
        gained = sum(len(new.deleted) - len(before.deleted) for new, before in zip(partitions, old, strict=True))
        self._draft.update(
            partitions=partitions,
            directories_deleted=self.status.directories_deleted + gained,
            bytes_deleted=self.status.bytes_deleted + sum(result.bytes_deleted for result in by_name.values()),
        )
        self._tell_kept([new for new, before in zip(partitions, old, strict=True) if new.reason != before.reason])

    def _tell_kept(self, partitions: list[PartitionStatus]) -> None:
        if partitions:
            more = f" (and {len(partitions) - 1} more)" if len(partitions) > 1 else ""
            first = f"{partitions[0].reason}: {partitions[0].partition or 'table'}: {partitions[0].message}"
            self._draft.event("DeletionRefused", first + more, EventType.WARNING)

    def _finish(self) -> Decision:
        """Nothing is left to delete: end the entries that the metastore's queue has of this compaction, then say so."""
        outcome, reason, message = ending(self.status)
        self._draft.set(DELETED, outcome, reason, message)
        if self._sight.finished or not self._queued():
            return self._end(outcome, reason, message)
        trouble = self._sight.finish_trouble
        return self._decision(Action.FINISH) if trouble is None else self._try_later(CleanupPhase.DELETING, trouble)

    def _queued(self) -> bool:
        """Whether the queue of a Hive 4 metastore has entries of what was published."""
        states = {part.partition: part.state for part in self.status.partitions}
        mine = (entry.partition for entry in self._spec.partitions if entry.queue_id is not None)
        return any(states[partition] is not PublishedState.NOT_PUBLISHED for partition in mine)
