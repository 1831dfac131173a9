"""What the metastore's replies are taken for."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from compaction_operator.metastore import LockLost, replies

NONE_OPEN = 2**63 - 1


def write_ids(invalid: list[int], bits: bytes, *, mark: int = 20) -> str:
    entry = ttypes.TableValidWriteIds("db.t", mark, invalid, None, bits)
    return str(replies.valid_write_ids_of(ttypes.GetValidWriteIdsResponse([entry]), ["db.t"])["db.t"])


def test_without_open_and_aborted_ids_the_list_is_the_mark_alone():
    assert write_ids([], b"") == f"db.t:20:{NONE_OPEN}::"


def test_a_bit_says_of_the_id_at_its_position_that_it_is_aborted():
    # positions 1 and 9: java.util.BitSet {1, 9}
    ids = [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert write_ids(ids, bytes([0b10, 0b10])) == "db.t:20:3:3,5,6,7,8,9,10,11:4,12"


def test_bits_that_are_left_out_are_zero():
    assert write_ids([3, 18], b"\x01") == "db.t:20:18:18:3"


def test_aborted_ids_alone_leave_no_lowest_open_one():
    assert write_ids([3, 4], b"\x03") == f"db.t:20:{NONE_OPEN}::3,4"


def test_transactions_are_read_in_the_same_way():
    reply = ttypes.GetOpenTxnsResponse(9, [4, 6, 8], 4, b"\x02")
    assert str(replies.valid_txns_of(reply)) == "9:4:4,8:6"


def element(**fields: Any) -> Any:
    defaults = {"lockid": 1, "dbname": "db", "tablename": "t", "state": 1, "type": 1, "user": "u", "hostname": "h"}
    return ttypes.ShowLocksResponseElement(**defaults | fields)


def test_locks_of_table_partition_and_database_are_picked_whatever_the_case():
    reply = ttypes.ShowLocksResponse(
        [
            element(lockid=1, dbname="DB", tablename="T"),
            element(lockid=2, partname="PRT=P1"),
            element(lockid=3, tablename=None),
            element(lockid=4, tablename="other"),
            element(lockid=5, dbname="elsewhere", tablename=None),
        ]
    )
    locks = [lock for lock in replies.locks_of(reply) if lock.is_on("Db", "T")]
    assert [(lock.lock_id, lock.table, lock.partition) for lock in locks] == [
        (1, "t", None),
        (2, "t", "prt=p1"),
        (3, None, None),
    ]


def test_a_lock_of_an_unknown_type_and_state_still_counts():
    (lock,) = replies.locks_of(ttypes.ShowLocksResponse([element(type=4, state=9)]))
    assert (lock.type, lock.state) == ("UNKNOWN_4", "UNKNOWN_9")


def test_times_are_milliseconds_and_zero_is_none():
    (lock,) = replies.locks_of(ttypes.ShowLocksResponse([element(acquiredat=1_500, lastheartbeat=0)]))
    assert lock.acquired_at == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert lock.last_heartbeat is None


def test_only_aborted_and_committed_transactions_are_left_out():
    txns = [ttypes.TxnInfo(id=number, state=number, user="u", hostname="h") for number in (1, 2, 3, 4)]
    found = replies.open_transactions_of(ttypes.GetOpenTxnsInfoResponse(9, txns))
    assert [(txn.txn, txn.state) for txn in found.open] == [(3, "OPEN"), (4, "UNKNOWN_4")]
    assert found.high_water_mark == 9


@pytest.mark.parametrize("state", [ttypes.LockState.ABORT, ttypes.LockState.NOT_ACQUIRED])
def test_a_lock_that_was_aborted_or_refused_is_lost(state):
    with pytest.raises(LockLost):
        replies.lock_state_of(ttypes.LockResponse(lockid=5, state=state))
