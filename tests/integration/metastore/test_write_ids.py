"""Write ids and transactions of a real metastore, as a reader that starts now sees them."""

import pytest

from compaction_operator.metastore import TransactionLost


@pytest.fixture
def write(admin, database, table):
    """Open a transaction with a write id; returns both."""

    def open_writer():
        txn = admin.open_txn(user="writer", agent="test")
        return txn, admin.allocate_write_id(txn, database, table)

    return open_writer


def test_a_new_table_has_no_write_ids(admin, database, table):
    write_ids = admin.valid_write_ids(database, table)
    assert (write_ids.table, write_ids.high_watermark) == (f"{database}.{table}", 0)
    assert not write_ids.open and not write_ids.aborted


def test_committed_open_and_aborted_write_ids_are_told_apart(admin, database, table, write):
    writers = [write() for _ in range(12)]
    for number, (txn, write_id) in enumerate(writers, 1):
        assert write_id == number
        if number in (2, 11):
            admin.abort_txn(txn)
        elif number not in (5, 9):
            admin.commit_txn(txn)
    write_ids = admin.valid_write_ids(database, table)
    assert write_ids.high_watermark == 12
    assert write_ids.aborted == {2, 11}
    assert write_ids.open == {5, 9}
    assert write_ids.min_open == 5
    assert write_ids.watermark == 4
    for txn, _ in (writers[4], writers[8]):
        admin.abort_txn(txn)


def test_write_ids_are_found_by_a_name_in_any_case(admin, database, table, write):
    """The metastore compares this name as text: spelled otherwise, it would say that there are no write ids."""
    txn, _ = write()
    admin.commit_txn(txn)
    assert admin.valid_write_ids(database.upper(), table.upper()) == admin.valid_write_ids(database, table)
    assert admin.valid_write_ids(database.upper(), table.upper()).high_watermark == 1


def test_a_transaction_keeps_its_write_id(admin, database, table, write):
    txn, write_id = write()
    assert admin.allocate_write_id(txn, database, table) == write_id
    admin.abort_txn(txn)


def test_open_transactions_are_listed_until_they_end(admin):
    first = admin.open_txn(user="ann", agent="reader")
    second = admin.open_txn(user="bob", agent="reader")
    admin.abort_txn(second)
    world = admin.open_transactions()
    assert world.high_water_mark >= second
    found = {txn.txn: txn for txn in world.open}
    assert found[first].user == "ann" and found[first].state == "OPEN" and found[first].started is not None
    assert second not in found
    admin.commit_txn(first)
    assert first not in {txn.txn for txn in admin.open_transactions().open}


def test_the_transaction_list_tells_open_from_aborted(admin):
    opened, aborted, committed = (admin.open_txn(user="u", agent="a") for _ in range(3))
    admin.abort_txn(aborted)
    admin.commit_txn(committed)
    txns = admin.valid_txns()
    assert txns.is_valid(committed) and not txns.is_valid(opened) and not txns.is_valid(aborted)
    assert opened in txns.open and aborted in txns.aborted
    assert txns.high_watermark >= committed
    admin.commit_txn(opened)


def test_a_transaction_can_be_kept_alive_only_while_it_is_open(admin):
    txn = admin.open_txn(user="u", agent="a")
    admin.heartbeat_txn(txn)
    admin.abort_txn(txn)
    with pytest.raises(TransactionLost):
        admin.heartbeat_txn(txn)


def test_a_transaction_that_is_aborted_or_unknown_cannot_be_committed(admin):
    txn = admin.open_txn(user="u", agent="a")
    admin.abort_txn(txn)
    for number in (txn, 10**9):
        with pytest.raises(TransactionLost):
            admin.commit_txn(number)


def test_an_abort_tells_whether_the_transaction_is_aborted(admin, write):
    aborted, _ = write()
    assert admin.abort_txn(aborted) and admin.abort_txn(aborted)
    committed, _ = write()
    admin.commit_txn(committed)
    assert not admin.abort_txn(committed) and not admin.abort_txn(10**9)
    assert admin.valid_txns().is_valid(committed)


def test_own_transactions_can_be_left_out_of_the_open_ones(admin, database, table, write):
    other, _ = write()
    own, _ = write()
    txns = admin.valid_txns(without=[own])
    assert own not in txns.open and other in txns.open and txns.min_open == min(txns.open)
    assert admin.valid_write_ids(database, table, valid_txns=txns).open == {1}
    admin.abort_txn(own)
    admin.abort_txn(other)
