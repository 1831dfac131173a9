"""Held: deletions of compactions in namespaces out of sight, until all that they have left is known."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from compaction_operator.controller.kube.cache import Store
from compaction_operator.controller.kube.resources import Compaction, Key, ResourceKind
from compaction_operator.controller.kube.sight import Sight

News = tuple[str | None, Mapping[str, Any]]
"""A watch event's type and object."""


class Held:
    """News of compactions that would free their tables while their namespaces are out of sight.

    A journal that is not known yet may say that a table's result is still open.
    """

    def __init__(self, compactions: Store[Compaction], sight: Sight) -> None:
        self._compactions = compactions
        self._sight = sight
        self._news: defaultdict[str, dict[Key, list[News]]] = defaultdict(dict)

    def holds(self, event: str | None, raw: Mapping[str, Any]) -> bool:
        """Keep a deletion, and whatever comes after it under that name; return whether it is kept for `release`."""
        metadata = raw["metadata"]
        namespace = metadata["namespace"]
        if self._sight.sees(namespace):
            return False
        key = Key(ResourceKind.COMPACTION, namespace, metadata["name"])
        known, news = self._compactions.get(key), self._news[namespace]
        if key not in news and (known is None or (event != "DELETED" and known.meta.uid == metadata["uid"])):
            return False
        news.setdefault(key, []).append((event, raw))
        return True

    def release(self, namespace: str) -> list[News]:
        """Return what was kept of a namespace that is seen again, in the order in which it came."""
        return [one for news in self._news.pop(namespace, {}).values() for one in news]
