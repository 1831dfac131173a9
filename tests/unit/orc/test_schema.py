"""Type trees are told apart, named and wrapped."""

from pathlib import Path

import pyarrow as pa

from compaction_operator.orc.messages import Kind, Type
from compaction_operator.orc.schema import acid_tree, column_names, difference, is_acid, unsupported
from compaction_operator.orc.tail import read_tail
from tests.unit.orc.build import FIXTURES, SCHEMA, insert, write_acid

ORIGINAL = FIXTURES / "hive-3.1.3" / "original" / "before"


def test_an_original_wrapped_has_the_tree_of_the_acid_files_after_it():
    """000000_0 is from before the table was ACID, the delta from after."""
    original = read_tail(str(ORIGINAL / "000000_0")).types
    acid = read_tail(str(ORIGINAL / "delta_10000001_10000001_0000" / "bucket_00000")).types
    assert not is_acid(original)
    assert is_acid(acid)
    assert difference(acid_tree(original), acid) is None


def test_columns_are_named_as_hive_writes_paths(tmp_path: Path):
    nested = pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.int32())))])
    schema = SCHEMA.set(5, pa.field("row", nested))
    types = read_tail(write_acid(tmp_path / "a", [], schema=schema).path).types
    assert column_names(types)[6:] == ["row", "row.m", "row.m._key", "row.m._value", "row.m._value._elem"]


def test_a_struct_with_the_names_of_an_acid_file_but_other_types_is_none(tmp_path: Path):
    types = read_tail(write_acid(tmp_path / "a", [insert(1, 0)]).path).types
    assert is_acid(types)
    types[3].kind = Kind.LONG
    assert not is_acid(types)


def test_strings_differ_but_have_one_encoding():
    root = Type(kind=Kind.STRUCT, subtypes=[1], field_names=["c"])
    char, varchar = Type(kind=Kind.CHAR, maximum_length=4), Type(kind=Kind.VARCHAR, maximum_length=9)
    assert difference([root, char], [root, varchar]) == "c"
    assert difference([root, char], [root, Type(kind=Kind.CHAR, maximum_length=5)]) == "c"
    assert difference([root, char], [root, varchar], same_encoding=True) is None
    assert difference([root, char], [root, Type(kind=Kind.BINARY)], same_encoding=True) == "c"


def test_kinds_that_cannot_be_kept_are_named():
    root = Type(kind=Kind.STRUCT, subtypes=[1], field_names=["c"])
    assert unsupported([root, Type(kind=Kind.TIMESTAMP_INSTANT)]) is None
    assert unsupported([root, Type(kind=19)]) == "column c is of kind 19, which cannot be kept bit for bit"
    assert unsupported([root, Type(kind=Kind.DECIMAL)]) == "column c is a decimal of Hive 0.11 without a precision"
