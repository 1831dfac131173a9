"""The second listing, right before publishing (H23): overlapping compactions are refused."""

import pytest

from compaction_operator.acid.listing import File, Listing
from compaction_operator.acid.plan import CompactionPlan, Layout, check_still_publishable, plan_compaction
from compaction_operator.api.compaction import CompactionType
from tests.unit.acid.listings import listing, write_ids

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
    assert reason == f"{gone.rstrip('*')}, which the plan rests on, is no longer there"


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
        check_still_publishable(_plan(MINOR, *NAMES), now) == "the output delete_delta_0000004_0000005 is already there"
    )


def test_other_original_files_forbid_a_major_that_reads_them():
    names = ("000000_0", "delta_1_1_0000", "delta_2_2_0000")
    for now in (listing(*names, "000000_0_copy_1"), listing(*names[1:])):
        reason = check_still_publishable(_plan(MAJOR, *names), now)
        assert reason == "the original files have changed since the plan was made"
        assert check_still_publishable(_plan(MINOR, *names), now) is None
    grown = Listing(listing(*names).directories, (File("000000_0", 301),))
    assert check_still_publishable(_plan(MAJOR, *names), grown) is not None
