"""The client of one Hudi table that the driver uses: Hudi's own write client, called by py4j."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from compaction_operator.hudi.instants import OWNER_KEY, Action, Instant
from compaction_operator.hudi.jvm.file_groups import FileGroups
from compaction_operator.hudi.jvm.handle import TableHandle
from compaction_operator.hudi.jvm.java import hudi_errors, java_map, value_of
from compaction_operator.hudi.jvm.log_files import LogFiles
from compaction_operator.hudi.jvm.plan_reader import PlanReader
from compaction_operator.hudi.jvm.planner import Planner
from compaction_operator.hudi.jvm.release import Release
from compaction_operator.hudi.jvm.repairs import Repairs
from compaction_operator.hudi.jvm.timeline import Timeline
from compaction_operator.hudi.jvm.writes import Writes
from compaction_operator.hudi.plans import Choose, Cleaned, FileGroup, Plan, Written
from compaction_operator.hudi.properties import HudiTable


class HudiClient:
    """A write client of one table, or of its metadata table. Every method raises HudiError.

    `names_have_instants`: the names of log files contain the instant of their delta commit (table version 8 or later).
    `replays_last` is HudiTable.replays_merged_blocks_last.
    """

    def __init__(
        self, jvm: Any, client: Any, *, release: Release, names_have_instants: bool, replays_last: bool = False
    ) -> None:
        handle = self._handle = TableHandle(jvm, client, release)
        storage = handle.meta().getStorage()
        logs = LogFiles(jvm, storage, handle.base, names_have_instants=names_have_instants)
        self._timeline = Timeline(handle)
        self._plans = PlanReader(handle, self._timeline, logs)
        self._planner = Planner(handle, self._timeline, self._plans, replays_last=replays_last)
        self._repairs = Repairs(handle, self._timeline, self._plans)
        self._writes = Writes(handle, logs)
        self._file_groups = FileGroups(handle, self._timeline, logs)

    @classmethod
    def open(cls, spark: Any, table: HudiTable, options: Mapping[str, str], *, bundle: str) -> Self:
        """Return a client of a table with the options of `write_options`, on a Spark session that has the bundle."""
        jvm = spark._jvm
        with hudi_errors(f"opening {table.location}"):
            scala = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(java_map(jvm, options))
            create = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient
            client = create(spark._jsparkSession, table.location, scala, jvm.scala.Option.apply(None))
            return cls(
                jvm,
                client,
                release=Release(bundle),
                names_have_instants=not table.numbers_log_files,
                replays_last=table.replays_merged_blocks_last,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handle.client.close()

    def clock_skew(self) -> float:
        """Return by how many seconds this JVM's instants are ahead of those of the timeline's last writer.

        A table's instants are in local time by default, so a wrong time zone shows here as well as a wrong clock.
        """
        with hudi_errors("comparing clocks"):
            return self._timeline.clock_skew()

    def instants(self) -> tuple[Instant, ...]:
        """Return the relevant instants of the active timeline. Pending plans carry their owner."""
        with hudi_errors("reading the timeline"):
            return self._timeline.instants(self._handle.meta())

    def plan_log_compaction(self, *, owner: str, choose: Choose, beside: bool) -> Plan | None:
        """Plan a log compaction of the blocks that `choose` takes from Hudi's proposal; None: nothing to do.

        With `beside`, pending delta commits that are newer than the plan do not prevent it: their blocks come after
        the merged one.
        """
        with hudi_errors("planning a log compaction"):
            return self._planner.plan(owner=owner, choose=choose, beside=beside)

    def plan_compaction(self, *, owner: str) -> Plan | None:
        """Save Hudi's own plan of a compaction on the timeline; None: nothing to do."""
        with hudi_errors("planning a compaction"):
            handle = self._handle
            extra = handle.hudi.common.util.Option.of(java_map(handle.jvm, {OWNER_KEY: owner}))
            time = value_of(handle.client.scheduleCompaction(extra))
            return None if time is None else self._plans.plan(handle.meta(), str(time), Action.COMPACTION)

    def plan_of(self, instant: Instant) -> Plan:
        """Return the plan of a pending instant."""
        with hudi_errors(f"reading the plan of {instant}"):
            return self._plans.plan(self._handle.meta(), instant.time, instant.action)

    def run(self, plan: Plan, *, confirm: Callable[[], None]) -> Written:
        """Execute a plan and commit it. `confirm` is called before the commit and may raise to prevent it."""
        with hudi_errors(f"running {plan.action} {plan.instant}"):
            return self._writes.run(plan, confirm=confirm)

    def roll_back(self, instant: Instant) -> None:
        """Roll back an inflight log compaction, even if a later compaction is on the timeline (HoodieTable)."""
        with hudi_errors(f"rolling back {instant}"):
            self._repairs.roll_back(instant)

    def remove_empty_plans(self) -> tuple[str, ...]:
        """Remove plans without content and return their instants. NB: while one exists, no writer can write.

        The process that made such a plan died while it wrote it (see `cut_short`).
        """
        with hudi_errors("removing plans without content"):
            return self._repairs.remove_empty_plans()

    def cut_short(self) -> tuple[Instant, ...]:
        """Return the log compactions and compactions whose commit has no content, as their driver died writing it.

        NB: readers take such an instant for committed. Hudi 1.0 fails wherever it checks a commit against it
        (ConcurrentOperation).
        """
        with hudi_errors("looking for commits that were cut short"):
            return self._repairs.cut_short()

    def reopen(self, instant: Instant) -> bool:
        """Make a commit without content inflight again; False when a later instant depends on it.

        That instant is the plan of a later compaction that contains a merged block, or a later cleaning of what a
        compaction replaced. All files that were merged must still exist.
        """
        with hudi_errors(f"reopening {instant}"):
            return self._repairs.reopen(instant)

    def remove(self, instant: Instant) -> None:
        """Remove a plan of a log compaction that can never run."""
        with hudi_errors(f"removing {instant}"):
            self._repairs.remove(instant)

    def clean(self) -> Cleaned | None:
        """Run Hudi's cleaner; None when it found nothing to delete."""
        with hudi_errors("cleaning"):
            done = self._handle.client.clean()
            return None if done is None else Cleaned(str(done.getStartCleanTime()), int(done.getTotalFilesDeleted()))

    def archive(self) -> None:
        """Move old instants from the active timeline to the archive, as Hudi's settings say."""
        with hudi_errors("archiving"):
            self._handle.client.archive()

    def partitions(self) -> tuple[str, ...]:
        """Return the paths of all partitions relative to the table; '' for an unpartitioned table."""
        with hudi_errors("listing partitions"):
            return self._file_groups.partitions(self._handle.table())

    def file_groups(self) -> tuple[FileGroup, ...]:
        """Return the newest slice of each file group, with the pending instant that plans for it."""
        with hudi_errors("listing file groups"):
            return self._file_groups.newest_slices()

    def written(self, *, besides: str) -> tuple[int, int]:
        """Return the bytes by writers and the total bytes since the last full compaction other than `besides`.

        NB: only as far back as the active timeline goes.
        """
        with hudi_errors("adding up what was written"):
            return self._writes.written_since(besides)

    def metadata_table(self) -> "HudiClient":
        """Return a client of the table's metadata table. NB: only the data table's lock protects its operations."""
        with hudi_errors("opening the metadata table"):
            handle = self._handle
            # NB: 1.2 compares schemas by identity. Its append handle fails ("Index 7 out of bounds") when it interns
            # the schema before this class does, that is, in a JVM that has not read the metadata table yet.
            loader = handle.jvm.java.lang.Thread.currentThread().getContextClassLoader()
            handle.jvm.java.lang.Class.forName("org.apache.hudi.metadata.HoodieMetadataPayload", True, loader)
            policy = handle.hudi.common.model.HoodieFailedWritesCleaningPolicy.LAZY
            utils = handle.hudi.metadata.HoodieMetadataWriteUtils
            config = handle.release.metadata_write_config(utils, handle.config, policy, handle.meta)
            client = handle.hudi.client.SparkRDDWriteClient(handle.context, config)
            return HudiClient(handle.jvm, client, release=handle.release, names_have_instants=False)

    def locked(self) -> AbstractContextManager[None]:
        """Hold the table's lock. NB: the lock is not re-entrant. Call nothing meanwhile that takes it itself."""
        return self._handle.locked()
