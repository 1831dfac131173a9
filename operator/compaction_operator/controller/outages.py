"""The log of metastores that do not answer: conditions say so for each resource, but an idle controller has none."""

import logging

from compaction_operator.api.request import Reason
from compaction_operator.controller.answers import Trouble

log = logging.getLogger(__name__)


class Outages:
    """Logs once when a warehouse's metastore stops answering, and once when it answers again."""

    def __init__(self) -> None:
        self._silent: set[str] = set()

    def note(self, warehouse: str, trouble: Trouble) -> None:
        """Log the beginning of an outage if that is the trouble."""
        if trouble.reason == Reason.METASTORE_UNAVAILABLE and warehouse not in self._silent:
            self._silent.add(warehouse)
            log.warning("warehouse %s: its metastore does not answer: %s", warehouse, trouble.message)

    def over(self, warehouse: str) -> None:
        """Log the end of an outage, if there was one: the metastore has answered."""
        if warehouse in self._silent:
            self._silent.remove(warehouse)
            log.info("warehouse %s: its metastore answers again", warehouse)
