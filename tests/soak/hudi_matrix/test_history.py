"""The matrix's model: which record wins, what deletes leave, and that a changed row is found."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from sandbox.hudi.table import Ordering

from tests.soak.hudi_matrix.history import (
    AFTER_COMPACTION,
    AFTER_LOG_COMPACTION,
    FIRST,
    Commit,
    How,
    Model,
    Writes,
    row_of,
)
from tests.soak.hudi_matrix.report import faults, table_of, unanswered
from tests.soak.hudi_matrix.run import ASKED, NO_JVM, WRITERS, Cell, Query, Seen, State, _difference, cells

OLD = "1.0.2"


def test_rows_without_a_key_are_a_difference_and_no_error() -> None:
    """A reader without a JVM shows them beside others, of partial updates."""
    rows = [row_of(0, 20), row_of(0, 20)._replace(id=None), row_of(1, 20)._replace(id=None)]  # type: ignore[arg-type]
    assert _difference([], [], lambda: rows).startswith("3 rows for 0: ")


@pytest.mark.parametrize(("ordering", "ts"), [(Ordering.EVENT_TIME, 30), (Ordering.COMMIT_TIME, 20)])
def test_a_late_row_wins_by_commit_time_alone(ordering: Ordering, ts: int) -> None:
    assert Model(ordering, (Commit(range(1), 30), Commit(range(1), 20))).rows() == [row_of(0, ts)]


@pytest.mark.parametrize(("ordering", "rows"), [(Ordering.EVENT_TIME, []), (Ordering.COMMIT_TIME, [row_of(0, 20)])])
def test_a_flag_deletes_by_its_ordering_value(ordering: Ordering, rows: list[object]) -> None:
    assert Model(ordering, (Commit(range(1), 30, How.FLAG), Commit(range(1), 20))).rows() == rows


@pytest.mark.parametrize(("ordering", "back"), [(Ordering.EVENT_TIME, set()), (Ordering.COMMIT_TIME, {3, 4})])
def test_each_table_has_keys_that_were_deleted_before_a_row_of_smaller_ordering_came(
    ordering: Ordering, back: set[int]
) -> None:
    assert {row.id for row in Model(ordering, FIRST).rows()} & set(range(5)) == back


@pytest.mark.parametrize("ordering", list(Ordering))
def test_a_delete_always_wins_and_any_later_row_wins_over_it(ordering: Ordering) -> None:
    commits = (Commit(range(1), 30), Commit(range(1), 40, How.DELETE))
    assert Model(ordering, commits).rows() == []
    assert Model(ordering, (*commits, Commit(range(1), 10))).rows() == [row_of(0, 10)]


@pytest.mark.parametrize("ordering", list(Ordering))
def test_keys_that_both_kinds_of_delete_removed_come_back(ordering: Ordering) -> None:
    before = {row.id for row in Model(ordering, FIRST + AFTER_LOG_COMPACTION).rows()}
    after = {row.id for row in Model(ordering, FIRST + AFTER_LOG_COMPACTION + AFTER_COMPACTION).rows()}
    assert after - before == {0, 1, 2, 50, 51}


@pytest.mark.parametrize(("ordering", "ts"), [(Ordering.EVENT_TIME, 30), (Ordering.COMMIT_TIME, 20)])
def test_a_partial_update_changes_some_columns_of_rows_that_are_there(ordering: Ordering, ts: int) -> None:
    rows = Model(ordering, (Commit(range(1), 10), Commit(range(2), 30, How.PARTIAL), Commit(range(1), 20, How.PARTIAL)))
    assert rows.rows() == [row_of(0, 10)._replace(ts=ts, v=row_of(0, ts).v)]


def test_a_partial_update_leaves_nothing_of_a_row_that_is_not_there() -> None:
    commits = (Commit(range(1), 10), Commit(range(1), 0, How.DELETE), Commit(range(1), 30, How.PARTIAL))
    assert Model(Ordering.EVENT_TIME, commits).rows() == []
    assert Model(Ordering.EVENT_TIME, (*commits, Commit(range(1), 20))).rows() == [row_of(0, 20)]


def test_since_a_commit_are_the_rows_that_it_or_a_later_one_changed() -> None:
    model = Model(Ordering.EVENT_TIME, (Commit(range(4), 30), Commit(range(1), 20), Commit(range(2), 40)))
    assert [row.id for row in model.since(2)] == [0, 1]


@pytest.mark.parametrize("state", [State.WRITTEN, State.MERGED])
@pytest.mark.parametrize("compactor", [OLD, "1.2.0"])
def test_only_after_a_log_compaction_of_1_2_may_unchanged_rows_show_again(state: State, compactor: str) -> None:
    found = Cell(OLD, 8, Ordering.EVENT_TIME, Writes.WHOLE, compactor, Path("cell"))
    again = compactor == "1.2.0" and state is State.MERGED
    assert found.may_show(Seen(state, Query.SINCE)) == found.expected(Seen(state, Query.NOW if again else Query.SINCE))
    assert found.may_show(Seen(state, Query.AS_OF_EARLY)) == found.expected(Seen(state, Query.AS_OF_EARLY))


def cell(written: str, merged: str, reader: str = OLD, query: Query = Query.NOW) -> Cell:
    """A table and what a reader makes of it before and after the log compaction; all others read it right."""
    found = Cell(OLD, 8, Ordering.EVENT_TIME, Writes.WHOLE, OLD, Path("cell"))
    found.done = dict.fromkeys((State.MERGED, State.COMPACTED), "Compacted")
    found.read = {one: dict.fromkeys(ASKED, "") for one in (*WRITERS, NO_JVM)}
    found.read[reader] |= {Seen(State.WRITTEN, query): written, Seen(State.MERGED, query): merged}
    return found


@pytest.mark.parametrize("query", list(Query))
@pytest.mark.parametrize(("written", "is_fault"), [("", True), ("9 rows", False)])
def test_a_fault_is_what_changed_for_a_reader_that_could_ask_before(query: Query, written: str, is_fault: bool) -> None:
    cells = [cell(written, "9 rows", query=query), cell("", "")]
    found = [f"cell, 1.0.2, log compaction, {query}: 9 rows"] if is_fault else []
    assert faults(cells) == found
    assert ("WRONG" in table_of(cells)) is bool(found)


@pytest.mark.parametrize(
    ("writer", "merged", "compacted", "is_right"),
    [
        ("0.15.0", "UnsupportedTable", "UnsupportedTable", True),
        ("0.15.0", "Compacted", "UnsupportedTable", False),
        ("1.0.2", "NothingToCompact", "Compacted", True),
        ("1.0.2", "Compacted", "NothingToCompact", False),
        ("1.0.2", "DriverFailed", "Compacted", False),
        ("1.0.2", "UnsupportedTable", "Compacted", False),
    ],
)
def test_a_compaction_that_must_be_refused_or_done_and_is_not_is_a_fault(
    writer: str, merged: str, compacted: str, is_right: bool
) -> None:
    found = replace(cell("", ""), writer=writer)
    found.done = {State.MERGED: merged, State.COMPACTED: compacted}
    assert (faults([found, cell("", "")]) == []) is is_right


@pytest.mark.parametrize(("done", "excused"), [("DriverFailed", True), ("Compacted", False)])
@pytest.mark.parametrize("state", [State.MERGED, State.ADDED])
def test_an_error_of_a_later_state_counts_only_after_hudis_own_compaction_failed(
    done: str, excused: bool, state: State
) -> None:
    control = cell("", "", NO_JVM)
    control.done[State.MERGED] = done
    control.read[NO_JVM][Seen(State.COMPACTED)] = ERROR
    found = cell("", "", NO_JVM)
    found.read[NO_JVM][Seen(state)] = ERROR
    assert (faults([found, control]) == []) is excused


@pytest.mark.parametrize(("state", "excused"), [(State.WRITTEN, True), (State.MERGED, True), (State.CLEANED, False)])
def test_an_error_of_an_earlier_state_counts_but_not_of_a_later_one(state: State, excused: bool) -> None:
    control = cell("", "", NO_JVM)
    control.read[NO_JVM][Seen(state)] = ERROR
    found = cell("", "", NO_JVM)
    found.read[NO_JVM][Seen(State.COMPACTED)] = ERROR
    assert (faults([found, control]) == []) is excused


@pytest.mark.parametrize(
    ("state", "query", "counts"),
    [
        (State.ADDED, Query.SINCE, False),
        (State.COMPACTED, Query.SINCE, False),
        (State.MERGED, Query.SINCE, True),
        (State.ADDED, Query.NOW, True),
    ],
)
def test_history_counts_once_a_reader_answers_it_with_the_commits_on_top(
    state: State, query: Query, counts: bool
) -> None:
    found = cell("", "")
    found.read[OLD] |= {Seen(State.UNCOMPACTED, Query.SINCE): "9 rows", Seen(state, query): "8 rows"}
    assert faults([found, cell("", "")]) == ([f"cell, {OLD}, {state}, {query}: 8 rows"] if counts else [])
    assert ("WRONG" in table_of([found, cell("", "")])) is counts
    assert f"cell, {OLD}, not since commit 4: 9 rows" in unanswered([found, cell("", "")])


def test_rows_that_no_compaction_changed_and_that_are_wrong_are_a_fault() -> None:
    found = cell("", "")
    found.read[OLD][Seen(State.UNCOMPACTED)] = "9 rows"
    assert faults([found, cell("", "")]) == [f"cell, {OLD}, commits on top, no compaction, all rows: 9 rows"]


def test_only_1_0_cannot_compact_partial_updates_by_commit_time() -> None:
    stopped = Cell("1.2.0", 8, Ordering.COMMIT_TIME, Writes.PARTIAL, OLD, Path("cell"))
    assert stopped.stops_hudi
    assert not replace(stopped, compactor="1.2.0").stops_hudi
    assert not replace(stopped, writes=Writes.WHOLE).stops_hudi
    for merged, compacted, is_right in (("Compacted", "UnsupportedTable", True), ("Compacted", "DriverFailed", False)):
        found = replace(stopped, done={State.MERGED: merged, State.COMPACTED: compacted})
        assert (faults([found, stopped]) == []) is is_right


def test_a_reader_that_does_not_read_the_table_has_no_history_of_it_either() -> None:
    found = cell("9 rows", "9 rows")
    found.read[OLD][Seen(State.ADDED, Query.SINCE)] = "9 rows"
    assert faults([found, cell("", "")]) == []
    assert "not this table" in table_of([found, cell("", "")])
    assert unanswered([found, found]) == []
    asked = cell("9 rows", "9 rows", NO_JVM, Query.SINCE)
    assert unanswered([asked, asked]) == ["cell, no JVM, not since commit 4: 9 rows"]


ERROR = "HudiCoreError: Delete block mixes ordering types (union branches 2 and 3)"


@pytest.mark.parametrize("reader", [OLD, NO_JVM])
@pytest.mark.parametrize(
    ("merged", "by_hudi", "excused"),
    [
        (ERROR, ERROR.replace("2", "5"), True),
        (ERROR, "", False),
        (ERROR, "HudiCoreError: another", False),
        ("9 rows for 8: []", "9 rows for 8: []", False),
    ],
)
def test_only_an_error_without_a_jvm_that_hudis_own_files_cause_too_is_no_fault(
    reader: str, merged: str, by_hudi: str, excused: bool
) -> None:
    cells = [cell("", merged, reader), cell("", by_hudi, reader)]
    excused = excused and reader == NO_JVM
    assert (faults(cells) == []) is excused
    assert ("errors, as by Hudi alone" in table_of(cells), "WRONG" in table_of(cells)) == (excused, not excused)


@pytest.mark.parametrize("reader", [OLD, NO_JVM])
def test_what_kills_a_reader_is_not_asked_and_the_table_says_so(reader: str) -> None:
    """An incremental read of partial updates that begins after the base file: Spark's JVM dies of it."""
    kills = reader != NO_JVM
    partial = replace(cell("", ""), writes=Writes.PARTIAL)
    asked = set(partial.asked(reader))
    assert (Seen(State.MERGED, Query.SINCE) in asked) is not kills
    assert Seen(State.MERGED, Query.SINCE_EVER) in asked
    cells = [partial, cell("", "")]
    assert "right, not since commit 4" in table_of(cells)
    assert unanswered(cells) == [f"cell, {one}, not since commit 4: it kills the JVM" for one in WRITERS]
    whole = cell("", "")
    assert {one.query for one in whole.asked(reader)} == set(Query) - {Query.SINCE_EVER}
    assert "not since" not in table_of([whole, whole])


def test_history_is_asked_for_in_each_state_that_has_it() -> None:
    with_history = {one.state for one in cell("", "").asked(NO_JVM) if one.query is Query.AS_OF_EARLY}
    assert with_history == set(State) - {State.CLEANED, State.BACK}


@pytest.mark.parametrize(("cleaned", "is_right"), [("Cleaned", True), ("UnsupportedTable", False)])
def test_a_clean_must_be_done_unless_the_table_is_refused(cleaned: str, is_right: bool) -> None:
    found = cell("", "")
    found.done[State.CLEANED] = cleaned
    assert (faults([found, found]) == []) is is_right
    refused = replace(found, writer="0.15.0", done=dict.fromkeys(found.done, "UnsupportedTable"))
    assert faults([refused, refused]) == []


def test_payload_classes_by_name_are_in_each_version() -> None:
    of_9 = {(one.ordering, one.payload) for one in cells(Path("x")) if one.version == 9}
    assert of_9 == set(product(Ordering, ("by name", "none")))
    assert {one.payload for one in cells(Path("x")) if one.version < 9} == {"by name"}
    assert len({one.folder for one in cells(Path("x"))}) == len(cells(Path("x")))


def test_tables_by_commit_time_have_an_ordering_field_or_none_in_versions_8_and_9() -> None:
    by_arrival = {(one.version, "precombine" in str(one.table.options)) for one in cells(Path("x"))
                  if one.ordering is Ordering.COMMIT_TIME}  # fmt: skip
    assert by_arrival >= {(8, True), (8, False), (9, True), (9, False)}
