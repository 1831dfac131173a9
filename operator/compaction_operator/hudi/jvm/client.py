"""The client of one Hudi table that the driver uses: Hudi's own write client, called by py4j."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from compaction_operator.hudi.comparison import Rule
from compaction_operator.hudi.jvm.cleaning import Cleaning
from compaction_operator.hudi.jvm.file_groups import FileGroups
from compaction_operator.hudi.jvm.java import hudi_errors, items, java_map
from compaction_operator.hudi.jvm.planner import Planner
from compaction_operator.hudi.jvm.probe import require_all_calls, require_lock_provider
from compaction_operator.hudi.jvm.writes import Writes
from compaction_operator.hudi.merging import EVENT_TIME, merge_mode_of
from compaction_operator.hudi.properties import HudiTable


class HudiClient(Planner, Cleaning, Writes, FileGroups):
    """A write client of one table, or of its metadata table. Every method raises HudiError."""

    @classmethod
    def open(
        cls, spark: Any, table: HudiTable, options: Mapping[str, str], *, bundle: str, lock_provider: str | None
    ) -> Self:
        """Return a client of a table with the options of `write_options`, on a Spark session that has the bundle.

        `lock_provider` is the class that Hudi will load for its lock, None if it takes none. Raises
        UnsupportedVersionError if the bundle lacks anything that may be called later, and NoLockProviderError if the
        session lacks the lock provider.
        """
        jvm = spark._jvm
        require_all_calls(jvm, bundle)
        if lock_provider:
            require_lock_provider(jvm, lock_provider)
        with hudi_errors(f"opening {table.location}"):
            scala = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(java_map(jvm, options))
            create = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient
            return cls(
                jvm,
                create(spark._jsparkSession, table.location, scala, jvm.scala.Option.apply(None)),
                bundle=bundle,
                names_have_instants=not table.numbers_log_files,
                replays_last=table.replays_merged_blocks_last,
                rule=rule_of(table),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    @hudi_errors("archiving")
    def archive(self, *, confirm: Callable[[], None]) -> int:
        """Move old instants from the active timeline to the archive, as Hudi's settings say; return their number.

        `confirm` is called first under the table's lock, which Hudi needs for all of it, and may raise to prevent it.
        """
        with self.locked_for_client():
            confirm()
            before = self._times()
            self._client.archive()
            return len(before - self._times())

    def _times(self) -> set[str]:
        """Return the instants of the active timeline, of all actions."""
        return {str(one.requestedTime()) for one in items(self._meta().getActiveTimeline().getInstants())}

    @hudi_errors("opening the metadata table")
    def metadata_table(self) -> "HudiClient":
        """Return a client of the table's metadata table. NB: only the data table's lock protects its operations."""
        # NB: 1.2 compares schemas by identity. Its append handle fails ("Index 7 out of bounds") when it interns
        # the schema before this class does, that is, in a JVM that has not read the metadata table yet.
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._jvm.java.lang.Class.forName("org.apache.hudi.metadata.HoodieMetadataPayload", True, loader)
        policy = self._hudi.common.model.HoodieFailedWritesCleaningPolicy.LAZY
        version = () if self._is_1_0 else (self._meta().getTableConfig().getTableVersion(),)
        utils = self._hudi.metadata.HoodieMetadataWriteUtils
        config = utils.createMetadataWriteConfig(self._config, policy, *version)
        # NB: otherwise a client of 1.0 commits before the checks.
        config.setValue("hoodie.auto.commit", "false")
        client = self._hudi.client.SparkRDDWriteClient(self._context, config)
        return HudiClient(self._jvm, client, bundle=self._bundle, names_have_instants=False)


def rule_of(table: HudiTable) -> Rule | None:
    """Return how the merged blocks of a table that is admitted are compared with their originals.

    None before version 8: there a log file may hold blocks of several commits, and of rollbacks.
    """
    if table.numbers_log_files:
        return None
    return Rule(table.ordering_fields if merge_mode_of(table) == EVENT_TIME else ())
