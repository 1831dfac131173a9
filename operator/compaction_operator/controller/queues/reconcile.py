"""Runner of the pools of Hive 4's compaction queue: look, decide, act, then take more. Idle without any pool."""

import logging
from collections.abc import Collection, Coroutine, Iterator, Sequence
from datetime import timedelta
from typing import Any

from compaction_operator.api.config import QueuePool, Warehouse
from compaction_operator.api.request import queue_compaction_name
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.kube.client import KubeError
from compaction_operator.controller.kube.cluster import run_in
from compaction_operator.controller.kube.resources import Compaction, Key, ResourceKind
from compaction_operator.controller.kube.times import parse_time
from compaction_operator.controller.queues.decide import QueueAction, decide
from compaction_operator.controller.queues.manifest import compaction_manifest
from compaction_operator.controller.services import Services
from compaction_operator.logs import set_subject, subject
from compaction_operator.metastore import QueueEntry

log = logging.getLogger(__name__)

RETRY = 15.0
"""Seconds until the next look after one that failed."""


class QueueRunner:
    """The pools of all warehouses that name one."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._pools = {one.name: (one, one.queue) for one in services.config.warehouses if one.queue is not None}
        self._due = dict.fromkeys(self._pools, 0.0)
        self._troubles: dict[str, str] = {}

    def start_due(self, now: float) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the looks that are due now."""
        for name in [name for name, due in self._due.items() if due <= now]:
            del self._due[name]
            yield self._run(*self._pools[name])

    def next_due(self) -> float | None:
        """Return the time of the next look, None if none is due."""
        return min(self._due.values(), default=None)

    async def _run(self, warehouse: Warehouse, queue: QueuePool) -> None:
        set_subject(subject(warehouse=warehouse.name))
        pause = RETRY
        try:
            if self._services.ownership.sees(queue.namespace) and await self._step(warehouse, queue):
                pause = queue.interval
        except KubeError as error:
            log.warning("pool %s of warehouse %s: %s", queue.pool, warehouse.name, error)
        except Exception:
            log.exception("pool %s of warehouse %s could not be looked at", queue.pool, warehouse.name)
        finally:
            self._due[warehouse.name] = self._services.ticks() + pause

    async def _step(self, warehouse: Warehouse, queue: QueuePool) -> bool:
        """Look and act once; return whether the metastore answered. Raises KubeError if it cannot create or delete.

        NB: an entry is taken only while there is a slot for it, and no earlier one waits for its TableCompaction: until
        then Hive's users see it as initiated, and one of Hive's own Workers might still take it.
        """
        held = await self._ask(warehouse, self._services.work.held_in_queue)
        if isinstance(held, Trouble):
            return False
        refused: KubeError | None = None
        waiting = 0
        for entry in held:
            try:
                waiting += await self._advance(warehouse, queue, entry)
            except KubeError as error:
                refused = error
        if refused:
            raise refused
        for _ in range(self._services.config.max_concurrent_jobs - len(self._services.cache.running) - waiting):
            taken = await self._ask(warehouse, self._services.work.take_from_queue)
            if taken is None or isinstance(taken, Trouble):
                break
            log.info("pool %s of warehouse %s: took queue %s", queue.pool, warehouse.name, taken)
            await self._advance(warehouse, queue, taken)
        await self._prune(warehouse, queue, {entry.queue_id for entry in held})
        return True

    async def _advance(self, warehouse: Warehouse, queue: QueuePool, entry: QueueEntry) -> bool:
        """Do the next step for an entry; return whether its compaction waits for a slot or will do so."""
        name = queue_compaction_name(warehouse.name, entry.queue_id)
        compaction = await self._compaction(queue, entry, name)
        decision = decide(entry, compaction, name=name)
        if decision.action in (QueueAction.REFUSE, QueueAction.FAIL):
            refused = decision.action is QueueAction.REFUSE
            await self._ask(
                warehouse, self._services.work.end_in_queue, entry, refused=refused, message=decision.message
            )
            return False
        if decision.action is QueueAction.CREATE:
            manifest = compaction_manifest(entry, queue, warehouse=warehouse.name, name=name)
            await self._services.cluster.create_compaction(manifest)
        if decision.action is not QueueAction.NONE:
            await self._ask(warehouse, self._services.work.name_in_queue, entry, name)
        return compaction is None or not compaction.attempt_running

    async def _compaction(self, queue: QueuePool, entry: QueueEntry, name: str) -> Compaction | None:
        """Return the TableCompaction of a name, None if there is none.

        NB: the watch may be late. So one that the entry names is looked up before it is taken for deleted.
        """
        known = self._services.cache.compactions.get(Key(ResourceKind.COMPACTION, queue.namespace, name))
        if known is not None or entry.job != name:
            return known
        return await self._services.cluster.find_compaction(queue.namespace, name)

    async def _ask(self, warehouse: Warehouse, work: Any, *args: Any, **options: Any) -> Any:
        """Make a call to the metastore, and count it if it failed. What it says is logged once."""
        pool = self._services.pools.of_warehouse(warehouse.name).tables
        answer = await run_in(pool, work, warehouse.name, *args, **options)
        trouble = answer.message if isinstance(answer, Trouble) else ""
        if trouble and self._troubles.get(warehouse.name) != trouble:
            log.error("warehouse %s: its compaction queue: %s", warehouse.name, trouble)
        self._troubles[warehouse.name] = trouble
        self._services.report(warehouse.name, "queue", answer if isinstance(answer, Trouble) else None)
        return answer

    async def _prune(self, warehouse: Warehouse, queue: QueuePool, held: Collection[int | None]) -> None:
        """Delete TableCompactions that ended long ago. One whose entry has not ended stays: it says how to end it."""
        oldest = self._services.clock() - timedelta(seconds=queue.ttl)
        for compaction in self._of(warehouse, queue):
            ended = compaction.status.completion_time
            if ended is not None and compaction.spec.queue_id not in held and parse_time(ended) < oldest:
                await self._services.cluster.discard_compaction(compaction)

    def _of(self, warehouse: Warehouse, queue: QueuePool) -> Sequence[Compaction]:
        every = self._services.cache.compactions.all()
        mine = (one for one in every if one.spec.queue_id is not None and one.spec.warehouse == warehouse.name)
        here = (one for one in mine if one.meta.namespace == queue.namespace)
        return [one for one in here if self._services.ownership.has(one)]
