"""What this package calls in Hudi, by class, and a check that a bundle has all of it before anything else is done.

By py4j a call of a method that is not there fails only when it is made, which may be after a plan was saved.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from compaction_operator.hudi.errors import NoLockProviderError, UnsupportedVersionError
from compaction_operator.hudi.jvm.java import hudi_errors
from compaction_operator.hudi.properties import line_of

NEW = "new"
"""Stands for a constructor in the lists below."""

COMMON: Mapping[str, str] = {
    "HoodieCLIUtils": "createHoodieWriteClient/4",
    "avro.model.HoodieCleanMetadata": "getTotalFilesDeleted/0 setTimeTakenInMillis/1",
    "avro.model.HoodieCleanerPlan": "getExtraMetadata/0 setExtraMetadata/1 setPartitionsToBeDeleted/1",
    "avro.model.HoodieCompactionOperation": "setDeltaFilePaths/1",
    "avro.model.HoodieCompactionPlan": "getExtraMetadata/0 getOperations/0 setExtraMetadata/1 setOperations/1",
    "avro.model.HoodieInstantInfo": "getCommitTime/0",
    "avro.model.HoodieRollbackPlan": "getInstantToRollback/0",
    "client.BaseHoodieTableServiceClient": "getInstantsToRollback/3 getPendingRollbackInfo/3 getPendingRollbackInfos/1 "
    "rollbackFailedWrites/1",
    "client.SparkRDDWriteClient": "archive/0 close/0 commitCompaction/3 commitLogCompaction/3 compact/1 "
    "createNewInstantTime/1 getConfig/0 getEngineContext/0 getTableServiceClient/0 logCompact/1 new/2 "
    "scheduleCompactionAtInstant/2",
    "client.WriteStatus": "getStat/0 getTotalErrorRecords/0",
    "client.transaction.TransactionManager": "close/0 new/2",
    "client.transaction.lock.NoopLockProvider": "new/2",
    "common.engine.HoodieEngineContext": "getStorageConf/0",
    "common.fs.FSUtils": "",
    "common.model.CompactionOperation": "getFileGroupId/0",
    "common.model.FileSlice": "getBaseFile/0 getFileId/0 getLogFiles/0",
    "common.model.HoodieBaseFile": "getFileName/0",
    "common.model.HoodieCommitMetadata": "fetchTotalBytesWritten/0 getOperationType/0 getWriteStats/0",
    "common.model.HoodieFailedWritesCleaningPolicy": "LAZY",
    "common.model.HoodieFileGroupId": "getFileId/0 getPartitionPath/0",
    "common.model.HoodieLogFile": "getFileName/0 new/1",
    "common.model.HoodieWriteStat": "getFileId/0 getPath/0 getTotalWriteBytes/0",
    "common.model.WriteOperationType": "LOG_COMPACT",
    "common.HoodiePendingRollbackInfo": "getRollbackInstant/0",
    "common.table.HoodieTableConfig": "getTableVersion/0",
    "common.table.HoodieTableVersion": "versionCode/0",
    "common.table.HoodieTableMetaClient": "builder/0 getActiveTimeline/0 getBasePath/0 getCommitsTimeline/0 "
    "getHeartbeatFolderPath/1 getInstantGenerator/0 getMarkerFolderPath/1 getStorage/0 getTableConfig/0 "
    "getTimelinePath/0",
    "common.table.HoodieTableMetaClient$Builder": "build/0 setBasePath/1 setConf/1",
    "common.table.log.HoodieLogFormat": "newReader/3",
    "common.table.log.HoodieLogFormat$Reader": "close/0 hasNext/0 next/0",
    "common.table.log.block.HoodieLogBlock": "getBlockType/0 getLogBlockHeader/0",
    "common.table.log.block.HoodieLogBlock$HeaderMetadataType": "COMPACTED_BLOCK_TIMES INSTANT_TIME IS_PARTIAL "
    "TARGET_INSTANT_TIME",
    "common.table.timeline.HoodieActiveTimeline": "deletePending/1 isEmpty/1 saveToCleanRequested/2 "
    "saveToLogCompactionRequested/2 transitionCleanInflightToComplete/3",
    "common.table.timeline.HoodieInstant": "getAction/0 getState/0 isCompleted/0 requestedTime/0",
    "common.table.timeline.HoodieInstantTimeGenerator": "instantTimePlusMillis/2",
    "common.table.timeline.HoodieTimeline": "countInstants/0 filterCompletedInstants/0 getCommitsTimeline/0 "
    "getInstants/0 readSavepointMetadata/1",
    "common.table.timeline.InstantGenerator": "getCleanInflightInstant/1 getCleanRequestedInstant/1 "
    "getLogCompactionInflightInstant/1 getLogCompactionRequestedInstant/1",
    "common.table.timeline.TimelineUtils": "getCommitMetadata/2",
    "common.table.view.TableFileSystemView$SliceView": "getLatestFileSlicesStateless/1 "
    "getLatestMergedFileSlicesBeforeOrOn/2",
    "common.table.view.TableFileSystemView": "getFileGroupsInPendingClustering/0 getPendingCompactionOperations/0 "
    "getPendingLogCompactionOperations/0",
    "common.util.CleanerUtils": "convertCleanMetadata/4 getCleanerPlan/2",
    "common.util.CompactionUtils": "getCompactionPlan/2 getLogCompactionPlan/2",
    "common.util.Option": "empty/0 get/0 isPresent/0 of/1",
    "common.util.collection.Pair": "getLeft/0 getRight/0",
    "config.HoodieLockConfig": "LOCK_PROVIDER_CLASS_NAME",
    "config.HoodieWriteConfig": "getBasePath/0 getCleaningTriggerStrategy/0 getFailedWritesCleanPolicy/0 "
    "getHoodieClientHeartbeatIntervalInMs/0 getHoodieClientHeartbeatTolerableMisses/0 getMetadataConfig/0 getString/1 "
    "isLockRequired/0 setValue/2",
    "metadata.HoodieMetadataPayload": "",
    "metadata.HoodieTableMetadataWriter": "close/0 update/2",
    "storage.HoodieStorage": "deleteFile/1 exists/1 getPathInfo/1 listDirectEntries/1 listFiles/1 open/1",
    "storage.StoragePath": "getName/0 new/1 new/2",
    "storage.StoragePathInfo": "getLength/0 getModificationTime/0 getPath/0",
    "table.HoodieSparkTable": "create/2",
    "table.HoodieTable": "getActiveTimeline/0 getMetaClient/0 getMetadataWriter/1 getSliceView/0 rollback/5 "
    "shouldTrackSuccessRecords/0",
    "table.action.HoodieWriteMetadata": "getCommitMetadata/0 getWriteStatuses/0",
    "table.action.clean.CleanActionExecutor": "clean/2 new/4",
    "table.action.clean.CleanPlanActionExecutor": "needsCleaning/1 requestClean/1",
    "table.action.compact.ScheduleCompactionActionExecutor": "new/6",
    "table.action.compact.plan.generators.HoodieLogCompactionPlanGenerator": "generateCompactionPlan/1 new/4",
    "table.action.rollback.RollbackUtils": "getRollbackPlan/2",
}
"""For each class below `org.apache.hudi`: its methods with their number of arguments, and its constants."""

OF_LINE: Mapping[str, Mapping[str, str]] = {
    "1.0": {
        "client.transaction.TransactionManager": "beginTransaction/2 endTransaction/1",
        "common.table.timeline.HoodieActiveTimeline": "transitionCleanRequestedToInflight/2",
        "common.fs.FSUtils": "getAllPartitionPaths/4",
        "metadata.HoodieMetadataWriteUtils": "createMetadataWriteConfig/2",
        "table.action.clean.CleanPlanActionExecutor": "new/5",
        "table.HoodieTable": "rollbackInflightLogCompaction/1",
    },
    "1.2": {
        "client.BaseHoodieTableServiceClient": "getHeartbeatClient/0",
        "client.SparkRDDWriteClient": "getTransactionManager/0",
        "client.heartbeat.HoodieHeartbeatClient": "stop/1",
        "client.transaction.TransactionManager": "beginStateChange/2 endStateChange/1",
        "common.table.timeline.HoodieActiveTimeline": "transitionCleanRequestedToInflight/1",
        "common.fs.FSUtils": "getAllPartitionPaths/3",
        "metadata.HoodieMetadataWriteUtils": "createMetadataWriteConfig/3",
        "table.action.clean.CleanPlanActionExecutor": "new/4",
        "table.HoodieTable": "rollbackInflightLogCompaction/2",
    },
}
"""What is called in the releases of one line only."""

_ROOT = "org.apache.hudi"

_LOADED_BY = {
    f"{_ROOT}.client.transaction.lock.StorageBasedLockProvider": (f"{_ROOT}.aws.transaction.lock.S3StorageLockClient",)
}
"""Classes that a lock provider loads by name, of the stores that the operator supports."""

_SIGNATURE = re.compile(r"([\w$]+)\(([^)]*)\)")
"""The end of a method or constructor as Java prints it."""


def require_all_calls(jvm: Any, bundle: str) -> None:
    """Raise UnsupportedVersionError unless a JVM has the bundle of that release, and in it all that is called.

    The message names what is missing.
    """
    calls = (COMMON, OF_LINE[line_of(bundle)])
    with hudi_errors(f"looking at the bundle of Hudi {bundle}"):
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        missing = [what for part in calls for what in _missing(jvm, loader, part)]
        found = None if missing else _release(jvm, loader)
    if missing:
        raise UnsupportedVersionError(
            f"the bundle of Hudi {bundle} has no {', '.join(missing[:5])}, which the operator calls: "
            "use the bundle of the operator's image"
        )
    if found != bundle:
        raise UnsupportedVersionError(f"the bundle of Hudi {bundle} says that it is of release {found}")


def require_lock_provider(jvm: Any, provider: str) -> None:
    """Raise NoLockProviderError unless a JVM has the class of a lock provider, and what that class loads by its name.

    Without them Hudi fails when it takes the lock. NB: of StorageBasedLockProvider the bundles have the class, but no
    client of a store.
    """
    with hudi_errors(f"looking for {provider}"):
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        needed = (provider, *_LOADED_BY.get(provider, ()))
        missing = next((name for name in needed if _members(jvm, loader, name) is None), None)
    if missing:
        raise NoLockProviderError(
            f"hudi.options[hoodie.write.lock.provider]: the driver has no {missing}, which {provider} needs: "
            "use a provider of Hudi's Spark bundle here and in the table's writers, such as ZookeeperBasedLockProvider"
        )


def _missing(jvm: Any, loader: Any, calls: Mapping[str, str]) -> Iterator[str]:
    """Yield the classes, methods and constants that a JVM lacks."""
    for name, wanted in calls.items():
        members = _members(jvm, loader, f"{_ROOT}.{name}")
        if members is None:
            yield name
        else:
            yield from (f"{name}.{one}" for one in wanted.split() if one not in members)


def _release(jvm: Any, loader: Any) -> str | None:
    """Return the release that the manifest of the bundle names."""
    client = jvm.java.lang.Class.forName(f"{_ROOT}.HoodieCLIUtils", False, loader)
    return client.getPackage().getImplementationVersion()  # type: ignore[no-any-return]


def _members(jvm: Any, loader: Any, name: str) -> frozenset[str] | None:
    """Return the members of a class, but no inherited one that is not public, as the lists name them; None without it.

    NB: one call for all methods, as each call takes a round trip.
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - part of PySpark, which the controller does not load

    text = jvm.org.apache.commons.lang3.ArrayUtils.toString  # of Spark's jars; Java's own takes no array by py4j
    try:
        found = jvm.java.lang.Class.forName(name, False, loader)
    except Py4JJavaError as error:
        if str(error.java_exception.getClass().getSimpleName()) != "ClassNotFoundException":
            raise
        return None
    methods = _SIGNATURE.findall(text(found.getMethods()) + text(found.getDeclaredMethods()))
    constructors = _SIGNATURE.findall(text(found.getConstructors()))
    fields = re.findall(r"([\w$]+)(?=[,}])", text(found.getFields()))
    signatures = [*methods, *((NEW, arguments) for _, arguments in constructors)]
    return frozenset(fields) | {f"{one}/{_count(arguments)}" for one, arguments in signatures}


def _count(arguments: str) -> int:
    return arguments.count(",") + 1 if arguments else 0
