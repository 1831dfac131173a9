"""The active timeline of a table: its instants, their plans, its files, and the clocks that wrote it."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from compaction_operator.hudi.clocks import instant_seconds, writers_offset
from compaction_operator.hudi.instants import OWNER_KEY, SEEN_KEY, Action, Instant, State
from compaction_operator.hudi.jvm.java import hudi_errors, items
from compaction_operator.hudi.jvm.table import JavaTable
from compaction_operator.hudi.plans import Operation, Plan

# In a merge-on-read table only a compaction makes a commit.
ACTIONS = {str(action): action for action in Action} | {"commit": Action.COMPACTION, "replacecommit": Action.CLUSTERING}
"""The relevant actions by their names in HoodieTimeline."""


class Timeline(JavaTable):
    """Reads the active timeline. Methods that take `meta` (HoodieTableMetaClient) see the timeline as it has it."""

    @hudi_errors("comparing clocks")
    def clock_skew(self) -> float:
        """Return by how many seconds this JVM's instants are ahead of those of the timeline's last writers.

        A table's instants are in local time by default, so a wrong time zone shows here as well as a wrong clock.
        """
        entries = _files(self._meta())
        changed = ((str(entry.getPath().getName()), int(entry.getModificationTime())) for entry in entries)
        theirs = writers_offset(changed)
        if theirs is None:
            return 0.0
        now = str(self._client.createNewInstantTime(False))
        return instant_seconds(now) - int(self._jvm.System.currentTimeMillis()) / 1000 - theirs

    @hudi_errors("reading the timeline")
    def instants(self) -> tuple[Instant, ...]:
        """Return the relevant instants of the active timeline. Pending plans carry their owner."""
        return self._instants(self._meta())

    def plan_of(self, instant: Instant) -> Plan:
        """Return the plan of a pending instant."""
        with hudi_errors(f"reading the plan of {instant}"):
            return self._plan(self._meta(), instant.time, instant.action)

    def _instants(self, meta: Any) -> tuple[Instant, ...]:
        found = (self._instant(meta, java) for java in items(meta.getActiveTimeline().getInstants()))
        return tuple(instant for instant in found if instant is not None)

    def _instant(self, meta: Any, java: Any) -> Instant | None:
        action = ACTIONS.get(str(java.getAction()))
        state = State(str(java.getState()))
        if action is None:
            return None
        time = str(java.requestedTime())
        planned = state is not State.COMPLETED and action in (Action.LOG_COMPACTION, Action.COMPACTION)
        owner = self._extra_metadata(meta, time, action).get(OWNER_KEY) if planned else None
        return Instant(time, action, state, owner)

    def _plan(self, meta: Any, time: str, action: Action) -> Plan:
        """Return the plan of an instant, with the sizes and block headers of the files that it names."""
        found = items(self._java_plan(meta, time, action).getOperations())
        if action is Action.LOG_COMPACTION:
            operations = tuple(self._log_operation(java) for java in found)
        else:
            plain = plain_commits(meta)
            operations = tuple(self._base_operation(java, plain) for java in found)
        seen = self._extra_metadata(meta, time, action).get(SEEN_KEY, "")
        return Plan(time, action, operations, frozenset(seen.split(",")) if seen else frozenset())

    def _log_operation(self, java: Any) -> Operation:
        """Return an operation of a log compaction (HoodieLogCompactionOperation) with all block headers."""
        partition, names = str(java.getPartitionPath() or ""), items(java.getDeltaFilePaths())
        files = tuple(self._logs.read(partition, str(name)) for name in names)
        return Operation(partition, str(java.getFileId()), files)

    def _base_operation(self, java: Any, plain: Collection[str]) -> Operation:
        partition, base = str(java.getPartitionPath() or ""), java.getDataFilePath()
        names = [str(name) for name in items(java.getDeltaFilePaths())]
        glances = (self._logs.glance(partition, name, plain=plain) for name in names)
        return Operation(
            partition=partition,
            file_id=str(java.getFileId()),
            files=tuple(replace(file, size=self._logs.size(partition, file.name)) for file in glances),
            base_size=self._logs.size(partition, str(base)) if base else 0,
        )

    def _java_plan(self, meta: Any, time: str, action: Action) -> Any:
        """Return the HoodieCompactionPlan of a compaction or log compaction."""
        plans = self._hudi.common.util.CompactionUtils
        read = plans.getLogCompactionPlan if action is Action.LOG_COMPACTION else plans.getCompactionPlan
        return read(meta, time)

    def _extra_metadata(self, meta: Any, time: str, action: Action) -> dict[str, str]:
        found = self._java_plan(meta, time, action).getExtraMetadata() or {}
        return {str(key): str(value) for key, value in found.items()}


def file_sizes(meta: Any) -> dict[str, int]:
    """Return the size in bytes of each file of the active timeline, by name."""
    return {str(entry.getPath().getName()): int(entry.getLength()) for entry in _files(meta)}


def plain_commits(meta: Any) -> frozenset[str]:
    """Return the instants of the writers' delta commits. A log compaction begins under another name."""
    names = file_sizes(meta)
    return frozenset(name.partition(".")[0] for name in names if name.endswith(".deltacommit.requested"))


def _files(meta: Any) -> list[Any]:
    return items(meta.getStorage().listDirectEntries(meta.getTimelinePath()))
