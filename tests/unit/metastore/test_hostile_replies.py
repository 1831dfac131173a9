"""Replies that are well-formed and make no sense: each is an error, or understood without anybody being overlooked."""

from collections.abc import Callable
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from compaction_operator.metastore import MetastoreClient, MetastoreError
from tests.unit.metastore.stub import StubMetastore

FAR = 2**62
NO_TXNS = ttypes.GetOpenTxnsResponse(3, [], None, b"")


def txn(number: int, **fields: Any) -> Any:
    return ttypes.TxnInfo(id=number, state=ttypes.TxnState.OPEN, user="u", hostname="h", **fields)


def element(**fields: Any) -> Any:
    plain = {"lockid": 1, "dbname": "db", "tablename": "t", "state": 1, "type": 1, "user": "u", "hostname": "h"}
    return ttypes.ShowLocksResponseElement(**plain | fields)


@pytest.mark.parametrize("reply", [ttypes.GetOpenTxnsInfoResponse(mark, [txn(5)]) for mark in (-1, 0, 4)])
def test_a_mark_below_an_open_transaction_is_an_error(stub: Callable[..., StubMetastore], reply: Any) -> None:
    """By that mark, the transaction would count as later than the baseline, and no cleanup would wait for it."""
    metastore = stub(get_open_txns_info=reply)
    with (
        MetastoreClient(metastore.settings()) as client,
        pytest.raises(MetastoreError, match=rf"{metastore.settings().uris[0]}.*high-water mark"),
    ):
        client.open_transactions()


@pytest.mark.parametrize("reply", [ttypes.GetOpenTxnsResponse(mark, [-7], None, b"") for mark in (-1, -FAR)])
def test_a_negative_mark_of_transactions_is_an_error(stub: Callable[..., StubMetastore], reply: Any) -> None:
    with MetastoreClient(stub(get_open_txns=reply).settings()) as client, pytest.raises(MetastoreError):
        client.valid_txns()


@pytest.mark.parametrize(
    "entries",
    [
        [ttypes.TableValidWriteIds("db.t", -1, [], None, b"")],
        [ttypes.TableValidWriteIds("db.other", 3, [], None, b"")],
        [ttypes.TableValidWriteIds("db.t", 3, [], None, b""), ttypes.TableValidWriteIds("db.u", 9, [], None, b"")],
    ],
    ids=["a negative mark", "another table", "two tables"],
)
def test_write_ids_that_are_none_of_the_tables_are_an_error(
    stub: Callable[..., StubMetastore], entries: list[Any]
) -> None:
    reply = ttypes.GetValidWriteIdsResponse(entries)
    metastore = stub(get_open_txns=NO_TXNS, get_valid_write_ids=reply)
    with MetastoreClient(metastore.settings()) as client, pytest.raises(MetastoreError):
        client.valid_write_ids("db", "t")


def test_times_that_are_no_dates_do_not_hide_a_reader(stub: Callable[..., StubMetastore]) -> None:
    locks = [element(acquiredat=FAR, lastheartbeat=-FAR)]
    txns = ttypes.GetOpenTxnsInfoResponse(5, [txn(5, startedTime=FAR, lastHeartbeatTime=-FAR)])
    metastore = stub(show_locks=ttypes.ShowLocksResponse(locks), get_open_txns_info=txns)
    with MetastoreClient(metastore.settings()) as client:
        (lock,) = client.show_locks("db", "t")
        (open_one,) = client.open_transactions().open
    assert (lock.lock_id, lock.acquired_at, open_one.txn, open_one.started) == (1, None, 5, None)


def test_a_list_that_claims_to_be_huge_is_refused_before_room_is_made_for_it(
    stub: Callable[..., StubMetastore],
) -> None:
    """Two thousand million locks in a reply of a few bytes."""
    metastore = stub(show_locks=ttypes.ShowLocksResponse(Huge()))
    with MetastoreClient(metastore.settings(timeout=5.0)) as client, pytest.raises(MetastoreError):
        client.show_locks("db", "t")


class Huge(list[Any]):
    """A list whose length is a lie."""

    def __len__(self) -> int:
        return 2**31 - 1
