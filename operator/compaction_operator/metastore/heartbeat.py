"""Heartbeat thread: keeps a lock or a transaction alive and reports its loss."""

import logging
import threading
from typing import ClassVar

from compaction_operator.clock import boot_seconds
from compaction_operator.metastore.errors import LockLost, MetastoreError, TransactionLost
from compaction_operator.metastore.interface import HeartbeatCalls

log = logging.getLogger(__name__)

DEFAULT_TIMEOUT = 300.0
"""Hive's default for hive.txn.timeout in seconds. The metastore may drop a lock after this time without heartbeat."""


class Heartbeat:
    """Sends a heartbeat for a lock every `interval` seconds, from construction until `stop` or the process's end.

    An error of the metastore is not a loss: the next interval tries again. However, a lock that was not confirmed for
    `timeout` seconds counts as lost, because the metastore may have granted it to another client. This is how a process
    detects that it, or its machine, was suspended for too long.
    """

    _what: ClassVar[str] = "lock"
    _loss: ClassVar[type[LockLost | TransactionLost]] = LockLost

    def __init__(
        self, client: HeartbeatCalls, number: int, *, interval: float, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        self.lost = threading.Event()
        self._client = client
        self._number = number
        self._interval = interval
        self._timeout = timeout
        self._confirmed = boot_seconds()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"heartbeat-{self._what}-{number}", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise LockLost (or TransactionLost) if it is gone, or was not confirmed within the timeout."""
        silence = boot_seconds() - self._confirmed
        if silence > self._timeout:
            self.lost.set()
            raise self._loss(f"{self._what} {self._number} was not confirmed by the metastore for {silence:.0f} s")
        if self.lost.is_set():
            raise self._loss(f"{self._what} {self._number} no longer exists in the metastore")

    def stop(self) -> None:
        """End the thread. The lock or transaction stays unchanged."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval) and not self.lost.is_set():
            self._beat()

    def _beat(self) -> None:
        asked = boot_seconds()
        try:
            self._ask()
            self._confirmed = asked
        except (LockLost, TransactionLost) as error:
            log.warning("%s %d is lost: %s", self._what, self._number, error)
            self.lost.set()
        except MetastoreError as error:
            again = f"trying again in {self._interval:g} s"
            log.warning("heartbeat of %s %d failed, %s: %s", self._what, self._number, again, error)

    def _ask(self) -> None:
        self._client.heartbeat(self._number)


class TransactionHeartbeat(Heartbeat):
    """Heartbeat of a transaction. It also keeps the transaction's locks alive."""

    _what = "transaction"
    _loss = TransactionLost

    def _ask(self) -> None:
        self._client.heartbeat_txn(self._number)
