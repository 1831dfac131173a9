"""Rows of older column lists become rows of today's without losing anything, or are refused by name."""

import pyarrow as pa
import pytest

from compaction_operator.orc.merge.evolution import Incompatible, evolve
from compaction_operator.orc.spec import parse_type, physical_type


def evolved(old: str, new: str, column: pa.Array | None = None, *, position: int = 0) -> pa.Array:
    """What a column of the old row becomes in the new one."""
    types, target = parse_type(old), parse_type(new)
    source = evolve(types, 0, target, 0)[position]
    array = source.convert(pa.nulls(3) if column is None else column)
    assert array.type == physical_type(target, source.target)
    return array


def test_equal_columns_are_taken_as_they_are():
    types = parse_type("struct<a:int,b:array<string>>")
    sources = evolve(types, 0, types, 0)
    assert [(source.target, source.column) for source in sources] == [(1, 1), (2, 2)]
    values = pa.nulls(3)
    assert all(source.convert(values) is values for source in sources)


def test_an_added_column_is_null():
    assert evolved("struct<a:int>", "struct<a:int,b:map<int,string>>", position=1).null_count == 3


def test_columns_match_by_name_in_any_order():
    sources = evolve(parse_type("struct<a:int,b:string>"), 0, parse_type("struct<b:string,a:int>"), 0)
    assert [source.column for source in sources] == [2, 1]


@pytest.mark.parametrize(("struct", "reason"), [(0, "column ID is in"), (2, "column s.ID is in")])
def test_names_of_another_case_are_refused_as_hive_reads_nulls_for_them(struct: int, reason: str):
    types, target = (parse_type("struct<id:int,s:struct<id:int>>") for _ in range(2))
    types[struct].field_names[0] = "ID"
    with pytest.raises(Incompatible, match=f"{reason} this file but .*: the table's name differs in case"):
        evolve(types, 0, target, 0)


def test_columns_whose_names_only_look_like_those_without_names_match_by_name():
    types, target = parse_type("struct<_col1:int>"), parse_type("struct<a:int>")
    types[0].field_names[0] = "_COL0"
    with pytest.raises(Incompatible, match="column _COL0 is in this file but not in the table"):
        evolve(types, 0, target, 0)


def test_columns_without_names_match_by_position():
    sources = evolve(parse_type("struct<_col0:int,_col1:string>"), 0, parse_type("struct<a:int,b:string,c:int>"), 0)
    assert [source.column for source in sources] == [1, 2, None]


@pytest.mark.parametrize(
    ("old", "new", "value", "expected"),
    [
        ("tinyint", "bigint", pa.array([1, None, -128], pa.int8()), [1, None, -128]),
        ("int", "bigint", pa.array([1, None, -(2**31)]), [1, None, -(2**31)]),
        ("int", "double", pa.array([1, None, -(2**31)]), [1.0, None, -(2.0**31)]),
        ("smallint", "float", pa.array([1, None, -32768]), [1.0, None, -32768.0]),
        ("bigint", "string", pa.array([1, None, -(2**63)]), [b"1", None, b"-9223372036854775808"]),
        ("varchar(3)", "string", pa.array([b"a", None, b"b "], pa.large_binary()), [b"a", None, b"b "]),
    ],
)
def test_a_widened_column_keeps_its_values(old: str, new: str, value: pa.Array, expected: list):
    assert evolved(f"struct<a:{old}>", f"struct<a:{new}>", value).to_pylist() == expected


def test_a_decimal_with_more_room_keeps_its_bytes():
    values = pa.array(
        [{"value": b"\x02", "scale": 1}, None, {"value": b"\x04", "scale": 0}],
        physical_type(parse_type("decimal(5,2)"), 0),
    )
    assert evolved("struct<a:decimal(5,2)>", "struct<a:decimal(10,4)>", values).equals(values)


def test_nested_fields_are_added_and_widened_at_every_level():
    old, new = "struct<a:array<struct<x:int>>>", "struct<a:array<struct<y:string,x:bigint>>>"
    array = pa.array([[{"0": 1}, None], None, []], physical_type(parse_type(old), 1))
    assert evolved(old, new, array).to_pylist() == [[{"0": None, "1": 1}, None], None, []]


def test_a_slice_of_a_column_is_converted_as_the_slice():
    old, new = "struct<a:map<int,struct<x:int>>>", "struct<a:map<bigint,struct<x:int,y:int>>>"
    array = pa.array(
        [[{"key": 9, "value": {"0": 9}}], [{"key": 1, "value": {"0": 2}}, {"key": None, "value": None}], None],
        physical_type(parse_type(old), 1),
    )
    assert evolved(old, new, array[1:]).to_pylist() == [
        [{"key": 1, "value": {"0": 2, "1": None}}, {"key": None, "value": None}],
        None,
    ]


def test_a_unions_alternatives_are_widened():
    old, new = "struct<a:uniontype<int,string>>", "struct<a:uniontype<bigint,string>>"
    array = pa.array([{"tag": 0, "0": 5, "1": None}, None], physical_type(parse_type(old), 1))
    assert evolved(old, new, array).to_pylist() == [{"tag": 0, "0": 5, "1": None}, None]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("a:int,gone:int", "a:int", "column gone is in this file but not in the table"),
        ("a:struct<x:int,gone:int>", "a:struct<x:int>", "column a.gone is in this file"),
        ("_col0:int,_col1:int", "a:int", "has fields that the table does not have"),
        ("a:bigint", "a:int", "column a is bigint in this file but int in the table"),
        ("a:bigint", "a:double", "column a is bigint"),
        ("a:int", "a:float", "column a is int"),
        ("a:double", "a:string", "column a is double"),
        ("a:float", "a:double", "column a is float"),
        ("a:string", "a:date", "column a is string"),
        ("a:char(3)", "a:string", r"column a is char\(3\)"),
        ("a:varchar(5)", "a:varchar(3)", "column a is varchar"),
        ("a:decimal(10,4)", "a:decimal(10,2)", "column a is decimal"),
        ("a:decimal(10,2)", "a:decimal(10,4)", "column a is decimal"),
        ("a:array<bigint>", "a:array<int>", "column a._0 is bigint"),
        ("a:array<int>", "a:map<int,int>", "column a is array in this file but map"),
        ("a:uniontype<int>", "a:uniontype<int,string>", "a union with another number of types"),
    ],
)
def test_what_would_lose_or_guess_something_is_refused_by_name(old: str, new: str, reason: str):
    with pytest.raises(Incompatible, match=reason):
        evolve(parse_type(f"struct<{old}>"), 0, parse_type(f"struct<{new}>"), 0)
