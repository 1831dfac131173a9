"""Sight: which namespaces the controller sees, where it watches each by itself instead of the whole cluster."""

import asyncio
import logging
from collections.abc import Collection

from compaction_operator.controller.kube.resources import ResourceKind

log = logging.getLogger(__name__)

NOT_LISTED = "not listed yet"
HINT = "nothing is done there until it exists and has the roles of the chart (docs/install.md, Rights)"


class Sight:
    """What the watches of single namespaces have found, by namespace and kind.

    A namespace is seen while all of its kinds are. What is known of another one may be out of date. Without
    `namespaces` the whole cluster is watched, and all of it is seen.
    """

    def __init__(self, namespaces: Collection[str] | None = None) -> None:
        self.namespaces = namespaces
        self._found: dict[tuple[str, ResourceKind], str] = {}
        self._told: set[str] = set()
        self._complete = asyncio.Event()
        self._note_complete()

    @property
    def whole(self) -> bool:
        """Whether the whole cluster is watched."""
        return self.namespaces is None

    def sees(self, namespace: str) -> bool:
        """Whether all that lies in a namespace is known now."""
        return self.whole or not any(self._found.get((namespace, kind), NOT_LISTED) for kind in ResourceKind)

    def places(self) -> list[str]:
        """Return the namespaces that are seen. An empty name stands for the whole cluster."""
        return [""] if self.namespaces is None else [name for name in self.namespaces if self.sees(name)]

    def hidden(self) -> dict[str, str]:
        """Return the namespaces that are watched, but not seen, each with the reason. Safe to call from any thread."""
        hidden = (name for name in self.namespaces or () if not self.sees(name))
        return {name: self._why(name) for name in hidden}

    def note(self, namespace: str, kind: ResourceKind, obstacle: str = "") -> bool:
        """Store that a kind was listed, or the obstacle; return whether the namespace is seen now, or not any more."""
        before = self.sees(namespace)
        self._found[namespace, kind] = obstacle
        if obstacle and namespace not in self._told:
            self._told.add(namespace)
            log.warning("namespace %s is not served now: %s; %s", namespace, obstacle, HINT)
        if self.sees(namespace) and namespace in self._told:
            self._told.remove(namespace)
            log.info("namespace %s is served again", namespace)
        self._note_complete()
        return before != self.sees(namespace)

    async def complete(self) -> None:
        """Wait until each kind of each namespace was listed, or could not be listed for a reason."""
        await self._complete.wait()

    def _why(self, namespace: str) -> str:
        found = (self._found.get((namespace, kind), "") for kind in ResourceKind)
        return next(filter(None, found), NOT_LISTED)

    def _note_complete(self) -> None:
        if len(self._found) == len(self.namespaces or ()) * len(ResourceKind):
            self._complete.set()
