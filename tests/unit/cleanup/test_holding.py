"""No reader starts while a pass hides obsolete directories, and no reader waits long for it."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from compaction_operator.api.cleanup import PublishedState
from compaction_operator.api.request import agent_info
from compaction_operator.cleanup import reader_lock as holding
from compaction_operator.cleanup.deletion import JournalPass, PartitionDeletion, delete_obsolete
from compaction_operator.cleanup.reader_lock import Holding, LockPolicy, ReadersBusyError
from compaction_operator.metastore import LockKind, MetastoreError
from compaction_operator.storage import LocalStorage
from tests.support.metastore import FakeMetastore
from tests.unit.cleanup.support import (
    DELTAS,
    MINOR,
    NOON,
    journal,
    lock,
    make_directory,
    metastore,
    names,
)

OWN = "compaction-operator/cleanup/u/1/"
DRIVER = agent_info(uid="other", attempt=1, pod_uid="p")


IMPATIENT = LockPolicy(queue=0.0)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "POLL_SECONDS", 0.0)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three inserts and the published minor compaction of them."""
    for name in (*DELTAS, MINOR):
        make_directory(tmp_path, name)
    return tmp_path


def _delete(place: Path, source: FakeMetastore, storage: LocalStorage | None = None) -> PartitionDeletion:
    given = JournalPass(lambda _: storage or LocalStorage(), source, journal(place), {"": PublishedState.PUBLISHED})
    return delete_obsolete(given, policy=IMPATIENT)[0]


def arrive(source: FakeMetastore, lock_id: int) -> None:
    """Let a reader have that lock from now on."""
    if lock_id not in {one.lock_id for one in source.locks}:
        source.locks = (*source.locks, lock(lock_id))


class _Watching(LocalStorage):
    """Notes which locks there are when something is renamed or deleted."""

    def __init__(self, source: FakeMetastore) -> None:
        super().__init__()
        self.source = source
        self.seen: list[tuple[str, int]] = []

    def rename(self, source: str, target: str) -> None:
        self.seen.append(("rename", len(self.source.locks)))
        super().rename(source, target)

    def delete_tree(self, path: str) -> int:
        self.seen.append(("delete", len(self.source.locks)))
        return super().delete_tree(path)


def test_all_is_hidden_in_one_go_under_the_lock_and_deleted_after_it(table: Path) -> None:
    """A reader lists the partition, then each directory in it: one that goes in between fails its query."""
    source = metastore(table)
    storage = _Watching(source)
    assert _delete(table, source, storage).final
    assert storage.seen == [("rename", 1)] * 3 + [("delete", 0)] * 3
    (wish,) = source.asked("lock")
    assert (wish.kind, wish.txn, wish.agent, wish.partition) == (LockKind.EXCLUSIVE, 0, OWN, None)


def test_nothing_is_hidden_while_readers_are_at_work_all_the_time(table: Path) -> None:
    source = metastore(table, locks=(lock(7),))
    result = _delete(table, source)
    assert (result.reason, result.final) == ("ReadersBusy", False)
    assert "lock 7 of ann@desk" in (result.skipped or "")
    assert names(table) == {*DELTAS, MINOR}
    assert [one.lock_id for one in source.locks] == [7]
    source.locks = ()
    assert _delete(table, source).final


@pytest.mark.parametrize(
    ("other", "blocks"),
    [
        ({"agent": DRIVER}, False),
        ({"partition": "prt=p1"}, True),
        ({"partition": "prt=p2"}, False),
        ({"table": None}, True),
        ({"type": "SHARED_WRITE", "txn": 9}, True),
    ],
    ids=["a driver of this project", "same partition", "another partition", "database", "a writer"],
)
def test_who_is_waited_for(other: dict[str, object], blocks: bool) -> None:
    """A driver needs nothing that is obsolete, and may hold its lock for hours."""
    held = Holding(metastore(Path("/t"), locks=(lock(7, **other),)), journal(Path("/t")), IMPATIENT)
    if not blocks:
        with held.hold_off("prt=P1"):
            return
    with pytest.raises(ReadersBusyError, match="lock 7"), held.hold_off("prt=P1"):
        pytest.fail("the reader was not waited for")


def test_who_comes_later_is_not_waited_for() -> None:
    """It waits in the metastore's queue, behind the lock."""
    source = metastore(Path("/t"), locks=(lock(7, agent=DRIVER),))
    source.on("lock", lambda _: arrive(source, 2000), after=True)
    with Holding(source, journal(Path("/t")), IMPATIENT).hold_off(""):
        assert len(source.asked("lock")) == 1


def test_who_was_seen_to_read_for_long_has_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a stream of long queries, each begun before the last one ends, would hold up a deletion for ever."""
    moment = [1000.0]
    monkeypatch.setattr("compaction_operator.cleanup.reader_lock.time.monotonic", lambda: moment[0])
    held = Holding(metastore(Path("/t"), locks=(lock(7),)), journal(Path("/t")), LockPolicy(queue=-1.0, planning=30.0))
    for seconds in (0.0, 29.0):
        moment[0] = 1000.0 + seconds
        with pytest.raises(ReadersBusyError), held.hold_off(""):
            pytest.fail("the reader was not waited for")
    moment[0] = 1031.0
    with held.hold_off(""):
        pass


def test_the_metastores_clock_does_not_count() -> None:
    """One that is slow would make every lock an old one."""
    source = metastore(Path("/t"), locks=(lock(7, acquired_at=NOON - timedelta(days=9)),))
    with pytest.raises(ReadersBusyError), Holding(source, journal(Path("/t")), IMPATIENT).hold_off(""):
        pytest.fail("the reader was not waited for")


def test_a_lock_that_waits_has_not_begun_to_read() -> None:
    source = metastore(Path("/t"), locks=(lock(7, state="WAITING", acquired_at=None),))
    with pytest.raises(ReadersBusyError), Holding(source, journal(Path("/t")), IMPATIENT).hold_off(""):
        pytest.fail("the reader was not waited for")


def test_who_insists_holds_new_readers_off_until_the_others_have_listed() -> None:
    assert LockPolicy(planning=20.0).insisting() == LockPolicy(queue=20.0, planning=20.0)


SHARING = LockPolicy(queue=0.0, planning=30.0, shares=True)


def test_a_shared_lock_prevents_a_drop_of_the_table_and_lets_readers_in(table: Path) -> None:
    source = metastore(table)
    storage = _Watching(source)
    (result,) = delete_obsolete(
        JournalPass(lambda _: storage, source, journal(table), {"": PublishedState.PUBLISHED}), policy=SHARING
    )
    assert result.final
    assert storage.seen == [("rename", 1)] * 3 + [("delete", 0)] * 3
    assert [wish.kind for wish in source.asked("lock")] == [LockKind.SHARED_READ]


@pytest.mark.parametrize("lock_id", [7, 2000])
def test_with_a_shared_lock_each_reader_is_waited_for_until_it_has_listed(
    lock_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who came later, too: nothing holds them off."""
    moment = [1000.0]
    monkeypatch.setattr("compaction_operator.cleanup.reader_lock.time.monotonic", lambda: moment[0])
    source = metastore(Path("/t"), locks=(lock(7),) if lock_id == 7 else ())
    source.on("lock", lambda _: arrive(source, lock_id), after=True)
    held = Holding(source, journal(Path("/t")), replace(SHARING, queue=-1.0))
    for seconds in (0.0, 29.0):
        moment[0] = 1000.0 + seconds
        with pytest.raises(ReadersBusyError, match=f"lock {lock_id}"), held.hold_off(""):
            pytest.fail("the reader was not waited for")
    moment[0] = 1031.0
    with held.hold_off(""):
        assert [wish.kind for wish in source.asked("lock")] == [LockKind.SHARED_READ] * 3
    assert [one.lock_id for one in source.locks] == [lock_id]


def test_a_lock_that_an_earlier_life_left_is_given_back(table: Path) -> None:
    """It was killed between two renames: no reader can start until the lock is released."""
    source = metastore(table, locks=(lock(7, agent=OWN), lock(8, agent="compaction-operator/cleanup/u/1/other")))
    assert _delete(table, source).final
    assert [one.lock_id for one in source.locks] == [8]


def test_journals_of_one_attempt_leave_each_others_locks_alone(table: Path) -> None:
    """Their passes run at the same time. Releasing the other's lock would let a reader start between two renames."""
    source, spec = metastore(table), journal(table)
    first, second = (Holding(source, spec, LockPolicy(owner=owner)) for owner in ("one", "two"))
    with first.hold_off(""):
        second.give_back_left()
        assert len(source.locks) == 1


def test_an_unlock_that_fails_is_made_good_by_the_next_pass(table: Path) -> None:
    """No reader can start behind the lock: so the pass is not over, and the next one releases the lock first."""
    source = metastore(table, broken=frozenset({"unlock"}))
    with pytest.raises(MetastoreError, match="unlock"):
        _delete(table, source)
    source.recover()
    result = _delete(table, source)
    assert (result.deleted, result.final, source.locks) == (DELTAS, True, ())


@pytest.mark.parametrize("call", ["lock", "show_locks"])
def test_without_an_answer_nothing_is_hidden(table: Path, call: str) -> None:
    with pytest.raises(MetastoreError, match=call):
        _delete(table, metastore(table, broken=frozenset({call})))
    assert names(table) == {*DELTAS, MINOR}


def test_who_has_nothing_to_hide_takes_no_lock(table: Path) -> None:
    source = metastore(table)
    _delete(table, source)
    source.calls.clear()
    assert _delete(table, source).final
    assert source.asked("lock") == []
