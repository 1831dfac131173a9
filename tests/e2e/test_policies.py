"""A policy on a real cluster: from `kubectl apply` to the compaction of a table that it selected."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sandbox.harness.compactions import SMALL_SPARK
from sandbox.harness.settings import WAREHOUSE
from sandbox.harness.tables import TABLE_TXN_001
from sandbox.harness.wait import wait_until

from compaction_operator.api.model import GROUP, VERSION
from tests.e2e.scene import Scene

NAME = "keep"


@pytest.fixture
def policy(scene: Scene) -> Iterator[dict[str, Any]]:
    """A policy for all tables of the scene's database; what it has created goes with it."""
    spec = {
        "warehouse": WAREHOUSE,
        "tables": {"include": [f"{scene.database}.*"]},
        "thresholds": {"deltas": 1},
        "interval": "10s",
        "template": {"spark": SMALL_SPARK},
        "dryRun": True,
    }
    yield {"apiVersion": f"{GROUP}/{VERSION}", "kind": "CompactionPolicy", "metadata": {"name": NAME}, "spec": spec}
    scene.cluster.kubectl("delete", "tcp", NAME, "-n", scene.namespace, "--timeout=60s")


def status(scene: Scene) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(scene.cluster.kubectl("get", "tcp", NAME, "-n", scene.namespace, "-o", "json"))
    seen: dict[str, Any] = found.get("status", {})
    return seen


def compactions(scene: Scene) -> list[str]:
    """Return the names of the compactions that the policy owns."""
    found = json.loads(scene.cluster.kubectl("get", "tcomp", "-n", scene.namespace, "-o", "json"))["items"]
    return [
        one["metadata"]["name"]
        for one in found
        if any(owner["name"] == NAME for owner in one["metadata"].get("ownerReferences", ()))
    ]


def test_a_policy_says_what_it_would_do_and_then_does_it(scene: Scene, policy: dict[str, Any]) -> None:
    table = scene.table(TABLE_TXN_001)
    scene.compactions.apply(policy)
    (line,) = wait_until(lambda: status(scene).get("next"), timeout=120, what="a table that is due")
    assert (line["table"], line["type"], line["keptBackBy"]) == (f"{table.database}.{table.name}", "Major", "DryRun")
    assert compactions(scene) == []
    live = {**policy, "spec": {**policy["spec"], "dryRun": False}}
    scene.compactions.apply(live)
    (name,) = wait_until(lambda: compactions(scene), timeout=120, what="a compaction of the policy")
    scene.compactions.wait_succeeded(name)
    done = wait_until(
        lambda: (status(scene).get("tables") or {}).get("done"), timeout=120, what="the policy to see that it is done"
    )
    assert done == 1
