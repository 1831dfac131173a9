"""Watches of single namespaces: one for each kind. One that may not watch, or fails, tries again and delays no other.

NB: kopf's own watches of single namespaces are of no use here: it ends the whole process if it may not watch one.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import product
from typing import Any, Protocol

from compaction_operator.controller.kube.client import ExpiredError, ForbiddenError, GoneError, Kube, KubeError, Raw
from compaction_operator.controller.kube.cluster import run_in
from compaction_operator.controller.kube.resources import ResourceKind

log = logging.getLogger(__name__)

PAUSE = 10.0
"""Seconds until a watch that ended tries again: it may be allowed by then."""


class Listener(Protocol):
    """What hears of the objects, and of what can be watched."""

    def on_event(self, kind: ResourceKind, event: str | None, raw: Mapping[str, Any]) -> None:
        """Hear of an object's state, or of its deletion."""

    async def on_listed(self, kind: ResourceKind, namespace: str) -> None:
        """Hear that all objects of a kind in a namespace have come. Raises KubeError if they are to be listed again."""

    def on_obstacle(self, kind: ResourceKind, namespace: str, obstacle: str) -> None:
        """Hear why those of a kind in a namespace cannot be watched."""


def connections(namespaces: Collection[str]) -> int:
    """Return how many connections and threads the watches of some namespaces take."""
    return len(namespaces) * len(ResourceKind)


async def watch_all(namespaces: Collection[str], kube: Kube, listener: Listener) -> None:
    """Tell the listener of all objects of all kinds in some namespaces, for ever."""
    if not namespaces:
        return
    pool = ThreadPoolExecutor(connections(namespaces), thread_name_prefix="watch")
    watches = (Watch(namespace, kind, kube, pool, listener) for namespace, kind in product(namespaces, ResourceKind))
    await asyncio.gather(*(one.run() for one in watches))


class Watch:
    """The watch of one kind in one namespace. It blocks a thread of the pool."""

    def __init__(self, namespace: str, kind: ResourceKind, kube: Kube, pool: Executor, listener: Listener) -> None:
        self._namespace = namespace
        self._kind = kind
        self._kube = kube
        self._pool = pool
        self._listener = listener
        self._failed = False

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            try:
                await self.follow()
            except ExpiredError:
                continue
            except ForbiddenError as error:
                self._listener.on_obstacle(self._kind, self._namespace, str(error))
            except GoneError:
                await self._without_crd()
            except KubeError as error:
                self._note(error)
            await asyncio.sleep(PAUSE)

    async def follow(self) -> None:
        """List all objects, then tell of each change. Raises KubeError; ExpiredError if they are to be listed again."""
        pages, version = self._kube.pages(self._kind, self._namespace), ""
        while (page := await run_in(self._pool, next, pages, None)) is not None:
            version = page["metadata"]["resourceVersion"]
            for raw in page["items"]:
                self._listener.on_event(self._kind, "ADDED", raw)
        changes = await self._changes_after(version)
        await self._listener.on_listed(self._kind, self._namespace)
        self._failed = False
        while True:
            version = await self._tell(changes, version)
            changes = await self._changes_after(version)

    async def _changes_after(self, version: str) -> Iterator[Raw]:
        return await run_in(self._pool, self._kube.watch, self._kind, self._namespace, version)

    async def _tell(self, changes: Iterator[Raw], version: str) -> str:
        """Tell of the changes after a version until the API server ends the watch; return the version by then."""
        while (change := await run_in(self._pool, next, changes, None)) is not None:
            version = change["object"]["metadata"]["resourceVersion"]
            if change["type"] != "BOOKMARK":
                self._listener.on_event(self._kind, change["type"], change["object"])
        return version

    async def _without_crd(self) -> None:
        """There is no policy without its CRD, which is newer than the others."""
        if self._kind is ResourceKind.POLICY:
            await self._listener.on_listed(self._kind, self._namespace)
        else:
            missing = f"the API server does not know {self._kind}: install the CRDs"
            self._listener.on_obstacle(self._kind, self._namespace, missing)

    def _note(self, error: KubeError) -> None:
        """Log the first of several failures in a row."""
        if not self._failed:
            log.warning("the watch of each %s in namespace %s begins again: %s", self._kind, self._namespace, error)
        self._failed = True
