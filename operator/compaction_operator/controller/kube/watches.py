"""Watches of single namespaces: one for each kind. One that may not watch, or fails, tries again and delays no other.

NB: kopf's own watches of single namespaces are of no use here: it ends the whole process if it may not watch one.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import product
from typing import Any, Protocol

from compaction_operator.api.model import backed_off
from compaction_operator.controller.kube.client import (
    CutError,
    ExpiredError,
    ForbiddenError,
    GoneError,
    KubeError,
    Raw,
)
from compaction_operator.controller.kube.cluster import run_in
from compaction_operator.controller.kube.history import WentBackError
from compaction_operator.controller.kube.resources import ResourceKind
from compaction_operator.controller.kube.sight import PATIENCE
from compaction_operator.controller.kube.watching import Watching

log = logging.getLogger(__name__)

PAUSE = 10.0
"""Seconds until a watch that failed tries again: it may be allowed by then."""
LONGEST_PAUSE = 60.0
"""The pause of one that is refused grows up to that: each refusal stands in the audit log of the cluster."""
SHORT = 5.0
"""A watch that ends sooner than after so many seconds pauses before it goes on, longer each time."""
SPINS = 3
"""Such ends in a row, after which the log names them."""


class Listener(Protocol):
    """What hears of the objects, and of what can be watched."""

    def on_event(self, kind: ResourceKind, event: str | None, raw: Mapping[str, Any]) -> None:
        """Hear of an object's state, or of its deletion."""

    def on_listing(self, kind: ResourceKind, namespace: str) -> None:
        """Hear that the objects of a kind in a namespace are listed from here on."""

    def on_listed(self, kind: ResourceKind, namespace: str, version: int, listed: Mapping[str, int]) -> None:
        """Hear that all of them have come: the list's version, and theirs by UID. Raises WentBackError."""

    def on_failed(self, kind: ResourceKind, namespace: str, why: str, *, refused: bool, silent: float) -> None:
        """Hear why those of a kind in a namespace are not watched now, and for how many seconds nothing was heard."""

    def is_listed(self, kind: ResourceKind, namespace: str) -> bool:
        """Whether they need not be listed again."""


def connections(namespaces: Collection[str]) -> int:
    """Return how many connections and threads the watches of some namespaces take."""
    return len(namespaces) * len(ResourceKind)


async def watch_all(namespaces: Collection[str], kube: Watching, listener: Listener) -> None:
    """Tell the listener of all objects of all kinds in some namespaces, for ever. Raises WentBackError."""
    if not namespaces:
        return
    pool = ThreadPoolExecutor(connections(namespaces), thread_name_prefix="watch")
    watches = (Watch(namespace, kind, kube, pool, listener) for namespace, kind in product(namespaces, ResourceKind))
    await asyncio.gather(*(one.run() for one in watches))


class Watch:
    """The watch of one kind in one namespace. It blocks a thread of the pool. `ticks` is a monotonic clock."""

    def __init__(
        self,
        namespace: str,
        kind: ResourceKind,
        kube: Watching,
        pool: Executor,
        listener: Listener,
        *,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._namespace = namespace
        self._kind = kind
        self._kube = kube
        self._pool = pool
        self._listener = listener
        self._ticks = ticks
        self._version = ""
        self._heard = ticks()
        self._failed = False
        self._short = 0
        self._refusals = 0

    async def run(self) -> None:
        """Watch for ever. Raises WentBackError."""
        while True:
            began, pause = self._ticks(), PAUSE
            try:
                await self.follow()
            except ExpiredError as error:
                self._fail(str(error))
                pause = self._pause_after(began)
            except ForbiddenError as error:
                self._fail(str(error), refused=True)
                self._refusals += 1
                pause = backed_off(PAUSE, self._refusals, cap=LONGEST_PAUSE)
            except GoneError:
                self._without_crd()
            except WentBackError:
                raise
            except Exception as error:
                self._note(error)
            await asyncio.sleep(pause)

    async def follow(self) -> None:
        """List all objects, then tell of each change; return if they are to be listed again.

        Raises KubeError: ExpiredError if the changes since the last one are no longer known.
        """
        listed = await self._list()
        changes = await self._begin()
        self._listener.on_listed(self._kind, self._namespace, int(self._version), listed)
        self._failed, self._refusals = False, 0
        while True:
            began = self._ticks()
            await self._tell(changes)
            # NB: what the API server sends may be lost on the way each time, though each watch begins well.
            if not self._is_listed() or self._ticks() - self._heard >= PATIENCE:
                return
            await asyncio.sleep(self._pause_after(began))
            changes = await self._begin()

    async def _list(self) -> dict[str, int]:
        """Tell of all objects; return their versions by UID."""
        self._listener.on_listing(self._kind, self._namespace)
        pages, listed = self._kube.pages(self._kind, self._namespace), dict[str, int]()
        while (page := await run_in(self._pool, next, pages, None)) is not None:
            self._version, self._heard = page["metadata"]["resourceVersion"], self._ticks()
            for raw in page["items"]:
                listed[raw["metadata"]["uid"]] = int(raw["metadata"]["resourceVersion"])
                self._hear("ADDED", raw)
        return listed

    async def _begin(self) -> Iterator[Raw]:
        """Begin to watch the changes after the last one."""
        return await run_in(self._pool, self._kube.changes, self._kind, self._namespace, self._version)

    async def _tell(self, changes: Iterator[Raw]) -> None:
        """Tell of the changes until the API server ends the watch, or something on the way cuts it."""
        try:
            while self._is_listed() and (change := await run_in(self._pool, next, changes, None)) is not None:
                self._version, self._heard = change["object"]["metadata"]["resourceVersion"], self._ticks()
                if change["type"] != "BOOKMARK":
                    self._hear(change["type"], change["object"])
            self._heard = self._ticks()
        except CutError as error:
            log.debug("%s in namespace %s: %s", self._kind, self._namespace, error)

    def _hear(self, event: str, raw: Raw) -> None:
        """Tell of one object. What cannot be handled is in the way of no other, at no start."""
        try:
            self._listener.on_event(self._kind, event, raw)
        except Exception:
            log.exception("%s %s/%s cannot be handled", self._kind, self._namespace, raw["metadata"].get("name"))

    def _is_listed(self) -> bool:
        return self._listener.is_listed(self._kind, self._namespace)

    def _without_crd(self) -> None:
        """There is no policy without its CRD, which is newer than the others."""
        if self._kind is ResourceKind.POLICY:
            self._listener.on_listing(self._kind, self._namespace)
            self._listener.on_listed(self._kind, self._namespace, 0, {})
        else:
            missing = f"the API server does not know {self._kind}: install the CRDs"
            self._fail(missing, refused=True)

    def _note(self, error: Exception) -> None:
        """Log the first of several failures in a row."""
        if not self._failed:
            text = "the watch of each %s in namespace %s begins again: %s"
            log.warning(text, self._kind, self._namespace, error, exc_info=not isinstance(error, KubeError))
        self._failed = True
        self._fail(str(error) or repr(error))

    def _fail(self, why: str, *, refused: bool = False) -> None:
        silent = self._ticks() - self._heard
        self._listener.on_failed(self._kind, self._namespace, why, refused=refused, silent=silent)

    def _pause_after(self, began: float) -> float:
        """Return how long to wait after a watch that has ended as it may: twice as long each time it ends at once."""
        self._short = self._short + 1 if self._ticks() - began < SHORT else 0
        if self._short == SPINS:
            log.warning("the API server ends each watch of %s in namespace %s at once", self._kind, self._namespace)
        return backed_off(1.0, self._short, cap=PAUSE) if self._short else 0.0
