"""Snapshots older than a table's first base: on Hive 3.1 they can read nothing once the base exists (hazard H24)."""

import logging
import time

from compaction_operator.api.request import Reason
from compaction_operator.driver import interruption
from compaction_operator.driver.errors import JobError
from compaction_operator.metastore import MetastoreClient, TxnInfo

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 120.0
"""How long one driver waits for older transactions in total: about as long as for EXCLUSIVE locks."""
POLL_SECONDS = 2.0
NAMED = 5


class OlderSnapshots:
    """A watch on the metastore's transactions that may hold older snapshots; it can wait for their end.

    A reader opens its transaction before it takes its snapshot, and every write id of the plan was settled when the
    mark was taken. So a reader whose transaction is above the mark sees the new base.
    """

    def __init__(self, client: MetastoreClient) -> None:
        self._client = client
        self._patience = PATIENCE_SECONDS

    def mark(self) -> int:
        """Return the highest transaction that can have a snapshot older than the valid write ids of a plan.

        NB: it is correct only if the valid write ids were taken before it.
        """
        return self._client.open_transactions().high_water_mark

    def open(self, mark: int) -> list[TxnInfo]:
        """Return the transactions at or below the mark that are still open."""
        return [txn for txn in self._client.open_transactions().open if txn.txn <= mark]

    def wait(self, mark: int) -> None:
        """Wait until no transaction at or below the mark is open.

        Raises JobError (WaitingForOpenTransactions) naming them when PATIENCE_SECONDS are used up. All partitions of a
        driver share that time.
        """
        deadline = time.monotonic() + self._patience
        while left := self.open(mark):
            self._patience = max(0.0, deadline - time.monotonic())
            log.info("waiting for %s", _named(left))
            if not self._patience:
                raise JobError(Reason.WAITING_FOR_OPEN_TRANSACTIONS, f"older snapshots may be in use: {_named(left)}")
            interruption.pause(min(POLL_SECONDS, self._patience))


def _named(txns: list[TxnInfo]) -> str:
    names = ", ".join(f"transaction {txn.txn} of {txn.user}@{txn.host}" for txn in txns[:NAMED])
    return names if len(txns) <= NAMED else f"{names} and {len(txns) - NAMED} more"
