"""A policy on a real cluster: from `kubectl apply` to the compaction of a table that it selected."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sandbox.harness.chart import RELEASE
from sandbox.harness.cluster import CommandError
from sandbox.harness.compactions import SMALL_SPARK
from sandbox.harness.settings import WAREHOUSE
from sandbox.harness.tables import TABLE_TXN_001
from sandbox.harness.wait import wait_until

from compaction_operator.api.model import GROUP, VERSION
from tests.e2e.scene import Scene

NAME = "keep"


@pytest.fixture
def policy(scene: Scene) -> Iterator[dict[str, Any]]:
    """A policy for all tables of the scene's database. If it is there at the end, what it has created goes with it."""
    spec = {
        "warehouse": WAREHOUSE,
        "tables": {"include": [f"{scene.database}.*"]},
        "thresholds": {"deltas": 1},
        "interval": "10s",
        "template": {"spark": SMALL_SPARK},
        "dryRun": True,
    }
    yield {"apiVersion": f"{GROUP}/{VERSION}", "kind": "CompactionPolicy", "metadata": {"name": NAME}, "spec": spec}
    scene.cluster.kubectl("delete", "tcp", NAME, "-n", scene.namespace, "--ignore-not-found", "--timeout=60s")


def status(scene: Scene) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(scene.cluster.kubectl("get", "tcp", NAME, "-n", scene.namespace, "-o", "json"))
    seen: dict[str, Any] = found.get("status", {})
    return seen


def active(scene: Scene) -> str | None:
    """Return whether compactions of the policy may start, as `kubectl get tcp` shows it."""
    found = (one for one in status(scene).get("conditions", ()) if one["type"] == "Active")
    return next((one["reason"] for one in found), None)


def why(scene: Scene, table: str) -> tuple[str, str, str | None, str | None]:
    """Return verdict, reason, why it is due, and the unfinished compaction, as a person gets them from the operator."""
    service = f"{scene.stage.operator.namespace}/{RELEASE}"
    said = scene.cluster.operator("why", table, "-n", scene.namespace, "--operator", service, "--output", "json")
    (found,) = json.loads(said)
    nearest = found.get("partitions", {}).get("nearest") or [{}]
    unfinished = [one["name"] for one in found["unfinished"]]
    return found["verdict"], found["reason"], nearest[0].get("reason"), unfinished[0] if unfinished else None


def test_only_the_role_lets_a_user_ask_why(scene: Scene) -> None:
    namespace = scene.stage.operator.namespace
    path = f"/api/v1/namespaces/{namespace}/services/{RELEASE}:metrics/proxy/why?table=a.b&policy=none"
    with pytest.raises(CommandError, match="Forbidden"):
        scene.cluster.kubectl("get", "--raw", path, "--as", "analyst")
    role, binding = f"--role={RELEASE}-why", ("rolebinding", "analyst-why", "-n", namespace)
    scene.cluster.kubectl("create", *binding, role, "--user=analyst")
    try:
        with pytest.raises(CommandError, match="there is no CompactionPolicy with policy none"):
            scene.cluster.kubectl("get", "--raw", path, "--as", "analyst")
    finally:
        scene.cluster.kubectl("delete", *binding)


def test_a_policy_says_what_it_would_do_and_then_does_it(scene: Scene, policy: dict[str, Any]) -> None:
    table = scene.table(TABLE_TXN_001)
    scene.compactions.apply(policy)
    (line,) = wait_until(lambda: status(scene).get("next"), timeout=120, what="a table that is due")
    full = f"{table.database}.{table.name}"
    assert (line["table"], line["type"], line["keptBackBy"]) == (full, "Major", "DryRun")
    assert scene.owned_by(NAME) == []
    assert why(scene, full)[:3] == ("KeptBack", "DryRun", "3 deltas > 1")
    assert why(scene, f"{table.database}.none")[0] == "NotFound"
    said = wait_until(lambda: status(scene)["next"][0].get("forecast"), timeout=120, what="its forecast")
    live = {**policy, "spec": {**policy["spec"], "dryRun": False}}
    scene.compactions.apply(live)
    (name,) = wait_until(lambda: scene.owned_by(NAME), timeout=120, what="a compaction of the policy")
    wait_until(lambda: why(scene, full)[3] == name, timeout=60, what="the operator to name the compaction")
    made = scene.compactions.wait_succeeded(name).forecast
    assert made is not None
    assert made.to_json() | {"cpuMilliseconds": 0, "bytesRewritten": said["bytesRewritten"]} == {
        **said,
        "cpuMilliseconds": 0,
    }
    assert made.bytes_rewritten == pytest.approx(said["bytesRewritten"], abs=64)
    done = wait_until(
        lambda: (status(scene).get("tables") or {}).get("done"), timeout=120, what="the policy to see that it is done"
    )
    assert done == 1


def test_a_policy_is_stopped_and_deleted_and_its_compactions_stay(scene: Scene, policy: dict[str, Any]) -> None:
    """By the commands of docs/policies.md. Without --cascade=orphan they would go with it, those that run too."""
    table = scene.table(TABLE_TXN_001)
    scene.compactions.apply({**policy, "spec": {**policy["spec"], "dryRun": False}})
    (name,) = wait_until(lambda: scene.owned_by(NAME), timeout=120, what="a compaction of the policy")
    assert "suspended" in scene.cluster.operator("suspend", f"tcp/{NAME}", "-n", scene.namespace)
    wait_until(lambda: active(scene) == "Suspended", timeout=60, what="the policy to be suspended")
    assert why(scene, f"{table.database}.{table.name}")[:2] == ("NotLooked", "Suspended")
    scene.cluster.kubectl("delete", "tcp", NAME, "-n", scene.namespace, "--cascade=orphan", "--timeout=60s")
    assert scene.owned_by(NAME) == []
    scene.compactions.wait_succeeded(name)
    scene.cleaned(name)
    scene.delete_compaction(name)
