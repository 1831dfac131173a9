"""The controller benchmark's judgement."""

from typing import Any

import pytest
from bench.controller import CAP, misses


def _found(
    *, free: int = 1000, capped: int = 600, costs: tuple[float, ...] = (10.0, 30.0, 12.5)
) -> list[dict[str, Any]]:
    rates = [{"measure": "rate", "cap": cap, "jobs_per_minute": rate} for cap, rate in ((None, free), (CAP, capped))]
    return [*rates, *({"measure": "cost", "cap": CAP, "cpu_ms_each": cost} for cost in costs)]


def test_what_meets_all_targets_misses_none() -> None:
    assert misses(_found()) == []


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (_found(free=999), "999 Jobs a minute without a limit"),
        (_found(capped=599), "599 Jobs a minute, 10 at a time"),
        (_found(costs=(10.0, 12.6)), "CPU for each grows from 10.0 to 12.6 ms with the queue"),
    ],
)
def test_a_miss_is_named(found: list[dict[str, Any]], missed: str) -> None:
    assert misses(found) == [missed]
