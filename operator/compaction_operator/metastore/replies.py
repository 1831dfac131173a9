"""Conversion of the metastore's Thrift replies to this project's values. Pure; a missing field is an error.

NB: Thrift leaves a field that was not sent as None. This module must never treat that as an empty value: if a missing
list of locks counted as "no locks", a cleanup would delete directories that a reader still uses.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hmsclient.genthrift.hive_metastore import ttypes

from compaction_operator.acid.names import INT64_MAX
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import CompactionType
from compaction_operator.api.request import AGENT_PREFIX
from compaction_operator.metastore.compaction_queue import QueueEntry, QueueJob, QueueState
from compaction_operator.metastore.errors import LockLost, MetastoreError
from compaction_operator.metastore.locks import LockInfo, LockState, OpenTransactions, TxnInfo
from compaction_operator.metastore.partition_specs import lock_name, values_of
from compaction_operator.metastore.tables import Partition, Table

COMPACTION_TYPES = {
    ttypes.CompactionType.MINOR: CompactionType.MINOR,
    ttypes.CompactionType.MAJOR: CompactionType.MAJOR,
}
_OTHER_TYPES = {3: "REBALANCE", 4: "ABORT_TXN_CLEANUP", 5: "SMART_OPTIMIZE"}  # of Hive 4; the last one of 4.1
# Hive 3 says "attempted".
_QUEUE_STATES = {state.value: state for state in QueueState} | {"attempted": QueueState.DID_NOT_INITIATE}


def table_of(reply: Any) -> Table:
    """Return the table of a get_table_req reply."""
    return _table(required(reply, "table", "get_table_req"))


def tables_of(reply: Any) -> list[Table]:
    """Return the tables of a get_table_objects_by_name_req reply."""
    return [_table(table) for table in required(reply, "tables", "get_table_objects_by_name_req")]


def table_names_of(reply: Any) -> tuple[tuple[str, str], ...]:
    """Return database and name of each table of a get_table_meta reply, in lower case."""
    if not isinstance(reply, list):
        raise MetastoreError("the metastore's reply to get_table_meta has no list")
    return tuple(
        (required(one, "dbName", "table").lower(), required(one, "tableName", "table").lower()) for one in reply
    )


def _table(table: Any) -> Table:
    descriptor = required(table, "sd", "table")
    return Table(
        database=required(table, "dbName", "table").lower(),
        name=required(table, "tableName", "table").lower(),
        location=descriptor.location or "",
        create_time=required(table, "createTime", "table"),
        input_format=descriptor.inputFormat or "",
        serde=(descriptor.serdeInfo and descriptor.serdeInfo.serializationLib) or "",
        columns=tuple((column.name, column.type) for column in descriptor.cols or ()),
        partition_keys=tuple(column.name for column in table.partitionKeys or ()),
        parameters=dict(table.parameters or {}),
        table_id=table.id,
    )


def database_of(reply: Any) -> dict[str, str]:
    """Return the properties of a get_database reply. NB: the field is None if the database has no properties."""
    required(reply, "name", "get_database")
    return dict(reply.parameters or {})


def partitions_of(reply: Any, names: Iterable[str]) -> list[Partition]:
    """Return the partitions of a get_partitions_by_names reply in the order of the requested names."""
    if not isinstance(reply, list):
        raise MetastoreError("the metastore's reply to get_partitions_by_names has no list")
    found = {tuple(required(partition, "values", "partition")): partition for partition in reply}
    wanted = {values_of(name): name for name in names}
    if strange := found.keys() - wanted.keys():
        raise MetastoreError(f"the metastore returned partitions that were not requested: {sorted(strange)[:3]}")
    return [_partition(name, values, found[values]) for values, name in wanted.items() if values in found]


def _partition(name: str, values: tuple[str, ...], partition: Any) -> Partition:
    location = required(required(partition, "sd", "partition"), "location", "partition")
    return Partition(name, values, location, required(partition, "createTime", "partition"))


def lock_state_of(reply: Any) -> LockState:
    """Return the state in a `lock` or `check_lock` reply. Raises LockLost if the lock was aborted or refused."""
    lock_id, state = required(reply, "lockid", "lock"), required(reply, "state", "lock")
    if state not in (ttypes.LockState.ACQUIRED, ttypes.LockState.WAITING):
        raise LockLost(f"lock {lock_id} is {_name(ttypes.LockState, state)}")
    return LockState(lock_id, acquired=state == ttypes.LockState.ACQUIRED)


def locks_of(reply: Any) -> tuple[LockInfo, ...]:
    """Return the locks of a show_locks reply.

    Raises MetastoreError if the reply lacks the list of locks, or a lock lacks a main field.
    """
    return tuple(_lock_info(lock) for lock in required(reply, "locks", "show_locks"))


def _lock_info(lock: Any) -> LockInfo:
    return LockInfo(
        lock_id=required(lock, "lockid", "lock"),
        database=required(lock, "dbname", "lock").lower(),
        table=lock.tablename.lower() if lock.tablename else None,
        partition=lock_name(lock.partname) if lock.partname else None,
        state=_name(ttypes.LockState, required(lock, "state", "lock")),
        type=_name(ttypes.LockType, required(lock, "type", "lock")),
        txn=lock.txnid or 0,
        user=lock.user or "unknown",
        host=lock.hostname or "unknown",
        agent=_agent(lock),
        acquired_at=_time(lock.acquiredat),
        last_heartbeat=_time(lock.lastheartbeat),
    )


def open_transactions_of(reply: Any) -> OpenTransactions:
    """Return the open transactions of a get_open_txns_info reply, which also lists aborted ones."""
    infos = [_txn_info(txn) for txn in required(reply, "open_txns", "get_open_txns_info")]
    mark = required(reply, "txn_high_water_mark", "get_open_txns_info")
    mark = _mark(mark, "get_open_txns_info", [info.txn for info in infos])
    # An unknown state counts as open, so that no reader is overlooked.
    return OpenTransactions(mark, tuple(info for info in infos if info.state not in ("ABORTED", "COMMITTED")))


def opened_txn_of(reply: Any) -> int:
    """Return the only transaction id of an open_txns reply."""
    ids = required(reply, "txn_ids", "open_txns")
    if len(ids) != 1:
        raise MetastoreError(f"the metastore opened {len(ids)} transactions instead of one")
    return int(ids[0])


def _txn_info(txn: Any) -> TxnInfo:
    return TxnInfo(
        txn=required(txn, "id", "transaction"),
        state=_name(ttypes.TxnState, required(txn, "state", "transaction")),
        user=txn.user or "unknown",
        host=txn.hostname or "unknown",
        agent=_agent(txn) or _own_agent(txn.hostname),
        started=_time(txn.startedTime),
        last_heartbeat=_time(txn.lastHeartbeatTime),
    )


def _own_agent(host: str | None) -> str | None:
    """Return the agent that this project sent as the host, or None for any other host."""
    return host if host and host.startswith(AGENT_PREFIX) else None


def queue_of(reply: Any) -> tuple[QueueEntry, ...]:
    """Return the lines of a show_compact reply. Raises MetastoreError if the list or a required field is missing."""
    return tuple(_queue_entry(line) for line in required(reply, "compacts", "show_compact"))


def _queue_entry(line: Any) -> QueueEntry:
    return QueueEntry(
        queue_id=required(line, "id", "compaction"),
        database=required(line, "dbname", "compaction").lower(),
        table=required(line, "tablename", "compaction").lower(),
        partition=line.partitionname or None,
        type=COMPACTION_TYPES.get(line.type),
        type_name=_type_name(line.type),
        state=_QUEUE_STATES.get(required(line, "state", "compaction"), QueueState.UNKNOWN),
        worker=line.workerid or None,
        pool=line.poolName or None,
        job=_job(line.hadoopJobId),
        txn=line.txnId or 0,
        # NB: the Thrift field kept its old name, but the metastore fills it with a write id.
        highest_write_id=line.hightestTxnId or None,
        enqueued=_time(line.enqueueTime),
        started=_time(line.start),
        committed=_time(line.commitTime),
        error=line.errorMessage or None,
    )


def _type_name(number: int | None) -> str:
    known = COMPACTION_TYPES.get(number)
    return known.value.upper() if known else _OTHER_TYPES.get(number or 0, f"type {number}")


def _job(text: str | None) -> str | None:
    """Return the id of an entry's job. NB: the metastore says None as a word (TxnStore's show_compact)."""
    return None if text in (None, "", "None") else text


def taken_id_of(reply: Any) -> int | None:
    """Return the id of the entry of a find_next_compact2 reply, or None if it has none."""
    return None if reply.ci is None else int(required(reply.ci, "id", "find_next_compact2"))


def queue_job_of(reply: Any, *, worker: str, run_as: str) -> QueueJob | None:
    """Return the entry of a find_next_compact2 reply, or None if it has none."""
    if reply.ci is None:
        return None
    number = required(reply.ci, "type", "find_next_compact2")
    if number not in COMPACTION_TYPES:
        raise MetastoreError(f"queue entry {reply.ci.id} has an unknown compaction type: {number}")
    return QueueJob(
        queue_id=required(reply.ci, "id", "find_next_compact2"),
        database=required(reply.ci, "dbname", "find_next_compact2").lower(),
        table=required(reply.ci, "tablename", "find_next_compact2").lower(),
        partition=reply.ci.partitionname or None,
        type=COMPACTION_TYPES[number],
        worker=worker,
        run_as=run_as,
    )


def valid_txns_of(reply: Any) -> ValidTxnList:
    """Return a reader's transaction snapshot from a get_open_txns reply (TxnUtils.createValidReadTxnList)."""
    ids = required(reply, "open_txns", "get_open_txns")
    mark = _mark(required(reply, "txn_high_water_mark", "get_open_txns"), "get_open_txns", ids)
    return ValidTxnList.parse(_id_list(mark, ids, required(reply, "abortedBits", "get_open_txns")))


def valid_write_ids_of(reply: Any, tables: Sequence[str]) -> dict[str, ValidWriteIdList]:
    """Return a reader's write ids of each requested table (TxnUtils.createValidReaderWriteIdList)."""
    found = required(reply, "tblValidWriteIds", "get_valid_write_ids")
    if sorted(str(entry.fullTableName) for entry in found) != sorted(tables):
        wanted = tables[0] if len(tables) == 1 else f"the {len(tables)} requested tables"
        raise MetastoreError(f"the metastore's reply to get_valid_write_ids is not for {wanted} alone")
    return {entry.fullTableName: _write_ids(entry) for entry in found}


def _write_ids(entry: Any) -> ValidWriteIdList:
    mark = _mark(required(entry, "writeIdHighWaterMark", "get_valid_write_ids"), "get_valid_write_ids")
    ids = required(entry, "invalidWriteIds", "get_valid_write_ids")
    bits = required(entry, "abortedBits", "get_valid_write_ids")
    return ValidWriteIdList.parse(f"{entry.fullTableName}:{_id_list(mark, ids, bits)}")


def _id_list(mark: int, ids: Iterable[int], aborted_bits: bytes) -> str:
    """Return `mark:lowest open:open:aborted`. A set bit means that the id at its position is aborted."""
    flagged = [(id_, _is_set(aborted_bits, position)) for position, id_ in enumerate(ids)]
    aborted = sorted(id_ for id_, is_aborted in flagged if is_aborted)
    opened = sorted(id_ for id_, is_aborted in flagged if not is_aborted)
    lowest = opened[0] if opened else INT64_MAX  # as in ValidReadTxnList.writeToString
    return f"{mark}:{lowest}:{','.join(map(str, opened))}:{','.join(map(str, aborted))}"


def _mark(mark: int, where: str, ids: Iterable[int] = ()) -> int:
    """Return a valid high-water mark. Raises MetastoreError if it is below 0 or below one of the ids."""
    if mark < max([0, *ids]):
        raise MetastoreError(f"the metastore's reply to {where} is invalid: its high-water mark is {mark}")
    return mark


def _is_set(bits: bytes, position: int) -> bool:
    """Whether a bit is set, in the order of java.util.BitSet.toByteArray, which omits trailing zeros."""
    return position // 8 < len(bits) and bool(bits[position // 8] >> position % 8 & 1)


def required(holder: Any, field: str, where: str) -> Any:
    """Return a field of a Thrift struct. Raises MetastoreError if the metastore did not send it."""
    value = getattr(holder, field, None)
    if value is None:
        raise MetastoreError(f"the metastore's reply lacks {field} ({where})")
    return value


def _name(enumeration: Any, number: int) -> str:
    names: Mapping[int, str] = enumeration._VALUES_TO_NAMES
    return names.get(number, f"UNKNOWN_{number}")


def _agent(holder: Any) -> str | None:
    """Return the agent, or None if it was not set or is not reported (transactions on Hive 3.1)."""
    return None if holder.agentInfo in (None, "", "Unknown") else str(holder.agentInfo)


def _time(milliseconds: int | None) -> datetime | None:
    """Return the time, or None if it is missing, 0 or invalid.

    A lock of a transaction has 0 as its last heartbeat, and a waiting lock has no time of acquisition. An invalid time
    is not an error: times only inform people, and a client with an invalid time is still a reader.
    """
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None
    except (ArithmeticError, OSError, ValueError):
        return None
