"""What this project asks of a Hive metastore (3.1 or 4.0), as calls that either answer or raise."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from hmsclient.genthrift.hive_metastore import ttypes

from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.metastore import hive4_calls as hive4
from compaction_operator.metastore import replies
from compaction_operator.metastore.compactor import CompactorCalls
from compaction_operator.metastore.errors import HungUp, LockLost, MetastoreError, MetastoreUnavailable
from compaction_operator.metastore.locks import LockInfo, LockKind, LockState, LockWish, OpenTransactions
from compaction_operator.metastore.tables import Partition, Table

BATCH = 500
"""Partitions asked for in one call: large enough to be quick, small enough for a metastore's memory."""

GAP_SECONDS = 3.0
"""How long a metastore that hangs up at the list of transactions is asked again: three times as long as a gap lasts."""

GAP_PAUSE = 0.2

_ALL = -1
# Without this one the metastore does not show insert-only tables at all.
_CAPABILITIES = ttypes.ClientCapabilities([ttypes.ClientCapability.INSERT_ONLY_TABLES])
_LOCK_TYPES = {
    LockKind.SHARED_READ: (ttypes.LockType.SHARED_READ, ttypes.DataOperationType.SELECT),
    # NO_TXN is what Hive gives for DDL: the lock says nothing about rows written.
    LockKind.EXCLUSIVE: (ttypes.LockType.EXCLUSIVE, ttypes.DataOperationType.NO_TXN),
}


class MetastoreClient(CompactorCalls):
    """A client of one metastore, for many threads; close it, or use it as a context manager.

    Each method but open_transactions sends its call once. It raises MetastoreUnavailable when there is no answer within
    the timeout (the next call connects anew), and MetastoreError when the metastore refuses or its answer is not whole.
    """

    def get_table(self, database: str, name: str) -> Table:
        """Return a table; raises TableNotFound."""
        request = ttypes.GetTableRequest(dbName=database.lower(), tblName=name.lower(), capabilities=_CAPABILITIES)
        return self._call(
            lambda client: replies.table_of(hive4.get_table_req(client, request)), table=f"{database}.{name}"
        )

    def get_database(self, name: str) -> Mapping[str, str]:
        """Return the properties of a database; raises TableNotFound when there is none."""
        return self._call(lambda client: replies.database_of(client.get_database(name.lower())))

    def get_config_value(self, name: str, default: str) -> str:
        """Return a setting of the metastore that answers, or the default where it knows none of that name.

        Raises MetastoreError for a name whose value it does not hand out (only hive.*, metastore.* and a few others).
        """
        return self._call(lambda client: str(client.get_config_value(name, default)))

    def table_locations(self, database: str) -> dict[str, str]:
        """Return where each table of a database lies, views left out; asks for them in batches.

        NB: a database that does not exist has, for the metastore, simply no tables.
        """
        names: list[str] = self._call(lambda client: client.get_all_tables(database.lower()))
        return {name: place for batch in _batches(names) for name, place in self._locations(database, batch)}

    def _locations(self, database: str, names: list[str]) -> list[tuple[str, str]]:
        request = ttypes.GetTablesRequest(dbName=database.lower(), tblNames=names, capabilities=_CAPABILITIES)
        return self._call(lambda client: replies.locations_of(client.get_table_objects_by_name_req(request)))

    def get_partition_names(self, database: str, name: str) -> tuple[str, ...]:
        """Return the names of all partitions of a table (none for an unpartitioned one); raises TableNotFound."""
        names: list[str] = self._call(
            lambda client: client.get_partition_names(database.lower(), name.lower(), _ALL), table=f"{database}.{name}"
        )
        if not names:
            self.get_table(database, name)  # Hive 4 knows no partitions of a table that does not exist, either
        return tuple(names)

    def get_partitions(self, database: str, name: str, names: Sequence[str] | None = None) -> tuple[Partition, ...]:
        """Return the partitions of those names, or all; asks for them in batches.

        They come in the order of the names; those that do not exist (any more) are left out. Raises TableNotFound.
        """
        wanted = self.get_partition_names(database, name) if names is None else names
        return tuple(partition for batch in _batches(wanted) for partition in self._partitions(database, name, batch))

    def valid_txns(self, *, without: Collection[int] = ()) -> ValidTxnList:
        """Return which transactions a reader that starts now would see.

        Those of `without`, the caller's own, are not counted among the open ones.
        """
        txns = self._call(lambda client: replies.valid_txns_of(client.get_open_txns()))
        others = txns.open - frozenset(without)
        return replace(txns, open=others, min_open=min(others, default=None))

    def valid_write_ids(self, database: str, name: str, *, valid_txns: ValidTxnList | None = None) -> ValidWriteIdList:
        """Return which write ids of a table a reader that starts now, or one with that snapshot, would see.

        NB: a table that does not exist has, for the metastore, simply no write ids.
        """
        # The metastore compares names as text here, and keeps them in lower case.
        full_name = f"{database}.{name}".lower()
        snapshot = self.valid_txns() if valid_txns is None else valid_txns
        request = ttypes.GetValidWriteIdsRequest(fullTableNames=[full_name], validTxnList=str(snapshot))
        return self._call(lambda client: replies.valid_write_ids_of(client.get_valid_write_ids(request), full_name))

    def lock(self, wish: LockWish) -> LockState:
        """Ask for a lock; when it is not acquired at once it waits in the queue until `unlock`.

        Raises TransactionLost when its transaction is not open. NB: after MetastoreUnavailable the lock may exist all
        the same: `show_locks` tells, by the agent.
        """
        request = ttypes.LockRequest(
            component=[_component(wish)],
            txnid=wish.txn or None,
            user=self._user,
            hostname=self._host,
            agentInfo=wish.agent,
        )
        return self._call(lambda client: replies.lock_state_of(client.lock(request)))

    def check_lock(self, lock_id: int) -> bool:
        """Return whether a lock is acquired by now, and keep it alive; raises LockLost when it no longer exists."""
        request = ttypes.CheckLockRequest(lockid=lock_id)
        return self._call(lambda client: replies.lock_state_of(client.check_lock(request))).acquired

    def heartbeat(self, lock_id: int) -> None:
        """Keep a lock without a transaction alive; raises LockLost when it no longer exists."""
        request = ttypes.HeartbeatRequest(lockid=lock_id)
        self._call(lambda client: client.heartbeat(request))

    def heartbeat_txn(self, txn: int) -> None:
        """Keep a transaction and its locks alive; raises TransactionLost when it is no longer open."""
        request = ttypes.HeartbeatRequest(txnid=txn)
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
        locks = self._locks(ttypes.ShowLocksRequest(dbname=database.lower()))
        return tuple(lock for lock in locks if lock.is_on(database, table))

    def all_locks(self) -> tuple[LockInfo, ...]:
        """Return all locks of the metastore, held and waiting."""
        return self._locks(ttypes.ShowLocksRequest())

    def open_transactions(self) -> OpenTransactions:
        """Return the open transactions of the whole metastore and the highest transaction id given out.

        NB: Hive 4 counts an id that was given out but is not in its database (yet) as an open transaction. It has no
        user for it, which this answer must have, and hangs up (GetOpenTxnsListHandler, OpenTxn.toTxnInfo). That is so
        while somebody opens a transaction, and for metastore.txn.opentxn.timeout, 1 s, after an opening that took
        longer than that. So this one call, which changes nothing, is sent again for GAP_SECONDS.
        """
        until = time.monotonic() + GAP_SECONDS
        while True:
            try:
                return self._call(lambda client: replies.open_transactions_of(client.get_open_txns_info()))
            except HungUp:
                if time.monotonic() > until:
                    raise
                time.sleep(GAP_PAUSE)

    def _locks(self, request: ttypes.ShowLocksRequest) -> tuple[LockInfo, ...]:
        return self._call(lambda client: replies.locks_of(client.show_locks(request)))

    def _partitions(self, database: str, name: str, names: list[str]) -> list[Partition]:
        def request(client: Any) -> list[Partition]:
            return replies.partitions_of(client.get_partitions_by_names(database.lower(), name.lower(), names), names)

        try:
            return self._call(request, table=f"{database}.{name}")
        except MetastoreUnavailable:
            raise
        except MetastoreError:
            self.get_table(database, name)  # Hive 4 says so in an exception that Hive 3 does not declare
            raise


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
