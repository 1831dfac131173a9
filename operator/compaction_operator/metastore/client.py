"""Client of a Hive metastore (3.1 or 4.0). Every call returns a complete answer or raises."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
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
"""Partitions per call: large enough to be fast, small enough for a metastore's memory."""

GAP_SECONDS = 3.0
"""How long to retry the list of transactions if the metastore hangs up. It is three times the length of a gap."""

GAP_PAUSE = 0.2

_ALL = -1
# Without this capability the metastore hides insert-only tables.
_CAPABILITIES = ttypes.ClientCapabilities([ttypes.ClientCapability.INSERT_ONLY_TABLES])
_LOCK_TYPES = {
    LockKind.SHARED_READ: (ttypes.LockType.SHARED_READ, ttypes.DataOperationType.SELECT),
    # NO_TXN is Hive's operation for DDL: the lock announces no written rows.
    LockKind.EXCLUSIVE: (ttypes.LockType.EXCLUSIVE, ttypes.DataOperationType.NO_TXN),
}


class MetastoreClient(CompactorCalls):
    """Thread-safe client of one metastore, as `Caller` describes it. Only `open_transactions` repeats its call."""

    def get_table(self, database: str, name: str) -> Table:
        """Return a table. Raises TableNotFound."""
        request = ttypes.GetTableRequest(dbName=database.lower(), tblName=name.lower(), capabilities=_CAPABILITIES)
        return self._call(
            lambda client: replies.table_of(hive4.get_table_req(client, request)), table=f"{database}.{name}"
        )

    def get_database(self, name: str) -> Mapping[str, str]:
        """Return the properties of a database. Raises TableNotFound if the database does not exist."""
        return self._call(lambda client: replies.database_of(client.get_database(name.lower())))

    def get_config_value(self, name: str, default: str) -> str:
        """Return a setting of the metastore that answers, or the default if it does not know the name.

        Raises MetastoreError for a name whose value the metastore withholds. It returns only hive.*, metastore.* and a
        few others.
        """
        return self._call(lambda client: str(client.get_config_value(name, default)))

    def table_locations(self, database: str) -> dict[str, str]:
        """Return the location of each table of a database, without views. Fetches them in batches.

        NB: for a database that does not exist, the metastore returns no tables instead of an error.
        """
        names: list[str] = self._call(lambda client: client.get_all_tables(database.lower()))
        return {table.name: table.location for table in self.get_tables(database, names) if table.location}

    def managed_tables(self) -> tuple[tuple[str, str], ...]:
        """Return database and name of each managed table of all databases, by one call: ACID tables are managed."""
        return self._call(lambda client: replies.table_names_of(client.get_table_meta("*", "*", ["MANAGED_TABLE"])))

    def external_tables(self) -> tuple[tuple[str, str], ...]:
        """Return database and name of each external table of all databases, by one call: most Hudi tables are."""
        return self._call(lambda client: replies.table_names_of(client.get_table_meta("*", "*", ["EXTERNAL_TABLE"])))

    def get_tables(self, database: str, names: Sequence[str]) -> tuple[Table, ...]:
        """Return those of the named tables that exist, views included. Fetches them in batches."""
        return tuple(table for batch in _batches(names) for table in self._tables(database, batch))

    def _tables(self, database: str, names: list[str]) -> list[Table]:
        request = ttypes.GetTablesRequest(dbName=database.lower(), tblNames=names, capabilities=_CAPABILITIES)
        return self._call(lambda client: replies.tables_of(hive4.get_table_objects_by_name_req(client, request)))

    def get_partition_names(self, database: str, name: str) -> tuple[str, ...]:
        """Return the names of all partitions of a table, () if it is unpartitioned. Raises TableNotFound."""
        names: list[str] = self._call(
            lambda client: client.get_partition_names(database.lower(), name.lower(), _ALL), table=f"{database}.{name}"
        )
        if not names:
            self.get_table(database, name)  # Hive 4 also returns no partitions for a table that does not exist
        return tuple(names)

    def get_partitions(self, database: str, name: str, names: Sequence[str] | None = None) -> tuple[Partition, ...]:
        """Return the named partitions, or all. Fetches them in batches.

        The result has the order of the names, without partitions that do not exist (any more). Raises TableNotFound.
        """
        wanted = self.get_partition_names(database, name) if names is None else names
        return tuple(partition for batch in _batches(wanted) for partition in self._partitions(database, name, batch))

    def valid_txns(self, *, without: Collection[int] = ()) -> ValidTxnList:
        """Return the transaction snapshot of a reader that starts now.

        Transactions in `without`, the caller's own, do not count as open.
        """
        txns = self._call(lambda client: replies.valid_txns_of(client.get_open_txns()))
        others = txns.open - frozenset(without)
        return replace(txns, open=others, min_open=min(others, default=None))

    def valid_write_ids(self, database: str, name: str, *, valid_txns: ValidTxnList | None = None) -> ValidWriteIdList:
        """Return a table's write ids for a reader that starts now, or for one with the given transaction snapshot.

        NB: for a table that does not exist, the metastore returns no write ids instead of an error.
        """
        snapshot = self.valid_txns() if valid_txns is None else valid_txns
        full_name = f"{database}.{name}".lower()
        return self.valid_write_ids_of([full_name], valid_txns=snapshot)[full_name]

    def valid_write_ids_of(self, tables: Sequence[str], *, valid_txns: ValidTxnList) -> Mapping[str, ValidWriteIdList]:
        """Return the write ids of each table, named `database.table` in lower case, for that snapshot; 500 a call.

        NB: the metastore compares these names case-sensitively and stores them in lower case.
        """
        return {name: found for batch in _batches(tables) for name, found in self._write_ids(batch, valid_txns).items()}

    def _write_ids(self, tables: list[str], valid_txns: ValidTxnList) -> dict[str, ValidWriteIdList]:
        request = ttypes.GetValidWriteIdsRequest(fullTableNames=tables, validTxnList=str(valid_txns))
        return self._call(lambda client: replies.valid_write_ids_of(client.get_valid_write_ids(request), tables))

    def lock(self, wish: LockWish) -> LockState:
        """Request a lock. If it is not acquired at once, it waits in the queue until `unlock`.

        Raises TransactionLost if its transaction is not open.
        NB: after MetastoreUnavailable the lock may still exist. `show_locks` shows it, identified by the agent.
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
        """Return whether a lock is acquired, and keep it alive. Raises LockLost if it no longer exists."""
        request = ttypes.CheckLockRequest(lockid=lock_id)
        return self._call(lambda client: replies.lock_state_of(client.check_lock(request))).acquired

    def heartbeat(self, lock_id: int) -> None:
        """Keep a lock without a transaction alive. Raises LockLost if it no longer exists."""
        self._call(lambda client: client.heartbeat(ttypes.HeartbeatRequest(lockid=lock_id)))

    def heartbeat_txn(self, txn: int) -> None:
        """Keep a transaction and its locks alive. Raises TransactionLost if it is no longer open."""
        self._call(lambda client: client.heartbeat(ttypes.HeartbeatRequest(txnid=txn)))

    def unlock(self, lock_id: int) -> None:
        """Release a lock, or stop waiting for it. A lock that no longer exists is not an error.

        Raises MetastoreError for an acquired lock of an open transaction: only the transaction's end releases it.
        """
        with suppress(LockLost):
            self._call(lambda client: client.unlock(ttypes.UnlockRequest(lockid=lock_id)))

    def show_locks(self, database: str, table: str) -> tuple[LockInfo, ...]:
        """Return all locks, held and waiting, on a table, on any of its partitions, and on its whole database.

        It fetches the locks of the database and filters them here, because the metastore filters by equality. A
        query for a table omits the locks on its database, and a query for a partition those on its table.
        """
        locks = self._locks(dbname=database.lower())
        return tuple(lock for lock in locks if lock.is_on(database, table))

    def all_locks(self) -> tuple[LockInfo, ...]:
        """Return all locks of the metastore, held and waiting."""
        return self._locks()

    def _locks(self, **fields: str) -> tuple[LockInfo, ...]:
        return self._call(lambda client: replies.locks_of(client.show_locks(ttypes.ShowLocksRequest(**fields))))

    def open_transactions(self) -> OpenTransactions:
        """Return the open transactions of the whole metastore and the highest allocated transaction id.

        NB: Hive 4 counts an allocated id that is not (yet) in its database as an open transaction. Such a transaction
        has no user, but the reply requires one, so the metastore hangs up (GetOpenTxnsListHandler, OpenTxn.toTxnInfo).
        This occurs while a client opens a transaction. If that takes longer than metastore.txn.opentxn.timeout (1 s),
        it also occurs for another such timeout afterwards. This call changes nothing, so it is retried for
        GAP_SECONDS.
        """
        until = time.monotonic() + GAP_SECONDS
        while True:
            try:
                return self._call(lambda client: replies.open_transactions_of(client.get_open_txns_info()))
            except HungUp:
                if time.monotonic() > until:
                    raise
                time.sleep(GAP_PAUSE)

    def _partitions(self, database: str, name: str, names: list[str]) -> list[Partition]:
        def request(client: Any) -> list[Partition]:
            return replies.partitions_of(client.get_partitions_by_names(database.lower(), name.lower(), names), names)

        try:
            return self._call(request, table=f"{database}.{name}")
        except MetastoreUnavailable:
            raise
        except MetastoreError:
            self.get_table(database, name)  # Hive 4 reports this by an exception that Hive 3 does not declare
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
