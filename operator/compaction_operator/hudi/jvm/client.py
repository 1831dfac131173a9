"""The client of one Hudi table that the driver uses: Hudi's own write client, called by py4j."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from compaction_operator.hudi.jvm.file_groups import FileGroups
from compaction_operator.hudi.jvm.java import hudi_errors, java_map
from compaction_operator.hudi.jvm.planner import Planner
from compaction_operator.hudi.jvm.probe import require_all_calls
from compaction_operator.hudi.jvm.repairs import Repairs
from compaction_operator.hudi.jvm.writes import Writes
from compaction_operator.hudi.plans import Cleaned
from compaction_operator.hudi.properties import HudiTable


class HudiClient(Planner, Repairs, Writes, FileGroups):
    """A write client of one table, or of its metadata table. Every method raises HudiError."""

    @classmethod
    def open(cls, spark: Any, table: HudiTable, options: Mapping[str, str], *, bundle: str) -> Self:
        """Return a client of a table with the options of `write_options`, on a Spark session that has the bundle.

        Raises UnsupportedVersionError if the bundle lacks anything that may be called later.
        """
        jvm = spark._jvm
        require_all_calls(jvm, bundle)
        with hudi_errors(f"opening {table.location}"):
            scala = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(java_map(jvm, options))
            create = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient
            return cls(
                jvm,
                create(spark._jsparkSession, table.location, scala, jvm.scala.Option.apply(None)),
                bundle=bundle,
                names_have_instants=not table.numbers_log_files,
                replays_last=table.replays_merged_blocks_last,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    @hudi_errors("cleaning")
    def clean(self) -> Cleaned | None:
        """Run Hudi's cleaner; None when it found nothing to delete."""
        done = self._client.clean()
        return None if done is None else Cleaned(str(done.getStartCleanTime()), int(done.getTotalFilesDeleted()))

    @hudi_errors("archiving")
    def archive(self) -> None:
        """Move old instants from the active timeline to the archive, as Hudi's settings say."""
        self._client.archive()

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
