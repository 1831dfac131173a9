"""A cluster, a metastore and a clock in memory, and a controller that can be killed between any two of its steps."""

import asyncio
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any

from compaction_operator.api.cleanup import PartitionEntry, PublishedState, ReaderBaseline
from compaction_operator.api.compaction import TableCompactionStatus
from compaction_operator.api.config import (
    CleanupSettings,
    HudiSettings,
    Metastore,
    OperatorConfig,
    QueuePool,
    SparkProfile,
    Volume,
    Warehouse,
)
from compaction_operator.api.forecasting import ForecastAnswer, ForecastQuestion
from compaction_operator.api.policy import CompactionPolicySpec
from compaction_operator.api.progress import Progress
from compaction_operator.api.request import DriverResult, Reason
from compaction_operator.cleanup.attempt import Holdings
from compaction_operator.cleanup.deletion import PartitionDeletion
from compaction_operator.cleanup.identity import Change
from compaction_operator.cleanup.readers import ReaderSnapshot
from compaction_operator.cleanup.settle import Settlement
from compaction_operator.controller.answers import Preflight, Trouble
from compaction_operator.controller.kube.client import ConflictError, GoneError, Kube, Raw, ResourceExistsError
from compaction_operator.controller.kube.cluster import Pools, WarehousePools
from compaction_operator.controller.kube.resources import (
    Cleanup,
    Compaction,
    ResourceKind,
    TableKey,
    read_cleanup,
    read_compaction,
)
from compaction_operator.controller.kube.times import Clock, rfc3339
from compaction_operator.controller.loop import Controller
from compaction_operator.controller.metrics import Metrics
from compaction_operator.controller.pool import Pool
from compaction_operator.controller.traces import Traces
from compaction_operator.controller.work import LookUp, Work, attempt_of
from compaction_operator.metastore import Generation, LockInfo, OpenTransactions
from compaction_operator.policy.memory import Memory
from tests.support.metastore import FakeMetastore

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DELTAS = ("delta_0000001_0000001_0000", "delta_0000002_0000002_0000", "delta_0000003_0000003_0000")
TABLE = {"database": "Sales", "name": "Orders"}

CONFIG = OperatorConfig(
    warehouses=(
        Warehouse(
            name="lake",
            metastore=Metastore(uris=("thrift://metastore:9083",)),
            namespaces=("default", "other"),
            databases=("sales",),
            # Tests keep their tables in folders of their own.
            locations=("/",),
            volume=Volume(claim_name="warehouse", mount_path="/warehouse"),
            hudi=HudiSettings(options={"hoodie.write.lock.provider": "a.LockProvider"}, locations=("/warehouse/lake",)),
        ),
    ),
    profiles=(SparkProfile(name="default", image="localhost/operator:1"),),
    cleanup=CleanupSettings(interval=2.0),
    max_concurrent_jobs=2,
    job_ttl=600.0,
)


def with_pool(**queue: Any) -> OperatorConfig:
    """The same with a pool of the compaction queue."""
    queue_pool = QueuePool(pool="k8s", namespace="default", **queue)
    return CONFIG.model_copy(update={"warehouses": (CONFIG.warehouses[0].model_copy(update={"queue": queue_pool}),)})


def copied(raw: Raw) -> Raw:
    """A copy of an object, as the API server makes one of what it is sent."""
    copy: Raw = json.loads(json.dumps(raw))
    return copy


def compaction_raw(name: str = "nightly", *, namespace: str = "default", created: datetime = NOON, **spec: Any) -> Raw:
    """A TableCompaction as the API server has it."""
    return {
        "apiVersion": "compaction.dev/v1alpha1",
        "kind": "TableCompaction",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": rfc3339(created),
        },
        "spec": {"warehouse": "lake", "table": TABLE, "type": "Minor", **spec},
    }


def entry_json(partition: str = "", **changes: Any) -> dict[str, Any]:
    """A journal's entry for a minor compaction of three deltas."""
    plain = {
        "partition": partition,
        "location": f"/warehouse/orders/{partition}",
        "createTime": 100,
        "outputs": ["delta_0000001_0000003"],
        "highestWriteId": 3,
        "obsolete": [{"name": name, "reason": "merged"} for name in DELTAS],
        "totals": {"partitions": 1, "filesIn": 3, "filesOut": 1, "rowsIn": 6, "rowsOut": 6},
    }
    return {**plain, **changes}


def cleanup_raw(
    name: str = "nightly-1-0", *, entries: Sequence[dict[str, Any]] | None = None, attempt: int = 1, **spec: Any
) -> Raw:
    """A CompactionCleanup as an attempt of the compaction `nightly` writes it."""
    return {
        "apiVersion": "compaction.dev/v1alpha1",
        "kind": "CompactionCleanup",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": rfc3339(NOON),
        },
        "spec": {
            "warehouse": "lake",
            "table": {"database": "sales", "name": "orders", "createTime": 100, "location": "/warehouse/orders"},
            "compaction": {
                "name": "nightly",
                "uid": "uid-default-nightly",
                "attempt": attempt,
                "job": f"job-{attempt}",
                "podUid": "pod",
            },
            "partitions": list(entries or [entry_json()]),
            "lockIds": [7],
            **spec,
        },
    }


def compaction(**fields: Any) -> Compaction:
    """A parsed TableCompaction; `status` is its status in JSON."""
    status = fields.pop("status", {})
    return read_compaction({**compaction_raw(**fields), "status": status})


def cleanup(**fields: Any) -> Cleanup:
    """A parsed CompactionCleanup; `status` is its status in JSON."""
    status = fields.pop("status", {})
    return read_cleanup({**cleanup_raw(**fields), "status": status})


def reader(lock_id: int = 12) -> LockInfo:
    return LockInfo(
        lock_id=lock_id,
        database="sales",
        table="orders",
        state="ACQUIRED",
        type="SHARED_READ",
        user="alice",
        host="desk",
        acquired_at=NOON,
    )


def reader_snapshot(*locks: int, txns: OpenTransactions | None = None) -> ReaderSnapshot:
    return ReaderSnapshot(locks=tuple(reader(lock) for lock in locks), txns=txns or OpenTransactions(40, ()))


def baseline(*locks: int, time: datetime = NOON) -> ReaderBaseline:
    return ReaderBaseline(time=rfc3339(time), txn_high_water_mark=40, lock_ids=locks)


def settlement(
    states: Mapping[str, PublishedState],
    readers: ReaderBaseline,
    *,
    gone: Mapping[str, Change] | None = None,
    needed: Mapping[str, tuple[str, ...]] | None = None,
    unreachable: Mapping[str, Change] | None = None,
) -> Settlement:
    """What settling found; by default no partition is gone, and all that is recorded is obsolete."""
    return Settlement(states, readers, gone or {}, needed or {}, unreachable or {})


class Inline(Executor):
    """Runs a call at once, in the caller's thread: what happens is in one order only."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


class KilledError(BaseException):
    """The controller was killed: nothing catches this."""


@dataclass
class Time:
    """The clock of a test: it goes only when told to."""

    seconds: float = 1000.0

    @property
    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds - 1000.0)

    def clock(self) -> datetime:
        return self.now

    def ticks(self) -> float:
        return self.seconds


@dataclass
class FakeKube(Kube):
    """An API server: resource versions, conflicts, generated events; it can kill its caller at the n-th change."""

    objects: dict[tuple[ResourceKind, str, str], Raw] = field(default_factory=dict)
    pods: dict[str, list[Raw]] = field(default_factory=dict)
    executors: list[Raw] = field(default_factory=list)
    refusals: list[Raw] = field(default_factory=list)
    events: list[Raw] = field(default_factory=list)
    cleanups_listed: int = 0
    watchers: list[Callable[[ResourceKind, str, Raw], None]] = field(default_factory=list)
    version: int = 10
    die_at: int | None = None
    die_after: bool = False
    changes: int = 0
    clock: Clock = lambda: NOON

    def apply(self, kind: ResourceKind, raw: Raw) -> Raw:
        """Create or change an object as a user would."""
        self.version += 1
        stored = copied(raw)
        stored["metadata"]["resourceVersion"] = str(self.version)
        key = (kind, stored["metadata"]["namespace"], stored["metadata"]["name"])
        event = "MODIFIED" if key in self.objects else "ADDED"
        self.objects[key] = stored
        self._tell(kind, event, stored)
        return copied(stored)

    def delete(self, kind: ResourceKind, namespace: str, name: str) -> None:
        self.version += 1
        gone = self.objects.pop((kind, namespace, name))
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._tell(kind, "DELETED", gone)

    def get(self, kind: ResourceKind, name: str, namespace: str = "default") -> Raw:
        return copied(self.objects[(kind, namespace, name)])

    def status(self, kind: ResourceKind, name: str, namespace: str = "default") -> dict[str, Any]:
        found: dict[str, Any] = self.get(kind, name, namespace).get("status", {})
        return found

    def all(self, kind: ResourceKind, namespace: str = "") -> list[Raw]:
        found = ((where, raw) for (known, where, _), raw in self.objects.items() if known is kind)
        return [copied(raw) for where, raw in found if namespace in ("", where)]

    def list_all(self, kind: ResourceKind, namespace: str = "") -> list[Raw]:
        return self.all(kind, namespace)

    def newest(self, kind: ResourceKind, namespace: str = "") -> int:
        return self.version

    def list_cleanups(self, namespace: str, compaction_uid: str) -> list[Raw]:
        self.cleanups_listed += 1
        found = self.all(ResourceKind.CLEANUP, namespace)
        return [raw for raw in found if raw["spec"]["compaction"]["uid"] == compaction_uid]

    def replace_status(self, kind: ResourceKind, raw: Mapping[str, Any], status: Raw) -> Raw:
        key = (kind, raw["metadata"]["namespace"], raw["metadata"]["name"])
        with_death = self._change()
        stored = self.objects.get(key)
        if stored is None:
            raise GoneError("404")
        if stored["metadata"]["resourceVersion"] != raw["metadata"]["resourceVersion"]:
            raise ConflictError("409")
        written = self.apply(kind, {**stored, "status": status})
        self._die(with_death)
        return written

    def find_compactions(self, namespace: str, name: str) -> list[Raw]:
        found = self.objects.get((ResourceKind.COMPACTION, namespace, name))
        return [copied(found)] if found is not None else []

    def _delete(self, kind: ResourceKind, raw: Mapping[str, Any]) -> None:
        with_death = self._change()
        metadata = raw["metadata"]
        stored = self.objects.get((kind, metadata["namespace"], metadata["name"]))
        if stored is None:
            raise GoneError("404")
        if stored["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise ConflictError("409")
        self.delete(kind, metadata["namespace"], metadata["name"])
        self._die(with_death)

    def create_compaction(self, manifest: Raw) -> Raw:
        with_death = self._change()
        metadata = manifest["metadata"]
        if (ResourceKind.COMPACTION, metadata["namespace"], metadata["name"]) in self.objects:
            raise ResourceExistsError("409")
        made = {"uid": f"uid-{metadata['name']}", "generation": 1, "creationTimestamp": rfc3339(self.clock())}
        created = self.apply(ResourceKind.COMPACTION, {**manifest, "metadata": {**metadata, **made}})
        self._die(with_death)
        return created

    def create_job(self, manifest: Raw) -> Raw:
        with_death = self._change()
        metadata = manifest["metadata"]
        if (ResourceKind.JOB, metadata["namespace"], metadata["name"]) in self.objects:
            raise ResourceExistsError("409")
        created = self.apply(ResourceKind.JOB, {**manifest, "status": {"ready": 1}})
        self._die(with_death)
        return created

    def delete_job(self, namespace: str, name: str) -> None:
        with_death = self._change()
        if (ResourceKind.JOB, namespace, name) not in self.objects:
            raise GoneError("404")
        self.delete(ResourceKind.JOB, namespace, name)
        self._die(with_death)

    def get_job(self, namespace: str, name: str) -> Raw | None:
        found = self.objects.get((ResourceKind.JOB, namespace, name))
        return copied(found) if found is not None else None

    def list_pods(self, namespace: str, job: str) -> list[Raw]:
        return self.pods.get(job, [])

    def list_refusals(self, namespace: str, job: str) -> list[Raw]:
        return self.refusals

    def list_executors(self, namespace: str) -> list[Raw]:
        return self.executors

    def create_event(self, event: Raw) -> None:
        self.events.append(event)

    def end_job(
        self, name: str, result: DriverResult | None = None, *, ok: bool, exit_code: int = 1, why: str = "Error"
    ) -> None:
        """Let a Job's driver end: with its result as the termination message, or without a word."""
        raw = self.get(ResourceKind.JOB, name)
        raw["status"] = {"conditions": [{"type": "Complete" if ok else "Failed", "status": "True"}]}
        message = {"message": result.model_dump_json(by_alias=True)} if result else {}
        end = {"exitCode": 0 if ok else exit_code, "reason": "Completed" if ok else why, **message}
        state = {"name": "driver", "state": {"terminated": end}}
        self.pods[name] = [{"metadata": {"name": name}, "status": {"containerStatuses": [state]}}]
        self.apply(ResourceKind.JOB, raw)

    def report(self, job: str, progress: Progress) -> None:
        """Let a Job's driver note its progress on its pod."""
        labels = {**self.get(ResourceKind.JOB, job)["metadata"]["labels"], "batch.kubernetes.io/job-name": job}
        annotations = {"compaction.dev/progress": progress.model_dump_json(by_alias=True)}
        named = {"name": f"{job}-x", "uid": f"uid-{job}-x", "namespace": "default"}
        metadata = {**named, "labels": labels, "annotations": annotations}
        self.pods[job] = [self.apply(ResourceKind.POD, {"metadata": metadata, "status": {"phase": "Running"}})]

    def jobs(self) -> list[str]:
        return [raw["metadata"]["name"] for raw in self.all(ResourceKind.JOB)]

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.events]

    def _tell(self, kind: ResourceKind, event: str, raw: Raw) -> None:
        for watcher in self.watchers:
            watcher(kind, event, copied(raw))

    def _change(self) -> bool:
        self.changes += 1
        if self.changes != self.die_at:
            return False
        if not self.die_after:
            raise KilledError
        return True

    def _die(self, now: bool) -> None:
        if now:
            raise KilledError


REFUSED = Trouble(Reason.METASTORE_UNAVAILABLE, "connection refused")


@dataclass
class FakeWork(Work):
    """A metastore and a file system that answer with their fields, and count what they are asked."""

    time: Time
    verdict: Preflight = field(default_factory=Preflight)
    holding: bool = True
    last_heartbeat: datetime | None = None
    swept: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    look_up: LookUp | None = None
    drivers_ended: dict[str, bool] = field(default_factory=dict)
    lost_drivers: set[int] = field(default_factory=set)
    locks: tuple[int, ...] = ()
    published: bool = True
    metastore_down: bool = False
    directories: set[str] = field(default_factory=lambda: {f"/{name}" for name in DELTAS})
    calls: list[str] = field(default_factory=list)
    looks: int = 0
    finish_down: bool = False
    gone: Change | None = None
    kept: dict[str, str] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)
    during_preflight: Callable[[], None] = lambda: None
    store: str | Trouble | None = None
    receipts: Trouble | None = None
    ending: Trouble | None = None
    memory: Memory = field(default_factory=Memory)
    pool: FakeMetastore = field(default_factory=lambda: FakeMetastore(hive=Generation.HIVE4))
    """What has the pool of the compaction queue of the warehouse, which is `with_pool()`."""
    surveys: int = 0
    ended: Mapping[str, datetime] = field(default_factory=dict)
    during_survey: Callable[[], None] = lambda: None

    def survey(
        self,
        warehouse: str,
        spec: CompactionPolicySpec,
        memory: Memory,
        *,
        ended: Mapping[str, datetime],
        due: Collection[str],
    ) -> Memory | Trouble:
        self.surveys += 1
        self.ended = ended
        self.during_survey()
        return REFUSED if self.metastore_down else replace(self.memory, due_since=memory.due_since, began=memory.began)

    def _pool(self, warehouse: str) -> Pool:
        return Pool(self.pool.client(), with_pool().warehouses[0])

    def check_store(self, warehouse: str, location: str) -> str | Trouble | None:
        self.calls.append(f"check {location}")
        return self.store

    def preflight(self, compaction: Compaction) -> Preflight:
        self.calls.append("preflight")
        self.during_preflight()
        if self.metastore_down:
            return Preflight(Reason.METASTORE_UNAVAILABLE, "connection refused")
        return self.verdict

    def end_attempt(self, compaction: Compaction) -> Trouble | None:
        self.calls.append(f"end {compaction.status.attempt}")
        return REFUSED if self.metastore_down else self.ending

    def sweep(
        self,
        warehouse: str,
        known: Collection[str],
        journals: Sequence[Cleanup] = (),
        *,
        look_up: LookUp | None = None,
    ) -> Trouble | None:
        self.look_up = look_up
        self.swept.append((warehouse, frozenset(known)))
        return REFUSED if self.metastore_down else None

    def held(self, resource: Compaction | Cleanup) -> Holdings | Trouble:
        self.calls.append(f"held {resource.meta.name}")
        if self.metastore_down:
            return REFUSED
        lost = attempt_of(resource).number in self.lost_drivers
        beat = NOON - timedelta(hours=1) if lost else self.last_heartbeat or self.time.now
        return Holdings((replace(reader(8), last_heartbeat=beat),)) if self.holding else Holdings()

    def release(self, cleanup: Cleanup) -> Trouble | None:
        self.calls.append(f"release {cleanup.meta.name}")
        return REFUSED if self.metastore_down else None

    def close_receipts(self, cleanup: Cleanup) -> Trouble | None:
        return self.receipts

    def record(self, compaction: Compaction, *, ending: TableCompactionStatus) -> Trouble | None:
        self.calls.append(f"record {compaction.meta.name}")
        return self.receipts

    def settle(self, cleanup: Cleanup, *, driver_ended: bool, attempt: Sequence[Cleanup] = ()) -> Settlement | Trouble:
        self.calls.append(f"settle {cleanup.meta.name}")
        self.drivers_ended[cleanup.meta.name] = driver_ended
        if self.metastore_down:
            return REFUSED
        state = PublishedState.PUBLISHED if self.published else PublishedState.NOT_PUBLISHED
        states = {entry.partition: state for entry in cleanup.spec.partitions}
        gone = dict.fromkeys(states, self.gone) if self.gone else {}
        return settlement(states, baseline(*self.locks, time=self.time.now), gone=gone)

    def look(self, warehouse: str, tables: Sequence[TableKey]) -> Mapping[TableKey, ReaderSnapshot | Trouble]:
        self.looks += 1
        self.calls += [f"look {table.table}" for table in tables]
        return {table: REFUSED if self.metastore_down else reader_snapshot(*self.locks) for table in tables}

    def plan(self, cleanup: Cleanup, partitions: Sequence[PartitionEntry]) -> tuple[PartitionDeletion, ...] | Trouble:
        self.calls.append(f"plan {cleanup.meta.name}")
        if self.metastore_down:
            return REFUSED
        return tuple(self._plan(entry) for entry in partitions)

    def delete(
        self, cleanup: Cleanup, partitions: Sequence[PartitionEntry], *, purge: bool, insist: bool = False
    ) -> tuple[PartitionDeletion, ...] | Trouble:
        self.calls.append(f"{'purge' if purge else 'delete'} {cleanup.meta.name}")
        if self.metastore_down:
            return REFUSED
        if cleanup.spec.quarantine is not None and not purge:
            return tuple(self._hide(entry) for entry in partitions)
        return tuple(self._delete(entry) for entry in partitions)

    def finish(self, cleanup: Cleanup) -> Trouble | None:
        self.calls.append(f"finish {cleanup.meta.name}")
        down = self.metastore_down or self.finish_down
        return REFUSED if down else None

    def count(self, call: str) -> int:
        return sum(made.startswith(call) for made in self.calls)

    def _plan(self, entry: PartitionEntry) -> PartitionDeletion:
        there = (one for one in entry.obsolete if f"{entry.partition}/{one.name}" in self.directories)
        return PartitionDeletion(entry.partition, remaining={one.name: one.reason for one in there})

    def _hide(self, entry: PartitionEntry) -> PartitionDeletion:
        names = tuple(obsolete.name for obsolete in entry.obsolete)
        return PartitionDeletion(entry.partition, quarantined=names, final=True)

    def _delete(self, entry: PartitionEntry) -> PartitionDeletion:
        if entry.partition in self.kept:
            why = self.kept[entry.partition]
            return PartitionDeletion(entry.partition, remaining={one.name: why for one in entry.obsolete})
        if entry.partition in self.needed:
            return PartitionDeletion(entry.partition, needed=tuple(one.name for one in entry.obsolete), final=True)
        names = [f"{entry.partition}/{obsolete.name}" for obsolete in entry.obsolete]
        freed = 10 * len(self.directories & set(names))
        self.directories -= set(names)
        deleted = tuple(obsolete.name for obsolete in entry.obsolete)
        return PartitionDeletion(entry.partition, deleted=deleted, bytes_deleted=freed, final=True)


@dataclass
class FakeForecasts:
    """What answers by a function, and counts what it is asked."""

    answer: Callable[[ForecastQuestion], ForecastAnswer | None] = lambda _: None
    asked: list[ForecastQuestion] = field(default_factory=list)
    until: asyncio.Event | None = None

    async def ask(self, warehouse: str, questions: Sequence[ForecastQuestion]) -> list[ForecastAnswer]:
        self.asked += questions
        assert warehouse == "lake"
        if self.until:
            await self.until.wait()
        return list(takewhile(lambda one: one is not None, map(self.answer, questions)))  # type: ignore[arg-type]


@dataclass
class Sandbox:
    """A controller over the fakes. `run` lets it work until nothing is left to do at this moment."""

    time: Time = field(default_factory=Time)
    kube: FakeKube = field(default_factory=FakeKube)
    config: OperatorConfig = CONFIG
    identity: str = ""
    work: FakeWork = field(init=False)
    controller: Controller = field(init=False)
    pools: Pools = field(
        default_factory=lambda: Pools(Inline(), {}, WarehousePools(Inline(), Inline(), Inline(), Inline(), Inline()))
    )
    metrics: Metrics = field(default_factory=Metrics)
    forecasts: FakeForecasts = field(default_factory=FakeForecasts)
    traces: Traces = field(default_factory=Traces)

    def __post_init__(self) -> None:
        self.work = FakeWork(self.time)
        self.kube.clock = self.time.clock

    def create(self) -> None:
        """Make a new controller that knows nothing."""
        self.metrics = Metrics()
        self.controller = Controller(
            self.config,
            kube=self.kube,
            work=self.work,
            pools=self.pools,
            clock=self.time.clock,
            ticks=self.time.ticks,
            metrics=self.metrics,
            identity=self.identity,
            forecasts=self.forecasts,
            traces=self.traces,
        )
        self.kube.watchers[:] = [self.controller.on_event]

    async def start(self, *, early: Sequence[Raw] = ()) -> None:
        """Start a new controller. It knows only what the API server has, and the pods that came `early`."""
        self.create()
        for pod in early:
            self.controller.on_event(ResourceKind.POD, None, pod)
        await self.controller.load()
        await self.run()

    async def run(self) -> None:
        while self.controller.step():
            await self.idle()

    async def idle(self) -> None:
        """Wait until all started tasks are over."""
        while self.controller._tasks:
            await asyncio.gather(*self.controller._tasks)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, stopping wherever something is due."""
        end = self.time.seconds + seconds
        while (due := self.controller.next_due()) is not None and due <= end:
            self.time.seconds = max(self.time.seconds, due)
            await self.run()
        self.time.seconds = end
        await self.run()

    def compaction(self, name: str = "nightly") -> dict[str, Any]:
        return self.kube.status(ResourceKind.COMPACTION, name)

    def cleanup(self, name: str = "nightly-1-0") -> dict[str, Any]:
        return self.kube.status(ResourceKind.CLEANUP, name)


def condition(status: Mapping[str, Any], type_: str = "Succeeded") -> dict[str, Any]:
    """Return a status's condition of that type."""
    found: dict[str, Any] = next(one for one in status["conditions"] if one["type"] == type_)
    return found


def runs(scenario: Callable[[], Any]) -> Callable[[], None]:
    """Make a test of a coroutine function."""

    def test() -> None:
        asyncio.run(scenario())

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test
