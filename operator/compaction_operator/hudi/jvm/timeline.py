"""The active timeline of a table: its instants, its files, and the clocks that wrote it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from compaction_operator.hudi.instants import OWNER_KEY, Action, Instant, State
from compaction_operator.hudi.jvm.handle import TableHandle
from compaction_operator.hudi.jvm.java import items

ACTIONS: Mapping[str, Action] = {
    "logcompaction": Action.LOG_COMPACTION,
    "compaction": Action.COMPACTION,
    # In a merge-on-read table only a compaction makes a commit.
    "commit": Action.COMPACTION,
    "clustering": Action.CLUSTERING,
    "replacecommit": Action.CLUSTERING,
    "deltacommit": Action.DELTA_COMMIT,
}
"""The relevant actions by their names in HoodieTimeline."""


class Timeline:
    """Reads the active timeline. Methods that take `meta` (HoodieTableMetaClient) see the timeline as it has it."""

    def __init__(self, handle: TableHandle) -> None:
        self._handle = handle

    def clock_skew(self) -> float:
        """Return by how many seconds this JVM's instants are ahead of those of the timeline's last writer."""
        meta = self._handle.meta()
        entries = items(meta.getStorage().listDirectEntries(meta.getTimelinePath()))
        requested = [entry for entry in entries if str(entry.getPath().getName()).endswith(".requested")]
        if not requested:
            return 0.0
        newest = max(requested, key=lambda entry: int(entry.getModificationTime()))
        theirs = _millis(str(newest.getPath().getName())) - int(newest.getModificationTime())
        now = str(self._handle.client.createNewInstantTime(False))
        return (_millis(now) - int(self._handle.jvm.System.currentTimeMillis()) - theirs) / 1000

    def instants(self, meta: Any) -> tuple[Instant, ...]:
        """Return the relevant instants. Pending plans carry their owner."""
        found = (self._instant(meta, java) for java in items(meta.getActiveTimeline().getInstants()))
        return tuple(instant for instant in found if instant is not None)

    def java_plan(self, meta: Any, time: str, action: Action) -> Any:
        """Return the HoodieCompactionPlan of a compaction or log compaction."""
        plans = self._handle.hudi.common.util.CompactionUtils
        read = plans.getLogCompactionPlan if action is Action.LOG_COMPACTION else plans.getCompactionPlan
        return read(meta, time)

    def extra_metadata(self, meta: Any, time: str, action: Action) -> dict[str, str]:
        """Return the extra metadata of a plan."""
        return {
            str(key): str(value) for key, value in (self.java_plan(meta, time, action).getExtraMetadata() or {}).items()
        }

    def file_sizes(self, meta: Any) -> dict[str, int]:
        """Return the size in bytes of each file of the active timeline, by name."""
        entries = items(meta.getStorage().listDirectEntries(meta.getTimelinePath()))
        return {str(entry.getPath().getName()): int(entry.getLength()) for entry in entries}

    def delete_file(self, meta: Any, name: str) -> None:
        """Delete a file of the active timeline."""
        meta.getStorage().deleteFile(self._handle.path(meta.getTimelinePath(), name))

    def plain(self, meta: Any) -> frozenset[str]:
        """Return the instants of the writers' delta commits. A log compaction begins under another name."""
        names = self.file_sizes(meta)
        return frozenset(name.partition(".")[0] for name in names if name.endswith(".deltacommit.requested"))

    def _instant(self, meta: Any, java: Any) -> Instant | None:
        action = ACTIONS.get(str(java.getAction()))
        state = State(str(java.getState()))
        if action is None:
            return None
        time = str(java.requestedTime())
        planned = state is not State.COMPLETED and action in (Action.LOG_COMPACTION, Action.COMPACTION)
        return Instant(time, action, state, self.extra_metadata(meta, time, action).get(OWNER_KEY) if planned else None)


def completed_commits(timeline: Any) -> list[Any]:
    """Return the completed commits of an active timeline as HoodieInstants."""
    return items(timeline.getCommitsTimeline().filterCompletedInstants().getInstants())


def _millis(instant: str) -> int:
    """Return an instant in milliseconds since the epoch, as if it were in UTC."""
    digits = instant.partition(".")[0]
    parsed = datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    return round(parsed.timestamp() * 1000)
