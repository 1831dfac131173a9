"""What a dead attempt holds in the metastore is ended, and nothing of anybody else's is."""

import json
from pathlib import Path
from typing import Any

import pytest

from compaction_operator.api.compaction import TableRef
from compaction_operator.api.request import agent_info, queue_pool
from compaction_operator.cleanup import attempt as module
from compaction_operator.cleanup.attempt import Attempt, Ended
from compaction_operator.metastore import (
    Generation,
    LockLost,
    MetastoreError,
    OpenTransactions,
    QueueState,
    Target,
    TxnInfo,
)
from compaction_operator.storage import Entry, LocalStorage, StorageError
from tests.support.metastore import COMMITTED, FakeMetastore
from tests.unit.cleanup.support import NOON, OWN_AGENT, failed, lock, make_directory, metastore, names, queued

TABLE = TableRef(database="d", name="t")
OWN = Attempt("u", 1)


def end_attempt(source: FakeMetastore, attempt: Attempt, table: TableRef, *places: Target, whole: bool = True) -> Ended:
    return module.end_attempt(lambda _: LocalStorage(), source, attempt, table, places, whole=whole)


STRANGERS = [
    agent_info(uid="u", attempt=11, pod_uid="p"),
    agent_info(uid="u", attempt=2, pod_uid="p"),
    agent_info(uid="uu", attempt=1, pod_uid="p"),
    "hive-worker",
    "",
    None,
]


def hive4(**changes: Any) -> FakeMetastore:
    return metastore(Path("/t"), hive=Generation.HIVE4, **changes)


def opened(*txns: tuple[int, str | None]) -> dict[str, Any]:
    """Open transactions by id and agent."""
    infos = tuple(TxnInfo(txn=txn, state="OPEN", user="ann", host="desk", agent=agent) for txn, agent in txns)
    return {"transactions": OpenTransactions(100, infos)}


def test_locks_of_the_attempt_are_given_back() -> None:
    source = metastore(Path("/t"), locks=(lock(7, agent=OWN_AGENT), lock(8, agent=OWN_AGENT), lock(12)))
    assert end_attempt(source, OWN, TABLE).locks == {7, 8}
    assert source.asked("unlock") == [7, 8]


@pytest.mark.parametrize("agent", STRANGERS)
def test_nothing_of_another_agent_is_touched(agent: str | None) -> None:
    """Another attempt of the same compaction (11 begins like 1), another compaction, Hive: the metastore tells them."""
    stranger = queued(5, pool="default", state=QueueState.WORKING, committed=None, txn=50)
    source = hive4(locks=(lock(7, agent=agent), lock(8, agent=agent, txn=50)), queue=(stranger,), **opened((50, agent)))
    ended = end_attempt(source, OWN, TABLE)
    assert (ended.locks, ended.queue) == (frozenset(), ())
    assert (source.asked("unlock"), source.asked("abort_txn"), failed(source)) == ([], [], [])


def test_a_lock_of_a_transaction_goes_with_it() -> None:
    """The metastore refuses to unlock it, and needs not to."""
    source = hive4(locks=(lock(8, agent=OWN_AGENT, txn=50),), **opened((50, None)))
    assert end_attempt(source, OWN, TABLE).locks == {8}
    assert (source.asked("unlock"), source.asked("abort_txn")) == ([], [50])


@pytest.mark.parametrize("state", [QueueState.INITIATED, QueueState.WORKING, QueueState.READY_FOR_CLEANING])
def test_a_queue_entry_that_was_not_committed_ends_as_failed(state: QueueState) -> None:
    """Also one that was never taken, and one that a driver of an earlier version marked before it died."""
    source = hive4(queue=(queued(5, state=state, committed=None),), **opened((50, None)))
    end_attempt(source, OWN, TABLE)
    assert (source.asked("abort_txn"), failed(source)) == ([50], [5])


def test_a_queue_entry_that_was_committed_and_not_marked_is_marked() -> None:
    """Its driver died in between."""
    source = hive4(queue=(queued(5, state=QueueState.WORKING),))
    end_attempt(source, OWN, TABLE)
    assert (source.queue[0].awaits_cleaning, failed(source)) == (True, [])


@pytest.mark.parametrize(
    "entry",
    [
        queued(5),
        queued(5, state=QueueState.SUCCEEDED),
        queued(5, state=QueueState.FAILED, committed=None),
        queued(5, pool=queue_pool(uid="u", attempt=2, pod_uid="p"), state=QueueState.WORKING, committed=None),
        queued(5, pool=None, state=QueueState.WORKING, committed=None),
        queued(5, worker="hive-1", state=QueueState.WORKING, committed=None),
    ],
    ids=["committed", "cleaned", "failed before", "another attempt's", "Hive's", "taken"],
)
def test_other_queue_entries_stay_as_they_are(entry: object) -> None:
    """Nor is the transaction aborted in which Hive's Worker compacts what it took out of a dead driver's pool."""
    live = opened((50, "hive")) if getattr(entry, "worker", None) else {}
    source = hive4(queue=(entry,), **live)
    end_attempt(source, OWN, TABLE)
    assert (failed(source), source.asked("abort_txn")) == ([], [])


def test_a_transaction_that_died_before_its_lock_is_known_by_its_agent() -> None:
    source = hive4(**opened((50, OWN_AGENT), (51, "hive"), (52, None)))
    ended = end_attempt(source, OWN, TABLE)
    assert source.asked("abort_txn") == [50]
    assert ended.txns.aborted == {50}


def test_a_transaction_that_compacts_another_table_is_left_alone() -> None:
    """A forged journal may name another compaction's UID: that one goes on."""
    entry = queued(5, table="other", state=QueueState.WORKING, committed=None)
    source = hive4(queue=(entry,), **opened((50, OWN_AGENT), (51, OWN_AGENT)))
    end_attempt(source, OWN, TABLE)
    assert (source.asked("abort_txn"), failed(source)) == ([51], [])


def test_a_second_time_there_is_nothing_left_to_end() -> None:
    source = hive4(
        locks=(lock(7, agent=OWN_AGENT), lock(8, agent=OWN_AGENT, txn=50)),
        queue=(queued(5, state=QueueState.WORKING, committed=None),),
        **opened((50, OWN_AGENT)),
    )
    end_attempt(source, OWN, TABLE)
    source.calls.clear()
    end_attempt(source, OWN, TABLE)
    assert (source.asked("unlock"), source.asked("abort_txn"), failed(source)) == ([], [], [])


@pytest.mark.parametrize(
    "call", ["show_locks", "unlock", "open_transactions", "abort_txn", "compactions", "mark_failed"]
)
def test_an_error_is_raised(call: str) -> None:
    """What could not be ended must be tried again before anything is computed."""
    source = hive4(
        locks=(lock(7, agent=OWN_AGENT),),
        queue=(queued(5, state=QueueState.INITIATED, committed=None),),
        broken=frozenset({call}),
        **opened((50, OWN_AGENT)),
    )
    with pytest.raises(MetastoreError, match=call):
        end_attempt(source, OWN, TABLE)


def test_hive_3_is_asked_for_nothing_that_it_lacks() -> None:
    source = metastore(Path("/t"), broken=frozenset({"open_transactions", "compactions"}))
    assert end_attempt(source, OWN, TABLE).queue == ()


def test_an_entry_that_was_committed_just_now_is_not_ended() -> None:
    """The queue is asked for again after the transactions were ended: a driver may have been faster."""
    working = queued(5, state=QueueState.WORKING, committed=None)

    source = hive4(queue=(working,), **opened((50, OWN_AGENT)))

    def commit(txn: int) -> None:
        source.end_txn(txn, COMMITTED)
        source.change_entries(5, state=QueueState.READY_FOR_CLEANING, committed=NOON)

    source.on("abort_txn", commit)
    end_attempt(source, OWN, TABLE)
    assert failed(source) == []


STAGING = "_compaction_u-1-p"
PAIR = ("delta_0000001_0000004", "delete_delta_0000001_0000004")


def test_only_its_own_staging_is_removed(tmp_path: Path) -> None:
    """A late driver's journal must not cost its successor the work that is under way."""
    others = {"_compaction_u-2-p", "_compaction_u-11-p", "_compaction_uu-1-p", "_compaction_u-1-1-p"}
    for name in (STAGING, "_compaction_u-1-q.fenced", *others):
        (tmp_path / name).mkdir()
    end_attempt(metastore(tmp_path), OWN, TABLE, Target("", str(tmp_path), 100))
    assert names(tmp_path) == others


def test_staging_that_a_driver_of_the_version_before_made_goes_too(tmp_path: Path) -> None:
    """Its name has only the first characters of the UID. A name with a whole UID has to match all of it."""
    uid = "0a1b2c3d-1111-4222-8333-444455556666"
    others = {"_compaction_0a1b2c3d-2-p", "_compaction_0a1b2c3e-1-p", f"_compaction_{uid[:-1]}7-1-p"}
    for name in ("_compaction_0a1b2c3d-1-p", f"_compaction_{uid}-1-p", *others):
        (tmp_path / name).mkdir()
    end_attempt(metastore(tmp_path), Attempt(uid, 1), TABLE, Target("", str(tmp_path), 100))
    assert names(tmp_path) == others


def test_a_pair_is_completed_before_its_lock_is_given_back(tmp_path: Path) -> None:
    """H3: the EXCLUSIVE lock of a dead driver keeps readers from the half of a pair."""
    make_directory(tmp_path, PAIR[0])
    make_directory(tmp_path / STAGING, PAIR[1])
    (tmp_path / STAGING / "_intent").write_text(json.dumps({"outputs": PAIR}))
    seen: list[set[str]] = []

    source = metastore(tmp_path, locks=(lock(7, agent=OWN_AGENT, type="EXCLUSIVE"),))
    source.on("unlock", lambda _: seen.append(names(tmp_path)))
    end_attempt(source, OWN, TABLE, Target("", str(tmp_path), 100))
    assert seen == [set(PAIR)]


def test_a_pair_that_a_driver_of_the_version_before_published_by_half_is_completed(tmp_path: Path) -> None:
    """That named its staging by the first 8 characters of the UID; without its other half nothing is ever settled."""
    own = Attempt("0a1b2c3d-0000-4000-8000-000000000000", 1)
    older, others = "_compaction_0a1b2c3d-1-9f8e7d6c", {"_compaction_0a1b2c3d-2-9f8e7d6c", "_compaction_0a1b2c3e-1-p"}
    make_directory(tmp_path, PAIR[0])
    make_directory(tmp_path / older, PAIR[1])
    (tmp_path / older / "_intent").write_text(json.dumps({"outputs": PAIR}))
    for name in others:
        (tmp_path / name).mkdir()
    end_attempt(metastore(tmp_path), own, TABLE, Target("", str(tmp_path), 100))
    assert names(tmp_path) == {*PAIR, *others}


def test_an_unreachable_place_is_reported_and_holds_up_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "b" / STAGING).mkdir(parents=True)
    (tmp_path / "a").symlink_to(tmp_path / "b")
    places = [Target(f"prt={name}", str(tmp_path / name), 100) for name in "ab"]
    locks = tuple(lock(n, agent=OWN_AGENT, partition=where) for n, where in ((7, "prt=a"), (8, "prt=b"), (9, None)))
    source = metastore(tmp_path, locks=locks)
    ended = end_attempt(source, OWN, TABLE, *places)
    assert list(ended.unreachable) == ["prt=a"]
    assert "symbolic link" in ended.unreachable["prt=a"]
    assert names(tmp_path / "b") == set()
    assert source.asked("unlock") == [8, 9]


def test_the_lock_on_a_partition_that_was_not_looked_at_is_left(tmp_path: Path) -> None:
    """H3: half of a pair may lie behind its EXCLUSIVE lock until the attempt's journal that names it is settled, too.

    A batch has many journals, and the first one to be settled must not let readers in everywhere.
    """
    held = (lock(7, agent=OWN_AGENT), lock(8, agent=OWN_AGENT, partition="prt=b", type="EXCLUSIVE"))
    source = metastore(tmp_path, locks=held)
    here, there = (Target(f"prt={name}", str(tmp_path / name), 100) for name in "ab")
    assert end_attempt(source, OWN, TABLE, here).locks == {7, 8}
    assert source.asked("unlock") == [7]
    end_attempt(source, OWN, TABLE, here, there)
    assert source.asked("unlock") == [7, 8]


def test_of_a_driver_that_is_at_work_elsewhere_only_what_is_about_these_places_is_ended(tmp_path: Path) -> None:
    """Its next batch may have begun: it holds the table, other partitions, and transactions that have no lock yet."""
    here = Target("prt=a", str(tmp_path), 100)
    locks = (lock(7, agent=OWN_AGENT), lock(8, agent=OWN_AGENT, partition="prt=a"), lock(9, agent=OWN_AGENT, txn=51))
    entries = tuple(
        queued(number, partition=where, txn=txn, state=QueueState.WORKING, committed=None)
        for number, where, txn in ((5, "prt=a", 50), (6, "prt=b", 52))
    )
    source = hive4(locks=locks, queue=entries, **opened(*((txn, OWN_AGENT) for txn in (50, 51, 52, 53))))
    ended = end_attempt(source, OWN, TABLE, here, whole=False)
    assert (source.asked("unlock"), source.asked("abort_txn"), failed(source)) == ([8], [50], [5])
    assert ended.locks == {8}


class Silent(LocalStorage):
    """A store that does not answer."""

    def list(self, path: str) -> list[Entry]:
        raise StorageError(f"{path}: no answer", passing=True)


def test_while_a_store_does_not_answer_the_lock_before_half_a_pair_is_kept(tmp_path: Path) -> None:
    """H3: without a heartbeat it would end, and the first reader after the outage might come before the controller."""
    hiding = lock(7, agent=OWN_AGENT, type="EXCLUSIVE", partition="p=1")
    others = (lock(8, agent=OWN_AGENT), lock(9, agent="hive", type="EXCLUSIVE"))
    source = metastore(tmp_path, locks=(hiding, *others))
    with pytest.raises(StorageError, match="no answer"):
        module.end_attempt(lambda _: Silent(), source, OWN, TABLE, [Target("p=1", str(tmp_path), 1)])
    assert (source.asked("heartbeat"), source.asked("unlock")) == ([7], [])


def test_a_lock_that_is_lost_does_not_hide_why_the_attempt_cannot_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: FakeMetastore, lock_id: int) -> None:
        raise LockLost(f"lock {lock_id} is gone")

    source = metastore(tmp_path, locks=(lock(7, agent=OWN_AGENT, type="EXCLUSIVE"),))
    monkeypatch.setattr(FakeMetastore, "heartbeat", lost)
    with pytest.raises(StorageError, match="no answer"):
        module.end_attempt(lambda _: Silent(), source, OWN, TABLE, [Target("", str(tmp_path), 1)])
