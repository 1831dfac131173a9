"""Hudi's own write client by py4j: the only module that knows Hudi's classes and how its releases differ."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from compaction_operator.hudi.instants import OWNER_KEY, SEEN_KEY, Action, Instant, State
from compaction_operator.hudi.java import HudiFailedError, hudi_errors, items, java_map, streamed, value_of
from compaction_operator.hudi.log_blocks import blocks_of
from compaction_operator.hudi.logfiles import LogFiles
from compaction_operator.hudi.plans import Choose, Cleaned, FileGroup, Operation, Plan, Written
from compaction_operator.hudi.properties import HudiTable

ACTIONS: Mapping[str, Action] = {
    "logcompaction": Action.LOG_COMPACTION,
    "compaction": Action.COMPACTION,
    # A merge-on-read table has a commit only of a compaction.
    "commit": Action.COMPACTION,
    "clustering": Action.CLUSTERING,
    "replacecommit": Action.CLUSTERING,
    "deltacommit": Action.DELTA_COMMIT,
}
"""HoodieTimeline's names of the actions that matter here."""

SERVICES = frozenset({"LOG_COMPACT", "COMPACT", "CLUSTER"})
"""WriteOperationType's names of what no writer does."""

_PLAN = re.compile(r"([0-9]+)\.(logcompaction|compaction)\.requested")
_COMMIT = re.compile(r"([0-9]+)(_[0-9]+)?\.(deltacommit|commit)")
"""Names on the timeline of what is completed; from table version 8 on with the time of completion."""


class HudiClient:
    """A write client of one table, or of its metadata table. Every method raises HudiError."""

    def __init__(
        self, jvm: Any, client: Any, *, bundle: str, names_have_instants: bool, replays_last: bool = False
    ) -> None:
        self._jvm = jvm
        self._hudi = jvm.org.apache.hudi
        self._client = client
        self._old = bundle.startswith("1.0.")
        self._replays_last = replays_last
        self._config = client.getConfig()
        self._context = client.getEngineContext()
        self._base = str(self._config.getBasePath())
        self._logs = LogFiles(jvm, self._meta().getStorage(), self._base, names_have_instants=names_have_instants)

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

    def clock_skew(self) -> float:
        """Return by how many seconds this JVM's instants are ahead of those of whoever wrote to the timeline last.

        A table's instants are in local time by default, so a wrong time zone shows here as well as a wrong clock.
        """
        with hudi_errors("comparing clocks"):
            meta = self._meta()
            entries = items(meta.getStorage().listDirectEntries(meta.getTimelinePath()))
            begun = [entry for entry in entries if str(entry.getPath().getName()).endswith(".requested")]
            if not begun:
                return 0.0
            newest = max(begun, key=lambda entry: int(entry.getModificationTime()))
            theirs = self._millis(str(newest.getPath().getName())) - int(newest.getModificationTime())
            now = str(self._client.createNewInstantTime(False))
            return (self._millis(now) - int(self._jvm.System.currentTimeMillis()) - theirs) / 1000

    def instants(self) -> tuple[Instant, ...]:
        """Return what is on the active timeline, of the actions that matter here; plans tell whose they are."""
        with hudi_errors("reading the timeline"):
            return self._instants(self._meta())

    def plan_log_compaction(self, *, owner: str, choose: Choose, beside: bool) -> Plan | None:
        """Put a plan of a log compaction onto the timeline, of what is chosen of Hudi's own; None: nothing to do.

        `beside`: also with pending delta commits that are newer than the plan, where their blocks come after it.

        NB: made under the table's lock, and nothing is saved before it is narrowed: a wide plan is never there. It is
        made once before, for nothing but that its log files' headers need not be read while writers wait.
        """
        with hudi_errors("planning a log compaction"):
            if self._draft(self._table(), choose, beside=beside) is None:
                return None
            with self.locked():
                table = self._table()
                draft = self._draft(table, choose, beside=beside)
                if draft is None:
                    return None
                plan, java_plan = draft
                extra = {OWNER_KEY: owner, SEEN_KEY: ",".join(sorted(plan.seen))}
                java_plan.setExtraMetadata(java_map(self._jvm, extra))
                requested = table.getMetaClient().getInstantGenerator().getLogCompactionRequestedInstant(plan.instant)
                table.getActiveTimeline().saveToLogCompactionRequested(requested, java_plan)
                return plan

    def plan_compaction(self, *, owner: str) -> Plan | None:
        """Put Hudi's own plan of a compaction onto the timeline; None: nothing to do."""
        with hudi_errors("planning a compaction"):
            extra = self._hudi.common.util.Option.of(java_map(self._jvm, {OWNER_KEY: owner}))
            time = value_of(self._client.scheduleCompaction(extra))
            return None if time is None else self._plan(self._meta(), str(time), Action.COMPACTION)

    def plan_of(self, instant: Instant) -> Plan:
        """Return the plan of a pending instant."""
        with hudi_errors(f"reading the plan of {instant}"):
            return self._plan(self._meta(), instant.time, instant.action)

    def run(self, plan: Plan, *, confirm: Callable[[], None]) -> Written:
        """Execute a plan and commit it; `confirm` is called in between and may raise in order to stop it there."""
        with hudi_errors(f"running {plan.action} {plan.instant}"):
            merged = plan.action is Action.LOG_COMPACTION
            run = self._client.logCompact if merged else self._client.compact
            commit = self._client.commitLogCompaction if merged else self._client.commitCompaction
            try:
                metadata = run(plan.instant)
                require_all_written(plan, metadata)
                confirm()
                result = metadata.getCommitMetadata().get() if self._old else metadata
                commit(plan.instant, result, self._none())
            except BaseException:
                self._end_heartbeat(plan)
                raise
            return self._written(plan)

    def roll_back(self, instant: Instant) -> None:
        """Roll back a log compaction that had begun, also where a later compaction stands (HoodieTable).

        NB: a rollback of it that was cut short is gone on with: two of one instant must not be.
        """
        with hudi_errors(f"rolling back {instant}"):
            table = self._table()
            meta = table.getMetaClient()
            begun = meta.getInstantGenerator().getLogCompactionInflightInstant(instant.time)
            service = self._client.getTableServiceClient()
            earlier = value_of(service.getPendingRollbackInfo(meta, instant.time, False))
            if earlier is not None:
                time = earlier.getRollbackInstant().requestedTime()
                table.rollback(self._context, time, begun, True, False)
            elif self._old:
                table.rollbackInflightLogCompaction(begun)
            else:
                table.rollbackInflightLogCompaction(begun, self._client.getTransactionManager())

    def remove_empty_plans(self) -> tuple[str, ...]:
        """Remove plans without content, and return the instants. NB: with one of them no writer can write any more.

        Whoever made it died right then (see `cut_short`): plans are made under the table's lock, which is held here.
        """
        with hudi_errors("removing plans without content"):
            if not _empty_plans(self._timeline_files(self._meta())):
                return ()
            with self.locked():
                meta = self._meta()
                found = _empty_plans(self._timeline_files(meta))
                for name in found.values():
                    self._delete_from_timeline(meta, name)
                return tuple(sorted(found))

    def cut_short(self) -> tuple[Instant, ...]:
        """Return the log compactions and compactions whose commit has no content: who made it died right then.

        NB: but for HDFS Hudi creates the file and fills it afterwards (HoodieStorage.createImmutableFileInPath).
        Readers take it for committed; Hudi 1.0 fails wherever a commit is checked against it (ConcurrentOperation).
        """
        with hudi_errors("looking for commits that were cut short"):
            meta = self._meta()
            sizes = self._timeline_files(meta)
            found = []
            for time in _empty_commits(sizes):
                for action in (Action.LOG_COMPACTION, Action.COMPACTION):
                    if f"{time}.{action}.requested" in sizes:
                        owner = self._extra(meta, time, action).get(OWNER_KEY)
                        found.append(Instant(time, action, State.COMPLETED, owner))
            return tuple(found)

    def reopen(self, instant: Instant) -> bool:
        """Take such a commit back, so that it has only begun; False where that cannot be, as something rests on it.

        That is a later compaction's plan with a merged block in it, or a later cleaning of what a compaction replaced:
        all that was merged must still be there.
        """
        with hudi_errors(f"reopening {instant}"), self.locked():
            meta = self._meta()
            name = _empty_commits(self._timeline_files(meta)).get(instant.time)
            if name is None or _has_successor(meta, instant) or not self._has_inputs(meta, instant):
                return False
            self._delete_from_timeline(meta, name)
            return True

    def remove(self, instant: Instant) -> None:
        """Remove a plan of a log compaction that can never run."""
        with hudi_errors(f"removing {instant}"), self.locked():
            meta = self._meta()
            requested = meta.getInstantGenerator().getLogCompactionRequestedInstant(instant.time)
            meta.getActiveTimeline().deletePending(requested)

    def clean(self) -> Cleaned | None:
        """Run Hudi's cleaner; None when it found nothing to delete."""
        with hudi_errors("cleaning"):
            done = self._client.clean()
            return None if done is None else Cleaned(str(done.getStartCleanTime()), int(done.getTotalFilesDeleted()))

    def archive(self) -> None:
        """Move old instants from the active timeline to the archive, as Hudi's settings say."""
        with hudi_errors("archiving"):
            self._client.archive()

    def partitions(self) -> tuple[str, ...]:
        """Return the paths of all partitions below the table; '' for a table that has none."""
        with hudi_errors("listing partitions"):
            return self._partitions(self._table())

    def file_groups(self) -> tuple[FileGroup, ...]:
        """Return the newest slice of each file group, and which of them are in the plan of something pending."""
        with hudi_errors("listing file groups"):
            table = self._table()
            view, plain = table.getSliceView(), self._plain(table.getMetaClient())
            busy = self._busy(view)
            return tuple(
                self._file_group(partition, java, plain, busy)
                for partition in self._partitions(table)
                for java in streamed(self._jvm, view.getLatestFileSlicesStateless(partition))
            )

    def written(self, *, besides: str) -> tuple[int, int]:
        """Return the bytes that writers and that all together wrote since the last full compaction `besides` that one.

        NB: only as far back as the active timeline goes.
        """
        with hudi_errors("adding up what was written"):
            return self._written_since(self._meta(), besides)

    def metadata_table(self) -> "HudiClient":
        """Return a client of the table's metadata table. NB: nothing but the data table's lock guards what it does."""
        with hudi_errors("opening the metadata table"):
            # NB: 1.2 compares schemas by identity, and its append handle fails ("Index 7 out of bounds") where it has
            # interned the schema before this class has: in a JVM that has not read the metadata table yet.
            loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
            self._jvm.java.lang.Class.forName("org.apache.hudi.metadata.HoodieMetadataPayload", True, loader)
            policy = self._hudi.common.model.HoodieFailedWritesCleaningPolicy.LAZY
            create = self._hudi.metadata.HoodieMetadataWriteUtils.createMetadataWriteConfig
            version = () if self._old else (self._meta().getTableConfig().getTableVersion(),)
            client = self._hudi.client.SparkRDDWriteClient(self._context, create(self._config, policy, *version))
            bundle = "1.0." if self._old else ""
            return HudiClient(self._jvm, client, bundle=bundle, names_have_instants=False)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the table's lock. NB: it is not re-entrant: nothing that takes it itself may be called meanwhile."""
        manager = self._hudi.client.transaction.TransactionManager(self._config, self._meta().getStorage())
        begin = manager.beginTransaction if self._old else manager.beginStateChange
        end = manager.endTransaction if self._old else manager.endStateChange
        with hudi_errors("taking the table's lock"):
            # NB: a manager that did not get the lock is not closed: the file system's provider would delete the lock.
            begin(self._none(), self._none())
        try:
            yield
        finally:
            end(self._none())
            manager.close()

    def _millis(self, instant: str) -> int:
        """Return the moment of an instant, as if it were in UTC."""
        digits = instant.partition(".")[0]
        parsed = datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        return round(parsed.timestamp() * 1000)

    def _none(self) -> Any:
        return self._hudi.common.util.Option.empty()

    def _meta(self) -> Any:
        builder = self._hudi.common.table.HoodieTableMetaClient.builder()
        return builder.setConf(self._context.getStorageConf()).setBasePath(self._base).build()

    def _table(self) -> Any:
        return self._hudi.table.HoodieSparkTable.create(self._config, self._context)

    def _instants(self, meta: Any) -> tuple[Instant, ...]:
        found = (self._instant(meta, java) for java in items(meta.getActiveTimeline().getInstants()))
        return tuple(instant for instant in found if instant is not None)

    def _instant(self, meta: Any, java: Any) -> Instant | None:
        action = ACTIONS.get(str(java.getAction()))
        state = State(str(java.getState()))
        if action is None:
            return None
        time = str(java.requestedTime())
        planned = state is not State.COMPLETED and action in (Action.LOG_COMPACTION, Action.COMPACTION)
        return Instant(time, action, state, self._extra(meta, time, action).get(OWNER_KEY) if planned else None)

    def _java_plan(self, meta: Any, time: str, action: Action) -> Any:
        plans = self._hudi.common.util.CompactionUtils
        read = plans.getLogCompactionPlan if action is Action.LOG_COMPACTION else plans.getCompactionPlan
        return read(meta, time)

    def _extra(self, meta: Any, time: str, action: Action) -> dict[str, str]:
        return {
            str(key): str(value)
            for key, value in (self._java_plan(meta, time, action).getExtraMetadata() or {}).items()
        }

    def _plan(self, meta: Any, time: str, action: Action) -> Plan:
        found = items(self._java_plan(meta, time, action).getOperations())
        if action is Action.LOG_COMPACTION:
            operations = tuple(self._log_operation(java) for java in found)
        else:
            plain = self._plain(meta)
            operations = tuple(self._base_operation(java, plain) for java in found)
        seen = self._extra(meta, time, action).get(SEEN_KEY, "")
        return Plan(time, action, operations, frozenset(seen.split(",")) if seen else frozenset())

    def _log_operation(self, java: Any) -> Operation:
        partition, names = str(java.getPartitionPath() or ""), items(java.getDeltaFilePaths())
        files = tuple(self._logs.read(partition, str(name)) for name in names)
        return Operation(partition, str(java.getFileId()), files)

    def _base_operation(self, java: Any, plain: Collection[str]) -> Operation:
        partition, base = str(java.getPartitionPath() or ""), java.getDataFilePath()
        names = [str(name) for name in items(java.getDeltaFilePaths())]
        glances = (self._logs.glance(partition, name, plain=plain) for name in names)
        return Operation(
            partition=partition,
            file_id=str(java.getFileId()),
            files=tuple(replace(file, size=self._logs.size(partition, file.name)) for file in glances),
            base_size=self._logs.size(partition, str(base)) if base else 0,
        )

    def _has_inputs(self, meta: Any, instant: Instant) -> bool:
        """Whether all files that a plan merges are still there."""
        storage, path = meta.getStorage(), self._jvm.org.apache.hudi.storage.StoragePath
        for java in items(self._java_plan(meta, instant.time, instant.action).getOperations()):
            names = [*items(java.getDeltaFilePaths()), *filter(None, [java.getDataFilePath()])]
            places = [self._logs.path(str(java.getPartitionPath() or ""), str(name)) for name in names]
            if not all(storage.exists(path(place)) for place in places):
                return False
        return True

    def _draft(self, table: Any, choose: Choose, *, beside: bool) -> tuple[Plan, Any] | None:
        """Return the plan that Hudi would make of a log compaction, narrowed and not saved; None: nothing to do."""
        meta = table.getMetaClient()
        if not meta.getCommitsTimeline().filterCompletedInstants().countInstants():
            return None
        time = str(self._client.createNewInstantTime(False))
        compact = self._hudi.table.action.compact
        kind = self._hudi.common.model.WriteOperationType.LOG_COMPACT
        executor = compact.ScheduleCompactionActionExecutor(
            self._context, self._config, table, time, self._none(), kind
        )
        make = compact.plan.generators.HoodieLogCompactionPlanGenerator
        java_plan = make(table, self._context, self._config, executor).generateCompactionPlan(time)
        if java_plan is None:
            return None
        plan = self._narrow(java_plan, self._instants(meta), self._instant_of_plan(meta, time), choose, beside=beside)
        return (plan, java_plan) if plan.operations else None

    def _instant_of_plan(self, meta: Any, now: str) -> str:
        """Return the instant of a log compaction that is planned now.

        NB: readers that replay a merged block at its own instant would put it over the block of a writer who took an
        instant before and shows it after (Spark's writer of 1.0 does, for as long as its query takes). So it comes
        right after the newest that is on the timeline but for delta commits that are under way.
        """
        if not self._replays_last:
            return now
        found = items(meta.getActiveTimeline().getInstants())
        newest = max(str(one.requestedTime()) for one in found if one.isCompleted() or not _is_delta_commit(one))
        return str(self._hudi.common.table.timeline.HoodieInstantTimeGenerator.instantTimePlusMillis(newest, 1))

    def _narrow(
        self, java_plan: Any, instants: Iterable[Instant], instant: str, choose: Choose, *, beside: bool
    ) -> Plan:
        """Cut the plan down to what is chosen, in Hudi's order of the files, and return what is left of it."""
        commits = [one for one in instants if one.action is Action.DELTA_COMMIT]
        pending = {one.time for one in commits if one.is_pending and not (beside and one.time > instant)}
        kept, operations = self._jvm.java.util.ArrayList(), []
        for java in items(java_plan.getOperations()):
            whole = self._log_operation(java)
            chosen = {file.name for block in choose(whole, pending) for file in block.files}
            if chosen:
                files = tuple(file for file in whole.files if file.name in chosen)
                java.setDeltaFilePaths(self._java_list(file.name for file in files))
                kept.add(java)
                operations.append(Operation(whole.partition, whole.file_id, files))
        java_plan.setOperations(kept)
        return Plan(instant, Action.LOG_COMPACTION, tuple(operations), frozenset(one.time for one in commits))

    def _java_list(self, values: Iterable[Any]) -> Any:
        found = self._jvm.java.util.ArrayList()
        for value in values:
            found.add(value)
        return found

    def _delete_from_timeline(self, meta: Any, name: str) -> None:
        meta.getStorage().deleteFile(self._jvm.org.apache.hudi.storage.StoragePath(meta.getTimelinePath(), name))

    def _timeline_files(self, meta: Any) -> dict[str, int]:
        """Return the bytes of each file of the active timeline by its name."""
        entries = items(meta.getStorage().listDirectEntries(meta.getTimelinePath()))
        return {str(entry.getPath().getName()): int(entry.getLength()) for entry in entries}

    def _plain(self, meta: Any) -> frozenset[str]:
        """Return the instants of the delta commits that are no log compactions: those begin under another name."""
        names = self._timeline_files(meta)
        return frozenset(name.partition(".")[0] for name in names if name.endswith(".deltacommit.requested"))

    def _partitions(self, table: Any) -> tuple[str, ...]:
        meta, settings = table.getMetaClient(), self._config.getMetadataConfig()
        where = (meta.getStorage(), settings, meta.getBasePath()) if self._old else (meta, settings)
        found = self._hudi.common.fs.FSUtils.getAllPartitionPaths(self._context, *where)
        return tuple(str(partition) for partition in items(found))

    def _file_group(
        self, partition: str, java_slice: Any, plain: Collection[str], busy: Mapping[tuple[str, str], str]
    ) -> FileGroup:
        names = [str(file.getFileName()) for file in streamed(self._jvm, java_slice.getLogFiles())]
        files = [self._logs.glance(partition, name, plain=plain) for name in names]
        file_id = str(java_slice.getFileId())
        return FileGroup(partition, file_id, len(blocks_of(files)), busy.get((partition, file_id)))

    def _busy(self, view: Any) -> dict[tuple[str, str], str]:
        """Return the pending instant by the partition and file id of each file group in its plan."""
        found = {}
        for stream in (view.getPendingCompactionOperations(), view.getPendingLogCompactionOperations()):
            for pair in streamed(self._jvm, stream):
                found[_key(pair.getRight().getFileGroupId())] = str(pair.getLeft())
        for pair in streamed(self._jvm, view.getFileGroupsInPendingClustering()):
            found[_key(pair.getLeft())] = str(pair.getRight().requestedTime())
        return found

    def _written(self, plan: Plan) -> Written:
        """Return what the commit says that it wrote."""
        timeline = self._meta().getActiveTimeline()
        done = next(one for one in _completed_commits(timeline) if str(one.requestedTime()) == plan.instant)
        metadata = self._hudi.common.table.timeline.TimelineUtils.getCommitMetadata(done, timeline)
        stats = items(metadata.getWriteStats())
        blocks = 0
        if plan.action is Action.LOG_COMPACTION:
            blocks = sum(self._logs.blocks("", str(stat.getPath())) for stat in stats)
        return Written(sum(int(stat.getTotalWriteBytes()) for stat in stats), blocks)

    def _written_since(self, meta: Any, besides: str) -> tuple[int, int]:
        timeline = meta.getActiveTimeline()
        done = sorted(_completed_commits(timeline), key=lambda one: str(one.requestedTime()))
        compactions = [str(one.requestedTime()) for one in done if str(one.getAction()) == "commit"]
        start = max((time for time in compactions if time != besides), default="")
        by_writers = total = 0
        for one in (one for one in done if str(one.requestedTime()) > start):
            metadata = self._hudi.common.table.timeline.TimelineUtils.getCommitMetadata(one, timeline)
            size = int(metadata.fetchTotalBytesWritten())
            total += size
            by_writers += 0 if str(metadata.getOperationType()) in SERVICES else size
        return by_writers, total

    def _end_heartbeat(self, plan: Plan) -> None:
        """Let the next attempt run a compaction at once: 1.2 takes one that beats for somebody's who is at work.

        NB: one that somebody else runs is never in this client's own list of heartbeats, and stays. The client for
        table services has a list of its own.
        """
        if not self._old and plan.action is Action.COMPACTION:
            self._client.getTableServiceClient().getHeartbeatClient().stop(plan.instant)


def require_all_written(plan: Plan, metadata: Any) -> None:
    """Write what is not written yet; raises HudiFailedError when a record, or all of a file group, was not.

    NB: Hudi itself would commit: its handle for log files keeps a failed record to itself (HoodieAppendHandle).
    """
    statuses = items(metadata.getWriteStatuses().collect())
    errors = sum(int(status.getTotalErrorRecords()) for status in statuses)
    written = {str(status.getStat().getFileId()) for status in statuses}
    missing = [operation.file_id for operation in plan.operations if operation.file_id not in written]
    if errors or (missing and plan.action is Action.LOG_COMPACTION):
        what = f"{errors} records" if errors else f"file group {missing[0]}"
        raise HudiFailedError(f"{what} could not be written: Spark's log has the errors")


def _completed_commits(timeline: Any) -> list[Any]:
    return items(timeline.getCommitsTimeline().filterCompletedInstants().getInstants())


def _empty_plans(sizes: Mapping[str, int]) -> dict[str, str]:
    """Return the names of the plans without content by their instants."""
    found = ((_PLAN.fullmatch(name), name) for name, size in sizes.items() if not size)
    return {match[1]: name for match, name in found if match and name.replace("requested", "inflight") not in sizes}


def _empty_commits(sizes: Mapping[str, int]) -> dict[str, str]:
    """Return the names of the commits without content by their instants."""
    found = ((_COMMIT.fullmatch(name), name) for name, size in sizes.items() if not size)
    return {match[1]: name for match, name in found if match}


def _has_successor(meta: Any, instant: Instant) -> bool:
    """Whether something later on the timeline rests on a commit, as in `HudiClient.reopen`."""
    later = (one for one in items(meta.getActiveTimeline().getInstants()) if str(one.requestedTime()) > instant.time)
    if instant.action is Action.COMPACTION:
        return any(str(one.getAction()) == "clean" for one in later)
    return any(str(one.getAction()) == Action.COMPACTION and not one.isCompleted() for one in later)


def _is_delta_commit(instant: Any) -> bool:
    return str(instant.getAction()) == Action.DELTA_COMMIT


def _key(file_group: Any) -> tuple[str, str]:
    return str(file_group.getPartitionPath()), str(file_group.getFileId())
