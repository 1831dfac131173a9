"""History check: detects that the API server's state went back, as after an etcd restore under a running controller.

Resource versions then restart below those seen before. Everything known would count as newer forever, both here and in
the framework, whose watch asks for events after a version that is far in the future. Only a fresh process believes what
is listed. Where the restore raised the versions (`etcdutl snapshot restore --bump-revision`), the watch lists all
objects again, and those changed since the backup appear in older versions than the known ones.
"""

from concurrent.futures import Executor

from compaction_operator.controller.kube.cache import Cache
from compaction_operator.controller.kube.client import Kube
from compaction_operator.controller.kube.cluster import run_in
from compaction_operator.controller.kube.resources import Cleanup, Compaction, ResourceKind
from compaction_operator.controller.kube.sight import Sight
from compaction_operator.errors import OperatorError

KINDS = (ResourceKind.CLEANUP, ResourceKind.COMPACTION)


class WentBackError(OperatorError):
    """The API server shows an older state than before: no cached state is reliable."""


class History:
    """Compares the API server's state with the cache, as far as it is in sight.

    NB: both calls read from etcd, never from a stale cache.
    """

    def __init__(self, kube: Kube, cache: Cache, pool: Executor, sight: Sight) -> None:
        self._kube = kube
        self._cache = cache
        self._pool = pool
        self._sight = sight
        self._newest = dict.fromkeys(KINDS, 0)
        self._doubted: set[ResourceKind] = set()

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
        seen = max((one.meta.resource_version for one in self._cache.of_kind(kind).all()), default=0)
        newest = await run_in(self._pool, self._kube.newest, kind, places[0])
        before = self._newest[kind]
        if newest < max(seen, before):
            raise WentBackError(f"the API server is at resource version {newest}, but was at {max(seen, before)}")
        self._newest[kind] = newest
        if kind not in self._doubted:
            return []
        missing = [one for place in places for one in await self.missing(kind, place)]
        self._doubted.discard(kind)
        return missing

    async def missing(self, kind: ResourceKind, namespace: str) -> list[Compaction | Cleanup]:
        """Return the cached objects of a kind that no longer exist, in a namespace or, without one, in the cluster.

        Raises as `gone` does.
        """
        # Objects that change from here on may be listed in either version.
        every = self._cache.of_kind(kind).all()
        known = {one.meta.uid: one for one in every if namespace in ("", one.meta.namespace)}
        if not known:
            return []
        found = await run_in(self._pool, self._kube.list_all, kind, namespace)
        listed = {raw["metadata"]["uid"]: raw for raw in found}
        for uid in known.keys() & listed.keys():
            version = int(listed[uid]["metadata"]["resourceVersion"])
            if version < known[uid].meta.resource_version:
                raise WentBackError(f"{kind} {known[uid].key} is listed in an older version than seen before")
        return [one for uid, one in known.items() if uid not in listed]
