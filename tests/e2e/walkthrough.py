"""The commands of docs/walkthrough.md on the sandbox, in their order: from nothing to two warehouses with alerts.

`make walkthrough` runs it, and CI does not: it takes minutes, and tables on S3 with a metastore of their own. What the
page asks readers to replace is replaced: registry, metastores, table. Images are those that the sandbox has made.
"""

import base64
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from sandbox.cluster.running import running_sandbox
from sandbox.harness.chart import RELEASE, ROOT
from sandbox.harness.settings import S3_CLIENT, S3_ENDPOINT, beside
from sandbox.harness.stage import Stage
from sandbox.harness.tables import TABLE_TXN_001, HiveTable
from sandbox.harness.wait import wait_until

from tests.e2e.scene import Scene, install, scene_of

log = logging.getLogger(__name__)

PAGE = ROOT / "docs" / "walkthrough.md"
STEP = re.compile(r"^(\d+)\. \*\*", re.MULTILINE)
COMMANDS = re.compile(r"^ *```console\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SYSTEM, MAIN, LAKE = "compaction-system", "analytics", "lake"
MINOR = "delta_0000001_0000003"
HANDOVER = 120.0
"""Seconds within which another controller must lead. The page says 30; a busy machine takes longer."""
MOST = 300.0

Field = tuple[str | int, ...]
"""The keys that lead to a field of a YAML file."""


def steps() -> dict[int, str]:
    """Return the page's commands by step."""
    _, *found = STEP.split(PAGE.read_text())
    return {int(number): "".join(COMMANDS.findall(text)) for number, text in zip(found[::2], found[1::2], strict=True)}


@pytest.fixture
def lake(stage: Stage) -> Iterator[Stage]:
    """Tables on S3 with a metastore of Hive 4, beside the sandbox's own; nothing of the operator is there."""
    lake, names = Stage(beside(stage.settings, "s3")), (SYSTEM, MAIN, LAKE)
    running_sandbox().start_warehouse("s3", lake.settings.metastore_namespace)
    lake.prepare()
    stage.operator.remove()
    stage.cluster.kubectl("delete", "namespace", *names, "--ignore-not-found", timeout=MOST)
    yield lake
    stage.operator.remove()
    gone = (*names, lake.settings.namespace, lake.settings.metastore_namespace, "minio")
    stage.cluster.kubectl("delete", "namespace", *gone, "--ignore-not-found", timeout=MOST)
    running_sandbox().claim_warehouse(SYSTEM, "file")
    install(stage)


@pytest.fixture
def prometheus_operator(stage: Stage) -> Iterator[None]:
    """The CRDs that the walk-through takes as given."""
    script = ROOT / "sandbox" / "prometheus" / "crds.sh"
    folder = Path(subprocess.run([script], stdout=subprocess.PIPE, text=True, check=True).stdout.strip())
    files = [f"--filename={folder}/monitoring.coreos.com_{kind}.yaml" for kind in ("podmonitors", "prometheusrules")]
    stage.cluster.kubectl("apply", "--server-side", *files)
    yield
    stage.cluster.kubectl("delete", *files)


class Reader:
    """Who has a copy of the repository and the page, and types its commands."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.folder = folder
        for name in ("charts", "manifests", "crds"):
            shutil.copytree(ROOT / name, folder / name)
        programs = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{stage.settings.environment['PATH']}"
        self._environment = {**stage.settings.environment, "PATH": programs}
        self._steps = steps()

    def does(self, step: int) -> str:
        """Run a step's commands; return what they print. Raises AssertionError if one fails."""
        command = ["bash", "-euo", "pipefail", "-c", self._steps.pop(step)]
        done = subprocess.run(
            command, cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=MOST, check=False
        )
        log.info("step %d\n%s%s", step, done.stdout, done.stderr)
        assert done.returncode == 0, f"step {step}: {done.stdout}{done.stderr}"
        return done.stdout

    def edits(self, name: str, change: Mapping[Field, Any], *, to: str = "") -> None:
        """Change fields of a YAML file."""
        found = yaml.safe_load((self.folder / name).read_text())
        for path, value in change.items():
            place = found
            for part in path[:-1]:
                place = place[part]
            place[path[-1]] = value
        (self.folder / (to or name)).write_text(yaml.safe_dump(found))

    def left(self) -> list[int]:
        """Return the steps whose commands were not run."""
        return sorted(number for number, text in self._steps.items() if text)


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("prometheus_operator")
def test_from_nothing_to_two_warehouses_that_are_watched(stage: Stage, lake: Stage, tmp_path: Path) -> None:
    reader = Reader(stage, tmp_path)
    reader.does(2)
    for namespace in (SYSTEM, MAIN):
        running_sandbox().claim_warehouse(namespace, "file")
    secret = stage.cluster.get("secret", S3_CLIENT, namespace=lake.settings.namespace)
    assert secret
    (tmp_path / "credentials").write_bytes(base64.b64decode(secret["data"]["credentials"]))
    reader.does(3)
    write_values(reader, stage, lake)
    reader.does(5)
    check_hand_over(reader, stage)
    shown = reader.does(7)
    assert all(kind in shown for kind in ("podmonitor.", "prometheusrule.", f"{RELEASE}-dashboard"))
    check_scraped(stage)
    with stage.connect() as warehouse, scene_of(stage, warehouse) as scene:
        compact_one(reader, scene)
        reader.edits("manifests/samples/policy.yaml", {("spec", "tables", "include"): [f"{scene.database}.*"]})
        reader.does(9)
        waiting = ("-n", MAIN, "--for=condition=Ready", "tcp/nightly", "--timeout=120s")
        stage.cluster.kubectl("wait", *waiting, timeout=130)
    with lake.connect() as warehouse, scene_of(lake, warehouse) as scene:
        compact_on_s3(reader, scene)
    reader.does(10)
    assert reader.left() == [1]


def write_values(reader: Reader, stage: Stage, lake: Stage) -> None:
    """Write the reader's own names into the sample."""
    repository, _, tag = stage.settings.operator_image.rpartition(":")
    controller, _, _ = running_sandbox().controller_image.rpartition(":")
    own: dict[Field, Any] = {
        ("image",): {"repository": repository, "tag": tag},
        ("controllerImage", "repository"): controller,
        ("warehouses", 0, "metastore", "uris"): [stage.settings.metastore_uri],
        ("warehouses", 1, "metastore", "uris"): [lake.settings.metastore_uri],
        ("warehouses", 1, "locations"): [lake.settings.warehouse_location],
        ("warehouses", 1, "stores", "s3", "endpoint"): S3_ENDPOINT,
    }
    reader.edits("manifests/samples/production/values.yaml", own, to="values.yaml")


def check_hand_over(reader: Reader, stage: Stage) -> None:
    """Another pod leads soon after the leader was deleted."""
    before = holder(stage)
    reader.does(6)
    wait_until(lambda: holder(stage) not in ("", before), timeout=HANDOVER, what="another leader")
    log.info("another controller leads")


def holder(stage: Stage) -> str:
    lease = stage.cluster.get("lease", RELEASE, namespace=SYSTEM)
    assert lease
    return str(lease["spec"].get("holderIdentity", ""))


def check_scraped(stage: Stage) -> None:
    """The PodMonitor chooses both controllers, by a port that they have; one of them leads."""
    monitor = stage.cluster.get("podmonitor", RELEASE, namespace=SYSTEM)
    assert monitor
    labels = ",".join(f"{key}={value}" for key, value in monitor["spec"]["selector"]["matchLabels"].items())
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]

    def leaders() -> list[str]:
        pods = stage.cluster.get_all("pods", namespace=SYSTEM, selector=labels)
        names = [one["metadata"]["name"] for one in pods if "deletionTimestamp" not in one["metadata"]]
        paths = [
            f"/api/v1/namespaces/{SYSTEM}/pods/{name}:{port_of(pods[0], endpoint)}/proxy/metrics" for name in names
        ]
        found = [stage.cluster.kubectl("get", "--raw", path) for path in paths]
        return sorted(re.findall(r"^compaction_operator_leader (\S+)$", "\n".join(found), re.MULTILINE))

    wait_until(lambda: leaders() == ["0.0", "1.0"], timeout=60, what="a leader beside a standby")


def port_of(pod: dict[str, Any], endpoint: dict[str, Any]) -> int:
    (container,) = pod["spec"]["containers"]
    (port,) = (one["containerPort"] for one in container["ports"] if one["name"] == endpoint["port"])
    return int(port)


def compact_one(reader: Reader, scene: Scene) -> None:
    """One table by hand; its obsolete directories go."""
    table = scene.table(TABLE_TXN_001)
    rows = scene.warehouse.rows(table)
    named = {"database": table.database, "name": table.name}
    reader.edits("manifests/samples/minor.yaml", {("spec", "table"): named})
    assert "succeeded" in reader.does(8)
    check_cleaned(scene, table, rows)


def compact_on_s3(reader: Reader, scene: Scene) -> None:
    """The same in the other warehouse, by the same sample."""
    table = scene.table(TABLE_TXN_001)
    rows = scene.warehouse.rows(table)
    change: dict[Field, Any] = {
        ("spec", "warehouse"): "lake",
        ("spec", "table"): {"database": table.database, "name": table.name},
    }
    reader.edits("manifests/samples/minor.yaml", change)
    sample = str(reader.folder / "manifests" / "samples" / "minor.yaml")
    scene.cluster.kubectl("apply", "-n", LAKE, "-f", sample)
    waiting = ("-n", LAKE, "--for=condition=Complete", "tcomp/minor", f"--timeout={MOST:.0f}s")
    scene.cluster.kubectl("wait", *waiting, timeout=MOST + 10)
    check_cleaned(scene, table, rows)


def check_cleaned(scene: Scene, table: HiveTable, rows: list[str]) -> None:
    """Nothing is left but what the compaction made, with all rows."""
    wait_until(lambda: len(scene.names(table)[""]) == 1, timeout=MOST, what=f"the deltas of {table.name} to go")
    (name,) = scene.names(table)[""]
    assert name.startswith(MINOR)
    assert scene.warehouse.rows(table) == rows
