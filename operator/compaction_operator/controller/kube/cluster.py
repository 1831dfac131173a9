"""The cluster as reconcilers use it: writes go to the API server, answers are cached, calls run in bounded pools."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

from compaction_operator.api.cleanup import CompactionCleanupStatus
from compaction_operator.api.compaction import ANNOTATION_OPERATOR, TableCompactionStatus
from compaction_operator.api.policy import CompactionPolicyStatus
from compaction_operator.api.progress import Progress
from compaction_operator.controller.kube.cache import Cache, Recent
from compaction_operator.controller.kube.client import LABEL_JOB, GoneError, Kube, KubeError, Raw, ResourceExistsError
from compaction_operator.controller.kube.driver_pod import driver_progress
from compaction_operator.controller.kube.events import Event, event_manifest
from compaction_operator.controller.kube.job import JobView, view_job
from compaction_operator.controller.kube.resources import (
    Cleanup,
    Compaction,
    Policy,
    Resource,
    ResourceKind,
    ResourceT,
    read_compaction,
    read_policy,
)
from compaction_operator.controller.kube.times import Clock
from compaction_operator.controller.kube.workers import Load, Workers
from compaction_operator.logs import set_subject

log = logging.getLogger(__name__)

JOB_TRUST = 20.0
"""Seconds for which a Job seen running is assumed to run: a watch may miss a deletion."""
REMEMBERED = 10_000
"""Jobs and drivers to remember; a forgotten one is fetched again."""

Status = TableCompactionStatus | CompactionCleanupStatus | CompactionPolicyStatus
P = ParamSpec("P")
R = TypeVar("R")


class WarehousePools(NamedTuple):
    """A warehouse's worker threads by purpose, so that blocked calls of one purpose block no other."""

    tables: Executor
    preflights: Executor
    polling: Executor
    deletion: Executor
    surveys: Executor
    """For the looks of policies: one at a time, and none in the way of anything else."""


class Pools:
    """Worker threads for the API server and for each warehouse: a metastore that hangs delays no other work.

    `others` serves warehouses that the configuration lacks: no long call is ever made for them.
    """

    def __init__(self, kube: Executor, warehouses: Mapping[str, WarehousePools], others: WarehousePools) -> None:
        self.kube = kube
        self._warehouses = warehouses
        self._others = others

    @classmethod
    def of(
        cls, warehouses: Iterable[str], *, kube: int, tables: int, preflights: int, polling: int, deletion: int
    ) -> "Pools":
        """Create pools of these sizes; threads start on first use."""

        def make() -> WarehousePools:
            return WarehousePools(*(Workers(size) for size in (tables, preflights, polling, deletion, 1)))

        return cls(Workers(kube), {name: make() for name in warehouses}, make())

    def of_warehouse(self, name: str) -> WarehousePools:
        """Return a warehouse's pools."""
        return self._warehouses.get(name, self._others)

    def loads(self) -> Iterator[tuple[str, str, Load]]:
        """Yield for each pool its warehouse (empty: the API server), its name, and what it does now."""
        pools = [("", "kube", self.kube)]
        pools += [(name, *own) for name, mine in self._warehouses.items() for own in mine._asdict().items()]
        for warehouse, name, pool in pools:
            if isinstance(pool, Workers):
                yield warehouse, name, pool.load()

    def shut_down(self) -> None:
        """Start nothing new and wait for nothing: running calls can be repeated."""
        for pool in self._all():
            pool.shutdown(wait=False, cancel_futures=True)

    def end(self, within: float) -> bool:
        """Start nothing new; return whether all running calls end within so many seconds."""
        self.shut_down()
        waiting = threading.Thread(target=self._await_all, daemon=True)
        waiting.start()
        waiting.join(within)
        return not waiting.is_alive()

    def _await_all(self) -> None:
        for pool in self._all():
            pool.shutdown()

    def _all(self) -> Iterator[Executor]:
        return chain([self.kube], self._others, *self._warehouses.values())


async def run_in(pool: Executor, function: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
    """Run a blocking call in a pool, whose log lines are about what the caller's are."""
    context = copy_context()
    return await asyncio.get_running_loop().run_in_executor(pool, lambda: context.run(function, *args, **options))


class Cluster:
    """The API server and its cached state. Methods raise KubeError for failures that a retry may fix.

    `identity` is what the operator writes as itself into each status, empty if it is unknown. `sees` is whether a
    namespace is watched now.
    """

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        pool: Executor,
        *,
        clock: Clock,
        ticks: Callable[[], float],
        identity: str = "",
        sees: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._kube = kube
        self._cache = cache
        self._pool = pool
        self._clock = clock
        self._ticks = ticks
        self._identity = identity
        self._sees = sees
        self._told: Recent[str, float] = Recent(REMEMBERED)
        self._jobs: Recent[tuple[str, str], tuple[JobView, float]] = Recent(REMEMBERED)
        self._reported: Recent[tuple[str, str], JobView] = Recent(REMEMBERED)
        self._progress: Recent[tuple[str, str], Progress] = Recent(REMEMBERED)

    async def write(
        self, old: ResourceT, status: TableCompactionStatus | CompactionCleanupStatus, *, claim: bool = True
    ) -> ResourceT:
        """Write a status if it differs and the version still matches; return the updated resource.

        Without `claim` it stays open which operator handles the resource.
        Raises GoneError for one that was deleted, also if its deletion is known before the answer: the next step would
        otherwise act on what was written before, or on another resource of that name.
        """
        if status == old.status and not (claim and self.is_taken_over(old)):
            return old
        written = self._claimed(old, status) if claim else status
        try:
            raw = await run_in(self._pool, self._kube.replace_status, old.kind, old.raw, written.to_json())
        except GoneError:
            # NB: out of sight it may have left a journal that is not known: the next list drops it.
            if self._sees(old.meta.namespace):
                self._cache.drop(old.key, old.meta.uid)
            raise
        self._cache.put(old.kind, raw)
        known = self._cache.of_kind(old.kind).get(old.key)
        if known is None or known.meta.uid != old.meta.uid:
            raise GoneError(f"{old.kind} {old.key} was deleted")
        set_subject(known.subject)
        return cast(ResourceT, known)

    def is_taken_over(self, resource: Resource[Any, Any]) -> bool:
        """Whether a resource that this operator handles still names another one, which was removed."""
        return bool(self._identity) and resource.status.operator not in (None, self._identity)

    def _claimed(self, old: Resource[Any, Any], status: Status) -> Status:
        """Return a status that names this operator."""
        other = old.status.operator
        if self.is_taken_over(old):
            log.info("%s %s is taken over from the operator of namespace %s", old.kind, old.key, other)
        return status.model_copy(update={"operator": self._identity or other})

    def remind(self, event: Event, about: Resource[Any, Any], *, every: float) -> float:
        """Post an event about a resource, unless this process has done so lately; return the seconds to the next."""
        now = self._ticks()
        told = self._told.get(about.meta.uid)
        if told is not None and now - told < every:
            return told + every - now
        self._told[about.meta.uid] = now
        self.emit([event], about.raw)
        return every

    async def job(self, namespace: str, name: str) -> JobView | None:
        """Return a Job, or None if the API server reports none: a cache alone cannot prove absence."""
        view, seen = self._jobs.get((namespace, name), (None, 0.0))
        if view is not None and (view.ended or self._ticks() - seen < JOB_TRUST):
            return view
        raw = await run_in(self._pool, self._kube.get_job, namespace, name)
        if raw is None:
            self._jobs.pop((namespace, name), None)
            return None
        return self.note_job(raw)

    async def discard(self, cleanup: Cleanup) -> None:
        """Delete a cleanup's record, if it has not changed in the meantime."""
        await run_in(self._pool, self._kube.delete_cleanup, cleanup.raw)
        self._cache.drop_cleanup(cleanup.key, cleanup.meta.uid)

    async def write_policy(self, policy: Policy, status: CompactionPolicyStatus, *, claim: bool = True) -> Policy:
        """Write a policy's status if the version still matches; return the updated policy.

        Without `claim` it stays open which operator handles the policy.
        Raises ConflictError if the policy has changed, and GoneError if it was deleted.
        """
        written = self._claimed(policy, status) if claim else status
        return read_policy(
            await run_in(self._pool, self._kube.replace_status, ResourceKind.POLICY, policy.raw, written.to_json())
        )

    async def create_compaction(self, manifest: Raw) -> None:
        """Create a TableCompaction; one of that name is the same decision's, from before a restart.

        It names this operator, so that another one of its namespace leaves it alone, also before the first look.
        NB: the watch brings it into the cache: only then it is reconciled.
        """
        try:
            await run_in(self._pool, self._kube.create_compaction, self._signed(manifest))
        except ResourceExistsError:
            log.info("compaction %s already exists", manifest["metadata"]["name"])

    def _signed(self, manifest: Raw) -> Raw:
        if not self._identity:
            return manifest
        metadata = manifest["metadata"]
        annotations = {**metadata.get("annotations", {}), ANNOTATION_OPERATOR: self._identity}
        return {**manifest, "metadata": {**metadata, "annotations": annotations}}

    async def find_compaction(self, namespace: str, name: str) -> Compaction | None:
        """Return a TableCompaction, or None if the API server reports none: a cache alone cannot prove absence."""
        found = await run_in(self._pool, self._kube.find_compactions, namespace, name)
        return read_compaction(found[0]) if found else None

    async def discard_compaction(self, compaction: Compaction) -> None:
        """Delete a TableCompaction, if it has not changed in the meantime; a missing one is no error."""
        with suppress(GoneError):
            await run_in(self._pool, self._kube.delete_compaction, compaction.raw)

    async def create_job(self, manifest: Raw) -> None:
        """Create a Job; an existing one of that name is the same attempt's, from before a restart."""
        try:
            view = self.note_job(await run_in(self._pool, self._kube.create_job, manifest))
            self._reported.setdefault((view.namespace, view.name), view)
        except ResourceExistsError:
            log.info("job %s already exists", manifest["metadata"]["name"])

    async def delete_job(self, namespace: str, name: str) -> None:
        """Delete a Job and its pods; a missing Job is no error."""
        try:
            await run_in(self._pool, self._kube.delete_job, namespace, name)
        except GoneError:
            log.info("job %s/%s is already gone", namespace, name)
        self.forget_job(namespace, name)

    def is_news(self, raw: Mapping[str, Any]) -> bool:
        """Whether a watched Job differs from the last watched one in what decisions read. Most changes do not.

        NB: another reconciler's call may have brought this change before the watch. It is news for all others.
        """
        view = view_job(raw)
        known = self._reported.get((view.namespace, view.name))
        self._reported[(view.namespace, view.name)] = view
        return known is None or replace(known, resource_version=view.resource_version) != view

    def note_job(self, raw: Mapping[str, Any]) -> JobView:
        """Store a Job from the watch or a call, unless a newer version is known; return the known one."""
        view = view_job(raw)
        old, _ = self._jobs.get((view.namespace, view.name), (None, 0.0))
        newest = old if old is not None and old.resource_version > view.resource_version else view
        self._jobs[(view.namespace, view.name)] = (newest, self._ticks())
        return newest

    def forget_job(self, namespace: str, name: str) -> None:
        """Forget a deleted Job."""
        self._jobs.pop((namespace, name), None)
        self._reported.pop((namespace, name), None)

    def note_driver(self, raw: Mapping[str, Any]) -> bool:
        """Store the progress that a watched driver pod reports; return whether it is new."""
        seen, job = driver_progress(raw), _job_of(raw)
        if seen is None or seen == self._progress.get(job):
            return False
        self._progress[job] = seen
        return True

    def forget_driver(self, raw: Mapping[str, Any]) -> None:
        """Forget a deleted driver pod."""
        self._progress.pop(_job_of(raw), None)

    def progress(self, namespace: str, job: str) -> Progress | None:
        """Return the progress that a Job's driver reports, None if unknown."""
        return self._progress.get((namespace, job))

    async def pods(self, namespace: str, job: str) -> list[Raw]:
        """Return a Job's pods."""
        return await run_in(self._pool, self._kube.list_pods, namespace, job)

    async def refusals(self, namespace: str, job: str) -> list[Raw]:
        """Return the events that say why a Job could not create its pod; none if this operator may not read events."""
        try:
            return await run_in(self._pool, self._kube.list_refusals, namespace, job)
        except KubeError as error:
            log.warning("cannot find out why job %s/%s has no pod: %s", namespace, job, error)
            return []

    async def executors(self, namespace: str, job: str) -> list[Raw]:
        """Return the executor pods of a Job's drivers."""
        drivers = {pod["metadata"]["uid"] for pod in await self.pods(namespace, job)}
        found = await run_in(self._pool, self._kube.list_executors, namespace)
        return [pod for pod in found if drivers & {one["uid"] for one in pod["metadata"].get("ownerReferences") or ()}]

    async def cleanups_of(self, compaction: Compaction) -> tuple[Cleanup, ...]:
        """Return all cleanups of a compaction's attempts, fetched from the API server: none may be missing.

        NB: while a known cleanup is not settled, there is nothing to decide, so only the known ones are returned. An
        attempt may have thousands of cleanups, and each settled one asks for this.
        """
        known = self.known_cleanups(compaction)
        if not all(one.settled or one.ended for one in known):
            return known
        found = await run_in(self._pool, self._kube.list_cleanups, compaction.meta.namespace, compaction.meta.uid)
        for raw in found:
            self._cache.put_cleanup(raw)
        return self.known_cleanups(compaction)

    def known_cleanups(self, compaction: Compaction) -> tuple[Cleanup, ...]:
        """Return the cleanups of a compaction's attempts that the cache knows."""
        # NB: any user can write any UID into a resource of their own namespace.
        mine = self._cache.cleanups_of(compaction.meta.uid)
        return tuple(one for one in mine if one.meta.namespace == compaction.meta.namespace)

    def emit(self, events: Iterable[Event], about: Mapping[str, Any]) -> None:
        """Post events in the background: no step waits for them. A failure to post is only logged."""
        for event in events:
            name = f"{about['metadata']['namespace']}/{about['metadata']['name']}"
            log.info("%s %s: %s: %s", about["kind"], name, event.reason, event.message)
            self._pool.submit(copy_context().run, self._post, event_manifest(event, about, now=self._clock()), name)

    def _post(self, manifest: Raw, name: str) -> None:
        try:
            self._kube.create_event(manifest)
        except KubeError as error:
            log.warning("event %s about %s not posted: %s", manifest["reason"], name, error)
        except Exception:
            log.exception("event %s about %s not posted", manifest["reason"], name)


def _job_of(pod: Mapping[str, Any]) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata["namespace"], (metadata.get("labels") or {}).get(LABEL_JOB, "")
