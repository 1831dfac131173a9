"""Deltas of different row types: which of them are merged with each other, and which stay as they are."""

import pytest

from compaction_operator.acid.plan import MAX_RUNS, CompactionPlan, Layout, plan_compaction
from compaction_operator.acid.runs import OF_TABLE
from compaction_operator.acid.snapshot import UnsupportedLayout
from compaction_operator.api.compaction import CompactionType
from tests.unit.acid.listings import listing, write_ids

LAYOUTS = pytest.mark.parametrize("layout", [*Layout])


def plan(types: dict[str, str], layout: Layout = Layout.HIVE3, *, aborted: tuple[int, ...] = ()) -> CompactionPlan:
    """Plan the merge of these directories, with the row types of their rows, separated by commas."""
    txn, highest = (None if layout is Layout.HIVE3 else 9), max(int(name.split("_")[-2]) for name in types)
    return plan_compaction(
        listing(*types),
        write_ids(highest, aborted=aborted),
        type=CompactionType.MINOR,
        layout=layout,
        visibility_txn=txn,
        row_types={name: frozenset(found.split(",")) for name, found in types.items() if found},
    )


def outputs(plan: CompactionPlan) -> list[str]:
    return [output.name.partition("_v")[0] for output in plan.outputs]


def inserts(*types: str, first: int = 1) -> dict[str, str]:
    """The deltas of one insert each, from write id `first`, and the row types of their rows."""
    return {f"delta_{number}_{number}_0000": type_ for number, type_ in enumerate(types, first)}


@LAYOUTS
def test_each_run_of_one_row_type_becomes_one_delta(layout):
    found = plan(inserts("old", "old", OF_TABLE, OF_TABLE, OF_TABLE), layout)
    assert outputs(found) == ["delta_0000001_0000002", "delta_0000003_0000005"]
    assert {entry.name for entry in found.obsolete} == {*inserts(*"12345")}
    assert [output.max_write_id for output in found.own_row_type] == [2]


@LAYOUTS
def test_the_same_row_type_on_both_sides_of_another_makes_two_runs(layout):
    """One delta from 1 to 5 would hide the third."""
    assert outputs(plan(inserts("a", "a", "b", "a", "a"), layout)) == ["delta_0000001_0000002", "delta_0000004_0000005"]


@LAYOUTS
def test_row_types_that_take_turns_leave_nothing_to_merge(layout):
    found = plan(inserts("a", "b", "a", "b"), layout)
    assert (found.outputs, found.deltas, found.obsolete) == ((), (), ())


@LAYOUTS
def test_delete_events_go_with_the_run_before_them(layout):
    """They have no row type; a delta that covers their write ids would hide them."""
    deletes = {"delete_delta_2_2_0000": "", "delete_delta_5_5_0000": ""}
    found = plan(inserts("a", "a", "a") | inserts("b", "b", "b", first=4) | deletes, layout)
    pairs = [f"{kind}_{ids}" for ids in ("0000001_0000003", "0000004_0000006") for kind in ("delta", "delete_delta")]
    assert outputs(found) == pairs


def test_delete_events_before_the_first_rows_go_with_these():
    found = plan({"delete_delta_1_1_0000": "", "delete_delta_2_2_0000": ""} | inserts("a", "a", "b", first=3))
    assert outputs(found) == ["delta_0000001_0000004", "delete_delta_0000001_0000004"]


@LAYOUTS
def test_statements_of_one_write_id_with_two_row_types_stay_as_they_are(layout):
    """H17: no output may have one of them without the other."""
    mixed = {"delta_3_3_0000": "a", "delta_3_3_0001": "b", "delete_delta_3_3_0000": ""}
    found = plan(inserts("a", "a") | mixed | inserts("b", "b", first=4), layout)
    assert outputs(found) == ["delta_0000001_0000002", "delta_0000004_0000005"]
    assert not {delta.min_write_id for delta in found.deltas} & {3}


def test_a_directory_with_two_row_types_stays_as_it_is():
    assert outputs(plan(inserts("a", "a", "a,b", "a", "a"))) == ["delta_0000001_0000002", "delta_0000004_0000005"]


def test_deltas_that_overlap_are_in_one_run():
    """A streaming writer's deltas may; each range promises all rows of its write ids."""
    streamed = {"delta_1_4": "a", "delta_3_6": "a", "delta_7_7_0000": "b", "delta_8_8_0000": "b"}
    assert outputs(plan(streamed)) == ["delta_0000001_0000006", "delta_0000007_0000008"]


def test_what_was_aborted_belongs_to_a_run_where_its_name_does():
    """Hive 3.1 counts it for the name of a delta, Hive 4 does not."""
    types = inserts("a", "a", "", "b", "b")
    assert outputs(plan(types, aborted=(3,))) == ["delta_0000001_0000003", "delta_0000004_0000005"]
    assert outputs(plan(types, Layout.HIVE4, aborted=(3,))) == ["delta_0000001_0000002", "delta_0000004_0000005"]


def test_an_output_that_would_overlap_what_was_aborted_is_refused():
    """On Hive 4 the name of the run ends within it."""
    types = inserts("a") | {"delta_2_3": "a", "delta_3_4": ""} | inserts("b", "b", first=5)
    with pytest.raises(UnsupportedLayout, match="partly overlaps"):
        plan(types, Layout.HIVE4, aborted=(3, 4))


def test_more_runs_than_a_journal_names_wait_for_the_next_compaction():
    found = plan(inserts(*"aabb" * (MAX_RUNS // 2 + 1)))
    assert (len(found.outputs), found.postponed) == (MAX_RUNS, 2)
    assert max(output.max_write_id for output in found.outputs) == 2 * MAX_RUNS
