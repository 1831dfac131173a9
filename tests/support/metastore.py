"""A Hive metastore in memory, for tests without a server.

It models what this project asks of Hive 3.1 and 4.0:
- tables and partitions, with the properties of their databases and the metastore's settings;
- transactions: open, aborted or committed, below a high-water mark;
- a table's write ids: high watermark, open and aborted ones, as a transaction snapshot sees them;
- locks SHARED_READ and EXCLUSIVE, which wait for each other in the order of their requests, and heartbeats;
- the compaction queue of Hive 4, and of Hive 3.1 as far as clients can read it.

tests/support/metastore_contract.py runs against this fake and against real metastores of both generations. Not
modelled: timeouts, Hive's own Initiator, Worker and Cleaner, and its housekeeping, which forgets aborted transactions.
A test plays these parts: it changes the fake's fields, which hold the state, before a call or by `on` during one. A
snapshot that is older than write ids has the high watermark of Hive 3; on Hive 4 it may be lower, and sees the same.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import AGENT_PREFIX
from compaction_operator.metastore import (
    Generation,
    LockInfo,
    LockKind,
    LockLost,
    LockState,
    LockWish,
    MetastoreClient,
    MetastoreError,
    MetastoreUnavailable,
    OpenTransactions,
    Partition,
    QueueEntry,
    QueueJob,
    QueueState,
    Table,
    TableNotFound,
    TransactionLost,
    TxnInfo,
    lock_name,
)
from tests.support.calls import Recorded, call

USER, HOST = "compaction-operator", "fake"
OPEN, ABORTED, COMMITTED = "OPEN", "ABORTED", "COMMITTED"


@dataclass
class FakeMetastore(Recorded):
    """A metastore of one generation. Its calls are those of MetastoreClient, and of MetastoreAdmin for writers."""

    hive: Generation = Generation.HIVE3
    tables: dict[str, Table] = field(default_factory=dict)
    """By `database.name` in lower case."""
    external: set[str] = field(default_factory=set)
    """The tables that are external, by the same names."""
    partitions: dict[str, dict[str, Partition]] = field(default_factory=lambda: defaultdict(dict))
    """By table, then by their own name."""
    databases: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """The properties of each database."""
    settings: dict[str, str] = field(default_factory=dict)
    high_water_mark: int = 100
    txns: dict[int, TxnInfo] = field(default_factory=dict)
    """The transactions whose outcome the metastore remembers, in the state OPEN, ABORTED or COMMITTED."""
    write_ids: dict[str, ValidWriteIdList] = field(default_factory=dict)
    """By table: the write ids of transactions that are not in `txns`."""
    locks: tuple[LockInfo, ...] = ()
    """In the order of their requests."""
    queue: tuple[QueueEntry, ...] = ()
    """The compaction queue and its history, the oldest entry first."""
    registered: dict[int, int] = field(default_factory=dict)
    """By transaction: the lowest write id that a registered reader does not see."""
    _allocated: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))  # txn -> write id
    _locks_made: int = 0
    _spelled: dict[str, str] = field(default_factory=dict)

    # --- For tests

    def client(self) -> MetastoreClient:
        """Return itself as what it stands for."""
        return cast(MetastoreClient, self)

    def outcomes(self) -> dict[int, str]:
        """Return the state of each remembered transaction."""
        return {number: txn.state for number, txn in self.txns.items()}

    def alter_table(self, table: str, **changes: Any) -> None:
        """Change what the metastore says of a table."""
        self.tables[table] = replace(self.tables[table], **changes)

    def set_write_ids(self, text: str) -> None:
        """Set a table's write ids to those of `database.table:highWatermark:minOpen:open:aborted`."""
        write_ids = ValidWriteIdList.parse(text)
        self.write_ids[write_ids.table] = write_ids

    def set_transactions(self, mark: int, *opened: int | TxnInfo, aborted: Collection[int] = ()) -> None:
        """Set the high-water mark and the transactions that are not committed."""
        known = [one if isinstance(one, TxnInfo) else _txn(one, user="alice", host="desk") for one in opened]
        known += [replace(_txn(number), state=ABORTED) for number in aborted]
        self.high_water_mark, self.txns = mark, {one.txn: one for one in known}

    def end_txn(self, txn: int, state: str) -> None:
        """End a transaction as the metastore does, for example after its timeout: its locks go with it."""
        self.txns[txn] = replace(self.txns[txn], state=state)
        self.locks = tuple(lock for lock in self.locks if lock.txn != txn)

    def change_entries(self, *ids: int, **changes: Any) -> None:
        """Change entries of the compaction queue."""
        self.queue = tuple(replace(one, **changes) if one.queue_id in ids else one for one in self.queue)

    # --- Tables

    @call
    def generation(self) -> Generation:
        return self.hive

    @call
    def get_table(self, database: str, name: str, /) -> Table:
        return self.tables[self._known_table(database, name)]

    @call
    def get_partition_names(self, database: str, name: str, /) -> tuple[str, ...]:
        return tuple(self.partitions[self._known_table(database, name)])

    @call
    def get_partitions(self, database: str, name: str, names: Sequence[str], /) -> tuple[Partition, ...]:
        known = self.partitions[self._known_table(database, name)]
        return tuple(known[one] for one in names if one in known)

    @call
    def table_locations(self, database: str, /) -> dict[str, str]:
        wanted = [table for table in self.tables.values() if table.database == database.lower()]
        return {table.name: table.location for table in wanted if table.location}

    @call
    def managed_tables(self) -> tuple[tuple[str, str], ...]:
        return tuple((table.database, table.name) for name, table in self.tables.items() if name not in self.external)

    @call
    def external_tables(self) -> tuple[tuple[str, str], ...]:
        return tuple((table.database, table.name) for name, table in self.tables.items() if name in self.external)

    @call
    def get_tables(self, database: str, names: Sequence[str], /) -> tuple[Table, ...]:
        wanted = [_key(database, name) for name in names]
        return tuple(self.tables[key] for key in wanted if key in self.tables)

    @call
    def get_database(self, name: str, /) -> Mapping[str, str]:
        if name.lower() not in {*self.databases, *(table.database for table in self.tables.values())}:
            raise TableNotFound(f"database {name} does not exist")
        return self.databases.get(name.lower(), {})

    @call
    def get_config_value(self, name: str, default: str, /) -> str:
        return self.settings.get(name, default)

    # --- Transactions and write ids

    @call
    def open_txn(self, *, user: str, agent: str) -> int:
        return self._open(user=user, host=HOST, agent=None)

    @call
    def open_compaction_txn(self, *, agent: str) -> int:
        self._need_hive4()
        return self._open(user=USER, host=agent, agent=agent if agent.startswith(AGENT_PREFIX) else None)

    @call
    def allocate_write_id(self, txn: int, database: str, table: str, /) -> int:
        self._require_open(txn)
        allocated = self._allocated[_key(database, table)]
        return allocated.setdefault(txn, self._highest_write_id(_key(database, table)) + 1)

    @call
    def heartbeat_txn(self, txn: int, /) -> None:
        self._require_open(txn)

    @call
    def commit_txn(self, txn: int, /) -> None:
        if self._state(txn) == COMMITTED:
            return
        self._require_open(txn)
        self.end_txn(txn, COMMITTED)
        self.change_entries(*(one.queue_id for one in self.queue if one.txn == txn), committed=datetime.now(UTC))

    @call
    def abort_txn(self, txn: int, /) -> bool:
        if self._state(txn) == OPEN:
            self.end_txn(txn, ABORTED)
        return self._state(txn) == ABORTED

    @call
    def open_transactions(self) -> OpenTransactions:
        return OpenTransactions(self.high_water_mark, tuple(one for one in self.txns.values() if one.state == OPEN))

    @call
    def valid_txns(self, *, without: Collection[int] = ()) -> ValidTxnList:
        return self._snapshot(without)

    @call
    def valid_write_ids(
        self, database: str, name: str, /, *, valid_txns: ValidTxnList | None = None
    ) -> ValidWriteIdList:
        return self._write_ids(_key(database, name), valid_txns or self._snapshot())

    @call
    def valid_write_ids_of(
        self, tables: Sequence[str], /, *, valid_txns: ValidTxnList
    ) -> Mapping[str, ValidWriteIdList]:
        return {one: self._write_ids(one, valid_txns) for one in tables}

    # --- Locks

    @call
    def lock(self, wish: LockWish, /) -> LockState:
        if wish.txn:
            self._require_open(wish.txn)
        self._require_one_spelling(wish.partition or "")
        self._locks_made = max([self._locks_made, *(one.lock_id for one in self.locks)]) + 1
        requested = LockInfo(
            lock_id=self._locks_made,
            database=wish.database.lower(),
            table=wish.table.lower(),
            partition=lock_name(wish.partition) if wish.partition else None,
            state="WAITING",
            type=str(wish.kind),
            txn=wish.txn,
            user=USER,
            host=HOST,
            agent=wish.agent,
            last_heartbeat=None if wish.txn else datetime.now(UTC),
        )
        self.locks = (*self.locks, requested)
        return LockState(requested.lock_id, acquired=self._acquire(requested))

    @call
    def check_lock(self, lock_id: int, /) -> bool:
        return self._acquire(self._known_lock(lock_id))

    @call
    def heartbeat(self, lock_id: int, /) -> None:
        self._known_lock(lock_id)

    @call
    def unlock(self, lock_id: int, /) -> None:
        found = [lock for lock in self.locks if lock.lock_id == lock_id]
        if any(lock.txn and lock.state == "ACQUIRED" for lock in found):
            raise MetastoreError(f"TxnOpenException: lock {lock_id} is of an open transaction")
        self.locks = tuple(lock for lock in self.locks if lock not in found)

    @call
    def show_locks(self, database: str, table: str, /) -> tuple[LockInfo, ...]:
        return tuple(lock for lock in self.locks if lock.is_on(database, table))

    @call
    def all_locks(self) -> tuple[LockInfo, ...]:
        return self.locks

    # --- The compaction queue

    @call
    def compactions(self, database: str | None = None, table: str | None = None, /) -> tuple[QueueEntry, ...]:
        wanted = (database and database.lower(), table and table.lower())
        return tuple(one for one in self.queue if wanted[0] in (None, one.database) and wanted[1] in (None, one.table))

    @call
    def enqueue_compaction(
        self, *, database: str, table: str, partition: str | None, type: CompactionType, pool: str
    ) -> QueueEntry | None:
        self._need_hive4()
        place = (database.lower(), table.lower(), partition)
        if any((one.database, one.table, one.partition) == place and self._is_pending(one) for one in self.queue):
            return None
        entry = QueueEntry(
            queue_id=max((one.queue_id for one in self.queue), default=0) + 1,
            database=place[0],
            table=place[1],
            partition=partition,
            type=type,
            state=QueueState.INITIATED,
            pool=pool,
        )
        self.queue = (*self.queue, replace(entry, enqueued=datetime.now(UTC)))
        return entry

    @call
    def pool_compactions(self, pool: str, /) -> tuple[QueueEntry, ...]:
        self._need_hive4()
        return tuple(one for one in self.queue if one.pool == pool)

    @call
    def take_any_compaction(self, *, pool: str, worker: str) -> int | None:
        self._need_hive4()
        taken = self._take(pool, worker)
        return taken.queue_id if taken else None

    @call
    def set_job(self, queue_id: int, job: str, /) -> None:
        if not any(one.queue_id == queue_id and not one.is_ended for one in self.queue):
            raise MetastoreError("Internal error processing set_hadoop_jobid")
        self.change_entries(queue_id, job=job)

    @call
    def take_compaction(self, *, pool: str, worker: str) -> QueueJob | None:
        taken = self._take(pool, worker)
        if taken is None:
            return None
        assert taken.type
        return QueueJob(
            queue_id=taken.queue_id,
            database=taken.database,
            table=taken.table,
            partition=taken.partition,
            type=taken.type,
            worker=worker,
            run_as=USER,
        )

    @call
    def register_reader(self, job: QueueJob, txn: int, /) -> None:
        self._need_hive4()
        if not job.highest_write_id:
            raise ValueError(f"queue entry {job.queue_id}: the highest write id is unknown")
        self.registered[txn] = job.highest_write_id + 1

    @call
    def update_compaction(self, job: QueueJob, txn: int, /) -> None:
        if not job.highest_write_id:
            raise ValueError(f"queue entry {job.queue_id}: the highest write id is unknown")
        self._require_queued(job)
        self.change_entries(job.queue_id, txn=txn, highest_write_id=job.highest_write_id)

    @call
    def mark_compacted(self, job: QueueJob, /) -> None:
        self._require_queued(job)
        self.change_entries(job.queue_id, state=QueueState.READY_FOR_CLEANING, worker=None)

    @call
    def mark_refused(self, job: QueueJob, message: str, /) -> None:
        self._require_queued(job)
        self.change_entries(job.queue_id, state=QueueState.REFUSED, error=message)

    @call
    def mark_failed(self, job: QueueJob, message: str, /) -> None:
        if self._is_queued(job):
            self.change_entries(job.queue_id, state=QueueState.FAILED, error=message)

    @call
    def mark_cleaned(self, job: QueueJob, /) -> None:
        if not job.highest_write_id:
            raise ValueError(f"queue entry {job.queue_id}: no highest write id: all directories would count as clean")
        if self._is_queued(job):
            self.change_entries(job.queue_id, state=QueueState.SUCCEEDED)

    # --- How it is done

    def _take(self, pool: str, worker: str) -> QueueEntry | None:
        if not pool.strip():
            raise ValueError("an entry can only be taken from a named pool")
        initiated = [one for one in self.queue if (one.pool, one.state) == (pool, QueueState.INITIATED)]
        for taken in initiated[:1]:
            self.change_entries(taken.queue_id, state=QueueState.WORKING, worker=worker, started=datetime.now(UTC))
            return taken
        return None

    def _known_table(self, database: str, name: str) -> str:
        if (table := _key(database, name)) not in self.tables:
            raise TableNotFound(f"table {table} does not exist")
        return table

    def _open(self, *, user: str, host: str, agent: str | None) -> int:
        self.high_water_mark += 1
        self.txns[self.high_water_mark] = _txn(self.high_water_mark, user=user, host=host, agent=agent)
        return self.high_water_mark

    def _state(self, txn: int) -> str | None:
        return self.txns[txn].state if txn in self.txns else None

    def _require_open(self, txn: int) -> None:
        if (state := self._state(txn)) != OPEN:
            raise TransactionLost(f"transaction {txn} is {(state or 'unknown').lower()}")

    def _snapshot(self, without: Collection[int] = ()) -> ValidTxnList:
        opened = frozenset(txn for txn, state in self.outcomes().items() if state == OPEN and txn not in without)
        aborted = frozenset(txn for txn, state in self.outcomes().items() if state == ABORTED)
        return ValidTxnList(self.high_water_mark, opened, aborted, min(opened, default=None))

    def _highest_write_id(self, table: str) -> int:
        earlier = self.write_ids[table].high_watermark if table in self.write_ids else 0
        return max([earlier, *self._allocated[table].values()])

    def _write_ids(self, table: str, snapshot: ValidTxnList) -> ValidWriteIdList:
        earlier = self.write_ids.get(table, ValidWriteIdList(0, frozenset(), frozenset(), None, table))
        allocated = self._allocated[table].items()
        mark = max([earlier.high_watermark, *(one for txn, one in allocated if txn <= snapshot.high_watermark)])
        known = {txn: one for txn, one in allocated if one <= mark}
        aborted = {one for txn, one in known.items() if txn in snapshot.aborted}
        opened = {one for txn, one in known.items() if not snapshot.is_valid(txn)} - aborted | earlier.open
        lowest = min(opened, default=earlier.min_open)
        return ValidWriteIdList(mark, frozenset(opened), earlier.aborted | aborted, lowest, earlier.table)

    def _known_lock(self, lock_id: int) -> LockInfo:
        if not (found := [lock for lock in self.locks if lock.lock_id == lock_id]):
            raise LockLost(f"no lock {lock_id}")
        return found[0]

    def _require_one_spelling(self, partition: str) -> None:
        if self._spelled.setdefault(partition.lower(), partition) != partition and self.hive is Generation.HIVE4:
            raise NotImplementedError("Hive 4 tells partitions apart by the case of their names")

    def _acquire(self, lock: LockInfo) -> bool:
        """Return whether a lock is acquired, and let it be so if no earlier one is in its way."""
        if lock.state != "ACQUIRED" and not any(_conflict(one, lock) for one in self.locks):
            lock = replace(lock, state="ACQUIRED", acquired_at=datetime.now(UTC))
            self.locks = tuple(lock if one.lock_id == lock.lock_id else one for one in self.locks)
        return lock.state == "ACQUIRED"

    def _is_queued(self, job: QueueJob) -> bool:
        self._need_hive4()
        return any(one.queue_id == job.queue_id and not one.is_ended for one in self.queue)

    def _require_queued(self, job: QueueJob) -> None:
        if not self._is_queued(job):
            raise MetastoreError(f"no queue entry {job.queue_id}")

    def _is_pending(self, entry: QueueEntry) -> bool:
        """Whether the metastore refuses a second entry beside this one."""
        if entry.state is QueueState.READY_FOR_CLEANING:
            return entry.highest_write_id == self._highest_write_id(_key(entry.database, entry.table))
        return entry.is_open

    def _need_hive4(self) -> None:
        if self.hive is not Generation.HIVE4:
            raise MetastoreError(f"this call needs a Hive 4 metastore, but this one is {self.hive}")


def serving(*tables: Table, hive: Generation = Generation.HIVE3) -> FakeMetastore:
    """Return a metastore with these tables."""
    return FakeMetastore(hive, tables={f"{table.database}.{table.name}": table for table in tables})


def unavailable() -> FakeMetastore:
    """Return a metastore that answers no call."""
    metastore = FakeMetastore()
    metastore.fail(MetastoreUnavailable("connection refused"))
    return metastore


def _conflict(earlier: LockInfo, lock: LockInfo) -> bool:
    is_ahead = earlier.lock_id < lock.lock_id and earlier.is_on(lock.database, lock.table or "")
    overlaps = earlier.partition is None or lock.partition in (None, earlier.partition)
    return is_ahead and overlaps and LockKind.EXCLUSIVE in (earlier.type, lock.type)


def _key(database: str, name: str) -> str:
    return f"{database}.{name}".lower()


def _txn(number: int, *, user: str = USER, host: str = HOST, agent: str | None = None) -> TxnInfo:
    return TxnInfo(txn=number, state=OPEN, user=user, host=host, agent=agent, started=datetime.now(UTC))
