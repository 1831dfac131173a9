"""H13: the metastore has given out a transaction id that its database lacks. The client still gets an answer."""

SERVERS = ("4.0.1-postgres",)


def test_the_open_transactions_are_listed_while_another_one_is_being_opened(admin, server):
    """Hive 4 then closes the connection: its answer must name a user for each id, and it has none for this one."""
    reader = admin.open_txn(user="ann", agent="reader")
    server.skip_txn_id()
    last = admin.open_txn(user="bob", agent="reader")
    seen = admin.open_transactions()
    assert seen.high_water_mark == last
    assert {reader, last} <= {txn.txn for txn in seen.open}
    for txn in (reader, last):
        admin.commit_txn(txn)
