"""The controller benchmark's judgement."""

import json
from typing import Any

import pytest
from bench.controller import CAP, misses, request_of


def _found(
    *, free: int = 1000, capped: int = 600, costs: tuple[float, ...] = (10.0, 30.0, 12.5), requests: float = 12.0
) -> list[dict[str, Any]]:
    rates = [
        {"measure": "rate", "cap": cap, "jobs_per_minute": rate, "requests_each": each}
        for cap, rate, each in ((None, free, 12.0), (CAP, capped, requests))
    ]
    return [*rates, *({"measure": "cost", "cap": CAP, "cpu_ms_each": cost} for cost in costs)]


def test_what_meets_all_targets_misses_none() -> None:
    assert misses(_found()) == []


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (_found(free=999), "999 Jobs a minute without a limit"),
        (_found(capped=599), "599 Jobs a minute, 10 at a time"),
        (_found(requests=12.1), "12.1 requests for each compaction"),
        (_found(costs=(10.0, 12.6)), "CPU for each grows from 10.0 to 12.6 ms with the queue"),
    ],
)
def test_a_miss_is_named(found: list[dict[str, Any]], missed: str) -> None:
    assert misses(found) == [missed]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            {"verb": "update", "objectRef": {"resource": "tablecompactions", "subresource": "status"}},
            "update tablecompactions/status",
        ),
        ({"verb": "create", "objectRef": {"resource": "jobs", "name": "a"}}, "create jobs"),
        ({"verb": "get", "requestURI": "/version"}, "get /version"),
    ],
)
def test_a_request_is_counted_by_verb_and_resource(event: dict[str, Any], expected: str) -> None:
    assert request_of(json.dumps(event)) == expected
