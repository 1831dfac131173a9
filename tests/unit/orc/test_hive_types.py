"""Types as the metastore spells them become the type trees that Hive writes."""

from collections.abc import Sequence
from typing import Any

import pytest

from compaction_operator.orc.file import read_tail
from compaction_operator.orc.spec import Kind, parse_type, spell
from compaction_operator.orc.spec.schema import problem, same
from tests.unit.orc.build import FIXTURES

TYPES = "hive-3.1.3/types/after-major"


def test_a_struct_is_numbered_in_the_order_in_which_its_types_begin():
    types = parse_type("struct<a:int,b:array<struct<x:decimal(10,2),y:char(3)>>,m:map<string,uniontype<int,date>>>")
    assert [Kind(type_.kind).name for type_ in types] == [
        *("STRUCT", "INT", "LIST", "STRUCT", "DECIMAL", "CHAR", "MAP", "STRING", "UNION", "INT", "DATE")
    ]
    assert [list(type_.subtypes) for type_ in types if type_.subtypes] == [[1, 2, 6], [3], [4, 5], [7, 8], [9, 10]]
    assert problem(types) is None


def test_names_of_fields_are_in_lower_case_as_hive_takes_them():
    types = parse_type("struct<A:struct<bC:INT>>")
    assert [list(type_.field_names) for type_ in types] == [["a"], ["bc"], []]


@pytest.mark.parametrize(
    "text", ["timestamp with local time zone", "varchar(20)", "decimal(38,18)", "tinyint", "binary"]
)
def test_a_primitive_type_is_spelled_as_it_was_read(text: str):
    assert spell(parse_type(text)[0]) == text


def test_a_decimal_without_numbers_is_hives_default():
    assert spell(parse_type("DECIMAL")[0]) == "decimal(10,0)"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "int>",
        "struct<a:>",
        "struct<a>",
        "struct<:int>",
        "struct<,:int>",
        "struct< :int>",
        "foo",
        "array<int,int>",
        "map<int>",
        "decimal(3",
        "char(x)",
        "char(1,2)",
        "array<" * 200,
    ],
)
def test_what_is_no_type_is_refused_with_its_text(text: str):
    with pytest.raises(ValueError, match="is not a Hive type"):
        parse_type(text)


def test_the_tree_is_that_of_a_file_which_hive_wrote():
    file = next((FIXTURES / TYPES).rglob("bucket_00000*"))
    types = read_tail(str(file)).types
    row = parse_type(_spelled(types, 6))
    assert same(row, 0, types, 6)


def _spelled(types: Sequence[Any], column: int) -> str:
    """The whole type of a column, as the metastore would say it."""
    type_ = types[column]
    children = [_spelled(types, child) for child in type_.subtypes]
    if type_.field_names:
        children = [f"{name}:{child}" for name, child in zip(type_.field_names, children, strict=True)]
    return f"{spell(type_)}<{','.join(children)}>" if children else spell(type_)
