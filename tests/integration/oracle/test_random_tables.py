"""A small share of the random tables on every run; the README says how to try more."""

from collections import Counter

import pytest

from tests.integration.oracle.hive import HiveOracle
from tests.integration.oracle.random_tables import run, summary

TABLES = 25
FIRST_SEED = 1


@pytest.mark.parametrize("version", [3, 4])
def test_random_tables_read_the_same_before_and_after(version: int, oracles: dict[int, HiveOracle]) -> None:
    outcomes = list(run(oracles[version], tables=TABLES, seed=FIRST_SEED))
    wrong = [f"{outcome.verdict}: {outcome.command()}: {outcome.reason}" for outcome in outcomes if outcome.reason]
    assert not wrong, "\n".join([summary(Counter(outcome.verdict for outcome in outcomes)), *wrong])
