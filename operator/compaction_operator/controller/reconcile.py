"""One reconcile of one key: look, decide, write the status, act. What is learned goes into the next look."""

from collections.abc import Callable
from dataclasses import replace

from compaction_operator.api.config import OperatorConfig
from compaction_operator.api.request import Reason
from compaction_operator.controller import cleanups, compactions
from compaction_operator.controller.admission import Admission
from compaction_operator.controller.cache import Cache
from compaction_operator.controller.cleanup_step import Action, Decision, Sight
from compaction_operator.controller.cluster import Cluster, Pools, run_in
from compaction_operator.controller.driver import driver_end, executors_trouble, pod_trouble
from compaction_operator.controller.gatekeeper import Gatekeeper
from compaction_operator.controller.jobs import job_manifest, job_name, job_request
from compaction_operator.controller.kube import KubeError
from compaction_operator.controller.metrics import Metrics
from compaction_operator.controller.outcomes import Pass, Trouble
from compaction_operator.controller.resources import Cleanup, Compaction, Key, Kind
from compaction_operator.controller.times import Clock
from compaction_operator.controller.work import Work

_NOTHING_TO_SEE = frozenset({Action.NONE, Action.WATCH, Action.DISCARD})
"""Actions after which nothing is known that would change the decision."""


class CompactionReconciler:
    """Takes TableCompactions from step to step."""

    def __init__(
        self,
        config: OperatorConfig,
        *,
        cache: Cache,
        cluster: Cluster,
        admission: Admission,
        work: Work,
        pools: Pools,
        clock: Clock,
        ticks: Callable[[], float],
        metrics: Metrics,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._cache = cache
        self._cluster = cluster
        self._admission = admission
        self._work = work
        self._pools = pools
        self._clock = clock
        self._ticks = ticks
        self._asked: dict[Key, float] = {}

    async def reconcile(self, key: Key) -> float | None:
        """Do what can be done now; return in how many seconds to come again.

        Raises KubeError (ConflictError, GoneError) when the API server did not take a step.
        """
        compaction = self._cache.compactions.get(key)
        if compaction is None or compaction.ended:
            self._admission.forget(key)
            self._asked.pop(key, None)
        if compaction is None:
            return None
        try:
            return await self._steps(compaction)
        finally:
            self._admission.release(compaction)

    async def _steps(self, compaction: Compaction) -> float | None:
        sight = await self._look(compaction)
        while True:
            decision = compactions.decide(compaction, sight, config=self._config, now=self._clock())
            if decision.action is compactions.Action.PREFLIGHT:
                self._admission.claim(compaction)
            before, compaction = compaction, await self._cluster.write_compaction(compaction, decision.status)
            self._metrics.judged(before, compaction)
            await self._cluster.emit(decision.events, compaction.raw)
            if decision.action is compactions.Action.NONE:
                return decision.again_in
            sight = await self._act(decision.action, compaction, sight)

    async def _look(self, compaction: Compaction) -> compactions.Sight:
        if compaction.ended:
            return compactions.Sight()
        if not compaction.attempt_running:
            self._asked.pop(compaction.key, None)
            return compactions.Sight(waits_for=self._admission.waits_for(compaction, self._clock()))
        meta = compaction.meta
        name = job_name(compaction=meta.name, uid=meta.uid, attempt=compaction.status.attempt)
        job = await self._cluster.job(meta.namespace, name)
        progress = self._cluster.progress(meta.namespace, name)
        if job is None or job.ended:
            return compactions.Sight(job=job)
        pod = None if job.ready else pod_trouble(await self._cluster.pods(meta.namespace, name))
        executors = await self._executors(compaction, name) if job.ready else None
        lost = await self._lost(compaction)
        return compactions.Sight(job=job, progress=progress, pod=pod, executors=executors, lost=lost)

    async def _executors(self, compaction: Compaction, job: str) -> str | None:
        """Look at an attempt's executors once its deadline is over: without them its driver waits for ever."""
        deadline = compactions.attempt_deadline(compaction, self._config)
        if deadline is None or deadline > self._clock() or not compaction.spec.spark.executors.instances:
            return None
        return executors_trouble(await self._cluster.executors(compaction.meta.namespace, job))

    async def _lost(self, compaction: Compaction) -> str | None:
        """Ask the metastore, not too often, whether the driver is lost; return why it is."""
        now = self._ticks()
        if compaction.is_hudi or now - self._asked.setdefault(compaction.key, now) < compactions.JOB_CHECK:
            return None
        self._asked[compaction.key] = now
        warehouse = compaction.spec.warehouse
        lost = await run_in(self._pools.of_warehouse(warehouse).tables, self._work.lost, compaction)
        self._metrics.not_answered(warehouse, "lost", isinstance(lost, Trouble))
        return lost if isinstance(lost, str) else None

    async def _act(
        self, action: compactions.Action, compaction: Compaction, sight: compactions.Sight
    ) -> compactions.Sight:
        warehouse = compaction.spec.warehouse
        tables = self._pools.of_warehouse(warehouse).tables
        if action is compactions.Action.PREFLIGHT:
            verdict = await run_in(tables, self._work.preflight, compaction)
            self._metrics.not_answered(warehouse, "preflight", verdict.reason is Reason.METASTORE_UNAVAILABLE)
            return replace(sight, verdict=verdict)
        if action is compactions.Action.CREATE_JOB:
            return await self._create_job(compaction)
        if action is compactions.Action.DELETE_JOB:
            name = compaction.status.job or ""
            await self._cluster.delete_job(compaction.meta.namespace, name)
            job = await self._cluster.job(compaction.meta.namespace, name)
            return replace(sight, job=job, job_deleted=True)
        if action is compactions.Action.LOOK_AT_END:
            return replace(sight, end=await self._end(compaction, sight))
        trouble = await run_in(tables, self._work.bury, compaction)
        self._metrics.not_answered(warehouse, "bury", trouble)
        return replace(sight, buried=trouble is None, burial_trouble=trouble)

    async def _create_job(self, compaction: Compaction) -> compactions.Sight:
        meta = compaction.meta
        request = job_request(
            compaction.spec,
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            attempt=compaction.status.attempt,
            config=self._config,
        )
        try:
            await self._cluster.create_job(job_manifest(request, ttl=self._config.job_ttl))
        except KubeError as error:
            # Nobody would see it in a log: a quota, say, or an admission policy.
            return compactions.Sight(refused=str(error))
        job = await self._cluster.job(meta.namespace, request.job)
        if job is None:
            raise KubeError(f"job {request.job} was deleted as soon as it was created")
        return compactions.Sight(job=job)

    async def _end(self, compaction: Compaction, sight: compactions.Sight) -> compactions.End:
        meta = compaction.meta
        pods = await self._cluster.pods(meta.namespace, compaction.status.job or "")
        message = sight.job.message if sight.job is not None else "its job is gone"
        # NB: an attempt on a Hudi table makes none, whatever somebody may have written into one.
        found = () if compaction.is_hudi else await self._cluster.cleanups_of(compaction)
        return compactions.End(driver_end(pods, job_message=message), found)


class CleanupReconciler:
    """Takes CompactionCleanups from step to step."""

    def __init__(
        self,
        config: OperatorConfig,
        *,
        cache: Cache,
        cluster: Cluster,
        gatekeeper: Gatekeeper,
        work: Work,
        pools: Pools,
        clock: Clock,
        ticks: Callable[[], float],
        metrics: Metrics,
    ) -> None:
        self._settings = config.cleanup
        self._metrics = metrics
        self._cache = cache
        self._cluster = cluster
        self._gatekeeper = gatekeeper
        self._work = work
        self._pools = pools
        self._clock = clock
        self._ticks = ticks
        self._silent_since: dict[Key, float] = {}

    async def reconcile(self, key: Key, *, failures: int) -> tuple[float | None, bool]:
        """Do what can be done now; return in how many seconds to come again, and whether this was a failure.

        Raises KubeError (ConflictError, GoneError) when the API server did not take a step.
        """
        cleanup = self._cache.cleanups.get(key)
        if cleanup is None:
            self._gatekeeper.forget(key)
            self._silent_since.pop(key, None)
            return None, False
        sight = await self._look(cleanup, failures)
        while True:
            decision = cleanups.decide(cleanup, sight, settings=self._settings, now=self._clock())
            before, cleanup = cleanup, await self._cluster.write_cleanup(cleanup, decision.status)
            self._metrics.deleted(before, cleanup)
            await self._cluster.emit(decision.events, cleanup.raw)
            self._watch(cleanup, decision.action)
            if decision.action is Action.DISCARD:
                await self._cluster.discard(cleanup)
            if decision.action in _NOTHING_TO_SEE:
                return decision.again_in, decision.failed
            sight = await self._act(decision, cleanup, sight)

    async def _look(self, cleanup: Cleanup, failures: int) -> Sight:
        if cleanup.ended:
            return Sight(needed=self._needed(cleanup))
        if cleanup.settled:
            self._silent_since.pop(cleanup.key, None)
            return Sight(look=self._gatekeeper.view(cleanup.key), left=True, failures=failures)
        job = await self._cluster.job(cleanup.meta.namespace, cleanup.spec.compaction.job)
        runs = job is not None and not job.ended
        return Sight(job=job, silent=await self._silent(cleanup) if runs else 0.0, failures=failures)

    async def _silent(self, cleanup: Cleanup) -> float:
        """Ask what the attempt holds; return for how long it is known, by unbroken looks, to hold nothing."""
        holds = await run_in(self._pools.of_warehouse(cleanup.spec.warehouse).tables, self._work.holds, cleanup)
        self._count_errors(cleanup, "holds", holds)
        if holds is not False:
            self._silent_since.pop(cleanup.key, None)
            return 0.0
        now = self._ticks()
        return now - self._silent_since.setdefault(cleanup.key, now)

    def _needed(self, cleanup: Cleanup) -> bool:
        """Whether the compaction still counts with what its attempts published."""
        ref = cleanup.spec.compaction
        compaction = self._cache.compactions.get(Key(Kind.COMPACTION, cleanup.meta.namespace, ref.name))
        return compaction is not None and compaction.meta.uid == ref.uid and not compaction.ended

    def _watch(self, cleanup: Cleanup, action: Action) -> None:
        baseline = cleanup.status.baseline
        if action is not Action.WATCH or baseline is None:
            self._gatekeeper.forget(cleanup.key)
            return
        interval = cleanup.spec.interval if cleanup.spec.interval is not None else self._settings.interval
        self._gatekeeper.watch(
            cleanup.key,
            cleanup.table,
            baseline,
            readers=cleanup.spec.readers,
            interval=interval,
            now=self._ticks(),
        )

    async def _act(self, decision: Decision, cleanup: Cleanup, sight: Sight) -> Sight:
        pools = self._pools.of_warehouse(cleanup.spec.warehouse)
        if decision.action is Action.SETTLE:
            settled = await run_in(pools.tables, self._work.settle, cleanup)
            self._count_errors(cleanup, "settle", settled)
            return replace(sight, settled=settled)
        if decision.action is Action.PLAN:
            planned = await run_in(pools.tables, self._work.plan, cleanup, cleanup.spec.partitions)
            self._count_errors(cleanup, "plan", planned)
            return replace(sight, planned=planned)
        if decision.action is Action.FINISH:
            trouble = await run_in(pools.tables, self._work.finish, cleanup)
            self._count_errors(cleanup, "finish", trouble)
            return replace(sight, finished=trouble is None, finish_trouble=trouble)
        if decision.action is Action.RELEASE:
            trouble = await run_in(pools.tables, self._work.release, cleanup)
            self._count_errors(cleanup, "release", trouble)
            return replace(sight, left=False, release_trouble=trouble)
        return replace(sight, deletion=await self._delete(decision, cleanup, sight.deletion or Pass()))

    async def _delete(self, decision: Decision, cleanup: Cleanup, going: Pass) -> Pass:
        chunk, purge = decision.partitions, decision.action is Action.PURGE
        pool = self._pools.of_warehouse(cleanup.spec.warehouse).deletion
        outcome = await run_in(pool, self._work.delete, cleanup, chunk, purge=purge, insist=decision.insist)
        self._count_errors(cleanup, "delete", outcome)
        if not isinstance(outcome, Trouble):
            self._metrics.refused(outcome)
        return going.after(chunk, outcome)

    def _count_errors(self, cleanup: Cleanup, operation: str, outcome: object) -> None:
        self._metrics.not_answered(cleanup.spec.warehouse, operation, isinstance(outcome, Trouble))
