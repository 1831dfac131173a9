"""The second listing, right before publishing (H23): overlapping compactions are refused."""

import pytest

from compaction_operator.acid.listing import File, Listing
from compaction_operator.acid.names import GUARD_BASE, METADATA_ACID
from compaction_operator.acid.plan import CompactionPlan, Layout, check_still_publishable, plan_compaction, with_guard
from compaction_operator.api.compaction import CompactionType
from tests.unit.acid.listings import listing, with_files, write_ids

NAMES = ("base_2*", "delta_2_2_0000", "delta_4_4_0000", "delta_5_5_0000", "delete_delta_5_5_0000")
MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR


def _plan(kind: CompactionType, *names: str) -> CompactionPlan:
    return plan_compaction(listing(*names), write_ids(9), type=kind, layout=Layout.HIVE3)


@pytest.mark.parametrize("kind", [MINOR, MAJOR])
def test_an_unchanged_directory_may_be_published_to(kind):
    assert check_still_publishable(_plan(kind, *NAMES), listing(*NAMES)) is None


@pytest.mark.parametrize("kind", [MINOR, MAJOR])
def test_later_writes_are_no_hindrance(kind):
    now = listing(*NAMES, "delta_6_6_0000", "delete_delta_7_7_0000", "delta_8_20")
    assert check_still_publishable(_plan(kind, *NAMES), now) is None


@pytest.mark.parametrize("kind", [MINOR, MAJOR])
@pytest.mark.parametrize("gone", ["base_2*", "delta_4_4_0000", "delete_delta_5_5_0000"])
def test_a_vanished_input_or_base_forbids_publication(kind, gone):
    now = listing(*(name for name in NAMES if name != gone))
    reason = check_still_publishable(_plan(kind, *NAMES), now)
    assert reason == f"{gone.rstrip('*')}, which the plan depends on, no longer exists"


def test_what_was_obsolete_already_may_vanish():
    now = listing(*(name for name in NAMES if name != "delta_2_2_0000"))
    assert check_still_publishable(_plan(MAJOR, *NAMES), now) is None


@pytest.mark.parametrize("kind", [MINOR, MAJOR])
@pytest.mark.parametrize("other", ["base_4*", "base_5*", "base_9", "delta_4_5", "delta_3_4", "delta_5_9", "delta_1_9"])
def test_another_compaction_in_between_forbids_publication(kind, other):
    """A minor [1..5] over a base_3 that came meanwhile would double rows; and so would the other way round."""
    reason = check_still_publishable(_plan(kind, *NAMES), listing(*NAMES, other))
    assert reason == f"{other.rstrip('*')} appeared after the plan was made"


def test_a_late_base_below_a_minors_range_changes_nothing():
    assert check_still_publishable(_plan(MINOR, *NAMES), listing(*NAMES, "base_1*")) is None


def test_an_output_that_exists_forbids_publication():
    """H4: another driver of the same compaction was quicker."""
    now = listing(*NAMES, "delete_delta_0000004_0000005")
    assert (
        check_still_publishable(_plan(MINOR, *NAMES), now) == "the output delete_delta_0000004_0000005 exists already"
    )


def test_other_original_files_forbid_a_major_that_reads_them():
    names = ("000000_0", "delta_1_1_0000", "delta_2_2_0000")
    for now in (listing(*names, "000000_0_copy_1"), listing(*names[1:])):
        reason = check_still_publishable(_plan(MAJOR, *names), now)
        assert reason == "the original files have changed since the plan was made"
        assert check_still_publishable(_plan(MINOR, *names), now) is None
    grown = Listing(listing(*names).directories, (File("000000_0", 301),))
    assert check_still_publishable(_plan(MAJOR, *names), grown) is not None


FIRST = ("delta_1_1_0000", "delta_2_2_0000")
GUARD = f"{GUARD_BASE.name}*"


def _with(found: Listing, *files: str) -> Listing:
    return Listing((*found.directories, with_files(GUARD_BASE.name, METADATA_ACID, *files)), found.files)


@pytest.mark.parametrize(
    ("kind", "layout", "names", "breaks"),
    [
        (MAJOR, Layout.HIVE3, FIRST, True),
        (MAJOR, Layout.HIVE3, ("000000_0", *FIRST), True),
        (MAJOR, Layout.HIVE4, FIRST, False),
        (MINOR, Layout.HIVE3, FIRST, False),
        (MAJOR, Layout.HIVE3, ("base_1*", *FIRST), False),
        (MAJOR, Layout.HIVE3, (GUARD, *FIRST), False),
        (MAJOR, Layout.HIVE3, (), False),
        (MAJOR, Layout.HIVE3, ("000000_0",), False),
    ],
)
def test_only_a_first_bare_base_breaks_older_snapshots(kind, layout, names, breaks):
    """H24: `_v` hides a base from snapshots in which its transaction is open, and with a base below they go on."""
    txn = None if layout is Layout.HIVE3 else 9
    plan = plan_compaction(listing(*names), write_ids(2), type=kind, layout=layout, visibility_txn=txn)
    assert plan.breaks_older_snapshots is breaks
    assert plan.has_originals is ("000000_0" in names)


def test_the_guard_is_given_up_with_the_rest():
    plan = with_guard(_plan(MAJOR, *FIRST))
    assert plan.guard == GUARD_BASE
    assert [output.name for output in plan.outputs] == ["base_0000002"]
    assert {entry.name: entry.reason for entry in plan.obsolete} == dict.fromkeys(
        (*FIRST, GUARD_BASE.name), "covered by base_0000002"
    )


@pytest.mark.parametrize("names", [("000000_0", *FIRST), ("base_1*", *FIRST), ()])
def test_there_is_no_guard_that_would_hide_rows_or_protect_no_reader(names):
    with pytest.raises(ValueError, match="a guard base is for a first major"):
        with_guard(_plan(MAJOR, *names))


def test_the_own_guard_is_no_hindrance_but_anyone_elses_is():
    before, plan = listing(*FIRST), _plan(MAJOR, *FIRST)
    assert check_still_publishable(with_guard(plan), before) is None
    assert check_still_publishable(with_guard(plan), _with(before)) is None
    appeared = f"{GUARD_BASE.name} appeared after the plan was made"
    assert check_still_publishable(plan, _with(before)) == appeared
    assert check_still_publishable(with_guard(plan), _with(before, "bucket_00000")) == appeared


def test_a_guard_that_is_there_already_is_an_empty_base():
    """An attempt before ours died between the guard and its base."""
    found = _with(listing(*FIRST))
    for kind, output in ((MAJOR, "base_0000002"), (MINOR, "delta_0000001_0000002")):
        plan = plan_compaction(found, write_ids(2), type=kind, layout=Layout.HIVE3)
        assert [one.name for one in plan.outputs] == [output]
        assert (GUARD_BASE.name in {entry.name for entry in plan.obsolete}) is (kind is MAJOR)
        assert plan.best_base == GUARD_BASE
        assert check_still_publishable(plan, found) is None


def test_what_a_union_wrote_must_not_change_either():
    union = with_files("HIVE_UNION_SUBDIR_1", "000000_0")
    found = Listing((*listing(*FIRST).directories, union), ())
    plan = plan_compaction(found, write_ids(2), type=MAJOR, layout=Layout.HIVE3)
    assert check_still_publishable(plan, found) is None
    more = Listing((*listing(*FIRST).directories, with_files("HIVE_UNION_SUBDIR_1", "000000_0", "000001_0")), ())
    assert check_still_publishable(plan, more) == "the original files have changed since the plan was made"
