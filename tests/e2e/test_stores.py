"""The demo's story on HDFS and on S3, as `make demo STORAGE=…` tells it, each with a metastore of its own."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from sandbox.cluster.running import running_sandbox
from sandbox.demo.play import Play
from sandbox.demo.story import Story
from sandbox.harness.places import StorageKind
from sandbox.harness.settings import beside
from sandbox.harness.stage import Stage

from tests.e2e.conftest import STAGE
from tests.e2e.scene import install

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
