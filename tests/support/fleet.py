"""What a controller of a busy cluster knows, as the web page shows it: for tests of the page, and to measure it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from compaction_operator.api.policy import Thresholds
from compaction_operator.api.why import Explanation
from compaction_operator.controller.kube.resources import (
    Cleanup,
    Compaction,
    Policy,
    read_cleanup,
    read_compaction,
    read_policy,
)
from compaction_operator.controller.kube.times import rfc3339, rfc3339_seconds
from compaction_operator.controller.page import Looked, Seen
from compaction_operator.hudi import LogSizes, SliceSizes
from compaction_operator.policy.measure import Measure
from compaction_operator.policy.memory import Memory, PartitionState, Problem, TableState
from compaction_operator.policy.timeline import TimelineMeasure

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
MIB = 1024**2
Raw = dict[str, Any]
_NAMES = ("orders", "customers", "clicks", "returns", "shipments", "invoices", "prices", "sessions", "reviews", "stock")
_DATABASES = ("sales", "web", "finance")


def name_of(number: int) -> str:
    """The table of that number."""
    again = number // (len(_NAMES) * len(_DATABASES))
    return f"{_DATABASES[number // len(_NAMES) % len(_DATABASES)]}.{_NAMES[number % len(_NAMES)]}{again or ''}"


def metadata(name: str, *, age: timedelta, namespace: str = "analytics") -> Raw:
    return {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "creationTimestamp": rfc3339_seconds(NOW - age),
    }


def succeeded(status: str, reason: str, message: str) -> Raw:
    return {"type": "Succeeded", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": rfc3339(NOW)}  # fmt: skip


def compaction(name: str, table: str, *, age: timedelta, status: Raw, **spec: Any) -> Compaction:
    database, _, bare = table.partition(".")
    described = {"warehouse": "main", "table": {"database": database, "name": bare}, "type": "Minor", **spec}
    return read_compaction({"metadata": metadata(name, age=age), "spec": described, "status": status})


def running(number: int, *, percent: int = 37) -> Compaction:
    age = timedelta(minutes=4 + number)
    progress = {
        "partitionsDone": percent // 10,
        "partitionsTotal": 10,
        "bytesDone": percent * MIB,
        "bytesTotal": 100 * MIB,
        "summary": f"{percent // 10}/10 partitions, {percent}%",
        "lastUpdateTime": rfc3339(NOW),
    }
    status = {
        "phase": "Running",
        "attempt": 1,
        "attemptStartTime": rfc3339(NOW - age),
        "progress": progress,
        "conditions": [succeeded("Unknown", "Running", "attempt 1 runs")],
    }
    return compaction(f"keep-{number}-run", name_of(number), age=age, status=status, type="Major")


def queued(number: int) -> Compaction:
    message = f"TableCompaction keep-{number}-run of {name_of(number)} comes first"
    status = {"phase": "Queued", "conditions": [succeeded("Unknown", "TableBusy", message)]}
    return compaction(f"by-hand-{number}", name_of(number), age=timedelta(minutes=2), status=status)


def ended(number: int, *, failed: bool = False) -> Compaction:
    age = timedelta(hours=1 + number)
    size = (64 + number % 900) * MIB
    totals = {"partitions": 3, "filesIn": 48, "filesOut": 6, "bytesIn": size, "bytesOut": size * 7 // 10}
    status = {
        "phase": "Failed" if failed else "Succeeded",
        "attempt": 1,
        "completionTime": rfc3339(NOW - age + timedelta(minutes=6)),
        "cleanupPhase": None if failed else "Succeeded",
        "conditions": [
            succeeded("False", "RowTypesDiffer", "a column changed from float to double between two deltas")
            if failed
            else succeeded("True", "Compacted", "3 partitions")
        ],
        **({} if failed else {"totals": totals}),
    }
    return compaction(f"keep-{number}", name_of(number % 3000), age=age, status=status)


def reader(user: str = "alice", host: str = "etl-7", *, minutes: int = 16, **more: Any) -> Raw:
    since = rfc3339(NOW - timedelta(minutes=minutes))
    return {"kind": "Lock", "id": 4, "txnId": 7, "user": user, "host": host, "since": since, **more}


def cleanup(number: int, *, blockers: Sequence[Raw] = (), done: bool = False, table: str | None = None) -> Cleanup:
    age = timedelta(hours=1 + number)
    database, _, bare = (table or name_of(number % 3000)).partition(".")
    location = f"/warehouse/{database}.db/{bare}"
    deltas = [f"delta_{one:07}_{one:07}_0000" for one in range(1, 9)]
    obsolete = [{"name": name, "reason": "merged into delta_0000001_0000008"} for name in deltas]
    totals = {"partitions": 1, "filesIn": 16, "filesOut": 2, "bytesIn": 96 * MIB, "bytesOut": 71 * MIB}
    entry = {"partition": "", "location": location, "createTime": 100, "outputs": ["delta_0000001_0000008"],
             "highestWriteId": 8, "obsolete": obsolete, "totals": totals}  # fmt: skip
    waits = "; ".join(f"lock {one['id']} of {one['user']}" for one in blockers)
    status: Raw = {
        "phase": "Succeeded" if done else "WaitingForReaders",
        "baseline": {"time": rfc3339(NOW - age), "txnHighWaterMark": 40, "lockIds": [4]},
        "partitions": [{"partition": "", "state": "Published", "deleted": deltas if done else []}],
        "blockers": list(blockers),
        "blockerCount": len(blockers),
        "conditions": [succeeded("True", "Deleted", "8 directories")
                       if done else succeeded("Unknown", "WaitingForReaders", f"waiting for {waits}")],
    }  # fmt: skip
    if done:
        status |= {"directoriesDeleted": 8, "bytesDeleted": 96 * MIB, "waitedFor": [reader()],
                   "completionTime": rfc3339(NOW - age + timedelta(minutes=9))}  # fmt: skip
    ref = {"name": f"keep-{number}", "uid": f"uid-keep-{number}", "attempt": 1, "job": "job", "podUid": "pod"}
    spec = {"warehouse": "main", "compaction": ref, "partitions": [entry],
            "table": {"database": database, "name": bare, "createTime": 100, "location": location}}  # fmt: skip
    raw = {"metadata": metadata(f"keep-{number}-1-0", age=age), "spec": spec, "status": status}
    return read_cleanup(raw)


def policy(name: str = "keep", *, ready: str = "Looked") -> Policy:
    conditions = [
        {"type": "Ready", "status": "True", "reason": ready, "message": "3000 tables, 41 due, 2 running",
         "lastTransitionTime": rfc3339(NOW)},
        {"type": "Active", "status": "False", "reason": "WindowClosed", "message": "the next window opens at 22:00",
         "lastTransitionTime": rfc3339(NOW)},
    ]  # fmt: skip
    spec = {"warehouse": "main", "tables": {"include": ["*.*"]}}
    counts = {"seen": 3000, "due": 41, "running": 2, "done": 900, "failed": 1, "keptBack": 39}
    status = {"conditions": conditions, "tables": counts}
    return read_policy({"metadata": metadata(name, age=timedelta(days=30)), "spec": spec, "status": status})


def hive(number: int, *, partitions: int = 1) -> TableState:
    """A table whose debt shrinks with its number."""
    deltas = 3 + 200 // (1 + number)
    measure = Measure(
        base_files=4,
        base_bytes=(700 + number % 50) * MIB,
        deltas=deltas,
        delta_files=3 * deltas,
        delta_bytes=deltas * 5 * MIB,
        delete_bytes=deltas * MIB // 2,
        buckets=4,
        delta_buckets=4,
        aborted=number % 2,
        base_write_id=40,
        first_delta=41,
    )
    keys = ("day",) if partitions > 1 else ()
    days = (f"day=2026-{1 + one // 28 % 12:02}-{1 + one % 28:02}" for one in range(partitions))
    found = tuple(PartitionState(day if keys else "", 100, measure) for day in days)
    return TableState(name_of(number), "1", NOW - timedelta(minutes=number % 60), keys, Thresholds(), found)


def hudi(name: str = "lake.events") -> TableState:
    sizes = SliceSizes(LogSizes(4, 30, 210 * MIB), LogSizes(3, 20, 60 * MIB), 800 * MIB)
    found = (PartitionState("", 100, TimelineMeasure(7, 4, sizes)),)
    return TableState(name, "1", NOW - timedelta(minutes=1), partitions=found, place="/warehouse/lake/events")


def memory(states: Sequence[TableState]) -> Memory:
    due = {state.name: {"": NOW - timedelta(hours=5)} for state in states[:40]}
    return Memory(
        {state.name: state for state in states}, due, unread=frozenset({states[-1].name}), matched=len(states)
    )


def nothing(warehouse: str, table: str) -> list[Explanation]:
    return []


def seen(
    compactions: Sequence[Compaction] = (),
    cleanups: Sequence[Cleanup] = (),
    tables: Sequence[TableState] = (),
    **more: Any,
) -> Seen:
    policies = [Looked(policy(), memory(tables))] if tables else []
    given: Raw = {"policies": policies, "place": lambda key: key, "explain": nothing, **more}
    return Seen(now=NOW, compactions=compactions, cleanups=cleanups, **given)


def busy(number: int = 5000, *, tables: int = 3000, partitions: int = 1) -> Seen:
    """So many resources: half compactions, half cleanups, most of them ended."""
    half = number // 2
    works = [*(running(one, percent=17 * (one + 1)) for one in range(4)), *map(queued, range(3))]
    works += [ended(one, failed=one % 40 == 7) for one in range(half - len(works))]
    dead = reader("etl", "old-host", minutes=4000, kind="Transaction", id=91, txnId=None, health="LikelyLeaked")
    waits = [cleanup(0, blockers=[reader()]), cleanup(1, blockers=[reader("bob", "notebook-3", minutes=90), dead])]
    done = [cleanup(one, done=True) for one in range(2, half)]
    states = [hive(one, partitions=partitions if one % 10 == 1 else 1) for one in range(tables)]
    untrusted = TableState("web.legacy", "1", NOW, problem=Problem("OptedOut", "compaction.dev/policy is off"))
    return seen(works, [*waits, *done], [*states, hudi(), untrusted])
