"""Partition specs, names and the escaping between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandbox.metastore.admin import name_of

from compaction_operator.metastore import lock_name
from compaction_operator.metastore.partition_specs import PartitionSpecError, parse_spec, select, values_of

KEYS = ("year", "month")
NAMES = ("year=2023/month=1", "year=2024/month=1", "year=2024/month=12")


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("year=2024", NAMES[1:]),
        ("year='2024'", NAMES[1:]),
        ("year=2024/month='1'", NAMES[1:2]),
        ("year=2024,month=1", NAMES[1:2]),
        (' year = "2024" , month = 12 ', NAMES[2:]),
        ("month=1,year=2024", NAMES[1:2]),
        ("YEAR=2024", NAMES[1:]),
        ("year=2024/month=12", NAMES[2:]),
        ("year=2022", ()),
        ("year=202", ()),
        ("year=2024/month=01", ()),
    ],
)
def test_a_spec_means_the_partitions_that_begin_with_its_values(spec, names):
    assert select([spec], keys=KEYS, names=NAMES).names == names


def test_no_spec_means_every_partition():
    assert select([], keys=KEYS, names=NAMES).names == NAMES


def test_several_specs_mean_each_partition_once_and_those_that_match_nothing_are_named():
    selection = select(["year=2024", "year=2024/month=1", "year=1999"], keys=KEYS, names=NAMES)
    assert selection.names == NAMES[1:]
    assert selection.unmatched == ("year=1999",)


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("prt='a:b'", "a:b"),
        ("prt=a%3Ab", "a:b"),
        ("prt=a%3ab", "a:b"),
        ("prt='a%3Ab'", "a%3Ab"),
        ("prt='a/b,c=d'", "a/b,c=d"),
        ("prt='it\\'s'", "it's"),
        ('prt="it\'s"', "it's"),
        ("prt=''", ""),
        ("prt='back\\\\slash'", "back\\slash"),
        ("prt=two words", "two words"),
        ("prt=ümlaut", "ümlaut"),
        ("prt=100%", "100%"),
        ("prt=__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"),
        ("prt=a=b", "a=b"),
    ],
)
def test_quoted_values_are_literal_and_bare_ones_are_spelled_as_in_a_name(spec, value):
    assert parse_spec(spec, ["prt"]) == (value,)


@pytest.mark.parametrize(
    "spec",
    ["", " ", "year", "year=", "year='2024", "year=2024,", "year=2024,,month=1", "=1", "year='a'b", "year=a'b", "/"],
)
def test_a_malformed_spec_is_named(spec):
    with pytest.raises(PartitionSpecError) as caught:
        parse_spec(spec, KEYS)
    assert repr(spec) in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("day=1", "no partition key 'day'; keys are: year, month"),
        ("month=1", "key 'year' must be given before the later ones"),
        ("year=1,YEAR=2", "gives key 'year' twice"),
    ],
)
def test_a_spec_that_does_not_fit_the_keys_is_refused(spec, complaint):
    with pytest.raises(PartitionSpecError) as caught:
        parse_spec(spec, KEYS)
    assert complaint in str(caught.value)


def test_an_unpartitioned_table_has_no_keys():
    with pytest.raises(PartitionSpecError, match="keys are: none"):
        parse_spec("prt=1", [])


def test_special_characters_are_escaped_as_hive_does():
    value = "\x01\x1f\"#%'*/:=?\\\x7f{[]^ }~ü,"
    assert name_of(["K"], [value]) == "k=%01%1F%22%23%25%27%2A%2F%3A%3D%3F%5C%7F%7B%5B%5D%5E }~ü,"


VALUES = st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_a_name_gives_its_values_back(values):
    assert values_of(name_of([f"k{number}" for number in range(len(values))], values)) == tuple(values)


@given(VALUES)
def test_a_quoted_value_finds_its_partition(value):
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    assert select([f"prt='{quoted}'"], keys=["prt"], names=[name_of(["prt"], [value])]).names


@pytest.mark.parametrize("value", ["P1", "a:b", "x=y", "100%", "a/b", "a%3Ab", "%25"])
def test_a_lock_is_found_by_its_partitions_name_however_the_metastore_spelled_it(value):
    """H5: Hive 3 keeps `prt=a%3ab` of `prt=a%3Ab`, Hive 4 makes `prt=a%253Ab` of it."""
    name = name_of(["prt"], [value])
    by_hive_4 = name_of(["prt"], [name.removeprefix("prt=")])
    assert (
        lock_name(name)
        == lock_name(name.lower())
        == lock_name(by_hive_4)
        == lock_name(f"PRT={value}".replace("/", "%2F"))
    )


def test_a_lock_on_several_keys_keeps_them_apart():
    assert lock_name("Day=1/Hour=a%252Fb") == "day=1/hour=a%2fb"
