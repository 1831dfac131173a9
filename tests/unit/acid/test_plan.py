"""What a compaction reads, writes and makes obsolete; the listings of the source documents are exact expectations."""

import json

import pytest

from compaction_operator.acid.listing import Directory, File, Listing
from compaction_operator.acid.plan import CompactionPlan, Layout, plan_compaction, why_nothing
from compaction_operator.acid.snapshot import NotEnoughHistory, OpenWriteBelow, UnsupportedLayout
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from compaction_operator.api.compaction import HIVE_TYPES, CompactionType
from tests.unit.acid.listings import ACID_FILES, FIXTURES, listing, published, read_listing, txns, with_files, write_ids

MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
HIVE3, HIVE4 = Layout.HIVE3, Layout.HIVE4

INSERTS = ("delta_0000001_0000001_0000", "delta_0000002_0000002_0000", "delta_0000003_0000003_0000")
UPDATE = ("delete_delta_0000004_0000004_0000", "delta_0000004_0000004_0000")


def _plan(
    found: Listing,
    ids: ValidWriteIdList,
    kind: CompactionType,
    layout: Layout = HIVE3,
    valid_txns: ValidTxnList | None = None,
) -> CompactionPlan:
    txn = None if layout is HIVE3 else 99
    return plan_compaction(found, ids, type=kind, layout=layout, visibility_txn=txn, valid_txns=valid_txns)


def _outputs(plan: CompactionPlan) -> list[str]:
    return [output.name for output in plan.outputs]


def _deltas(plan: CompactionPlan) -> list[str]:
    return [delta.name for delta in plan.deltas]


def _obsolete(plan: CompactionPlan) -> dict[str, str]:
    return {entry.name: entry.reason for entry in plan.obsolete}


# The listings of openLooKeng's "Auto Clean Up for Hive ORC".


def test_seed_minor_after_three_inserts():
    plan = _plan(listing(*INSERTS), write_ids(3), MINOR)
    assert _outputs(plan) == ["delta_0000001_0000003"]
    assert _deltas(plan) == [*INSERTS]
    assert _obsolete(plan) == dict.fromkeys(INSERTS, "merged into delta_0000001_0000003")


def test_seed_major_after_three_inserts():
    plan = _plan(listing(*INSERTS), write_ids(3), MAJOR)
    assert _outputs(plan) == ["base_0000003"]
    assert _obsolete(plan) == dict.fromkeys(INSERTS, "covered by base_0000003")


def test_seed_major_after_minor():
    plan = _plan(listing(*INSERTS, "delta_0000001_0000003"), write_ids(3), MAJOR)
    assert _deltas(plan) == ["delta_0000001_0000003"]
    assert _outputs(plan) == ["base_0000003"]
    assert _obsolete(plan) == dict.fromkeys(("delta_0000001_0000003", *INSERTS), "covered by base_0000003")


@pytest.mark.parametrize("kind", [MINOR, MAJOR])
def test_seed_nothing_to_do_right_after_a_major(kind):
    """What the major made obsolete is still listed: it may not have been cleaned up yet."""
    plan = _plan(listing(*INSERTS, "base_0000003*"), write_ids(3), kind)
    assert plan.outputs == ()
    assert plan.best_base is not None
    assert plan.best_base.name == "base_0000003"
    assert _obsolete(plan) == dict.fromkeys(INSERTS, "covered by base_0000003")


def test_seed_minor_with_a_delete_delta():
    plan = _plan(listing(*INSERTS, *UPDATE), write_ids(4), MINOR)
    assert _outputs(plan) == ["delta_0000001_0000004", "delete_delta_0000001_0000004"]
    assert {*_deltas(plan)} == {*INSERTS, *UPDATE}
    assert _obsolete(plan) == dict.fromkeys((*INSERTS, *UPDATE), "merged into delta_0000001_0000004")


# The blog's try_it, partition by partition, and every other table that real Hive compacted.


@pytest.mark.parametrize(
    ("partition", "low", "high"),
    [("prt=p1", "0000001", "0000005"), ("prt=p2", "0000002", "0000004"), ("prt=p3", "0000002", "0000006")],
)
def test_try_it_is_named_by_what_each_partition_holds(partition, low, high):
    """Not by the watermark, which is 6 for all of them."""
    found, ids = read_listing(FIXTURES / "hive-3.1.3" / "try_it" / "before" / partition), write_ids(6)
    minor, major = _plan(found, ids, MINOR), _plan(found, ids, MAJOR)
    assert _outputs(minor) == [f"delta_{low}_{high}", f"delete_delta_{low}_{high}"]
    assert _outputs(major) == [f"base_{high}"]
    everything = {directory.name for directory in found.directories}
    assert {*_obsolete(minor)} == {*_obsolete(major)} == everything == {*_deltas(minor)}
    assert minor.highest_write_id == 6


CASES = sorted(json.loads((FIXTURES / "left-by-hive-cleaner.json").read_text()).items())

EMPTY_DELETE_DELTA = {"hive-3.1.3/table_txn_001/minor": {"delete_delta_0000001_0000003"}}
"""Hive 3.1.3 writes one even where nothing was deleted; the openLooKeng document does not show it."""


@pytest.mark.parametrize(("case", "left"), CASES, ids=[case for case, _ in CASES])
def test_outputs_and_obsolete_are_those_of_real_hive(case, left):
    version, table, kind, *partition = case.split("/")
    directory = FIXTURES / version / table
    before, after = (read_listing(directory.joinpath(state, *partition)) for state in ("before", f"after-{kind}"))
    ids = ValidWriteIdList.parse((directory / f"writeids-{kind}-before.txt").read_text())
    plan = _plan(before, ids, CompactionType(kind.capitalize()), HIVE3 if version == "hive-3.1.3" else HIVE4)
    written = {one.name for one in after.directories} - {one.name for one in before.directories}
    ours = {name.removesuffix("_v0000099") for name in _outputs(plan)}
    assert ours == {name.partition("_v")[0] for name in written} - EMPTY_DELETE_DELTA.get(case, set())
    there = {one.name for one in before.directories} | {one.name for one in before.files}
    assert {*_obsolete(plan)} == there - {*left}


# Which directories count.


@pytest.mark.parametrize("layout", [HIVE3, HIVE4])
@pytest.mark.parametrize("kind", [MINOR, MAJOR])
def test_nothing_at_or_above_an_open_id_is_an_input(layout, kind):
    """H8: not even a committed delta above it, or its base would hide the open one's rows for ever."""
    found = listing("delta_1_1_0000", "delta_2_2_0000", "delta_3_3_0000", "delta_4_4_0000")
    plan = _plan(found, write_ids(4, open=(3,)), kind, layout)
    assert _deltas(plan) == ["delta_1_1_0000", "delta_2_2_0000"]
    assert [(output.min_write_id, output.max_write_id) for output in plan.outputs] == [(1 if kind is MINOR else 2, 2)]
    assert {*_obsolete(plan)} == {"delta_1_1_0000", "delta_2_2_0000"}


def test_a_streaming_delta_that_reaches_above_the_watermark_stays_out():
    plan = _plan(listing("delta_1_1_0000", "delta_2_2_0000", "delta_3_8"), write_ids(8, open=(6,)), MINOR)
    assert _deltas(plan) == ["delta_1_1_0000", "delta_2_2_0000"]


def test_a_minor_reads_neither_base_nor_originals():
    plan = _plan(listing("base_2*", "delta_3_3_0000", "delta_4_4_0000"), write_ids(4), MINOR)
    assert (plan.base, plan.originals) == (None, ())
    assert plan.best_base is not None
    plan = _plan(listing("000000_0", "delta_3_3_0000", "delta_4_4_0000"), write_ids(4), MINOR)
    assert (plan.base, plan.originals) == (None, ())
    assert "000000_0" not in _obsolete(plan)


def test_a_major_reads_the_best_base_and_what_is_above_it():
    plan = _plan(listing("base_1*", "base_2*", "delta_2_2_0000", "delta_4_4_0000"), write_ids(4), MAJOR)
    assert plan.base == plan.best_base
    assert plan.base is not None
    assert plan.base.name == "base_2"
    assert _deltas(plan) == ["delta_4_4_0000"]
    assert _outputs(plan) == ["base_0000004"]
    assert {*_obsolete(plan)} == {"base_1", "base_2", "delta_2_2_0000", "delta_4_4_0000"}


def test_a_major_folds_originals_in_and_then_only():
    plan = _plan(listing("000000_0", "000000_0_copy_1", "delta_10000001_10000001_0000"), write_ids(10000001), MAJOR)
    assert [file.name for file in plan.originals] == ["000000_0", "000000_0_copy_1"]
    assert _outputs(plan) == ["base_10000001"]
    assert {*_obsolete(plan)} == {"000000_0", "000000_0_copy_1", "delta_10000001_10000001_0000"}


@pytest.mark.parametrize(
    ("layout", "name"), [(HIVE3, "base_-9223372036854775808"), (HIVE4, "base_-9223372036854775808_v0000099")]
)
def test_originals_alone_become_the_lowest_base(layout, name):
    plan = _plan(listing("000000_0"), write_ids(0), MAJOR, layout)
    assert _outputs(plan) == [name]
    assert _obsolete(plan) == {"000000_0": f"covered by {name}"}


@pytest.mark.parametrize("kind", [MINOR, MAJOR])
def test_all_statements_of_one_write_id_go_into_one_output(kind):
    """H17: HIVE-25441."""
    names = ["delta_1_1_0000", "delete_delta_2_2_0000", "delete_delta_2_2_0001", "delta_2_2_0001", "delta_2_2_0002"]
    plan = _plan(listing(*names), write_ids(2), kind)
    assert _deltas(plan) == names
    assert {*_obsolete(plan)} == {*names}


def test_statements_alone_are_merged_into_one_directory_without_statement():
    plan = _plan(listing("delta_2_2_0000", "delta_2_2_0001"), write_ids(2), MINOR)
    assert _outputs(plan) == ["delta_0000002_0000002"]


@pytest.mark.parametrize(
    ("layout", "outputs", "base"),
    [
        (HIVE3, ["delta_0000002_0000007", "delete_delta_0000002_0000007"], "base_0000007"),
        (HIVE4, ["delta_0000003_0000006_v0000099", "delete_delta_0000003_0000006_v0000099"], "base_0000006_v0000099"),
    ],
)
def test_wholly_aborted_deltas_count_for_the_name_on_hive_3_only(layout, outputs, base):
    found = listing(
        "base_1*", "delta_2_2_0000", "delta_3_3_0000", "delete_delta_5_5_0000", "delta_6_6_0000", "delta_7_7_0000"
    )
    ids = write_ids(7, aborted=(2, 7))
    minor, major = _plan(found, ids, MINOR, layout), _plan(found, ids, MAJOR, layout)
    assert _outputs(minor) == outputs
    assert _outputs(major) == [base]
    assert _deltas(minor) == ["delta_3_3_0000", "delete_delta_5_5_0000", "delta_6_6_0000"]
    assert _obsolete(minor)["delta_7_7_0000"] == _obsolete(major)["delta_2_2_0000"] == "aborted"


def test_an_aborted_delta_below_the_base_does_not_count_for_the_name():
    plan = _plan(
        listing("delta_1_1_0000", "base_2", "delta_3_3_0000", "delta_4_4_0000"), write_ids(4, aborted=(1,)), MINOR
    )
    assert _outputs(plan) == ["delta_0000003_0000004"]


# Nothing to do.


@pytest.mark.parametrize(
    ("names", "hive3", "hive4"),
    [
        ((), False, False),
        (("delta_1_1_0000",), False, False),
        (("delta_1_3",), False, False),
        (("delta_1_3", "delete_delta_1_3"), False, False),
        (("delta_1_3", "delta_4_4_0000"), True, True),
        (("delta_4_4_0000", "delete_delta_5_5_0000"), True, False),
        (("delta_5_5_0000", "delete_delta_5_5_0000"), True, False),
        (("delete_delta_4_4_0000", "delete_delta_5_5_0000"), True, True),
        (("delta_1_3", "delete_delta_1_3", "delete_delta_4_4_0000"), True, True),
        (("delta_1_1_0000", "delta_2_2_0000"), True, True),
    ],
)
def test_when_a_minor_has_something_to_do(names, hive3, hive4):
    """R: 4.0.1 does nothing for one delta and one delete delta, 3.1.3 writes its pair."""
    assert bool(_plan(listing(*names), write_ids(5), MINOR, HIVE3).outputs) is hive3
    assert bool(_plan(listing(*names), write_ids(5), MINOR, HIVE4).outputs) is hive4


ALONE = "a Minor merges two or more deltas of a kind, and there is only"


@pytest.mark.parametrize(
    ("names", "kind", "why"),
    [
        ((), MAJOR, "there is no delta"),
        (("delta_1_1_0000", "base_2*"), MAJOR, "there is no delta above base_2"),
        (("base_2*",), MINOR, "there is no delta above base_2"),
        (("base_2*", "delta_3_3_0000"), MINOR, f"{ALONE} delta_3_3_0000"),
        (("delta_1_3", "delete_delta_1_3"), MINOR, f"{ALONE} delete_delta_1_3 and delta_1_3"),
    ],
)
def test_why_there_is_nothing_to_compact(names, kind, why):
    assert why_nothing(_plan(listing(*names), write_ids(5), kind)) == why


def test_what_waits_for_an_open_write_is_why_there_is_nothing_to_compact():
    plan = _plan(listing("base_2*", "delta_4_4_0000", "delta_5_5_0000"), write_ids(5, open=(3,)), MAJOR)
    assert why_nothing(plan) == "there is no delta above base_2; what lies above write id 2 waits for an open write"


def test_aborted_deltas_are_nothing_to_do_but_obsolete():
    for kind in HIVE_TYPES:
        plan = _plan(listing("base_1*", "delta_2_2_0000", "delta_3_3_0000"), write_ids(3, aborted=(2, 3)), kind)
        assert plan.outputs == ()
        assert _obsolete(plan) == {"delta_2_2_0000": "aborted", "delta_3_3_0000": "aborted"}


def test_the_leftovers_of_an_insert_overwrite_are_obsolete_without_a_compaction():
    plan = _plan(listing("delta_1_1_0000", "delta_2_2_0000", "base_3"), write_ids(3), MINOR)
    assert plan.outputs == ()
    assert {*_obsolete(plan)} == {"delta_1_1_0000", "delta_2_2_0000"}


def test_a_minor_without_deletes_publishes_one_directory():
    """H3: only a pair needs the exclusive lock."""
    assert len(_plan(listing("delta_1_1_0000", "delta_2_2_0000"), write_ids(2), MINOR).outputs) == 1


def test_a_minor_of_deletes_only_publishes_the_pair():
    """Either half alone shadows everything in its range."""
    plan = _plan(listing("delete_delta_4_4_0000", "delete_delta_5_5_0000"), write_ids(5), MINOR)
    assert _outputs(plan) == ["delta_0000004_0000005", "delete_delta_0000004_0000005"]


# Transactions of Hive 4.


def test_hive_4_names_carry_the_compactions_transaction():
    plan = _plan(listing(*INSERTS, *UPDATE), write_ids(4), MINOR, HIVE4)
    assert _outputs(plan) == ["delta_0000001_0000004_v0000099", "delete_delta_0000001_0000004_v0000099"]
    assert _outputs(_plan(listing(*INSERTS), write_ids(3), MAJOR, HIVE4)) == ["base_0000003_v0000099"]


def test_the_layout_and_the_transaction_must_fit():
    with pytest.raises(ValueError, match="layout hive4 needs a visibility transaction"):
        plan_compaction(listing(), write_ids(1), type=MINOR, layout=HIVE4)
    with pytest.raises(ValueError, match="layout hive3 has no visibility transaction"):
        plan_compaction(listing(), write_ids(1), type=MINOR, layout=HIVE3, visibility_txn=5)


def test_visibility_names_need_the_transactions():
    found = listing(*INSERTS, "delta_0000001_0000003_v0000022")
    with pytest.raises(UnsupportedLayout, match="give --valid-txns"):
        _plan(found, write_ids(3), MAJOR, HIVE4)
    committed = _plan(found, write_ids(3), MAJOR, HIVE4, txns(30))
    assert _deltas(committed) == ["delta_0000001_0000003_v0000022"]
    for valid_txns, given_up in (
        (txns(30, open=(22,)), ()),
        (txns(30, aborted=(22,)), ("delta_0000001_0000003_v0000022",)),
    ):
        ignored = _plan(found, write_ids(3), MAJOR, HIVE4, valid_txns)
        assert _deltas(ignored) == [*INSERTS]
        assert {*_obsolete(ignored)} == {*INSERTS, *given_up}


# What is not understood is refused, and named.


@pytest.mark.parametrize(
    "file", ["HIVE_UNION_SUBDIR_1/000000_0", "bucket_00000_flush_length", "sub/bucket_00000", "part-0.orc"]
)
def test_files_that_are_not_understood_are_refused_in_what_is_read(file):
    """H15: and a minor does not mind what is in the base."""
    odd = with_files("delta_2_2_0000", "_orc_acid_version", file)
    found = Listing((*listing("delta_1_1_0000").directories, odd), ())
    for kind in HIVE_TYPES:
        with pytest.raises(UnsupportedLayout, match=f"delta_2_2_0000/{file}"):
            _plan(found, write_ids(2), kind)
    base = Listing((with_files("base_1", file), *listing("delta_2_2_0000", "delta_3_3_0000").directories), ())
    with pytest.raises(UnsupportedLayout, match=f"base_1/{file}"):
        _plan(base, write_ids(3), MAJOR)
    assert _outputs(_plan(base, write_ids(3), MINOR)) == ["delta_0000002_0000003"]


@pytest.mark.parametrize("kind", [MINOR, MAJOR])
def test_raw_files_of_load_data_are_read(kind):
    found = Listing((with_files("delta_1_1_0000", "000000_0"), with_files("delta_2_2_0000", "bucket_00000")), ())
    plan = _plan(found, write_ids(2), kind)
    assert _deltas(plan) == ["delta_1_1_0000", "delta_2_2_0000"]
    assert {*_obsolete(plan)} == {"delta_1_1_0000", "delta_2_2_0000"}


def test_raw_files_in_what_is_not_read_do_not_matter():
    covered = with_files("delta_1_1_0000", "000000_0")
    found = Listing((covered, *listing("base_2*", "delta_3_3_0000").directories), ())
    assert _outputs(_plan(found, write_ids(3), MAJOR)) == ["base_0000003"]


def test_side_files_and_hidden_folders_are_skipped():
    delta = with_files(
        "delta_2_2_0000", "_orc_acid_version", ".hive-staging/x", "_tmp.1/bucket_00000", "bucket_00001_0"
    )
    found = Listing((*listing("delta_1_1_0000").directories, delta), ())
    assert _outputs(_plan(found, write_ids(2), MINOR)) == ["delta_0000001_0000002"]


@pytest.mark.parametrize("name", ["sub", "HIVE_UNION_SUBDIR_", "HIVE_UNION_SUBDIR_1x", "part-1"])
def test_an_unknown_directory_is_refused_where_a_major_would_have_to_read_it(name):
    """H15: its owner and its content are unknown, so the plan never counts it as obsolete either."""
    unknown = with_files(name, "000000_0")
    found = Listing((*listing("delta_1_1_0000", "delta_2_2_0000").directories, unknown), ())
    with pytest.raises(UnsupportedLayout, match=f"{name}/000000_0 is in a directory"):
        _plan(found, write_ids(2), MAJOR)
    assert _outputs(_plan(found, write_ids(2), MINOR)) == ["delta_0000001_0000002"]
    based = Listing((*listing("base_1*", "delta_2_2_0000").directories, unknown, Directory("empty", ())), ())
    assert _outputs(_plan(based, write_ids(2), MAJOR)) == ["base_0000002"]
    assert name not in _obsolete(_plan(based, write_ids(2), MAJOR))


UNION = (with_files("HIVE_UNION_SUBDIR_1", "000000_0"), with_files("HIVE_UNION_SUBDIR_2", "000000_0", "000001_0"))


def test_a_major_folds_in_the_originals_of_a_union_and_gives_their_directories_up():
    """HIVE-25915."""
    found = Listing((*listing("delta_1_1_0000").directories, *UNION), ())
    plan = _plan(found, write_ids(1), MAJOR)
    names = ["HIVE_UNION_SUBDIR_1/000000_0", "HIVE_UNION_SUBDIR_2/000000_0", "HIVE_UNION_SUBDIR_2/000001_0"]
    assert [file.name for file in plan.originals] == names
    assert {*_obsolete(plan)} == {"HIVE_UNION_SUBDIR_1", "HIVE_UNION_SUBDIR_2", "delta_1_1_0000"}
    alone = _plan(Listing(UNION, ()), write_ids(0), MAJOR)
    assert _outputs(alone) == ["base_-9223372036854775808"]


def test_a_minor_leaves_the_originals_of_a_union():
    found = Listing((*listing("delta_1_1_0000", "delta_2_2_0000").directories, *UNION), ())
    plan = _plan(found, write_ids(2), MINOR)
    assert _outputs(plan) == ["delta_0000001_0000002"]
    assert {*_obsolete(plan)} == {"delta_1_1_0000", "delta_2_2_0000"}


@pytest.mark.parametrize("file", ["part-0.orc", "sub/000000_0", "bucket_00000"])
def test_other_files_in_a_unions_directory_are_refused_and_keep_it(file):
    odd = with_files("HIVE_UNION_SUBDIR_1", "000000_0", file)
    with pytest.raises(UnsupportedLayout, match=f"HIVE_UNION_SUBDIR_1/{file} is not the name"):
        _plan(Listing((*listing("delta_1_1_0000").directories, odd), ()), write_ids(1), MAJOR)
    based = Listing((*listing("base_1*", "delta_2_2_0000").directories, odd), ())
    assert "HIVE_UNION_SUBDIR_1" not in _obsolete(_plan(based, write_ids(2), MAJOR))


def test_an_original_of_unknown_name_is_refused_where_it_would_be_read():
    found = Listing(listing("delta_1_1_0000").directories, (File("part-00000.orc", 10),))
    with pytest.raises(UnsupportedLayout, match=r"part-00000\.orc is not the name"):
        _plan(found, write_ids(1), MAJOR)


@pytest.mark.parametrize("name", ["delta_2", "base_x", "delete_delta_3_2"])
def test_a_broken_acid_name_is_refused_whatever_is_asked(name):
    found = Listing((*listing("delta_1_1_0000").directories, Directory(name, ACID_FILES)), ())
    for kind in HIVE_TYPES:
        with pytest.raises(UnsupportedLayout, match=f"{name} is not a name"):
            _plan(found, write_ids(3), kind)


TRUNCATION = ("delta_1_1_0000", "delta_2_2_0000", "delta_3_3_0000", "base_4=truncated", "delta_5_5_0000")


@pytest.mark.parametrize("data_format", ["truncated", "dropped"])
@pytest.mark.parametrize("state", ["aborted", "open"])
def test_a_truncation_that_did_not_happen_costs_no_row(state, data_format):
    """A major reads what is below it, and a minor gives nothing up that is not merged."""
    found = listing(*(name.replace("truncated", data_format) for name in TRUNCATION))
    aborted = state == "aborted"
    ids = write_ids(5, aborted=(4,)) if aborted else write_ids(5, open=(4,))
    read = ["delta_1_1_0000", "delta_2_2_0000", "delta_3_3_0000", *(["delta_5_5_0000"] if aborted else [])]
    highest = 5 if aborted else 3
    for kind, output in ((MAJOR, f"base_{highest:07d}"), (MINOR, f"delta_0000001_{highest:07d}")):
        plan = _plan(found, ids, kind)
        assert plan.base is None
        assert [delta.name for delta in plan.deltas] == read
        assert _outputs(plan) == [output]
        assert {*_obsolete(plan)} == {*read, *(["base_4"] if aborted else [])}


def test_a_compaction_starts_from_a_truncation_that_happened():
    major = _plan(listing(*TRUNCATION), write_ids(5), MAJOR)
    assert major.base is not None
    assert (major.base.name, [delta.name for delta in major.deltas]) == ("base_4", ["delta_5_5_0000"])
    assert _outputs(major) == ["base_0000005"]
    assert {*_obsolete(major)} == {"delta_1_1_0000", "delta_2_2_0000", "delta_3_3_0000", "base_4", "delta_5_5_0000"}
    minor = _plan(listing(*TRUNCATION), write_ids(5), MINOR)
    assert _outputs(minor) == []
    assert {*_obsolete(minor)} == {"delta_1_1_0000", "delta_2_2_0000", "delta_3_3_0000"}


OVERWRITTEN = pytest.mark.parametrize("base", ["base_4", "base_4=truncated", "base_4=dropped"])


@pytest.mark.parametrize("kind", HIVE_TYPES)
@OVERWRITTEN
def test_what_was_overwritten_above_an_open_write_waits_for_that_write(base, kind):
    """Readers start from the base; what lies below it cannot be settled before the open write has ended."""
    found = listing("delta_1_1_0000", "delta_2_2_0000", base, "delta_5_5_0000")
    with pytest.raises(OpenWriteBelow, match=r"base_4 was committed above write id 3, which is still open: .* ends"):
        _plan(found, write_ids(5, open=(3,)), kind)
    with pytest.raises(OpenWriteBelow, match=r"base_4 was committed above write ids 2, 3, which are still open"):
        _plan(found, write_ids(5, open=(2, 3, 5)), kind)
    for ended in (write_ids(5), write_ids(5, aborted=(3,))):
        assert "delta_2_2_0000" in _obsolete(_plan(found, ended, kind))


def test_of_many_open_writes_below_an_overwrite_the_first_are_named():
    with pytest.raises(OpenWriteBelow, match=r"write ids 2, 3, 4, 5, 6 and 7 more, which are still open"):
        _plan(listing("delta_1_1_0000", "base_20"), write_ids(20, open=tuple(range(2, 14))), MAJOR)


@OVERWRITTEN
def test_an_open_write_below_an_overwrite_is_no_matter_where_a_lower_base_is(base):
    found = listing("base_1*", "delta_2_2_0000", base)
    assert _outputs(_plan(found, write_ids(4, open=(3,)), MAJOR)) == ["base_0000002"]


def test_a_base_of_a_write_id_that_was_given_out_since_is_waited_for():
    """It was listed after the write ids were asked for. Its `_metadata_acid` may still be under way."""
    under_way = Directory("base_3", (File("_metadata_acid", 0, b""),))
    for base in (under_way, *listing("base_3", "base_3*", "base_3=truncated").directories):
        found = Listing((*listing("delta_1_1_0000", "delta_2_2_0000").directories, base), ())
        with pytest.raises(OpenWriteBelow, match="base_3 has a write id above 2, the highest when the"):
            _plan(found, write_ids(2), MAJOR)


def test_missing_history_is_refused():
    """A compaction is named after an open write id only where a base came from elsewhere, or ids went back."""
    names = ("base_1", "base_4*", "delta_1_1_0000", "delta_2_2_0000")
    with pytest.raises(NotEnoughHistory) as refused:
        _plan(listing(*names), write_ids(4, open=(3,), aborted=(1,)), MINOR)
    assert not isinstance(refused.value, OpenWriteBelow)


def test_an_overwrite_in_progress_is_no_reason_to_refuse():
    plan = _plan(listing("delta_1_1_0000", "delta_2_2_0000", "base_3"), write_ids(3, open=(3,)), MINOR)
    assert _outputs(plan) == ["delta_0000001_0000002"]


def test_a_directory_across_the_outputs_range_is_refused():
    """H23: with the base below, Hive would read the wider delta too, and each row twice."""
    found = listing("delta_1_1_0000", "delta_2_2_0000", "delta_3_3_0000", "delta_1_5")
    with pytest.raises(UnsupportedLayout, match="delta_1_5 partly overlaps the output base_0000003"):
        _plan(found, write_ids(5, open=(4,)), MAJOR)
    with pytest.raises(UnsupportedLayout, match="delta_1_5 partly overlaps the output delta_0000001_0000003"):
        _plan(found, write_ids(5, open=(4,)), MINOR)


def test_two_directories_of_one_range_are_refused():
    """Hive reads both of them."""
    found = listing("delta_1_3_v0000005", "delta_1_3_v0000006", "delta_4_4_0000")
    with pytest.raises(UnsupportedLayout, match="delta_1_3_v0000005 and delta_1_3_v0000006 hold the same write ids"):
        _plan(found, write_ids(4), MAJOR, HIVE4, txns(9))
    found = listing("delta_1_3_v0000005", "delta_1_3_v0000006")
    with pytest.raises(UnsupportedLayout, match="hold the same write ids"):
        _plan(found, write_ids(4), MINOR, HIVE4, txns(9))


def test_what_was_published_leaves_nothing_to_do():
    for kind in HIVE_TYPES:
        before = listing(*INSERTS, *UPDATE)
        plan = _plan(before, write_ids(4), kind)
        again = _plan(published(before, tuple(_outputs(plan))), write_ids(4), kind)
        assert again.outputs == ()
        assert again.obsolete == plan.obsolete
