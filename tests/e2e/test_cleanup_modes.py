"""Approval, the quarantine and its undo by the commands that the status names; metrics; and journals that lie."""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sandbox.harness import expected
from sandbox.harness.chart import RELEASE
from sandbox.harness.stage import Stage
from sandbox.harness.tables import TABLE_TXN_001, HiveTable

from compaction_operator.api.cleanup import (
    CompactionCleanupSpec,
    CompactionCleanupStatus,
    CompactionRef,
    ObsoleteEntry,
    PartitionEntry,
    TableIdentity,
)
from compaction_operator.api.compaction import CleanupPhase
from compaction_operator.api.conditions import ConditionStatus, find_condition
from tests.e2e.scene import RECORDED, Scene, succeeded

OLD, NEW = expected.INSERTS, expected.AFTER_INSERTS_MINOR
QUARANTINE = frozenset({"_compaction_quarantine"})
OPTIONS: dict[str, dict[str, Any]] = {
    "plan": {"cleanup": {"mode": "Plan"}, "warehouse": RECORDED},
    "quarantine": {"cleanup": {"quarantine": "20s"}},
}
CONFIG = "/etc/compaction-operator/config.yaml"
"""The controller's configuration in its pod."""
Sample = tuple[str, tuple[tuple[str, str], ...]]
"""A metric's name and its labels."""


@dataclass(frozen=True)
class Case:
    """A compaction that has succeeded, its only cleanup, and the rows from before."""

    table: HiveTable
    compaction: str
    cleanup: str
    rows: list[str]


@pytest.fixture(scope="module")
def cases(shared_scene: Scene) -> Callable[[str], Case]:
    """Minor compactions by their options' names, applied at once; each is waited for when it is asked for."""
    scene = shared_scene
    tables = {name: scene.table(TABLE_TXN_001, name) for name in OPTIONS}
    rows = {name: scene.warehouse.rows(table) for name, table in tables.items()}
    applied = {name: scene.compact(tables[name], "Minor", **options) for name, options in OPTIONS.items()}

    def get(name: str) -> Case:
        scene.compactions.wait_succeeded(applied[name])
        return Case(tables[name], applied[name], scene.cleanup_of(applied[name]), rows[name])

    return get


@pytest.fixture(scope="module")
def undone(shared_scene: Scene, cases: Callable[[str], Case]) -> Case:
    """A compaction that was undone out of the quarantine, step by step as docs/operate.md has it."""
    scene, case = shared_scene, cases("quarantine")
    wait_phase(scene, case, CleanupPhase.QUARANTINED)
    scene.suspend(case.cleanup, True)
    wait_phase(scene, case, CleanupPhase.SUSPENDED)
    assert scene.names(case.table) == {"": NEW | QUARANTINE}
    assert scene.warehouse.rows(case.table) == case.rows
    (entry,) = scene.compactions.journal(case.cleanup).partitions
    place = case.table.location.removeprefix("file:")
    own = f"{scene.uid(case.compaction)[:8]}-1"
    scene.warehouse.toolbox.run("mv", *(f"{place}/{output}" for output in entry.outputs), f"{place}-undone")
    scene.warehouse.toolbox.run("sh", "-c", 'cd "$1" && mv _compaction_quarantine/"$2"/* .', "sh", place, own)
    scene.suspend(case.cleanup, False)
    return case


def wait_phase(scene: Scene, case: Case, phase: CleanupPhase) -> None:
    """Wait until a cleanup is in that phase."""
    scene.compactions.wait_cleanup(case.cleanup, lambda status: status.phase is phase, f"to be {phase}", timeout=120)


def test_what_is_in_quarantine_can_be_moved_back(shared_scene: Scene, undone: Case) -> None:
    """The old directories are in their places again, with the rows from before."""
    assert shared_scene.names(undone.table) == {"": OLD | QUARANTINE}
    assert shared_scene.warehouse.rows(undone.table) == undone.rows


def test_a_plan_is_carried_out_by_the_command_it_names(shared_scene: Scene, cases: Callable[[str], Case]) -> None:
    """Nothing is deleted before; the condition's message ends with the command, word for word."""
    scene, case = shared_scene, cases("plan")
    wait_phase(scene, case, CleanupPhase.APPROVAL)
    status = scene.compactions.cleanup_status(case.cleanup)
    assert {name for partition in status.partitions for name in partition.planned} == OLD
    assert scene.names(case.table) == {"": OLD | NEW}
    condition = find_condition(status.conditions, "Approved")
    assert condition
    assert condition.message in scene.compactions.table()
    kubectl, *words = shlex.split(condition.message.rpartition("approve with: ")[2])
    assert kubectl == "kubectl"
    scene.cluster.kubectl(*words)
    assert scene.compactions.wait_cleaned(case.cleanup).directories_deleted == len(OLD)
    assert scene.names(case.table) == {"": NEW}


def test_the_receipts_are_read_in_the_controllers_pod(
    shared_scene: Scene, stage: Stage, cases: Callable[[str], Case]
) -> None:
    """With its own configuration, as docs/receipts.md says, after the plan was carried out."""
    scene, case = shared_scene, cases("plan")
    pod = ("exec", "-n", stage.operator.namespace, f"deploy/{RELEASE}", "--")
    history = ("compaction-operator", "history", "--config", CONFIG, "--warehouse", RECORDED)
    table = f"{case.table.database}.{case.table.name}"
    lines = [json.loads(line) for line in scene.cluster.kubectl(*pod, *history, table, "--json").splitlines()]
    assert [(line["kind"], line["table"]) for line in lines] == [("Compaction", table), ("Deletion", table)]
    assert {part["name"] for part in lines[1]["parts"][0]["deleted"]} == OLD
    assert "none altered or missing" in scene.cluster.kubectl(*pod, *history, "--verify")


def test_the_metrics_can_be_scraped(shared_scene: Scene, stage: Stage, cases: Callable[[str], Case]) -> None:
    """At the port that the pod's annotation names, with numbers of what has happened."""
    cases("plan")
    selector, namespace = stage.operator.selector, stage.operator.namespace
    pods = stage.cluster.get_all("pods", namespace=namespace, selector=selector)
    (pod,) = [found["metadata"] for found in pods if found["status"].get("phase") == "Running"]
    assert pod["annotations"]["prometheus.io/scrape"] == "true"
    port = pod["annotations"]["prometheus.io/port"]
    path = f"/api/v1/namespaces/{namespace}/pods/{pod['name']}:{port}/proxy/metrics"
    samples = scraped(shared_scene.cluster.kubectl("get", "--raw", path))
    assert samples["compaction_operator_compactions", (("phase", "Succeeded"),)] >= 1
    assert samples["compaction_operator_attempts_total", (("outcome", "Compacted"),)] >= 1
    assert samples["compaction_operator_lock_queries_total", (("warehouse", "main"),)] >= 1
    assert samples["compaction_operator_look_seconds_count", (("warehouse", "main"),)] >= 1


def scraped(text: str) -> dict[Sample, float]:
    """Return the samples that Prometheus would take from an answer, by name and labels."""
    families = text_string_to_metric_families(text)
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


def test_a_journal_that_lies_deletes_nothing(scene: Scene) -> None:
    """Who may write one can name a live directory, another table's place, or another table: nothing of it goes."""
    victim, bait = (scene.table(TABLE_TXN_001, name) for name in ("victim", "bait"))
    own, other = identity(scene, victim), identity(scene, bait)
    lies = {
        "live": (lie(own, outputs=("delta_0000003_0000003_0000",)), "StillNeeded"),
        "hidden": (lie(own, quarantine=1.0), "StillNeeded"),
        "elsewhere": (lie(other, location=victim.location), "TableMoved"),
        "moved": (lie(other.model_copy(update={"location": own.location})), "TableMoved"),
        "recreated": (lie(own.model_copy(update={"create_time": own.create_time - 1})), "TableRecreated"),
    }
    names = {kind: f"{kind}-{scene.database.removeprefix('test_')}" for kind in lies}
    for kind, (spec, _) in lies.items():
        scene.record(names[kind], spec)
    for kind, (_, reason) in lies.items():
        status = scene.compactions.wait_cleanup(names[kind], ended_as(reason), f"to say {reason}", timeout=120)
        assert (status.directories_deleted, status.bytes_deleted) == (0, 0)
    assert scene.names(victim) == scene.names(bait) == {"": OLD}


def ended_as(reason: str) -> Callable[[CompactionCleanupStatus], bool]:
    """Return whether a status says, for that reason, that it did not succeed."""

    def found(status: CompactionCleanupStatus) -> bool:
        verdict = find_condition(status.conditions, "Succeeded")
        return verdict is not None and verdict.reason == reason and verdict.status is not ConditionStatus.TRUE

    return found


def identity(scene: Scene, table: HiveTable) -> TableIdentity:
    """Return what a driver would record of a table."""
    found = scene.warehouse.admin.get_table(table.database, table.name)
    return TableIdentity(
        database=table.database, name=table.name, create_time=found.create_time, location=found.location
    )


def lie(
    table: TableIdentity, *, location: str | None = None, outputs: tuple[str, ...] = (), **more: Any
) -> CompactionCleanupSpec:
    """Return a journal of a table that calls everything in some place obsolete but the outputs."""
    obsolete = tuple(ObsoleteEntry(name=name, reason="I say so") for name in sorted(OLD - set(outputs)))
    entry = PartitionEntry(
        partition="",
        location=location or table.location,
        create_time=table.create_time,
        outputs=outputs,
        highest_write_id=3,
        obsolete=obsolete,
    )
    attempt = CompactionRef(name="no-such", uid="0a1b2c3d", attempt=1, job="no-such", pod_uid="none")
    return CompactionCleanupSpec(warehouse="main", table=table, compaction=attempt, partitions=(entry,), **more)


def test_the_undone_cleanup_leaves_all_where_it_is(shared_scene: Scene, undone: Case) -> None:
    """When its time is over the quarantine goes, and nothing that was moved back."""
    status = shared_scene.compactions.wait_cleaned(undone.cleanup)
    assert succeeded(status.conditions).reason == "Restored"
    assert shared_scene.names(undone.table) == {"": OLD}
    assert shared_scene.warehouse.rows(undone.table) == undone.rows
