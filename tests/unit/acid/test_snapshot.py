"""What a reader uses and what is obsolete, as AcidUtils.getAcidState decides it."""

import itertools
import json

import pytest

from compaction_operator.acid.listing import Directory, File, Listing
from compaction_operator.acid.names import parse_directory
from compaction_operator.acid.snapshot import (
    NotEnoughHistory,
    Snapshot,
    UnsupportedLayout,
    obsolete_now,
    snapshot,
    wrote_compaction,
)
from compaction_operator.acid.write_ids import ValidTxnList, ValidWriteIdList
from tests.unit.acid.listings import FIXTURES, listing, recorded_listing, txns, with_files, write_ids


def _seen(found: Snapshot) -> tuple[str | None, list[str]]:
    return found.base.name if found.base else None, [delta.name for delta in found.deltas]


def _obsolete(found: Snapshot) -> dict[str, str]:
    return {entry.name: entry.reason for entry in found.obsolete}


def _states(version: str) -> list[str]:
    return (FIXTURES / f"{version}-acid-state.jsonl").read_text().splitlines()


@pytest.mark.parametrize("version", ["hive-3.1.3", "hive-4.0.1"])
def test_the_snapshot_of_random_listings_is_the_one_of_hives_own_code(version):
    for line in _states(version):
        state = json.loads(line)
        ids = ValidWriteIdList.parse(state["write_ids"])
        valid_txns = ValidTxnList.parse(state["txns"]) if "txns" in state else None
        if "error" in state:
            with pytest.raises(NotEnoughHistory):
                snapshot(recorded_listing(state["listing"]), ids, valid_txns=valid_txns)
            continue
        found = snapshot(recorded_listing(state["listing"]), ids, valid_txns=valid_txns)
        assert _seen(found) == (state["base"], state["current"]), line
        assert [file.name for file in found.originals] == state["originals"], line


@pytest.mark.parametrize("version", ["hive-3.1.3", "hive-4.0.1"])
def test_nothing_is_obsolete_that_hives_own_code_would_keep(version):
    """3.1.3 does not list aborted deltas; above the watermark Hive may list more."""
    for line in _states(version):
        state = json.loads(line)
        if "error" in state:
            continue
        valid_txns = ValidTxnList.parse(state["txns"]) if "txns" in state else None
        ids = ValidWriteIdList.parse(state["write_ids"])
        ours = _obsolete(snapshot(recorded_listing(state["listing"]), ids, valid_txns=valid_txns))
        covered = {name for name, reason in ours.items() if reason != "aborted"}
        assert covered <= {*state["obsolete"]}, line
        if "aborted" in state:
            assert {*ours} - covered <= {*state["aborted"]}, line


def test_the_best_base_is_the_highest_and_covers_all_below():
    found = snapshot(listing("base_3*", "base_5*", "delta_4_4_0000", "delta_6_6_0000", "000000_0"), write_ids(6))
    assert _seen(found) == ("base_5", ["delta_6_6_0000"])
    assert found.originals == ()
    covered = "covered by base_5"
    assert _obsolete(found) == {"base_3": covered, "delta_4_4_0000": covered, "000000_0": covered}


def test_ids_are_compared_as_numbers():
    found = snapshot(listing("base_9999999*", "base_10000000*"), write_ids(10000000))
    assert _seen(found)[0] == "base_10000000"


def test_a_compacted_base_is_valid_only_when_no_id_up_to_it_is_open():
    """H8: by `_metadata_acid` a base is known to hold what lay below, an open id's rows missing."""
    directories = listing("base_2*", "base_4*")
    assert _seen(snapshot(directories, write_ids(4, open=(3,))))[0] == "base_2"
    assert _seen(snapshot(directories, write_ids(4, aborted=(4,))))[0] == "base_4"
    assert _seen(snapshot(directories, write_ids(3)))[0] == "base_2"


def test_an_insert_overwrite_is_valid_when_its_own_id_is():
    """H7: without `_metadata_acid` and `_v` a base is an INSERT OVERWRITE's."""
    directories = listing("base_2", "base_4")
    assert _seen(snapshot(directories, write_ids(4, open=(3,))))[0] == "base_4"
    assert _seen(snapshot(directories, write_ids(4, aborted=(4,))))[0] == "base_2"
    assert _seen(snapshot(directories, write_ids(4, open=(4,))))[0] == "base_2"


TRUNCATIONS = pytest.mark.parametrize("data_format", ["truncated", "dropped"])


@TRUNCATIONS
def test_a_truncation_counts_when_its_own_write_id_is_committed(data_format):
    """Hive 4's TRUNCATE and DROP PARTITION write an empty base, whose `_metadata_acid` is not a compaction's."""
    names = ("delta_1_1_0000", "delta_2_2_0000", f"base_3={data_format}", "delta_4_4_0000")
    found = snapshot(listing(*names), write_ids(4))
    assert _seen(found) == ("base_3", ["delta_4_4_0000"])
    assert _obsolete(found) == dict.fromkeys(names[:2], "covered by base_3")
    assert _seen(snapshot(listing(*names), write_ids(4, open=(2,)))) == ("base_3", ["delta_4_4_0000"])


@TRUNCATIONS
def test_a_truncation_that_was_rolled_back_hides_nothing_and_is_obsolete(data_format):
    names = ("delta_1_1_0000", "delta_2_2_0000", f"base_3={data_format}", "delta_4_4_0000")
    found = snapshot(listing(*names), write_ids(4, aborted=(3,)))
    assert _seen(found) == (None, ["delta_1_1_0000", "delta_2_2_0000", "delta_4_4_0000"])
    assert _obsolete(found) == {"base_3": "aborted"}


@TRUNCATIONS
def test_a_truncation_under_way_hides_nothing_and_stays(data_format):
    names = ("delta_1_1_0000", "delta_2_2_0000", f"base_3={data_format}", "delta_4_4_0000")
    found = snapshot(listing(*names), write_ids(4, open=(3,)))
    assert _seen(found) == (None, ["delta_1_1_0000", "delta_2_2_0000", "delta_4_4_0000"])
    assert _obsolete(found) == {}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "was not read"),
        (b"", "is not JSON"),
        (b'{"thisFileVersion":"0","dataFo', "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 4096, "is not JSON"),
        (b"[]", "thisFileVersion None is unknown"),
        (b'{"thisFileVersion":"1","dataFormat":"compacted"}', "thisFileVersion '1' is unknown"),
        (b'{"thisFileVersion":0,"dataFormat":"compacted"}', "thisFileVersion 0 is unknown"),
        (b'{"dataFormat":"compacted"}', "thisFileVersion None is unknown"),
        (b'{"thisFileVersion":"0"}', "dataFormat None is unknown"),
        (b'{"thisFileVersion":"0","dataFormat":"COMPACTED"}', "dataFormat 'COMPACTED' is unknown"),
        (b'{"thisFileVersion":"0","dataFormat":"merged"}', "dataFormat 'merged' is unknown"),
        (b'{"thisFileVersion":"0","dataFormat":["compacted"]}', "is unknown"),
    ],
)
def test_a_base_whose_metadata_is_not_understood_is_refused_by_name(content, problem):
    """Hive's readers fail on it too. It is unknown whether it counts."""
    odd = Directory("base_3", (File("_metadata_acid", 48, content),))
    found = Listing((*listing("delta_1_1_0000").directories, odd), ())
    with pytest.raises(UnsupportedLayout, match="base_3/_metadata_acid") as refused:
        snapshot(found, write_ids(3, aborted=(3,)))
    assert problem in str(refused.value)
    with pytest.raises(UnsupportedLayout):
        obsolete_now(found, write_ids(3), highest_write_id=3)


def test_what_a_base_of_hive_4s_compactor_says_of_itself_does_not_matter():
    """Hive looks at the name first (isCompactedBase)."""
    odd = Directory("base_3_v0000007", (File("_metadata_acid", 4, b"junk"),))
    found = Listing((*listing("delta_1_1_0000").directories, odd), ())
    assert _seen(snapshot(found, write_ids(3, aborted=(3,)), valid_txns=txns(9))) == ("base_3_v0000007", [])


def test_the_metadata_of_a_delta_decides_nothing():
    odd = Directory("delta_2_2", (*listing("delta_2_2").directories[0].files, File("_metadata_acid", 4, b"junk")))
    assert _seen(snapshot(Listing((odd,), ()), write_ids(2))) == (None, ["delta_2_2"])


def test_a_visibility_suffix_makes_a_base_compacted():
    directories = listing("base_2_v0000007", "base_4_v0000008")
    assert _seen(snapshot(directories, write_ids(4, open=(3,)), valid_txns=txns(9)))[0] == "base_2_v0000007"


def test_of_two_bases_of_one_id_the_compacted_one_is_taken():
    found = snapshot(listing("base_0000003", "base_0000003_v0000007"), write_ids(3), valid_txns=txns(9))
    assert _seen(found)[0] == "base_0000003_v0000007"
    assert _obsolete(found) == {"base_0000003": "covered by base_0000003_v0000007"}


def test_the_base_of_a_converted_table_is_always_valid():
    found = snapshot(listing("base_-9223372036854775808*", "000000_0", "delta_1_1_0000"), write_ids(1, open=(1,)))
    assert _seen(found) == ("base_-9223372036854775808", [])
    assert _obsolete(found) == {"000000_0": "covered by base_-9223372036854775808"}


def test_history_is_missing_if_there_are_bases_but_none_is_usable():
    with pytest.raises(NotEnoughHistory, match=r"no base is usable with write ids .*the oldest is base_4"):
        snapshot(listing("base_4*", "base_5*", "delta_1_1_0000"), write_ids(5, open=(2,)))


@pytest.mark.parametrize("ids", [write_ids(4, aborted=(4,)), write_ids(4, open=(4,))])
def test_an_insert_overwrite_that_was_not_committed_is_no_missing_history(ids):
    assert _seen(snapshot(listing("base_4", "delta_1_1_0000"), ids)) == (None, ["delta_1_1_0000"])


def test_originals_are_read_only_without_a_base_and_in_the_order_of_their_paths():
    names = ("000000_0", "000000_0_copy_10", "000000_0_copy_2", "000001_0")
    found = snapshot(listing(*names), write_ids(0))
    assert tuple(file.name for file in found.originals) == names
    assert found.obsolete == ()


def test_empty_originals_are_not_read():
    assert snapshot(Listing((), (File("000000_0", 0),)), write_ids(0)).originals == ()


def test_a_wider_delta_covers_the_narrower_ones_and_their_deletes():
    names = ("delta_1_1_0000", "delete_delta_2_2_0000", "delta_3_3_0000", "delta_1_3", "delete_delta_1_3")
    found = snapshot(listing(*names), write_ids(3))
    assert _seen(found) == (None, ["delete_delta_1_3", "delta_1_3"])
    assert _obsolete(found) == dict.fromkeys(names[:3], "merged into delta_1_3")


def test_all_statements_of_one_write_id_are_read():
    """H17: a MERGE or a multi-insert writes several directories with one id."""
    names = ["delete_delta_2_2_0000", "delta_2_2_0001", "delete_delta_2_2_0002", "delta_2_2_0002"]
    assert _seen(snapshot(listing("delta_1_1_0000", *names), write_ids(2))) == (None, ["delta_1_1_0000", *names])


def test_what_was_compacted_without_statement_covers_all_statements():
    found = snapshot(listing("delta_2_2_0000", "delta_2_2_0001", "delta_2_2"), write_ids(2))
    assert _seen(found) == (None, ["delta_2_2"])
    assert {*_obsolete(found)} == {"delta_2_2_0000", "delta_2_2_0001"}


def test_open_ids_are_neither_read_nor_obsolete():
    found = snapshot(listing("delta_1_1_0000", "delta_2_2_0000", "delta_3_3_0000"), write_ids(3, open=(2,)))
    assert _seen(found) == (None, ["delta_1_1_0000", "delta_3_3_0000"])
    assert found.obsolete == ()


def test_an_open_id_below_an_overwrite_keeps_its_directory():
    """H8: its writer is still there; nothing at or above the lowest open id is given up."""
    found = snapshot(listing("delta_1_1_0000", "delta_2_4", "delta_5_5_0000", "base_6"), write_ids(6, open=(3,)))
    assert _seen(found) == ("base_6", [])
    assert _obsolete(found) == {"delta_1_1_0000": "covered by base_6"}


def test_wholly_aborted_directories_are_obsolete_at_or_below_the_watermark():
    names = ("base_2", "delta_3_4", "delta_5_5_0000", "delete_delta_6_6_0000", "delta_9_9_0000")
    found = snapshot(listing("delta_1_1_0000", *names), write_ids(9, open=(8,), aborted=(2, 3, 4, 6, 9)))
    assert _seen(found) == (None, ["delta_1_1_0000", "delta_5_5_0000"])
    assert _obsolete(found) == dict.fromkeys(("base_2", "delta_3_4", "delete_delta_6_6_0000"), "aborted")
    assert {directory.name for directory in found.aborted} == {*_obsolete(found)}


def test_a_delta_with_one_valid_id_is_read():
    assert _seen(snapshot(listing("delta_1_3"), write_ids(3, aborted=(1, 3)))) == (None, ["delta_1_3"])


def test_a_compacted_base_named_after_an_aborted_id_is_not_aborted():
    found = snapshot(listing("base_7*", "delta_7_7_0000"), write_ids(7, aborted=(7,)))
    assert _seen(found) == ("base_7", [])
    assert _obsolete(found) == {"delta_7_7_0000": "aborted"}


def test_visibility_names_are_refused_without_a_transaction_list():
    with pytest.raises(UnsupportedLayout, match="delta_1_3_v0000022 counts only if transaction 22 is committed"):
        snapshot(listing("delta_1_1_0000", "delta_1_3_v0000022"), write_ids(3))


@pytest.mark.parametrize("valid_txns", [txns(22, open=(22,)), txns(22, aborted=(22,)), txns(21)])
def test_a_compaction_that_is_not_committed_counts_for_nothing(valid_txns):
    """HIVE-29571 and its like: its directory is not read, not obsolete, and makes nothing obsolete."""
    names = ("delta_1_1_0000", "delta_2_2_0000")
    for output in ("delta_1_2_v0000022", "base_2_v0000022"):
        found = snapshot(listing(*names, output), write_ids(2), valid_txns=valid_txns)
        assert _seen(found) == (None, [*names])
        assert found.obsolete == ()


def test_a_committed_compaction_counts():
    found = snapshot(listing("delta_1_1_0000", "delta_1_3_v0000022"), write_ids(3), valid_txns=txns(22))
    assert _seen(found) == (None, ["delta_1_3_v0000022"])
    assert _obsolete(found) == {"delta_1_1_0000": "merged into delta_1_3_v0000022"}


def test_the_order_of_the_listing_does_not_matter():
    names = ("base_2*", "base_3*", "delta_3_3_0000", "delta_4_4_0000", "delta_4_5", "delete_delta_4_5")
    results = {snapshot(listing(*order), write_ids(5)) for order in itertools.permutations(names)}
    assert len(results) == 1


def test_unknown_names_are_neither_read_nor_obsolete():
    found = snapshot(listing("base_2*", "prt=p1", "1_HIVE_UNION"), write_ids(2))
    assert found.obsolete == ()
    other = Listing(listing("base_2*").directories, (File("part-00000.orc", 9),))
    assert obsolete_now(other, write_ids(2), highest_write_id=2) == {}


def test_obsolete_now_stops_at_the_highest_write_id_of_the_compaction():
    """H6: what a later compaction made obsolete is that one's to clean up."""
    later = listing("delta_1_1_0000", "delta_1_3", "delta_5_5_0000", "base_5*", "000000_0")
    covered = "covered by base_5"
    expected = {"delta_1_1_0000": covered, "delta_1_3": covered, "000000_0": covered}
    assert obsolete_now(later, write_ids(5), highest_write_id=3) == expected
    assert {*obsolete_now(later, write_ids(5), highest_write_id=5)} == {*expected, "delta_5_5_0000"}


def test_obsolete_now_says_that_it_cannot_know():
    with pytest.raises(NotEnoughHistory):
        obsolete_now(listing("base_4*", "delta_1_1_0000"), write_ids(4, open=(2,)), highest_write_id=4)
    with pytest.raises(UnsupportedLayout):
        obsolete_now(listing("base_4_v0000001", "delta_1_1_0000"), write_ids(4), highest_write_id=4)


def test_a_union_directory_is_obsolete_once_there_is_a_base_and_only_with_nothing_else_in_it():
    """HIVE-25915 and H15: Hive gives up every unknown directory then; here only what is surely the table's own."""
    own = with_files("HIVE_UNION_SUBDIR_1", "000000_0", "_tmp/x")
    odd = with_files("HIVE_UNION_SUBDIR_2", "000000_0", "notes.txt")
    found = Listing((*listing("base_2*").directories, own, odd, with_files("sub", "000000_0")), ())
    assert _obsolete(snapshot(found, write_ids(2))) == {"HIVE_UNION_SUBDIR_1": "covered by base_2"}
    assert obsolete_now(Listing((own,), ()), write_ids(2), highest_write_id=2) == {}


@pytest.mark.parametrize("name", ["base_2", "delta_1_2", "delta_1_1"])
def test_an_empty_directory_that_would_cover_others_is_refused(name):
    """R: 3.1.3 reads nothing else then, and 4.0.1, which lists files, reads what is below."""
    found = Listing((*listing("delta_1_1_0000").directories, Directory(name, ())), ())
    with pytest.raises(UnsupportedLayout, match=f"{name} is empty"):
        snapshot(found, write_ids(2))
    covered = Listing((*listing("base_2*").directories, Directory("base_1", ()), Directory("delta_2_2_0000", ())), ())
    assert {*_obsolete(snapshot(covered, write_ids(2)))} == {"base_1", "delta_2_2_0000"}


def test_a_delta_that_readers_pass_over_though_nothing_covers_it_is_refused():
    """Hive's walk gives it up; what it holds is nowhere else."""
    with pytest.raises(UnsupportedLayout, match="delta_0000000_0000000 is below every write id"):
        snapshot(listing("delta_0000000_0000000", "delta_1_1_0000"), write_ids(1))
    found = snapshot(listing("base_1*", "delta_0000000_0000000"), write_ids(1))
    assert _obsolete(found) == {"delta_0000000_0000000": "covered by base_1"}


def test_the_guard_base_serves_every_snapshot_and_is_covered_by_any_other_base():
    """H24."""
    names = ("base_-9223372036854775808*", "delta_1_1_0000", "delta_2_2_0000")
    assert _seen(snapshot(listing(*names), write_ids(1)))[1] == ["delta_1_1_0000"]
    published = listing(*names, "base_2*")
    for open_ids in ((1,), (2,)):
        found = snapshot(published, write_ids(2, open=open_ids))
        assert _seen(found)[0] == "base_-9223372036854775808"
    assert _obsolete(snapshot(published, write_ids(2)))["base_-9223372036854775808"] == "covered by base_2"


def test_what_an_aborted_compaction_wrote_is_obsolete() -> None:
    """No snapshot ever includes it. The output of an open one, and what is above the highest write id, stays."""
    names = ("delta_0000001_0000001_0000", "base_0000001_v0000007", "base_0000001_v0000008", "base_0000009_v0000007")
    found = obsolete_now(listing(*names), write_ids(9), valid_txns=txns(9, open=(8,), aborted=(7,)), highest_write_id=3)
    assert found == {"base_0000001_v0000007": "written by aborted transaction 7"}


@pytest.mark.parametrize(
    ("name", "compacted"),
    [
        ("delta_0000001_0000001_0000", False),
        ("delta_0000001_0000001", False),
        ("delete_delta_0000002_0000002_0000", False),
        ("base_0000003", False),
        ("base_0000003=truncated", False),
        ("delta_0000001_0000003", True),
        ("delete_delta_0000001_0000003", True),
        ("delta_0000002_0000002_v0000007", True),
        ("base_0000003_v0000007", True),
        ("base_0000003*", True),
    ],
)
def test_what_a_compaction_wrote_is_not_taken_for_a_writers(name: str, compacted: bool) -> None:
    (directory,) = listing(name).directories
    parsed = parse_directory(directory.name)
    assert parsed is not None
    assert wrote_compaction(directory, parsed) is compacted
