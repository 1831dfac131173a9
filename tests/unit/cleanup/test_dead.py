"""The controller ends the queue entries that dead drivers left, and no entry of a driver that may be alive."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import agent_info, pool_owner, queue_pool
from compaction_operator.cleanup.attempt import Attempt, end_dead_entries
from compaction_operator.metastore import Generation, MetastoreError, OpenTransactions, QueueEntry, QueueState, TxnInfo
from compaction_operator.storage import LocalStorage
from tests.support.metastore import FakeMetastore
from tests.unit.cleanup.support import NOON, failed, metastore, queued

TABLE = TableRef(database="d", name="t")
LONG_AGO = NOON - timedelta(hours=1)
JUST_NOW = NOON - timedelta(minutes=9)
INITIATED, WORKING, READY = QueueState.INITIATED, QueueState.WORKING, QueueState.READY_FOR_CLEANING


def entry(queue_id: int = 5, *, uid: str = "other", attempt: int = 1, **changes: Any) -> QueueEntry:
    """A driver's entry that is worked on in transaction 50 and was put in long ago."""
    pool, agent = (make(uid=uid, attempt=attempt, pod_uid="pod1") for make in (queue_pool, agent_info))
    plain: dict[str, Any] = {"pool": pool, "worker": agent, "state": WORKING, "committed": None, "enqueued": LONG_AGO}
    return queued(queue_id, **(plain | changes))


def hive4(*queue: QueueEntry, opened: tuple[tuple[int, str], ...] = (), **changes: Any) -> FakeMetastore:
    infos = tuple(TxnInfo(txn=txn, state="OPEN", user="ann", host="desk", agent=agent) for txn, agent in opened)
    txns = OpenTransactions(100, infos)
    return metastore(Path("/t"), hive=Generation.HIVE4, queue=queue, transactions=txns, **changes)


def ended(source: FakeMetastore, *, last: int = 2, now: datetime = NOON) -> list[int]:
    end_dead_entries(lambda _: LocalStorage(), source, TABLE, last=Attempt("u", last), now=now)
    return failed(source)


@pytest.mark.parametrize("state", [INITIATED, WORKING, READY])
@pytest.mark.parametrize("attempt", [1, 2])
def test_all_entries_of_the_compactions_own_attempts_are_ended(attempt: int, state: QueueState) -> None:
    """Just put in, too, and with their open transaction: they are dead whatever the metastore thinks."""
    one = entry(uid="u", attempt=attempt, state=state, enqueued=NOON)
    source = hive4(one, opened=((50, agent_info(uid="u", attempt=attempt, pod_uid="pod1")),))
    assert ended(source) == [5]
    assert source.asked("abort_txn") == [50]


def test_an_attempt_after_the_last_known_one_is_judged_like_anybody_elses() -> None:
    """A controller that was paused may know less than there is."""
    one = entry(uid="u", attempt=3)
    source = hive4(one, opened=((50, "x"),))
    assert ended(source) == []
    assert source.asked("abort_txn") == []
    assert ended(hive4(one)) == [5]


@pytest.mark.parametrize("state", [INITIATED, WORKING, READY])
def test_anothers_entry_is_ended_when_its_transaction_was_aborted(state: QueueState) -> None:
    assert ended(hive4(entry(state=state))) == [5]


def test_anothers_entry_with_an_open_transaction_is_left_alone_however_old_it_is() -> None:
    source = hive4(entry(), opened=((50, "another"),))
    assert ended(source) == []
    assert source.asked("abort_txn") == []


@pytest.mark.parametrize("of", [{"uid": "u"}, {"uid": "other"}])
def test_what_was_committed_is_marked_as_compacted(of: dict[str, Any]) -> None:
    """Its driver died in between, or comes to it now. Until it is marked it keeps the table busy."""
    source = hive4(entry(committed=NOON, **of), entry(6, committed=NOON, state=READY, **of))
    assert ended(source) == []
    assert [one.state for one in source.queue] == [READY, READY]
    assert source.count("mark_compacted") == 1


def test_what_was_committed_just_now_is_not_ended() -> None:
    """Its transaction was open when the queue was asked for, and is not open any more."""
    source = hive4(entry())
    source.on("open_transactions", lambda: source.change_entries(5, state=READY, committed=NOON))
    assert ended(source) == []


@pytest.mark.parametrize(
    ("times", "dead"),
    [
        ({"enqueued": LONG_AGO}, True),
        ({"enqueued": JUST_NOW}, False),
        ({"enqueued": LONG_AGO, "started": JUST_NOW}, False),
        ({"enqueued": LONG_AGO, "started": LONG_AGO}, True),
        ({"enqueued": None}, False),
    ],
)
@pytest.mark.parametrize("state", [INITIATED, WORKING])
def test_anothers_entry_without_a_transaction_is_ended_when_it_is_old(
    state: QueueState, times: dict[str, Any], dead: bool
) -> None:
    assert ended(hive4(entry(txn=0, state=state, **times))) == [5] * dead


def test_a_transaction_that_the_entry_does_not_name_yet_keeps_it_alive() -> None:
    """Its driver waits for its lock, for as long as that takes."""
    one = entry(txn=0)
    assert ended(hive4(one, opened=((50, agent_info(uid="other", attempt=1, pod_uid="pod1")),))) == []
    assert ended(hive4(one, opened=((50, agent_info(uid="other", attempt=11, pod_uid="pod1")),))) == [5]


@pytest.mark.parametrize("uid", ["u", "other"])
@pytest.mark.parametrize(
    "changes",
    [
        {"pool": "default"},
        {"pool": None},
        {"pool": "compaction/x"},
        {"worker": "hive-worker-3"},
        {"table": "another"},
        {"state": QueueState.FAILED},
    ],
    ids=["default pool", "no pool", "an unknown pool", "taken by Hive after 12 hours", "another table", "ended"],
)
def test_nothing_that_no_driver_has_is_touched(uid: str, changes: dict[str, Any]) -> None:
    assert ended(hive4(entry(uid=uid, **changes))) == []


def test_a_state_that_is_not_known_is_not_judged() -> None:
    assert ended(hive4(entry(state=QueueState.UNKNOWN))) == []


def test_a_queue_without_entries_of_drivers_causes_no_further_calls() -> None:
    """This includes Hive 3, which has no pools."""
    source = metastore(Path("/t"), queue=(queued(5, pool=None),), broken=frozenset({"open_transactions", "show_locks"}))
    assert ended(source) == []


@pytest.mark.parametrize("call", ["compactions", "open_transactions", "mark_failed"])
def test_an_error_is_raised(call: str) -> None:
    with pytest.raises(MetastoreError, match=call):
        ended(hive4(entry(), broken=frozenset({call})))


def test_a_pool_names_its_attempt() -> None:
    pool = queue_pool(uid="u-1", attempt=12, pod_uid="12345678-9")
    assert pool_owner(pool) == ("u-1", 12)
    assert [pool_owner(other) for other in (None, "", "default", "compaction/u/x/p", f"{pool}/x")] == [None] * 5
