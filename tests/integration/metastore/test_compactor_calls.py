"""The compaction queue and COMPACTION transactions of a real Hive 4 metastore."""

from sandbox.harness.wait import wait_until

from tests.support.metastore_contract import QueueContract

SERVERS = ("4.0.1", "4.0.1-postgres", "4.1.0", "4.2.0")


class TestQueue(QueueContract):
    """Also what the fake does not model."""

    def test_an_aborted_compaction_is_remembered_until_its_partition_is_marked_as_cleaned(self, admin, queue):
        """Then its id counts as committed: no directory of it may be left by then."""
        last = queue.write()
        failed, aborted = queue.begin(highest_write_id=last, partition="prt=p1")
        admin.mark_failed(failed, "x")
        admin.abort_txn(aborted)
        job = queue.publish(highest_write_id=last, partition="prt=p1")
        assert aborted in admin.valid_txns().aborted
        admin.mark_cleaned(job)
        admin.abort_txn(admin.open_txn(user="u", agent="a"))  # the newest is never forgotten
        wait_until(
            lambda: admin.valid_txns().is_valid(aborted), timeout=60, what="the metastore's housekeeping", poll=0.5
        )


def test_a_tables_id_is_new_when_it_is_made_again(admin, database, table, make_table):
    """H11: unlike the time of its creation, which has seconds only."""
    first = admin.get_table(database, table).table_id
    admin.drop_table(database, table)
    make_table(table)
    assert first is not None and admin.get_table(database, table).table_id > first
