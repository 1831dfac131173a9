"""Reconciler of TableCompactions: observe, decide, write the status, act. Each answer feeds the next decision."""

from dataclasses import replace
from datetime import datetime
from functools import partial

from compaction_operator.api.compaction import TableCompactionStatus
from compaction_operator.cleanup.attempt import Watch
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.compaction.decide import (
    JOB_CHECK,
    CompactionAction,
    CompactionObservation,
    End,
    attempt_deadline,
    decide,
    leave,
)
from compaction_operator.controller.compaction.turns import Turns
from compaction_operator.controller.kube.client import ForbiddenError, KubeError
from compaction_operator.controller.kube.driver_pod import (
    PodTrouble,
    driver_end,
    executors_trouble,
    pod_trouble,
    refusal_of,
)
from compaction_operator.controller.kube.job import current_job, job_manifest, job_request
from compaction_operator.controller.kube.resources import Compaction, Key
from compaction_operator.controller.services import Services
from compaction_operator.controller.work import attempt_of


class CompactionReconciler:
    """Moves TableCompactions from step to step."""

    def __init__(self, services: Services, turns: Turns) -> None:
        self._services = services
        self._cluster = services.cluster
        self._turns = turns
        self._asked: dict[Key, float] = {}
        self._drivers = Watch()
        self._executors: dict[Key, tuple[float, PodTrouble | None]] = {}

    async def reconcile(self, key: Key) -> float | None:
        """Do what is possible now; return the requeue delay in seconds.

        Raises KubeError (ConflictError, GoneError) when the API server rejects a step.
        """
        compaction, sure = self._services.cache.compactions.get(key), False
        try:
            again = None if compaction is None else await self._next(compaction)
            sure = True
        except ForbiddenError:
            # NB: nothing was written, and its namespace may never be seen again. A conflict is no such answer: there is
            # a newer version, whose attempt may run.
            sure = self._services.config.watched() is not None
            raise
        finally:
            if compaction is not None:
                self._turns.release(compaction, sure=sure)
            self._forget_if_over(key)
        return again

    def _forget_if_over(self, key: Key) -> None:
        compaction = self._services.cache.compactions.get(key)
        if compaction is None or compaction.ended:
            self._turns.forget(key)
            self._asked.pop(key, None)
            self._executors.pop(key, None)

    async def _next(self, compaction: Compaction) -> float | None:
        ownership = self._services.ownership
        if not ownership.sees(compaction.meta.namespace):
            self._lose_sight(compaction)
            return None
        if ownership.has(compaction):
            return await self._steps(compaction)
        again = None if compaction.ended else self._services.leave(compaction)
        if again is not None:
            return again
        handled = compaction.meta.namespace in self._services.cache.handled
        decision = leave(compaction, ownership=ownership, handled=handled, now=self._services.clock())
        written = await self._cluster.write(compaction, decision.status, claim=False)
        self._cluster.emit(decision.events, written.raw)
        return decision.requeue_after

    def _lose_sight(self, compaction: Compaction) -> None:
        """Leave a compaction alone until it is seen again. No time counts against a driver meanwhile."""
        self._turns.lose_sight(compaction.key)
        self._forget_driver(compaction)

    async def _steps(self, compaction: Compaction) -> float | None:
        # NB: one time for both: whether it backs off must not change between its turn and the decision.
        now = self._services.clock()
        observed = await self._observe(compaction, now)
        while self._services.ownership.sees(compaction.meta.namespace):
            decision = decide(compaction, observed, config=self._services.config, now=now)
            if decision.action is CompactionAction.PREFLIGHT:
                self._turns.claim(compaction, ticks=self._services.ticks())
            before, compaction = compaction, await self._cluster.write(compaction, decision.status)
            self._services.metrics.judged(before, compaction)
            self._services.metrics.published(before, compaction)
            self._services.metrics.forecast(before, compaction)
            driver = observed.end.driver if observed.end else None
            self._services.traces.judged(before, compaction, driver, now=now)
            self._cluster.emit(decision.events, compaction.raw)
            if decision.action is CompactionAction.NONE:
                return decision.requeue_after
            if not self._services.ownership.sees(compaction.meta.namespace):
                break
            if decision.ending is not None:
                observed = replace(observed, recorded=await self._record(compaction, decision.ending))
            else:
                observed = await self._act(decision.action, compaction, observed)
            now = self._services.clock()
        self._lose_sight(compaction)
        return None

    async def _observe(self, compaction: Compaction, now: datetime) -> CompactionObservation:
        if not compaction.attempt_running:
            self._forget_driver(compaction)
            if compaction.ended:
                return CompactionObservation(cleanups=self._cluster.known_cleanups(compaction))
            turn = self._turns.look(compaction, now)
            return CompactionObservation(waits_for=turn.waits_for, in_line=not turn.has_come)
        self._turns.forget(compaction.key)
        meta = compaction.meta
        name = current_job(compaction)
        job = await self._cluster.job(meta.namespace, name)
        progress = self._cluster.progress(meta.namespace, name)
        if job is None or job.ended:
            return CompactionObservation(job=job)
        if job.suspended:
            self._forget_driver(compaction)
            known = self._cluster.known_cleanups(compaction)
            return CompactionObservation(job=job, progress=progress, cleanups=known)
        pod = None if job.ready else await self._pod_trouble(meta.namespace, name)
        executors = await self._executors_trouble(compaction, name) if job.ready else None
        if pod is not None:
            self._forget_driver(compaction)
        lost = await self._lost(compaction) if pod is None else None
        return CompactionObservation(job=job, progress=progress, pod=pod, executors=executors, lost=lost)

    def _forget_driver(self, compaction: Compaction) -> None:
        """Reset the driver's record: a pod that does not run yet (it waits for a node, say) cannot hold anything."""
        self._asked.pop(compaction.key, None)
        self._executors.pop(compaction.key, None)
        self._drivers.forget(attempt_of(compaction))

    async def _pod_trouble(self, namespace: str, job: str) -> PodTrouble | None:
        pods = await self._cluster.pods(namespace, job)
        refused = None if pods else refusal_of(await self._cluster.refusals(namespace, job))
        return refused or pod_trouble(pods)

    async def _executors_trouble(self, compaction: Compaction, job: str) -> PodTrouble | None:
        """Look at an attempt's executors, at a limited rate and at its deadline: its driver may wait for them."""
        if compaction.spec.spark.executors.instances == 0:
            return None
        now = self._services.ticks()
        looked, found = self._executors.setdefault(compaction.key, (now, None))
        deadline = attempt_deadline(compaction, self._services.config)
        if now - looked >= JOB_CHECK or (deadline is not None and deadline <= self._services.clock()):
            found = executors_trouble(await self._cluster.executors(compaction.meta.namespace, job))
            self._executors[compaction.key] = now, found
        return found

    async def _lost(self, compaction: Compaction) -> str | None:
        """Ask the metastore, at a limited rate, whether the driver is lost; return why it is."""
        now = self._services.ticks()
        if compaction.is_hudi or now - self._asked.setdefault(compaction.key, now) < JOB_CHECK:
            return None
        self._asked[compaction.key] = now
        held = await self._services.ask(compaction, "held", self._services.work.held)
        if isinstance(held, Trouble):
            return None
        return self._drivers.lost(attempt_of(compaction), held, now=self._services.clock(), ticks=now)

    async def _act(
        self, action: CompactionAction, compaction: Compaction, observed: CompactionObservation
    ) -> CompactionObservation:
        if action is CompactionAction.PREFLIGHT:
            return await self._preflight(compaction, observed)
        if action is CompactionAction.CREATE_JOB:
            return await self._create_job(compaction)
        if action is CompactionAction.DELETE_JOB:
            name = compaction.status.job or ""
            await self._cluster.delete_job(compaction.meta.namespace, name)
            job = await self._cluster.job(compaction.meta.namespace, name)
            return replace(observed, job=job, job_deleted=True)
        if action is CompactionAction.LOOK_AT_END:
            return replace(observed, end=await self._end(compaction, observed))
        trouble = await self._services.ask(compaction, "end", self._services.work.end_attempt)
        return replace(observed, attempt_ended=trouble or True)

    async def _record(self, compaction: Compaction, ending: TableCompactionStatus) -> bool | Trouble:
        record = partial(self._services.work.record, ending=ending)
        return await self._services.ask(compaction, "receipt", record) or True

    async def _preflight(self, compaction: Compaction, observed: CompactionObservation) -> CompactionObservation:
        """Look the table up. A slow metastore may cost the slot meanwhile; without it, nothing can start."""
        pool = self._services.pools.of_warehouse(compaction.spec.warehouse).preflights
        verdict = await self._services.ask(compaction, "preflight", self._services.work.preflight, pool=pool)
        waits_for = self._turns.keep(compaction) if verdict.reason is None else None
        return replace(observed, verdict=verdict, waits_for=waits_for)

    async def _create_job(self, compaction: Compaction) -> CompactionObservation:
        config, after_oom = self._services.config, compaction.status.oom_killed
        request = job_request(compaction, config)
        try:
            await self._cluster.create_job(job_manifest(request, ttl=config.job_ttl, after_oom=after_oom))
        except KubeError as error:
            # The condition shows it, since users do not see the log. Examples: a quota, an admission policy.
            return CompactionObservation(refused=str(error))
        job = await self._cluster.job(request.namespace, request.job)
        if job is None:
            raise KubeError(f"job {request.job} was deleted as soon as it was created")
        return CompactionObservation(job=job)

    async def _end(self, compaction: Compaction, observed: CompactionObservation) -> End:
        meta = compaction.meta
        pods = await self._cluster.pods(meta.namespace, compaction.status.job or "")
        message = observed.job.message if observed.job is not None else "the job is gone"
        # NB: an attempt on a Hudi table creates no cleanups; any that name it are forged.
        found = () if compaction.is_hudi else await self._cluster.cleanups_of(compaction)
        return End(driver_end(pods, job_message=message), found)
