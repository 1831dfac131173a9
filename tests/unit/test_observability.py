"""What is monitored exists: documents, alerts and dashboard name the controller's metrics, labels and reasons."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from compaction_operator.api.compaction import Phase
from compaction_operator.api.request import FINAL_REASONS, SUCCESS_REASONS, WAITING_REASONS, Reason
from compaction_operator.controller.gauges import PREFIX
from compaction_operator.controller.kube.cluster import WarehousePools
from tests.unit.controller.sandbox import Sandbox

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "observability.md"
RUNBOOKS = ROOT / "docs" / "runbooks"
FILES = ROOT / "charts" / "compaction-operator" / "files"
CONTROLLER = ROOT / "operator" / "compaction_operator"
SERIES = re.compile(rf"\b((?:{PREFIX}|process)_\w+)(?:\{{([^}}]*)\}})?")
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
OWN_ALERTS = {Reason.VERIFICATION_FAILED}
"""Reasons of failed attempts that have an alert of their own."""
ROW = re.compile(rf"^\| `({PREFIX}_\w+)` \| (\w+) \| ([\w, ]*?) ?\|", re.MULTILINE)

Known = dict[str, tuple[str, frozenset[str]]]
"""Type and labels of each metric."""


def metrics() -> Known:
    """Return the controller's own metrics by the names that Prometheus has."""
    box = Sandbox()
    box.create()
    box.controller.loaded = True
    found: Known = {}
    for collector in list(box.metrics.registry._collector_to_names):
        labels: Any = getattr(collector, "_labelnames", None)
        for family in collector.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            found[name] = family.type, frozenset(getattr(family, "_labelnames", ()) if labels is None else labels)
    return {name: kind for name, kind in found.items() if name.startswith(PREFIX)}


def documented() -> Known:
    """Return the metrics of the page's table."""
    rows = ROW.findall(PAGE.read_text())
    return {name: (kind, frozenset(filter(None, labels.split(", ")))) for name, kind, labels in rows}


def test_each_metric_is_documented_and_each_documented_one_exists() -> None:
    """With its type and its labels."""
    assert documented() == metrics()
    assert len(documented()) > 20


def test_no_label_collides_with_one_that_prometheus_sets() -> None:
    labels = {label for _, labels in metrics().values() for label in labels}
    assert not {"namespace", "pod", "job", "instance", "container", "endpoint"} & labels
    assert "warehouse" in labels


def rules() -> dict[str, dict[str, Any]]:
    """Return the alerts by name."""
    (group,) = yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def dashboard() -> Any:
    return json.loads((FILES / "dashboard.json").read_text())


def expressions() -> dict[str, str]:
    """Return the expressions of alerts and panels, by what they are for."""
    found = {name: str(rule["expr"]) for name, rule in rules().items()}
    for panel in dashboard()["panels"]:
        found |= {f"{panel['id']} {panel['title']} {one['refId']}": one["expr"] for one in panel.get("targets", ())}
    return found | {one["name"]: one["definition"] for one in dashboard()["templating"]["list"] if "definition" in one}


def series(expression: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the metrics of an expression, and the values that it asks of their labels."""
    for name, matchers in SERIES.findall(expression):
        yield re.sub(r"_(bucket|sum|count)$", "", name), {label: text for label, _, text in MATCHER.findall(matchers)}


@pytest.mark.parametrize("expression", expressions().values(), ids=expressions())
def test_expressions_name_metrics_and_labels_that_exist(expression: str) -> None:
    known, process = metrics(), {"process_cpu_seconds_total", "process_resident_memory_bytes"}
    found = list(series(expression))
    assert found
    assert {name for name, _ in found} <= known.keys() | process
    for name, matchers in found:
        assert matchers.keys() <= known.get(name, ("", frozenset()))[1]


def test_expressions_group_by_labels_that_exist() -> None:
    of_prometheus = {"namespace", "instance", "le"}
    labels = {label for _, own in metrics().values() for label in own} | of_prometheus
    for expression in expressions().values():
        for grouped in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
            assert set(grouped.split(", ")) <= labels


def test_the_process_is_measured() -> None:
    box = Sandbox()
    box.create()
    assert box.metrics.registry.get_sample_value("process_resident_memory_bytes")
    assert box.metrics.registry.get_sample_value("process_cpu_seconds_total")


def test_values_of_labels_are_words_of_the_operator() -> None:
    """A phase or a reason that was renamed would silence an alert."""
    states = {"seen", "due", "running", "done", "failed", "keptBack"}
    known: dict[str, set[str]] = {
        "phase": set(Phase),
        "pool": {*WarehousePools._fields, "kube"},
        "state": states,
        "outcome": set(Reason),
    }
    sources = "".join(path.read_text() for path in CONTROLLER.rglob("*.py"))
    asked = {
        (label, word)
        for expression in expressions().values()
        for _, matchers in series(expression)
        for label, text in matchers.items()
        for word in text.split("|")
        if not word.startswith("$")
    }
    assert {label for label, _ in asked} == {"phase", "outcome", "reason", "state"}
    for label, word in asked:
        assert word in known[label] if label in known else f'"{word}"' in sources, word


def test_each_reason_of_a_failed_attempt_is_alerted() -> None:
    """A new reason has to be sorted: into those that fail again and again, or into an alert of its own."""
    failures = set(Reason) - SUCCESS_REASONS - WAITING_REASONS - FINAL_REASONS - OWN_ALERTS
    ((_, matchers),) = series(rules()["CompactionsFail"]["expr"])
    assert set(matchers["outcome"].split("|")) == failures


def test_each_alert_has_a_runbook_and_says_what_to_do() -> None:
    """There is no page without an alert either, and the list names each with its severity."""
    listed = dict(
        re.findall(r"^\| \[(\w+)\]\(\w+\.md\) \| (\w+) \|", (RUNBOOKS / "README.md").read_text(), re.MULTILINE)
    )
    assert listed == {name: rule["labels"]["severity"] for name, rule in rules().items()}
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == {*rules(), "README"}
    for name, rule in rules().items():
        said = rule["annotations"]
        assert said["runbook_url"] == f"docs/runbooks/{name}.md"
        assert said["summary"].endswith(".") and said["description"].endswith(".")
        page = (RUNBOOKS / f"{name}.md").read_text()
        assert page.startswith(f"# {name}\n")
        assert re.findall(r"^## .*", page, re.MULTILINE) == ["## Check", "## What to do"]
        assert "```console\n" in page


def test_panels_lie_beside_each_other() -> None:
    """On Grafana's grid of 24 columns, each with a title, a text and a data source that the reader chooses."""
    taken = set[tuple[int, int]]()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells and max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["title"]
        assert panel["type"] == "row" or (panel["description"] and panel["datasource"]["uid"] == "${datasource}")
    numbers = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(numbers)) == len(numbers) > 25
