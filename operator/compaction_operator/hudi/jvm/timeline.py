"""The active timeline of a table: its instants, their plans, its files, and the clocks that wrote it."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from compaction_operator.hudi.clocks import instant_seconds, writers_offset
from compaction_operator.hudi.instants import OWNER_KEY, SEEN_KEY, Action, Instant, State
from compaction_operator.hudi.jvm.java import hudi_errors, items
from compaction_operator.hudi.jvm.log_files import Place
from compaction_operator.hudi.jvm.table import JavaTable
from compaction_operator.hudi.plans import Operation, Plan

# In a merge-on-read table only a compaction makes a commit.
ACTIONS = {str(action): action for action in Action if action is not Action.CLEAN} | {
    "commit": Action.COMPACTION,
    "replacecommit": Action.CLUSTERING,
}
"""The relevant actions by their names in HoodieTimeline."""

CLOCKS_DIFFER = 600_000
"""Milliseconds by which the clock of a store may be behind the driver's."""


@dataclass(frozen=True)
class JavaOperation:
    """An operation of a HoodieCompactionPlan by what it names; `base_files` are one or none."""

    partition: str
    file_id: str
    log_files: tuple[Place, ...]
    base_files: tuple[Place, ...]

    @property
    def files(self) -> tuple[Place, ...]:
        """All files that it names."""
        return self.log_files + self.base_files


class Timeline(JavaTable):
    """Reads the active timeline. Methods that take `meta` (HoodieTableMetaClient) see the timeline as it has it."""

    @hudi_errors("comparing clocks")
    def clock_skew(self) -> float:
        """Return by how many seconds this JVM's instants are ahead of those of the timeline's last writers.

        A table's instants are in local time by default, so a wrong time zone shows here as well as a wrong clock.
        """
        entries = files_of(self._meta())
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

    def shows_life(self, instant: Instant) -> bool:
        """Whether a client changed anything of an inflight instant as lately as Hudi wants heartbeats to come.

        That is its heartbeat, a marker of a file that it began, or the instant itself, by the store's clock. NB: 1.0
        has heartbeats for writes only, and a client may need longer for one file.
        """
        with hudi_errors(f"looking for signs of life of {instant}"):
            interval = int(self._config.getHoodieClientHeartbeatIntervalInMs())
            misses = int(self._config.getHoodieClientHeartbeatTolerableMisses())
            since = int(self._jvm.System.currentTimeMillis()) - interval * misses - CLOCKS_DIFFER
            return any(int(one.getModificationTime()) > since for one in self._signs(instant))

    def _signs(self, instant: Instant) -> Iterator[Any]:
        """Yield the files that a client at work on an instant changes, as StoragePathInfo."""
        meta = self._meta()
        inflight = f"{instant.time}.{instant.action}.inflight"
        yield from (one for one in files_of(meta) if str(one.getPath().getName()) == inflight)
        storage, path = meta.getStorage(), self._hudi.storage.StoragePath
        heartbeats = self._hudi.common.table.HoodieTableMetaClient.getHeartbeatFolderPath(self._base)
        for one in (path(f"{heartbeats}/{instant.time}"), path(meta.getMarkerFolderPath(instant.time))):
            if storage.exists(one):
                # NB: of a folder's files only: on S3 each folder says that it was changed just now.
                yield from items(storage.listFiles(one))

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
        java_plan = self._java_plan(meta, time, action)
        if action is Action.LOG_COMPACTION:
            operations = self._log_operations(java_plan)
        else:
            operations = self._base_operations(java_plan, plain_commits(meta))
        seen = self._extra_metadata(meta, time, action).get(SEEN_KEY, "")
        return Plan(time, action, operations, frozenset(seen.split(",")) if seen else frozenset())

    def _log_operations(self, java_plan: Any) -> tuple[Operation, ...]:
        """Return the operations of a log compaction with all block headers."""
        planned = operations_of(java_plan)
        files = self._logs.read(place for one in planned for place in one.log_files)
        return tuple(
            Operation(one.partition, one.file_id, tuple(files[place] for place in one.log_files)) for one in planned
        )

    def _base_operations(self, java_plan: Any, plain: Collection[str]) -> tuple[Operation, ...]:
        planned = operations_of(java_plan)
        glances = self._logs.glance((place for one in planned for place in one.log_files), plain=plain)
        sizes = self._logs.sizes(place for one in planned for place in one.files)
        return tuple(
            Operation(
                one.partition,
                one.file_id,
                tuple(replace(glances[place], size=sizes[place]) for place in one.log_files),
                sum(sizes[place] for place in one.base_files),
            )
            for one in planned
        )

    def _java_plan(self, meta: Any, time: str, action: Action) -> Any:
        """Return the HoodieCompactionPlan of a compaction or log compaction."""
        plans = self._hudi.common.util.CompactionUtils
        read = plans.getLogCompactionPlan if action is Action.LOG_COMPACTION else plans.getCompactionPlan
        return read(meta, time)

    def _extra_metadata(self, meta: Any, time: str, action: Action) -> dict[str, str]:
        found = self._java_plan(meta, time, action).getExtraMetadata() or {}
        return {str(key): str(value) for key, value in found.items()}


def operations_of(java_plan: Any) -> tuple[JavaOperation, ...]:
    """Return the operations of a HoodieCompactionPlan. NB: its text comes by one call, each field by another."""
    return tuple(_operation(one) for one in json.loads(str(java_plan.toString()))["operations"] or ())


def _operation(found: Mapping[str, Any]) -> JavaOperation:
    partition, base = found["partitionPath"] or "", found["dataFilePath"]
    logs = tuple((partition, name) for name in found["deltaFilePaths"] or ())
    return JavaOperation(partition, found["fileId"], logs, ((partition, base),) if base else ())


def file_sizes(meta: Any) -> dict[str, int]:
    """Return the size in bytes of each file of the active timeline, by name."""
    return {str(entry.getPath().getName()): int(entry.getLength()) for entry in files_of(meta)}


def plain_commits(meta: Any) -> frozenset[str]:
    """Return the instants of the writers' delta commits. A log compaction begins under another name."""
    names = file_sizes(meta)
    return frozenset(name.partition(".")[0] for name in names if name.endswith(".deltacommit.requested"))


def files_of(meta: Any) -> list[Any]:
    """Return the files of the active timeline, as StoragePathInfo."""
    return items(meta.getStorage().listDirectEntries(meta.getTimelinePath()))
