"""The reader gate: who was there before, and is anyone left."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from compaction_operator.api.cleanup import Blocker, BlockerHealth, BlockerKind, ReaderBaseline
from compaction_operator.api.compaction import Readers
from compaction_operator.cleanup.readers import ReaderSnapshot, blockers, distrust, grace_left, take_baseline
from compaction_operator.metastore import LockInfo, OpenTransactions
from tests.unit.cleanup.support import NOON, lock, open_txns

PARTITIONED = {"prt=p1", "prt=p3"}


def _lock_ids(*locks: object, partitions: set[str] = PARTITIONED, own: tuple[int, ...] = ()) -> tuple[int, ...]:
    snapshot = ReaderSnapshot(locks, open_txns(0))  # type: ignore[arg-type]
    return take_baseline(snapshot, partitions=partitions, own_locks=own, now=NOON).lock_ids


def _left(
    baseline: ReaderBaseline,
    locks: Sequence[LockInfo],
    txns: OpenTransactions,
    *,
    readers: Readers = Readers.LOCKS_AND_TRANSACTIONS,
    elsewhere: frozenset[int] = frozenset(),
    locking: frozenset[int] = frozenset(),
    now: datetime = NOON,
) -> tuple[Blocker, ...]:
    return blockers(baseline, ReaderSnapshot(tuple(locks), txns, elsewhere, locking), readers=readers, now=now)


def _baseline(*lock_ids: int, mark: int = 0) -> ReaderBaseline:
    return ReaderBaseline(time="2026-01-01T12:00:00.000Z", txn_high_water_mark=mark, lock_ids=lock_ids)


def test_a_metastore_whose_marks_went_back_says_nothing() -> None:
    """Another URI may lead to a lagging or a different metastore: its answer "no readers" does not count."""
    assert distrust(_baseline(mark=1000), ReaderSnapshot((), open_txns(999))) is not None
    assert distrust(_baseline(mark=1000), ReaderSnapshot((), open_txns(1000))) is None


def test_a_lock_on_the_whole_table_counts_for_a_partitioned_journal() -> None:
    """H5: asked for a partition, the metastore would not even return this lock."""
    assert _lock_ids(lock(1)) == (1,)


def test_a_lock_on_the_database_counts() -> None:
    """H5."""
    assert _lock_ids(lock(1, table=None)) == (1,)


def test_a_lock_on_one_of_the_partitions_counts() -> None:
    assert _lock_ids(lock(1, partition="prt=p3")) == (1,)


def test_a_lock_on_another_partition_does_not_count() -> None:
    """Its reader never looks at what is deleted here."""
    assert _lock_ids(lock(1, partition="prt=p2")) == ()


@pytest.mark.parametrize(
    ("locked", "name"),
    [
        ("prt=p1", "prt=P1"),
        ("PRT=P1", "prt=p1"),
        ("prt=p1", "Prt=p1"),
        ("prt=a%3ab", "prt=a%3Ab"),
        ("prt=100%25", "prt=100%2525"),
    ],
)
def test_the_spelling_of_partition_names_does_not_matter(locked: str, name: str) -> None:
    """H5: the metastore does not keep a lock's partition as its name is (see lock_name)."""
    assert _lock_ids(lock(1, partition=locked), partitions={name}) == (1,)


@pytest.mark.parametrize(
    ("locked", "counts"), [("year=2024", True), ("year=2024/month", True), ("year=2023", False), ("day=7", True)]
)
def test_a_lock_on_a_prefix_of_the_keys_counts_where_it_fits(locked: str, counts: bool) -> None:
    """An insert into dynamic partitions does not know the last values yet."""
    assert _lock_ids(lock(1, partition=locked), partitions={"year=2024/month=1"}) == ((1,) if counts else ())


def test_every_lock_counts_for_an_unpartitioned_table() -> None:
    assert _lock_ids(lock(1), lock(2, table=None), partitions={""}) == (1, 2)


@pytest.mark.parametrize("kind", ["SHARED_READ", "SHARED_WRITE", "EXCLUSIVE", "EXCL_WRITE", "A_FUTURE_TYPE"])
@pytest.mark.parametrize("state", ["ACQUIRED", "WAITING"])
def test_locks_of_every_type_and_state_count(kind: str, state: str) -> None:
    assert _lock_ids(lock(1, type=kind, state=state)) == (1,)


def test_own_locks_are_left_out_by_id_alone() -> None:
    """Another lock of the same user and agent may be a reader's, or another attempt's that still reads."""
    assert _lock_ids(lock(1, agent="compaction"), lock(2, agent="compaction"), own=(1,)) == (2,)


def test_a_lock_of_the_baseline_blocks_until_it_is_gone() -> None:
    found = _left(_baseline(7), [lock(7)], open_txns(0))
    assert [(b.kind, b.id, b.user, b.host) for b in found] == [(BlockerKind.LOCK, 7, "ann", "desk")]
    assert str(found[0]) == "lock 7 of ann@desk since 2026-01-01T12:00:00.000Z"
    assert _left(_baseline(7), [], open_txns(0)) == ()


def test_a_transaction_opened_before_blocks_although_it_holds_no_lock_yet() -> None:
    """H1 (HIVE-24291): its snapshot is from before, its lock and its reads come later."""
    found = _left(_baseline(mark=40), [], open_txns(45, 40))
    assert [(b.kind, b.id) for b in found] == [(BlockerKind.TRANSACTION, 40)]


def test_a_reader_who_comes_after_the_baseline_does_not_hold_it_up() -> None:
    assert _left(_baseline(7, mark=40), [lock(8, txn=41)], open_txns(41, 41)) == ()


def test_a_lock_taken_after_the_baseline_in_a_transaction_from_before_still_blocks() -> None:
    """H1, a moment later: the lock is new, the transaction is not."""
    found = _left(_baseline(mark=40), [lock(8, txn=40)], open_txns(40, 40))
    assert [b.id for b in found] == [40]


def test_a_reader_that_has_a_lock_in_a_transaction_is_one_reader() -> None:
    """It is named once, with both ids. When its lock is gone, its transaction still blocks."""
    (found,) = _left(_baseline(7, mark=40), [lock(7, txn=40)], open_txns(40, 40))
    assert (found.kind, found.id, found.txn_id) == (BlockerKind.LOCK, 7, 40)
    assert str(found) == "lock 7 (transaction 40) of ann@desk since 2026-01-01T12:00:00.000Z"
    (left,) = _left(_baseline(7, mark=40), [], open_txns(40, 40))
    assert (left.kind, left.id, left.txn_id) == (BlockerKind.TRANSACTION, 40, None)
    (later,) = _left(_baseline(7, mark=40), [lock(8, txn=40)], open_txns(40, 40))
    assert (later.kind, later.id) == (BlockerKind.TRANSACTION, 40)


def test_the_baseline_stores_the_mark_and_the_time_in_utc() -> None:
    local = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    baseline = take_baseline(ReaderSnapshot((), open_txns(40, 39)), partitions={""}, own_locks=(), now=local)
    assert (baseline.time, baseline.txn_high_water_mark) == ("2026-01-01T12:00:00.000Z", 40)


def test_blockers_come_oldest_first_locks_before_transactions() -> None:
    found = _left(_baseline(3, 9, mark=40), [lock(9), lock(3)], open_txns(40, 40, 12))
    assert [b.id for b in found] == [3, 9, 12, 40]


def test_grace_counts_from_the_baseline() -> None:
    """Not from the moment the last reader left: two minutes after the baseline a minute's grace is over."""
    baseline = _baseline()
    assert grace_left(baseline, grace_period=60, now=NOON + timedelta(seconds=20)) == 40
    assert grace_left(baseline, grace_period=60, now=NOON + timedelta(minutes=2)) == 0


def test_transactions_do_not_count_where_only_locks_do() -> None:
    """The openLooKeng document's rule, for those who want it: the transaction from before is overlooked."""
    txns = open_txns(45, 40)
    assert [one.id for one in _left(_baseline(7, mark=40), [lock(7)], txns, readers=Readers.LOCKS)] == [7]
    assert _left(_baseline(7, mark=40), [], txns, readers=Readers.LOCKS) == ()


@pytest.mark.parametrize(
    ("readers", "left"),
    [
        (Readers.LOCKS_AND_TRANSACTIONS, [38, 39, 40]),
        (Readers.LOCKS_AND_OWN_TRANSACTIONS, [38, 40]),
        (Readers.LOCKS, []),
    ],
)
def test_transactions_that_have_locked_other_tables_only(readers: Readers, left: list[int]) -> None:
    """38 holds no lock at all, 39 one on another table, 40 one on this one, whatever else."""
    txns, locking = open_txns(45, 38, 39, 40), frozenset({39, 40})
    found = _left(_baseline(mark=40), [lock(8, txn=40)], txns, readers=readers, locking=locking)
    assert [one.id for one in found] == left


def test_a_transaction_that_compacts_another_table_is_no_reader() -> None:
    """Else each compaction of a long list would hold up the cleanups of all that came before."""
    found = _left(_baseline(mark=40), [], open_txns(45, 38, 40), elsewhere=frozenset({40}))
    assert [one.id for one in found] == [38]


def test_a_transaction_that_locks_this_table_is_a_reader_whatever_the_queue_says() -> None:
    found = _left(_baseline(mark=40), [lock(8, txn=40)], open_txns(45, 40), elsewhere=frozenset({40}))
    assert [one.id for one in found] == [40]


@pytest.mark.parametrize(
    ("held_for", "silent_for", "health"),
    [
        (timedelta(hours=1), timedelta(seconds=300), BlockerHealth.ALIVE),
        (timedelta(hours=1), timedelta(seconds=301), BlockerHealth.LIKELY_LEAKED),
        (timedelta(hours=25), timedelta(seconds=1), BlockerHealth.LIKELY_LEAKED),
        (timedelta(hours=25), None, BlockerHealth.UNKNOWN),
    ],
)
def test_the_health_of_a_lock(held_for: timedelta, silent_for: timedelta | None, health: BlockerHealth) -> None:
    """H12: a leaked lock may well have heartbeats. The status shows it, and the cleanup still waits for it."""
    held = lock(7, acquired_at=NOON - held_for, last_heartbeat=None if silent_for is None else NOON - silent_for)
    (found,) = _left(_baseline(7), [held], open_txns(0))
    assert (found.id, found.health) == (7, health)


def test_a_lock_of_a_transaction_has_the_heartbeat_of_that() -> None:
    """The metastore says none for the lock itself (TxnHandler.heartbeatTxn)."""
    beat = NOON - timedelta(seconds=10)
    txn = replace(open_txns(9, 9).open[0], last_heartbeat=beat)
    (found,) = _left(_baseline(7), [lock(7, txn=9)], OpenTransactions(9, (txn,)))
    assert (found.health, found.last_heartbeat) == (BlockerHealth.ALIVE, "2026-01-01T11:59:50.000Z")
