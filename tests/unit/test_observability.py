"""What is monitored exists: the documented metrics are those of the controller."""

import re
from pathlib import Path
from typing import Any

from compaction_operator.controller.gauges import PREFIX
from tests.unit.controller.sandbox import Sandbox

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "observability.md"
ROW = re.compile(rf"^\| `({PREFIX}_\w+)` \| (\w+) \| ([\w, ]*?) ?\|", re.MULTILINE)

Known = dict[str, tuple[str, frozenset[str]]]
"""Type and labels of each metric."""


def metrics() -> Known:
    """Return the controller's own metrics by the names that Prometheus has."""
    box = Sandbox()
    box.create()
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
