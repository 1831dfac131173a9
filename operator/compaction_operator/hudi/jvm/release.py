"""What differs between the releases of Hudi that the bundles contain: 1.0, and 1.1 or later."""

from collections.abc import Callable
from typing import Any


class Release:
    """The release of one bundle, such as `1.0.2`. Each method covers one difference."""

    def __init__(self, bundle: str) -> None:
        self._is_1_0 = bundle.startswith("1.0.")

    def transaction(self, manager: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return the methods of a TransactionManager that take and release the table's lock."""
        if self._is_1_0:
            return manager.beginTransaction, manager.endTransaction
        return manager.beginStateChange, manager.endStateChange

    def commit_argument(self, metadata: Any) -> Any:
        """Return what a commit takes: the HoodieWriteMetadata, or in 1.0 the HoodieCommitMetadata that it holds."""
        return metadata.getCommitMetadata().get() if self._is_1_0 else metadata

    def roll_back_log_compaction(self, client: Any, table: Any, inflight: Any) -> None:
        """Roll back an inflight log compaction. From 1.1 on this needs the write client's transaction manager."""
        if self._is_1_0:
            table.rollbackInflightLogCompaction(inflight)
        else:
            table.rollbackInflightLogCompaction(inflight, client.getTransactionManager())

    def end_compaction_heartbeat(self, client: Any, instant: str) -> None:
        """Let the next attempt run a compaction at once: 1.2 refuses one whose heartbeat says that it still runs.

        NB: the heartbeat of another process is never in this client's own list, so it stays. The client for table
        services has a list of its own.
        """
        if not self._is_1_0:
            client.getTableServiceClient().getHeartbeatClient().stop(instant)

    def partition_paths(self, file_system: Any, context: Any, meta: Any, settings: Any) -> Any:
        """Return FSUtils.getAllPartitionPaths of a table as a Java list."""
        where = (meta.getStorage(), settings, meta.getBasePath()) if self._is_1_0 else (meta, settings)
        return file_system.getAllPartitionPaths(context, *where)

    def metadata_write_config(self, utils: Any, config: Any, policy: Any, meta: Callable[[], Any]) -> Any:
        """Return the metadata table's write config. From 1.1 on this needs the version of the data table."""
        version = () if self._is_1_0 else (meta().getTableConfig().getTableVersion(),)
        return utils.createMetadataWriteConfig(config, policy, *version)
