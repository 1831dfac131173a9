"""Repairs of the timeline: rollbacks, and the files without content that a process leaves when it dies."""

import re
from collections.abc import Mapping
from typing import Any

from compaction_operator.hudi.instants import OWNER_KEY, Action, Instant, State
from compaction_operator.hudi.jvm.handle import TableHandle
from compaction_operator.hudi.jvm.java import items, value_of
from compaction_operator.hudi.jvm.plan_reader import PlanReader
from compaction_operator.hudi.jvm.timeline import Timeline

_PLAN = re.compile(r"([0-9]+)\.(logcompaction|compaction)\.requested")
_COMMIT = re.compile(r"([0-9]+)(_[0-9]+)?\.(deltacommit|commit)")
"""Names of completed instants on the timeline. From table version 8 on they include the completion time."""


class Repairs:
    """Repairs what dead processes left on the timeline.

    NB: except on HDFS, Hudi creates a file of the timeline and fills it afterwards
    (HoodieStorage.createImmutableFileInPath). A process that dies in between leaves a file without content.
    """

    def __init__(self, handle: TableHandle, timeline: Timeline, plans: PlanReader) -> None:
        self._handle = handle
        self._timeline = timeline
        self._plans = plans

    def roll_back(self, instant: Instant) -> None:
        """Roll back an inflight log compaction.

        NB: an interrupted rollback of it is resumed, because one instant must not have two rollbacks.
        """
        handle, table = self._handle, self._handle.table()
        meta = table.getMetaClient()
        inflight = meta.getInstantGenerator().getLogCompactionInflightInstant(instant.time)
        service = handle.client.getTableServiceClient()
        earlier = value_of(service.getPendingRollbackInfo(meta, instant.time, False))
        if earlier is not None:
            time = earlier.getRollbackInstant().requestedTime()
            table.rollback(handle.context, time, inflight, True, False)
        else:
            handle.release.roll_back_log_compaction(handle.client, table, inflight)

    def remove_empty_plans(self) -> tuple[str, ...]:
        """Remove plans without content under the table's lock, and return their instants.

        The lock proves that their planner is dead, as plans are made under it.
        """
        if not _empty_plans(self._timeline.file_sizes(self._handle.meta())):
            return ()
        with self._handle.locked():
            meta = self._handle.meta()
            found = _empty_plans(self._timeline.file_sizes(meta))
            for name in found.values():
                self._timeline.delete_file(meta, name)
            return tuple(sorted(found))

    def cut_short(self) -> tuple[Instant, ...]:
        """Return the log compactions and compactions whose commit has no content."""
        meta = self._handle.meta()
        sizes = self._timeline.file_sizes(meta)
        found = []
        for time in _empty_commits(sizes):
            for action in (Action.LOG_COMPACTION, Action.COMPACTION):
                if f"{time}.{action}.requested" in sizes:
                    owner = self._timeline.extra_metadata(meta, time, action).get(OWNER_KEY)
                    found.append(Instant(time, action, State.COMPLETED, owner))
        return tuple(found)

    def reopen(self, instant: Instant) -> bool:
        """Make a commit without content inflight again; False when a later instant depends on it."""
        with self._handle.locked():
            meta = self._handle.meta()
            name = _empty_commits(self._timeline.file_sizes(meta)).get(instant.time)
            if name is None or _has_successor(meta, instant) or not self._plans.has_inputs(meta, instant):
                return False
            self._timeline.delete_file(meta, name)
            return True

    def remove(self, instant: Instant) -> None:
        """Remove the plan of a log compaction."""
        with self._handle.locked():
            meta = self._handle.meta()
            requested = meta.getInstantGenerator().getLogCompactionRequestedInstant(instant.time)
            meta.getActiveTimeline().deletePending(requested)


def _empty_plans(sizes: Mapping[str, int]) -> dict[str, str]:
    """Return the file names of the plans without content, by instant."""
    found = ((_PLAN.fullmatch(name), name) for name, size in sizes.items() if not size)
    return {match[1]: name for match, name in found if match and name.replace("requested", "inflight") not in sizes}


def _empty_commits(sizes: Mapping[str, int]) -> dict[str, str]:
    """Return the file names of the commits without content, by instant."""
    found = ((_COMMIT.fullmatch(name), name) for name, size in sizes.items() if not size)
    return {match[1]: name for match, name in found if match}


def _has_successor(meta: Any, instant: Instant) -> bool:
    """Whether a later instant on the timeline depends on a commit, as in `HudiClient.reopen`."""
    later = (one for one in items(meta.getActiveTimeline().getInstants()) if str(one.requestedTime()) > instant.time)
    if instant.action is Action.COMPACTION:
        return any(str(one.getAction()) == "clean" for one in later)
    return any(str(one.getAction()) == Action.COMPACTION and not one.isCompleted() for one in later)
