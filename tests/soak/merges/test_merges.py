"""Random buckets by each path of the engine: a small share of what `python -m tests.soak.merges` tries."""

from collections import Counter, defaultdict

import pytest

from tests.soak.merges.run import run_tables
from tests.support.fast_paths import PATHS

TABLES = 8


@pytest.fixture(scope="module")
def did() -> dict[str, Counter[str]]:
    """What each path did with the tables; the test fails if one failed."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for outcome in run_tables(range(1, 1 + TABLES), PATHS):
        assert not outcome.problem, f"{outcome.command()}\n{outcome.problem}"
        found[outcome.path] += outcome.did
    return found


def test_each_path_keeps_the_same_rows(did: dict[str, Counter[str]]):
    kept = {path: (counts["passed"], counts["rows"], counts["deleted"]) for path, counts in did.items()}
    assert set(kept) == set(PATHS)
    assert set(kept.values()) == {(TABLES, did["usual"]["rows"], did["usual"]["deleted"])}
    assert did["usual"]["deleted"] > 0


def test_the_paths_are_taken(did: dict[str, Counter[str]]):
    """Otherwise all of them would test the same."""
    assert did["copied"]["stripes_copied"] > 0
    assert did["rewritten"]["stripes_copied"] == did["apart"]["stripes_copied"] == 0
    assert did["apart"]["stripes_written"] > did["joined"]["stripes_written"]
    assert did["cut"]["stripes_written"] > did["mixed"]["stripes_written"] > did["joined"]["stripes_written"]
