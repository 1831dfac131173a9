"""What a user can do about a reason: the words of docs/operate.md, which a test compares. Pure."""

from collections.abc import Iterator, Mapping

from compaction_operator.api.cleanup import Blocker, BlockerHealth, BlockerKind
from compaction_operator.controller.ownership import UNCLAIM

OPERATOR = "compaction-system/compaction-operator"
"""The operator that verbs ask unless --operator names another one."""
NOTHING = "nothing"
_WAITS = f"{NOTHING}: it goes on by itself"
_AGAIN = f"{NOTHING}: the next attempt starts by itself"
_FIX_PODS = "fix what the message names; the attempt starts by itself, and after the profile's startTimeout another one"
_NEW = "fix what the message names, then create a new TableCompaction: this one is not tried again"
_GONE = f"{NOTHING}: nothing is deleted; delete the cleanup when you have seen it"

COMPACTION: Mapping[str, str] = {
    "Queued": f"{NOTHING}: its turn comes when those before it are done",
    "Running": NOTHING,
    "Settling": _WAITS,
    "Suspended": "let it go on: {program} resume tcomp/{name} -n {namespace}{context}",
    "NotServed": "list the namespace in the values of the operator that should handle it",
    "InCompactionQueue": "nothing; set NO_AUTO_COMPACTION on tables that this operator compacts",
    "QueueEntryEnded": "enqueue the table again",
    "WaitingForExclusiveLock": "nothing, or compact at a quieter time, or use Major, which needs no moment without "
    "readers",
    "WaitingForOpenTransactions": "nothing; end or abort the transactions of the message that hang",
    "WaitingForOpenWrite": "nothing; end or abort the write of the message if it hangs",
    "MetastoreUnavailable": "repair the metastore; the compaction then continues by itself",
    "StorageUnavailable": "nothing if the store is back soon; else repair it, or make space",
    "ReceiptNotWritten": "repair the folder of the receipts; the compaction then ends by itself",
    "JobNotCreated": "fix what the message names: a quota, an admission policy or missing roles",
    "QuotaExceeded": _FIX_PODS,
    "FailedCreate": _FIX_PODS,
    "Unschedulable": _FIX_PODS,
    "ImagePullBackOff": _FIX_PODS,
    "ErrImagePull": _FIX_PODS,
    "ImagePullFailed": _FIX_PODS,
    "PodNotStarted": _FIX_PODS,
    "ContainerCreating": "kubectl describe the pod: a secret, ConfigMap or volume that the values name may be missing",
    "PodNotCreated": "kubectl describe the Job: a secret, ConfigMap or volume that the values name may be missing",
    "ExecutorsWaiting": "with executors.instances Auto nothing: after 5 minutes the driver does the work; otherwise "
    "make room",
    "ExecutorsNotStarted": "make room for the executors; it is tried again by itself",
    "DeadlineExceeded": "fix what the message names, or raise the deadline",
    "Interrupted": _AGAIN,
    "Evicted": _AGAIN,
    "Preempted": _AGAIN,
    "NodeGone": _AGAIN,
    "JobGone": _AGAIN,
    "DriverLost": _AGAIN,
    "CleaningUp": "fix what the message names: until then no other compaction of the table starts",
    "OOMKilled": "give a new compaction more spark.driver.memory, or let it ask for executors",
    "LockLost": _AGAIN,
    "TransactionLost": _AGAIN,
    "TableChanged": _AGAIN,
    "Superseded": _AGAIN,
    "WaitingForLease": f"{NOTHING}: another driver has the table's lease; that of a killed driver ends in a minute",
    "WaitingForLock": "nothing, or more hoodie.write.lock.client.num_retries; check that the lock provider answers",
    "WaitingForInstant": "nothing, or end the writer of the message if it hangs; if it has died, a cleaner rolls its "
    "delta commit back (type Clean); set allInstants if the client that made the plan is gone for good",
    "NoLockProvider": "name the lock provider in the warehouse's hudi.options, or set singleWriter where it is true",
    "RefusedOption": "remove the option that the message names",
    "AutoCompactionOn": "set NO_AUTO_COMPACTION on the table, or accept the risk with allowAutoCompaction",
    "OverlappingCompaction": "repair it, as docs/operate.md says: rows may count twice",
    "VerificationFailed": "keep the table's files and report it",
    "UnreadableFile": "check the file that the message names: hive --orcfiledump",
    "DriverFailed": "read the driver's log: kubectl logs job/{job} -n {namespace}",
    "AttemptsExhausted": "read the message, and the driver's log for an hour after its end, then create a new "
    "TableCompaction",
    "PartiallyPublished": "create a new TableCompaction for the partitions that the message names",
    "TableNotFound": _NEW,
    "PartitionNotFound": _NEW,
    "NotTransactional": f"{NOTHING}: only transactional tables are compacted",
    "InsertOnlyTable": f"{NOTHING}: insert-only tables are not compacted",
    "NotOrc": f"{NOTHING}: only ORC tables are compacted",
    "NotMergeOnRead": f"{NOTHING}: only merge-on-read tables are compacted",
    "UnsupportedTable": _NEW,
    "RowTypesDiffer": "use Minor, which merges files of one row type",
    "WrongFormat": _NEW,
    "UnknownWarehouse": _NEW,
    "UnknownProfile": _NEW,
    "NotAllowed": _NEW,
}
"""By the reason of a TableCompaction's Succeeded condition."""

CLEANUP: Mapping[str, str] = {
    "JobRunning": f"{NOTHING}: the cleanup begins when the attempt's Job is over",
    "NotAskedYet": _WAITS,
    "ReadersFromBefore": f"{NOTHING}: nothing is deleted while an older reader is left; end a client that hangs",
    "GracePeriod": _WAITS,
    "Suspended": "let it go on: {program} resume ccl/{name} -n {namespace}{context}",
    "WaitingForApproval": "look at status.partitions[].planned, then: {program} approve ccl/{name} -n "
    "{namespace}{context}",
    "Quarantined": "nothing, or move the directories back, as docs/operate.md says",
    "Deleting": _WAITS,
    "NotDeletedYet": _WAITS,
    "ReadersBusy": f"{NOTHING}: the cleanup tries again, and after about 20 minutes new queries wait once",
    "InCompactionQueue": f"{NOTHING}: the cleanup continues when Hive's own Worker has ended",
    "MetastoreUnavailable": "repair the metastore; the cleanup then continues by itself",
    "StorageError": "repair the volume or the store; the cleanup then continues by itself",
    "ReceiptNotWritten": "repair the folder of the receipts; the cleanup then continues by itself",
    "UnsupportedLayout": "move what the message names out of the table; the cleanup then continues by itself",
    "NotAllowed": "allow the namespace and the database in the warehouse until the cleanup has ended",
    "UnknownWarehouse": "list the warehouse in the values again until the cleanup has ended",
    "StillNeeded": f"{NOTHING}: the next compaction of the table records the names again",
    **dict.fromkeys(
        (
            "TableDropped",
            "PartitionDropped",
            "TableRecreated",
            "PartitionRecreated",
            "TableMoved",
            "PartitionMoved",
        ),
        _GONE,
    ),
}
"""By the reason of a CompactionCleanup's Succeeded condition."""

POLICY: Mapping[str, str] = {
    "Suspended": "let it go on: {program} resume tcp/{name} -n {namespace}{context}",
    "NothingMatches": "change tables.include, or the databases that the warehouse allows",
    "UnknownTimeZone": "correct the window that the message quotes",
    "InvalidFilter": "correct the partition filter that the message quotes",
    "BudgetTooSmall": "raise bytesPerWindow or coreHoursPerWindow",
    "NotServed": COMPACTION["NotServed"],
    "NeverOpens": "correct the windows: none opens in the next 8 days",
    "NothingSelected": "set partitions.minAge below maxAge",
    "NoBudget": "set bytesPerWindow: strategy Gain needs one",
    "UnknownWarehouse": "name a warehouse of the operator's values",
    "UnknownProfile": "name a profile of the operator's values",
    "NotAllowed": "allow in the warehouse's values what the message names, or change the policy",
    "NotCreated": "fix what the message quotes, such as a quota",
    "MetastoreUnavailable": "repair the metastore; the policy then looks again by itself",
}
"""By the reason of a CompactionPolicy's condition that is not True."""

UNSEEN = "check that the operator runs, and that a warehouse of its values lists the namespace"
BY_THE_OPERATOR = "ask the administrator: the operator's value cleanup.suspend holds all deletion"
HANDLED_BY_ANOTHER = (
    "the operator of namespace {operator} handles this: ask there, by --operator {operator}/SERVICE; only if that one "
    "was removed, list {operator} under takeOver in the values of the one that remains"
)
CREATED_BY_ANOTHER = f"{HANDLED_BY_ANOTHER}, or: {UNCLAIM}"
UNKNOWN = "see docs/resources.md for this reason, and read the message"


def about_reader(blocker: Blocker) -> str:
    """Return what to do about an older reader that a cleanup waits for, which only a person may decide."""
    client = f"{blocker.user}@{blocker.host}"
    leaked = blocker.health is BlockerHealth.LIKELY_LEAKED
    txn = blocker.id if blocker.kind is BlockerKind.TRANSACTION else blocker.txn_id
    if txn is None:
        end = "end that client, which SHOW LOCKS EXTENDED names in Hive"
    else:
        end = f"end that client or, if its result is not needed, ABORT TRANSACTIONS {txn} in Hive"
    if leaked:
        return f"{client} seems to be gone: check that the metastore's housekeeping runs, or {end}"
    return f"nothing while {client} works; if it hangs, {end}"


def about_readers(blockers: tuple[Blocker, ...]) -> Iterator[str]:
    """Yield what to do about each reader, without repetition."""
    yield from dict.fromkeys(map(about_reader, blockers))
