"""Which files of a plan are no ACID files, and whose rows they are; the oracle's tests ask Hive the same."""

import pytest

from compaction_operator.acid.inputs import RawFile, original_inputs
from compaction_operator.acid.listing import Listing
from compaction_operator.acid.plan import CompactionPlan, Layout, plan_compaction
from compaction_operator.acid.snapshot import UnsupportedLayout
from compaction_operator.api.compaction import HIVE_TYPES, CompactionType
from tests.unit.acid.listings import listing, with_files, write_ids

BUCKET_0, BUCKET_1, STATEMENT_1 = 536870912, 536936448, 536870913


def _plan(found: Listing, high: int, kind: CompactionType = CompactionType.MAJOR) -> CompactionPlan:
    return plan_compaction(found, write_ids(high), type=kind, layout=Layout.HIVE3)


def test_originals_have_write_id_0_and_come_by_path():
    union = (with_files("HIVE_UNION_SUBDIR_10", "000000_0"), with_files("HIVE_UNION_SUBDIR_2", "000000_0", "000001_0"))
    found = Listing(union, listing("000000_0_copy_2", "000000_0", "000000_0_copy_10").files)
    names = ["000000_0", "000000_0_copy_10", "000000_0_copy_2", "HIVE_UNION_SUBDIR_10/000000_0"]
    assert original_inputs(_plan(found, 0), found) == {
        0: tuple(RawFile(name, 0, BUCKET_0) for name in (*names, "HIVE_UNION_SUBDIR_2/000000_0")),
        1: (RawFile("HIVE_UNION_SUBDIR_2/000001_0", 0, BUCKET_1),),
    }


@pytest.mark.parametrize("kind", HIVE_TYPES)
def test_rows_of_load_data_have_their_directorys_write_id_and_statement(kind):
    loaded = with_files("delta_0000002_0000002_0001", "000000_0_copy_1", "000000_0")
    found = Listing((loaded, with_files("delta_3_3", "000000_0"), *listing("delta_4_4_0000").directories), ())
    assert original_inputs(_plan(found, 4, kind), found) == {
        0: (
            RawFile("delta_0000002_0000002_0001/000000_0", 2, STATEMENT_1),
            RawFile("delta_0000002_0000002_0001/000000_0_copy_1", 2, STATEMENT_1),
            RawFile("delta_3_3/000000_0", 3, BUCKET_0),
        )
    }


def test_a_base_of_load_data_overwrite_is_read_by_a_major_only():
    base = with_files("base_0000003", "000000_0")
    found = Listing((base, *listing("delta_4_4_0000", "delta_5_5_0000").directories), ())
    assert original_inputs(_plan(found, 5), found) == {0: (RawFile("base_0000003/000000_0", 3, BUCKET_0),)}
    assert original_inputs(_plan(found, 5, CompactionType.MINOR), found) == {}


def test_only_what_the_plan_reads_counts():
    covered = with_files("delta_1_1_0000", "000000_0")
    found = Listing((covered, *listing("base_2*", "delta_3_3_0000").directories), listing("000000_0").files)
    assert original_inputs(_plan(found, 3), found) == {}


def test_a_plan_without_outputs_reads_nothing():
    found = Listing((with_files("base_3", "sub/000000_0"),), ())
    assert original_inputs(_plan(found, 3), found) == {}


@pytest.mark.parametrize(
    ("path", "number"), [("delta_2_2_4096/000000_0", "statement 4096"), ("delta_2_2_0000/004096_0", "bucket 4096")]
)
def test_numbers_that_hive_cannot_encode_are_refused(path, number):
    """Hive's own readers fail on them: statementId out of range."""
    name, _, file = path.partition("/")
    found = Listing((with_files(name, file),), ())
    with pytest.raises(UnsupportedLayout, match=f"{path}: .*{number}"):
        original_inputs(_plan(found, 2), found)
