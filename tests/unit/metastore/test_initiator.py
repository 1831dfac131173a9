"""Whether Hive compacts a table by itself, by the properties of table and database and the metastore's settings."""

from collections.abc import Mapping

import pytest

from compaction_operator.metastore import (
    AutoCompaction,
    Generation,
    MetastoreError,
    MetastoreUnavailable,
    auto_compaction,
)
from tests.support.metastore import FakeMetastore
from tests.unit.metastore.test_tables import table

SET, UPPER, AGAINST = {"no_auto_compaction": "true"}, {"NO_AUTO_COMPACTION": "TRUE"}, {"no_auto_compaction": "false"}
HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4


def settings(
    generation: Generation, database: Mapping[str, str] | None = None, initiator: str | MetastoreError = "true"
) -> FakeMetastore:
    """A metastore with an Initiator, or with another answer to whether it has one."""
    metastore = FakeMetastore(generation, databases={"db": database or {}})
    if generation is HIVE3:
        metastore.fail(AssertionError("Hive 3 has no such property"), "get_database")
    if isinstance(initiator, MetastoreError):
        metastore.fail(initiator, "get_config_value")
    elif initiator:
        metastore.settings["hive.compactor.initiator.on"] = initiator
    return metastore


@pytest.mark.parametrize("parameters", [SET, UPPER])
@pytest.mark.parametrize("generation", Generation)
def test_a_table_can_say_no_in_either_case(generation: Generation, parameters: dict[str, str]) -> None:
    assert auto_compaction(settings(generation), table(parameters)) is AutoCompaction.OFF_BY_TABLE


def test_hive_3_does_not_ask_the_database() -> None:
    assert auto_compaction(settings(HIVE3, SET), table({})) is AutoCompaction.ON


@pytest.mark.parametrize(
    ("database", "of_table", "found"),
    [
        (SET, {}, AutoCompaction.OFF_BY_DATABASE),
        (SET, AGAINST, AutoCompaction.OFF_BY_DATABASE),
        (AGAINST, SET, AutoCompaction.ON),
        ({}, AGAINST, AutoCompaction.ON),
        ({}, SET, AutoCompaction.OFF_BY_TABLE),
    ],
)
def test_on_hive_4_the_database_comes_before_the_table(
    database: dict[str, str], of_table: dict[str, str], found: AutoCompaction
) -> None:
    assert auto_compaction(settings(HIVE4, database), table(of_table)) is found


@pytest.mark.parametrize("generation", Generation)
@pytest.mark.parametrize(
    ("answer", "found", "may_happen"),
    [
        ("true", AutoCompaction.ON, True),
        ("false", AutoCompaction.INITIATOR_OFF, False),
        ("", AutoCompaction.UNKNOWN, True),
        ("perhaps", AutoCompaction.UNKNOWN, True),
        (MetastoreError("not for you"), AutoCompaction.UNKNOWN, True),
    ],
)
def test_else_it_is_the_initiators_setting_and_what_is_not_known_may_happen(
    generation: Generation, answer: str | MetastoreError, found: AutoCompaction, may_happen: bool
) -> None:
    seen = auto_compaction(settings(generation, initiator=answer), table({}))
    assert (seen, seen.may_happen) == (found, may_happen)


def test_a_metastore_that_does_not_answer_says_nothing_about_its_initiator() -> None:
    with pytest.raises(MetastoreUnavailable):
        auto_compaction(settings(HIVE3, initiator=MetastoreUnavailable("gone")), table({}))
