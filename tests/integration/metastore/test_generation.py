"""Which generation a real metastore is, and the few calls that are another's."""

import pytest

from compaction_operator.api.compaction import CompactionType
from compaction_operator.metastore import Generation, MetastoreClient, MetastoreError, QueueState

SERVERS = ("3.1.3", "4.0.1", "4.0.1-postgres", "4.1.0", "4.2.0")


def test_the_generation_is_found_out_and_remembered(server):
    with MetastoreClient(server.settings()) as client:
        assert client.generation() is (Generation.HIVE3 if server.hive == "3.1.3" else Generation.HIVE4)
        server.pause()
        try:
            client.generation()
        finally:
            server.resume()


def test_only_hive_4_hands_out_a_tables_id(admin, server, database, table):
    assert (admin.get_table(database, table).table_id is None) == (server.hive == "3.1.3")


def test_everybodys_compactions_are_seen_on_both(admin, database, table):
    assert admin.compactions(database, table) == ()
    number = admin.compact(database, table, partition="prt=P1")
    (line,) = admin.compactions(database, table)
    assert (line.queue_id, line.partition, line.type) == (number, "prt=P1", CompactionType.MAJOR)
    assert line.state is QueueState.INITIATED and line.is_open


@pytest.mark.parametrize("call", ["enqueue", "take", "open"])
def test_a_compaction_by_the_queue_needs_hive_4(admin, server, database, table, call):
    """On Hive 3 an entry would go to Hive's own Worker, and a transaction would hold up everybody's cleaning."""
    table_of = {"database": database, "table": table, "partition": None}
    calls = {
        "enqueue": lambda: admin.enqueue_compaction(**table_of, type=CompactionType.MAJOR, pool="p"),
        "take": lambda: admin.take_compaction(pool="p", worker="w"),
        "open": lambda: admin.abort_txn(admin.open_compaction_txn(agent="a")),
    }
    if server.hive == "3.1.3":
        with pytest.raises(MetastoreError):
            calls[call]()
        assert admin.compactions(database, table) == ()
    else:
        calls[call]()
