"""A Hive session's transactions: opened, snapshot taken, locks waited for, kept alive, committed or aborted."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from types import TracebackType
from typing import NamedTuple, Self

from hmsclient.genthrift.hive_metastore import ttypes
from sandbox.metastore.admin import MetastoreAdmin

from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.metastore import LockLost, LockState, MetastoreError, TransactionLost
from compaction_operator.metastore.replies import lock_state_of

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 3.0
LOCK_PATIENCE_SECONDS = 180.0
LOCK_POLL_SECONDS = 0.1


class LockMode(IntEnum):
    """The metastore's lock types by their numbers; hmsclient knows the first three, Hive 4 has the last."""

    SHARED_READ = 1
    SHARED_WRITE = 2
    EXCLUSIVE = 3
    EXCL_WRITE = 4


class Lock(NamedTuple):
    """What a statement locks: a table, or a partition of it, and what for (a DataOperationType)."""

    mode: LockMode
    operation: int
    database: str
    table: str
    partition: str | None


class Aborted(Exception):  # noqa: N818 - the usual end of a write that came second
    """The metastore has aborted the transaction: another one changed the same partition first."""


class SessionClient(MetastoreAdmin):
    """A client that takes locks as Hive's sessions do: for writers too, and on several places in one request."""

    def lock_all(self, txn: int, locks: Sequence[Lock], *, user: str) -> LockState:
        """Ask for the locks; raises TransactionLost when the transaction has been aborted."""
        request = ttypes.LockRequest(
            component=[_component(lock) for lock in locks],
            txnid=txn,
            user=user,
            hostname="storm",
            agentInfo=f"query of {user}",
        )
        return lock_state_of(self._call(lambda client: client.lock(request)))


class Sessions:
    """Opens transactions at one metastore and keeps them alive; use it as a context manager."""

    def __init__(self, client: SessionClient) -> None:
        self.client = client
        self._open: set[int] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, name="heartbeats", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    @contextmanager
    def transaction(self, user: str) -> Iterator["Transaction"]:
        """Open a transaction; commit it at the end unless it has ended by then, abort it on an error."""
        transaction = Transaction(self.client, self.client.open_txn(user=user, agent=f"query of {user}"), user)
        self._open.add(transaction.txn)
        try:
            yield transaction
            transaction.commit()
        finally:
            self._open.discard(transaction.txn)
            with suppress(MetastoreError):  # of two errors the first one is the one to hear of
                transaction.abort()

    def _keep_alive(self) -> None:
        while not self._ended.wait(HEARTBEAT_SECONDS):
            for txn in tuple(self._open):
                try:
                    self.client.heartbeat_txn(txn)
                except MetastoreError as error:
                    log.warning("heartbeat of transaction %d: %s", txn, error)


class Transaction:
    """One transaction and its snapshot, which Hive takes right after opening it and before any lock (HIVE-24291)."""

    def __init__(self, client: SessionClient, txn: int, user: str) -> None:
        self.txn = txn
        self._client = client
        self._user = user
        self._ended = False
        self.txns: ValidTxnList = client.valid_txns(without=(txn,))

    def renew(self) -> None:
        """Take a new snapshot, as Hive 4 does for a write that had to wait for its locks.

        NB: otherwise two writes may delete one row. Hive's vectorised readers (3.1.3 and 4.0.1) then miss others of
        these deletes.
        """
        self.txns = self._client.valid_txns(without=(self.txn,))

    def write_ids(self, database: str, table: str) -> ValidWriteIdList:
        """Return the write ids of a table that the snapshot sees."""
        return self._client.valid_write_ids(database, table, valid_txns=self.txns)

    def write_id(self, database: str, table: str) -> int:
        """Return the transaction's own write id for a table."""
        return self._client.allocate_write_id(self.txn, database, table)

    def lock(self, locks: Sequence[Lock]) -> None:
        """Take locks in one request and wait until all are granted; raises Aborted or TimeoutError."""
        deadline = time.monotonic() + LOCK_PATIENCE_SECONDS
        try:
            state = self._client.lock_all(self.txn, locks, user=self._user)
            acquired = state.acquired
            while not acquired:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"transaction {self.txn} waited {LOCK_PATIENCE_SECONDS:g} s for {locks}")
                time.sleep(LOCK_POLL_SECONDS)
                acquired = self._client.check_lock(state.lock_id)
        except (LockLost, TransactionLost) as error:
            raise Aborted(str(error)) from error

    def commit(self) -> None:
        """Commit, once; raises Aborted when the metastore has aborted it (the first committer wins)."""
        if self._ended:
            return
        self._ended = True
        try:
            self._client.commit_txn(self.txn)
        except TransactionLost as error:
            raise Aborted(str(error)) from error

    def abort(self) -> None:
        """Abort, unless it has ended."""
        if not self._ended:
            self._ended = True
            self._client.abort_txn(self.txn)


def _component(lock: Lock) -> object:
    return ttypes.LockComponent(
        type=int(lock.mode),
        level=ttypes.LockLevel.PARTITION if lock.partition else ttypes.LockLevel.TABLE,
        dbname=lock.database,
        tablename=lock.table,
        partitionname=lock.partition,
        operationType=lock.operation,
        isTransactional=True,
    )
