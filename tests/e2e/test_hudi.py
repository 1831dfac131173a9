"""Hudi tables on a real cluster, as the samples ask for it, with both of Hudi's versions that the image holds."""

import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from sandbox.harness import hudi
from sandbox.harness.settings import WAREHOUSE
from sandbox.harness.tables import TABLE_TXN_001, HudiTable
from sandbox.harness.wait import wait_until
from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import Row, SmallTable

from compaction_operator.api.hudi import HudiStatus
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.api.policy import KIND, PLURAL
from compaction_operator.hudi import BUNDLES
from tests.e2e.scene import Scene

UPSERTS = ((range(100), 10), (range(20), 20), (range(10, 30), 30), (range(40), 5), (range(30, 50), 40))
"""A base file and four log files; the last but one brings rows that are older than those which are there."""
BLOCKS = len(UPSERTS) - 1
SAMPLES = Path(__file__).parents[2] / "manifests" / "samples"
FILE_LOCKS = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.filesystem.expire": "1",
}
DRIVER = {"driver": {"cores": 1, "memory": "768m"}}
EXECUTOR = {**DRIVER, "executors": {"instances": 1, "cores": 1, "memory": "768m"}}
MANY = 300.0
"""Seconds for a compaction beside another on a busy node."""


@dataclass(frozen=True)
class Case:
    """A table in the warehouse, the rows that it must always have, and its log compaction, which is under way."""

    table: HudiTable
    rows: Mapping[int, Row]
    compaction: str


@pytest.fixture(scope="module")
def cases(shared_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Case]]:
    """One by location; one by name, with an executor pod; one by location on a schedule; two without a compaction."""
    scene, folder = shared_scene, tmp_path_factory.mktemp("hudi")
    older, newer = written(folder / "by_location", "1.0.2"), written(folder / "by_name", "1.2.0")
    located = scene.hudi_table(older.location)
    named = scene.hudi_table(newer.location, name="named")
    regular = scene.hudi_table(Path(shutil.copytree(older.location, folder / "scheduled")))
    nobodys = scene.hudi_table(Path(shutil.copytree(older.location, folder / "nobodys")))
    selected = scene.hudi_table(Path(shutil.copytree(newer.location, folder / "selected")), name="selected")
    merge = sample("hudi-log-compaction")
    first = scene.compact(located, "LogCompaction", hudi=merge, spark=DRIVER)
    second = scene.compact(named, "LogCompaction", hudi=shared(merge), spark=EXECUTOR)
    with scheduled(scene, regular) as third:
        yield {
            "by_location": Case(located, older.expected, first),
            "by_name": Case(named, newer.expected, second),
            "scheduled": Case(regular, older.expected, third),
            "nobodys": Case(nobodys, older.expected, ""),
            "selected": Case(selected, newer.expected, ""),
        }


def sample(name: str) -> dict[str, Any]:
    """Return what a sample says of Hudi."""
    found: dict[str, Any] = yaml.safe_load((SAMPLES / f"{name}.yaml").read_text())["spec"]["hudi"]
    return found


def shared(options: dict[str, Any]) -> dict[str, Any]:
    """Return the same for a table that others write to: with a lock provider."""
    own = {key: value for key, value in options.items() if key != "singleWriter"}
    return {**own, "options": own["options"] | FILE_LOCKS}


@contextmanager
def scheduled(scene: Scene, table: HudiTable) -> Iterator[str]:
    """Apply the sample of a CronJob to a table, let it run once, and give the name of the compaction that it makes."""
    name = f"hudi-{uuid.uuid4().hex[:8]}"
    objects = list(yaml.safe_load_all((SAMPLES / "hudi-schedule.yaml").read_text().replace("hudi-schedule", name)))
    settings, cron = objects[:2]
    compaction = yaml.safe_load(settings["data"]["compaction.yaml"])
    spec = compaction["spec"]
    spec |= {"table": table.reference, "hudi": shared(spec["hudi"]), "spark": DRIVER}
    settings["data"]["compaction.yaml"] = yaml.safe_dump(compaction)
    cron["spec"]["suspend"] = True  # its time may come during the test
    pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pod["containers"][0]["image"] = scene.stage.settings.operator_image
    scene.cluster.apply(*({**one, "metadata": {**one["metadata"], "namespace": scene.namespace}} for one in objects))
    try:
        scene.cluster.kubectl("create", "job", name, f"--from=cronjob/{name}", "-n", scene.namespace)
        scene.adopt(name)
        yield name
    finally:
        kinds = [f"{one['kind']}/{name}" for one in objects]
        scene.cluster.kubectl("delete", f"job/{name}", *kinds, "-n", scene.namespace, "--ignore-not-found")


def written(folder: Path, version: str) -> SmallTable:
    """Return a table in a folder of this machine, as that version of Hudi writes it."""
    with HudiSession(version, cores=1) as session:
        table = SmallTable(session.spark, folder)
        for ids, ts in UPSERTS:
            table.upsert(ids, ts)
    return table


def succeeded(scene: Scene, compaction: str) -> HudiStatus:
    """Return what a compaction says of the table once it has succeeded; it made no cleanup."""
    found = scene.compactions.wait_succeeded(compaction, timeout=MANY).hudi
    assert found is not None
    assert scene.verdict(compaction).reason == "Compacted"
    assert scene.compactions.cleanups(compaction) == []
    return found


def check_rows(scene: Scene, case: Case) -> None:
    """A reader without a JVM sees each row once, and no late one."""
    found = [(row["id"], Row(row["ts"], row["v"])) for row in hudi.rows(scene.warehouse.toolbox, case.table)]
    assert sorted(found) == sorted(case.rows.items())


def timeline(scene: Scene, case: Case) -> set[str]:
    """Return the names of the instants in the table's folder, one for each state."""
    return scene.warehouse.toolbox.names(f"{case.table.location}/.hoodie/timeline")


def test_the_image_holds_each_version(shared_scene: Scene) -> None:
    """What the operator may choose is there, and no other bundle. Beside them is Hadoop's connector to S3."""
    found = shared_scene.warehouse.toolbox.run("sh", "-c", 'ls "$HUDI_BUNDLES"').split()
    bundles = {name for name in found if name.startswith("hudi-")}
    assert bundles == {f"hudi-spark3.5-bundle_2.12-{version}.jar" for version in BUNDLES}
    assert any(name.startswith("hadoop-aws-") for name in found)


def test_what_cannot_be_compacted_is_refused(shared_scene: Scene, cases: dict[str, Case]) -> None:
    """The controller asks configuration, metastore and the table itself before it starts a pod."""
    scene, located, named = shared_scene, cases["by_location"].table, cases["by_name"].table
    hive = scene.table(TABLE_TXN_001, "hive")
    foreign = {"singleWriter": True, "options": {"hoodie.table.name": "other"}}
    older = {"singleWriter": True, "bundle": "1.0.2"}
    scene.check_refused(
        {
            scene.compact(HudiTable("file:/elsewhere/t"), "Compaction"): ("NotAllowed", "/elsewhere/t"),
            scene.compact(HudiTable(f"{located.location}/t"), "Compaction"): ("TableNotFound", "/by_location/t"),
            scene.compact(named, "Major"): ("WrongFormat", f"{scene.database}.named"),
            scene.compact(hive, "LogCompaction"): ("WrongFormat", f"{scene.database}.hive"),
            scene.compact(located, "LogCompaction"): ("NoLockProvider", "hoodie.write.lock.provider"),
            scene.compact(located, "LogCompaction", hudi=foreign): ("RefusedOption", "hoodie.table.name"),
            scene.compact(named, "LogCompaction", hudi=older): ("UnsupportedTable", "1.0.2"),
        }
    )


def test_log_compaction_then_compaction_by_location(shared_scene: Scene, cases: dict[str, Case]) -> None:
    """Four log blocks become one, and that a base file."""
    scene, case = shared_scene, cases["by_location"]
    merged = succeeded(scene, case.compaction)
    assert (merged.table_version, merged.bundle) == (8, "1.0.2")
    assert (merged.action, merged.state, merged.file_groups) == ("logcompaction", "Completed", 1)
    assert (merged.blocks_in, merged.blocks_out) == (BLOCKS, 1)
    assert f"{merged.instant}.logcompaction.requested" in timeline(scene, case)
    check_rows(scene, case)
    full = scene.compact(case.table, "Compaction", hudi=sample("hudi-compaction"), spark=DRIVER)
    compacted = succeeded(scene, full)
    assert (compacted.action, compacted.state, compacted.file_groups) == ("compaction", "Completed", 1)
    bases = [name for name in scene.warehouse.toolbox.names(case.table.location) if name.endswith(".parquet")]
    assert [name for name in bases if name.endswith(f"_{compacted.instant}.parquet")]
    check_rows(scene, case)


def test_log_compaction_on_a_schedule(shared_scene: Scene, cases: dict[str, Case]) -> None:
    """A run of the sample's CronJob applies a compaction like any other."""
    scene, case = shared_scene, cases["scheduled"]
    merged = succeeded(scene, case.compaction)
    assert (merged.action, merged.state, merged.blocks_in) == ("logcompaction", "Completed", BLOCKS)
    check_rows(scene, case)


def test_log_compaction_by_name(shared_scene: Scene, cases: dict[str, Case]) -> None:
    """The metastore says where the table is and that it is one of Hudi's; its version chooses the bundle."""
    scene, case = shared_scene, cases["by_name"]
    merged = succeeded(scene, case.compaction)
    assert (merged.table_version, merged.bundle) == (9, "1.2.0")
    assert (merged.action, merged.state, merged.file_groups) == ("logcompaction", "Completed", 1)
    assert (merged.blocks_in, merged.blocks_out) == (BLOCKS, 1)
    check_rows(scene, case)


def test_nothing_is_done_to_a_table_that_no_resource_names(shared_scene: Scene, cases: dict[str, Case]) -> None:
    """RFC-48: not enabled by default. It was a copy of one that was compacted beside it, and has what that had then."""
    scene, case = shared_scene, cases["nobodys"]
    assert not {name for name in timeline(scene, case) if ".logcompaction." in name or ".compaction." in name}
    names = scene.warehouse.toolbox.names(case.table.location)
    assert len([name for name in names if ".log." in name and not name.endswith(".crc")]) == BLOCKS
    check_rows(scene, case)


def test_a_policy_compacts_a_table_that_is_due(shared_scene: Scene, cases: dict[str, Case]) -> None:
    """The metastore names the table, its timeline says that it is due, and the policy's own lock provider is used."""
    scene, case = shared_scene, cases["selected"]
    spec = {
        "warehouse": WAREHOUSE,
        "tables": {"include": [f"{scene.database}.selected"]},
        "thresholds": {"deltaCommits": BLOCKS},
        "interval": "10s",
        "template": {"hudi": {"options": FILE_LOCKS}, "spark": DRIVER},
    }
    scene.compactions.apply(
        {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "metadata": {"name": "lake"}, "spec": spec}
    )
    try:
        (name,) = wait_until(lambda: scene.owned_by("lake"), timeout=MANY, what="a compaction of the policy")
        compacted = succeeded(scene, name)
        assert (compacted.action, compacted.state, compacted.file_groups) == ("compaction", "Completed", 1)
        check_rows(scene, case)
    finally:
        scene.cluster.kubectl("delete", PLURAL, "lake", "-n", scene.namespace, "--timeout=60s")
