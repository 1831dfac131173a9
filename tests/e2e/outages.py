"""Kubernetes or the metastore fails during a run: what a user reads meanwhile, and that all ends with the right rows.

`make fault-test` runs it, and CI does not: it takes minutes, and it stops what other tests need. Beside it
test_faults.py kills what may die at once.
"""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sandbox.cluster.running import HERE, running_sandbox
from sandbox.harness import expected, namespaces
from sandbox.harness.cluster import CommandError
from sandbox.harness.compactions import EXECUTORS, ONE_EXECUTOR, SMALL_SPARK
from sandbox.harness.stage import Stage, Warehouse
from sandbox.harness.tables import TABLE_TXN_001, HiveTable, fourth_write
from sandbox.harness.wait import wait_until
from sandbox.metastore.admin import MetastoreAdmin

from compaction_operator.api.cleanup import LABEL_COMPACTION_UID
from compaction_operator.api.compaction import Phase
from compaction_operator.api.config import Metastore
from compaction_operator.api.model import parse_size
from tests.e2e.conftest import MakeReader
from tests.e2e.minor import MOST, SOON, Minor
from tests.e2e.scene import CRAMPED, NO_IMAGE, UNPULLABLE, MetastorePod, Scene, install, scene_of, succeeded

NODE = "sandbox-node"
DOOMED = "doomed"
OUTAGE = 180.0
"""Seconds for which the metastore is away."""


def check_compacted(scene: Scene, compaction: str, table: HiveTable, rows: list[str], *, failed: int = 0) -> None:
    """Check that a minor compaction of three inserts has succeeded, with the directories and rows that it must have."""
    status = scene.compactions.wait_succeeded(compaction, timeout=MOST)
    assert status.failed_attempts == failed
    scene.cleaned(compaction)
    assert scene.names(table) == {"": expected.AFTER_INSERTS_MINOR}
    assert scene.warehouse.rows(table) == rows


@contextmanager
def image_there(image: str) -> Iterator[None]:
    """Give the node the image that profile UNPULLABLE names."""
    ctr = (str(HERE / "in-node.sh"), "ctr", "--namespace", "k8s.io", "images")
    subprocess.run([*ctr, "tag", image, NO_IMAGE], check=True, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        subprocess.run([*ctr, "rm", NO_IMAGE], check=True, stdout=subprocess.DEVNULL)


def test_an_image_that_cannot_be_pulled(scene: Scene, stage: Stage) -> None:
    """The reason, one event in each attempt, a time-out; and the compaction goes on once the image is there."""
    table = scene.table(TABLE_TXN_001)
    rows = scene.warehouse.rows(table)
    compaction = scene.compact(table, "Minor", spark={**SMALL_SPARK, "profile": UNPULLABLE}, retry=SOON)

    def cannot_pull() -> bool:
        return scene.verdict(compaction).reason in ("ErrImagePull", "ImagePullBackOff")

    wait_until(cannot_pull, timeout=120, what="the image to be missed")
    assert (scene.compactions.status(compaction).phase, NO_IMAGE in scene.verdict(compaction).message) == (
        Phase.WAITING,
        True,
    )
    ended = scene.wait_reason(compaction, "ImagePullFailed")
    assert "not started within 15s: the driver is waiting: " in ended.message
    assert NO_IMAGE in ended.message
    assert any(scene.events(compaction, reason) for reason in ("ErrImagePull", "ImagePullBackOff"))
    assert len(scene.events(compaction, "ImagePullFailed")) == 1
    assert scene.names(table) == {"": expected.INSERTS}
    with image_there(stage.settings.operator_image):
        check_compacted(scene, compaction, table, rows)


def test_an_executor_is_killed(scene: Scene) -> None:
    """Spark asks for another one, and the attempt goes on."""
    table = scene.table(TABLE_TXN_001)
    rows = scene.warehouse.rows(table)
    compaction = scene.compact(table, "Minor", spark=ONE_EXECUTOR)
    scene.compactions.wait_executor()
    killed = scene.cluster.get_all("pods", namespace=scene.namespace, selector=EXECUTORS)
    scene.kill_pods(scene.namespace, "-l", EXECUTORS)

    def replaced() -> bool:
        found = scene.cluster.get_all("pods", namespace=scene.namespace, selector=EXECUTORS)
        return bool({pod["metadata"]["uid"] for pod in found} - {pod["metadata"]["uid"] for pod in killed})

    wait_until(replaced, timeout=120, what="another executor")
    check_compacted(scene, compaction, table, rows)
    assert scene.compactions.status(compaction).attempt == 1


def test_the_node_of_a_driver_is_drained(scene: Scene) -> None:
    """The driver is evicted in the middle. Without a node the next one waits; on another one it does the work."""
    minor = Minor(scene)
    minor.wait_in_the_middle()
    mine = f"{LABEL_COMPACTION_UID}={scene.uid(minor.name)}"
    try:
        # NB: the node has everything else, too.
        drain = ("drain", NODE, f"--pod-selector={mine}", "--delete-emptydir-data", "--timeout=120s")
        scene.cluster.kubectl(*drain, timeout=130)
        condition = scene.wait_reason(minor.name, "Unschedulable")
        # NB: a pod may be gone before the controller has seen why.
        assert scene.events(minor.name, "Evicted") or scene.events(minor.name, "Interrupted")
        assert "1 node(s) were unschedulable" in condition.message
    finally:
        scene.cluster.kubectl("uncordon", NODE)
    scene.unlock(minor.lock)
    minor.check_end(most_attempts=2)
    assert scene.compactions.status(minor.name).failed_attempts == 0


def test_a_driver_runs_out_of_memory(scene: Scene) -> None:
    """The kernel kills it: it is the largest process. The next attempt's driver has half as much memory again."""
    minor = Minor(scene, spark={**SMALL_SPARK, "profile": CRAMPED})
    minor.wait_in_the_middle()
    driver = scene.wait_driver(minor.name)
    with pytest.raises(CommandError):
        scene.cluster.kubectl(
            "exec", driver, "-n", scene.namespace, "--", "dd", "if=/dev/zero", "of=/ram/full", "bs=1M"
        )
    scene.wait_driver(minor.name, 2)
    (event,) = scene.events(minor.name, "AttemptFailed")
    assert event.startswith("OOMKilled: attempt 1 failed (1 of 3): the driver exited with code 137 (OOMKilled)")
    scene.unlock(minor.lock)
    minor.check_end(most_attempts=2)
    assert scene.compactions.status(minor.name).failed_attempts == 1
    first, second = sorted(memory_limit(job) for job in scene.jobs(minor.name))
    assert second / first == pytest.approx(1.5, rel=0.01)


def memory_limit(job: dict[str, Any]) -> int:
    """Return the bytes that the pods of a Job may use."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return parse_size(container["resources"]["limits"]["memory"])


def test_a_quota_is_used_up(scene: Scene) -> None:
    """The API server's words, an event; and the same attempt goes on when there is room."""
    table = scene.table(TABLE_TXN_001)
    rows = scene.warehouse.rows(table)
    scene.cluster.kubectl("create", "quota", "full", "--hard=pods=0", "-n", scene.namespace)
    try:
        compaction = scene.compact(table, "Minor", retry=SOON)
        condition = scene.wait_reason(compaction, "QuotaExceeded")
        assert "exceeded quota: full" in condition.message
        assert scene.compactions.status(compaction).phase is Phase.WAITING
        assert len(scene.events(compaction, "QuotaExceeded")) == 1
    finally:
        scene.cluster.kubectl("delete", "quota", "full", "-n", scene.namespace)
    check_compacted(scene, compaction, table, rows)
    assert scene.compactions.status(compaction).attempt == 1


def test_the_metastore_is_away_for_minutes(
    scene: Scene, stage: Stage, warehouse: Warehouse, make_reader: MakeReader
) -> None:
    """A driver in the middle gives up, and a cleanup deletes nothing. Both say what is away, and then go on."""
    read = scene.table(TABLE_TXN_001)
    reader = make_reader("frank").lock(read)
    published = scene.compact(read, "Minor")
    scene.compactions.wait_succeeded(published)
    cleanup = scene.cleanup_of(published)
    scene.compactions.wait_blocked(cleanup)
    minor = Minor(scene)
    minor.wait_in_the_middle()
    metastore = MetastorePod(stage, warehouse)
    metastore.stop()
    back = time.monotonic() + OUTAGE
    try:
        assert "metastore" in scene.wait_reason(minor.name, "MetastoreUnavailable").message

        def noticed() -> bool:
            return succeeded(scene.compactions.cleanup_status(cleanup).conditions).reason == "MetastoreUnavailable"

        wait_until(noticed, timeout=120, what="the cleanup to say why it waits")
        wait_until(lambda: time.monotonic() >= back, timeout=OUTAGE, what="the end of the outage")
        assert scene.names(read) == {"": expected.INSERTS | expected.AFTER_INSERTS_MINOR}
    finally:
        metastore.start()
    blockers = scene.compactions.wait_blocked(cleanup).blockers
    assert [blocker.txn_id for blocker in blockers] == [reader.txn]
    reader.release()
    scene.compactions.wait_cleaned(cleanup)
    assert scene.names(read) == {"": expected.AFTER_INSERTS_MINOR}
    scene.unlock(minor.lock)
    minor.check_end(most_attempts=9)
    assert scene.compactions.status(minor.name).failed_attempts == 0


@contextmanager
def no_api_server(warehouse: Warehouse) -> Iterator[None]:
    """Kill the API server, and start it again at the end."""
    script = str(HERE / "api-server.sh")
    subprocess.run([script, "stop"], check=True)
    try:
        yield
    finally:
        subprocess.run([script, "start"], check=True)
        warehouse.forward.restart()


def leader(stage: Stage) -> tuple[str, int]:
    """Return which process leads: its pod, and how often that was started."""
    (pod,) = stage.cluster.get_all("pods", namespace=stage.operator.namespace, selector=stage.operator.selector)
    return pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]


def test_the_api_server_is_away_while_a_driver_publishes(scene: Scene, stage: Stage, warehouse: Warehouse) -> None:
    """The driver does not need it. The controller ends itself, and its successor finds what was published."""
    minor = Minor(scene)
    minor.wait_in_the_middle()
    before, process = leader(stage), controllers()
    folder = running_sandbox().warehouse / minor.table.location.removeprefix("file:/warehouse/")
    with no_api_server(warehouse), MetastoreAdmin(Metastore(uris=(running_sandbox().metastore_uri,))) as admin:
        admin.unlock(minor.lock)

        def published() -> bool:
            return {path.name for path in folder.iterdir()} >= expected.AFTER_UPDATE_MINOR

        wait_until(published, timeout=120, what="the driver to publish")
        assert {path.name for path in folder.iterdir()} >= expected.INSERTS | expected.UPDATE
        wait_until(lambda: controllers() != process, timeout=120, what="the controller to end itself")
    minor.check_end(most_attempts=1)
    assert len(scene.jobs(minor.name)) == 1
    assert leader(stage) == (before[0], before[1] + 1)


def controllers() -> str:
    """Return the numbers of the controller's processes, as the node has them."""
    command = [str(HERE / "in-node.sh"), "pgrep", "-f", "python3 .*compaction-operator run"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout


@pytest.fixture
def doomed(stage: Stage, warehouse: Warehouse) -> Iterator[Scene]:
    """A namespace of its own with a warehouse of its own, which has the same tables."""
    other = Stage(replace(stage.settings, namespace=DOOMED, warehouse=DOOMED))
    namespaces.prepare(other.cluster, other.settings)
    install(stage, other)
    with scene_of(other, warehouse) as scene:
        yield scene
    install(stage)


def test_a_namespace_is_deleted_in_mid_run(scene: Scene, stage: Stage, doomed: Scene, warehouse: Warehouse) -> None:
    """Its cleanup and its driver leave all files, and no lock. Another namespace then does their work."""
    read = doomed.table(TABLE_TXN_001)
    lock = doomed.lock(read)
    published = doomed.compact(read, "Major", warehouse=DOOMED)
    doomed.compactions.wait_succeeded(published)
    doomed.compactions.wait_blocked(doomed.cleanup_of(published))
    minor = Minor(doomed, warehouse=DOOMED)
    minor.wait_in_the_middle()
    before = leader(stage)
    doomed.cluster.kubectl("delete", "namespace", DOOMED, "--timeout=110s")

    def left() -> list[int]:
        return [one.lock_id for one in warehouse.admin.show_locks(minor.table.database, minor.table.name)]

    wait_until(lambda: left() == [minor.lock], timeout=MOST, what="the driver's locks to be given back")
    assert doomed.names(minor.table) == {"": expected.INSERTS | expected.UPDATE}
    doomed.unlock(lock)
    doomed.unlock(minor.lock)
    again = scene.compact(minor.table, "Minor")
    scene.compactions.wait_succeeded(again)
    scene.cleaned(again)
    assert doomed.names(minor.table) == {"": expected.AFTER_UPDATE_MINOR}
    assert warehouse.rows(minor.table) == minor.rows
    assert doomed.names(read) == {"": expected.INSERTS | expected.AFTER_INSERTS_MAJOR}
    warehouse.writer.write(read, fourth_write())
    rows = warehouse.rows(read)
    after = scene.compact(read, "Major")
    scene.compactions.wait_succeeded(after)
    scene.cleaned(after)
    assert doomed.names(read) == {"": frozenset({"base_0000004"})}
    assert warehouse.rows(read) == rows
    assert leader(stage) == before
