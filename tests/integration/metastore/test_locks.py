"""Locks of a real metastore."""

import pytest
from hmsclient.genthrift.hive_metastore import ttypes
from sandbox.metastore.admin import MetastoreAdmin, name_of

from compaction_operator.metastore import Generation, lock_name
from tests.support.metastore_contract import EXCLUSIVE, LocksContract


@pytest.fixture
def table(make_table):
    return make_table(keys=("prt",))


class TestLocks(LocksContract):
    """Also what the fake does not model."""

    def test_hive_3_takes_partitions_whose_names_differ_in_case_for_one_and_hive_4_does_not(self, admin, take):
        assert take(partition="prt=P1").acquired
        assert take(EXCLUSIVE, partition="prt=p1").acquired == (admin.generation() is Generation.HIVE4)

    def test_locks_on_partition_table_and_database_are_all_shown(self, admin, database, table, take):
        """H5: the metastore's own filter would leave out the last one, or the last two."""
        on_partition, on_table = take(partition="prt=p1"), take()
        on_database = lock_database(admin, database)
        found = {
            lock.lock_id: (lock.database, lock.table, lock.partition) for lock in admin.show_locks(database, table)
        }
        admin.unlock(on_database)
        assert found == {
            on_partition.lock_id: (database, table, "prt=p1"),
            on_table.lock_id: (database, table, None),
            on_database: (database, None, None),
        }

    @pytest.mark.parametrize("value", ["a:b", "a b", "x=y", "100%", "a%3Ab", "a/b", "Ü"])
    def test_a_lock_on_a_partition_with_special_characters_is_found_by_its_name(
        self, admin, database, table, take, value
    ):
        """H5: Hive 4 escapes once more what is escaped already, so its locks do not show the partition's own name."""
        name = name_of(["prt"], [value])
        mine = take(partition=name)
        (lock,) = admin.show_locks(database, table)
        assert (lock.lock_id, lock.partition) == (mine.lock_id, lock_name(name))


def lock_database(admin: MetastoreAdmin, database: str) -> int:
    """What Hive takes for DROP DATABASE; this project never does."""
    component = ttypes.LockComponent(
        type=ttypes.LockType.SHARED_READ,
        level=ttypes.LockLevel.DB,
        dbname=database,
        operationType=ttypes.DataOperationType.NO_TXN,
        isTransactional=True,
    )
    request = ttypes.LockRequest(component=[component], user="u", hostname="h", agentInfo="test")
    lock_id: int = admin._call(lambda client: client.lock(request)).lockid
    return lock_id
