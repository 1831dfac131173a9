"""Hudi's Java objects for one table: its write client, configuration and engine context, and its lock."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from compaction_operator.hudi.comparison import Rule
from compaction_operator.hudi.jvm.java import hudi_errors
from compaction_operator.hudi.jvm.log_files import LogFiles
from compaction_operator.hudi.properties import is_1_0

NO_LOCKS = "org.apache.hudi.client.transaction.lock.NoopLockProvider"


class JavaTable:
    """What every part of `HudiClient` needs in order to call Hudi for one table, or for its metadata table.

    `bundle` is the release of Hudi, such as `1.0.2`. `names_have_instants`: the names of log files contain the instant
    of their delta commit (table version 8 or later).
    `replays_last` is HudiTable.replays_merged_blocks_last. `rule` is that of the comparison of merged blocks with their
    originals, None where they are not compared.
    """

    def __init__(
        self,
        jvm: Any,
        client: Any,
        *,
        bundle: str,
        names_have_instants: bool,
        replays_last: bool = False,
        rule: Rule | None = None,
    ) -> None:
        self._jvm = jvm
        self._hudi = jvm.org.apache.hudi
        self._client = client
        self._bundle = bundle
        self._is_1_0 = is_1_0(bundle)
        self._replays_last = replays_last
        self._rule = rule
        self._config = client.getConfig()
        self._context = client.getEngineContext()
        self._base = str(self._config.getBasePath())
        storage = self._meta().getStorage()
        self._logs = LogFiles(self._hudi, storage, self._base, names_have_instants=names_have_instants)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the table's lock. NB: the lock is not re-entrant. Call nothing meanwhile that takes it itself."""
        manager = self._hudi.client.transaction.TransactionManager(self._config, self._meta().getStorage())
        if self._is_1_0:
            begin, end = manager.beginTransaction, manager.endTransaction
        else:
            begin, end = manager.beginStateChange, manager.endStateChange
        with hudi_errors("taking the table's lock"):
            # NB: do not close a manager that failed to get the lock: the file system's provider would delete the lock.
            begin(self._none(), self._none())
        try:
            yield
        finally:
            end(self._none())
            manager.close()

    @contextmanager
    def locked_for_client(self) -> Iterator[None]:
        """Hold the table's lock for calls of the write client that take it themselves.

        NB: the client looks up its lock provider's class each time it takes the lock (LockManager). Meanwhile that
        class is one that always succeeds. All else that the client does under the lock stays as it is, such as the
        resolution of conflicts.
        """
        with self.locked():
            if not self._config.isLockRequired():
                yield
                return
            with self._setting(self._hudi.config.HoodieLockConfig.LOCK_PROVIDER_CLASS_NAME.key(), NO_LOCKS):
                yield

    @contextmanager
    def _setting(self, key: str, value: str) -> Iterator[None]:
        """Give the client's configuration another value meanwhile."""
        own = self._config.getString(key)
        self._config.setValue(key, value)
        try:
            yield
        finally:
            self._config.setValue(key, own)

    def _meta(self) -> Any:
        """Return a new HoodieTableMetaClient, with the timeline as it is now."""
        builder = self._hudi.common.table.HoodieTableMetaClient.builder()
        return builder.setConf(self._context.getStorageConf()).setBasePath(self._base).build()

    def _table(self) -> Any:
        """Return a new HoodieTable, with the timeline as it is now."""
        return self._hudi.table.HoodieSparkTable.create(self._config, self._context)

    def _none(self) -> Any:
        """Return an empty Option of Hudi."""
        return self._hudi.common.util.Option.empty()
