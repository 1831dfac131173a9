"""The alerts, as Prometheus evaluates them: each fires on what it is for, and keeps quiet otherwise."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from sandbox.harness.chart import CHART, ROOT

from tests.unit.controller.sandbox import Sandbox

RULES = CHART / "files" / "alerts.yaml"
PREFIX = "compaction_operator"
ATTEMPTS = f"{PREFIX}_attempts_total"
COMPACTIONS = f"{PREFIX}_compactions_oldest_seconds"
CLEANUPS = f"{PREFIX}_cleanups_oldest_seconds"
CALLS = f"{PREFIX}_pool_oldest_call_seconds"
LEADER = f"{PREFIX}_leader"
STEP = f"{PREFIX}_last_step_timestamp_seconds"
SYSTEM = 'namespace="compaction-system"'

Series = Mapping[str, str]
"""The values of each series, one a minute, in promtool's short form: `0+60x10` adds 60 ten times."""


@dataclass(frozen=True)
class Case:
    """An alert, series on which it fires after a time with labels and a summary, and series on which it does not."""

    alert: str
    fires: Series
    after: str
    labels: Mapping[str, str]
    summary: str
    quiet: Series = field(default_factory=dict)


CASES = (
    Case(
        "CompactionOperatorDown",
        {},
        "11m",
        {},
        "No controller of the compaction operator answers Prometheus.",
        {f'{PREFIX}_build_info{{version="1"}}': "1x60"},
    ),
    Case(
        "CompactionOperatorStuck",
        {STEP: "0+60x10 600x60", LEADER: "1x70"},
        "20m",
        {},
        "The leading controller of the compaction operator runs, but does no work.",
        {
            f"{STEP}{{pod='leader'}}": "0+60x60",
            f"{LEADER}{{pod='leader'}}": "1x60",
            f"{STEP}{{pod='standby'}}": "0x60",
            f"{LEADER}{{pod='standby'}}": "0x60",
        },
    ),
    Case(
        "CompactionNoLeader",
        {f'{LEADER}{{{SYSTEM},pod="a"}}': "1x5 0x60", f'{LEADER}{{{SYSTEM},pod="b"}}': "0x60"},
        "15m",
        {"namespace": "compaction-system"},
        "Controllers of the compaction operator run, but none leads.",
        {f'{LEADER}{{{SYSTEM},pod="a"}}': "1x5 0x60", f'{LEADER}{{{SYSTEM},pod="b"}}': "0x6 1x60"},
    ),
    Case(
        "CompactionCallHangs",
        {f'{CALLS}{{warehouse="main",pool="tables"}}': "0+60x60"},
        "25m",
        {"warehouse": "main", "pool": "tables"},
        "A call of pool tables of warehouse main has not ended for 25m 0s.",
        {f'{CALLS}{{warehouse="main",pool="tables"}}': "0+60x10 0+60x10 0+60x10 0+60x10"},
    ),
    Case(
        "CompactionReconcileErrors",
        {f'{PREFIX}_reconcile_errors_total{{{SYSTEM},kind="CompactionCleanup"}}': "0+1x60"},
        "40m",
        {"namespace": "compaction-system", "kind": "CompactionCleanup"},
        "Reconciles of CompactionCleanup resources keep failing.",
        {f'{PREFIX}_reconcile_errors_total{{{SYSTEM},kind="CompactionCleanup"}}': "0+1x20 20x40"},
    ),
    Case(
        "CompactionMetastoreDown",
        {f'{PREFIX}_metastore_up{{warehouse="main"}}': "1x5 0x60"},
        "15m",
        {"warehouse": "main"},
        "The metastore of warehouse main does not answer.",
        # Three of five minutes, also at the times of the test.
        {f'{PREFIX}_metastore_up{{warehouse="main"}}': "0 1 1 0 0 " * 10},
    ),
    Case(
        "CompactionStoreUnfit",
        {f'{PREFIX}_store_unfit{{warehouse="main",location="s3a://lake/w"}}': "1x60"},
        "10m",
        {"warehouse": "main", "location": "s3a://lake/w"},
        "Tables in s3a://lake/w of warehouse main cannot be published to safely.",
        {f'{PREFIX}_store_unfit{{warehouse="main",location="s3a://lake/w"}}': "0x60"},
    ),
    Case(
        "CompactionNamespaceNotServed",
        {f'{PREFIX}_namespace_served{{name="analytics"}}': "0x60"},
        "20m",
        {"name": "analytics"},
        "The operator cannot watch namespace analytics.",
        {f'{PREFIX}_namespace_served{{name="analytics"}}': "0x10 1x50"},
    ),
    Case(
        "CompactionVerificationFailed",
        {f'{ATTEMPTS}{{{SYSTEM},outcome="VerificationFailed"}}': "0x10 1x60"},
        "20m",
        {"namespace": "compaction-system"},
        "Rows that a compaction read and wrote did not add up.",
        {
            f'{ATTEMPTS}{{{SYSTEM},outcome="VerificationFailed"}}': "0x60",
            f'{ATTEMPTS}{{{SYSTEM},outcome="Compacted"}}': "0+1x60",
        },
    ),
    Case(
        "CompactionOverlap",
        {f'{ATTEMPTS}{{{SYSTEM},outcome="OverlappingCompaction"}}': "0x10 1x60"},
        "20m",
        {"namespace": "compaction-system"},
        "Hive 3.1 compacted a table at the same time; its rows may count twice.",
        {f'{ATTEMPTS}{{{SYSTEM},outcome="OverlappingCompaction"}}': "0x60"},
    ),
    Case(
        "CompactionsFail",
        {f'{ATTEMPTS}{{{SYSTEM},outcome="OOMKilled"}}': "0x10 1 1 2 2 3x60"},
        "30m",
        {"namespace": "compaction-system", "outcome": "OOMKilled"},
        "Attempts of compactions fail again and again with OOMKilled.",
        {
            f'{ATTEMPTS}{{{SYSTEM},outcome="OOMKilled"}}': "0x10 1 2x60",
            f'{ATTEMPTS}{{{SYSTEM},outcome="Evicted"}}': "0+1x60",
        },
    ),
    Case(
        "CompactionWaits",
        {f'{COMPACTIONS}{{{SYSTEM},reason="Unschedulable"}}': "0+60x180"},
        "155m",
        {"namespace": "compaction-system", "reason": "Unschedulable"},
        "A TableCompaction has waited for too long (Unschedulable).",
        {
            f'{COMPACTIONS}{{{SYSTEM},reason="Running"}}': "0+60x180",
            f'{COMPACTIONS}{{{SYSTEM},reason="Queued"}}': "0+60x180",
        },
    ),
    Case(
        "CompactionQueueStands",
        {f'{COMPACTIONS}{{{SYSTEM},reason="Queued"}}': "0+60x400"},
        "380m",
        {"namespace": "compaction-system"},
        "A TableCompaction has been queued for more than 6 hours.",
        {f'{COMPACTIONS}{{{SYSTEM},reason="Queued"}}': "0+60x350 0+60x50"},
    ),
    Case(
        "CompactionCleanupWaitsForReaders",
        {f'{CLEANUPS}{{{SYSTEM},reason="ReadersFromBefore"}}': "86000+60x60"},
        "30m",
        {"namespace": "compaction-system"},
        "A cleanup has waited for an older reader for more than a day.",
        {
            f'{CLEANUPS}{{{SYSTEM},reason="ReadersFromBefore"}}': "0+60x60",
            f'{CLEANUPS}{{{SYSTEM},reason="Quarantined"}}': "86000+60x60",
        },
    ),
    Case(
        "CompactionCleanupStuck",
        {f'{CLEANUPS}{{{SYSTEM},reason="StorageError"}}': "21000+60x60"},
        "45m",
        {"namespace": "compaction-system", "reason": "StorageError"},
        "A cleanup makes no progress (StorageError).",
        {
            f'{CLEANUPS}{{{SYSTEM},reason="ReadersFromBefore"}}': "90000+60x60",
            f'{CLEANUPS}{{{SYSTEM},reason="WaitingForApproval"}}': "90000+60x60",
            # It waited for a reader for a day, and deletes since ten minutes.
            f'{CLEANUPS}{{{SYSTEM},reason="Deleting"}}': "_x35 90000+60x10",
        },
    ),
    Case(
        "CompactionCleanupOverdue",
        {f"{PREFIX}_cleanups_overdue": "0x5 2x60"},
        "15m",
        {},
        "2 cleanups are past the deadline that their compaction set.",
        {f"{PREFIX}_cleanups_overdue": "0x60"},
    ),
    Case(
        "CompactionCleanupFailed",
        {f'{PREFIX}_cleanups{{{SYSTEM},phase="Failed"}}': "3x30 4x60"},
        "45m",
        {"namespace": "compaction-system"},
        "Cleanups have ended without deleting anything.",
        # Those that failed long ago, and were deleted by a person.
        {f'{PREFIX}_cleanups{{{SYSTEM},phase="Failed"}}': "3x30 2x60"},
    ),
    Case(
        "CompactionPolicyNotReady",
        {f'{PREFIX}_policy_ready{{policy="a/keep"}}': "1x5 0x60"},
        "45m",
        {"policy": "a/keep"},
        "Policy a/keep compacts nothing.",
        {f'{PREFIX}_policy_ready{{policy="a/keep"}}': "1x10 0x10 1x60"},
    ),
    Case(
        "CompactionPolicyBehind",
        {
            f'{PREFIX}_policy_oldest_due_seconds{{policy="a/keep"}}': "7200+60x120",
            f'{PREFIX}_policy_max_delay_seconds{{policy="a/keep"}}': "7200x120",
        },
        "80m",
        {"policy": "a/keep"},
        "Policy a/keep has kept a table back for 3h 20m 0s, longer than maxDelay.",
        {
            f'{PREFIX}_policy_oldest_due_seconds{{policy="a/keep"}}': "7200+60x120",
            f'{PREFIX}_policy_max_delay_seconds{{policy="a/keep"}}': "86400x120",
        },
    ),
)


@pytest.fixture(scope="session")
def promtool() -> str:
    """Give the path of promtool."""
    done = subprocess.run([ROOT / "sandbox" / "promtool.sh"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def rules() -> dict[str, dict[str, Any]]:
    """Return the alerts by name."""
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def test_promtool_takes_the_rules(promtool: str) -> None:
    done = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"SUCCESS: {len(rules())} rules found" in done.stdout


def test_promtool_takes_the_expressions_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    """With what Grafana puts in for its variables."""
    panels = json.loads((CHART / "files" / "dashboard.json").read_text())["panels"]
    texts = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    filled = [text.replace("$__rate_interval", "2m").replace("$warehouse", "main|other") for text in texts]
    records = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(filled)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": records}]}))
    done = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(records) > 25


def test_promtool_finds_nothing_to_change_in_the_metrics(promtool: str) -> None:
    """In their names, units and texts."""
    box = Sandbox()
    box.create()
    box.controller.loaded = True
    text = generate_latest(box.metrics.registry)
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_each_alert_has_a_case() -> None:
    assert [case.alert for case in CASES] == list(rules())


def test_each_fires(promtool: str, tmp_path: Path) -> None:
    """With its labels, and a summary that says what it is about."""
    evaluate(promtool, tmp_path, [group(case.alert, case.fires, {case.after: [expected(case)]}) for case in CASES])


def test_each_keeps_quiet(promtool: str, tmp_path: Path) -> None:
    """Also at the time at which it would fire."""
    times = ("1m", "20m", "45m")
    groups = [group(case.alert, case.quiet, {at: [] for at in (*times, case.after)}) for case in CASES]
    evaluate(promtool, tmp_path, groups)


def expected(case: Case) -> dict[str, Any]:
    """Return the alert of a case, in promtool's form."""
    rule = rules()[case.alert]
    return {
        "exp_labels": {**rule["labels"], **case.labels},
        "exp_annotations": {**rule["annotations"], "summary": case.summary},
    }


def group(alert: str, series: Series, expected: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return a group of promtool's: series that know of no others, and what an alert is to be at some times."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": at, "alertname": alert, "exp_alerts": one} for at, one in expected.items()],
    }


def evaluate(promtool: str, folder: Path, groups: Sequence[Any]) -> None:
    """Let promtool evaluate the rules on groups of series."""
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": list(groups)}))
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
