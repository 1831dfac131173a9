"""The cluster as the reconcilers use it: writes go through, answers land in the cache, calls run in a bounded pool."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import chain
from typing import Any, NamedTuple, ParamSpec, TypeVar

from compaction_operator.api.cleanup import CompactionCleanupStatus
from compaction_operator.api.compaction import TableCompactionStatus
from compaction_operator.api.progress import Progress
from compaction_operator.controller.kube.cache import Cache, Recent
from compaction_operator.controller.kube.client import LABEL_JOB, GoneError, Kube, KubeError, Raw, ResourceExistsError
from compaction_operator.controller.kube.driver_pod import driver_progress
from compaction_operator.controller.kube.events import Event, event_manifest
from compaction_operator.controller.kube.job import JobView, view_job
from compaction_operator.controller.kube.resources import Cleanup, Compaction
from compaction_operator.controller.kube.times import Clock

log = logging.getLogger(__name__)

JOB_TRUST = 20.0
"""Seconds for which a Job that was seen running is taken to run: a watch may miss a deletion."""
REMEMBERED = 10_000
"""Jobs and drivers to keep in mind; what was forgotten is asked for again."""

P = ParamSpec("P")
R = TypeVar("R")


class WarehousePools(NamedTuple):
    """A warehouse's worker threads by purpose, so that one that is held up holds up nothing else."""

    tables: Executor
    polling: Executor
    deletion: Executor


class Pools:
    """The API server's worker threads and each warehouse's: a metastore that hangs delays nobody else's work.

    `others` are for warehouses that the configuration does not have: nothing is ever asked for them that takes long.
    """

    def __init__(self, kube: Executor, warehouses: Mapping[str, WarehousePools], others: WarehousePools) -> None:
        self.kube = kube
        self._warehouses = warehouses
        self._others = others

    @classmethod
    def of(cls, warehouses: Iterable[str], *, kube: int, tables: int, polling: int, deletion: int) -> "Pools":
        """Return pools of so many threads; a thread starts when it is needed first."""

        def make() -> WarehousePools:
            return WarehousePools(*(ThreadPoolExecutor(size) for size in (tables, polling, deletion)))

        return cls(ThreadPoolExecutor(kube), {name: make() for name in warehouses}, make())

    def of_warehouse(self, name: str) -> WarehousePools:
        """Return a warehouse's pools."""
        return self._warehouses.get(name, self._others)

    def shut_down(self) -> None:
        """Start nothing new and wait for nothing: whatever runs can be repeated."""
        for pool in chain([self.kube], self._others, *self._warehouses.values()):
            pool.shutdown(wait=False, cancel_futures=True)


async def run_in(pool: Executor, function: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
    """Run a blocking call in a pool."""
    return await asyncio.get_running_loop().run_in_executor(pool, lambda: function(*args, **options))


class Cluster:
    """The API server and what is known of it. Methods raise KubeError for what may work later."""

    def __init__(self, kube: Kube, cache: Cache, pool: Executor, *, clock: Clock, ticks: Callable[[], float]) -> None:
        self._kube = kube
        self._cache = cache
        self._pool = pool
        self._clock = clock
        self._ticks = ticks
        self._jobs: Recent[tuple[str, str], tuple[JobView, float]] = Recent(REMEMBERED)
        self._progress: Recent[tuple[str, str], Progress] = Recent(REMEMBERED)

    async def write_compaction(self, old: Compaction, status: TableCompactionStatus) -> Compaction:
        """Write a status if it differs and nobody else wrote meanwhile; return the compaction as it is then."""
        if status == old.status:
            return old
        await self._write(old, status.to_json())
        return self._cache.compactions.get(old.key) or old

    async def write_cleanup(self, old: Cleanup, status: CompactionCleanupStatus) -> Cleanup:
        """Write a status if it differs and nobody else wrote meanwhile; return the cleanup as it is then."""
        if status == old.status:
            return old
        await self._write(old, status.to_json())
        return self._cache.cleanups.get(old.key) or old

    async def job(self, namespace: str, name: str) -> JobView | None:
        """Return a Job, or None when the API server says that there is none: a cache alone cannot tell."""
        view, seen = self._jobs.get((namespace, name), (None, 0.0))
        if view is not None and (view.ended or self._ticks() - seen < JOB_TRUST):
            return view
        raw = await run_in(self._pool, self._kube.get_job, namespace, name)
        if raw is None:
            self._jobs.pop((namespace, name), None)
            return None
        return self.note_job(raw)

    async def discard(self, cleanup: Cleanup) -> None:
        """Delete a cleanup's record, if nobody changed it meanwhile."""
        await run_in(self._pool, self._kube.delete_cleanup, cleanup.raw)
        self._cache.drop_cleanup(cleanup.key, cleanup.meta.uid)

    async def create_job(self, manifest: Raw) -> None:
        """Create a Job; one of its name is the same attempt's, from before a restart."""
        try:
            self.note_job(await run_in(self._pool, self._kube.create_job, manifest))
        except ResourceExistsError:
            log.info("job %s exists already", manifest["metadata"]["name"])

    async def delete_job(self, namespace: str, name: str) -> None:
        """Delete a Job, and with it its pods; one that is gone is no error."""
        try:
            await run_in(self._pool, self._kube.delete_job, namespace, name)
        except GoneError:
            log.info("job %s/%s is gone already", namespace, name)
        self.forget_job(namespace, name)

    def note_job(self, raw: Mapping[str, Any]) -> JobView:
        """Keep a Job that the watch or a call brought, unless a newer version is known; return what is known."""
        view = view_job(raw)
        old, _ = self._jobs.get((view.namespace, view.name), (None, 0.0))
        newest = old if old is not None and old.resource_version > view.resource_version else view
        self._jobs[(view.namespace, view.name)] = (newest, self._ticks())
        return newest

    def forget_job(self, namespace: str, name: str) -> None:
        """Forget a Job that was deleted."""
        self._jobs.pop((namespace, name), None)

    def note_driver(self, raw: Mapping[str, Any]) -> bool:
        """Keep what a driver's pod that the watch brought says of its progress; return whether that is news."""
        seen, job = driver_progress(raw), _job_of(raw)
        if seen is None or seen == self._progress.get(job):
            return False
        self._progress[job] = seen
        return True

    def forget_driver(self, raw: Mapping[str, Any]) -> None:
        """Forget a driver's pod that was deleted."""
        self._progress.pop(_job_of(raw), None)

    def progress(self, namespace: str, job: str) -> Progress | None:
        """Return how far a Job's driver says that it is, None when that is not known."""
        return self._progress.get((namespace, job))

    async def pods(self, namespace: str, job: str) -> list[Raw]:
        """Return a Job's pods."""
        return await run_in(self._pool, self._kube.list_pods, namespace, job)

    async def executors(self, namespace: str, job: str) -> list[Raw]:
        """Return the executor pods of a Job's drivers."""
        drivers = {pod["metadata"]["uid"] for pod in await self.pods(namespace, job)}
        found = await run_in(self._pool, self._kube.list_executors, namespace)
        return [pod for pod in found if drivers & {one["uid"] for one in pod["metadata"].get("ownerReferences") or ()}]

    async def cleanups_of(self, compaction: Compaction) -> tuple[Cleanup, ...]:
        """Return all cleanups of a compaction's attempts, asked of the API server: none may be missing.

        NB: while one that is known is not settled there is nothing to decide, and those that are known are returned:
        an attempt may have thousands, and each that is settled asks for this.
        """
        known = self._known_cleanups(compaction)
        if not all(one.settled or one.ended for one in known):
            return known
        found = await run_in(self._pool, self._kube.list_cleanups, compaction.meta.namespace, compaction.meta.uid)
        for raw in found:
            self._cache.put_cleanup(raw)
        return self._known_cleanups(compaction)

    def _known_cleanups(self, compaction: Compaction) -> tuple[Cleanup, ...]:
        # NB: anybody can write any UID into a resource of a namespace of their own.
        mine = self._cache.cleanups_of(compaction.meta.uid)
        return tuple(one for one in mine if one.meta.namespace == compaction.meta.namespace)

    async def emit(self, events: Iterable[Event], about: Mapping[str, Any]) -> None:
        """Post events; one that cannot be posted is only logged."""
        for event in events:
            name = f"{about['metadata']['namespace']}/{about['metadata']['name']}"
            log.info("%s %s: %s: %s", about["kind"], name, event.reason, event.message)
            manifest = event_manifest(event, about, now=self._clock())
            try:
                await run_in(self._pool, self._kube.create_event, manifest)
            except KubeError as error:
                log.warning("event %s about %s not posted: %s", event.reason, name, error)

    async def _write(self, old: Compaction | Cleanup, status: Raw) -> None:
        try:
            raw = await run_in(self._pool, self._kube.replace_status, old.kind, old.raw, status)
        except GoneError:
            self._cache.drop(old.key, old.meta.uid)
            raise
        self._cache.put(old.kind, raw)


def _job_of(pod: Mapping[str, Any]) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata["namespace"], (metadata.get("labels") or {}).get(LABEL_JOB, "")
