"""A reader: a transaction and its SHARED_READ locks, kept alive until it is released, as a Hive session does it."""

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from compaction_operator.api.config import Metastore
from compaction_operator.metastore import LockKind, LockWish, MetastoreError
from sandbox.harness.tables import HiveTable
from sandbox.metastore.admin import MetastoreAdmin

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 5.0


class Reader:
    """Reads until `release`, or as a context manager; the metastore knows it by `user`."""

    def __init__(self, uri: str, user: str) -> None:
        self._client = MetastoreAdmin(Metastore(uris=(uri,)), user=user)
        self._user = user
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, name=f"reader-{user}", daemon=True)
        self.txn = 0
        self.lock_ids: tuple[int, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.release()
            return
        with suppress(MetastoreError):  # the first error is the one to hear of
            self.release()

    def open(self) -> Self:
        """Open the transaction: from here on it sees one state of all tables."""
        self.txn = self._client.open_txn(user=self._user, agent=self._agent)
        self._thread.start()
        return self

    def lock(self, table: HiveTable, partitions: Sequence[str] = ()) -> Self:
        """Take a lock on the table, or on each of these partitions, as a query over them does."""
        for partition in partitions or (None,):
            wish = LockWish(
                database=table.database,
                table=table.name,
                partition=partition,
                kind=LockKind.SHARED_READ,
                agent=self._agent,
                txn=self.txn,
            )
            self.lock_ids += (self._client.lock(wish).lock_id,)
        return self

    def release(self) -> None:
        """Commit the transaction, which gives its locks back; once is enough."""
        if self._released.is_set():
            return
        self._released.set()
        self._thread.join()
        self._client.commit_txn(self.txn)
        self._client.close()

    @property
    def _agent(self) -> str:
        return f"query of {self._user}"

    def _keep_alive(self) -> None:
        while not self._released.wait(HEARTBEAT_SECONDS):
            try:
                self._client.heartbeat_txn(self.txn)
            except MetastoreError as error:
                log.warning("reader %s: %s", self._user, error)
