"""What this project asks of a Hive metastore (3.1), as calls that either answer or raise."""

import socket
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Self, TypeVar

from hmsclient.genthrift.hive_metastore import ttypes
from thrift.Thrift import TException

from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.config import Metastore
from compaction_operator.metastore import replies
from compaction_operator.metastore.connection import ConnectionPool
from compaction_operator.metastore.errors import LockLost, MetastoreError, TableNotFound
from compaction_operator.metastore.locks import LockInfo, LockKind, LockState, LockWish, OpenTransactions
from compaction_operator.metastore.tables import Partition, Table

Answer = TypeVar("Answer")

BATCH = 500
"""Partitions asked for in one call: large enough to be quick, small enough for a metastore's memory."""

_ALL = -1
_GONE = (ttypes.NoSuchLockException, ttypes.NoSuchTxnException, ttypes.TxnAbortedException)
_LOCK_TYPES = {
    LockKind.SHARED_READ: (ttypes.LockType.SHARED_READ, ttypes.DataOperationType.SELECT),
    # NO_TXN is what Hive gives for DDL: the lock says nothing about rows written.
    LockKind.EXCLUSIVE: (ttypes.LockType.EXCLUSIVE, ttypes.DataOperationType.NO_TXN),
}


class MetastoreClient:
    """A client of one metastore, for many threads; close it, or use it as a context manager.

    Each method sends its call once. It raises MetastoreUnavailable when there is no answer within the timeout (the
    next call connects anew), and MetastoreError when the metastore refuses or its answer is not whole.
    """

    def __init__(self, settings: Metastore, *, user: str = "compaction-operator") -> None:
        self._connections = ConnectionPool(settings.uris[0], timeout=settings.timeout)
        self._user = user
        self._host = socket.gethostname()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def get_table(self, database: str, name: str) -> Table:
        """Return a table; raises TableNotFound."""
        # Without this capability the metastore does not show insert-only tables at all.
        capabilities = ttypes.ClientCapabilities([ttypes.ClientCapability.INSERT_ONLY_TABLES])
        request = ttypes.GetTableRequest(dbName=database.lower(), tblName=name.lower(), capabilities=capabilities)
        return replies.table_of(self._call(lambda client: client.get_table_req(request), table=f"{database}.{name}"))

    def get_partition_names(self, database: str, name: str) -> tuple[str, ...]:
        """Return the names of all partitions of a table (none for an unpartitioned one); raises TableNotFound."""
        names: list[str] = self._call(
            lambda client: client.get_partition_names(database.lower(), name.lower(), _ALL), table=f"{database}.{name}"
        )
        return tuple(names)

    def get_partitions(self, database: str, name: str, names: Sequence[str] | None = None) -> tuple[Partition, ...]:
        """Return the partitions of those names, or all; asks for them in batches.

        They come in the order of the names; those that do not exist (any more) are left out. Raises TableNotFound.
        """
        wanted = self.get_partition_names(database, name) if names is None else names
        return tuple(partition for batch in _batches(wanted) for partition in self._partitions(database, name, batch))

    def valid_txns(self) -> ValidTxnList:
        """Return which transactions a reader that starts now would see."""
        return replies.valid_txns_of(self._call(lambda client: client.get_open_txns()))

    def valid_write_ids(self, database: str, name: str) -> ValidWriteIdList:
        """Return which write ids of a table a reader that starts now would see.

        NB: a table that does not exist has, for the metastore, simply no write ids.
        """
        # The metastore compares names as text here, and keeps them in lower case.
        full_name = f"{database}.{name}".lower()
        request = ttypes.GetValidWriteIdsRequest(fullTableNames=[full_name], validTxnList=str(self.valid_txns()))
        return replies.valid_write_ids_of(self._call(lambda client: client.get_valid_write_ids(request)), full_name)

    def lock(self, wish: LockWish) -> LockState:
        """Ask for a lock; when it is not acquired at once it waits in the queue until `unlock`.

        Raises LockLost when its transaction is not open. NB: after MetastoreUnavailable the lock may exist all the
        same: `show_locks` tells, by the agent.
        """
        request = ttypes.LockRequest(
            component=[_component(wish)],
            txnid=wish.txn or None,
            user=self._user,
            hostname=self._host,
            agentInfo=wish.agent,
        )
        return replies.lock_state_of(self._call(lambda client: client.lock(request)))

    def check_lock(self, lock_id: int) -> bool:
        """Return whether a lock is acquired by now, and keep it alive; raises LockLost when it no longer exists."""
        request = ttypes.CheckLockRequest(lockid=lock_id)
        return replies.lock_state_of(self._call(lambda client: client.check_lock(request))).acquired

    def heartbeat(self, lock_id: int) -> None:
        """Keep a lock without a transaction alive; raises LockLost when it no longer exists."""
        request = ttypes.HeartbeatRequest(lockid=lock_id)
        self._call(lambda client: client.heartbeat(request))

    def unlock(self, lock_id: int) -> None:
        """Give a lock back, or stop waiting for it; a lock that no longer exists is no error.

        Raises MetastoreError for an acquired lock of an open transaction: only the transaction's end releases it.
        """
        request = ttypes.UnlockRequest(lockid=lock_id)
        try:
            self._call(lambda client: client.unlock(request))
        except LockLost:
            return

    def show_locks(self, database: str, table: str) -> tuple[LockInfo, ...]:
        """Return all locks, held and waiting, on a table, on any of its partitions, and on its whole database.

        Asks for the locks of the database and picks them here, since the metastore filters by equality: asked for a
        table it leaves out the locks on its database, asked for a partition those on its table.
        """
        request = ttypes.ShowLocksRequest(dbname=database.lower())
        reply = self._call(lambda client: client.show_locks(request))
        return replies.locks_of(reply, database=database, table=table)

    def open_transactions(self) -> OpenTransactions:
        """Return the open transactions of the whole metastore and the highest transaction id given out."""
        return replies.open_transactions_of(self._call(lambda client: client.get_open_txns_info()))

    def _partitions(self, database: str, name: str, names: list[str]) -> list[Partition]:
        reply = self._call(
            lambda client: client.get_partitions_by_names(database.lower(), name.lower(), names),
            table=f"{database}.{name}",
        )
        return replies.partitions_of(reply, names)

    def _call(self, request: Callable[[Any], Answer], *, table: str | None = None) -> Answer:
        try:
            return self._connections.call(request)
        except (ttypes.NoSuchObjectException, ttypes.UnknownTableException, ttypes.UnknownDBException) as error:
            missing = f"table {table} does not exist" if table else _message(error)
            raise TableNotFound(missing) from error
        except _GONE as error:
            raise LockLost(_message(error)) from error
        except TException as error:
            raise MetastoreError(f"{type(error).__name__}: {_message(error)}") from error


def _component(wish: LockWish) -> Any:
    type_, operation = _LOCK_TYPES[wish.kind]
    return ttypes.LockComponent(
        type=type_,
        level=ttypes.LockLevel.PARTITION if wish.partition else ttypes.LockLevel.TABLE,
        dbname=wish.database.lower(),
        tablename=wish.table.lower(),
        partitionname=wish.partition,
        operationType=operation,
        isTransactional=True,
    )


def _batches(names: Sequence[str]) -> Iterator[list[str]]:
    remaining = iter(names)
    while batch := list(islice(remaining, BATCH)):
        yield batch


def _message(error: TException) -> str:
    return getattr(error, "message", None) or str(error) or type(error).__name__
