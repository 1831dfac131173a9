"""The command line from outside: doctor and plan run in the controller's pod, the rest by kubeconfig."""

import json
from typing import Any

from sandbox.harness import expected
from sandbox.harness.chart import RELEASE
from sandbox.harness.tables import TABLE_TXN_001

from compaction_operator.api.compaction import CleanupPhase
from tests.e2e.scene import Scene

NEW = {name.partition("_v")[0] for name in expected.AFTER_INSERTS_MINOR}


def asked(scene: Scene, *arguments: str) -> Any:
    """Return what a verb answers to a script; one that runs in the pod needs the operator's place."""
    return json.loads(scene.cluster.operator(*arguments, "--json"))


def place(scene: Scene) -> tuple[str, str]:
    return "--operator", f"{scene.stage.operator.namespace}/{RELEASE}"


def test_the_installation_is_healthy_by_its_own_account(scene: Scene) -> None:
    found = asked(scene, "doctor", *place(scene))
    *rest, tenants = found
    assert {one["level"] for one in rest} == {"ok"}, [one for one in rest if one["level"] != "ok"]
    assert {one["subject"] for one in rest} == {"metastore", "settings", "storage", "rights"}
    assert (tenants["subject"], tenants["level"]) == ("namespace", "info")
    assert tenants["message"].startswith("this pod's account may not read, so not checked: claim ")
    assert any(one["message"].startswith("this pod's account has the 18 rights") for one in found)


def test_a_table_is_planned_in_the_controllers_pod(scene: Scene) -> None:
    table = scene.table(TABLE_TXN_001)
    before = scene.names(table)
    name = f"{table.database}.{table.name}"
    (one,) = asked(scene, "plan", name, "--type", "minor", "--warehouse", "main", *place(scene))
    assert {output.partition("_v")[0] for output in one["output_directories"]} == NEW
    assert {entry["name"] for entry in one["obsolete"]} == before[""] == expected.INSERTS
    assert one["forecast"].get("files_in", 3) == 3
    assert scene.names(table) == before


def test_a_deletion_is_seen_to_wait_for_approval_and_approved(scene: Scene) -> None:
    table = scene.table(TABLE_TXN_001)
    compaction = scene.compact(table, "Minor", cleanup={"mode": "Plan"})
    scene.compactions.wait_succeeded(compaction)
    cleanup = scene.cleanup_of(compaction)
    scene.compactions.wait_cleanup(
        cleanup, lambda status: status.phase is CleanupPhase.APPROVAL, "to wait for approval", timeout=120
    )
    found = asked(scene, "status", f"{scene.namespace}/", f"{table.database}.{table.name}")
    stands = {one["name"]: (one["state"], one["reason"]) for one in found}
    assert stands == {compaction: ("Succeeded", "Compacted"), cleanup: ("Waiting", "WaitingForApproval")}
    (step,) = asked(scene, "why", f"ccl/{cleanup}", "-n", scene.namespace)["steps"]
    program, *command = step.rpartition("then: ")[2].split()
    assert program == "compaction-operator"
    said = scene.cluster.operator(*command)
    assert all(name in said for name in expected.INSERTS)
    assert scene.compactions.wait_cleaned(cleanup).directories_deleted == len(expected.INSERTS)
