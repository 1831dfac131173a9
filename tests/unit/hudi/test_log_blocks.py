"""Which log files are merged: runs of small, consecutive blocks, and nothing that would change what readers see."""

import functools
import itertools
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compaction_operator.hudi import LogFile
from compaction_operator.hudi.log_blocks import BY_FLAG_AS_INT, UNKNOWN, best_run, blocks_of


def file(instant: int, size: int = 10, *, replaces: tuple[int, ...] = (), number: int = 1) -> LogFile:
    return LogFile(
        f".f_{instant:03}.log.{number}", (f"{instant:03}",), size, frozenset(f"{old:03}" for old in replaces)
    )


def run(
    *files: LogFile,
    threshold: int = 2,
    limit: int | None = 20,
    pending: tuple[int, ...] = (),
    newest_only: bool = False,
    keeps_deletes: bool = True,
    by_event_time: bool = True,
) -> list[str]:
    names = [f"{instant:03}" for instant in pending]
    found = best_run(
        files,
        threshold=threshold,
        limit=limit,
        pending=names,
        newest_only=newest_only,
        keeps_deletes=keeps_deletes,
        by_event_time=by_event_time,
    )
    return [file.instants[0] for block in found for file in block.files]


def test_small_consecutive_blocks_are_merged_from_the_threshold_on() -> None:
    assert run(file(1), file(2), file(3), threshold=3) == ["001", "002", "003"]
    assert run(file(1), file(2), threshold=3) == []


def test_a_block_beyond_the_limit_is_left_alone_and_ends_a_run() -> None:
    """With a gap the merged block would stand after the large one, and put older values over its newer ones."""
    assert run(file(1), file(2), file(3, 21), file(4), file(5), file(6)) == ["004", "005", "006"]
    assert run(file(1), file(2), file(3, 20)) == ["001", "002", "003"]


def test_a_block_with_deletes_ends_a_run_where_the_compactor_would_lose_them() -> None:
    files = [file(1), file(2), replace(file(3), deletes=frozenset({2})), file(4), file(5)]
    assert run(*files) == ["001", "002", "003", "004", "005"]
    assert run(*files, keeps_deletes=False) == ["004", "005"]


@pytest.mark.parametrize(
    ("types", "merged"),
    [
        ([{2}, {}, {2}, {}, {2}], [1, 2, 3, 4, 5]),
        ([{}, {2}, {}, {3}, {}], [3, 4, 5]),
        ([{}, {2}, {}, {2}, {3}], [1, 2, 3, 4]),
        ([{2}, {}, {2, 3}, {}, {}], [4, 5]),
        ([{2}, {3}, {2}, {3}, {2}], []),
        ([{2}, {}, {}, {3}, {}, {}, {2}], [2, 3, 4, 5, 6]),
        ([{}, {UNKNOWN}, {}, {UNKNOWN}, {}, {}], [5, 6]),
    ],
    ids=["one type", "two types", "the older ones", "both in one block", "in turns", "runs overlap", "unknown types"],
)
def test_deletes_with_ordering_values_of_two_types_are_not_merged_into_one_block(
    types: list[set[int]], merged: list[int]
) -> None:
    """Readers without a JVM refuse such a block."""
    files = [replace(file(n), deletes=frozenset(found)) for n, found in enumerate(types, 1)]
    assert run(*files, by_event_time=False) == [f"{n:03}" for n in merged]


def test_the_newest_blocks_of_one_type_are_merged_where_only_they_may_be() -> None:
    types = [{3}, {}, {}, {}, {2}, {}, {3}]
    files = [replace(file(n), deletes=frozenset(found)) for n, found in enumerate(types, 1)]
    assert run(*files, by_event_time=False) == ["002", "003", "004", "005", "006"]
    assert run(*files, by_event_time=False, newest_only=True) == ["006", "007"]


def test_a_merged_block_has_the_types_of_its_originals() -> None:
    by_flag = replace(file(1), deletes=frozenset({3}))
    merged = replace(file(3), replaces=frozenset({"001", "002"}))
    files = by_flag, file(2), merged, replace(file(4), deletes=frozenset({2})), file(5)
    assert run(*files, by_event_time=False) == ["004", "005"]


@pytest.mark.parametrize("kind", [0, 2])
def test_by_event_time_nothing_newer_is_merged_with_a_delete_by_operation_but_with_all_that_is_older(kind: int) -> None:
    """A record above the delete would meet an older one of greater ordering without the delete between the two."""
    deleted = replace(file(3), deletes=frozenset({kind}))
    newer = [file(4), file(5)]
    assert run(file(1), file(2), deleted, *newer) == ["001", "002", "003", "004", "005"]
    assert run(file(1, 99), file(2), deleted, file(4)) == ["002", "003"]
    assert run(file(1, 99), deleted, *newer) == ["004", "005"]
    assert run(file(1, 99), deleted, file(4)) == []
    assert run(file(1, 99), deleted, *newer, by_event_time=False) == ["003", "004", "005"]
    assert run(file(1, 99), replace(deleted, deletes=frozenset({3})), *newer) == ["003", "004", "005"]


def test_a_pending_delta_commit_counts_as_older_than_a_delete_by_operation() -> None:
    deleted = replace(file(3), deletes=frozenset({2}))
    assert run(file(2), deleted, file(4), file(5), pending=(1,)) == ["004", "005"]
    assert run(file(2), deleted, file(4), file(5), pending=(6,)) == ["002", "003", "004", "005"]


@pytest.mark.parametrize("kind", [3, BY_FLAG_AS_INT])
def test_by_event_time_no_delete_by_flag_is_merged_above_a_delete_by_operation(kind: int) -> None:
    """Next to that delete Hudi drops it. Merged with the record between the two, it would come there."""
    flagged = replace(file(4), deletes=frozenset({kind}))
    for below in ({2}, {0}, {UNKNOWN}):
        deleted = replace(file(1), deletes=frozenset(below))
        assert run(deleted, file(2), file(3), flagged, file(5), limit=None)[-1] == "003"
        assert run(deleted, flagged, file(5)) == []
    assert run(file(2), file(3), flagged, file(5)) == ["002", "003", "004", "005"]
    assert run(file(2), flagged, file(5), file(6), pending=(3,)) == ["005", "006"]


EVENT = st.one_of(
    st.none(),
    st.just(("by operation", 0)),
    st.tuples(st.sampled_from(["row", "by flag"]), st.integers(1, 3)),
)
"""What a commit does to one key by event time, with an ordering value: nothing, a delete, or a row."""


def after(state: tuple[str, int] | None, event: tuple[str, int] | None) -> tuple[str, int] | None:
    """Return what Hudi 1.2 makes of two records of a key in its log (BufferedRecordMergerFactory)."""
    if state is None or event is None:
        return event or state
    if event[0] == "by operation":
        return state if state[0] == "by operation" else event
    if state[0] == "by operation":
        return state if event[0] == "by flag" else event
    return event if event[1] >= state[1] else state


def shown(base: int | None, events: Iterable[tuple[str, int] | None]) -> int | None:
    """Return the ordering value of the row that a reader shows, over a row of a base file or none."""
    state = functools.reduce(after, events, None)
    if state is None:
        return base
    if state[0] == "by operation":
        return None
    if base is not None and base > state[1]:
        return base
    return None if state[0] == "by flag" else state[1]


ROW, FLAGGED, DELETED = ("row", 1), ("by flag", 3), ("by operation", 0)


@settings(max_examples=1000)
@example([(DELETED, 1), (ROW, 1), (FLAGGED, 1)], [ROW], None, True)
@example([(DELETED, 1), (FLAGGED, 1), (("row", 2), 1)], [], None, False)
@example([(("row", 3), 99), (DELETED, 1), (ROW, 1)], [], None, False)
@given(
    st.lists(st.tuples(EVENT, st.sampled_from([1, 1, 99])), max_size=7),
    st.lists(EVENT, max_size=2),
    st.sampled_from([None, 1, 2, 3]),
    st.booleans(),
)
def test_whatever_is_merged_a_key_stays_what_it_is(
    commits: list[tuple[tuple[str, int] | None, int]],
    later: list[tuple[str, int] | None],
    base: int | None,
    flags_are_ints: bool,
) -> None:
    """By event time, also after later commits, and whatever other blocks are too large."""
    types = {"by operation": 2, "by flag": BY_FLAG_AS_INT if flags_are_ints else 3}
    events = [event for event, _ in commits]
    files = [
        replace(file(number, size), deletes=frozenset({types[event[0]]} if event and event[0] in types else ()))
        for number, (event, size) in enumerate(commits, 1)
    ]
    merged = [int(name) for name in run(*files, threshold=2)]
    if not merged:
        return
    first, end = merged[0] - 1, merged[-1]
    folded = [*events[:first], functools.reduce(after, events[first:end], None), *events[end:]]
    for number in range(len(later) + 1):
        assert shown(base, [*folded, *later[:number]]) == shown(base, [*events, *later[:number]])


def test_the_longest_run_is_taken_and_of_several_the_newest() -> None:
    assert run(file(1), file(2), file(3), file(4, 99), file(5), file(6)) == ["001", "002", "003"]
    assert run(file(1), file(2), file(3, 99), file(4), file(5)) == ["004", "005"]


def test_without_a_limit_all_blocks_are_small() -> None:
    assert run(file(1, 10**12), file(2), limit=None) == ["001", "002"]


def test_a_run_ends_where_something_pending_would_come_between() -> None:
    """Its blocks would be in the middle once it commits, and the merged block stands at its newest original."""
    assert run(file(1), file(2), file(4), file(5), file(6), pending=(3,)) == ["004", "005", "006"]
    assert run(file(1), file(2), pending=(3,)) == ["001", "002"]


def test_under_the_first_scanner_only_the_newest_blocks_are_merged() -> None:
    """It replays a merged block at its own instant, after all that is older: also after a block that was left out."""
    assert run(file(1), file(2), file(3), file(4, 99), newest_only=True) == []
    assert run(file(1), file(2), file(3), file(4, 99), file(5), file(6), newest_only=True) == ["005", "006"]


@pytest.mark.parametrize("pending", [1, 4, 7])
def test_under_the_first_scanner_nothing_pending_may_be_newer_than_the_runs_begin(pending: int) -> None:
    merged = run(file(2), file(3), file(5), file(6), pending=(pending,), newest_only=True)
    assert merged == {1: ["002", "003", "005", "006"], 4: ["005", "006"], 7: []}[pending]


def test_all_files_of_an_instant_go_together() -> None:
    """A reader drops every block of a merged instant, whichever file it is in; their sizes add up."""
    assert run(file(1), file(2), file(2, number=2), file(3)) == ["001", "002", "002", "003"]
    assert run(file(1), file(2, 15), file(2, 15, number=2), file(3), file(4)) == ["003", "004"]


def test_a_merged_block_counts_as_one_and_brings_its_originals() -> None:
    """Without them among the files that are read, a reader skips it."""
    files = (file(1), file(2), file(4, 15, replaces=(1, 2)), file(5))
    assert [block.size for block in blocks_of(files)] == [15, 10]
    assert run(*files) == ["001", "002", "004", "005"]
    assert run(*files, threshold=3) == []
    assert run(*files, file(6), limit=12) == ["005", "006"]


def test_a_merged_block_stands_where_its_newest_original_stood() -> None:
    """A block that came in while it was merged has an older instant than the merged one, but is newer."""
    blocks = blocks_of((file(1), file(2), file(3), file(4, replaces=(1, 2))))
    assert [(block.first, block.last) for block in blocks] == [("001", "002"), ("003", "003")]
    assert run(file(1), file(2), file(3), file(9, replaces=(1, 2)), pending=(5,)) == ["001", "002", "009", "003"]


def test_merged_again_and_again_it_is_still_one_block() -> None:
    files = (file(1), file(2), file(3, replaces=(1, 2)), file(4), file(5, replaces=(3, 4)))
    (block,) = blocks_of(files)
    assert block.files == files
    assert (block.first, block.last, block.size) == ("001", "004", 10)


def test_merged_again_it_stands_where_the_newest_of_all_its_originals_stood() -> None:
    """Not where the block stood that was merged in between: that one is younger than a block it never saw."""
    again = (file(1), file(2), file(3), file(5), file(9, replaces=(1, 2)), file(12, replaces=(9, 3)))
    assert [(block.first, block.last) for block in blocks_of(again)] == [("001", "003"), ("005", "005")]


def test_blocks_of_changed_columns_only_are_left_alone() -> None:
    """Hudi 1.0 would lose such records in a log compaction, and say nothing; 1.2 would fail."""
    partial = LogFile("p", ("003",), 10, partial=True)
    assert run(file(1), file(2), partial, file(4), file(5), file(6)) == ["004", "005", "006"]
    assert run(file(1), partial, file(4), limit=None) == []


def test_files_that_hold_blocks_of_several_instants_stay_whole() -> None:
    """In table version 6 a file may be appended to."""
    files = (LogFile("a", ("001", "002"), 10), LogFile("b", ("002", "003"), 10), LogFile("c", ("004",), 10))
    assert [block.files for block in blocks_of(files)] == [files[:2], files[2:]]


HISTORIES = st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=10)


def test_what_was_rolled_back_counts_for_nothing_and_goes_with_its_rollback() -> None:
    """A merge that took the one without the other would bring to life what was rolled back (table version 6)."""
    dead, rollback = file(3, replaces=(1, 2)), LogFile("rollback", (), 10, rolls_back=frozenset({"003"}))
    one, two, four, five = (file(instant) for instant in (1, 2, 4, 5))
    blocks = blocks_of([one, two, dead, rollback, four, five])
    assert [block.last for block in blocks] == ["001", "002", "004", "005"]
    assert blocks[0].files == (dead, rollback, one)
    assert sum(block.size for block in blocks) == 40
    assert blocks_of([dead, rollback]) == ()


def test_deletes_that_were_rolled_back_keep_no_block_from_being_merged() -> None:
    dead = replace(file(3), deletes=frozenset({2}))
    rollback = LogFile("rollback", ("004",), 10, rolls_back=frozenset({"003", "004"}))
    live = [file(1), replace(file(2), deletes=frozenset({3})), file(5)]
    assert run(*live, dead, rollback) == ["003", "004", "001", "002", "005"]
    assert run(file(1), file(2), dead, rollback, keeps_deletes=False) == ["003", "004", "001", "002"]


@given(HISTORIES, st.integers(1, 4), st.integers(5, 40), st.lists(st.integers(0, 11), max_size=3), st.booleans())
def test_whatever_is_merged_no_readers_answer_changes(
    history: list[tuple[int, bool]], threshold: int, limit: int, gaps: list[int], newest_only: bool
) -> None:
    """Blocks in the order of the scanner, before and after the pending commits are there too: the order stays."""
    files = [file(10 * number, size) for number, (size, _) in enumerate(history, 1)]
    pending = [f"{10 * gap + 5:03}" for gap in gaps]
    found = best_run(
        files,
        threshold=threshold,
        limit=limit,
        pending=pending,
        newest_only=newest_only,
        keeps_deletes=True,
        by_event_time=True,
    )
    if not found:
        return
    assert len(found) >= threshold
    assert all(block.size <= limit for block in found)
    merged = {file.instants[0] for block in found for file in block.files}
    everything = sorted([file.instants[0] for file in files] + pending)
    before = [instant for instant in everything if instant not in merged]
    stands_at = "999" if newest_only else max(merged)
    overtaken = [instant for instant in before if min(merged) < instant < stands_at]
    assert not overtaken


def test_a_run_is_never_longer_than_what_is_there() -> None:
    assert run() == []
    assert run(file(1), threshold=1, newest_only=True, keeps_deletes=False) == ["001"]
    assert [len(run(*files)) for files in itertools.combinations([file(1), file(2), file(3)], 2)] == [2, 2, 2]
