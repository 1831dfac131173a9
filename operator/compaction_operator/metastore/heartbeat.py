"""A thread that keeps a lock alive, and says when it is lost."""

import logging
import threading
import time
from typing import Protocol

from compaction_operator.metastore.errors import LockLost, MetastoreError

log = logging.getLogger(__name__)

DEFAULT_TIMEOUT = 300.0
"""Hive's default for hive.txn.timeout in seconds: after this long without a heartbeat a lock may be taken away."""


class LockKeeper(Protocol):
    """What a heartbeat needs of a metastore client."""

    def heartbeat(self, lock_id: int) -> None:
        """Keep a lock alive; raises LockLost or another MetastoreError."""


class Heartbeat:
    """Heartbeats a lock at every interval (seconds) from construction until `stop`.

    An error of the metastore is not a loss: it is asked again at the next interval. But a lock that was not
    confirmed for `timeout` seconds counts as lost, since the metastore may have given it to someone else.
    """

    def __init__(self, client: LockKeeper, lock_id: int, *, interval: float, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.lost = threading.Event()
        self._client = client
        self._lock_id = lock_id
        self._interval = interval
        self._timeout = timeout
        self._confirmed = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"heartbeat-{lock_id}", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise LockLost when the lock is gone, or was not confirmed within the timeout."""
        silence = time.monotonic() - self._confirmed
        if silence > self._timeout:
            self.lost.set()
            raise LockLost(f"lock {self._lock_id} was not confirmed by the metastore for {silence:.0f} s")
        if self.lost.is_set():
            raise LockLost(f"lock {self._lock_id} no longer exists in the metastore")

    def stop(self) -> None:
        """End the thread; the lock itself stays as it is."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval) and not self.lost.is_set():
            self._beat()

    def _beat(self) -> None:
        asked = time.monotonic()
        try:
            self._client.heartbeat(self._lock_id)
            self._confirmed = asked
        except LockLost as error:
            log.warning("lock %d is lost: %s", self._lock_id, error)
            self.lost.set()
        except MetastoreError as error:
            log.warning("heartbeat of lock %d failed, trying again in %g s: %s", self._lock_id, self._interval, error)
