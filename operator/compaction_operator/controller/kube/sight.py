"""Sight: which namespaces the controller sees, where it watches each by itself instead of the whole cluster."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection

from compaction_operator.controller.kube.resources import ResourceKind

log = logging.getLogger(__name__)

NOT_LISTED = "not listed yet"
HINT = "nothing is done there until it exists and has the roles of the chart (docs/install.md, Rights)"
PATIENCE = 120.0
"""Seconds for which a watch may hear nothing, or fail, for any reason until what is known by it is out of date."""
AT_START = 30.0
"""Seconds for which a watch must have been refused until the controller starts without its namespace: a refusal may be
the API server's own start. What runs in a namespace that was never listed is unknown."""
REMIND = 600.0
"""Seconds between two lines of the log about a namespace that is not served."""


class Sight:
    """What the watches of single namespaces have found, by namespace and kind.

    A namespace is seen while all of its kinds are listed and watched. What is known of another one may be out of date.
    Once it is hidden, all of its kinds must be listed again. Without `namespaces` the whole cluster is watched, and all
    of it is seen. `ticks` is a monotonic clock in seconds.
    """

    def __init__(
        self, namespaces: Collection[str] | None = None, *, ticks: Callable[[], float] = time.monotonic
    ) -> None:
        self.namespaces = namespaces
        self._ticks = ticks
        self._listed: set[tuple[str, ResourceKind]] = set()
        self._failing: dict[tuple[str, ResourceKind], float] = {}
        self._refused: dict[tuple[str, ResourceKind], float] = {}
        self._whys: dict[tuple[str, ResourceKind], str] = {}
        self._answered: set[tuple[str, ResourceKind]] = set()
        self._told: dict[str, float] = {}
        self._complete = asyncio.Event()
        self._note_complete()

    @property
    def whole(self) -> bool:
        """Whether the whole cluster is watched."""
        return self.namespaces is None

    def sees(self, namespace: str) -> bool:
        """Whether all that lies in a namespace is known now. Safe to call from any thread."""
        return self.whole or all(self.is_listed(namespace, kind) for kind in ResourceKind)

    def is_listed(self, namespace: str, kind: ResourceKind) -> bool:
        """Whether a kind need not be listed again."""
        return (namespace, kind) in self._listed

    def places(self) -> list[str]:
        """Return the namespaces that are seen. An empty name stands for the whole cluster."""
        return [""] if self.namespaces is None else [name for name in self.namespaces if self.sees(name)]

    def hidden(self) -> dict[str, str]:
        """Return the namespaces that are watched, but not seen, each with the reason. Safe to call from any thread."""
        hidden = (name for name in self.namespaces or () if not self.sees(name))
        return {name: self._why(name) for name in hidden}

    def listed(self, namespace: str, kind: ResourceKind) -> bool:
        """Store that all objects of a kind are known and watched; return whether the namespace is seen by that."""
        place, before = (namespace, kind), self.sees(namespace)
        self._listed.add(place)
        self._failing.pop(place, None)
        self._refused.pop(place, None)
        self._whys.pop(place, None)
        self._answer(place)
        after = self.sees(namespace)
        if after and self._told.pop(namespace, None) is not None:
            log.info("namespace %s is served again", namespace)
        return before != after

    def failed(self, namespace: str, kind: ResourceKind, why: str, *, refused: bool, silent: float = 0.0) -> bool:
        """Store that a watch failed, which has heard nothing for some seconds; return whether that hides the namespace.

        A refusal does so at once.
        """
        place, before, now = (namespace, kind), self.sees(namespace), self._ticks()
        lasts = now - self._failing.setdefault(place, now if refused else now - silent)
        self._whys[place] = why
        if refused:
            self._refused.setdefault(place, now)
        else:
            self._refused.pop(place, None)
        if lasts >= PATIENCE or now - self._refused.get(place, now) >= AT_START:
            self._answer(place)
        counts = refused or lasts >= PATIENCE
        if counts:
            self._tell(namespace, why, now)
        if not before:
            self._listed.discard(place)
        elif counts:
            self._listed.difference_update((namespace, one) for one in ResourceKind)
        return before != self.sees(namespace)

    async def complete(self) -> None:
        """Wait until each kind of each namespace was listed, or could not be listed for long enough."""
        await self._complete.wait()

    def _why(self, namespace: str) -> str:
        found = (self._whys.get((namespace, kind)) for kind in ResourceKind)
        return next(filter(None, found), NOT_LISTED)

    def _tell(self, namespace: str, why: str, now: float) -> None:
        told = self._told.get(namespace)
        if told is None or now - told >= REMIND:
            self._told[namespace] = now
            log.warning("namespace %s is not served now: %s; %s", namespace, why, HINT)

    def _answer(self, place: tuple[str, ResourceKind]) -> None:
        self._answered.add(place)
        self._note_complete()

    def _note_complete(self) -> None:
        if len(self._answered) == len(self.namespaces or ()) * len(ResourceKind):
            self._complete.set()
