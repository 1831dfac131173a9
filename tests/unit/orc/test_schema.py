"""Type trees are compared, named and wrapped."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compaction_operator.orc.file import read_tail
from compaction_operator.orc.spec import Kind, Type, parse_type, physical_type
from compaction_operator.orc.spec.schema import acid_tree, column_names, is_acid, problem, same, subtree_end, type_tree
from tests.unit.orc.build import FIXTURES, SCHEMA, insert, write_acid

ROOT = Type(kind=Kind.STRUCT, subtypes=[1], field_names=["c"])
INT = Type(kind=Kind.INT)
ORIGINAL = FIXTURES / "hive-3.1.3" / "original" / "before"


def test_an_original_wrapped_has_the_tree_of_the_acid_files_after_it():
    """000000_0 is from before the table was ACID, the delta from after."""
    original = read_tail(str(ORIGINAL / "000000_0")).types
    acid = read_tail(str(ORIGINAL / "delta_10000001_10000001_0000" / "bucket_00000")).types
    assert not is_acid(original)
    assert is_acid(acid)
    assert same(acid_tree(original), 0, acid, 0)


def test_columns_are_named_as_hive_writes_paths(tmp_path: Path):
    nested = pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.int32())))])
    schema = SCHEMA.set(5, pa.field("row", nested))
    types = read_tail(write_acid(tmp_path / "a", [], schema=schema).path).types
    assert column_names(types)[6:] == ["row", "row.m", "row.m._key", "row.m._value", "row.m._value._elem"]


def test_a_struct_with_the_names_of_an_acid_file_but_other_types_is_none(tmp_path: Path):
    types = deepcopy(list(read_tail(write_acid(tmp_path / "a", [insert(1, 0)]).path).types))
    assert is_acid(types)
    types[3].kind = Kind.LONG
    assert not is_acid(types)


def test_files_with_equal_trees_share_one_and_others_do_not(tmp_path: Path):
    """A table has thousands of files."""
    one, other = (read_tail(write_acid(tmp_path / name, [insert(1, 0)]).path).tree for name in "ab")
    renamed = deepcopy(list(one.types))
    renamed[6].field_names[0] = "t"
    assert one is other
    assert type_tree(renamed) is not one
    assert list(type_tree(renamed).types) == renamed


def test_types_are_the_same_when_all_is_the_case_of_names_too():
    text = "struct<a:array<struct<b:char(4)>>,d:decimal(5,2)>"
    one = parse_type(text)
    assert same(one, 0, parse_type(text), 0)
    for other in (text.replace("4", "5"), text.replace("b:", "c:"), "struct<a:array<struct<b:char(4)>>>"):
        assert not same(one, 0, parse_type(other), 0)
    another_case = parse_type(text)
    another_case[2].field_names[0] = "B"
    assert not same(one, 0, another_case, 0)


def test_the_columns_below_one_end_before_the_next():
    types = parse_type("struct<a:array<struct<b:int,c:map<int,int>>>,d:int>")
    assert [subtree_end(types, column) for column in range(len(types))] == [8, 7, 7, 4, 7, 6, 7, 8]


@pytest.mark.parametrize(
    ("types", "reason"),
    [
        ([ROOT, Type(kind=19)], "column c has the unknown kind 19"),
        ([ROOT, Type(kind=Kind.DECIMAL)], "column c is a decimal without a precision"),
        ([ROOT, Type(kind=Kind.LIST)], "not a tree"),
        ([ROOT, Type(kind=Kind.LIST, subtypes=[1])], "not a tree"),
        ([ROOT, Type(kind=Kind.INT), Type(kind=Kind.INT)], "not a tree"),
        ([Type(kind=Kind.STRUCT, subtypes=[1]), Type(kind=Kind.INT)], "not a tree"),
        ([ROOT, Type(kind=Kind.STRUCT)], "not a tree"),
        ([ROOT, Type(kind=Kind.UNION)], "not a tree"),
        ([ROOT, Type(kind=Kind.INT, subtypes=[2]), Type(kind=Kind.INT)], "not a tree"),
        ([Type(kind=Kind.STRUCT, subtypes=[2, 1], field_names=["a", "b"]), INT, INT], "not a tree"),
        ([Type(kind=Kind.STRUCT, subtypes=[1, 9], field_names=["a", "b"]), INT], "not a tree"),
    ],
)
def test_types_that_cannot_be_rewritten_are_named(types: list[Any], reason: str):
    assert reason in (problem(types) or "")


def test_trees_may_be_a_hundred_levels_deep():
    """Deeper ones would end in Python's limit of recursion."""

    def nested(depth: int) -> list[Any]:
        lists = [Type(kind=Kind.LIST, subtypes=[level + 1]) for level in range(1, depth)]
        return [ROOT, *lists, Type(kind=Kind.LONG)]

    assert problem(nested(100)) is None
    physical_type(nested(100), 0)
    assert problem(nested(101)) == "its types are nested more than 100 levels deep"


def test_a_time_zone_of_its_own_is_no_problem():
    assert problem([ROOT, Type(kind=Kind.TIMESTAMP_INSTANT)]) is None
