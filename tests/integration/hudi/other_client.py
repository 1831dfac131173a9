"""Another client's job on a Hudi table: plans, runs and commits through Hudi's own client, one call at a time."""

from collections.abc import Mapping
from typing import Any

from sandbox.hudi.look import meta_client
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import ONE_CLOCK, Ordering, SmallTable

LOG_COMPACTION = "logcompaction"
COMPACTION = "compaction"
CLUSTERING = "clustering"

TABLE_VERSION = "hoodie.write.table.version"
"""Without it a client takes a table for one of its own newest version, and then refuses it."""

SHARED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
"""How writers and services of one process share a table; what one of them leaves, the others do not roll back."""

LATEST_ONLY = {
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.cleaner.fileversions.retained": "1",
}


class OtherClient:
    """Another client of a table, with these options of Hudi besides those that keep its rows right."""

    def __init__(self, session: HudiSession, table: SmallTable, options: Mapping[str, str] | None = None) -> None:
        self._session = session
        self._table = table
        self.options = {
            "hoodie.metadata.enable": table.options["hoodie.metadata.enable"],
            "hoodie.write.auto.upgrade": "false",
            "hoodie.embed.timeline.server": "false",
            **ONE_CLOCK,
            "hoodie.clean.failed.writes.policy": "LAZY",
            "hoodie.cleaner.policy.failed.writes": "LAZY",
            "hoodie.compact.inline.max.delta.commits": "1",
            **_ordering(table.ordering),
            **{key: table.options[key] for key in [TABLE_VERSION] if key in table.options},
            **(options or {}),
        }
        jvm = session.jvm
        chosen = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(jvm.java.util.HashMap(self.options))
        self.client = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient(
            session.spark._jsparkSession, str(table.location), chosen, jvm.scala.Option.apply(None)
        )

    def schedule(self, action: str) -> str | None:
        """Put a plan onto the timeline; return its instant, or None when there is nothing to plan."""
        call = {
            LOG_COMPACTION: self.client.scheduleLogCompaction,
            COMPACTION: self.client.scheduleCompaction,
            CLUSTERING: self.client.scheduleClustering,
        }[action]
        found = call(self._none())
        return str(found.get()) if found.isPresent() else None

    def execute(self, action: str, instant: str) -> Any:
        """Do what was planned, without the commit; return what the commit wants."""
        return (self.client.logCompact if action == LOG_COMPACTION else self.client.compact)(instant)

    def commit(self, action: str, instant: str, done: Any) -> None:
        """Commit what `execute` did; 1.0.2 wants the metadata of the commit alone."""
        call = self.client.commitLogCompaction if action == LOG_COMPACTION else self.client.commitCompaction
        old = self._session.version.startswith("1.0.")
        call(instant, done.getCommitMetadata().get() if old else done, self._none())

    def run(self, action: str, instant: str) -> None:
        """Do and commit what was planned."""
        self.commit(action, instant, self.execute(action, instant))

    def all_of(self, action: str) -> str:
        """Plan, do and commit; return the instant."""
        instant = self.schedule(action)
        assert instant is not None, f"Hudi planned no {action}"
        self.run(action, instant)
        return instant

    def clean(self) -> int:
        """Clean; return how many files were deleted."""
        cleaned = self.client.clean()
        return int(cleaned.getTotalFilesDeleted()) if cleaned is not None else 0

    def roll_back_failed_writes(self) -> None:
        """Roll back what writers left whose heartbeat is over, as the cleaner does."""
        self.client.rollbackFailedWrites(meta_client(self._session, self._table.location))

    def begin_rollback(self, action: str, instant: str) -> None:
        """Plan the rollback of what has begun, and do no more."""
        jvm, context = self._session.jvm, self.client.getEngineContext()
        table = jvm.org.apache.hudi.table.HoodieSparkTable.create(self.client.getConfig(), context)
        make = table.getMetaClient().getInstantGenerator()
        inflight = {
            LOG_COMPACTION: make.getLogCompactionInflightInstant,
            COMPACTION: make.getCompactionInflightInstant,
        }[action]
        time = str(self.client.createNewInstantTime(False))
        table.scheduleRollback(context, time, inflight(instant), False, False, False)

    def plan(self, instant: str, action: str = LOG_COMPACTION) -> list[list[str]]:
        """Return the names of the log files of each operation of a plan on the timeline."""
        plans = self._session.jvm.org.apache.hudi.common.util.CompactionUtils
        read = plans.getLogCompactionPlan if action == LOG_COMPACTION else plans.getCompactionPlan
        operations = read(meta_client(self._session, self._table.location), instant).getOperations()
        return [sorted(str(file) for file in _items(one.getDeltaFilePaths())) for one in _items(operations)]

    def narrow(self, instant: str, files: list[str]) -> None:
        """Let the plan of an only operation merge these log files alone."""
        plans = self._session.jvm.org.apache.hudi.common.util.CompactionUtils
        client = meta_client(self._session, self._table.location)
        plan = plans.getLogCompactionPlan(client, instant)
        (operation,) = _items(plan.getOperations())
        operation.setDeltaFilePaths(self._session.jvm.java.util.ArrayList(files))
        requested = client.getInstantGenerator().getLogCompactionRequestedInstant(instant)
        client.getActiveTimeline().deletePending(requested)
        client.getActiveTimeline().saveToLogCompactionRequested(requested, plan)

    def close(self) -> None:
        """Close the client."""
        self.client.close()

    def _none(self) -> Any:
        return self._session.jvm.org.apache.hudi.common.util.Option.empty()


def _items(avro_list: Any) -> list[Any]:
    return [avro_list.get(index) for index in range(avro_list.size())]


def _ordering(ordering: Ordering) -> dict[str, str]:
    """1.0.2's client takes none of them from the table, and then a full compaction merges by arrival."""
    if ordering is Ordering.COMMIT_TIME:
        return {"hoodie.record.merge.mode": ordering.value}
    payload = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    return {
        "hoodie.record.merge.mode": ordering.value,
        "hoodie.payload.ordering.field": "ts",
        "hoodie.payload.event.time.field": "ts",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.compaction.payload.class": payload,
        "hoodie.datasource.write.payload.class": payload,
    }
