"""Repairs of the timeline: rollbacks, and the files without content that a process leaves when it dies."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from compaction_operator.hudi.instants import OWNER_KEY, Action, Instant, State
from compaction_operator.hudi.jvm.java import hudi_errors, items, value_of
from compaction_operator.hudi.jvm.timeline import Timeline, file_sizes, files_of, operations_of

FIRST_WITHOUT_1_0 = 9
"""The first version of tables that Hudi 1.0 cannot write."""

WRITING_SECONDS = 600
"""How long a living process may take at most to write a small file that it has created."""

_PLAN = re.compile(r"([0-9]+)\.(logcompaction|compaction|clean)\.requested")
_COMMIT = re.compile(r"([0-9]+)(_[0-9]+)?\.(deltacommit|commit|clean)")
"""Names of completed instants on the timeline. From table version 8 on they include the completion time."""


class Repairs(Timeline):
    """Repairs what dead processes left on the timeline. `confirm` is called under the lock, and may raise.

    NB: except on HDFS, Hudi creates a file of the timeline and fills it afterwards
    (HoodieStorage.createImmutableFileInPath). A process that dies in between leaves a file without content.
    """

    def roll_back(self, instant: Instant) -> None:
        """Roll back an inflight log compaction, even if a later compaction is on the timeline (HoodieTable).

        NB: an interrupted rollback of it is resumed, because one instant must not have two rollbacks.
        """
        with hudi_errors(f"rolling back {instant}"):
            table = self._table()
            meta = table.getMetaClient()
            inflight = meta.getInstantGenerator().getLogCompactionInflightInstant(instant.time)
            service = self._client.getTableServiceClient()
            earlier = value_of(service.getPendingRollbackInfo(meta, instant.time, False))
            if earlier is not None:
                time = earlier.getRollbackInstant().requestedTime()
                table.rollback(self._context, time, inflight, True, False)
            elif self._is_1_0:
                table.rollbackInflightLogCompaction(inflight)
            else:
                table.rollbackInflightLogCompaction(inflight, self._client.getTransactionManager())

    @hudi_errors("removing plans without content")
    def remove_empty_plans(self) -> tuple[str, ...]:
        """Remove plans without content and return their instants. NB: while one but a clean's exists, none can write.

        The process that made such a plan died while it wrote it. The table's lock proves this, as plans are made under
        it. A clean's plan that a writer may be writing is left alone.
        """
        if not _empty_plans(file_sizes(self._meta())):
            return ()
        with self.locked():
            meta = self._meta()
            found = _empty_plans(file_sizes(meta)).items() - self._unlocked_plans(meta).items()
            return tuple(sorted(time for time, name in found if self._delete_if_empty(meta, name)))

    @hudi_errors("looking for commits that were cut short")
    def cut_short(self) -> tuple[Instant, ...]:
        """Return the log compactions and compactions whose commit has no content, as their driver died writing it.

        NB: readers take such an instant for committed. Hudi 1.0 fails wherever it checks a commit against it
        (ConcurrentOperation).
        """
        meta = self._meta()
        sizes = file_sizes(meta)
        found = []
        for time in empty_commits(sizes):
            for action in (Action.LOG_COMPACTION, Action.COMPACTION):
                if f"{time}.{action}.requested" in sizes:
                    owner = self._extra_metadata(meta, time, action).get(OWNER_KEY)
                    found.append(Instant(time, action, State.COMPLETED, owner))
        return tuple(found)

    def reopen(self, instant: Instant, *, confirm: Callable[[], None]) -> bool:
        """Make a commit without content inflight again; False when a later instant depends on it.

        That instant is the plan of a later compaction that contains a merged block, or a later cleaning of what a
        compaction replaced. All files that were merged must still exist.
        """
        with hudi_errors(f"reopening {instant}"), self.locked():
            confirm()
            meta = self._meta()
            name = empty_commits(file_sizes(meta)).get(instant.time)
            if name is None or _has_successor(meta, instant) or not self._has_inputs(meta, instant):
                return False
            return self._delete_if_empty(meta, name)

    def remove(self, instant: Instant, *, confirm: Callable[[], None]) -> None:
        """Remove a plan of a log compaction that can never run."""
        with hudi_errors(f"removing {instant}"), self.locked():
            confirm()
            meta = self._meta()
            requested = meta.getInstantGenerator().getLogCompactionRequestedInstant(instant.time)
            meta.getActiveTimeline().deletePending(requested)

    def _unlocked_plans(self, meta: Any) -> dict[str, str]:
        """Return the file names of the plans that a writer may be writing now, by instant.

        NB: Hudi 1.0 saves the plan of a clean without the table's lock (BaseHoodieTableServiceClient), and deletes an
        empty one at its next clean, of whatever age. 1.2 saves it under the lock. Should a writer that was paused lose
        its file, its clean fails before it deletes anything: the file must be there when the clean begins.
        """
        if int(meta.getTableConfig().getTableVersion().versionCode()) >= FIRST_WITHOUT_1_0:
            return {}
        since = int(self._jvm.System.currentTimeMillis()) - 1000 * WRITING_SECONDS
        young = (str(one.getPath().getName()) for one in files_of(meta) if int(one.getModificationTime()) > since)
        return {name.partition(".")[0]: name for name in young if name.endswith(".clean.requested")}

    def _has_inputs(self, meta: Any, instant: Instant) -> bool:
        """Whether all files that a plan merges still exist."""
        planned = operations_of(self._java_plan(meta, instant.time, instant.action))
        return all(self._logs.exists(*place) for one in planned for place in one.files)

    def _delete_if_empty(self, meta: Any, name: str) -> bool:
        """Delete a file of the active timeline if it has no content, and return whether it had none."""
        path = self._hudi.storage.StoragePath(meta.getTimelinePath(), name)
        if not is_empty(path, meta):
            return False
        meta.getStorage().deleteFile(path)
        return True


def is_empty(path: Any, meta: Any) -> bool:
    """Whether a file has no content. NB: the size in a listing may be old, as NFS keeps attributes for a while."""
    stream = meta.getStorage().open(path)
    try:
        return int(stream.read()) < 0
    finally:
        stream.close()


def _empty_plans(sizes: Mapping[str, int]) -> dict[str, str]:
    """Return the file names of the plans without content, by instant."""
    found = ((_PLAN.fullmatch(name), name) for name, size in sizes.items() if not size)
    return {match[1]: name for match, name in found if match and name.replace("requested", "inflight") not in sizes}


def empty_commits(sizes: Mapping[str, int]) -> dict[str, str]:
    """Return the file names of the commits without content, by instant."""
    found = ((_COMMIT.fullmatch(name), name) for name, size in sizes.items() if not size)
    return {match[1]: name for match, name in found if match}


def _has_successor(meta: Any, instant: Instant) -> bool:
    """Whether a later instant on the timeline depends on a commit, as in `Repairs.reopen`."""
    later = (one for one in items(meta.getActiveTimeline().getInstants()) if str(one.requestedTime()) > instant.time)
    if instant.action is Action.COMPACTION:
        return any(str(one.getAction()) == "clean" for one in later)
    return any(str(one.getAction()) == Action.COMPACTION and not one.isCompleted() for one in later)
