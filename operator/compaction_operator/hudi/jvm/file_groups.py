"""The partitions and file groups of a table, from Hudi's file system view."""

from typing import Any

from compaction_operator.hudi.jvm.java import hudi_errors, items, streamed
from compaction_operator.hudi.jvm.log_files import Place
from compaction_operator.hudi.jvm.table import JavaTable
from compaction_operator.hudi.jvm.timeline import plain_commits
from compaction_operator.hudi.log_blocks import blocks_of
from compaction_operator.hudi.plans import FileGroup


class FileGroups(JavaTable):
    """Lists partitions and file groups."""

    @hudi_errors("listing partitions")
    def partitions(self) -> tuple[str, ...]:
        """Return the paths of all partitions relative to the table; '' for an unpartitioned table."""
        return self._partitions(self._table().getMetaClient())

    @hudi_errors("listing file groups")
    def file_groups(self) -> tuple[FileGroup, ...]:
        """Return the newest slice of each file group, with the pending instant that plans for it."""
        table = self._table()
        view, meta = table.getSliceView(), table.getMetaClient()
        busy, slices = self._busy(view), self._slices(view, meta)
        files = self._logs.glance((place for places in slices.values() for place in places), plain=plain_commits(meta))
        return tuple(
            FileGroup(*key, len(blocks_of(files[place] for place in places)), busy.get(key))
            for key, places in slices.items()
        )

    @hudi_errors("looking for records of changed columns only")
    def partial_file(self) -> str | None:
        """Return the name of a log file of a newest slice that has records of changed columns only, None without one.

        It reads the headers of all log files there. NB: what a pending compaction has in its plan lies in the slice
        below the newest one, so it also takes both together, as readers do. Of a writer whose clock is ahead, only the
        newest slice is seen.
        """
        table, now = self._table(), str(self._client.createNewInstantTime(False))
        view, meta = table.getSliceView(), table.getMetaClient()
        newest = (place for places in self._slices(view, meta).values() for place in places)
        merged = (
            place
            for partition in self._partitions(meta)
            for java_slice in streamed(self._jvm, view.getLatestMergedFileSlicesBeforeOrOn(partition, now))
            for place in self._log_files(partition, java_slice)
        )
        files = self._logs.read(dict.fromkeys((*newest, *merged)))
        return min((file.name for file in files.values() if file.partial), default=None)

    def _slices(self, view: Any, meta: Any) -> dict[tuple[str, str], list[Place]]:
        """Return the log files of the newest slice of each file group, by partition and file id."""
        return {
            (partition, str(java_slice.getFileId())): self._log_files(partition, java_slice)
            for partition in self._partitions(meta)
            for java_slice in streamed(self._jvm, view.getLatestFileSlicesStateless(partition))
        }

    def _log_files(self, partition: str, java_slice: Any) -> list[Place]:
        found = streamed(self._jvm, java_slice.getLogFiles())
        return [(partition, str(file.getFileName())) for file in found]

    def _partitions(self, meta: Any) -> tuple[str, ...]:
        settings = self._config.getMetadataConfig()
        where = (meta.getStorage(), settings, meta.getBasePath()) if self._is_1_0 else (meta, settings)
        found = self._hudi.common.fs.FSUtils.getAllPartitionPaths(self._context, *where)
        return tuple(str(partition) for partition in items(found))

    def _busy(self, view: Any) -> dict[tuple[str, str], str]:
        """Return the pending instant of each file group that a plan contains, by partition and file id."""
        found = {}
        for stream in (view.getPendingCompactionOperations(), view.getPendingLogCompactionOperations()):
            for pair in streamed(self._jvm, stream):
                found[_key(pair.getRight().getFileGroupId())] = str(pair.getLeft())
        for pair in streamed(self._jvm, view.getFileGroupsInPendingClustering()):
            found[_key(pair.getLeft())] = str(pair.getRight().requestedTime())
        return found


def _key(file_group: Any) -> tuple[str, str]:
    return str(file_group.getPartitionPath()), str(file_group.getFileId())
