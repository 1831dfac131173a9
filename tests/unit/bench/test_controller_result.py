"""The parts of the controller's result do not remove each other, and say what they found."""

import json
from pathlib import Path

import pytest
from bench.apply import PUBLISHED, summary
from bench.controller_result import record
from bench.released import percentiles


def test_a_part_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (9.0, 5.0, 1.25))
    result = tmp_path / "out" / "controller.json"
    for part, found in ("rates", {"a": 1}), ("apply", {"b": 2}), ("rates", {"a": 3}):
        record(result, part, found)
    assert json.loads(result.read_text()) == {"rates": {"a": 3, "load": 1.2}, "apply": {"b": 2, "load": 1.2}}


def test_a_percentile_is_a_value_that_so_many_do_not_exceed() -> None:
    assert percentiles([float(number) for number in range(200, 0, -1)]) == {
        "p50": 100.0,
        "p90": 180.0,
        "p99": 198.0,
        "p100": 200.0,
    }


def test_stages_are_medians_in_their_order() -> None:
    """A stage that was not seen in a round counts for the others."""
    rounds = [{"job created": 1.0, PUBLISHED: 3.0}, {PUBLISHED: 5.0, "job created": 2.0}, {PUBLISHED: 4.0}]
    found = summary(rounds)
    assert (found["rounds"], found["slowest"]) == (3, 5.0)
    assert [*found["stages"].items()] == [("job created", 1.5), (PUBLISHED, 4.0)]
