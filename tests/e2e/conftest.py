"""The operator installed on a real cluster, once for all tests here; each makes its own tables (see scene.py).

The operator stays installed afterwards. What a failing test left in the cluster is added to its report.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack

import pytest
from sandbox.harness.reader import Reader
from sandbox.harness.settings import load
from sandbox.harness.stage import Stage, Warehouse

from tests.e2e.scene import Scene, install, scene_of

MakeReader = Callable[[str], Reader]

STAGE = pytest.StashKey[Stage]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/e2e/" in item.path.as_posix():
            item.add_marker(pytest.mark.cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    stage = item.config.stash.get(STAGE, None)
    if report.failed and stage is not None:
        report.sections.append(("what the cluster shows", stage.diagnosis()))
    return report


@pytest.fixture(scope="session")
def stage(request: pytest.FixtureRequest) -> Stage:
    """The cluster with the operator installed, looking for readers every two seconds."""
    stage = request.config.stash[STAGE] = Stage(load())
    stage.prepare()
    install(stage)
    return stage


@pytest.fixture(scope="session")
def warehouse(stage: Stage) -> Iterator[Warehouse]:
    """The metastore, through a port of this machine, and the files."""
    with stage.connect() as warehouse:
        yield warehouse


@pytest.fixture
def make_reader(warehouse: Warehouse) -> Iterator[MakeReader]:
    """Starts readers by their users' names; those that are left at the end of the test are released."""
    with ExitStack() as readers:
        yield lambda user: readers.enter_context(warehouse.reader(user))


@pytest.fixture
def scene(stage: Stage, warehouse: Warehouse) -> Iterator[Scene]:
    """A test's own database, compactions and readers."""
    with scene_of(stage, warehouse) as scene:
        yield scene


@pytest.fixture(scope="module")
def shared_scene(stage: Stage, warehouse: Warehouse) -> Iterator[Scene]:
    """The same for all tests of a module, for compactions that run side by side."""
    with scene_of(stage, warehouse) as scene:
        yield scene
