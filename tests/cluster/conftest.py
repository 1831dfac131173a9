"""The operator installed on a real cluster, once for all tests of this folder; each test makes its own tables.

The operator stays installed afterwards. What a failing test left in the cluster is added to its report.
"""

import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack

import pytest
from sandbox.harness.compactions import Compactions, manifest
from sandbox.harness.reader import Reader
from sandbox.harness.settings import load
from sandbox.harness.stage import Stage, Warehouse
from sandbox.harness.tables import Fixture, HiveTable

from tests.cluster.scene import Scene, install, scene_of

MakeTable = Callable[[Fixture], HiveTable]
Compact = Callable[..., str]
MakeReader = Callable[[str], Reader]

STAGE = pytest.StashKey[Stage]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/cluster/" in item.path.as_posix():
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
def compactions(stage: Stage) -> Compactions:
    """The compactions and cleanups of the test's namespace."""
    return stage.compactions


@pytest.fixture
def database() -> str:
    """The name of a database that no other test has."""
    return f"test_{uuid.uuid4().hex[:8]}"


@pytest.fixture
def make_table(warehouse: Warehouse, database: str) -> MakeTable:
    """Makes a table with all its writes, in the test's own database."""
    return lambda fixture: warehouse.writer.create(fixture, database=database)


@pytest.fixture
def compact(compactions: Compactions) -> Compact:
    """Applies a TableCompaction, `compact(table, "Minor", **spec)`, and returns its name, which no other has."""

    def apply(table: HiveTable, type_: str, **spec: object) -> str:
        name = f"{type_.lower()}-{uuid.uuid4().hex[:8]}"
        compactions.apply(manifest(name, table, type_, **spec))
        return name

    return apply


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
