"""Store check: from the start until each store has answered, can warehouses be published to? Time is an argument."""

import logging
from collections.abc import Coroutine, Iterator
from typing import Any

from compaction_operator.api.config import OperatorConfig
from compaction_operator.api.stores import scheme_of
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.kube.cluster import Pools, run_in
from compaction_operator.controller.metrics import Metrics
from compaction_operator.controller.work import Work
from compaction_operator.logs import set_subject, subject

log = logging.getLogger(__name__)

PAUSE = 30.0
"""Seconds until a store that did not answer is asked again."""


class StoreCheck:
    """Asks the store of each configured folder on HDFS or S3: a wrong setting shows before the first compaction.

    NB: a mounted volume needs no check: without it the controller's pod does not start, and a call may hang.
    """

    def __init__(self, config: OperatorConfig, *, work: Work, pools: Pools, metrics: Metrics) -> None:
        self._work = work
        self._pools = pools
        self._metrics = metrics
        self._unknown = [
            (warehouse.name, folder)
            for warehouse in config.warehouses
            for folder in warehouse.locations
            if scheme_of(folder) != "file"
        ]
        self._due = 0.0

    def start_due(self, now: float) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the checks that are due now."""
        if self._unknown and self._due <= now:
            due, self._unknown = self._unknown, []
            self._due = now + PAUSE
            yield from (self._check(warehouse, folder) for warehouse, folder in due)

    def next_due(self) -> float | None:
        """Return the time of the next check, None if each store has answered."""
        return self._due if self._unknown else None

    async def _check(self, warehouse: str, folder: str) -> None:
        set_subject(subject(warehouse=warehouse))
        found = await run_in(self._pools.of_warehouse(warehouse).tables, self._work.check_store, warehouse, folder)
        if isinstance(found, Trouble):
            log.warning("warehouse %s: its store at %s does not answer: %s", warehouse, folder, found.message)
            self._metrics.not_answered(warehouse, "store")
            self._unknown.append((warehouse, folder))
            return
        if found is None:
            log.info("warehouse %s: its store at %s can be published to", warehouse, folder)
        else:
            log.error("warehouse %s: %s: %s", warehouse, folder, found)
        self._metrics.store_unfit.labels(warehouse, folder).set(found is not None)
