"""Tables and partitions of a real metastore."""

import threading
import time

import pytest
from sandbox.metastore.admin import HUDI

from compaction_operator.metastore import TableNotFound
from compaction_operator.metastore.client import BATCH
from compaction_operator.metastore.partition_specs import select
from tests.integration.metastore.conftest import COLUMNS


def test_a_table_is_described_as_it_was_made(admin, server, database, make_table):
    before = int(time.time())
    make_table("Events", keys=("Prt",))
    table = admin.get_table(database, "events")
    assert (table.database, table.name) == (database, "events")
    assert table.location == f"file:{server.warehouse}/{database}.db/Events"
    assert before - 1 <= table.create_time <= time.time() + 1
    assert table.columns == (("id", "int"), ("name", "varchar(10)"))
    assert table.partition_keys == ("prt",)
    assert table.is_acid and table.is_orc and not table.is_insert_only


def test_names_are_found_in_any_case(admin, database, make_table):
    make_table("T", keys=("prt",))
    admin.add_partitions(database, "t", [["P1"]])
    assert admin.get_table(database.upper(), "T") == admin.get_table(database, "t")
    assert admin.get_partition_names(database.upper(), "T") == ("prt=P1",)
    assert [partition.name for partition in admin.get_partitions(database.upper(), "T")] == ["prt=P1"]


def test_an_insert_only_table_is_seen_for_what_it_is(admin, database, make_table):
    make_table("io", parameters={"transactional": "true", "transactional_properties": "insert_only"})
    table = admin.get_table(database, "io")
    assert table.is_insert_only and not table.is_acid


def test_a_table_without_transactions_is_seen_for_what_it_is(admin, database, make_table):
    make_table("plain", parameters={})
    assert not admin.get_table(database, "plain").is_transactional


def test_external_tables_are_found_apart_from_managed_ones(admin, server, database, make_table):
    make_table("managed")
    place = f"file:{server.warehouse}/outside"
    admin.create_table(database, "h", location=place, columns=COLUMNS, parameters={"EXTERNAL": "TRUE"}, formats=HUDI)
    managed, external = admin.managed_tables(), admin.external_tables()
    assert ((database, "managed") in managed, (database, "managed") in external) == (True, False)
    assert ((database, "h") in managed, (database, "h") in external) == (False, True)
    assert admin.get_tables(database, ["h"])[0].is_hudi


@pytest.mark.parametrize("ask", ["get_table", "get_partition_names", "get_partitions"])
def test_a_table_that_does_not_exist_is_named(admin, database, ask):
    with pytest.raises(TableNotFound, match=rf"{database}\.nothing"):
        getattr(admin, ask)(database, "nothing")
    with pytest.raises(TableNotFound, match=r"nowhere\.nothing"):
        getattr(admin, ask)("nowhere", "nothing")


def test_partitions_of_a_table_that_was_dropped_meanwhile_are_an_error(admin, database, table):
    admin.drop_table(database, table)
    with pytest.raises(TableNotFound):
        admin.get_partitions(database, table, ["prt=p1"])


def test_an_unpartitioned_table_has_no_partitions(admin, database, table):
    assert admin.get_partition_names(database, table) == ()
    assert admin.get_partitions(database, table) == ()


def test_thousands_of_partitions_come_in_batches_whole_and_in_order(admin, server, database, make_table):
    make_table(keys=("day", "hour"))
    expected = {f"day={day:03}/hour={hour:02}" for day in range(64) for hour in range(24)}
    assert len(expected) > 3 * BATCH
    added = admin.add_partitions(
        database, "t", [(f"{day:03}", f"{hour:02}") for day in range(64) for hour in range(24)]
    )
    assert set(added) == expected
    partitions = admin.get_partitions(database, "t")
    names = admin.get_partition_names(database, "t")
    assert set(names) == expected
    assert tuple(partition.name for partition in partitions) == names
    assert all(partition.location.endswith(f"/t/{partition.name}") for partition in partitions)
    assert select(["day=017"], keys=("day", "hour"), names=names).names == tuple(
        f"day=017/hour={h:02}" for h in range(24)
    )


def test_partitions_come_in_the_order_asked_for_without_those_that_are_gone(admin, database, make_table):
    make_table(keys=("prt",))
    admin.add_partitions(database, "t", [["p1"], ["p2"], ["p3"]])
    admin.drop_partition(database, "t", ["p2"])
    found = admin.get_partitions(database, "t", ["prt=p3", "prt=p2", "prt=p1"])
    assert [partition.name for partition in found] == ["prt=p3", "prt=p1"]


def test_special_characters_are_escaped_as_hive_does(admin, database, make_table):
    """The metastore itself makes the name from the values; what is asked for and compared must be spelled alike."""
    make_table(keys=("prt",))
    values = [
        "a:b",
        "a b",
        "a/b",
        "100%",
        "it's",
        'say "x"',
        "a=b",
        "{x}",
        "[x]",
        "#1",
        "b^c",
        "q?*",
        "back\\slash",
        "a,b",
    ]
    added = admin.add_partitions(database, "t", [[value] for value in values])
    assert set(admin.get_partition_names(database, "t")) == set(added)
    found = {partition.name: partition for partition in admin.get_partitions(database, "t", added)}
    assert [found[name].values for name in added] == [(value,) for value in values]
    assert found["prt=a%3Ab"].location.endswith("/t/prt=a%3Ab")
    assert select(["prt='a:b'"], keys=("prt",), names=found).names == ("prt=a%3Ab",)


def test_a_recreated_table_has_another_time_of_creation_and_its_write_ids_begin_again(admin, database, make_table):
    """H11: on Hive 3.1 there is no other identity."""
    make_table()
    first = admin.get_table(database, "t")
    for _ in range(2):
        txn = admin.open_txn(user="w", agent="writer")
        admin.allocate_write_id(txn, database, "t")
        admin.commit_txn(txn)
    assert admin.valid_write_ids(database, "t").high_watermark == 2
    admin.drop_table(database, "t")
    await_another_second(first.create_time)
    make_table()
    assert admin.get_table(database, "t").create_time > first.create_time
    assert admin.valid_write_ids(database, "t").high_watermark == 0


def await_another_second(second: int) -> None:
    pause = threading.Event()
    while int(time.time()) <= second:
        pause.wait(0.05)
