"""Reconciler of CompactionCleanups: observe, decide, write the status, act. Each answer feeds the next decision."""

from functools import partial

from compaction_operator.cleanup.deletion import Deletions
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.cleanup.decide import CleanupDecision, decide
from compaction_operator.controller.cleanup.observation import CleanupAction, CleanupObservation
from compaction_operator.controller.cleanup.partitions import Pass
from compaction_operator.controller.cleanup.reader_watch import ReaderWatch
from compaction_operator.controller.kube.resources import Cleanup, Key
from compaction_operator.controller.services import Services

_NOTHING_TO_SEE = frozenset({CleanupAction.NONE, CleanupAction.WATCH, CleanupAction.DISCARD})
"""Actions that yield no answer for another decision."""


class CleanupReconciler:
    """Moves CompactionCleanups from step to step."""

    def __init__(self, services: Services, reader_watch: ReaderWatch) -> None:
        self._services = services
        self._cluster = services.cluster
        self._reader_watch = reader_watch

    async def reconcile(self, key: Key, *, failures: int) -> tuple[float | None, bool]:
        """Do what is possible now; return the requeue delay in seconds, and whether this was a failure.

        Raises KubeError (ConflictError, GoneError) when the API server rejects a step.
        """
        cleanup = self._services.cache.cleanups.get(key)
        if cleanup is None or not self._services.ownership.has(cleanup):
            self._reader_watch.forget(key)
            left = None if cleanup is None or cleanup.ended else self._services.leave(cleanup)
            return left, False
        observed = await self._observe(cleanup, failures)
        while True:
            decision = decide(cleanup, observed, settings=self._services.config.cleanup, now=self._services.clock())
            before, cleanup = cleanup, await self._cluster.write(cleanup, decision.status)
            self._services.metrics.deleted(before, cleanup)
            self._services.traces.cleaned(before, cleanup)
            self._cluster.emit(decision.events, cleanup.raw)
            self._watch(cleanup, decision.action)
            if decision.action is CleanupAction.DISCARD:
                await self._cluster.discard(cleanup)
            if decision.action in _NOTHING_TO_SEE or not self._services.ownership.sees(key.namespace):
                return decision.requeue_after, decision.failed
            observed = await self._act(decision, cleanup, observed)

    async def _observe(self, cleanup: Cleanup, failures: int) -> CleanupObservation:
        if cleanup.ended:
            return CleanupObservation(needed=self._needed(cleanup))
        if cleanup.settled:
            return CleanupObservation(look=self._reader_watch.view(cleanup.key), left=True, failures=failures)
        job = await self._cluster.job(cleanup.meta.namespace, cleanup.spec.compaction.job)
        if job is None or job.ended:
            return CleanupObservation(job=job, failures=failures)
        held = await self._services.ask(cleanup, "held", self._services.work.held)
        if isinstance(held, Trouble):
            return CleanupObservation(job=job, at_work=True, failures=failures)
        lost = held.silence(self._services.clock())
        return CleanupObservation(job=job, at_work=bool(held) and lost is None, lost=lost, failures=failures)

    def _needed(self, cleanup: Cleanup) -> bool:
        """Whether the compaction still counts what its attempts published."""
        owner = self._services.cache.owner_of(cleanup)
        return owner is not None and not owner.ended

    def _watch(self, cleanup: Cleanup, action: CleanupAction) -> None:
        baseline = cleanup.status.baseline
        if action is not CleanupAction.WATCH or baseline is None:
            self._reader_watch.forget(cleanup.key)
            return
        own, now = cleanup.spec.interval, self._services.ticks()
        interval = self._services.config.cleanup.interval if own is None else own
        self._reader_watch.watch(
            cleanup.key, cleanup.table, baseline, readers=cleanup.spec.readers, interval=interval, now=now
        )

    async def _act(
        self, decision: CleanupDecision, cleanup: Cleanup, observed: CleanupObservation
    ) -> CleanupObservation:
        ask, work = self._services.ask, self._services.work
        if decision.action is CleanupAction.SETTLE:
            # NB: only with its compaction may a cleanup end an attempt.
            owner = self._services.cache.owner_of(cleanup)
            ended = (observed.job is None or observed.job.ended) and owner is not None
            attempt = [
                one for one in self._services.cache.cleanups.of_table(cleanup.table) if one.is_of_attempt(cleanup)
            ]
            settled = await ask(cleanup, "settle", partial(work.settle, driver_ended=ended, attempt=attempt))
            return observed.answered(settled=settled)
        if decision.action is CleanupAction.PLAN:
            plan = partial(work.plan, partitions=cleanup.spec.partitions)
            return observed.answered(planned=await ask(cleanup, "plan", plan))
        if decision.action is CleanupAction.FINISH:
            return observed.answered(finished=await ask(cleanup, "finish", work.finish) or True)
        if decision.action is CleanupAction.RELEASE:
            left = await ask(cleanup, "release", work.release) or await ask(cleanup, "receipt", work.close_receipts)
            return observed.answered(left=left or False)
        going = observed.deletion or Pass()
        return observed.answered(deletion=going.after(decision.partitions, await self._delete(decision, cleanup)))

    async def _delete(self, decision: CleanupDecision, cleanup: Cleanup) -> Deletions | Trouble:
        work, purge = self._services.work, decision.action is CleanupAction.PURGE
        delete = partial(work.delete, partitions=decision.partitions, purge=purge, insist=decision.insist)
        pool = self._services.pools.of_warehouse(cleanup.spec.warehouse).deletion
        outcome = await self._services.ask(cleanup, "delete", delete, pool=pool)
        if not isinstance(outcome, Trouble):
            self._services.metrics.refused(outcome)
        return outcome
