"""Why there is no clustering: after the statements of docs/hudi.md an UPDATE is lost, without the operator."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from sandbox.hudi.session import HudiSession

HEADING = "### Why there is no clustering"
OPTION = "hoodie.spark.sql.optimized.writes.enable"
OLD = dict.fromkeys((1, 2, 3), "old")
NEW = OLD | {1: "new", 2: "new"}


def documented() -> list[str]:
    """Return the statements of the documentation."""
    _, _, section = (Path(__file__).parents[3] / "docs/hudi.md").read_text().partition(HEADING)
    block = section.partition("```sql\n")[2].partition("```")[0]
    return [one.strip() for one in re.sub("--.*", "", block).split(";") if one.strip()]


Run = Callable[[Sequence[str]], dict[int, str]]


@pytest.fixture
def run(hudi: HudiSession) -> Iterator[Run]:
    """Run statements in a session of their own, and return the rows of the table that another session then sees."""

    def rows(statements: Sequence[str]) -> dict[int, str]:
        session = hudi.spark.newSession()
        for statement in statements:
            session.sql(statement).collect()
        return {row.id: row.v for row in hudi.spark.newSession().sql("SELECT * FROM t").collect()}

    yield rows
    hudi.spark.sql("DROP TABLE IF EXISTS t")


def test_an_update_after_hudis_own_clustering_is_lost(run: Run) -> None:
    """With a release that loses nothing, the reason for no clustering is gone."""
    statements = documented()
    assert sum("run_clustering" in one for one in statements) == 1
    assert run(statements) == OLD


@pytest.mark.only("1.2.0")
def test_without_the_clustering_no_update_is_lost(run: Run) -> None:
    assert run([one for one in documented() if "run_clustering" not in one]) == NEW


def test_with_the_option_it_is_not(run: Run) -> None:
    """It is what the documentation says to all who cluster by other means."""
    assert run([f"SET {OPTION}=false", *documented()]) == NEW
