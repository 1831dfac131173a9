"""Which generation a real metastore is, and the few calls that are another's."""

import pytest

from compaction_operator.api.compaction import CompactionType
from compaction_operator.metastore.client import MetastoreClient
from compaction_operator.metastore.errors import MetastoreError
from compaction_operator.metastore.generation import Generation
from compaction_operator.metastore.queue import QueueState

SERVERS = ("3.1.3", "4.0.1", "4.0.1-postgres")


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
    entry = admin.enqueue_compaction(
        database=database, table=table, partition="prt=P1", type=CompactionType.MAJOR, pool="p"
    )
    (line,) = admin.compactions(database, table)
    assert (line.queue_id, line.partition, line.type) == (entry.queue_id, "prt=P1", CompactionType.MAJOR)
    assert line.state is QueueState.INITIATED and line.is_open


def test_what_hive_3_cannot_do_is_an_error_there(admin, server):
    if server.hive != "3.1.3":
        assert admin.take_compaction(pool="nobodys", worker="w") is None
        return
    with pytest.raises(MetastoreError):
        admin.take_compaction(pool="nobodys", worker="w")
