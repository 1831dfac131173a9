"""H13: a reply that says nothing is an error, never "no locks" or "no transactions"."""

from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from compaction_operator.metastore import MetastoreClient, MetastoreError
from tests.unit.metastore.stub import StubMetastore


def lock(**fields: Any) -> Any:
    return ttypes.ShowLocksResponseElement(
        **{"lockid": 1, "dbname": "db", "tablename": "t", "state": 1, "type": 1, "user": "u", "hostname": "h"} | fields
    )


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(None, id="no result at all"),
        pytest.param(ttypes.ShowLocksResponse(locks=None), id="a result without its list"),
        pytest.param(ttypes.ShowLocksResponse(locks=[lock(), lock(lockid=None)]), id="a lock without id"),
        pytest.param(ttypes.ShowLocksResponse(locks=[lock(dbname=None)]), id="a lock without database"),
        pytest.param(ttypes.ShowLocksResponse(locks=[lock(state=None)]), id="a lock without state"),
    ],
)
def test_a_reply_without_its_locks_is_an_error(stub, reply):
    with MetastoreClient(stub(show_locks=reply).settings()) as client, pytest.raises(MetastoreError):
        client.show_locks("db", "t")


def test_a_real_empty_list_means_that_there_are_no_locks(stub):
    with MetastoreClient(stub(show_locks=ttypes.ShowLocksResponse(locks=[])).settings()) as client:
        assert client.show_locks("db", "t") == ()


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(None, id="no result at all"),
        pytest.param(ttypes.GetOpenTxnsInfoResponse(txn_high_water_mark=7), id="no list"),
        pytest.param(ttypes.GetOpenTxnsInfoResponse(open_txns=[]), id="no high-water mark"),
        pytest.param(
            ttypes.GetOpenTxnsInfoResponse(7, [ttypes.TxnInfo(id=None, state=3, user="u", hostname="h")]),
            id="a transaction without id",
        ),
        pytest.param(
            ttypes.GetOpenTxnsInfoResponse(7, [ttypes.TxnInfo(id=3, state=None, user="u", hostname="h")]),
            id="a transaction without state",
        ),
    ],
)
def test_a_reply_without_its_transactions_is_an_error(stub, reply):
    with MetastoreClient(stub(get_open_txns_info=reply).settings()) as client, pytest.raises(MetastoreError):
        client.open_transactions()


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(None, id="no result at all"),
        pytest.param(ttypes.GetValidWriteIdsResponse(), id="no tables"),
        pytest.param(ttypes.GetValidWriteIdsResponse([]), id="an empty list of tables"),
        pytest.param(
            ttypes.GetValidWriteIdsResponse([ttypes.TableValidWriteIds("db.other", 3, [], None, b"")]),
            id="another table",
        ),
        pytest.param(
            ttypes.GetValidWriteIdsResponse([ttypes.TableValidWriteIds("db.t", None, [], None, b"")]),
            id="no high watermark",
        ),
        pytest.param(
            ttypes.GetValidWriteIdsResponse([ttypes.TableValidWriteIds("db.t", 3, None, None, b"")]),
            id="no list of open and aborted ids",
        ),
        pytest.param(
            ttypes.GetValidWriteIdsResponse([ttypes.TableValidWriteIds("db.t", 3, [2], None, None)]),
            id="no word on which are aborted",
        ),
    ],
)
def test_a_reply_without_its_write_ids_is_an_error(stub, reply):
    txns = ttypes.GetOpenTxnsResponse(3, [], None, b"")
    metastore: StubMetastore = stub(get_open_txns=txns, get_valid_write_ids=reply)
    with MetastoreClient(metastore.settings()) as client, pytest.raises(MetastoreError):
        client.valid_write_ids("db", "t")


def test_partitions_beyond_the_request_are_an_error(stub):
    reply = [ttypes.Partition(values=["p9"], dbName="db", tableName="t", createTime=1)]
    with MetastoreClient(stub(get_partitions_by_names=reply).settings()) as client, pytest.raises(MetastoreError):
        client.get_partitions("db", "t", ["prt=p1"])
