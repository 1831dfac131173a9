"""History check: detects that the API server's state went back, as after an etcd restore under a running controller.

Resource versions then restart below those seen before. Everything known would count as newer forever, both here and in
the framework, whose watch asks for events after a version that is far in the future. Only a fresh process believes what
is listed. Where the restore raised the versions (`etcdutl snapshot restore --bump-revision`), the watch lists all
objects again, and those changed since the backup appear in older versions than the known ones.
"""

from collections.abc import Mapping
from concurrent.futures import Executor

from compaction_operator.controller.kube.cache import Cache
from compaction_operator.controller.kube.client import Kube
from compaction_operator.controller.kube.cluster import run_in
from compaction_operator.controller.kube.resources import Cleanup, Compaction, ResourceKind
from compaction_operator.controller.kube.sight import Sight
from compaction_operator.errors import OperatorError

KINDS = (ResourceKind.CLEANUP, ResourceKind.COMPACTION)
Known = Mapping[str, Compaction | Cleanup]


class WentBackError(OperatorError):
    """The API server shows an older state than before: no cached state is reliable."""


class History:
    """Compares the API server's state with the cache, as far as it is in sight.

    NB: what it compares comes from etcd, never from a stale cache.
    """

    def __init__(self, kube: Kube, cache: Cache, pool: Executor, sight: Sight) -> None:
        self._kube = kube
        self._cache = cache
        self._pool = pool
        self._sight = sight
        self._newest = dict.fromkeys(KINDS, 0)
        self._doubted: set[ResourceKind] = set()
        self._lists: dict[tuple[ResourceKind, str], tuple[Known, int]] = {}

    def doubt(self, kind: ResourceKind) -> None:
        """Schedule a comparison of a kind's objects: the watch listed them again, or one differed from the cache."""
        self._doubted.add(kind)

    async def gone(self) -> list[Compaction | Cleanup]:
        """Return the cached objects that no longer exist, where the watch may have missed the deletion.

        Raises WentBackError, and KubeError if the API server does not answer.
        """
        return [one for kind in KINDS for one in await self._gone(kind)]

    async def _gone(self, kind: ResourceKind) -> list[Compaction | Cleanup]:
        places = self._sight.places()
        if not places:
            return []
        before = self._before(kind)
        self._go_on(kind, await run_in(self._pool, self._kube.newest, kind, places[0]), before=before)
        if kind not in self._doubted:
            return []
        missing = [one for place in places for one in await self._missing(kind, place)]
        self._doubted.discard(kind)
        return missing

    async def _missing(self, kind: ResourceKind, namespace: str) -> list[Compaction | Cleanup]:
        """Return the cached objects of a kind that no longer exist, in a namespace or, without one, in the cluster."""
        # Objects that change from here on may be listed in either version.
        if not (known := self._known(kind, namespace)):
            return []
        found = await run_in(self._pool, self._kube.list_all, kind, namespace)
        return _gone_from(known, {raw["metadata"]["uid"]: int(raw["metadata"]["resourceVersion"]) for raw in found})

    def begin(self, kind: ResourceKind, namespace: str) -> None:
        """Remember what is known of a kind in a namespace: it is listed from here on."""
        self._lists[kind, namespace] = self._known(kind, namespace), self._before(kind)

    def end(
        self, kind: ResourceKind, namespace: str, version: int, listed: Mapping[str, int]
    ) -> list[Compaction | Cleanup]:
        """Return what was known and is not `listed`: the versions by UID of all objects at the list's `version`.

        Raises WentBackError: no object is missing for the sole reason that it was made after a backup.
        """
        known, before = self._lists.pop((kind, namespace))
        self._go_on(kind, version, before=before)
        return _gone_from(known, listed)

    def _before(self, kind: ResourceKind) -> int:
        """Return the newest known version. NB: ask for it before the API server: other lists may overtake that one."""
        known = (one.meta.resource_version for one in self._cache.of_kind(kind).all())
        return max(self._newest[kind], max(known, default=0))

    def _known(self, kind: ResourceKind, namespace: str) -> Known:
        every = self._cache.of_kind(kind).all()
        return {one.meta.uid: one for one in every if namespace in ("", one.meta.namespace)}

    def _go_on(self, kind: ResourceKind, newest: int, *, before: int) -> None:
        """Note the version of a list. Raises WentBackError if a newer one was there before."""
        if newest < before:
            raise WentBackError(f"the API server is at resource version {newest}, but was at {before}")
        self._newest[kind] = max(newest, self._newest[kind])


def _gone_from(known: Known, listed: Mapping[str, int]) -> list[Compaction | Cleanup]:
    for uid in known.keys() & listed.keys():
        if listed[uid] < known[uid].meta.resource_version:
            kind, key = known[uid].kind, known[uid].key
            raise WentBackError(f"{kind} {key} is listed in an older version than seen before")
    return [one for uid, one in known.items() if uid not in listed]
