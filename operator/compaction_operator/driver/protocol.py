"""Chooses how a driver compacts, by the generation of the metastore that it talks to."""

from compaction_operator.driver.hive.claim import Claims
from compaction_operator.driver.hive.context import Attempt
from compaction_operator.driver.hive.driver_locks import Locks
from compaction_operator.driver.hive.held import HiveProtocol
from compaction_operator.driver.hive.hive3 import Hive3
from compaction_operator.driver.hive.hive4 import Hive4
from compaction_operator.metastore.generation import Generation


def protocol_of(attempt: Attempt) -> HiveProtocol:
    """Return the protocol for an attempt; raises MetastoreError when the metastore's generation cannot be told."""
    locks = Locks(attempt.client, attempt.table, agent=attempt.agent)
    if attempt.client.generation() is Generation.HIVE4:
        return Hive4(attempt, Claims(attempt, locks))
    return Hive3(attempt, locks)
