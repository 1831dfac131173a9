"""What is chosen of Hudi's own plan, and what is said when nothing is."""

from functools import partial

import pytest

from compaction_operator.hudi import Choice, LogFile, Operation
from compaction_operator.hudi.log_blocks import UNKNOWN


def operation(*sizes: int, partition: str = "dt=1") -> Operation:
    files = tuple(LogFile(f"log.{number}", (f"{10 * number:03}",), size) for number, size in enumerate(sizes, 1))
    return Operation(partition, "f1", files)


def choice(limit: int | None = 20, *, newest_only: bool = False, partitions: tuple[str, ...] = ()) -> Choice:
    return Choice(threshold=3, limit=limit, partitions=partitions, newest_only=newest_only)


def test_only_the_partitions_that_were_asked_for_are_merged() -> None:
    for wanted in ("dt=1", "/dt=1/", "dt=1/hour=2"):
        one = choice(partitions=(wanted, "other"))
        assert one.covers("dt=1/hour=2")
        assert not one.covers("dt=11")
    assert choice(partitions=("dt=2",))(operation(1, 1, 1), ()) == ()
    assert len(choice(partitions=("dt=1",))(operation(1, 1, 1), ())) == 3


def test_too_few_small_blocks_in_a_row_are_counted() -> None:
    one = choice()
    assert not one(operation(1, 1, 99, 1), ())
    assert one.why_nothing([4]) == "2 consecutive blocks of at most 20 bytes, threshold 3"


def test_no_small_block_at_all_is_said_too() -> None:
    one = choice()
    assert not one(operation(99, 98, 97), ())
    assert one.why_nothing([3]) == "0 consecutive blocks of at most 20 bytes, threshold 3"


def test_without_a_limit_the_blocks_of_the_fullest_file_group_are_counted() -> None:
    assert choice(limit=None).why_nothing([1, 2, 0]) == "2 blocks, threshold 3"
    assert choice(limit=None).why_nothing([]) == "0 blocks, threshold 3"


def test_a_pending_delta_commit_that_is_in_the_way_is_named() -> None:
    one = choice()
    assert not one(operation(1, 1, 1, 1), ("025",))
    assert one.held_up_by == "file group f1: delta commit 025 is pending"


def test_what_is_too_little_anyhow_is_not_held_up() -> None:
    one = choice()
    assert not one(operation(1, 1), ("015",))
    assert one.held_up_by is None


def test_what_a_reader_would_replay_too_late_is_left_alone() -> None:
    """Three small blocks with a large one after them."""
    assert len(choice()(operation(1, 1, 1, 99), ())) == 3
    assert not choice(newest_only=True)(operation(1, 1, 1, 99), ())


def test_blocks_of_changed_columns_only_are_named() -> None:
    files = tuple(LogFile(f"log.{n}", (f"{n}",), 1, partial=n == 2) for n in (1, 2, 3))
    one = choice()
    assert not one(Operation("", "f1", files), ())
    assert one.why_nothing([3]).startswith("file group f1: log.2: its records contain changed columns only")


def test_blocks_with_deletes_are_named_where_they_would_be_lost() -> None:
    files = tuple(LogFile(f"log.{n}", (f"{n}",), 1, deletes=frozenset({2} if n == 2 else ())) for n in (1, 2, 3))
    one = Choice(threshold=3, limit=None, partitions=(), newest_only=False, keeps_deletes=False)
    assert not one(Operation("", "f1", files), ())
    assert one.why_nothing([3]).startswith("file group f1: log.2: its deletes would be lost by Hudi 1.0")


def test_a_block_that_was_rolled_back_is_no_obstacle() -> None:
    dead = LogFile("log.1", ("1",), 1, deletes=frozenset({2}))
    rollback = LogFile("log.2", (), 1, rolls_back=frozenset({"1"}))
    one = Choice(threshold=3, limit=None, partitions=(), newest_only=False, keeps_deletes=False)
    assert one.obstacle([dead, rollback, LogFile("log.3", ("3",), 1)]) is None
    assert one.obstacle([dead])


@pytest.mark.parametrize("types", [(1, 2, 3), (UNKNOWN, UNKNOWN, UNKNOWN)], ids=["two", "unknown"])
def test_deletes_of_two_types_are_named_where_they_keep_blocks_apart(types: tuple[int, ...]) -> None:
    files = tuple(LogFile(f"log.{n}", (f"{n}",), 1, deletes=frozenset({one})) for n, one in enumerate(types, 1))
    one = choice()
    assert not one(Operation("", "f1", files), ())
    assert one.why_nothing([3]).startswith("file group f1: its deletes have ordering values of two types")


def test_deletes_by_operation_are_named_where_a_block_below_keeps_them_from_being_merged() -> None:
    files = tuple(LogFile(f"log.{n}", (f"{n}",), 9 if n == 1 else 1, deletes=frozenset({2} if n == 2 else ()))
                  for n in (1, 2, 3))  # fmt: skip
    rules = partial(Choice, threshold=2, limit=5, partitions=(), newest_only=False)
    one = rules(by_event_time=True)
    assert not one(Operation("", "f1", files), ())
    assert one.why_nothing([3]).startswith("file group f1: its deletes by operation have no ordering value")
    assert len(rules(by_event_time=False)(Operation("", "f1", files), ())) == 2


def test_a_plan_with_a_delete_by_flag_above_one_by_operation_is_never_run() -> None:
    """Hudi's own planner makes such plans of tables by event time, and so did drivers of an earlier version."""
    kinds = {2: frozenset({2}), 4: frozenset({3})}
    files = [LogFile(f"log.{n}", (f"{n}",), 1, deletes=kinds.get(n, frozenset())) for n in range(1, 6)]
    chooses = partial(Choice, threshold=2, limit=None, partitions=(), newest_only=False)
    assert "deletes by flag above them are not merged" in str(chooses(by_event_time=True).obstacle(files))
    assert chooses(by_event_time=True).obstacle(files[2:]) is None
    assert chooses(by_event_time=False).obstacle(files) is None
