"""The controller's loop: events fill cache and queue, keys are reconciled independently, due tables are polled."""

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from compaction_operator.api.cleanup import LABEL_COMPACTION_UID
from compaction_operator.api.config import OperatorConfig
from compaction_operator.api.model import backed_off
from compaction_operator.api.why import Explanation
from compaction_operator.cleanup.readers import ReaderSnapshot
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.cleanup import CleanupReconciler, ReaderWatch
from compaction_operator.controller.compaction import CompactionReconciler, Turns
from compaction_operator.controller.forecasting import Forecasts, NoForecasts
from compaction_operator.controller.gauges import NamespaceGauges, PolicyGauges, PoolGauges, ResourceGauges
from compaction_operator.controller.kube.cache import Cache
from compaction_operator.controller.kube.client import ConflictError, GoneError, Kube, KubeError
from compaction_operator.controller.kube.cluster import Cluster, Pools, run_in
from compaction_operator.controller.kube.held import Held
from compaction_operator.controller.kube.history import KINDS, History
from compaction_operator.controller.kube.resources import (
    Cleanup,
    Compaction,
    Key,
    ResourceKind,
    TableKey,
    read_cleanup,
)
from compaction_operator.controller.kube.sight import Sight
from compaction_operator.controller.kube.times import Clock
from compaction_operator.controller.kube.watches import watch_all
from compaction_operator.controller.kube.watching import Watching
from compaction_operator.controller.kube.workqueue import WorkQueue
from compaction_operator.controller.metrics import Metrics
from compaction_operator.controller.ownership import Ownership
from compaction_operator.controller.page import Looked, Seen
from compaction_operator.controller.policies import NoPolicyError, PolicyRunner, Question
from compaction_operator.controller.queues import QueueRunner
from compaction_operator.controller.services import Services
from compaction_operator.controller.store_check import StoreCheck
from compaction_operator.controller.traces import Traces
from compaction_operator.controller.work import Work
from compaction_operator.logs import set_subject, subject

log = logging.getLogger(__name__)

CONFLICT_PAUSE = 0.2
RETRY = 1.0
RETRY_CAP = 15.0
LOAD_PAUSE = 2.0
SWEEP = 30.0
"""Seconds between two searches for what deleted compactions left behind."""
HISTORY_PAUSE = 60.0
STALE = 100
"""Waiting compactions whose status one search may correct: each costs a write."""
CALM = 4
"""Compactions without a turn to look at at a time: however many are new, what can go on goes first."""
GATHER_PAUSE = 1.0
"""Seconds to wait for further news of a driver or a cleanup, so that a talkative one costs no more than others."""


class Controller:
    """The controller's in-memory state; all of it can be rebuilt from the API server.

    `identity` tells this operator from others in the cluster: see Ownership. `loaded` is whether `load` has ended, and
    `stepped` the time of the last step by `ticks`; both may be read by any thread.
    """

    def __init__(
        self,
        config: OperatorConfig,
        *,
        kube: Kube,
        work: Work,
        pools: Pools,
        clock: Clock,
        ticks: Callable[[], float],
        metrics: Metrics,
        identity: str = "",
        forecasts: Forecasts | None = None,
        traces: Traces | None = None,
        watching: Watching | None = None,
    ) -> None:
        self._kube = kube
        self._watching = watching
        self._work = work
        self._pools = pools
        self._clock = clock
        self._ticks = ticks
        self._metrics = metrics
        self.sight = Sight(config.watched(), ticks=ticks)
        ownership = Ownership(config, identity, self._owner_of, self.sight.sees)
        self._cache = Cache(config.metastores(), ours=ownership.has)
        self._history = History(kube, self._cache, pools.kube, self.sight)
        self._held = Held(self._cache.compactions, self.sight)
        self._queue: WorkQueue[Key] = WorkQueue(self._rank)
        self._calm: set[Key] = set()
        self._reader_watch = ReaderWatch()
        self._turns = Turns(self._cache, config, sees=self.sight.sees)
        self._cluster = Cluster(
            kube, self._cache, pools.kube, clock=clock, ticks=ticks, identity=identity, sees=self.sight.sees
        )
        services = self._services = Services(
            config,
            ownership,
            self._cache,
            self._cluster,
            work,
            pools,
            clock,
            ticks,
            metrics,
            forecasts or NoForecasts(),
            traces or Traces(),
        )
        self._compactions = CompactionReconciler(services, self._turns)
        self._cleanups = CleanupReconciler(services, self._reader_watch)
        self._policies = PolicyRunner(services)
        self._queues = QueueRunner(services)
        self._register_gauges()
        self._store_check = StoreCheck(config, work=work, pools=pools, metrics=metrics)
        self._warehouses = [warehouse.name for warehouse in config.warehouses]
        self._sweep_due = ticks() + SWEEP
        self._sweeping: set[str] = set()
        self._searching = False
        self.loaded = False
        self.stepped: float | None = None
        self._failures: dict[Key, int] = {}
        self._resting: dict[Key, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()

    def _register_gauges(self) -> None:
        """Let the metrics show what is counted only when they are read."""
        for gauges in (
            ResourceGauges(self._cache, self._clock, loaded=lambda: self.loaded),
            PoolGauges(self._pools),
            PolicyGauges(self._policies.own, self._clock),
            NamespaceGauges(self.sight, loaded=lambda: self.loaded),
        ):
            self._metrics.registry.register(gauges)

    async def load(self) -> None:
        """Fill cache and queue with all existing objects: no turn can be determined before all are known.

        Those of single namespaces come by their watches. Raises KubeError if the API server does not answer.
        """
        if self.sight.whole:
            await self._list_all()
        else:
            await self.sight.complete()
        self.loaded = True

    async def _list_all(self) -> None:
        for kind in KINDS:
            for raw in await run_in(self._pools.kube, self._kube.list_all, kind):
                self.on_event(kind, "ADDED", raw)
        for raw in await run_in(self._pools.kube, self._list_policies):
            self.on_event(ResourceKind.POLICY, "ADDED", raw)

    def why(self, question: Question) -> list[Explanation] | None:
        """Say what the last looks of policies decided about a table, from any thread; None before `load` has ended.

        Raises NoPolicyError.
        """
        return self._policies.why(question) if self.loaded else None

    def seen(self) -> Seen | None:
        """Return what the web page shows, from any thread; None before `load` has ended."""
        if not self.loaded:
            return None
        return Seen(
            now=self._clock(),
            compactions=self._cache.compactions.all(),
            cleanups=self._cache.cleanups.all(),
            policies=[Looked(policy, memory) for policy, memory in self._policies.remembered()],
            place=self._cache.place,
            explain=self._explain,
        )

    def _explain(self, warehouse: str, table: str) -> list[Explanation]:
        try:
            return self._policies.why(Question(table, warehouse=warehouse))
        except NoPolicyError:
            return []

    def _owner_of(self, cleanup: Cleanup) -> Compaction | None:
        return self._cache.owner_of(cleanup)

    def _list_policies(self) -> list[dict[str, Any]]:
        try:
            return self._kube.list_all(ResourceKind.POLICY)
        except GoneError:
            return []  # its CRD is newer than the others: there is no policy without it

    def on_event(self, kind: ResourceKind, event: str | None, raw: Mapping[str, Any]) -> None:
        """Handle a watch event: an object's state, or its deletion; no type means that the object was listed."""
        if event is None and kind in KINDS:
            self._history.doubt(kind)
        try:
            if kind is ResourceKind.JOB:
                self._on_job(event, raw)
            elif kind is ResourceKind.POD:
                self._on_driver_pod(event, raw)
            elif kind is ResourceKind.POLICY:
                self._policies.on_event(event, raw)
                self._wake.set()
            else:
                self._on_resource(kind, event, raw)
        except ValueError as error:
            # The API server validates against the same schema, so this is an object of another version.
            log.error("%s %s cannot be read: %s", kind, raw["metadata"].get("name"), error)  # noqa: TRY400

    def on_listing(self, kind: ResourceKind, namespace: str) -> None:
        """Hear that a kind in a namespace is listed from here on."""
        if kind in KINDS:
            self._history.begin(kind, namespace)

    def on_listed(self, kind: ResourceKind, namespace: str, version: int, listed: Mapping[str, int]) -> None:
        """Hear that the watch of a kind in a namespace has brought all objects. Raises WentBackError.

        What was deleted unseen is dropped first: a cleanup that a user has deleted must not go on.
        """
        for resource in self._history.end(kind, namespace, version, listed) if kind in KINDS else ():
            self.on_event(kind, "DELETED", resource.raw)
        if kind is ResourceKind.POLICY:
            self._policies.keep_only(listed, namespace)
        if self.sight.listed(namespace, kind):
            try:
                for event, raw in self._held.release(namespace):
                    self.on_event(ResourceKind.COMPACTION, event, raw)
            finally:
                self._renew(namespace)

    def on_failed(self, kind: ResourceKind, namespace: str, why: str, *, refused: bool, silent: float) -> None:
        """Hear why a kind in a namespace is not watched: nothing of a hidden namespace is handled until it is seen."""
        if self.sight.failed(namespace, kind, why, refused=refused, silent=silent):
            self._renew(namespace)

    def is_listed(self, kind: ResourceKind, namespace: str) -> bool:
        """Whether a kind in a namespace need not be listed again."""
        return self.sight.is_listed(namespace, kind)

    def _renew(self, namespace: str) -> None:
        for key in self._cache.renew(namespace):
            self._add(key)
        self._wake.set()

    def step(self) -> int:
        """Start everything that is due now; return the number of started tasks."""
        now, due = self._ticks(), list[Coroutine[Any, Any, None]]()
        self._metrics.last_step.set(self._clock().timestamp())
        self.stepped = now
        self._turns.give_way(now)
        self._wake_waiting()
        while (key := self._queue.pop(now, below=math.inf if len(self._calm) < CALM else 1.0)) is not None:
            if self._rank(key) > 0:
                self._calm.add(key)
            due.append(self._reconcile(key))
        due += (self._look(name, tables) for name, tables in self._reader_watch.start_due(now).items())
        due += self._store_check.start_due(now)
        due += map(self._then_wake, self._policies.start_due(now))
        due += map(self._then_wake, self._queues.start_due(now))
        if self._sweep_due <= now:
            self._sweep_due = now + SWEEP
            if not self._searching:
                self._searching = True
                due.append(self._wake_doubtful())
            rested = [name for name in self._warehouses if name not in self._sweeping]
            self._sweeping.update(rested)
            due += map(self._sweep, rested)
        for coroutine in due:
            self._start(coroutine)
        return len(due)

    def next_due(self) -> float:
        """Return the time at which something is due next."""
        dues = (
            self._queue.next_due(),
            self._turns.next_due(),
            self._reader_watch.next_due(),
            self._store_check.next_due(),
            self._policies.next_due(),
            self._queues.next_due(),
            self._sweep_due,
        )
        return min(due for due in dues if due is not None)

    async def run(self) -> None:
        """Load, then work until cancelled. Raises WentBackError if the process must start over.

        In the end no task of it goes on; calls that a thread makes end by themselves.
        """
        try:
            await asyncio.gather(self._load_and_work(), self._watch())
        finally:
            for task in self._tasks:
                task.cancel()

    async def check_history(self) -> None:
        """Drop objects that no longer exist. Raises WentBackError if the API server's history went back."""
        try:
            gone = await self._history.gone()
        except KubeError as error:
            log.warning("cannot check the API server's history: %s", error)
            return
        for resource in gone:
            self.on_event(resource.kind, "DELETED", resource.raw)

    async def _watch(self) -> None:
        """Watch single namespaces. Kopf's handlers call `on_event` where it watches the whole cluster."""
        if self._watching is not None and self.sight.namespaces is not None:
            await watch_all(self.sight.namespaces, self._watching, self)

    async def _load_and_work(self) -> None:
        await self._load_at_last()
        await asyncio.gather(self._work_on(), self._keep_watch())

    async def _keep_watch(self) -> None:
        while True:
            await asyncio.sleep(HISTORY_PAUSE)
            await self.check_history()

    async def _work_on(self) -> None:
        while True:
            self._wake.clear()
            self.step()
            pause = max(0.0, self.next_due() - self._ticks())
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
            except TimeoutError:
                continue

    async def _load_at_last(self) -> None:
        while True:
            try:
                await self.load()
            except KubeError as error:
                log.warning("cannot list the resources yet: %s", error)
                await asyncio.sleep(LOAD_PAUSE)
            else:
                return

    def _on_job(self, event: str | None, raw: Mapping[str, Any]) -> None:
        news = self._cluster.is_news(raw)
        view = self._cluster.note_job(raw)
        if event == "DELETED":
            self._cluster.forget_job(view.namespace, view.name)
        elif not news:
            return
        self._add(Key(ResourceKind.COMPACTION, view.namespace, view.compaction))
        labels = raw["metadata"].get("labels") or {}
        for cleanup in self._cache.cleanups_of(labels.get(LABEL_COMPACTION_UID, "")):
            self._add(cleanup.key)

    def _on_driver_pod(self, event: str | None, raw: Mapping[str, Any]) -> None:
        if event == "DELETED":
            self._cluster.forget_driver(raw)
            return
        if not self._cluster.note_driver(raw):
            return
        compaction = self._cache.compactions.of_uid(raw["metadata"]["labels"][LABEL_COMPACTION_UID])
        if compaction is not None and compaction.attempt_running:
            self._add(compaction.key, after=GATHER_PAUSE)

    def _on_resource(self, kind: ResourceKind, event: str | None, raw: Mapping[str, Any]) -> None:
        metadata = raw["metadata"]
        if kind is ResourceKind.COMPACTION and self._held.holds(event, raw):
            return
        if event == "DELETED":
            key = Key(kind, metadata["namespace"], metadata["name"])
            self._cache.drop(key, metadata["uid"])
            self._add(key)
            return
        resource = self._cache.put(kind, raw)
        if resource is not None:
            self._add(resource.key)
        if isinstance(resource, Cleanup):
            self._wake_compaction(resource)

    def _wake_compaction(self, cleanup: Cleanup) -> None:
        """Let a compaction judge its attempt, or show the new phase once its end is written, of all changes at once."""
        key = Key(ResourceKind.COMPACTION, cleanup.meta.namespace, cleanup.spec.compaction.name)
        compaction = self._cache.compactions.get(key)
        if key in self._cache.running:
            self._add(key)
        elif compaction is not None and compaction.ended and compaction.status.cleanup_phase != cleanup.status.phase:
            self._add(key, after=GATHER_PAUSE)

    def _wake_waiting(self) -> None:
        for key in self._turns.wake(self._clock()):
            self._add(key)

    async def _wake_doubtful(self) -> None:
        """Look at compactions that wait for nothing any more: a wait without end is the worst of faults.

        Other work goes on between some tables: the liveness probe must be answered, however many wait.
        """
        try:
            for found in self._turns.doubtful(self._clock(), stale=STALE):
                for key in found:
                    if not self._queue.knows(key):
                        self._add(key)
                await asyncio.sleep(0)
        finally:
            self._searching = False

    def _rank(self, key: Key) -> float:
        """Return 0 for what goes on by itself. Compactions that wait for their turn come after that, by their age."""
        compaction = self._cache.compactions.get(key)
        if compaction is None or compaction.ended or compaction.attempt_running or self._turns.is_offered(key):
            return 0.0
        return compaction.since.timestamp()

    def _add(self, key: Key, *, after: float = 0.0) -> None:
        if after > 0:
            self._queue.add_at(key, self._ticks() + after)
        else:
            self._queue.add(key)
        self._wake.set()

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _then_wake(self, work: Coroutine[Any, Any, None]) -> None:
        """Do a work that sets a new time at which it is due."""
        await work
        self._wake.set()

    async def _reconcile(self, key: Key) -> None:
        again: float | None
        resource = self._cache.of_kind(key.kind).get(key)
        if resource is not None:
            set_subject(resource.subject)
        try:
            again = await self._reconcile_kind(key)
        except ConflictError:
            self._history.doubt(key.kind)
            again = CONFLICT_PAUSE
        except KubeError as error:
            log.warning("%s %s: %s", key.kind, key, error)
            again = self._failed(key)
        except Exception:
            log.exception("%s %s could not be reconciled", key.kind, key)
            again = self._failed(key)
        self._calm.discard(key)
        self._queue.done(key)
        if again is not None:
            self._add(key, after=again)
        self._wake.set()

    async def _reconcile_kind(self, key: Key) -> float | None:
        rest = self._rest(key)
        if rest > 0:
            return rest
        failures, failed = self._failures.get(key, 0), False
        if key.kind is ResourceKind.COMPACTION:
            again = await self._compactions.reconcile(key)
        else:
            again, failed = await self._cleanups.reconcile(key, failures=failures)
        if failed:
            self._failures[key] = failures + 1
        else:
            self._failures.pop(key, None)
        if failed and again is not None:
            self._resting[key] = self._ticks() + again
        cleanup = self._cache.cleanups.get(key)
        if cleanup is not None:
            self._wake_compaction(cleanup)
        return again

    def _rest(self, key: Key) -> float:
        """Return the seconds for which a failed cleanup still rests, whatever events arrive for it.

        NB: the watch may bring a cleanup's own write back, and each attempt writes. Without the rest it would retry
        without a pause.
        """
        left = self._resting.get(key, 0.0) - self._ticks()
        if left > 0 and self._cache.cleanups.get(key) is not None:
            return left
        self._resting.pop(key, None)
        return 0.0

    def _failed(self, key: Key) -> float:
        self._metrics.reconcile_errors.labels(key.kind.value).inc()
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return backed_off(RETRY, failures, cap=RETRY_CAP)

    async def _look(self, warehouse: str, tables: Sequence[TableKey]) -> None:
        """Look at tables of a warehouse and wake the cleanups whose result changed."""
        set_subject(subject(warehouse=warehouse))
        answers: Mapping[TableKey, ReaderSnapshot | Trouble]
        with self._metrics.looking(warehouse, tables=len(tables)):
            try:
                answers = await run_in(self._pools.of_warehouse(warehouse).polling, self._work.look, warehouse, tables)
            except Exception as error:
                log.exception("the look at warehouse %s failed", warehouse)
                answers = dict.fromkeys(tables, Trouble(type(error).__name__, str(error)))
        self._report(warehouse, "look", next((one for one in answers.values() if isinstance(one, Trouble)), None))
        for key in self._reader_watch.finish(answers, now=self._clock()):
            self._add(key)
        self._wake.set()

    async def _sweep(self, warehouse: str) -> None:
        """End what deleted compactions left in a warehouse's metastore and tables.

        NB: one at a time: sweeps that wait for a slow metastore would occupy the threads of the looks for readers.
        """
        set_subject(subject(warehouse=warehouse))
        compactions, sees = self._cache.compactions.all(), self.sight.sees
        known = frozenset(compaction.meta.uid for compaction in compactions if sees(compaction.meta.namespace))
        try:
            pool, journals = self._pools.of_warehouse(warehouse).polling, self._cache.cleanups.all()
            look_up = None if self.sight.whole else partial(self._journals_of, self._had(journals))
            trouble = await run_in(pool, partial(self._work.sweep, look_up=look_up), warehouse, known, journals)
        except Exception:
            log.exception("the sweep of warehouse %s failed", warehouse)
            return
        finally:
            self._sweeping.discard(warehouse)
        self._report(warehouse, "sweep", trouble)

    def _had(self, journals: Sequence[Cleanup]) -> Mapping[str, set[str]]:
        """Return the namespaces that compactions have, or had, by UID: one is known, its deletion, or a journal of it.

        NB: several if a journal lies: a driver's account can create one in its own namespace.
        """
        had = defaultdict[str, set[str]](set)
        for one in self._cache.compactions.all():
            had[one.meta.uid].add(one.meta.namespace)
        for uid, namespace in self._cache.compactions.deleted().items():
            had[uid].add(namespace)
        for journal in journals:
            had[journal.spec.compaction.uid].add(journal.meta.namespace)
        return had

    def _journals_of(self, had: Mapping[str, set[str]], uid: str) -> list[Cleanup] | None:
        """Return a compaction's journals, from any thread. None where they cannot all be known now."""
        namespaces = had.get(uid, set())
        if not namespaces or not all(map(self.sight.sees, namespaces)):
            return None
        try:
            return [read_cleanup(raw) for one in sorted(namespaces) for raw in self._kube.list_cleanups(one, uid)]
        except (KubeError, ValueError) as error:
            log.warning("what deleted compaction %s of namespace %s left is not ended: %s", uid, namespaces, error)
            return None

    def _report(self, warehouse: str, operation: str, trouble: Trouble | None) -> None:
        """Report how a call ended that always asks the metastore: only such a call shows the end of an outage."""
        self._services.report(warehouse, operation, trouble)
        if trouble is None:
            self._services.metastore_answered(warehouse)
