"""Hudi's Java objects for one table: its write client, configuration and engine context, and its lock."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from compaction_operator.hudi.jvm.java import hudi_errors
from compaction_operator.hudi.jvm.release import Release


class TableHandle:
    """What every part of the client needs in order to call Hudi for one table, or for its metadata table."""

    def __init__(self, jvm: Any, client: Any, release: Release) -> None:
        self.jvm = jvm
        self.hudi = jvm.org.apache.hudi
        self.client = client
        self.release = release
        self.config = client.getConfig()
        self.context = client.getEngineContext()
        self.base = str(self.config.getBasePath())

    def meta(self) -> Any:
        """Return a new HoodieTableMetaClient, with the timeline as it is now."""
        builder = self.hudi.common.table.HoodieTableMetaClient.builder()
        return builder.setConf(self.context.getStorageConf()).setBasePath(self.base).build()

    def table(self) -> Any:
        """Return a new HoodieTable, with the timeline as it is now."""
        return self.hudi.table.HoodieSparkTable.create(self.config, self.context)

    def none(self) -> Any:
        """Return an empty Option of Hudi."""
        return self.hudi.common.util.Option.empty()

    def path(self, *parts: Any) -> Any:
        """Return a StoragePath."""
        return self.hudi.storage.StoragePath(*parts)

    def array_list(self, values: Iterable[Any] = ()) -> Any:
        """Return a java.util.ArrayList."""
        found = self.jvm.java.util.ArrayList()
        for value in values:
            found.add(value)
        return found

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the table's lock. NB: the lock is not re-entrant. Call nothing meanwhile that takes it itself."""
        manager = self.hudi.client.transaction.TransactionManager(self.config, self.meta().getStorage())
        begin, end = self.release.transaction(manager)
        with hudi_errors("taking the table's lock"):
            # NB: do not close a manager that failed to get the lock: the file system's provider would delete the lock.
            begin(self.none(), self.none())
        try:
            yield
        finally:
            end(self.none())
            manager.close()
