"""One reconcile of one key: look, decide, write the status, act. What is learned goes into the next look."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from compaction_operator.api.config import OperatorConfig
from compaction_operator.api.request import Reason
from compaction_operator.cleanup.deletion import PartitionDeletion
from compaction_operator.cleanup.lost import Watch
from compaction_operator.controller.cleanup import decide as cleanups
from compaction_operator.controller.cleanup.observation import Action, Sight
from compaction_operator.controller.cleanup.partitions import Pass, Trouble
from compaction_operator.controller.cleanup.reader_watch import Gatekeeper
from compaction_operator.controller.compaction import decide as compactions
from compaction_operator.controller.compaction.turns import Admission
from compaction_operator.controller.kube.cache import Cache
from compaction_operator.controller.kube.client import KubeError
from compaction_operator.controller.kube.cluster import Cluster, Pools, run_in
from compaction_operator.controller.kube.driver_pod import driver_end, executors_trouble, pod_trouble
from compaction_operator.controller.kube.job import current_job, job_manifest, job_request
from compaction_operator.controller.kube.resources import Cleanup, Compaction, Key, Kind
from compaction_operator.controller.kube.times import Clock
from compaction_operator.controller.metrics import Metrics
from compaction_operator.controller.work import Work, attempt_of

A = TypeVar("A")
ResourceT = TypeVar("ResourceT", Compaction, Cleanup)

_NOTHING_TO_SEE = frozenset({Action.NONE, Action.WATCH, Action.DISCARD})
"""Actions after which nothing is known that would change the decision."""


@dataclass(frozen=True)
class Means:
    """What both reconcilers work with."""

    config: OperatorConfig
    cache: Cache
    cluster: Cluster
    work: Work
    pools: Pools
    clock: Clock
    ticks: Callable[[], float]
    metrics: Metrics

    async def ask(
        self, resource: ResourceT, operation: str, work: Callable[[ResourceT], A], *, pool: Executor | None = None
    ) -> A:
        """Have something done in a thread, and count it when it was not answered."""
        warehouse = resource.spec.warehouse
        answer = await run_in(pool or self.pools.of_warehouse(warehouse).tables, work, resource)
        self.metrics.not_answered(warehouse, operation, _is_trouble(answer))
        return answer


class CompactionReconciler:
    """Takes TableCompactions from step to step."""

    def __init__(self, means: Means, admission: Admission) -> None:
        self._means = means
        self._cluster = means.cluster
        self._admission = admission
        self._asked: dict[Key, float] = {}
        self._drivers = Watch()

    async def reconcile(self, key: Key) -> float | None:
        """Do what can be done now; return in how many seconds to come again.

        Raises KubeError (ConflictError, GoneError) when the API server did not take a step.
        """
        compaction = self._means.cache.compactions.get(key)
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
            decision = compactions.decide(compaction, sight, config=self._means.config, now=self._means.clock())
            if decision.action is compactions.Action.PREFLIGHT:
                self._admission.claim(compaction)
            before, compaction = compaction, await self._cluster.write_compaction(compaction, decision.status)
            self._means.metrics.judged(before, compaction)
            await self._cluster.emit(decision.events, compaction.raw)
            if decision.action is compactions.Action.NONE:
                return decision.again_in
            sight = await self._act(decision.action, compaction, sight)

    async def _look(self, compaction: Compaction) -> compactions.Sight:
        if not compaction.attempt_running:
            self._forget_driver(compaction)
            waits_for = None if compaction.ended else self._admission.waits_for(compaction, self._means.clock())
            return compactions.Sight(waits_for=waits_for)
        meta = compaction.meta
        name = current_job(compaction)
        job = await self._cluster.job(meta.namespace, name)
        progress = self._cluster.progress(meta.namespace, name)
        if job is None or job.ended:
            return compactions.Sight(job=job)
        pod = None if job.ready else pod_trouble(await self._cluster.pods(meta.namespace, name))
        executors = await self._executors(compaction, name) if job.ready else None
        if pod is not None:
            self._forget_driver(compaction)
        lost = await self._lost(compaction) if pod is None else None
        return compactions.Sight(job=job, progress=progress, pod=pod, executors=executors, lost=lost)

    def _forget_driver(self, compaction: Compaction) -> None:
        """Begin from the start when the driver's pod runs: one that waits for a node, say, cannot hold anything."""
        self._asked.pop(compaction.key, None)
        self._drivers.forget(attempt_of(compaction))

    async def _executors(self, compaction: Compaction, job: str) -> str | None:
        """Look at an attempt's executors once its deadline is over: without them its driver waits for ever."""
        deadline = compactions.attempt_deadline(compaction, self._means.config)
        if deadline is None or deadline > self._means.clock() or not compaction.spec.spark.executors.instances:
            return None
        return executors_trouble(await self._cluster.executors(compaction.meta.namespace, job))

    async def _lost(self, compaction: Compaction) -> str | None:
        """Ask the metastore, not too often, whether the driver is lost; return why it is."""
        now = self._means.ticks()
        if compaction.is_hudi or now - self._asked.setdefault(compaction.key, now) < compactions.JOB_CHECK:
            return None
        self._asked[compaction.key] = now
        held = await self._means.ask(compaction, "held", self._means.work.held)
        if isinstance(held, Trouble):
            return None
        return self._drivers.lost(attempt_of(compaction), held, now=self._means.clock(), ticks=now)

    async def _act(
        self, action: compactions.Action, compaction: Compaction, sight: compactions.Sight
    ) -> compactions.Sight:
        if action is compactions.Action.PREFLIGHT:
            return replace(sight, verdict=await self._means.ask(compaction, "preflight", self._means.work.preflight))
        if action is compactions.Action.CREATE_JOB:
            return await self._create_job(compaction)
        if action is compactions.Action.DELETE_JOB:
            name = compaction.status.job or ""
            await self._cluster.delete_job(compaction.meta.namespace, name)
            job = await self._cluster.job(compaction.meta.namespace, name)
            return replace(sight, job=job, job_deleted=True)
        if action is compactions.Action.LOOK_AT_END:
            return replace(sight, end=await self._end(compaction, sight))
        trouble = await self._means.ask(compaction, "end", self._means.work.end_attempt)
        return replace(sight, attempt_ended=trouble or True)

    async def _create_job(self, compaction: Compaction) -> compactions.Sight:
        request = job_request(compaction, self._means.config)
        try:
            await self._cluster.create_job(job_manifest(request, ttl=self._means.config.job_ttl))
        except KubeError as error:
            # Nobody would see it in a log: a quota, say, or an admission policy.
            return compactions.Sight(refused=str(error))
        job = await self._cluster.job(request.namespace, request.job)
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

    def __init__(self, means: Means, gatekeeper: Gatekeeper) -> None:
        self._means = means
        self._cluster = means.cluster
        self._gatekeeper = gatekeeper

    async def reconcile(self, key: Key, *, failures: int) -> tuple[float | None, bool]:
        """Do what can be done now; return in how many seconds to come again, and whether this was a failure.

        Raises KubeError (ConflictError, GoneError) when the API server did not take a step.
        """
        cleanup = self._means.cache.cleanups.get(key)
        if cleanup is None:
            self._gatekeeper.forget(key)
            return None, False
        sight = await self._look(cleanup, failures)
        while True:
            decision = cleanups.decide(cleanup, sight, settings=self._means.config.cleanup, now=self._means.clock())
            before, cleanup = cleanup, await self._cluster.write_cleanup(cleanup, decision.status)
            self._means.metrics.deleted(before, cleanup)
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
            return Sight(look=self._gatekeeper.view(cleanup.key), left=True, failures=failures)
        job = await self._cluster.job(cleanup.meta.namespace, cleanup.spec.compaction.job)
        if job is None or job.ended:
            return Sight(job=job, failures=failures)
        held = await self._means.ask(cleanup, "held", self._means.work.held)
        if isinstance(held, Trouble):
            return Sight(job=job, at_work=True, failures=failures)
        lost = held.silence(self._means.clock())
        return Sight(job=job, at_work=bool(held) and lost is None, lost=lost, failures=failures)

    def _owner(self, cleanup: Cleanup) -> Compaction | None:
        """Return the compaction that a cleanup names, from its own namespace: only with that may it end an attempt.

        One that is not there may have been deleted, or be another namespace's, which a forged cleanup names.
        """
        ref = cleanup.spec.compaction
        compaction = self._means.cache.compactions.get(Key(Kind.COMPACTION, cleanup.meta.namespace, ref.name))
        return compaction if compaction is not None and compaction.meta.uid == ref.uid else None

    def _needed(self, cleanup: Cleanup) -> bool:
        """Whether the compaction still counts with what its attempts published."""
        owner = self._owner(cleanup)
        return owner is not None and not owner.ended

    def _watch(self, cleanup: Cleanup, action: Action) -> None:
        baseline = cleanup.status.baseline
        if action is not Action.WATCH or baseline is None:
            self._gatekeeper.forget(cleanup.key)
            return
        interval = cleanup.spec.interval if cleanup.spec.interval is not None else self._means.config.cleanup.interval
        self._gatekeeper.watch(
            cleanup.key,
            cleanup.table,
            baseline,
            readers=cleanup.spec.readers,
            interval=interval,
            now=self._means.ticks(),
        )

    async def _act(self, decision: cleanups.Decision, cleanup: Cleanup, sight: Sight) -> Sight:
        if decision.action is Action.SETTLE:
            ended = (sight.job is None or sight.job.ended) and self._owner(cleanup) is not None
            settle = partial(self._means.work.settle, driver_ended=ended)
            return sight.answered(settled=await self._means.ask(cleanup, "settle", settle))
        if decision.action is Action.PLAN:
            plan = partial(self._means.work.plan, partitions=cleanup.spec.partitions)
            return sight.answered(planned=await self._means.ask(cleanup, "plan", plan))
        if decision.action is Action.FINISH:
            return sight.answered(finished=await self._means.ask(cleanup, "finish", self._means.work.finish) or True)
        if decision.action is Action.RELEASE:
            return sight.answered(left=await self._means.ask(cleanup, "release", self._means.work.release) or False)
        going = sight.deletion or Pass()
        return sight.answered(deletion=going.after(decision.partitions, await self._delete(decision, cleanup)))

    async def _delete(self, decision: cleanups.Decision, cleanup: Cleanup) -> tuple[PartitionDeletion, ...] | Trouble:
        purge = decision.action is Action.PURGE
        delete = partial(self._means.work.delete, partitions=decision.partitions, purge=purge, insist=decision.insist)
        pool = self._means.pools.of_warehouse(cleanup.spec.warehouse).deletion
        outcome = await self._means.ask(cleanup, "delete", delete, pool=pool)
        if not isinstance(outcome, Trouble):
            self._means.metrics.refused(outcome)
        return outcome


def _is_trouble(answer: object) -> bool:
    unavailable = isinstance(answer, compactions.Verdict) and answer.reason is Reason.METASTORE_UNAVAILABLE
    return unavailable or isinstance(answer, Trouble)
