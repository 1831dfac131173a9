"""The reader watch: the cost of ten thousand waiting cleanups, when each gets an answer, and which answers count."""

from compaction_operator.api.compaction import Readers
from compaction_operator.cleanup.readers import ReaderSnapshot
from compaction_operator.controller.answers import Trouble
from compaction_operator.controller.cleanup.reader_watch import Look, ReaderWatch
from compaction_operator.controller.kube.resources import Key, ResourceKind, TableKey
from compaction_operator.metastore import OpenTransactions, TxnInfo
from tests.unit.controller.sandbox import NOON, REFUSED, baseline, reader_snapshot

ORDERS = TableKey("lake", "sales", "orders")


def key(name: object = "c") -> Key:
    return Key(ResourceKind.CLEANUP, "default", str(name))


def watch(
    gate: ReaderWatch,
    name: object = "c",
    *,
    now: float,
    table: TableKey = ORDERS,
    interval: float = 2.0,
    locks: tuple[int, ...] = (12,),
) -> None:
    readers = Readers.LOCKS_AND_TRANSACTIONS
    gate.watch(key(name), table, baseline(*locks), readers=readers, interval=interval, now=now)


def seen(gate: ReaderWatch, name: object = "c") -> Look:
    look = gate.view(key(name))
    assert look is not None
    return look


def due(gate: ReaderWatch) -> float:
    time = gate.next_due()
    assert time is not None
    return time


def finish(gate: ReaderWatch, answer: ReaderSnapshot | Trouble) -> list[Key]:
    return gate.finish({ORDERS: answer}, now=NOON)


def tick(gate: ReaderWatch, now: float, answer: ReaderSnapshot | Trouble) -> list[Key]:
    """One tick: look at what is due, tell whom it concerns."""
    tables = [table for due in gate.start_due(now).values() for table in due]
    return gate.finish(dict.fromkeys(tables, answer), now=NOON)


def test_ten_thousand_waiting_cleanups_of_a_hundred_tables_cost_a_hundred_looks_a_tick() -> None:
    gate = ReaderWatch()
    tables = [TableKey("lake", "sales", f"t{index}") for index in range(100)]
    for index in range(10_000):
        watch(gate, index, now=index / 10_000, table=tables[index % 100])
    looks = []
    for now in [1.0, 1.5, 2.0, 2.9, 4.0, 5.9, 6.0]:
        started = gate.start_due(now)
        told = gate.finish(dict.fromkeys(started.get("lake", ()), reader_snapshot(12)), now=NOON)
        looks.append([len(tables) for tables in started.values()])
        assert len(told) == (10_000 if now == 1.0 else 0)
    assert looks == [[100], [], [100], [], [100], [], [100]]


def test_one_look_at_a_time_per_table() -> None:
    """A metastore that takes longer than the interval is not asked again before it has answered."""
    gate = ReaderWatch()
    watch(gate, now=0.0)
    assert gate.start_due(0.0) == {"lake": [ORDERS]}
    assert gate.start_due(60.0) == {}
    finish(gate, reader_snapshot(12))
    assert gate.start_due(60.0) == {"lake": [ORDERS]}


def test_each_cleanup_gets_answers_at_its_own_interval() -> None:
    gate = ReaderWatch()
    watch(gate, "quick", now=0.0, interval=2.0)
    watch(gate, "slow", now=0.0, interval=5.0)
    assert tick(gate, 0.0, reader_snapshot(12)) == [key("quick"), key("slow")]
    assert tick(gate, 2.0, reader_snapshot()) == [key("quick")]
    assert seen(gate, "slow").blockers
    gate.forget(key("quick"))
    assert gate.next_due() == 5.0
    assert tick(gate, 5.0, reader_snapshot()) == [key("slow")]


def test_a_look_that_began_before_a_cleanup_waited_does_not_count_for_it() -> None:
    """The answer may lack a lock that the baseline has: it was taken after the question was put."""
    gate = ReaderWatch()
    watch(gate, "first", now=0.0)
    gate.start_due(0.0)
    watch(gate, "second", now=0.1)
    finish(gate, reader_snapshot())
    assert seen(gate, "first").blockers == ()
    assert gate.view(key("second")) is None
    assert tick(gate, 2.0, reader_snapshot(12)) == [key("first"), key("second")]


def test_only_changes_are_reported() -> None:
    """The same readers with other heartbeats are no change. One reader less is a change, and so is an error."""
    gate = ReaderWatch()
    watch(gate, now=0.0, locks=(12, 13))
    assert tick(gate, 0.0, reader_snapshot(12, 13)) == [key()]
    assert tick(gate, 2.0, reader_snapshot(12, 13)) == []
    assert tick(gate, 4.0, reader_snapshot(13)) == [key()]
    assert tick(gate, 6.0, REFUSED) == [key()]
    assert seen(gate).error == "connection refused"


def test_errors_slow_the_looks_down_within_bounds() -> None:
    gate = ReaderWatch()
    watch(gate, now=0.0)
    times: list[float] = []
    now = 0.0
    for _ in range(5):
        gate.start_due(now)
        finish(gate, REFUSED)
        times.append(due(gate) - now)
        now = due(gate)
    assert times == [4.0, 8.0, 10.0, 10.0, 10.0]
    tick(gate, now, reader_snapshot(12))
    assert gate.next_due() == now + 2.0


def test_an_interval_above_the_cap_stays_as_it_is_on_errors() -> None:
    gate = ReaderWatch()
    watch(gate, now=0.0, interval=60.0)
    tick(gate, 0.0, REFUSED)
    assert gate.next_due() == 60.0


def test_watching_again_changes_nothing() -> None:
    """Each reconcile says that it waits. Only another interval restarts the watch."""
    gate = ReaderWatch()
    watch(gate, now=0.0)
    tick(gate, 0.0, reader_snapshot(12))
    watch(gate, now=1.0)
    assert gate.next_due() == 2.0
    assert seen(gate).blockers


def test_forgotten_cleanups_cost_nothing() -> None:
    gate = ReaderWatch()
    watch(gate, now=0.0)
    gate.forget(key())
    gate.forget(key())
    assert gate.start_due(100.0) == {}
    assert gate.next_due() is None
    assert gate.view(key()) is None


def test_forgotten_during_a_look() -> None:
    gate = ReaderWatch()
    watch(gate, now=0.0)
    gate.start_due(0.0)
    gate.forget(key())
    assert finish(gate, reader_snapshot()) == []


def test_a_warehouses_tables_are_looked_at_together() -> None:
    """After its first look, each table joins the tick of the others, no matter when its cleanup began to wait."""
    gate = ReaderWatch()
    tables = [TableKey(warehouse, "sales", f"t{index}") for warehouse in ("lake", "sea") for index in range(3)]
    for index, table in enumerate(tables):
        watch(gate, index, now=index / 7, table=table)
        tick(gate, index / 7, reader_snapshot(12))
    assert gate.start_due(2.0) == {"lake": tables[:3], "sea": tables[3:]}


def test_new_readers_never_starve_a_cleanup() -> None:
    """Each tick shows other readers, with locks and with transactions, but none of the baseline's."""
    gate = ReaderWatch()
    watch(gate, now=0.0, locks=(12,))
    for number in range(1, 100):
        newer = OpenTransactions(40 + number, (TxnInfo(txn=40 + number, user="bob", host="desk", state="OPEN"),))
        tick(gate, 2.0 * number, reader_snapshot(12 if number < 50 else 100, 200 + number, txns=newer))
        assert bool(seen(gate).blockers) == (number < 50)


def test_a_table_without_waiting_cleanups_is_forgotten() -> None:
    """Otherwise memory would grow with each table. This includes a table whose last cleanup ends during the look."""
    gate = ReaderWatch()
    for index in range(100):
        watch(gate, index, now=0.0, table=TableKey("lake", "sales", f"t{index}"))
    due = gate.start_due(0.0)
    for index in range(50):
        gate.forget(key(index))
    gate.finish(dict.fromkeys(due["lake"], reader_snapshot()), now=NOON)
    for index in range(50, 100):
        gate.forget(key(index))
    assert not gate._tables


def test_a_look_at_another_metastore_is_an_error() -> None:
    """Whose transactions do not reach the baseline's mark knows nothing of its readers."""
    gate = ReaderWatch()
    watch(gate, now=0)
    tick(gate, 0, ReaderSnapshot((), OpenTransactions(0, ())))
    assert seen(gate).error is not None
