"""What sort of table parameters make."""

from dataclasses import replace

import pytest

from compaction_operator.metastore import ORC_INPUT_FORMAT, ORC_SERDE, Table


def table(parameters: dict[str, str], *, input_format: str = ORC_INPUT_FORMAT, serde: str = ORC_SERDE) -> Table:
    return Table(
        database="db",
        name="t",
        location="file:/w/t",
        create_time=1,
        input_format=input_format,
        serde=serde,
        columns=(("id", "int"),),
        parameters=parameters,
    )


@pytest.mark.parametrize(
    ("parameters", "transactional", "insert_only", "acid"),
    [
        ({}, False, False, False),
        ({"transactional": "false"}, False, False, False),
        ({"transactional": "true"}, True, False, True),
        ({"transactional": "TRUE", "transactional_properties": "default"}, True, False, True),
        ({"TRANSACTIONAL": "true"}, True, False, True),
        ({"transactional": "true", "transactional_properties": "insert_only"}, True, True, False),
        ({"transactional": "true", "transactional_properties": "split_update|hash_merge"}, True, False, False),
        ({"transactional_properties": "insert_only"}, False, False, False),
    ],
)
def test_the_parameters_say_whether_a_table_is_acid(parameters, transactional, insert_only, acid):
    subject = table(parameters)
    assert (subject.is_transactional, subject.is_insert_only, subject.is_acid) == (transactional, insert_only, acid)


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        ((("id", "int"), ("d", "decimal(10,2)")), "struct<id:int,d:decimal(10,2)>"),
        ((("two words", "array<struct<a:int>>"),), "struct<two words:array<struct<a:int>>>"),
        ((("a,b", "int"),), None),
        ((("a:b", "int"),), None),
        (((" a", "int"),), None),
    ],
)
def test_the_row_as_hive_writes_it_where_that_is_not_ambiguous(columns, row):
    assert replace(table({}), columns=columns).row_type == row


def test_orc_is_input_format_and_serde():
    text = "org.apache.hadoop.mapred.TextInputFormat"
    assert table({}).is_orc
    assert not table({}, input_format=text).is_orc
    assert not table({}, serde="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe").is_orc
