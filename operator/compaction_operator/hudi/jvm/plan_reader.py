"""Plans of compactions and log compactions, read from the timeline as values."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from compaction_operator.hudi.instants import SEEN_KEY, Action, Instant
from compaction_operator.hudi.jvm.handle import TableHandle
from compaction_operator.hudi.jvm.java import items
from compaction_operator.hudi.jvm.log_files import LogFiles
from compaction_operator.hudi.jvm.timeline import Timeline
from compaction_operator.hudi.plans import Operation, Plan


class PlanReader:
    """Reads plans, with the sizes and block headers of the files that they name."""

    def __init__(self, handle: TableHandle, timeline: Timeline, logs: LogFiles) -> None:
        self._handle = handle
        self._timeline = timeline
        self._logs = logs

    def plan(self, meta: Any, time: str, action: Action) -> Plan:
        """Return the plan of an instant."""
        found = items(self._timeline.java_plan(meta, time, action).getOperations())
        if action is Action.LOG_COMPACTION:
            operations = tuple(self.log_operation(java) for java in found)
        else:
            plain = self._timeline.plain(meta)
            operations = tuple(self._base_operation(java, plain) for java in found)
        seen = self._timeline.extra_metadata(meta, time, action).get(SEEN_KEY, "")
        return Plan(time, action, operations, frozenset(seen.split(",")) if seen else frozenset())

    def log_operation(self, java: Any) -> Operation:
        """Return an operation of a log compaction (HoodieLogCompactionOperation) with all block headers."""
        partition, names = str(java.getPartitionPath() or ""), items(java.getDeltaFilePaths())
        files = tuple(self._logs.read(partition, str(name)) for name in names)
        return Operation(partition, str(java.getFileId()), files)

    def has_inputs(self, meta: Any, instant: Instant) -> bool:
        """Whether all files that a plan merges still exist."""
        storage = meta.getStorage()
        for java in items(self._timeline.java_plan(meta, instant.time, instant.action).getOperations()):
            names = [*items(java.getDeltaFilePaths()), *filter(None, [java.getDataFilePath()])]
            paths = [self._logs.path(str(java.getPartitionPath() or ""), str(name)) for name in names]
            if not all(storage.exists(self._handle.path(path)) for path in paths):
                return False
        return True

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
