"""What a deleted compaction's dead driver left is found by its locks, and nothing that may be alive is."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import agent_attempt, agent_info
from compaction_operator.cleanup.attempt import Attempt, Orphan, orphans
from compaction_operator.cleanup.reader_lock import cleanup_agent
from compaction_operator.metastore import LockInfo, TxnInfo
from tests.unit.cleanup.support import NOON, journal, lock

LONG_AGO = NOON - timedelta(minutes=5)
TABLE = TableRef(database="d", name="t")


def held(uid: str, **changes: object) -> LockInfo:
    return lock(7, **{"agent": agent_info(uid=uid, attempt=2, pod_uid="p"), "last_heartbeat": LONG_AGO, **changes})


def found(*locks: LockInfo, txns: tuple[TxnInfo, ...] = (), known: tuple[str, ...] = ()) -> tuple[Orphan, ...]:
    return orphans(locks, txns, known=known, now=NOON)


def test_a_silent_attempt_of_a_compaction_that_is_gone_is_an_orphan() -> None:
    assert found(held("u"), held("u", partition="prt=1")) == (Orphan(Attempt("u", 2), TABLE),)


def test_an_attempt_of_a_compaction_that_is_there_is_not() -> None:
    assert found(held("u"), known=("u",)) == ()


def test_what_has_heartbeats_may_be_another_clusters() -> None:
    assert found(held("u", last_heartbeat=NOON)) == ()
    assert found(held("u"), held("u", last_heartbeat=NOON, partition="prt=1")) == ()
    txn = TxnInfo(txn=50, state="OPEN", user="u", host="h", agent=held("u").agent, last_heartbeat=NOON)
    assert found(held("u", txn=50, last_heartbeat=None), txns=(txn,)) == ()


def test_a_lock_lives_by_its_transaction() -> None:
    """Hive 4 keeps the heartbeats of both with the transaction."""
    in_transaction = held("u", txn=50, last_heartbeat=None)
    opened = TxnInfo(txn=50, state="OPEN", user="u", host="h", agent=in_transaction.agent, last_heartbeat=LONG_AGO)
    assert found(in_transaction, txns=(opened,)) == (Orphan(Attempt("u", 2), TABLE),)
    assert found(held("u"), txns=(replace(opened, last_heartbeat=NOON),)) == ()
    assert found(held("u"), txns=(replace(opened, agent="hive", last_heartbeat=NOON),)) != ()


def test_locks_of_others_are_none_of_ours() -> None:
    agents = ("hive", None, "compaction-operator/u/x/p", cleanup_agent(journal(Path("/t")).compaction, "o"))
    assert [agent_attempt(agent) for agent in agents] == [None] * 4
    assert found(*(held("u", agent=agent) for agent in agents)) == ()
