"""The partitions and file groups of a table, from Hudi's file system view."""

from collections.abc import Collection, Mapping
from typing import Any

from compaction_operator.hudi.jvm.handle import TableHandle
from compaction_operator.hudi.jvm.java import items, streamed
from compaction_operator.hudi.jvm.log_files import LogFiles
from compaction_operator.hudi.jvm.timeline import Timeline
from compaction_operator.hudi.log_blocks import blocks_of
from compaction_operator.hudi.plans import FileGroup


class FileGroups:
    """Lists partitions and file groups."""

    def __init__(self, handle: TableHandle, timeline: Timeline, logs: LogFiles) -> None:
        self._handle = handle
        self._timeline = timeline
        self._logs = logs

    def partitions(self, table: Any) -> tuple[str, ...]:
        """Return the paths of all partitions of a HoodieTable."""
        handle, meta = self._handle, table.getMetaClient()
        settings = handle.config.getMetadataConfig()
        found = handle.release.partition_paths(handle.hudi.common.fs.FSUtils, handle.context, meta, settings)
        return tuple(str(partition) for partition in items(found))

    def newest_slices(self) -> tuple[FileGroup, ...]:
        """Return the newest slice of each file group."""
        table = self._handle.table()
        view, plain = table.getSliceView(), self._timeline.plain(table.getMetaClient())
        busy = self._busy(view)
        return tuple(
            self._file_group(partition, java, plain, busy)
            for partition in self.partitions(table)
            for java in streamed(self._handle.jvm, view.getLatestFileSlicesStateless(partition))
        )

    def _file_group(
        self, partition: str, java_slice: Any, plain: Collection[str], busy: Mapping[tuple[str, str], str]
    ) -> FileGroup:
        names = [str(file.getFileName()) for file in streamed(self._handle.jvm, java_slice.getLogFiles())]
        files = [self._logs.glance(partition, name, plain=plain) for name in names]
        file_id = str(java_slice.getFileId())
        return FileGroup(partition, file_id, len(blocks_of(files)), busy.get((partition, file_id)))

    def _busy(self, view: Any) -> dict[tuple[str, str], str]:
        """Return the pending instant of each file group that a plan contains, by partition and file id."""
        jvm, found = self._handle.jvm, {}
        for stream in (view.getPendingCompactionOperations(), view.getPendingLogCompactionOperations()):
            for pair in streamed(jvm, stream):
                found[_key(pair.getRight().getFileGroupId())] = str(pair.getLeft())
        for pair in streamed(jvm, view.getFileGroupsInPendingClustering()):
            found[_key(pair.getLeft())] = str(pair.getRight().requestedTime())
        return found


def _key(file_group: Any) -> tuple[str, str]:
    return str(file_group.getPartitionPath()), str(file_group.getFileId())
