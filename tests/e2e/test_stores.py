"""The demo's story on HDFS and on S3, as `make demo STORAGE=…` tells it, each with a metastore of its own.

And no secret of a store is shown where users look.
"""

import base64
import re
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from sandbox.cluster.running import running_sandbox
from sandbox.demo.play import Play
from sandbox.demo.story import Story
from sandbox.harness.compactions import ONE_EXECUTOR
from sandbox.harness.forward import PortForward
from sandbox.harness.places import StorageKind
from sandbox.harness.settings import S3_CLIENT, S3_CLIENT_MOUNT, beside
from sandbox.harness.stage import Stage
from sandbox.harness.tables import TABLE_TXN_001

from compaction_operator.driver.spark import EXECUTOR_CONTAINER
from tests.e2e.conftest import STAGE
from tests.e2e.scene import ADMITTED, LOOKED_AT, Scene, install, scene_of

STORES: Mapping[StorageKind, str] = {"hdfs": "hdfs", "s3": "minio"}
"""The namespaces of their servers."""


@pytest.fixture(scope="module")
def stages(stage: Stage) -> Iterator[Mapping[StorageKind, Stage]]:
    """Both stores with metastores, and one operator that serves them beside the sandbox's own warehouse.

    Its controller has the small image, which must have what reaches the stores.
    """
    if stage.settings.storage != "file":
        pytest.skip("this sandbox was started with STORAGE: make demo tells the story on it")
    stages = {storage: Stage(beside(stage.settings, storage)) for storage in STORES}
    remove(stages)
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(start, stages.values()))
        install(stage, *stages.values(), controller_image=running_sandbox().controller_image)
        yield stages
        for one in stages.values():
            one.compactions.delete_all()
    finally:
        install(stage)
        remove(stages, "--wait=false")


def start(stage: Stage) -> None:
    """Start a store and its metastore, and what uses them."""
    running_sandbox().start_warehouse(stage.settings.storage, stage.settings.metastore_namespace)
    stage.prepare()


def remove(stages: Mapping[StorageKind, Stage], *options: str) -> None:
    """Remove the namespaces of the stores, with all that is in them."""
    for storage, stage in stages.items():
        names = STORES[storage], stage.settings.metastore_namespace, stage.settings.namespace
        stage.cluster.kubectl("delete", "namespace", *names, "--ignore-not-found", *options)


@pytest.fixture
def blame(request: pytest.FixtureRequest, stage: Stage) -> Iterator[Callable[[Stage], None]]:
    """Takes the stage that the report of a failure shows."""
    stash = request.config.stash
    yield lambda failed: stash.__setitem__(STAGE, failed)
    stash[STAGE] = stage


@pytest.mark.timeout(1800)
def test_the_demos_story_on_both_at_once(stages: Mapping[StorageKind, Stage], blame: Callable[[Stage], None]) -> None:
    """Nothing is deleted while alice reads, then what is obsolete goes, and every row stays as it was."""
    with ThreadPoolExecutor() as pool:
        for ended in [pool.submit(tell, one, blame) for one in stages.values()]:
            ended.result()


def tell(stage: Stage, blame: Callable[[Stage], None]) -> None:
    """Play the story on one store."""
    try:
        with stage.connect() as warehouse:
            Play(stage, warehouse, Story(f"{stage.settings.storage}: ")).all()
    except Exception:
        blame(stage)
        raise


SHOWN = "tcomp,ccl,tcp,jobs,pods,configmaps,events"
NODE = "sandbox-node"
SPARK_UI = 4040
PAGES = ("jobs/", "executors/", "environment/")


@pytest.fixture
def on_s3(stages: Mapping[StorageKind, Stage]) -> Iterator[Scene]:
    """A database on S3."""
    with stages["s3"].connect() as warehouse, scene_of(stages["s3"], warehouse) as scene:
        yield scene


@pytest.fixture
def node(on_s3: Scene) -> Iterator[str]:
    """The node, which takes no executor of profile LOOKED_AT until it has the label."""
    yield NODE
    on_s3.cluster.kubectl("label", "node", NODE, f"{ADMITTED}-")


def test_a_secret_is_shown_nowhere(on_s3: Scene, node: str) -> None:
    """Not on Spark's page, not in its event log, and not in resources, pods or their logs.

    The driver is in the middle of its work for as long as there is no node for its executor.
    """
    table = on_s3.table(TABLE_TXN_001)
    spark = {**ONE_EXECUTOR, "profile": LOOKED_AT}
    compaction = on_s3.compact(table, "Major", warehouse=on_s3.stage.settings.warehouse, spark=spark)
    on_s3.wait_reason(compaction, "ExecutorsWaiting", timeout=240)
    driver, secret = on_s3.wait_driver(compaction), key_of(on_s3)
    shown = everything(on_s3, driver)
    assert secret in inside(on_s3, driver, f"cat {S3_CLIENT_MOUNT}/credentials")
    assert "spark.eventLog.dir" in shown["environment/"]
    assert "SparkListenerEnvironmentUpdate" in shown["event log"]
    assert table.database in shown[SHOWN]
    assert EXECUTOR_CONTAINER in shown[SHOWN]
    forms = (secret, base64.b64encode(secret.encode()).decode())
    assert [place for place, text in shown.items() if any(form in text for form in forms)] == []
    on_s3.cluster.kubectl("label", "node", node, f"{ADMITTED}=")
    on_s3.compactions.wait_succeeded(compaction)


def key_of(scene: Scene) -> str:
    """Return the secret key by which the pods of a namespace log in to S3."""
    found = scene.cluster.get("secret", S3_CLIENT, namespace=scene.namespace)
    assert found
    file = base64.b64decode(found["data"]["credentials"]).decode()
    match = re.search(r"aws_secret_access_key *= *(\S+)", file)
    assert match
    return match[1]


def inside(scene: Scene, pod: str, command: str) -> str:
    """Return what a command of a shell prints in a pod."""
    return scene.cluster.kubectl("exec", pod, "-n", scene.namespace, "--", "sh", "-c", command)


def everything(scene: Scene, driver: str) -> dict[str, str]:
    """Return all that users see of a driver that runs, by where they see it."""
    kubectl, operator = scene.cluster.kubectl, scene.stage.operator
    with PortForward(scene.cluster, namespace=scene.namespace, target=f"pod/{driver}", port=SPARK_UI) as forward:
        pages = {page: fetched(f"http://127.0.0.1:{forward.port}/{page}") for page in PAGES}
    return {
        **pages,
        "event log": inside(scene, driver, "cat /events/*"),
        SHOWN: kubectl("get", SHOWN, "-n", scene.namespace, "-o", "yaml"),
        "the driver's log": kubectl("logs", driver, "-n", scene.namespace),
        "the operator's resources": kubectl("get", SHOWN, "-n", operator.namespace, "-o", "yaml"),
        "the controller's log": kubectl("logs", "-l", operator.selector, "--tail=-1", "-n", operator.namespace),
    }


def fetched(address: str) -> str:
    """Return a page."""
    with urllib.request.urlopen(address, timeout=30) as answer:
        text: str = answer.read().decode()
        return text
