"""H13: a transaction id that was given out and is not in the metastore's database keeps nobody from an answer."""

SERVERS = ("4.0.1-postgres",)


def test_the_open_transactions_are_told_although_another_one_is_being_opened(admin, server):
    """Hive 4 hangs up then: it has no user for that id, and its answer must have one."""
    reader = admin.open_txn(user="ann", agent="reader")
    server.skip_txn_id()
    last = admin.open_txn(user="bob", agent="reader")
    seen = admin.open_transactions()
    assert seen.high_water_mark == last
    assert {reader, last} <= {txn.txn for txn in seen.open}
    for txn in (reader, last):
        admin.commit_txn(txn)
