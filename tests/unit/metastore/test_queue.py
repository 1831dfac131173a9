"""Lines of SHOW COMPACTIONS: what counts as open, and what is no answer at all."""

from typing import Any

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

from compaction_operator.metastore import MetastoreError, QueueState
from compaction_operator.metastore import hive4_calls as hive4
from compaction_operator.metastore.replies import queue_job_of, queue_of

LINE = {"id": 5, "dbname": "DB", "tablename": "T", "type": 1, "state": "working"}


def reply(**fields: Any) -> Any:
    return hive4.ShowCompactResponse(compacts=[hive4.ShowCompactResponseElement(**(LINE | fields))])


@pytest.mark.parametrize(
    ("word", "state", "is_open", "is_ended"),
    [
        ("initiated", QueueState.INITIATED, True, False),
        ("working", QueueState.WORKING, True, False),
        ("ready for cleaning", QueueState.READY_FOR_CLEANING, False, False),
        ("succeeded", QueueState.SUCCEEDED, False, True),
        ("failed", QueueState.FAILED, False, True),
        ("refused", QueueState.REFUSED, False, True),
        ("aborted", QueueState.ABORTED, False, True),
        ("did not initiate", QueueState.DID_NOT_INITIATE, False, True),
        ("attempted", QueueState.DID_NOT_INITIATE, False, True),
        ("a word of Hive 5", QueueState.UNKNOWN, True, False),
    ],
)
def test_what_is_not_certainly_over_counts_as_open(word, state, is_open, is_ended):
    (entry,) = queue_of(reply(state=word))
    assert (entry.state, entry.is_open, entry.is_ended) == (state, is_open, is_ended)


@pytest.mark.parametrize(
    ("number", "name"), [(3, "REBALANCE"), (4, "ABORT_TXN_CLEANUP"), (5, "SMART_OPTIMIZE"), (6, "type 6")]
)
def test_an_entry_of_a_type_that_is_not_known_is_shown_all_the_same(number, name):
    """As the metastore sends it: a later Hive may have more types."""
    sent = TMemoryBuffer()
    reply(type=number, partitionname="prt=P1").write(TBinaryProtocol(sent))
    received = hive4.ShowCompactResponse()
    received.read(TBinaryProtocol(TMemoryBuffer(sent.getvalue())))
    (entry,) = queue_of(received)
    assert (entry.type, entry.type_name) == (None, name)
    assert (entry.database, entry.table, entry.partition) == ("db", "t", "prt=P1")


@pytest.mark.parametrize("field", ["id", "dbname", "tablename", "state"])
def test_a_line_that_is_not_whole_is_an_error(field):
    with pytest.raises(MetastoreError, match=field):
        queue_of(reply(**{field: None}))


@pytest.mark.parametrize("answer", [None, hive4.ShowCompactResponse()])
def test_a_reply_without_its_list_is_not_an_empty_queue(answer):
    """H13."""
    with pytest.raises(MetastoreError, match="compacts"):
        queue_of(answer)


def test_an_entry_that_this_project_cannot_do_is_not_taken_for_one():
    rebalance = hive4.OptionalCompactionInfoStruct(
        ci=hive4.CompactionInfoStruct(id=5, dbname="db", tablename="t", type=3)
    )
    with pytest.raises(MetastoreError, match="queue entry 5"):
        queue_job_of(rebalance, worker="w", run_as="u")
    assert queue_job_of(hive4.OptionalCompactionInfoStruct(), worker="w", run_as="u") is None


def test_a_struct_has_only_the_fields_of_its_description():
    with pytest.raises(TypeError, match="poolname"):
        hive4.FindNextCompactRequest(poolname="x")
